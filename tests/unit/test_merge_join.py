"""What two people change in a document is joined; what they both change stays as it is and is shown to them."""

from __future__ import annotations

from knowledge.merge.cut import cut
from knowledge.merge.three_way import Joined, join

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


def test_changes_say_what_the_other_side_brought() -> None:
    found = joined(PAGE, edited(("one", "1")), edited(("- b\n", ""), ("- c\n", "- c\n- d\n"), ("text", "TEXT")))
    assert [(change.kind, change.section, change.line, change.text) for change in found.changes] == [
        ("removed", "T", 10, "- b\n"),
        ("added", "T", 12, "- d\n"),
        ("changed", "T > S", 16, "Some TEXT that is here.\n"),
    ]
