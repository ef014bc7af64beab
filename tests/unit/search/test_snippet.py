from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from knowledge.search.query.analysis import words
from knowledge.search.snippet import _AskedWords, marked, same_word, snippet

FILLER = "Nothing to see in here. " * 30


def test_a_short_chunk_is_shown_whole() -> None:
    assert snippet("# A\n\nb\n", ["b"]) == "# A\n\nb"


def test_the_sentence_with_the_words_is_shown_with_ellipses() -> None:
    shown = snippet(f"{FILLER}The lease expires after a journey. {FILLER}", ["lease", "journeys"], limit_chars=120)
    assert "The lease expires after a journey." in shown
    assert shown.startswith("... ")
    assert shown.endswith(" ...")


def test_most_different_words_win() -> None:
    text = f"lease lease lease. {FILLER}\n\nA lease and a fence. {FILLER}"
    assert "A lease and a fence." in snippet(text, ["lease", "fence"], limit_chars=100)


def test_a_long_sentence_is_cut_between_words_around_the_hit() -> None:
    shown = snippet("alpha " * 100 + "journey " + "omega " * 100, ["journeys"], limit_chars=100)
    assert "journey" in shown
    assert set(shown.split()) <= {"...", "alpha", "journey", "omega"}


def test_code_is_shown_as_it_is() -> None:
    code = "```python\ndef lease(x):\n    return x\n```"
    assert code.split("\n")[1] + "\n    return x" in snippet(
        f"{FILLER}\n\n{code}\n\n{FILLER}", ["lease"], limit_chars=120
    )


def test_a_word_within_another_word_is_no_hit() -> None:
    text = f"The release of please is out. {FILLER}A lease expires. {FILLER}"
    assert "A lease expires." in snippet(text, ["lease"], limit_chars=60)


@pytest.mark.parametrize("before", ['"It ended." ', "It ended... ", "(It ended!) ", "*It ended?*  ", "終わった。"])
def test_a_sentence_begins_after_the_marks_that_close_another(before: str) -> None:
    shown = snippet(f"{FILLER}{before}The lease expires! {FILLER}", ["lease"], limit_chars=30)
    assert shown == "... The lease expires! ..."


def test_a_mark_within_a_word_ends_no_sentence() -> None:
    text = f"{FILLER}Lease v1.2 is.here! {FILLER}"
    assert "Lease v1.2 is.here!" in snippet(text, ["lease"], limit_chars=34)


def test_without_a_hit_the_beginning_is_shown() -> None:
    assert snippet("First. " + FILLER, ["zebra"], limit_chars=60).startswith("First.")


@given(st.text("ab. \n`#-é知", max_size=600), st.lists(st.text("abé知", max_size=5), max_size=4), st.integers(20, 400))
def test_a_snippet_is_never_too_long_and_always_from_the_text(text: str, asked: list[str], limit: int) -> None:
    shown = snippet(text, asked, limit_chars=limit)
    assert len(shown) <= limit
    core = shown.removeprefix("... ").removesuffix(" ...")
    assert core in text or not core.strip()


@pytest.mark.parametrize(
    ("text", "asked"),
    [
        ("यह हिन्दी भाषा है", "भाषा"),
        ("এটি বাংলা ভাষা", "বাংলা"),
        ("བོད་ཡིག་གི་སྐད", "ཡིག"),
        ("אמר שָׁלוֹם לכולם", "שָׁלוֹם"),
        ("un élève attentif", "élève"),
        ("see the v1.2-rc notes", "v1.2-rc"),
    ],
)
def test_a_word_with_marks_is_marked_as_a_whole(text: str, asked: str) -> None:
    assert [text[start:end] for start, end in marked(text, words(asked))] == [asked]


@given(
    st.text(st.sampled_from("abAB. \n-'éÉßñ\u00a0\u0301\u00ad知設定ーカяЯ\uff11"), max_size=80)
    | st.text("aกินำ ", max_size=20),
    st.lists(st.text(st.sampled_from("abéñ知設定ーカя"), max_size=5) | st.text("กินำ", max_size=4), max_size=4),
)
def test_looking_at_places_finds_the_words_that_taking_the_text_apart_finds(text: str, asked: list[str]) -> None:
    known = list(dict.fromkeys(word for one in asked for word in words(one)))
    there = words(text)
    found = _AskedWords(text, known).part(0, len(text))
    assert {known[at] for at in found} == {one for one in known if any(same_word(one, word) for word in there)}
