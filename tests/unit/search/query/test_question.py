"""How a question becomes terms: languages, compounds, neighbours, corrections."""

from __future__ import annotations

import pytest

from knowledge.search.query.analysis import analyzer, word_groups, words
from knowledge.search.query.corrections import (
    Candidate,
    Vocabulary,
    find_corrections,
    is_opposite,
    sure_corrections,
)
from knowledge.search.query.languages import common_languages, question_languages
from knowledge.search.query.question import READ_FOR_TIMES, Questions, SearchQuestion
from knowledge.state.ports import IndexStore, TextRow
from mcp_server.app.factories.keywords import indexed_terms
from tests.contract.index.test_index_store import IDENTITY, page
from tests.support.state.memory.index import MemoryIndexStore


async def nothing(_index: IndexStore, _word: str) -> tuple[Candidate, ...]:
    return ()


async def asked(query: str, *texts: str, language: str = "en") -> SearchQuestion:
    store = MemoryIndexStore()
    await store.begin(IDENTITY)
    await store.apply([page(f"{n}.md", text, language=language) for n, text in enumerate(texts)], fence=1)
    return await Questions(store, nothing).ask(query)


def weights(question: SearchQuestion) -> dict[str, float]:
    return {term.word: max(weight for _, weight in term.alternatives) for term in question.terms if term.alternatives}


@pytest.mark.parametrize(
    "text",
    [
        "How do GitHub actions read v1.2 of front-matter?",
        "HTMLParser snake_case",
        "straße 東京 über-alles",
        "",
        "C++ C#",
    ],
)
def test_groups_are_the_words_with_their_parts(text: str) -> None:
    assert [word for group in word_groups(text) for word in group] == words(text)


def test_parts_are_grouped_with_the_word_that_they_are_parts_of() -> None:
    assert word_groups("GitHub reads front-matter") == [
        ("github", "git", "hub"),
        ("reads",),
        ("front-matter", "front", "matter"),
    ]


async def test_a_compound_and_its_parts_share_the_weight_of_one_word() -> None:
    """With a full weight for each, pages that introduce the name would come first for any question."""
    question = await asked("GitHub actions", "GitHub actions are here")
    assert weights(question) == {"github": 0.5, "git": 0.25, "hub": 0.25, "actions": 1.0}


async def test_the_parts_of_a_compound_that_no_page_has_count_in_full() -> None:
    question = await asked("debug-pods now", "debug the pods")
    assert weights(question)["debug"] == weights(question)["pods"] == 0.5
    assert "debug-pods" not in weights(question)


async def test_a_question_knows_how_many_chunks_have_each_of_its_words() -> None:
    question = await asked("the audit of zebras", "audit logs", "audit rules", "the rest")
    assert question.known == {"audit": 2}


async def test_neighbours_are_pairs_and_stop_words_between_them_are_left_out() -> None:
    question = await asked("the retention of audit logs in front-matter", "x")
    assert question.pairs == (
        ("retention", "audit"), ("audit", "logs"), ("logs", "front-matter"), ("front", "matter"),
    )  # fmt: skip
    assert (await asked("東京都の人口", "x")).pairs == ()


async def test_a_kana_is_asked_for_in_pairs_and_alone_only_where_it_stands_alone() -> None:
    assert (await asked("状態を保つ", "x")).content == ("状", "状態", "態", "態を", "を保", "保", "保つ")
    assert (await asked("コピー", "x")).content == ("コピ", "ピー")
    assert (await asked("を", "x")).content == ("を",)


def test_a_language_of_a_few_pages_takes_no_words_away() -> None:
    """A few English pages are always detected as Dutch, in which `door` is a stop word."""
    english = question_languages("open the door sensor", {"en": 97, "nl": 3})
    assert english.stop == ("en",)
    assert not english.is_stop_word("door")
    assert question_languages("door sensor", {"en": 90, "nl": 10}).is_stop_word("door")


def test_a_question_in_the_language_of_a_few_pages_is_read_in_it() -> None:
    languages = question_languages(
        "wie kann ich die Sicherung wieder herstellen und was ist zu tun", {"en": 97, "de": 3}
    )
    assert languages.stop == ("de",)
    assert languages.weights["de"] == 1.0
    assert languages.stems("sicherungen")["sicher"] == 1.0


