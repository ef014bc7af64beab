"""Each kind of block is joined by its parts: rows, items, keys, sentences; indivisible ones stay whole."""

from __future__ import annotations

import pytest

from knowledge.merge.document.units import cut
from knowledge.merge.three_way.join import Joined, join

TABLE = "| k | v | w |\n|---|---|---|\n| a | 1 | x |\n| b | 2 | y |\n| c | 3 | z |\n"
LIST = "- one\n- two\n  - inner a\n  - inner b\n- three\n"
FRONT = (
    '---\n# who reads this\ntitle: "A page"\ntags: [a, b]\nowner: ann   # on leave\n\naliases:\n- x\n- y\n---\n\ntext\n'
)


def joined(base: str, current: str, incoming: str) -> Joined:
    return join(cut(base), cut(current), cut(incoming))


def clean(base: str, current: str, incoming: str) -> str:
    found = joined(base, current, incoming)
    assert not found.conflicts, found.conflicts
    return found.text


def conflict(base: str, current: str, incoming: str) -> tuple[str, str, str]:
    """Return the one conflict; nothing is written in its place."""
    found = joined(base, current, incoming)
    (only,) = found.conflicts
    assert found.text == current
    return only.base, only.ours, only.theirs


def with_(text: str, *pairs: tuple[str, str]) -> str:
    for old, new in pairs:
        assert old in text
        text = text.replace(old, new, 1)
    return text


def test_neighbouring_rows_cells_of_one_row_and_new_rows_join() -> None:
    ours = with_(TABLE, ("| 1 |", "| 11 |"), ("| z |\n", "| z |\n| d | 4 | q |\n"))
    theirs = with_(TABLE, ("| x |", "| xx |"), ("| b | 2 |", "| b | 22 |"), ("| z |\n", "| z |\n| e | 5 | r |\n"))
    assert clean(TABLE, ours, theirs) == with_(
        TABLE, ("| 1 | x |", "| 11 | xx |"), ("2", "22"), ("| z |\n", "| z |\n| d | 4 | q |\n| e | 5 | r |\n")
    )


def test_a_new_column_reaches_the_rows_that_the_other_side_added() -> None:
    wide = "| k | n | v | w |\n|---|:-:|---|---|\n| a | N | 1 | x |\n| b | M | 2 | y |\n| c |  | 3 | z |\n"
    other = with_(TABLE, ("| 2 |", "| 22 |"), ("| z |\n", "| z |\n| e | 5 | r |\n"))
    both = with_(wide, ("| 2 |", "| 22 |"), ("| z |\n", "| z |\n| e |  | 5 | r |\n"))
    assert clean(TABLE, wide, other) == clean(TABLE, other, wide) == both


def test_a_column_goes_unless_the_other_side_wrote_in_it() -> None:
    narrow = "| k | v |\n|---|---|\n| a | 1 |\n| b | 2 |\n| c | 3 |\n"
    assert clean(TABLE, narrow, with_(TABLE, ("2", "22"))) == with_(narrow, ("2", "22"))
    assert conflict(TABLE, narrow, with_(TABLE, ("| y |", "| Y |")))[0] == TABLE


def test_a_table_that_is_sorted_or_lined_up_keeps_the_other_sides_cells() -> None:
    lines = TABLE.splitlines(keepends=True)
    turned = "".join([*lines[:2], *lines[:1:-1]])
    assert clean(TABLE, turned, with_(TABLE, ("| y |", "| Y |"))) == with_(turned, ("| y |", "| Y |"))
    wide = TABLE.replace("| k |", "| k   |").replace("|---|---|", "|-----|---|", 1).replace("| a |", "| a   |")
    assert clean(TABLE, wide, with_(TABLE, ("| y |", "| Y |"))) == with_(wide, ("| y |", "| Y |"))


def test_the_same_cell_changed_twice_is_a_conflict_of_that_row_alone() -> None:
    found = joined(TABLE, with_(TABLE, ("2", "7")), with_(TABLE, ("2", "8"), ("3", "33")))
    assert found.text == with_(TABLE, ("2", "7"), ("3", "33"))
    (only,) = found.conflicts
    assert (only.ours, only.theirs, only.line) == ("| b | 7 | y |\n", "| b | 8 | y |\n", 4)


def test_items_join_nested_ones_too() -> None:
    ours = with_(LIST, ("- two\n", "- zero\n- two\n"), ("inner a", "inner A"))
    theirs = with_(LIST, ("  - inner b\n", "  - inner b\n  - inner c\n"), ("- three", "- 3"))
    assert clean(LIST, ours, theirs) == "- one\n- zero\n- two\n  - inner A\n  - inner b\n  - inner c\n- 3\n"


