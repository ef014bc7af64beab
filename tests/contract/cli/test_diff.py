"""`diff` as a person uses it: what a change did, and any two states of a page."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from mcp_server.cli.history.view.diff_view import print_diff
from tests.contract.cli.test_history import PAGES, edits, listed, moves
from tests.support.hosts.persons import Person
from tests.support.knowledge_bases.folders import write

TEA_PAGE = "drinks/tea.md"


@pytest.fixture
def ann(tmp_path: Path) -> Person:
    write(tmp_path / "kb", PAGES)
    person = Person(tmp_path)
    edits(person, TEA_PAGE, "3 minutes", "4 minutes")
    edits(person, TEA_PAGE, "No milk.", "No milk, please.")
    return person


def fields(ann: Person, *words: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(ann.here("diff", *words, "--json").stdout)
    return found


def test_without_more_the_newest_change_is_shown(ann: Person) -> None:
    done = ann.here("diff", TEA_PAGE)
    assert (done.returncode, done.stderr) == (0, "")
    assert "-No milk.\n+No milk, please." in done.stdout
    assert "4 minutes" not in done.stdout


def test_one_id_shows_what_that_change_did_and_two_compare_what_they_left(ann: Person) -> None:
    milk, minutes, begin = (change["id"] for change in listed(ann, TEA_PAGE))
    assert "-It takes 3 minutes.\n+It takes 4 minutes." in ann.here("diff", TEA_PAGE, minutes).stdout
    both = ann.here("diff", TEA_PAGE, begin, milk).stdout
    assert "+It takes 4 minutes." in both
    assert "+No milk, please." in both
    back = fields(ann, TEA_PAGE, milk, begin)
    assert "+It takes 3 minutes." in back["diff"]
    assert (back["from"]["change"], back["to"]["change"], back["added"], back["removed"]) == (milk, begin, 2, 2)


def test_a_state_is_named_by_revision_by_time_or_as_now(ann: Person) -> None:
    oldest = listed(ann, TEA_PAGE)[-1]
    revision = oldest["pages"][0]["after"]
    page = ann.kb / TEA_PAGE
    page.write_text(page.read_text().replace("# Tea", "# Green tea"))
    for words in ([revision], [revision, "now"], [oldest["id"], "now"]):
        found = fields(ann, TEA_PAGE, *words)
        assert "+# Green tea" in found["diff"]
        assert found["from"]["revision"] == revision
    assert fields(ann, TEA_PAGE, revision, "today")["diff"] == fields(ann, TEA_PAGE, revision, "now")["diff"]
    minutes = listed(ann, TEA_PAGE)[2]
    assert fields(ann, TEA_PAGE, minutes["at"], "now")["from"]["change"] == minutes["id"]


def test_a_moved_page_is_compared_with_what_it_was_before_the_move(ann: Person) -> None:
    moves(ann, TEA_PAGE, "hot/tea.md")
    done = ann.here("diff", "hot/tea.md")
    assert (done.returncode, done.stdout) == (1, "hot/tea.md has not changed between the two\n")
    begin = listed(ann, "hot/tea.md")[-1]["id"]
    assert "+It takes 4 minutes." in ann.here("diff", "hot/tea.md", begin, "now").stdout


def test_a_removed_page_is_shown_as_removed(ann: Person) -> None:
    (ann.kb / TEA_PAGE).unlink()
    found = fields(ann, TEA_PAGE)
    assert found["to"]["revision"] is None
    assert "-# Tea" in found["diff"]


def test_a_unified_diff_keeps_tabs(ann: Person) -> None:
    page = ann.kb / TEA_PAGE
    page.write_text(page.read_text() + "\n\tcode\n")
    assert "+\tcode\n" in ann.here("diff", TEA_PAGE, "--unified").stdout + "\n"


def test_the_first_state_on_record_is_shown_as_added_with_a_remark(ann: Person) -> None:
    begin = listed(ann, TEA_PAGE)[-1]["id"]
    done = ann.here("diff", TEA_PAGE, begin)
    assert "+It takes 3 minutes." in done.stdout
    assert "it is not known what drinks/tea.md was before" in done.stderr
    assert fields(ann, TEA_PAGE, begin)["known_before"] is False


def test_words_are_marked_as_text_or_in_colour(ann: Person) -> None:
    assert "No milk{+, please+}." in ann.here("diff", TEA_PAGE, "--words").stdout
    with ann.at("diff", TEA_PAGE) as terminal:
        shown = terminal.until("No milk, please.")
        assert terminal.left() == 0
    assert "+++ drinks/tea.md (after change" in shown
    assert b"\x1b[7;32m, please\x1b[0m" in terminal.raw


@pytest.mark.parametrize(
    ("old", "new", "marked"),
    [
        ("One two three.", "One 2 three, four.", "One [-two-]{+2+} three{+, four+}."),
        ("a b c d e f", "a c b d e f", "a {+c +}b[- c-] d e f"),
        ("Nothing alike here", "completely other words", "[-Nothing alike here-]{+completely other words+}"),
        ("begin and end", "begin and the very end", "begin and {+the very +}end"),
    ],
)
def test_each_word_of_both_lines_is_in_the_marked_line(
    old: str, new: str, marked: str, capsys: pytest.CaptureFixture[str]
) -> None:
    print_diff(f"--- a.md\n+++ a.md\n@@ -1 +1 @@\n-{old}\n+{new}", titles=("then", "now"), form="words")
    assert capsys.readouterr().out.splitlines()[3] == marked


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (["drinks"], 1, "it is a folder; name a page"),
        (["never.md"], 1, "nothing at 'never.md'"),
        (["start.md"], 1, "nobody has changed start.md yet; knowledge-forge history start.md"),
        ([TEA_PAGE, "soon"], 2, "'soon' is not the id of a change, a revision, now, or a time"),
        ([TEA_PAGE, "4711"], 1, "the history of drinks/tea.md has no change 4711"),
        ([TEA_PAGE, "now", "e4711"], 1, "has neither a change nor a revision e4711"),
        ([TEA_PAGE, "0123456789abcdef"], 1, "has neither a change nor a revision 0123456789abcdef"),
        ([TEA_PAGE, "1999-01-01"], 1, "it is not known what drinks/tea.md was then: its history begins at 2"),
        ([TEA_PAGE, "--words", "--unified"], 2, "not allowed with argument"),
    ],
)
def test_a_mistake_is_one_sentence_that_says_what_to_do(ann: Person, words: list[str], code: int, said: str) -> None:
    done = ann.here("diff", *words)
    assert (done.returncode, done.stdout) == (code, "")
    assert said in done.stderr
    assert done.stderr.count("\n") == 1


def test_hostile_text_does_not_act_on_the_terminal(ann: Person) -> None:
    page = ann.kb / TEA_PAGE
    page.write_text(page.read_text() + "\n\x1b[2J \u202e hidden\n--- x\n@@ -1 +1 @@\n")
    for form in ("--words", "--unified"):
        out = ann.here("diff", TEA_PAGE, form).stdout
        assert "\x1b" not in out
        assert "\u202e" not in out
        assert "⟦U+001B⟧[2J" in out