def test_pages_of_an_unknown_language_are_searched_by_english_stems() -> None:
    """Short pages of figures have no stop words, and were not found by another form of a word."""
    assert question_languages("running", {"en": 90, "": 10}).stems("running") == {"run": 1.0}
    assert question_languages("running", {}).stems("running") == {"run": 1.0}
    assert question_languages("prices", {"de": 50, "": 50}).stems("prices").keys() >= {"price"}
    assert question_languages("сервера", {"": 1}).stems("сервера") == {"сервера": 1.0}
    page = TextRow(1, 1, "", (), "Parking permits: 18 euros. Сервера", "")
    assert indexed_terms(page) == ["park", "permit", "18", "euro", "сервера"]
    assert analyzer("").terms("Parking permits") == ["parking", "permits"], "merges compare words as they are written"


def test_a_word_outside_ascii_is_looked_for_in_rare_languages_too() -> None:
    languages = question_languages("сервера", {"en": 99, "ru": 1})
    assert "сервер" in languages.stems("сервера")
    assert "ru" not in languages.weights


def test_a_word_that_few_passages_have_is_looked_for_in_rare_languages_too() -> None:
    languages = question_languages("verfallen", {"en": 99, "de": 1})
    assert "verfall" in languages.stems("verfallen", 1)
    assert "verfall" not in languages.stems("verfallen", 50)
    assert "verfall" not in languages.stems("verfallen")


def test_common_languages_are_those_above_the_floor() -> None:
    assert common_languages({"en": 90, "de": 8, "sk": 2, "": 40}) == ["en", "de"]
    assert common_languages({"": 40}) == []


@pytest.mark.parametrize(
    ("word", "other"),
    [("unsuccessful", "successful"), ("correctly", "incorrectly"), ("inability", "ability"), ("legal", "illegal")],
)
def test_a_word_is_never_corrected_to_its_opposite(word: str, other: str) -> None:
    assert is_opposite(word, other)
    assert is_opposite(other, word)


@pytest.mark.parametrize(("word", "other"), [("unix", "linux"), ("discover", "cover"), ("cover", "hover")])
def test_other_words_are_no_opposites_unless_a_prefix_negates(word: str, other: str) -> None:
    assert is_opposite(word, other) == (word == "discover")


async def test_neither_opposites_nor_forms_are_candidates() -> None:
    store = MemoryIndexStore()
    await store.begin(IDENTITY)
    known = ["successful", "unsuccessfully", "preferes", "prefere"]

    async def near(_index: IndexStore, word: str) -> list[Candidate]:
        return Vocabulary([(other, 1) for other in known]).near(word)

    found = await find_corrections(store, near, ["unsuccessful", "sucessful"], known={}, spoken=("en",))
    assert found["unsuccessful"] == []
    assert [other.word for other in found["sucessful"]] == ["successful"]


@pytest.mark.parametrize(
    ("query", "word", "other", "probability", "sure"),
    [
        ("a depoyment here", "depoyment", "deployment", 0.9, True),
        ("a supposition here", "supposition", "opposition", 0.4, False),
        ("the HELPP syndrome", "helpp", "help", 0.99, False),
        ("is the aHrold here", "ahrold", "harold", 0.9, True),
        ("peri-sinusoidal cells", "peri-sinusoidal", "perisinusoidal", 0.99, False),
        ("quién es", "quién", "quien", 0.99, False),
        ("frontmatter of a page", "frontmatter", "front-matter", 0.99, False),
        ("nonblocking calls", "nonblocking", "non_-blocking", 0.99, False),
        ("fsh", "fsh", "fish", 0.99, False),
        ("wake a task", "wake", "make", 0.84, False),
        ("the smokre", "smokre", "smoker", 0.84, True),
        ("the DeepL pages", "deepl", "deeply", 0.99, False),
        ("a compiler for OCaml", "caml", "call", 0.99, False),
        ("a compiler for caml", "caml", "call", 0.99, True),
        ("cheval vendu", "vendu", "vendus", 0.99, False),
        ("wniosek urlopowy", "urlopowy", "urlopowe", 0.99, False),
        ("ما المقال", "المقال", "المثال", 0.85, False),
        ("ما منظقة", "منظقة", "منطقة", 0.95, True),
    ],
)
def test_a_question_is_put_with_another_word_only_where_that_is_likely(
    query: str, word: str, other: str, probability: float, *, sure: bool
) -> None:
    found = sure_corrections(query, {word: [Candidate(other, probability)]})
    assert found == ({word: other} if sure else {})


