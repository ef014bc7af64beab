"""Two people's changes to a document are joined; a part that both changed stays as it is and is shown to them."""

from __future__ import annotations

import random
from collections import Counter
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from knowledge.merge.document.units import cut
from knowledge.merge.three_way.join import Joined, join
from tests.support.knowledge_bases import markdown_pages
from tests.support.knowledge_bases.markdown_pages import Maker, free_atoms, parted, printed, scrambled
from tests.support.knowledge_bases.merge_oracle import compared

PAGE = (
    "---\ntitle: x\ntags: [a, b]\n---\n# T\n\nPara one.\nline two.\n\n- a\n- b\n- c\n\n"
    "## S\n\nSome text that is here.\n\n```py\na\nb\nc\nd\n```\n"
)


def joined(base: str, current: str, incoming: str) -> Joined:
    return join(cut(base), cut(current), cut(incoming))


def clean(base: str, current: str, incoming: str) -> str:
    found = joined(base, current, incoming)
    assert not found.conflicts
    return found.text


def lines(text: str) -> set[str]:
    return {line.strip() for line in text.removeprefix("\ufeff").replace("\r", "\n").split("\n")} | {""}


def counted(text: str) -> Counter[str]:
    return Counter(text.removeprefix("\ufeff").replace("\r", "\n").split("\n"))


def edited(*pairs: tuple[str, str], page: str = PAGE) -> str:
    for old, new in pairs:
        assert old in page
        page = page.replace(old, new, 1)
    return page


def test_edits_of_neighbouring_lines_items_keys_and_headings_join() -> None:
    ours = [("[a, b]", "[a, b, c]"), ("one", "ONE"), ("- b\n", "- b\n- b2\n")]
    theirs = [("[a, b]", "[d, a]"), ("two", "TWO"), ("- c\n", "- C\n"), ("## S", "## Sections")]
    both = [*ours[1:], *theirs[1:], ("[a, b]", "[d, a, c]")]
    assert clean(PAGE, edited(*ours), edited(*theirs)) == edited(*both)


def test_what_both_sides_add_at_the_end_stays_apart() -> None:
    assert clean(PAGE, PAGE + "\nours\n", PAGE + "\ntheirs\n") == PAGE + "\nours\n\ntheirs\n"
    assert clean("a", "a\n\nb", "a\n\nc") == "a\n\nb\n\nc"


def test_the_same_line_changed_twice_is_a_conflict_and_the_rest_is_joined() -> None:
    found = joined(PAGE, edited(("one", "1"), ("text", "TEXT")), edited(("one", "uno"), ("- c", "- C")))
    assert found.text == edited(("one", "1"), ("text", "TEXT"), ("- c", "- C"))
    (conflict,) = found.conflicts
    assert (conflict.section, conflict.line) == ("T", 7)
    assert (conflict.base, conflict.ours, conflict.theirs) == (
        "Para one.\nline two.\n",
        "Para 1.\nline two.\n",
        "Para uno.\nline two.\n",
    )


def test_conflicts_show_texts_as_they_are_written() -> None:
    (conflict,) = joined("a b c d", "a B c d", "a X c d").conflicts
    assert (conflict.base, conflict.ours, conflict.theirs) == ("a b c d", "a B c d", "a X c d")


def test_changes_say_what_the_other_side_brought() -> None:
    found = joined(PAGE, edited(("one", "1")), edited(("- b\n", ""), ("- c\n", "- c\n- d\n"), ("text", "TEXT")))
    assert [(change.kind, change.section, change.line, change.text) for change in found.changes] == [
        ("removed", "T", 10, "- b\n"),
        ("added", "T", 12, "- d\n"),
        ("changed", "T > S", 16, "Some TEXT that is here.\n"),
    ]


