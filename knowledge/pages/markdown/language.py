"""Detects the language of a text: by its script, then by the stop words that every text in a language is full of. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping

# ruff: noqa: RUF001 - letters of other scripts that look like Latin ones are meant
_LISTS = {
    "en": "a about after all also an and any are as at be because been before being but by can could did do does don down each "
    "for from had has have he her here his how i if in into is isn it its just may me more most my no not of on only or other "
    "our out over s she should so some such t than that the their them then there these they this to up us was we were what "
    "when where which while who why will with would you your",
    "de": "aber alle als am an auch auf aus bei bin bis das dass dem den der des die dies diese dieser doch du durch ein eine "
    "einem einen einer eines er es für hat haben hatte hier ich ihr im in ist ja kann kein keine mit nach nicht noch nun nur "
    "oder ob ohne sein sich sie sind so über um und uns unter vom von vor war was wenn werden wie wir wird wo zu zum zur",
    "fr": "ai ainsi au aux avec c ce ces cette comme d dans de des donc du elle en est et eux il ils j je l la le les leur lui "
    "m ma mais me mes moi n ne nos notre nous on ont ou par pas plus pour qu que qui s sa sans se ses si son sont sur t ta te "
    "tu un une vos votre vous y à été être",
    "es": "a al algo cada como con cuando de del desde durante donde el ella ellos en entre era es esta este esto están está fue ha "
    "hay la las le les lo los más me mi muy no nos o para pero por porque quien se sea ser si sin sobre son su sus también te "
    "tiene todo tu un una uno y ya yo",
    "it": "a ad ai al alla alle anche che chi ci come con cui d da dal dalla degli dei del della delle di e ed era essere gli ha "
    "hanno i il in io l la le lo loro ma mi ne nei nel nella no noi non o per perché più quando quella quello questa questo se "
    "si sia sono su sua sue suo tra tu un una uno vi è",
    "pt": "a ao aos as até com como da das de do dos e ela ele eles em entre era essa esse esta este eu foi há isso isto já mais "
    "mas me meu muito na nas nem no nos não o os ou para pela pelo por qual quando que quem se sem ser seu sua são só também "
    "te tem um uma você à é",
    "nl": "aan al als bij daar dan dat de der deze die dit door een en er ge geen had haar heb hebben heeft het hier hij hoe hun "
    "ik in is je kan maar me meer met mij na naar niet nog nu of om onder ook op over te tot uit van veel voor want was wat we "
    "wel werd wie wij worden wordt zal ze zich zijn zo zonder",
    "sv": "alla att av blev bli blir de dem den denna det detta dig din du där då efter ej eller en er ett från för ha hade han "
    "har hon hur här i inte jag kan man med men mig min mot mycket ni nu när och om oss på sig sin ska som så till under upp "
    "ut vad var vi vid vilken är än",
    "da": "af alle at bliver blev de deg dem den denne der deres det dette dig din du efter ej eller en end er et for fra ham han "
    "har havde hende her hvad hvis hvor hun i ikke ind jeg jer kan man med meget men mig min mod ned noget nogle nu når og også "
    "om op os over på sig sin skal som så til ud under var ved vi vil være",
    "no": "alle at av ble bli blir da de deg dem den denne der dere det dette din disse du eller en er et etter for fra ha hadde "
    "han har henne her hun hva hvis hvor i ikke inn jeg kan man med meg men mot mye må ned noe noen nå når og også om opp oss "
    "over på seg sin skal som så til ut under var ved vi vil være",
    "fi": "ei eivät en että hän he ja jo joka jos jossa jotka kaikki kanssa kuin kun me mikä minä mitä mukaan mutta myös ne niin "
    "nyt näin olen oli on ovat saa se sekä sen siitä sitä tai tämä tämän tätä tässä voi vain yli",
    "ru": "а без бы был была были было в вам вас весь во вот все всё вы где да для до его ее её если есть же за здесь и из или им "
    "их к как ко когда кто ли мне может мы на над надо наш не него нет ни но о об он она они оно от по под при с со так также "
    "там то тоже только у уже хотя чего чем что чтобы эта эти это этого этот я",
    "hu": "a az be csak de egy el és ez ezt fel ha hogy hogyan ide igen is ki kell le lehet meg mert mi mint minden most már még "
    "nagy ne nem nincs ott össze ő sem számára szerint új vagy vagyok valamint van vannak volt után úgy",
    "ro": "a acest această acestea ai al ale am ar are as au ca care ce cea cel cele cu cum că da dacă de din după este eu fi fie "
    "fost fără iar în la le lor lui mai mi ne nici noi nu o pe pentru prin s sau se sunt să sale și un una unei unui va vor "
    "ți îi între",
    "tr": "acaba ama ancak bana bazı ben bir biri biz bu buna bunu çok çünkü da daha de defa diye en gibi hem hep hepsi her hiç "
    "için ile ise kadar ki kim mi mı mu mü nasıl ne neden nerede o olan olarak olduğu onu sanki sen siz sonra şey şu tüm "
    "ve veya ya yani",
    "pl": "a aby ale bardzo bez bo by być był była było były co czy czyli dla do gdy gdzie go i ich ile im inne ja jak jako jej jego "
    "jest jeszcze jeśli już każdy kiedy kto która które którego której który którzy lub ma mi może mogą można musi my na nad nam nas "
    "nie nich nim niż o od on ona one oni oraz po pod podczas poza przed przez przy się są swoje ta tak także tam te tego tej ten "
    "teraz to tu tylko tym tych u w we więc wszystko z za ze że żeby",
    "cs": "a aby aj ale ani asi až bez bude budou by byl byla bylo byly být co což či další do ho i já jak jako je jeho jejich její "
    "jen ještě jestli již jsem jsme jsou k každý kde kdo když která které který kteří má mají mezi mi může můžete my na nad nebo než "
    "nebyl není o od on ona oni pak po pod podle pokud pro proč proto protože před přes při s se si tak také tam ten tedy to toho "
    "tohle tom tu ty tím u už v ve však všechny z za ze že",
    "sk": "a aby aj ak ako ale alebo ani asi až bez bol bola bolo boli bude budú by byť cez či čo do ho i ich ja je jeho jej ju k "
    "kde keď kto ktorá ktoré ktorí ktorý ma majú má medzi mi môže môžu my na nad než nie o od on ona oni po pod podľa pre prečo pred "
    "preto pretože pri s sa si som sme sú sú svoj ta tak tam táto te tento teda to toho tom tu ty už v vo však všetko z za zo že",
    "uk": "а але б без би був була були було в вам вас ви від він вона вони воно все де для до з за його й її їх і із коли кого ким "
    "лише має можна може ми мій на над нам нас наш не немає ні ніж о однак під після по при про саме себе так також там те той тому "
    "треба тут у уже хто це цей ця ці час чи чим чого що щоб як яка яке який які якщо я",
    "bg": "а ако ала бе без беше би бил били в вас ви във все всеки всички ги го да до докато е един една ето за защо и из или им "
    "има как както каква когато които който която което към ли между ме ми много мога може на над най не него нещо ние но някой ни "
    "от още по под преди през при с са само се си след сме със съм така там те този това тази тези то той трябва тук ще я",
    "hr": "a ako ali ako bez bi bih bila bile bili bilo bio biti da do dok duž ga gdje god i iako ih ili im ima iz ja je jedan jer "
    "jesu još kada kako kao koja koje koji kojih kojima kod li me mi mogu može možete na nad nakon ne nego neka nema netko ni nije "
    "nisu no o od on ona oni ono oko pa po pod prema pri s sa sam samo se sebe što su sve svi ta tada taj tako te ti to tu u uz već "
    "vi vam za zašto će ćete",
    "ca": "a al als amb aquest aquesta aquestes aquests això així cada com d de del dels des doncs el els ella em en ens entre era és "
    "està estan et fins ha han he hi ho i jo l la les li llavors m mateix més molt n ni no nosaltres o on per però perquè pot qual "
    "quan que què qui quin s se sense ser seu seva si sobre són també te té tot un una uns va van vostè",
    "id": "ada adalah agar akan aku anda antara apa apakah atau bagaimana bagi bahwa bisa dalam dan dapat dari dengan di dia "
    "hanya harus hingga ia ini itu jika juga kami kamu kapan karena ke kepada ketika kita lagi lain lebih maka mana "
    "masih mereka namun oleh pada para saat saja sampai sangat saya sebagai sebelum sebuah secara sedang sehingga sejak "
    "semua seperti serta setelah setiap siapa sudah supaya tanpa telah tetapi tidak untuk yaitu yang",
    "vi": "anh bạn bị bởi cả các cái cần chỉ cho chưa có của cùng cũng đã đang để đến đều đó được gì hay hoặc khi không là lại làm "
    "lên mà mỗi một nào này nên nếu người như nhưng những ở qua ra rằng rất sau sẽ tại tất theo thế thì tôi trên trong trước từ "
    "và vẫn vào vì về với",
    "el": "αλλά αν από αυτά αυτές αυτή αυτό αυτός για δε δεν είναι εκεί εμείς ένα ένας εδώ έχει έχουν έχω ή ήταν θα και κάθε κατά "
    "μα με μέσα μετά μη μην μια μόνο μου μπορεί να ο οι όμως όπως όταν ότι ούτε πρέπει πριν προς πρέπει πως πώς σαν σας σε στα στη "
    "στην στις στο στον στους τα τη την της τι τις το τον του τους των ως",
    "ar": "أن أنا أنت أو أي أين إذا إلى إن التي الذي الذين بعد بل بين تم ثم حتى حيث خلال ذلك سوف ضد عبر عن عند عندما على غير "
    "فقط في قبل قد كان كانت كل كما كيف لا لكن لم لماذا لن له لها ليس ما متى مع من منذ نحن هذا هذه هل هم هنا هناك هو هي و يكون يمكن",
    "fa": "آن آنها از است اگر اما او ای این با باید بر برای بعد به بود بی تا تر توسط چرا چه چون چگونه خود در دارد دارند را روی "
    "زیر شد شده شما شود کرد کرده کند که کنید گی ما من می نمی نیز نیست ها های هر هم همه همین هیچ و ولی یا یک",
    "he": "או אותו אותה אותם אז אחרי אחת איך איפה אך אל אם אין אינו אלא אלה אני אנחנו את אתה אתם בין בלי גם האם הוא היא היה היו "
    "היתה הם הן הנה זאת זה זו יש כאן כאשר כבר כדי כי כל כמו לא לאחר לו לי ללא לה להם לפני מאוד מה מי מתי מן על עד עם עכשיו "
    "פה רק של שלא שלו שלה שם תחת",
    "hi": "अपना अपनी अपने अब आप इन इस इसका इसकी इसके इसे उन उनका उनकी उनके उस उसका उसकी उसके उसे एक और कब कभी कर करके करता करते करना "
    "करने का कि किया किसी की कुछ के केवल कैसे को कोई कौन क्या क्यों गई गए गया जब जहाँ जा जाता जाती जाते जाने जैसे जो तक तब तो था थी थे "
    "दो न नहीं ने पर फिर बहुत भी मैं में यदि यह यहाँ या ये रहा रही रहे लिए वह वहाँ वाला वाली वाले वे सकता सकते सब सभी साथ से हम ही हुआ "
    "हुई हुए है हैं हो होता होती होते होना होने",
    "zh": "的 了 是 在 和 与 與 吗 嗎 呢 吧 啊 也 就 都 而 及 着 著 被 把 从 從 为 為 之 其 这 這 那",
    "ja": "の は を に が と で も て へ や か し た れ る さ い ら り す ま せ ん だ な よ ね そ こ う",
    "ko": "은 는 이 가 을 를 에 의 와 과 도 로 고 다",
}
STOP_WORDS: Mapping[str, frozenset[str]] = {
    language: frozenset(text.casefold().split()) for language, text in _LISTS.items()
}
"""Stop words by language, case-folded. Single letters are what an apostrophe leaves behind."""

_NAMES = {
    "english": "en",
    "german": "de",
    "deutsch": "de",
    "french": "fr",
    "français": "fr",
    "spanish": "es",
    "español": "es",
    "italian": "it",
    "italiano": "it",
    "portuguese": "pt",
    "português": "pt",
    "dutch": "nl",
    "nederlands": "nl",
    "swedish": "sv",
    "svenska": "sv",
    "danish": "da",
    "dansk": "da",
    "norwegian": "no",
    "norsk": "no",
    "nb": "no",
    "nn": "no",
    "finnish": "fi",
    "suomi": "fi",
    "russian": "ru",
    "русский": "ru",
    "hungarian": "hu",
    "magyar": "hu",
    "romanian": "ro",
    "română": "ro",
    "turkish": "tr",
    "türkçe": "tr",
    "polish": "pl",
    "polski": "pl",
    "czech": "cs",
    "čeština": "cs",
    "slovak": "sk",
    "slovenčina": "sk",
    "ukrainian": "uk",
    "українська": "uk",
    "bulgarian": "bg",
    "български": "bg",
    "croatian": "hr",
    "hrvatski": "hr",
    "catalan": "ca",
    "català": "ca",
    "indonesian": "id",
    "vietnamese": "vi",
    "persian": "fa",
    "farsi": "fa",
    "فارسی": "fa",
    "hindi": "hi",
    "हिन्दी": "hi",
    "中文": "zh",
    "日本語": "ja",
    "한국어": "ko",
    "ไทย": "th",
    "ελληνικά": "el",
    "العربية": "ar",
    "עברית": "he",
    "lao": "lo",
    "khmer": "km",
    "burmese": "my",
    "chinese": "zh",
    "japanese": "ja",
    "korean": "ko",
    "greek": "el",
    "arabic": "ar",
    "hebrew": "he",
    "thai": "th",
}
_SCRIPTS: tuple[tuple[str, re.Pattern[str]], ...] = (
    ("ja", re.compile(r"[\u3040-\u30ff]")),
    ("ko", re.compile(r"[\uac00-\ud7af]")),
    ("zh", re.compile(r"[\u3400-\u9fff]")),
    ("th", re.compile(r"[\u0e00-\u0e7f]")),
    ("lo", re.compile(r"[\u0e80-\u0eff]")),
    ("km", re.compile(r"[\u1780-\u17ff]")),
    ("my", re.compile(r"[\u1000-\u109f]")),
    ("el", re.compile(r"[\u0370-\u03ff]")),
    ("he", re.compile(r"[\u0590-\u05ff]")),
    ("ar", re.compile(r"[\u0600-\u06ff]")),
    ("hy", re.compile(r"[\u0530-\u058f]")),
    ("hi", re.compile(r"[\u0900-\u097f]")),
    ("bn", re.compile(r"[\u0980-\u09ff]")),
    ("pa", re.compile(r"[\u0a00-\u0a7f]")),
    ("gu", re.compile(r"[\u0a80-\u0aff]")),
    ("ta", re.compile(r"[\u0b80-\u0bff]")),
    ("te", re.compile(r"[\u0c00-\u0c7f]")),
    ("kn", re.compile(r"[\u0c80-\u0cff]")),
    ("ml", re.compile(r"[\u0d00-\u0d7f]")),
    ("ka", re.compile(r"[\u10a0-\u10ff]")),
)
_PERSIAN = re.compile("[\u067e\u0686\u0698\u06a9\u06af\u06cc]")
"""Letters of Persian that Arabic does not have."""
_TELLING_LETTERS = {
    "cs": re.compile("[ěřů]"),
    "sk": re.compile("[ľĺŕô]"),
    "pl": re.compile("[ąęłśżź]"),
    "es": re.compile("[ñ¿¡]"),
    "pt": re.compile("[ãõ]"),
    "ro": re.compile("[țșă]"),
    "hu": re.compile("[őű]"),
    "tr": re.compile("[ığş]"),
    "uk": re.compile("[іїєґ]"),
    "ru": re.compile("[ыэё]"),
    "hr": re.compile("[đ]"),
    "vi": re.compile("[ơưạảấầậếệịọộớợụứ]"),
}
"""Letters that few other languages use; they decide between neighbours that share most of their stop words."""
TELLING_WEIGHT = 0.5
MOST_TELLING = 6
_LETTERS = re.compile(r"[^\W\d_]")
_WORD = re.compile(r"[^\W\d_]+")
SAMPLE = 600
"""Characters that are examined: enough for a hundred stop words, few enough to do it for every document."""
FEWEST_HITS = 3
LEAST_SHARE = 0.12
SCRIPT_SHARE = 0.2
PERSIAN_SHARE = 0.03


def _weights() -> dict[str, tuple[tuple[str, float], ...]]:
    owners: dict[str, list[str]] = {}
    for language, listed in STOP_WORDS.items():
        for word in listed:
            owners.setdefault(word, []).append(language)
    return {word: tuple((language, 1 / len(found)) for language in found) for word, found in owners.items()}


_WEIGHTS = _weights()


def normal_language(name: str) -> str:
    """Return the two- or three-letter code for a name of a language (`en-US`, `English`, `nb`), "" for anything else."""
    head = re.split(r"[-_. ]", name.strip().casefold(), maxsplit=1)[0]
    code = _NAMES.get(head, head)
    return code if 2 <= len(code) <= 3 and code.isalpha() else ""


def detect(text: str) -> str:
    """Return the language code of the beginning of `text`, "" if that is not clear."""
    sample = text[:SAMPLE]
    if not sample.isascii() and (script := _by_script(sample)):
        return script
    found = _WORD.findall(sample.casefold())
    known = [word for word in found if word in _WEIGHTS]
    if len(known) < FEWEST_HITS or len(known) < LEAST_SHARE * len(found):
        return ""
    hits: dict[str, float] = {}
    for word in known:
        for language, share in _WEIGHTS[word]:
            hits[language] = hits.get(language, 0.0) + share
    for language, letters in _TELLING_LETTERS.items():
        if language in hits:
            hits[language] += TELLING_WEIGHT * min(len(letters.findall(sample)), MOST_TELLING)
    # A word that several languages share counts less for telling them apart, but fully for whether it is that language at all.
    best = max(hits, key=lambda language: (hits[language], language))
    own = sum(map(STOP_WORDS[best].__contains__, known))
    return best if own >= FEWEST_HITS and own >= LEAST_SHARE * len(found) else ""


def _by_script(sample: str) -> str:
    letters = len(_LETTERS.findall(sample))
    for language, script in _SCRIPTS:
        # Only its kana tell Japanese from Chinese, and they are fewer than its other characters.
        share = 0.05 if language == "ja" else SCRIPT_SHARE
        if len(script.findall(sample)) > share * letters:
            return "fa" if language == "ar" and len(_PERSIAN.findall(sample)) > PERSIAN_SHARE * letters else language
    return ""
