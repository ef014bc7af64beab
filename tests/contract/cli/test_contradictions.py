"""`contradictions`: a person looks at a contradiction in the terminal, settles it, and takes that back."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.support.hosts.persons import ME, Person
from tests.support.hosts.writers import writing
from tests.support.knowledge_bases.folders import write

PAYMENTS = "# Payments\n\nThe payment service retries a failed call 3 times before it gives up.\n"
OPERATIONS = (
    "# Operations\n\nTell support.\n\n- The payment service retries a failed call 5 times before it gives up.\n- Go.\n"
)
PAGES = {
    "payments.md": f"---\nsource: official:payments\n---\n{PAYMENTS}",
    "ops/operations.md": OPERATIONS,
}
needs_terminal = pytest.mark.skipif(os.name == "nt", reason="there are no pseudo-terminals")


@pytest.fixture
def ann(tmp_path: Path) -> Person:
    write(tmp_path / "kb", PAGES)
    person = Person(tmp_path)
    assert person.here("check").returncode == 1
    return person


def text(person: Person, path: str) -> str:
    return (person.kb / path).read_text(encoding="utf-8")


def shown(person: Person, number: str = "1") -> dict[str, Any]:
    found: dict[str, Any] = json.loads(person.here("contradictions", "show", number, "--json").stdout)
    return found


@needs_terminal
def test_keeping_the_text_against_a_claim_that_was_never_written_says_what_was_decided(ann: Person) -> None:
    async def claims() -> None:
        async with writing(ann.settings, level=3) as host:
            claim = "The payment service retries a failed call 4 times before it gives up.\n"
            await host.merge("payments.md", claim, source="wiki:old", base_revision=await host.revision("payments.md"))

    asyncio.run(claims())
    listed = json.loads(ann.here("contradictions", "--json").stdout)
    (number,) = [str(one["id"]) for one in listed if one["new"]["text"].count("4 times")]
    with ann.at("contradictions", "keep", number, "first") as screen:
        screen.until("type the number of the contradiction:")
        screen.type(f"{number}\n")
        screen.until(f"{number} is decided: the existing text stays, the new text is not written", "to undo this")
        assert screen.left() == 0
    assert "4 times" not in text(ann, "payments.md")


def test_both_sides_are_shown_where_they_are_with_what_each_choice_writes(ann: Person) -> None:
    listed = ann.here("contradictions", "list", "ops")
    assert "1  " in listed.stdout
    assert "knowledge-forge contradictions show ID" in listed.stdout
    assert ann.here("contradictions", "list", "elsewhere").stdout == "no contradictions\n"
    screen = ann.here("contradictions", "show", "1").stdout
    for told in (
        "first: payments.md > Payments, line 6",
        "source official:payments, authority",
        "  >    6  The payment service retries a failed call 3 times before it gives up.",
        "second: ops/operations.md > Operations, line 5",
        "       6  - Go.",
        "keep first: rewrites the second statement in ops/operations.md, line 5",
        "    +- The payment service retries a failed call 3 times before it gives up.",
        "knowledge-forge contradictions keep 1 second",
        "knowledge-forge read ops/operations.md",
    ):
        assert told in screen
    found = shown(ann)
    assert (found["status"], found["first"]["places"][0]["line"], found["keep"]["second"]["possible"]) == (
        "open",
        6,
        True,
    )
    assert ann.here("contradictions", "show", "4711").returncode == 1


def test_a_rehearsal_says_what_would_be_written_and_changes_nothing(ann: Person) -> None:
    done = ann.here("contradictions", "keep", "1", "first", "--dry-run")
    assert (done.returncode, "would keep the first statement" in done.stdout) == (0, True)
    edit = ann.here("contradictions", "edit", "1", "--second", "It retries 4 times.", "--dry-run", "--json")
    assert "+- It retries 4 times." in json.loads(edit.stdout)["diff"], "an item of a list stays one"
    for action in (["both", "1", "--reason", "x"], ["dismiss", "1", "--reason", "x"]):
        assert "would say that both hold" in ann.here("contradictions", *action, "--dry-run").stdout
    assert ann.here("contradictions", "edit", "1", "--first", PAGES["payments.md"].splitlines()[5]).returncode == 1
    assert {path: text(ann, path) for path in PAGES} == PAGES


def test_without_a_terminal_nothing_is_settled(ann: Person) -> None:
    for action in (
        ["keep", "1", "first"],
        ["edit", "1"],
        ["edit", "1", "--first", "x"],
        ["both", "1", "--reason", "x"],
    ):
        done = ann.run("contradictions", *action)
        assert (done.returncode, "only a person at a terminal" in done.stderr) == (1, True)
    assert shown(ann)["status"] == "open"
    assert {path: text(ann, path) for path in PAGES} == PAGES


@needs_terminal
def test_a_person_keeps_a_side_and_takes_it_back(ann: Person) -> None:
    with ann.at("contradictions", "keep", "1", "first") as screen:
        screen.until("retries a failed call 5 times", "type the number of the contradiction:")
        screen.type("1\n")
        screen.until("1 is settled; wrote ops/operations.md (change", "contradictions reopen 1")
        assert screen.left() == 0
    assert text(ann, "ops/operations.md") == OPERATIONS.replace("5 times", "3 times")
    assert text(ann, "payments.md") == PAGES["payments.md"]
    found = shown(ann)
    assert (found["status"], found["settled"]["how"], found["settled"]["by"]) == (
        "settled",
        "first",
        f"{ME} (terminal)",
    )
    (listed,) = json.loads(ann.here("contradictions", "list", "--settled", "--json").stdout)
    assert listed["settled"] == found["settled"]
    assert f": {ME} (terminal) kept the first statement" in ann.here("contradictions", "list", "--settled").stdout
    again = ann.here("contradictions", "keep", "1", "second")
    assert (again.returncode, "contradiction 1 is settled" in again.stderr) == (1, True)
    assert "-- The payment" in ann.here("contradictions", "reopen", "1", "--dry-run").stdout
    with ann.at("contradictions", "reopen", "1") as screen:
        screen.until("to take this settlement back, type the number")
        screen.type("1\n")
        screen.until("1 is open again; wrote ops/operations.md")
        assert screen.left() == 0
    assert {path: text(ann, path) for path in PAGES} == PAGES
    assert shown(ann)["status"] == "open"


@needs_terminal
def test_another_number_settles_nothing(ann: Person) -> None:
    with ann.at("contradictions", "keep", "1", "second") as screen:
        screen.until("type the number of the contradiction:")
        screen.type("yes\n")
        screen.until("nothing was changed: that is not the number")
        assert screen.left() == 1
    assert {path: text(ann, path) for path in PAGES} == PAGES


@needs_terminal
def test_a_person_writes_the_text_that_holds_in_their_editor(ann: Person, monkeypatch: pytest.MonkeyPatch) -> None:
    program = ann.folder / "editor.py"
    program.write_text(
        "import pathlib, sys\n"
        "page = pathlib.Path(sys.argv[1])\n"
        "page.write_text(page.read_text(encoding='utf-8').replace('3 times', '4 times').replace('5 times', '4 times'),"
        " encoding='utf-8')\n",
        encoding="utf-8",
    )
    monkeypatch.delenv("VISUAL", raising=False)
    monkeypatch.setenv("EDITOR", f"{sys.executable} {program}")
    with ann.at("contradictions", "edit", "1") as screen:
        screen.until("to edit payments.md and ops/operations.md, type the number")
        screen.type("1\n")
        screen.until("1 is settled; wrote payments.md and ops/operations.md")
        assert screen.left() == 0
    assert text(ann, "payments.md") == PAGES["payments.md"].replace("3 times", "4 times")
    assert text(ann, "ops/operations.md") == OPERATIONS.replace("5 times", "4 times")
    assert shown(ann)["settled"]["how"] == "edited"


@needs_terminal
def test_a_person_says_that_both_hold(ann: Person) -> None:
    with ann.at("contradictions", "both", "1", "--reason", "two services") as screen:
        screen.until("to say that both hold, type the number")
        screen.type("1\n")
        screen.until("1 is dismissed", "contradictions reopen 1")
        assert screen.left() == 0
    found = shown(ann)
    assert (found["dismissed"]["how"], found["dismissed"]["reason"]) == ("both", "two services")
    assert json.loads(ann.here("check", "--json").stdout)["new"] == 0
    assert ann.here("contradictions", "reopen", "1").stdout == "1 is open again\n"


@needs_terminal
def test_an_editor_that_fails_or_removes_the_marks_changes_nothing(
    ann: Person, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("VISUAL", raising=False)
    emptied = ann.folder / "emptied.py"
    emptied.write_text("import sys; open(sys.argv[1], 'w').close()\n", encoding="utf-8")
    for editor, told in (
        ("no-such-editor-here", "can't be started"),
        (f"{sys.executable} -c exit(3)", "ended with code 3"),
        (f"{sys.executable} {emptied}", "keep the lines that begin with"),
    ):
        monkeypatch.setenv("EDITOR", editor)
        with ann.at("contradictions", "edit", "1") as screen:
            screen.until(told)
            assert screen.left() != 0
    assert {path: text(ann, path) for path in PAGES} == PAGES
