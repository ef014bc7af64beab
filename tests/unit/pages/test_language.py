from __future__ import annotations

import hashlib
import json
from importlib import resources

import pytest

from knowledge.pages import markdown
from knowledge.pages.markdown.language import STOP_WORDS, detect, english_name, normal_language

# ruff: noqa: RUF001 - letters of other scripts that look like Latin ones are meant
SHORT = {
    "en": "The server writes a backup of the database every night and keeps it for a month.",
    "de": "Der Server sichert die Datenbank jede Nacht und bewahrt die Kopie einen Monat auf.",
    "fr": "Le serveur sauvegarde la base de données chaque nuit et garde la copie pendant un mois.",
    "es": "El servidor guarda una copia de la base de datos cada noche y la conserva durante un mes.",
    "it": "Il server salva la base di dati ogni notte e conserva la copia per un mese.",
    "pt": "O servidor guarda uma cópia da base de dados todas as noites e não a apaga durante um mês.",
    "nl": "De server maakt elke nacht een kopie van de database en bewaart die een maand.",
    "sv": "Servern sparar en kopia av databasen varje natt och behåller den i en månad, men inte längre.",
    "da": "Serveren gemmer en kopi af databasen hver nat, og den bliver ikke slettet før efter en måned.",
    "no": "Serveren lagrer en kopi av databasen hver natt, og den blir ikke slettet før etter en måned.",
    "fi": "Palvelin tallentaa tietokannan joka yö ja kopio on tallessa kuukauden, mutta ei sen kauemmin.",
    "ru": "Сервер каждую ночь сохраняет копию базы данных, и она хранится на диске в течение месяца.",
    "uk": "Сервер щоночі зберігає копію бази даних, і вона є на диску протягом місяця, але не довше.",
    "bg": "Сървърът пази копие на базата всяка нощ и то се съхранява за един месец, но не повече.",
    "pl": "Serwer co noc zapisuje kopię bazy danych i jest ona przechowywana przez miesiąc, ale nie dłużej.",
    "cs": "Server každou noc ukládá kopii databáze a ta je na disku po dobu jednoho měsíce, ale ne déle.",
    "sk": "Server každú noc ukladá kópiu databázy a tá je na disku po dobu jedného mesiaca, ale nie dlhšie.",
    "hr": "Poslužitelj svake noći sprema kopiju baze i ona se čuva na disku mjesec dana, ali ne i duže od toga.",
    "hu": "A kiszolgáló minden éjjel menti az adatbázist, és a másolat egy hónapig van meg, de nem tovább.",
    "ro": "Serverul salvează în fiecare noapte o copie a bazei de date și o păstrează pentru o lună, dar nu mai mult.",
    "tr": "Sunucu her gece veri tabanının bir kopyasını alır ve bu kopya bir ay için saklanır, daha çok değil.",
    "ca": "El servidor desa una còpia de la base de dades cada nit i es guarda durant un mes, però no més amb això.",
    "id": "Server menyimpan salinan basis data setiap malam dan salinan itu tidak dihapus sampai satu bulan.",
    "vi": "Máy chủ lưu một bản sao của cơ sở dữ liệu mỗi đêm và bản sao này được giữ trong một tháng.",
    "el": "Ο διακομιστής αποθηκεύει κάθε βράδυ ένα αντίγραφο της βάσης.",
    "ar": "يحفظ الخادم نسخة من قاعدة البيانات كل ليلة.",
    "fa": "سرور هر شب یک نسخه از پایگاه داده را نگه می‌دارد و گاهی پاک می‌کند.",
    "he": "השרת שומר עותק של מסד הנתונים בכל לילה.",
    "hi": "सर्वर हर रात डेटाबेस की एक प्रति सहेजता है।",
    "bn": "সার্ভার প্রতি রাতে ডেটাবেসের একটি কপি রাখে।",
    "ta": "சேவையகம் ஒவ்வொரு இரவும் நகலைச் சேமிக்கிறது.",
    "hy": "Սերվերը ամեն գիշեր պահում է պատճենը։",
    "ka": "სერვერი ყოველ ღამე ინახავს ასლს.",
    "zh": "服务器每天晚上备份数据库。",
    "ja": "サーバーは毎晩データベースを保存します。",
    "ko": "서버는 매일 밤 데이터베이스를 백업합니다.",
    "th": "เซิร์ฟเวอร์สำรองฐานข้อมูลทุกคืน",
    "lo": "ເຊີບເວີສຳຮອງຖານຂໍ້ມູນທຸກຄືນ",
    "km": "ម៉ាស៊ីនមេបម្រុងទុកទិន្នន័យរៀងរាល់យប់",
    "my": "ဆာဗာသည် ညတိုင်း ဒေတာဘေ့စ်ကို သိမ်းသည်။",
}