async def test_a_doubtful_correction_is_searched_by_its_probability_and_not_said() -> None:
    store = MemoryIndexStore()
    await store.begin(IDENTITY)
    await store.apply([page("a.md", "the opposition", language="en")], fence=1)

    async def near(_index: IndexStore, word: str) -> list[Candidate]:
        return [Candidate("opposition", 0.4)] if word == "supposition" else []

    question = await Questions(store, near).ask("a supposition here")
    assert question.corrected is None
    assert question.doubtful == {"supposition": ["opposition"]}
    assert question.to_embed == "a supposition here"
    (term,) = (term for term in question.terms if term.word == "supposition")
    assert dict(term.alternatives) == {"supposit": 1.0, "opposit": pytest.approx(0.632, abs=0.001)}


async def test_a_word_that_its_error_made_an_identifier_is_corrected_as_a_whole() -> None:
    """The letters of `Harold` swapped are read as `a` and `Hrold`."""
    store = MemoryIndexStore()
    await store.begin(IDENTITY)
    await store.apply([page("a.md", "the reign of Harold", language="en")], fence=1)

    async def near(_index: IndexStore, word: str) -> list[Candidate]:
        return [Candidate("harold", 0.95)] if word in {"ahrold", "hrold"} else []

    question = await Questions(store, near).ask("the reign of aHrold")
    assert question.corrected == "the reign of harold"
    assert weights(question)["ahrold"] == 1.0


@pytest.mark.parametrize(
    ("query", "unspaced"),
    [
        ("首都はどこですか", True),
        ("เมืองหลวงอยู่ที่ไหน", True),
        ("如何在 Kubernetes 中配置 Ingress", True),
        ("where does Kubernetes keep its settings for 東", False),
        ("where is the capital", False),
        ("", False),
    ],
)
async def test_a_question_is_unspaced_if_half_of_its_words_are_pieces_of_a_script_without_spaces(
    query: str, *, unspaced: bool
) -> None:
    assert (await asked(query, "a page")).is_unspaced is unspaced


async def test_a_misspelt_sentence_is_looked_for_as_it_was_meant() -> None:
    """No page has the misspelt word, so none has the sentence as it was typed."""
    store = MemoryIndexStore()
    await store.begin(IDENTITY)
    await store.apply([page("a.md", "cannot open the archive file")], fence=1)

    async def near(_index: IndexStore, word: str) -> list[Candidate]:
        return [Candidate("archive", 0.95)] if word == "archve" else []

    question = await Questions(store, near).ask("Cannot open the archve file")
    assert question.corrected == "Cannot open the archive file"
    assert question.phrases[0].is_in("It prints: cannot open the archive file.")


async def test_a_word_and_its_particle_are_found_as_one_word() -> None:
    """`up` and `in` are stop words, so that *back up* was searched as `back`."""
    question = await asked("how do I back up notes and log in", "A backup is made.", "Use the login page.")
    forms = {term.word: [form for form, _ in term.alternatives] for term in question.terms}
    assert "backup" in forms["back"]
    assert "login" in forms["log"]
    assert "notesand" not in forms["notes"]


async def test_two_words_that_are_no_word_of_the_pages_stay_two() -> None:
    question = await asked("back up the notes", "Take changes back.")
    assert [form for term in question.terms for form, _ in term.alternatives if "up" in form] == []


async def test_everything_and_anybody_say_nothing_in_an_english_question() -> None:
    assert (await asked("does anybody know everything about queues", "Everything about queues.")).content == (
        "know",
        "queues",
    )


@pytest.mark.parametrize(
    ("query", "content"),
    [
        ("lax vs strict", ("lax", "strict")),
        ("lax vs. strict versus exact", ("lax", "strict", "exact")),
        ("open in vs code", ("open", "vs", "code")),
        ("VS settings", ("vs", "settings")),
    ],
)
async def test_between_two_things_that_are_compared_vs_is_not_searched(query: str, content: tuple[str, ...]) -> None:
    assert (await asked(query, "Lax, strict or exact: settings open in code.")).content == content