def test_check_boxes_and_texts_of_one_task_join() -> None:
    base = "- [ ] write it down\n- [ ] tell them\n"
    ours, theirs = with_(base, ("[ ]", "[x]")), with_(base, ("down", "down today"), ("- [ ] tell", "- [x] tell"))
    assert clean(base, ours, theirs) == "- [x] write it down today\n- [x] tell them\n"


def test_items_are_counted_through_only_where_they_were() -> None:
    base = "1. a\n2. b\n3. c\n"
    assert clean(base, "1. new\n2. a\n3. b\n4. c\n", "1. a\n2. b\n3. c\n4. d\n") == "1. new\n2. a\n3. b\n4. c\n5. d\n"
    from_0 = "0. we count it\n1. b\n"
    assert clean(from_0, "0. x\n1. we count it now\n2. b\n", "0. y\n1. z\n2. so we count it\n3. b\n") == (
        "0. x\n1. y\n2. z\n3. so we count it now\n4. b\n"
    )
    ones = "1. a\n1. b\n1. c\n"
    assert clean(ones, "1. new\n1. a\n1. b\n1. c\n", "1. a\n1. b\n1. c\n1. d\n") == "1. new\n1. a\n1. b\n1. c\n1. d\n"


def test_what_was_moved_keeps_the_other_sides_edits_and_is_not_doubled() -> None:
    page = "# T\n\nintro text\n\n## A\n\nabout the first thing\n\n## B\n\nabout the second thing\n"
    moved = "# T\n\nintro text\n\n## B\n\nabout the second thing\n\n## A\n\nabout the first thing\n"
    other = with_(page, ("first thing\n", "very first thing\n\nand more of it\n"))
    both = with_(moved, ("first thing\n", "very first thing\n\nand more of it\n"))
    assert clean(page, moved, other) == clean(page, other, moved) == both
    assert clean(page, moved, with_(moved, ("second", "2nd"))) == with_(moved, ("second", "2nd"))
    assert [change.kind for change in joined(page, other, moved).changes] == ["moved"] * 2


def test_keys_join_and_untouched_ones_keep_their_bytes() -> None:
    ours = with_(FRONT, ("[a, b]", "[a, b, ours]"), ("- y\n", "- y\n- ours\n"), ("A page", "Our page"))
    theirs = with_(FRONT, ("[a, b]", "[theirs, b]"), ("- x\n", ""), ("owner: ann   # on leave", "owner: bob"))
    assert clean(FRONT, ours, theirs) == with_(
        FRONT,
        ("[a, b]", "[theirs, b, ours]"),
        ("- x\n- y\n", "- y\n- ours\n"),
        ("A page", "Our page"),
        ("owner: ann   # on leave", "owner: bob"),
    )


def test_an_entry_joins_a_key_whose_own_line_the_other_side_changed() -> None:
    front = "---\ntags:\n- x\nowner: ann\n---\n\ntext\n"
    key, entry = ("tags:", "tags: # of the team"), ("- x\n", "- x\n- y\n")
    assert clean(front, with_(front, key), with_(front, entry)) == with_(front, key, entry)


def test_a_key_that_both_changed_is_a_conflict_of_its_own() -> None:
    found = joined(FRONT, with_(FRONT, ("ann", "bob")), with_(FRONT, ("ann", "eve"), ("A page", "Their page")))
    assert found.text == with_(FRONT, ("ann", "bob"), ("A page", "Their page"))
    (only,) = found.conflicts
    assert (only.ours, only.theirs) == ("owner: bob   # on leave\n", "owner: eve   # on leave\n")


def test_front_matter_that_both_sides_gave_a_page_is_one() -> None:
    assert clean("text\n", "---\na: 1\n---\n\ntext\n", "---\nb: 2\n---\n\ntext\n") == "---\na: 1\nb: 2\n---\n\ntext\n"


def test_different_sentences_of_one_line_join_and_the_same_one_does_not() -> None:
    base = "It starts at nine. It runs for an hour. It ends at ten.\n"
    assert clean(base, with_(base, ("nine", "eight")), with_(base, ("at ten", "at noon"))) == with_(
        base, ("nine", "eight"), ("at ten", "at noon")
    )
    assert conflict(base, with_(base, ("nine", "eight")), with_(base, ("nine", "seven")))[0] == base


def test_words_next_to_each_other_are_not_joined() -> None:
    base = "the quick brown fox jumps over the lazy dog\n"
    conflict(base, with_(base, ("quick", "slow")), with_(base, ("brown", "red")))
    conflict(base, with_(base, ("quick", "slow")), with_(base, ("jumps", "hops")))
    assert clean(base, with_(base, ("quick", "slow")), with_(base, ("lazy", "idle"))) == with_(
        base, ("quick", "slow"), ("lazy", "idle")
    )