@st.composite
def versions(draw: st.DrawFn) -> tuple[str, str, str]:
    """A page and two versions of it.

    Real Markdown, then sometimes reversed lines, and texts that are no pages at all.
    """
    maker = Maker(random.Random(draw(st.integers(0, 2**32))))  # noqa: S311  (made-up pages, no secrets)
    page = maker.page(draw(st.integers(1, 10)))
    end, bom, closed = draw(st.sampled_from(["\n", "\r\n", "\r"])), draw(st.booleans()), draw(st.booleans())
    texts = [printed(page, end, bom=bom, closed=closed)]
    for _ in range(2):
        after = markdown_pages.edited(page, maker.edits(page, free_atoms(page), 5))
        text = printed(after, end, bom=bom, closed=closed)
        texts.append(scrambled(maker, text, 3) if draw(st.booleans()) else text)
    if draw(st.integers(0, 9)) == 0:
        texts[draw(st.integers(0, 2))] = draw(st.text())
    return texts[0], texts[1], texts[2]


@settings(max_examples=60)
@given(versions())
def test_one_side_alone_is_taken_as_it_is_and_agreement_is_agreement(texts: tuple[str, str, str]) -> None:
    base, one, other = texts
    assert clean(base, one, base) == one
    assert clean(base, base, other) == other
    assert clean(base, one, one) == one


@settings(max_examples=60)
@given(versions())
def test_whatever_comes_the_result_is_cut_as_it_is_and_holds_what_is_ours(texts: tuple[str, str, str]) -> None:
    base, one, other = texts
    found = joined(base, one, other)
    assert "".join(piece.text for piece in found.cut.pieces) == found.text
    assert found.cut.pieces == cut(found.text).pieces
    if found.text == one:
        assert not found.changes
    for conflict in found.conflicts:
        # What clashes inside an item is shown without its marker.
        assert all(line in one for line in lines(conflict.ours))
        assert all(line in other for line in lines(conflict.theirs))
        assert all(line in base for line in lines(conflict.base))


@settings(max_examples=60)
@given(st.integers(0, 2**32), st.tuples(st.sampled_from(["\n", "\r\n", "\r"]), st.booleans(), st.booleans()))
def test_disjoint_edits_give_exactly_the_page_with_both_in_either_order(
    seed: int, style: tuple[str, bool, bool]
) -> None:
    end, bom, closed = style
    maker = Maker(random.Random(seed))  # noqa: S311  (made-up pages, no secrets)
    page = maker.page(maker.random.randrange(1, 12))
    here, there = parted(maker, page)
    mine, other = maker.edits(page, here, 6), maker.edits(page, there, 6)
    texts = [
        printed(markdown_pages.edited(page, edits), end, bom=bom, closed=closed)
        for edits in ([], mine, other, [*mine, *other])
    ]
    assert clean(*texts[:3]) == texts[3]
    assert clean(texts[0], texts[2], texts[1]) == texts[3]


@settings(max_examples=60)
@given(versions())
def test_without_a_conflict_every_line_is_there_as_often_as_both_sides_want_it(texts: tuple[str, str, str]) -> None:
    """No line that one side added is lost or doubled. Other tests check lines composed from both sides."""
    found = joined(*texts)
    was, mine, other, after = (counted(text) for text in (*texts, found.text))
    if found.conflicts or after.keys() - mine.keys() - other.keys():
        return
    for line in after | mine | other:
        if line.strip() and not line.lstrip()[0].isdigit():
            both = mine[line] + other[line] - was[line]
            assert min(both, mine[line], other[line]) <= after[line] <= max(both, mine[line], other[line])
            if mine[line] >= was[line] <= other[line]:
                assert after[line] >= max(mine[line], other[line])


def test_three_hundred_merges_agree_with_git_where_git_joins(tmp_path: Path) -> None:
    """Twenty thousand of them run with `-m slow`."""
    report = compared(0, 300, tmp_path)
    assert not report.wrong, "\n".join(report.wrong)
    assert report.counts["merges"] == 300