@pytest.mark.parametrize(
    ("query", "days"),
    [
        ("what was said on 18 March 2020", {"18 March 2020": ["2020-03-18"]}),
        ("am 3. Mai 2024", {"3. Mai 2024": ["2024-05-03"]}),
        ("meeting 3/4/2026", {"3/4/2026": ["2026-03-04", "2026-04-03"]}),
        ("in June 2021", {"June 2021": [f"2021-06-{day:02}" for day in range(1, 32)]}),
        ("water reading 1 nov 26", {"1 nov 26": ["2026-11-01"]}),
        ("note of 9 March", {"9 March": [f"{year}-03-09" for year in range(2000, 2050)]}),
        ("what did I do on June 11th", {"June 11th": [f"{year}-06-11" for year in range(2000, 2050)]}),
        ("notes of 2020-03-18", {}),
        ("version 1.2.3 in 2026", {}),
        ("am 9. Mai", {"9. Mai": [f"{year}-05-09" for year in range(2000, 2050)]}),
        ("with Jan 20 October", {"Jan 20": [f"{year}-01-20" for year in range(2000, 2050)]}),
        ("rain on 3 June 24 guests came", {"3 June": [f"{year}-06-03" for year in range(2000, 2050)]}),
        ("alert on 3 June 18:02", {"3 June": [f"{year}-06-03" for year in range(2000, 2050)]}),
        ("STEP 3 MAY FAIL", {}),
        ("3 out of 5 users", {}),
        ("step 3 may fail", {}),
        ("the first 20 marked pages", {}),
    ],
)
async def test_dates_are_read_as_the_days_in_paths(query: str, days: dict[str, list[str]]) -> None:
    question = await asked(query, "Text.")
    assert question.days == days
    searched = [form for term in question.terms if term.word in days for form, _ in term.alternatives]
    assert searched == [day for forms in days.values() for day in forms]


async def test_in_a_pasted_log_times_are_only_read_at_the_beginning() -> None:
    """Otherwise 20,000 characters with a date on each line take half a minute."""
    log = "paid for lunch\n" * (READ_FOR_TIMES // 15)
    assert (await asked(f"on 9 March 2026 {log}", "Text.")).days.keys() == {"9 March 2026"}
    assert (await asked(f"{log} paid on 9 March 2026", "Text.")).days == {}


@pytest.mark.parametrize(
    "query", ["decisions of May 2026", "decisions of May", "what was decided in may", "note of 3 May"]
)
async def test_may_is_searched_where_it_is_the_month(query: str) -> None:
    assert "may" in (await asked(query, "In May decisions were made.")).content


@pytest.mark.parametrize("query", ["who may decide", "May I decide", "decisions that may fail"])
async def test_may_is_not_searched_where_it_is_the_verb(query: str) -> None:
    assert "may" not in (await asked(query, "In May decisions may fail.")).content


async def test_a_month_is_found_by_its_short_name_as_well() -> None:
    forms = {
        term.word: [form for form, _ in term.alternatives]
        for term in (await asked("jobs in october", "oct: rake.")).terms
    }
    assert "oct" in forms["october"]
    assert "oct" not in forms["jobs"]


async def forms(query: str, text: str, language: str = "de") -> dict[str, set[str]]:
    """Return what is searched for each word of a question to one page; candidates for *Dach* and *Hobelmaschiene* are given."""
    store = MemoryIndexStore()
    await store.begin(IDENTITY)
    await store.apply([page("a.md", text, language=language)], fence=1)

    async def near(_index: IndexStore, word: str) -> list[Candidate]:
        given = {"dach": Candidate("fach", 0.2), "hobelmaschiene": Candidate("hobelmaschine", 0.9)}
        return [given[word]] if word in given else []

    question = await Questions(store, near).ask(query)
    return {term.word: {form for form, _ in term.alternatives} for term in question.terms}


async def test_a_word_that_no_page_has_is_looked_for_by_a_part_of_a_compound_if_they_are_one_word() -> None:
    text = "Die Dacharbeiten und das Fach ruhen ab 33 °C, weil es zu heiß ist und das Handy es meldet."
    found = await forms("Ist es zu heiß für das Dach, das Diensthandy und allgemeine Leute?", text)
    assert any(form.startswith("dacharbeit") for form in found["dach"])
    assert "handy" in found["diensthandy"]
    english = await forms("is it too hot for the dach?", "The dacharbeiten rest if it is too hot for the men", "en")
    assert english["dach"] == {"dach", "fach"}


async def test_a_misspelt_compound_is_corrected_although_another_word_ends_it() -> None:
    text = "Die Hobelmaschine steht neben der Maschiene, und das ist nicht gut, denn es ist kalt."
    found = await forms("Wo ist die Hobelmaschiene und was ist das?", text)
    assert any(form.startswith("hobelmaschin") and form != "hobelmaschiene" for form in found["hobelmaschiene"])