@pytest.mark.parametrize(
    "block",
    [
        "```py\na = 1\nb = 2\nc = 3\n```\n",
        "~~~~\n```\na = 1\nb = 2\nc = 3\n```\n~~~~\n",
        "<div>\na = 1\nb = 2\nc = 3\n</div>\n",
        "> [!note] Mind\n> a = 1\n> b = 2\n> c = 3\n",
        "%%\na = 1\nb = 2\nc = 3\n%%\n",
    ],
    ids=["fence", "fence in fence", "html", "callout", "comment"],
)
def test_what_must_be_whole_joins_only_with_an_unchanged_line_between_and_is_never_cut(block: str) -> None:
    page = f"before\n\n{block}\nafter\n"
    assert clean(page, with_(page, ("= 1", "= 9")), with_(page, ("= 3", "= 7"))) == with_(
        page, ("= 1", "= 9"), ("= 3", "= 7")
    )
    conflict(page, with_(page, ("= 1", "= 9")), with_(page, ("= 2", "= 7")))
    first = block.split("\n", 1)[0] + "\n"
    conflict(page, with_(page, (first, first.rstrip() + "x\n")), with_(page, ("= 2", "= 7")))
    assert clean(page, with_(page, (block, block + "\nours\n")), with_(page, (block, "theirs\n\n" + block))) == with_(
        page, (block, "theirs\n\n" + block + "\nours\n")
    )


def test_a_block_taken_out_by_one_and_changed_by_the_other_is_a_conflict() -> None:
    page = "# T\n\nfirst block of text\n\nsecond block of text\n"
    gone, changed = with_(page, ("second block of text\n", "")), with_(page, ("second", "2nd"))
    assert conflict(page, gone, changed) == ("second block of text\n", "", "2nd block of text\n")
    assert conflict(page, changed, gone) == ("second block of text\n", "2nd block of text\n", "")


def test_a_renamed_heading_and_edits_below_it_join() -> None:
    page = "# T\n\n## Old name\n\nsome text here\n"
    assert (
        clean(page, with_(page, ("Old name", "New title")), page + "\nmore text\n")
        == with_(page, ("Old name", "New title")) + "\nmore text\n"
    )
    conflict(page, with_(page, ("Old name", "New title")), with_(page, ("Old name", "Other title")))
    assert clean(page, with_(page, ("## Old", "### Old")), with_(page, ("name", "names"))) == with_(
        page, ("## Old name", "### Old names")
    )


def test_text_for_a_section_that_is_gone_is_not_put_under_another() -> None:
    page = "# T\n\n## A\n\nabout the first thing\n\n## B\n\nabout the second thing\n"
    gone = "# T\n\n## B\n\nabout the second thing\n"
    conflict(page, gone, with_(page, ("first thing\n", "first thing\n\nnew about A\n")))


def test_new_text_goes_before_new_sections() -> None:
    page = "# T\n\n## A\n\nabout it\n"
    ours, theirs = page + "\n## B\n\nabout B\n", page + "\nmore about A\n"
    both = "# T\n\n## A\n\nabout it\n\nmore about A\n\n## B\n\nabout B\n"
    assert clean(page, ours, theirs) == clean(page, theirs, ours) == both


def test_what_both_added_is_there_once() -> None:
    page = "# T\n\nfirst\n"
    assert clean(page, page + "\nsame\n\nours\n", page + "\nsame\n\ntheirs\n") == page + "\nsame\n\nours\n\ntheirs\n"
    assert clean("- a\n", "- a\n- b\n", "- a\n- b\n- c\n") == "- a\n- b\n- c\n"


def test_two_wordings_of_one_added_text_conflict() -> None:
    page = "# T\n\nThe function `Lines` reads a file.\n"
    ours = "If the file that you name is empty or does not exist, `Lines` returns an empty list rather than failing.\n"
    theirs = "If the file is empty or does not exist, `Lines` returns an empty list. It does not fail.\n"
    assert conflict(page, f"{page}\n{ours}", f"{page}\n{theirs}") == ("", ours, theirs)
    steps = "1. Adapt the tests that exist\n2. Write others for the rest\n"
    more = "1. Adapt the tests that exist, or leave them out\n2. Write others for the rest\n3. Publish the results\n"
    assert conflict(page, f"{page}\n{steps}", f"{page}\n{more}") != ("", "", "")


