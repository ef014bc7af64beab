"""`edit` and `new` as a person uses them: in an editor, from a file, and while a host writes the same page."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from knowledge.merge.three_way.both_sides import is_unsettled, with_both_sides
from knowledge.state.locations import DRAFTS_FOLDER as FOLDER
from tests.contract.cli.test_history import PAGES, TEA, edits, listed
from tests.support.hosts.persons import ME, Person
from tests.support.hosts.terminals import Terminal
from tests.support.knowledge_bases.folders import write

PAGE = "drinks/tea.md"


@pytest.fixture
def ann(tmp_path: Path) -> Person:
    write(tmp_path / "kb", PAGES)
    return Person(tmp_path)


@pytest.fixture
def editor(ann: Person, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the file of a program that is the person's editor; tests write it. `draft` is the file that it edits."""
    program = ann.folder / "editor.py"
    monkeypatch.delenv("VISUAL", raising=False)
    monkeypatch.setenv("EDITOR", f"{sys.executable} {program}")
    return program


def does(editor: Path, *lines: str) -> None:
    head = ["import pathlib, sys", "draft = pathlib.Path(sys.argv[1])", "text = draft.read_text()"]
    editor.write_text("\n".join([*head, *lines]) + "\n")


def text(ann: Person, path: str = PAGE) -> str:
    return (ann.kb / path).read_text()


def drafts(ann: Person) -> list[str]:
    folder = ann.folder / "state" / FOLDER
    return sorted(file.read_text() for file in folder.iterdir()) if folder.exists() else []


def ended(terminal: Terminal, *texts: str) -> int:
    terminal.until(*texts)
    return terminal.left()


def test_an_edit_is_written_as_the_person_and_can_be_undone(ann: Person, editor: Path) -> None:
    does(editor, "draft.write_text(text.replace('3 minutes', '4 minutes'))")
    with ann.at("edit", PAGE, "--reason", "measured again") as terminal:
        assert (
            ended(terminal, "drinks/tea.md was written (change 1)", "knowledge-forge undo drinks/tea.md --change 1")
            == 0
        )
    assert text(ann) == TEA.replace("3 minutes", "4 minutes")
    newest = listed(ann, PAGE)[0]
    assert (newest["by"], newest["intent"], newest["id"]) == (f"{ME}@terminal", "measured again", "1")
    assert drafts(ann) == []


def test_a_text_left_as_it_was_writes_nothing(ann: Person, editor: Path) -> None:
    does(editor, "draft.write_text(text)")
    with ann.at("edit", PAGE) as terminal:
        assert ended(terminal, "nothing was written: the text is as it was") == 1
    assert listed_or_nothing(ann) == []
    assert drafts(ann) == []


def listed_or_nothing(ann: Person) -> list[object]:
    found: list[object] = json.loads(ann.here("history", "--json").stdout)
    return found


def test_an_editor_that_fails_leaves_the_text_in_its_file(ann: Person, editor: Path) -> None:
    does(editor, "draft.write_text('half')", "sys.exit(3)")
    with ann.at("edit", PAGE) as terminal:
        assert ended(terminal, "ended with code 3; nothing was written; the text is kept in") == 2
    assert text(ann) == TEA
    assert drafts(ann) == ["half"]


@pytest.mark.parametrize("command", ["/nowhere/editor", "'unfinished"])
def test_an_editor_that_cannot_be_started_is_named(ann: Person, monkeypatch: pytest.MonkeyPatch, command: str) -> None:
    monkeypatch.setenv("VISUAL", command)
    with ann.at("edit", PAGE) as terminal:
        assert ended(terminal, "can't be started", "set EDITOR") == 2
    assert text(ann) == TEA


