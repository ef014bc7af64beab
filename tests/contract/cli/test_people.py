"""`people`, `group` and their like as a person uses them: at once until there is a passkey, then only with its signature."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.support.hosts.persons import ME, Person
from tests.support.knowledge_bases.folders import write


@pytest.fixture
def ann(tmp_path: Path) -> Person:
    write(tmp_path / "kb")
    return Person(tmp_path)


def rows(ann: Person, verb: str, *words: str) -> list[dict[str, Any]]:
    done = ann.here(verb, *words, "--json")
    assert done.returncode == 0, done.stderr
    found: list[dict[str, Any]] = json.loads(done.stdout)
    return found


def test_people_are_added_with_their_principals_put_in_groups_and_removed_with_their_tokens(ann: Person) -> None:
    assert "there are no people" in ann.here("people", "list").stdout
    assert ann.here("token", "create", "bob").returncode == 0
    assert rows(ann, "people", "add", "bob")[0]["principals"] == ["bob@token:http"]
    rows(ann, "people", "add", "ada", f"{ME}@*")
    (made,) = rows(ann, "group", "add", "editors", "bob", "ada")
    assert made == {"group": "@editors", "people": ["bob", "ada"]}
    listed = rows(ann, "people", "list")
    assert [(row["person"], row["groups"]) for row in listed] == [("ada", ["@editors"]), ("bob", ["@editors"])]
    assert f"{ME}@*" in ann.here("people", "list").stdout
    assert rows(ann, "people", "remove", "ada", f"{ME}@*")[0]["principals"] == []
    gone = ann.here("people", "remove", "bob")
    assert (gone.returncode, "not protected by a passkey" in gone.stderr) == (0, True)
    assert json.loads(ann.here("token", "list", "--json").stdout)[0]["state"] == "revoked"
    assert rows(ann, "group", "list") == [{"group": "@editors", "people": ["ada"]}]
    assert rows(ann, "group", "remove", "@editors") == []
    assert ann.here("audit", "verify").returncode == 0
    acts = [row["tool"] for row in json.loads(ann.here("audit", "search", "--kind", "trust", "--json").stdout)]
    assert {"person.add", "person.remove", "group.add", "group.remove", "token.revoke"} <= set(acts)


def test_a_person_who_is_removed_loses_the_tokens_that_are_theirs_and_nobody_else_does(ann: Person) -> None:
    for name in ("bob", "bob-laptop", "eve"):
        assert ann.here("token", "create", name).returncode == 0
    rows(ann, "people", "add", "bob", "bob@token:http", "bob-laptop@token:http")
    rows(ann, "people", "add", "eve", "eve@corp:http")
    rows(ann, "people", "add", "ada")
    rows(ann, "reviewers", "set", "hr", "bob")
    assert ann.here("people", "remove", "bob").returncode == 1
    assert {one["state"] for one in rows(ann, "token", "list")} == {"valid"}
    rows(ann, "reviewers", "set", "hr", "ada")
    rows(ann, "people", "remove", "bob")
    rows(ann, "people", "remove", "eve")
    states = {one["principal"]: one["state"] for one in rows(ann, "token", "list")}
    assert states == {"bob@token:http": "revoked", "bob-laptop@token:http": "revoked", "eve@token:http": "valid"}


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["people", "add", "Big Name"], "cannot be the name of a person"),
        (["people", "add", "bob", "bob"], "is no principal"),
        (["people", "remove", "bob"], "nothing would change"),
        (["group", "add", "all", "bob"], "there is no person 'bob'"),
    ],
)
def test_a_change_that_cannot_be_is_refused_in_one_sentence(ann: Person, words: list[str], says: str) -> None:
    refused = ann.here(*words)
    assert (refused.returncode, says in refused.stderr, refused.stdout) == (1, True, "")
    assert rows(ann, "people", "list") == []
