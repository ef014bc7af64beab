"""The directory of people: who a principal is, which reviewers a page has, and how changes follow one another."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime

import pytest

from knowledge.access.changes import MOST_NAMES, BadDirectoryChange, Changing, DirectoryChange
from knowledge.access.directory import Directory, DirectoryEntry, FolderReviewers
from knowledge.access.rules import Right

NOW = datetime(2026, 11, 27, 12, tzinfo=UTC)
ADA = Changing("ada", NOW)


def after(*changes: DirectoryChange, before: Directory | None = None) -> Directory:
    """Return the directory after these changes, one after the other."""
    directory = before or Directory()
    for change in changes:
        directory = change(directory)
    return directory


TEAM = after(
    ADA.person_added("ada", ["ada@*"]),
    ADA.person_added("ann", ["ann@token:http", "8f1c@corp:http"]),
    ADA.person_added("bob", ["bob@token:http", "bob@example.org@zulip"]),
    ADA.group_added("@editors", ["ann", "bob"]),
    ADA.reviewers_set("hr", ["ada"]),
    ADA.reviewers_set("", ["@editors"]),
    ADA.rule_set("bob", "hr/pay", "none"),
    ADA.rule_set("@editors", "hr", "read"),
)


@pytest.mark.parametrize(
    ("principal", "person"),
    [
        ("ann@token:http", "ann"),
        ("8f1c@corp:http", "ann"),
        ("bob@example.org@zulip", "bob"),
        ("ada@cursor", "ada"),
        ("ada@terminal", "ada"),
        ("ada@token:http", ""),
        ("ada@unenrolled:http", ""),
        ("ann@cursor", ""),
        ("", ""),
    ],
)
def test_a_principal_is_the_person_who_has_it_or_all_hosts_of_its_account(principal: str, person: str) -> None:
    assert TEAM.person_of(principal) == person


@pytest.mark.parametrize(
    ("path", "folder"),
    [
        ("hr/pay/2026.md", "hr"),
        ("hr/_index.md", "hr"),
        ("hr", "hr"),
        ("HR/pay.md", "hr"),
        ("h\u200br/pay.md", "hr"),
        ("hrx/a.md", ""),
        ("a.md", ""),
    ],
)
def test_a_page_has_the_reviewers_of_the_nearest_folder_however_it_is_spelt(path: str, folder: str) -> None:
    names = ("ada",) if folder else ("@editors",)
    assert TEAM.reviewers_of(path) == FolderReviewers(folder, names)


def test_a_page_of_its_own_may_have_reviewers_and_without_any_there_are_none() -> None:
    one = after(ADA.reviewers_set("hr/pay.md", ["ann"]), before=TEAM)
    assert one.reviewers_of("hr/pay.md") == FolderReviewers("hr/pay.md", ("ann",))
    none = after(ADA.reviewers_set("", []), ADA.reviewers_set("hr", []), before=TEAM)
    assert none.reviewers_of("hr/pay.md") is None


def test_a_person_is_among_names_by_name_or_by_group_and_nobody_never_is() -> None:
    assert TEAM.among("ann", ["@editors"])
    assert TEAM.among("ada", ["ada", "@editors"])
    assert not TEAM.among("ada", ["@editors"])
    assert not TEAM.among("", ["", "@editors"])


def test_the_people_in_names_are_those_of_its_groups_too() -> None:
    assert TEAM.people_in(["@editors", "ada", "@nobody"]) == ("ada", "ann", "bob")
    assert TEAM.people_in(["@nobody"]) == ()


def test_a_person_who_is_removed_is_gone_from_groups_rules_and_reviewers() -> None:
    shared = after(ADA.reviewers_set("it", ["bob", "ann"]), ADA.rule_set("*", "hr/pay", "none"), before=TEAM)
    left = after(ADA.person_removed("bob", []), before=shared)
    assert "bob" not in left.people
    assert left.groups == {"editors": ("ann",)}
    assert [one.who for one in left.rules] == ["*", "@editors"]
    assert left.reviewers["it"] == ("ann",)


@pytest.mark.parametrize(
    "change", [ADA.person_removed("ada", []), ADA.group_removed("editors", []), ADA.group_removed("@editors", [])]
)
def test_the_only_reviewer_of_a_folder_is_not_removed_because_then_everybody_could_decide(
    change: DirectoryChange,
) -> None:
    with pytest.raises(BadDirectoryChange, match="only reviewer of"):
        change(TEAM)


@pytest.mark.parametrize(
    ("change", "folder"), [(ADA.person_removed("ann", []), "people/ann"), (ADA.group_removed("editors", []), "hr")]
)
def test_the_only_rule_of_a_folder_is_not_removed_with_its_person_because_then_others_could_get_in(
    change: DirectoryChange, folder: str
) -> None:
    closed = after(ADA.rule_set("ann", "people/ann", "write"), ADA.reviewers_set("", []), before=TEAM)
    with pytest.raises(BadDirectoryChange, match=f"^{folder}/ has no rule except that for"):
        change(closed)
    left = after(ADA.rule_set("*", folder, "none"), change, before=closed)
    assert left.access_of("eve@token:http").right(f"{folder}/a.md") is Right.NONE


def test_adding_and_removing_concern_only_what_is_named_and_repeating_changes_nothing() -> None:
    more = after(ADA.person_added("ann", ["ann@cursor", "ann@token:http"]), before=TEAM)
    assert more.people["ann"] == ("ann@token:http", "8f1c@corp:http", "ann@cursor")
    assert after(ADA.person_added("ann", ["ann@cursor"]), before=more) == more
    assert after(ADA.person_removed("ann", ["ann@cursor"]), before=more) == TEAM
    assert after(ADA.group_added("editors", ["ann"]), before=TEAM) == TEAM
    assert after(ADA.group_removed("editors", ["ann"]), before=TEAM).groups == {"editors": ("bob",)}
    assert after(ADA.rule_removed("bob", "hr"), before=TEAM) == TEAM
    assert [one.folder for one in after(ADA.rule_removed("bob", "hr/pay/"), before=TEAM).rules] == ["hr"]
    assert after(ADA.person_removed("nobody", []), before=TEAM) == TEAM


BAD = ["", "Ann", "an n", "*", "@ann", "-x", "a" * 65, "ann\u202e", "../x", "ann@token:http", "\x1b[2J", "\u0430nn"]


@pytest.mark.parametrize("name", BAD)
def test_a_name_that_could_pass_for_something_else_is_refused(name: str) -> None:
    for change in (ADA.person_added(name, []), ADA.group_added(f"@{name}", [])):
        with pytest.raises(BadDirectoryChange, match="cannot be the name of"):
            change(TEAM)


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (ADA.person_added("eve", ["ann@token:http"]), "is ann already"),
        (ADA.person_added("eve", ["ada@*"]), "is ada already"),
        (ADA.person_added("eve", ["eve"]), "is no principal"),
        (ADA.person_added("eve", ["@token:http"]), "is no principal"),
        (ADA.person_added("eve", ["e ve@x"]), "is no principal"),
        (ADA.person_added("eve", ["eve\u202e@x"]), "is no principal"),
        (ADA.person_added("eve", ["eve@\ud800"]), "is no principal"),
        (ADA.person_added("eve", ["e" * 300 + "@x"]), "is no principal"),
        (ADA.person_added("eve", ["root@unenrolled:http"]), "everybody who sends no token"),
        (ADA.person_added("eve", [f"eve@host-{n}" for n in range(MOST_NAMES + 1)]), "at most 500"),
        (ADA.group_added("editors", ["eve"]), "no person 'eve'"),
        (ADA.group_added("editors", ["@editors"]), "no person '@editors'"),
        (ADA.rule_set("eve", "hr", "read"), "no person 'eve'"),
        (ADA.rule_set("@nobody", "hr", "read"), "no group '@nobody'"),
        (ADA.rule_set("ann", "hr", "all"), "is no right"),
        (ADA.rule_set("ann", "../etc", "read"), "would leave it"),
        (ADA.rule_set("ann", "/etc", "read"), "relative"),
        (ADA.rule_set("ann", ".git", "read"), "hidden"),
        (ADA.rule_set("ann", "a\u202eb", "read"), "bidirectional"),
        (ADA.rule_set("ann", "a\ud800", "read"), "not valid Unicode"),
        (ADA.rule_set("ann", "日" * 334, "read"), "at most 1,000 bytes"),
        (ADA.reviewers_set("hr", ["ann", "*"]), "no person '*'"),
        (ADA.reviewers_set("hr\n", ["ann"]), "control character"),
    ],
)
def test_a_change_that_cannot_be_is_refused_in_one_sentence(change: DirectoryChange, says: str) -> None:
    with pytest.raises(BadDirectoryChange, match=r".") as refused:
        change(TEAM)
    assert says in str(refused.value)


def test_everybody_may_have_a_rule_and_folders_have_one_spelling() -> None:
    found = after(ADA.rule_set("*", "./hr//", "none"), ADA.rule_set("*", "/", "read"), before=TEAM)
    assert [(one.folder, one.names) for one in found.rules if one.who == "*"] == [("", ("read",)), ("hr", ("none",))]


def test_another_spelling_of_a_folder_changes_its_rules_and_reviewers_and_adds_none() -> None:
    """Both spellings are one folder, so a second entry would be without effect, or open what the first one closes."""
    set_again = after(ADA.rule_set("@editors", "HR", "none"), ADA.reviewers_set("Hr", ["bob"]), before=TEAM)
    assert len(set_again.entries) == len(TEAM.entries)
    assert set_again.access_of("ann@token:http").right("hr/a.md") is Right.NONE
    assert set_again.reviewers_of("hr/a.md") == FolderReviewers("hr", ("bob",))
    removed = after(ADA.rule_removed("@editors", "HR"), ADA.reviewers_set("HR", []), before=TEAM)
    assert len(removed.entries) == len(TEAM.entries) - 2


@pytest.mark.parametrize(
    ("principal", "path", "right"),
    [
        ("ann@token:http", "hr/a.md", Right.READ),
        ("ann@token:http", "a.md", Right.WRITE),
        ("bob@token:http", "hr/pay/a.md", Right.NONE),
        ("ann@token:http", "hr/pay/a.md", Right.NONE),
        ("eve@token:http", "hr/a.md", Right.NONE),
        ("eve@token:http", "a.md", Right.WRITE),
    ],
)
def test_the_access_of_a_principal_is_that_of_its_person_and_their_groups(
    principal: str, path: str, right: Right
) -> None:
    assert TEAM.access_of(principal).right(path) is right
    assert TEAM.access_of(principal) is TEAM.access_of(principal)


def test_a_right_that_is_none_of_ours_is_none() -> None:
    for names in (("admin",), (), ("",)):
        odd = Directory((*TEAM.entries, DirectoryEntry("rule", "*", "odd", names, "eve", NOW)))
        assert odd.access_of("ann@token:http").right("odd/a.md") is Right.NONE


def test_an_entry_keeps_who_changed_it_last() -> None:
    later: Callable[[Directory], Directory] = Changing("bob", NOW.replace(hour=13)).group_added("editors", ["ada"])
    by = {one.label: one.by for one in later(TEAM).entries}
    assert (by["group @editors"], by["person ann"]) == ("bob", "ada")