def test_what_a_host_wrote_meanwhile_elsewhere_in_the_page_is_merged(ann: Person) -> None:
    base = revision(ann)
    edits(ann, PAGE, "No milk.", "Some milk.")
    mine = ann.folder / "mine.md"
    mine.write_text(TEA.replace("3 minutes", "4 minutes"))
    with ann.at("edit", PAGE, "--from", str(mine), "--base", base) as terminal:
        assert ended(terminal, "drinks/tea.md was written", "others also wrote to the page") == 0
    assert text(ann) == TEA.replace("3 minutes", "4 minutes").replace("No milk.", "Some milk.")


def revision(ann: Person) -> str:
    """Return the revision of the page, which is kept because it was read."""
    found: str = json.loads(ann.here("read", PAGE, "--json").stdout)["revision"]
    return found


def test_a_conflict_shows_both_sides_in_the_editor_and_keeps_the_person_s_text(ann: Person, editor: Path) -> None:
    page = str(ann.kb / PAGE)
    does(
        editor,
        "if '<<<<<<< the page now' not in text:",
        f"    page = pathlib.Path({page!r})",
        "    page.write_text(page.read_text().replace('3 minutes', '5 minutes').replace('No milk', 'Much milk'))",
        "    draft.write_text(text.replace('3 minutes', '4 minutes'))",
        "else:",
        "    assert 'It takes 5 minutes.' in text and 'It takes 4 minutes.' in text and 'Much milk' in text",
        "    head, _, rest = text.partition('<<<<<<< the page now')",
        "    draft.write_text(head + 'It takes 4 to 5 minutes.' + rest.partition('>>>>>>> your text')[2])",
    )
    with ann.at("edit", PAGE) as terminal:
        terminal.until("somebody changed the same text since you opened it (1 place)", "Edit again")
        terminal.type("y\n")
        assert ended(terminal, "drinks/tea.md was written") == 0
    assert text(ann) == TEA.replace("3 minutes", "4 to 5 minutes").replace("No milk", "Much milk")
    assert drafts(ann) == [TEA.replace("3 minutes", "4 minutes")]


def test_a_conflict_that_is_left_names_both_files_and_how_to_continue(ann: Person) -> None:
    base = revision(ann)
    edits(ann, PAGE, "3 minutes", "5 minutes")
    mine = ann.folder / "mine.md"
    mine.write_text(TEA.replace("3 minutes", "4 minutes"))
    with ann.at("edit", PAGE, "--from", str(mine), "--base", base) as terminal:
        terminal.until("Edit again")
        terminal.type("n\n")
        assert ended(terminal, "the page with both sides marked is", "knowledge-forge edit drinks/tea.md --from") == 1
    assert "5 minutes" in text(ann)
    kept = drafts(ann)
    assert TEA.replace("3 minutes", "4 minutes") in kept
    both = ann.folder / "both.md"
    both.write_text(next(draft for draft in kept if is_unsettled(draft)))
    with ann.at("edit", PAGE, "--from", str(both)) as terminal:
        assert ended(terminal, "the text still has the marks of a conflict") == 1
    assert "<<<<" not in text(ann)


def test_front_matter_that_the_person_removed_is_removed(ann: Person, editor: Path) -> None:
    write(ann.kb, {"tagged.md": "---\ntags: [a]\n---\n# Tagged\n\nText.\n"})
    does(editor, "draft.write_text('# Tagged\\n\\nText.\\n')")
    with ann.at("edit", "tagged.md") as terminal:
        assert ended(terminal, "tagged.md was written") == 0
    assert text(ann, "tagged.md") == "# Tagged\n\nText.\n"


def test_a_script_proposes_what_it_writes(ann: Person) -> None:
    mine = ann.folder / "mine.md"
    mine.write_text(TEA.replace("3 minutes", "4 minutes"))
    done = ann.here("edit", PAGE, "--from", str(mine))
    assert (done.returncode, done.stdout) == (3, "")
    assert "it waits for approval: knowledge-forge review --show p-" in done.stderr
    assert text(ann) == TEA