@pytest.mark.parametrize(
    ("ours", "theirs"),
    [
        ("Host 3 wrote entry 4 here.\n", "Host 5 wrote entry 2 here.\n"),
        ("Set `FORGE_TOKEN` to the token of the server.\n", "Set `FORGE_URL` to the address of the server.\n"),
    ],
)
def test_two_added_texts_about_different_things_are_both_kept(ours: str, theirs: str) -> None:
    page = "# T\n\nfirst\n"
    found = clean(page, f"{page}\n{ours}", f"{page}\n{theirs}")
    assert ours.strip() in found
    assert theirs.strip() in found


def test_lines_join_where_one_side_made_an_item_of_the_paragraph() -> None:
    base = "Bees live\non the roof.\n"
    assert clean(base, f"{base}Since 2019.\n", f"- {base}") == f"- {base}Since 2019.\n"


def test_blocks_are_not_glued_together() -> None:
    assert clean("a\n", "a\n\nb\n", "new\n\na\n") == "new\n\na\n\nb\n"
    # An underline would make a heading of the other side's line.
    found = joined("one two three\n", "one two three\nfour five\n", "one two three\n\n---\n")
    assert "four five\n---" not in found.text


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
@pytest.mark.parametrize("bom", ["", "\ufeff"])
def test_what_is_not_joined_keeps_every_byte(end: str, bom: str) -> None:
    page = (
        f"{bom}---\n# c\nk:   v\n---\n\n# T  \n\n\ta tab\n\nold text here   \n\n\n* item\n\n\n\nlast, no end".replace(
            "\n", end
        )
    )
    ours, theirs = with_(page, ("old text", "our text")), with_(page, ("* item", "* other item"))
    assert clean(page, ours, theirs) == with_(ours, ("* item", "* other item"))


def test_lists_nested_as_deep_as_they_are_read_are_joined() -> None:
    """Each level takes a few calls; a hundred of them must not exhaust the stack."""
    base = "".join("  " * depth + f"- level {depth}\n" for depth in range(95))
    ours, theirs = with_(base, ("level 93\n", "level 93 by us\n")), with_(base, ("level 91\n", "level 91 by them\n"))
    assert clean(base, ours, theirs) == with_(
        base, ("level 93\n", "level 93 by us\n"), ("level 91\n", "level 91 by them\n")
    )


def test_taking_out_more_and_less_of_the_same_is_taking_out_more() -> None:
    assert clean(LIST, "- one\n", with_(LIST, ("- three\n", ""))) == "- one\n"
    assert clean(FRONT, with_(FRONT, ("tags: [a, b]\n", "lang: en\n")), with_(FRONT, ("tags: [a, b]\n", ""))) == with_(
        FRONT, ("tags: [a, b]\n", "lang: en\n")
    )


def test_what_was_joined_already_is_not_joined_again() -> None:
    """A caller whose answer was lost sends the same again, against the same base."""
    ours = with_(TABLE, ("| 1 |", "| 11 |"), ("| c | 3 | z |\n", ""))
    theirs = with_(TABLE, ("| x |", "| xx |"), ("| b | 2 | y |\n", "| new | 0 | q |\n| b | 2 | y |\n"))
    once = clean(TABLE, ours, theirs)
    assert clean(TABLE, once, theirs) == once


@pytest.mark.parametrize("swapped", [False, True])
def test_a_list_that_one_side_numbers_otherwise_is_numbered_so(*, swapped: bool) -> None:
    """Many writers number every item 1, so that an insertion changes one line."""
    base, ones = "1. one\n2. two\n3. three\n", "1. one\n1. two\n1. three\n"
    edited = "1. one\n2. two, changed\n3. three\n4. four\n"
    ours, theirs = (edited, ones) if swapped else (ones, edited)
    found = join(cut(base), cut(ours), cut(theirs))
    assert not found.conflicts
    assert found.text == "1. one\n1. two, changed\n1. three\n1. four\n"


def test_two_wordings_of_one_added_text_are_a_conflict() -> None:
    base = "# T\n\nEnd.\n"
    first = "The second example is used where gmsa is in use, and restarts the service until the pod has logged on."
    ours, theirs = (f"# T\n\nShared.\n\n{text}\n\nEnd.\n" for text in (first, first.replace("gmsa", "GMSA accounts")))
    found = join(cut(base), cut(ours), cut(theirs))
    assert found.text == ours
    ((conflict),) = found.conflicts
    assert (conflict.base, conflict.ours.strip(), conflict.theirs.strip()) == (
        "",
        first,
        first.replace("gmsa", "GMSA accounts"),
    )


def test_similar_items_that_both_sides_add_are_two_items() -> None:
    base = "- [Report 2023](2023.md)\n"
    found = join(cut(base), cut(base + "- [Report 2024](2024.md)\n"), cut(base + "- [Report 2025](2025.md)\n"))
    assert not found.conflicts
    assert found.text == base + "- [Report 2024](2024.md)\n- [Report 2025](2025.md)\n"