def test_every_language_with_stop_words_is_tried() -> None:
    assert set(STOP_WORDS) - set(SHORT) == set(), "add a sentence in each of these to SHORT"


def test_new_words_build_indexes_again() -> None:
    """An index has no stop words, and the stems of the detected language: a query cut differently would miss pages."""
    words = json.loads(resources.files(markdown).joinpath("languages.json").read_text(encoding="utf-8"))
    for language in words.values():
        language.pop("question_words", None)  # which are left out of questions only
    digest = hashlib.sha256(json.dumps(words, sort_keys=True).encode()).hexdigest()[:16]
    todo = "raise RECIPE in knowledge/search/__init__.py, then write the new digest here"
    assert digest == "d908324e488a23e8", todo


@pytest.mark.parametrize("language", SHORT)
def test_one_sentence_shows_its_language(language: str) -> None:
    assert detect(SHORT[language]) == language


@pytest.mark.parametrize(
    "text", ["", "42", "git push --force", "README", "Kubernetes Helm Terraform Docker", "total = price * quantity"]
)
def test_text_without_a_sentence_is_in_no_language(text: str) -> None:
    assert detect(text) == ""


def test_letters_that_only_vietnamese_has_show_it_without_a_sentence() -> None:
    assert detect("Thủ tướng Ấn Độ sắp sang Mỹ gặp ông Trump mua vũ khí") == "vi"
    assert detect("Hà Nội") == "vi"
    assert detect("The prime minister met Nguyễn Xuân Phúc in Hanoi, and the two of them signed it.") == "en"
    # Yoruba and Igbo, whose letters have dots below too.
    assert detect("Gbogbo ènìyàn ni a bí ní òmìnira; iyì àti ẹ̀tọ́ kọ̀ọ̀kan sì dọ́gba.") == ""
    assert detect("A mụrụ mmadụ nile n'ohere nakwa nha anya ugwu na ikike.") == ""


def test_letters_show_turkish_where_it_has_few_stop_words() -> None:
    assert detect("Sunucunun ayarları yeniden başlatıldığında yüklenir.") == "tr"
    assert (
        detect("The engineers Işık and Yılmaz from Ankara wrote the importer that the team uses for its reports.")
        == "en"
    )
    # Azerbaijani has the same letters, and one more.
    assert detect("Bakı şəhərində yerləşən ağıllı binalar") == ""


def test_finnish_is_known_by_its_inflected_stop_words_and_estonian_is_not_taken_for_it() -> None:
    assert (
        detect("Asetukset, joita palvelin lukee, olivat väärin. Niiden muutokset eivät vaikuta jo käynnissä olevaan.")
        == "fi"
    )
    assert (
        detect("Sätted, mida server loeb, on valed. Ei ole õige muuta neid, kui see töötab, ja ka mitte hiljem.") == ""
    )


def test_foreign_names_in_a_sentence_do_not_change_its_language() -> None:
    assert detect("The meeting with 田中 and Müller is on Monday, and it is about the budget of the year.") == "en"
    assert detect("会議は Kubernetes と Terraform についてです。") == "ja"


@pytest.mark.parametrize(
    ("written", "code"),
    [
        ("en-US", "en"),
        ("English", "en"),
        ("Deutsch", "de"),
        ("nb", "no"),
        ("zh_Hant", "zh"),
        ("Farsi", "fa"),
        ("हिन्दी", "hi"),
        ("polski", "pl"),
        ("x", ""),
        ("", ""),
        ("nonsense", ""),
    ],
)
def test_a_language_is_named_as_people_name_it(written: str, code: str) -> None:
    assert normal_language(written) == code


def test_no_list_of_stop_words_contains_meaningful_words() -> None:
    for language, listed in STOP_WORDS.items():
        assert 10 <= len(listed) <= 140, language


@pytest.mark.parametrize("code", sorted(STOP_WORDS))
def test_languages_are_named_in_english(code: str) -> None:
    assert english_name(code).isascii()
    assert normal_language(english_name(code)) == code