def test_a_new_page_is_written_with_its_heading(ann: Person, editor: Path) -> None:
    does(editor, "draft.write_text(text + 'Milk comes first.\\n')")
    with ann.at("new", "drinks/chai-latte") as terminal:
        assert ended(terminal, "drinks/chai-latte.md was written (change 1)") == 0
    assert text(ann, "drinks/chai-latte.md") == "# Chai latte\n\nMilk comes first.\n"
    newest = listed(ann)[0]
    assert (newest["by"], newest["pages"][0]["kind"]) == (f"{ME}@terminal", "created")


def test_a_new_page_from_a_file_keeps_its_own_heading_unless_a_title_is_given(ann: Person) -> None:
    mine = ann.folder / "mine.md"
    mine.write_text("# Own heading\n\nText.\n")
    with ann.at("new", "a.md", "--from", str(mine)) as terminal:
        assert ended(terminal, "a.md was written") == 0
    mine.write_text("Text.\n")
    with ann.at("new", "b.md", "--from", str(mine), "--title", "Given") as terminal:
        assert ended(terminal, "b.md was written") == 0
    assert text(ann, "a.md") == "# Own heading\n\nText.\n"
    assert text(ann, "b.md") == "# Given\n\nText.\n"


def test_a_heading_alone_makes_no_page(ann: Person, editor: Path) -> None:
    does(editor, "pass")
    with ann.at("new", "empty.md") as terminal:
        assert ended(terminal, "there is no text besides the heading") == 1
    assert not (ann.kb / "empty.md").exists()


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (["edit", PAGE], 2, "an editor needs a terminal; pass the text with --from FILE"),
        (["edit", "never.md", "--from", "{mine}"], 1, "nothing at 'never.md'"),
        (["edit", PAGE, "--from", "{folder}/missing.md"], 2, "can't read"),
        (["edit", PAGE, "--from", "{mine}", "--base", "0123456789abcdef"], 1, "has no stored revision"),
        (["edit", PAGE, "-", "--from", "{mine}"], 2, "not from both"),
        (["edit", PAGE, "--base", "0123456789abcdef"], 2, "an editor needs a terminal"),
        (["new", PAGE, "--from", "{mine}"], 1, "drinks/tea.md exists already; change it with: knowledge-forge edit"),
        (["new", "drinks/tea", "--from", "{mine}"], 1, "drinks/tea.md exists already"),
        (["new", "drinks", "--from", "{mine}"], 1, "it is a folder; name a page in it"),
        (["new", "../out.md", "--from", "{mine}"], 1, "is not a path in this knowledge base"),
        (["new", "empty.md", "--from", "{empty}"], 2, "the text is empty, so nothing was written"),
    ],
)
def test_a_mistake_is_one_sentence_and_changes_nothing(ann: Person, words: list[str], code: int, said: str) -> None:
    (ann.folder / "mine.md").write_text("# Mine\n\nText.\n")
    (ann.folder / "empty.md").write_text("\n")
    places = {"mine": ann.folder / "mine.md", "empty": ann.folder / "empty.md", "folder": ann.folder}
    done = ann.here(words[0], *(word.format(**places) for word in words[1:]))
    assert (done.returncode, done.stdout) == (code, "")
    assert said in done.stderr
    assert done.stderr.count("\n") == 1
    assert text(ann) == TEA


@pytest.mark.parametrize(
    ("base", "now", "yours", "both"),
    [
        ("One.\n", "Two.\n", "Three.\n", "<<<<<<< the page now\nTwo.\n=======\nThree.\n>>>>>>> your text\n"),
        ("A.\n\nB.\n", "A.\n\nX.\n", "Y.\n\nB.\n", "Y.\n\nX.\n"),
        ("One.\n\nSame.\n", "Two.\n\nSame.\n", "Same.\n", None),
    ],
)
def test_both_sides_of_each_conflict_are_in_the_text(base: str, now: str, yours: str, both: str | None) -> None:
    found = with_both_sides(base, now, yours)
    if both is not None:
        assert found == both
    assert is_unsettled(found) == ("<<<<" in found)
    for line in (*now.splitlines(), *yours.splitlines()):
        assert line in found or line in base.splitlines()
