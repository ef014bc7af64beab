"""Statements are found where they are, and a change touches nothing else in the page."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from knowledge.contradictions.statement_place import (
    NoSureChange,
    StatementPlace,
    nearest_block,
    places_of,
    removed,
    replaced,
)
from knowledge.merge.document.units import cut, units
from knowledge.merge.model import CUT_MARK, LONGEST_SIDE, Side


def side(text: str) -> Side:
    return Side("a.md", "", text, "wiki:x", 0.5, None, None, "r1")


def only(page: str, said: str) -> StatementPlace:
    (place,) = places_of(page, side(said))
    return place


def rewritten(page: str, said: str, kept: str, comes_from: str = "b.md") -> str:
    return replaced(page, only(page, said), kept, page="a.md", comes_from=comes_from)


PAGE = (
    "---\ntitle: T\n---\n# Limits\n\nOne is 30 s. The **limit** of files\nis 60 MB today. More.\n\n"
    "- item one 64 MiB\n  - nested 3 x\n- [ ] task two has 5 days\n\n> quote is 5 kg\n> heavy. And 6.\n\n"
    "| a | b |\n|---|---|\n| x | 1 |\n| y | 2 |\n\n1. first\n2. at most 7\n\ntimeout: 30 s on Linux\n"
)


@pytest.mark.parametrize(
    ("said", "line", "kind", "found"),
    [
        ("One is 30 s.", 6, "paragraph", "One is 30 s."),
        ("The **limit** of files is 60 MB today", 6, "paragraph", "The **limit** of files\nis 60 MB today."),
        ("- item one 64 MiB", 9, "item", "item one 64 MiB"),
        ("nested 3 x", 10, "item", "nested 3 x"),
        ("- [ ] task two has 5 days", 11, "item", "task two has 5 days"),
        ("quote is 5 kg heavy.", 13, "quote", "quote is 5 kg\n> heavy."),
        ("| x | 1 |", 18, "row", "| x | 1 |"),
        ("2. at most 7", 22, "item", "at most 7"),
    ],
)
def test_a_whole_statement_is_found_with_its_line_however_it_is_wrapped(
    said: str, line: int, kind: str, found: str
) -> None:
    place = only(PAGE, said)
    assert (place.line, place.kind, place.section, place.whole) == (line, kind, "Limits", True)
    assert PAGE[place.start : place.end] == found


@pytest.mark.parametrize("said", ["timeout: 30 s", "limit** of files is 60 MB", "item one", f"One is 30 s{CUT_MARK}"])
def test_a_part_of_a_sentence_and_a_text_that_is_cut_are_not_certain(said: str) -> None:
    place = only(PAGE, said)
    assert not place.whole
    with pytest.raises(NoSureChange, match="only a part of a sentence"):
        replaced(PAGE, place, "x", page="a.md", comes_from="b.md")
    with pytest.raises(NoSureChange, match="only a part of a sentence"):
        removed(PAGE, place)
    assert not only("x" * (LONGEST_SIDE + 9) + "\n", "x" * LONGEST_SIDE).whole


def test_marks_of_lists_and_the_end_of_a_sentence_stay() -> None:
    assert "- [ ] It takes 4 days\n" in rewritten(PAGE, "task two has 5 days", "- It takes\n4 days")
    assert "One is 30 s. It is 5. More.\n" in rewritten(PAGE, "The **limit** of files is 60 MB today", "It is 5")
    assert "2. at most 8\n" in rewritten(PAGE, "at most 7", "* at most 8")
    assert "> It is 4. And 6.\n" in rewritten(PAGE, "quote is 5 kg heavy.", "It is 4.")
    assert "| x | 3 |\n| y | 2 |" in rewritten(PAGE, "| x | 1 |", "| x | 3 |")


@pytest.mark.parametrize(
    ("said", "kept", "why"),
    [
        ("| x | 1 |", "x is 1", "one is a row of a table"),
        ("One is 30 s.", "| x | 1 |", "one is a row of a table"),
        ("| x | 1 |", "| y | 3 |", "differ in more than one cell"),
        ("| x | 1 |", "| x | 3 | z |", "differ in more than one cell"),
        ("One is 30 s.", "One is:\n- 30\n- 40", "several parts"),
        ("One is 30 s.", "One is [30](#here).", "lead elsewhere"),
        ("One is 30 s.", "One is 30 s[^1].", "lead elsewhere"),
        ("One is 30 s.", "One is [30][ref].", "lead elsewhere"),
    ],
)
def test_what_is_not_certain_is_not_rewritten(said: str, kept: str, why: str) -> None:
    with pytest.raises(NoSureChange, match=why):
        rewritten(PAGE, said, kept)


def test_a_link_is_copied_only_if_it_leads_to_the_same_page() -> None:
    for kept in ("See [[limits]].", "See [it](https://example.org).", "See [it](/limits.md)."):
        assert kept in rewritten(PAGE, "One is 30 s.", kept, comes_from="far/away/b.md")
    assert "[it](c.md)" in rewritten(PAGE, "One is 30 s.", "See [it](c.md).")
    with pytest.raises(NoSureChange, match="lead elsewhere"):
        rewritten(PAGE, "One is 30 s.", "See [it](c.md).", comes_from="far/b.md")


def test_a_removed_statement_takes_its_block_along_if_nothing_else_is_in_it() -> None:
    assert removed(PAGE, only(PAGE, "One is 30 s.")) == PAGE.replace("One is 30 s. ", "")
    assert removed(PAGE, only(PAGE, "task two has 5 days")) == PAGE.replace("- [ ] task two has 5 days\n", "")
    assert removed(PAGE, only(PAGE, "| y | 2 |")) == PAGE.replace("| y | 2 |\n", "")
    assert removed("# A\n\nOne.\n\nTwo.\n", only("# A\n\nOne.\n\nTwo.\n", "One.")) == "# A\n\nTwo.\n"
    with pytest.raises(NoSureChange, match="a line with nothing in it"):
        removed(PAGE, only(PAGE, "item one 64 MiB"))


def test_headings_code_and_front_matter_are_not_rewritten() -> None:
    page = "---\nlimit: 30 MB\n---\n# The limit is 30 MB\n\n```\nlimit = 30 MB\n```\n"
    for said in ("limit: 30 MB", "The limit is 30 MB", "limit = 30 MB"):
        with pytest.raises(NoSureChange, match="no prose"):
            rewritten(page, said, "It is 60 MB")


def test_the_most_similar_block_is_shown_for_a_statement_that_is_gone() -> None:
    page = "# A\n\nNothing like it.\n\nThe upload limit is 48 MiB now.\n"
    near = nearest_block(page, side("The upload limit is 64 MiB now."))
    assert near is not None
    assert near.block == "The upload limit is 48 MiB now.\n"
    assert nearest_block(page, side("Bees live in hives of wood.")) is None
    assert nearest_block("", side("Bees live in hives of wood.")) is None


words = st.text("abcdeäß7 .*_`[]()|>-#\n\r", min_size=1, max_size=30)
lines = st.sampled_from(["- ", "1. ", "> ", "", "", "| ", "# ", "  - ", "- [ ] "])
pages = st.lists(st.tuples(lines, words, st.sampled_from(["\n", "\n\n", "\r\n"])), max_size=8).map(
    lambda parts: "".join(mark + text + end for mark, text, end in parts)
)


@given(page=pages, kept=words, data=st.data())
def test_a_change_touches_only_the_statement(page: str, kept: str, data: st.DataObject) -> None:
    """Our promise: everything before and after the statement stays, byte for byte, or nothing is changed."""
    blocks = [unit.text for unit in units(cut(page)) if unit.text.strip()]
    if not blocks:
        return
    block = data.draw(st.sampled_from(blocks))
    start = data.draw(st.integers(0, len(block) - 1))
    said = block[start : data.draw(st.integers(start + 1, len(block)))]
    for place in places_of(page, side(said)):
        assert page[place.block_start : place.block_start + len(place.block)] == place.block
        assert place.block_start <= place.start <= place.end <= place.block_start + len(place.block)
        try:
            new = replaced(page, place, kept, page="a.md", comes_from="b.md")
        except NoSureChange:
            pass
        else:
            assert new.startswith(page[: place.start])
            assert new.endswith(page[place.end :])
        try:
            left = removed(page, place)
        except NoSureChange:
            continue
        assert left.startswith(page[: place.block_start])
        assert len(left) <= len(page)
        rest = page[place.block_start + len(place.block) :]
        assert left.endswith(rest.lstrip("\r\n \t"))
