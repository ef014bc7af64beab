"""What the rules of folders allow (decision 114)."""

from __future__ import annotations

from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from knowledge.access.rules import UNRESTRICTED, AccessRules, PathAccess, PathRule, Right

NONE, READ, PROPOSE, WRITE = Right


def access_of(person: str | None, *rules: tuple[str, str, Right], groups: tuple[str, ...] = ()) -> PathAccess:
    return AccessRules(PathRule(*rule) for rule in rules).access(person, groups)


def test_without_rules_everybody_may_write_everywhere() -> None:
    access = access_of("ann")
    assert access == UNRESTRICTED
    assert access.right("any/page.md") is WRITE
    assert access.right("") is WRITE


def test_folders_that_no_rule_reaches_stay_as_they_are() -> None:
    access = access_of("ben", ("ann", "people/ann", WRITE))
    assert access.right("plans/q3.md") is WRITE
    assert access.right("people/team.md") is WRITE
    assert access != UNRESTRICTED


def test_somebody_that_no_rule_of_the_folder_names_has_no_right_there() -> None:
    """The rules of a folder are the whole list of those who may enter it, whatever a folder above says."""
    rules = (("*", "", WRITE), ("ann", "people/ann", WRITE))
    assert access_of("ann", *rules).right("people/ann/diary.md") is WRITE
    assert access_of("ben", *rules).right("people/ann/diary.md") is NONE
    assert access_of(None, *rules).right("people/ann/diary.md") is NONE


@pytest.mark.parametrize(
    ("path", "right"),
    [
        ("a.md", READ),
        ("docs/a.md", PROPOSE),
        ("docs/api/a.md", NONE),
        ("docs/api/v2/a.md", WRITE),
        ("docs/apis/a.md", PROPOSE),
        ("docs", PROPOSE),
        ("", READ),
    ],
)
def test_the_nearest_folder_with_rules_decides(path: str, right: Right) -> None:
    access = access_of(
        "ann", ("*", "", READ), ("*", "docs", PROPOSE), ("*", "docs/api", NONE), ("*", "docs/api/v2", WRITE)
    )
    assert access.right(path) is right


def test_a_rule_for_the_person_comes_before_those_of_groups_and_they_before_everybody() -> None:
    rules = (("*", "a", WRITE), ("@staff", "a", READ), ("@lead", "a", PROPOSE), ("ann", "a", NONE))
    assert access_of("ann", *rules, groups=("staff", "lead")).right("a/x.md") is NONE
    assert access_of("ben", *rules, groups=("staff", "@lead")).right("a/x.md") is PROPOSE
    assert access_of("eve", *rules, groups=("staff",)).right("a/x.md") is READ
    assert access_of("tom", *rules).right("a/x.md") is WRITE


def test_a_caller_who_is_nobody_is_named_by_the_star_alone() -> None:
    rules = (("*", "a", READ), ("@staff", "a", WRITE))
    assert access_of(None, *rules, groups=("staff",)).right("a/x.md") is READ


def test_a_person_whose_name_looks_like_a_group_is_no_member_of_it() -> None:
    rules = (("@staff", "a", WRITE),)
    assert access_of("staff", *rules).right("a/x.md") is NONE


@pytest.mark.parametrize(
    "spelling",
    [
        "Private/x.md",
        "./private//x.md",
        "private\\x.md",
        "PRIVATE/",
        "pri\u200bvate/x.md",
        "private./x.md",
        "\uff50rivate/x.md",
        "private:s/x",
    ],
)
def test_another_spelling_of_a_folder_has_its_rules(spelling: str) -> None:
    assert access_of("ben", ("ann", "private", WRITE)).right(spelling) is NONE


def test_composed_and_decomposed_letters_are_one_folder() -> None:
    assert access_of("ben", ("ann", "Caf\u00e9", WRITE)).right("cafe\u0301/x.md") is NONE


@pytest.mark.parametrize("path", ["../private/x.md", "a/../private/x.md", "/private/x.md", ".git/x.md", "a\x00.md"])
def test_there_is_no_right_on_what_can_never_be_a_page(path: str) -> None:
    assert access_of("ben", ("*", "private", READ)).right(path) is NONE


def test_a_hidden_folder_can_be_entered_for_the_sake_of_a_readable_one_below() -> None:
    access = access_of("ben", ("ann", "private", WRITE), ("ben", "private/shared", READ))
    assert not access.may_read("private")
    assert access.may_enter("private")
    assert access.may_enter("private/shared/deep")
    assert not access.may_enter("private/other")
    assert access.may_enter("priv")
    assert access.filter(["a.md", "private/x.md", "private/shared/y.md"]) == ["a.md", "private/shared/y.md"]


def test_rules_that_allow_everything_restrict_nobody() -> None:
    access = access_of("ann", ("*", "", WRITE), ("ann", "private", WRITE))
    assert access.reads_all
    assert {access.right(path) for path in ("", "a.md", "private", "private/x.md")} == {WRITE}


def test_callers_who_may_read_the_same_folders_have_the_same_list() -> None:
    rules = (("*", "", READ), ("ann", "a", WRITE), ("*", "a", NONE), ("*", "a/b", NONE), ("*", "c", WRITE))
    assert access_of("ben", *rules).reading == (("a", False),)
    assert access_of("ann", *rules).reading == (("a/b", False),)
    assert access_of("ben", *rules).reading == access_of("tom", ("tom", "a", NONE)).reading


FOLDERS = ["", "a", "a/b", "a/b/c", "d"]
RULES = st.lists(
    st.builds(
        PathRule, st.sampled_from(["ann", "ben", "@g", "@h", "*"]), st.sampled_from(FOLDERS), st.sampled_from(Right)
    )
)


@given(RULES, st.sampled_from([None, "ann", "ben", "tom"]), st.sets(st.sampled_from(["g", "h"])))
def test_rights_are_what_a_search_through_all_rules_finds(
    rules: list[PathRule], person: str | None, groups: set[str]
) -> None:
    """The slow and obvious reading of the four sentences at the top of the module."""
    access = AccessRules(rules).access(person, groups)
    for folder in FOLDERS:
        above = [folder[: len(folder) - cut] for cut in range(len(folder) + 1)]
        near = next((one for one in above if any(rule.folder == one for rule in rules)), None)
        there = [rule for rule in rules if rule.folder == near]
        mine = {f"@{group}" for group in groups} if person else set()
        tiers = [
            [r for r in there if r.who == person],
            [r for r in there if r.who in mine],
            [r for r in there if r.who == "*"],
        ]
        named = next((tier for tier in tiers if tier), [])
        right = WRITE if near is None else max((rule.right for rule in named), default=NONE)
        assert access.right(f"{folder}/p.md".lstrip("/")) is right


@given(RULES, RULES)
def test_equal_lists_mean_the_same_readable_pages(some: list[PathRule], others: list[PathRule]) -> None:
    one, other = AccessRules(some).access("ann"), AccessRules(others).access("ben", ["g"])
    same = all(
        one.may_read(f"{a}{b}".lstrip("/")) == other.may_read(f"{a}{b}".lstrip("/"))
        for a, b in product(FOLDERS, ["", "/p.md"])
    )
    assert same == (one.reading == other.reading)
