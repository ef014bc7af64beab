"""Which language a text is in: its script first, then the little words that every text of a language is full of. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping

# ruff: noqa: RUF001 - Cyrillic and Turkish letters that look like Latin ones are meant
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
    "es": "a al algo como con cuando de del desde donde el ella ellos en entre era es esta este esto están está fue ha hay la las "
    "le les lo los más me mi muy no nos o para pero por porque que quien se sea ser si sin sobre son su sus también te tiene "
    "todo tu un una uno y ya yo",
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
}
STOP_WORDS: Mapping[str, frozenset[str]] = {language: frozenset(text.split()) for language, text in _LISTS.items()}
"""Words that say nothing by themselves, by language; case-folded. Single letters are what an apostrophe leaves behind."""

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
    ("el", re.compile(r"[\u0370-\u03ff]")),
    ("he", re.compile(r"[\u0590-\u05ff]")),
    ("ar", re.compile(r"[\u0600-\u06ff]")),
    ("hy", re.compile(r"[\u0530-\u058f]")),
    ("hi", re.compile(r"[\u0900-\u097f]")),
    ("ta", re.compile(r"[\u0b80-\u0bff]")),
)
_LETTERS = re.compile(r"[^\W\d_]")
_WORD = re.compile(r"[^\W\d_]+")
SAMPLE = 600
"""Characters that are looked at: enough for a hundred little words, little enough for every document."""
FEWEST_HITS = 3
LEAST_SHARE = 0.12
SCRIPT_SHARE = 0.2


def _weights() -> dict[str, tuple[tuple[str, float], ...]]:
    owners: dict[str, list[str]] = {}
    for language, listed in STOP_WORDS.items():
        for word in listed:
            owners.setdefault(word, []).append(language)
    return {word: tuple((language, 1 / len(found)) for language in found) for word, found in owners.items()}


_WEIGHTS = _weights()


def normal_language(name: str) -> str:
    """Return the two- or three-letter code for what a person wrote (`en-US`, `English`, `nb`), "" for what is none."""
    head = re.split(r"[-_. ]", name.strip().casefold(), maxsplit=1)[0]
    code = _NAMES.get(head, head)
    return code if 2 <= len(code) <= 3 and code.isalpha() else ""


def detect(text: str) -> str:
    """Return the code of the language that the beginning of `text` is in, "" when that is not clear."""
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
    # Shares tell languages apart, whole hits tell whether it is that language at all.
    best = max(hits, key=lambda language: (hits[language], language))
    own = sum(map(STOP_WORDS[best].__contains__, known))
    return best if own >= FEWEST_HITS and own >= LEAST_SHARE * len(found) else ""


def _by_script(sample: str) -> str:
    letters = len(_LETTERS.findall(sample))
    for language, script in _SCRIPTS:
        # Japanese is told from Chinese by its kana alone, which are fewer than its other characters.
        share = 0.05 if language == "ja" else SCRIPT_SHARE
        if len(script.findall(sample)) > share * letters:
            return language
    return ""
