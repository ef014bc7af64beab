"""`history` as a person uses it: what changed, who changed it and why."""

from __future__ import annotations

import asyncio
import json
import re
import shlex
from pathlib import Path
from typing import Any

import pytest

from tests.support.hosts.persons import ME, Person
from tests.support.hosts.writers import writing
from tests.support.knowledge_bases.folders import write

TEA = "# Tea\n\nIt takes 3 minutes.\n\n## Milk\n\nNo milk.\n"
PAGES = {
    "drinks/tea.md": TEA,
    "drinks/coffee.md": "# Coffee\n\nAs [tea](tea.md), but stronger.\n",
    "start.md": "# Start\n\nWe have [tea](drinks/tea.md).\n",
}


@pytest.fixture
def ann(tmp_path: Path) -> Person:
    write(tmp_path / "kb", PAGES)
    return Person(tmp_path)


def edits(ann: Person, path: str, old: str, new: str, *, host: str = "laptop", **more: Any) -> None:
    """Let a host edit a page."""

    async def merge() -> None:
        async with writing(ann.settings, host=host) as client:
            text = client.text(path).replace(old, new)
            await client.merge(path, text, base_revision=await client.revision(path), **more)

    asyncio.run(merge())


def moves(ann: Person, path: str, to: str) -> None:
    async def move() -> None:
        async with writing(ann.settings, host="laptop") as client:
            await client.call("kb_move", path=path, to=to)

    asyncio.run(move())


def listed(ann: Person, *words: str) -> list[dict[str, Any]]:
    done = ann.here("history", *words, "--json")
    assert done.stderr == ""
    found: list[dict[str, Any]] = json.loads(done.stdout)
    return found


def test_without_changes_it_says_so_and_ends_with_1(ann: Person) -> None:
    done = ann.here("history")
    assert (done.returncode, done.stdout, done.stderr) == (1, "no changes on record\n", "")


def test_a_change_is_listed_with_its_author_its_pages_and_its_reason(ann: Person) -> None:
    edits(ann, "drinks/tea.md", "3 minutes", "4 minutes", intent="measured again")
    out = ann.here("history", "drinks/tea.md").stdout
    first = out.splitlines()[0].split()
    newest = listed(ann)[0]
    assert first[0] == newest["id"]
    assert first[3] == newest["by"] == f"{ME}@laptop"
    assert "drinks/tea.md  +1 -1" in out
    assert "measured again" in out
    assert max(map(len, out.splitlines())) <= 80


def test_what_an_editor_wrote_a_moment_ago_is_listed(ann: Person) -> None:
    edits(ann, "drinks/tea.md", "3 minutes", "4 minutes")
    page = ann.kb / "drinks/tea.md"
    page.write_text(page.read_text() + "\nSugar is there.\n")
    newest = listed(ann, "--host", "outside")[0]
    assert newest["outside"]
    assert (newest["pages"][0]["kind"], newest["pages"][0]["added"]) == ("edited", 2)
    assert "outside the server" in ann.here("history", "drinks/tea", "--limit", "1").stdout


def test_a_page_is_found_by_its_title_although_nothing_was_indexed(ann: Person) -> None:
    edits(ann, "drinks/tea.md", "3 minutes", "4 minutes")
    write(ann.kb, {"water.md": "---\naliases: [aqua]\n---\n# Plain water\n\nCold.\n"})
    assert listed(ann, "Tea")[0]["pages"][0]["path"] == "drinks/tea.md"
    assert listed(ann, "aqua")[0]["pages"][0]["path"] == "water.md"


def test_a_page_that_an_editor_removed_is_listed_and_its_history_is_still_there(ann: Person) -> None:
    edits(ann, "drinks/tea.md", "3 minutes", "4 minutes")
    (ann.kb / "drinks/tea.md").unlink()
    assert [one["pages"][0]["kind"] for one in listed(ann, "drinks/tea.md")] == ["removed", "edited", "found"]
    assert "drinks/tea.md  removed" in ann.here("history").stdout


def test_a_move_is_one_entry_with_the_pages_whose_links_it_changed(ann: Person) -> None:
    moves(ann, "drinks/tea.md", "hot/tea.md")
    done = ann.here("history", "--limit", "1")
    assert "hot/tea.md  moved from drinks/tea.md" in done.stdout
    assert "start.md  +1 -1" in done.stdout
    assert "these are the newest 1; knowledge-forge history --limit 1 --cursor" in done.stderr
    lines = ann.here("history", "start.md", "--limit", "1").stdout.splitlines()
    assert lines[1].strip() == "start.md  +1 -1"


def test_a_list_is_continued_by_the_command_that_it_names(ann: Person) -> None:
    for minutes in range(3, 7):
        edits(ann, "drinks/tea.md", f"{minutes} minutes", f"{minutes + 1} minutes")
    whole = [one["id"] for one in listed(ann, "drinks", "--since", "1h")]
    words, found = ["history", "drinks", "--since", "1h", "--limit", "2"], []
    while words:
        done = ann.here(*words, "--json")
        found += [one["id"] for one in json.loads(done.stdout)]
        named = re.search(r"; knowledge-forge (history .*) lists older ones", done.stderr)
        words = shlex.split(named[1]) if named else []
    assert found == whole
    assert len(whole) > 4
    strange = ann.here("history", "drinks", "--cursor", "x")
    assert (strange.returncode, "cursor" in strange.stderr) == (1, True)


def test_changes_are_selected_by_folder_host_and_time(ann: Person) -> None:
    edits(ann, "drinks/tea.md", "3 minutes", "4 minutes", host="laptop")
    edits(ann, "start.md", "We have", "There is", host="phone")
    assert [one["by"] for one in listed(ann, "drinks")] == [f"{ME}@laptop", ""]
    assert [one["by"] for one in listed(ann, "--host", "phone")] == [f"{ME}@phone"]
    assert listed(ann, "--host", f"{ME}@laptop")[0]["pages"][0]["path"] == "drinks/tea.md"
    assert len(listed(ann, "--since", "2h")) == 4
    for words in (["--until", "2000-01-01"], ["--host", "nobody"], ["--since", "2999-01-01"]):
        assert ann.here("history", *words).returncode == 1


def test_a_person_is_found_by_what_they_approved(ann: Person) -> None:
    proposal = ann.propose("kb_move", path="drinks/tea.md", to="hot/tea.md")
    ann.signs(proposal)
    (move,) = listed(ann, "--host", "ann")
    assert (move["by"], move["proposal"]) == (f"{ME}@cursor", proposal)
    assert move["approved_by"].startswith("ann (page, signed")
    assert "approved by ann (page" in ann.here("history", "--host", "ann").stdout


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (["never.md"], 1, "nothing at 'never.md'"),
        (["--since", "noon"], 2, "'noon' is not a time: write today, yesterday, 30m, 2h or 3d ago"),
        (["--limit", "0"], 2, "is not a whole number from 1"),
        (["../elsewhere.md"], 1, "is not a path in this knowledge base"),
    ],
)
def test_a_mistake_is_one_sentence(ann: Person, words: list[str], code: int, said: str) -> None:
    done = ann.here("history", *words)
    assert (done.returncode, done.stdout) == (code, "")
    assert said in done.stderr
    assert done.stderr.count("\n") == 1


def test_hostile_reasons_and_names_do_not_act_on_the_terminal(ann: Person) -> None:
    edits(ann, "start.md", "We have", "There is", intent="\x1b[2Jgone\u202e" + "long " * 90)
    out = ann.here("history").stdout
    assert "\x1b" not in out
    assert "\u202e" not in out
    assert "⟦U+001B⟧" in out


# --- who wrote each line ----------------------------------------------------------------------------------------------


def authors(ann: Person, path: str) -> dict[str, tuple[str, str | None, str]]:
    """Return who wrote each line, in which change, and from which source."""
    page = json.loads(ann.here("history", path, "--lines", "--json").stdout)
    return {line: (run["by"], run["change"], run["source"]) for run in page["runs"] for line in run["lines"]}


def test_each_line_names_the_change_that_brought_it(ann: Person) -> None:
    edits(ann, "drinks/tea.md", "3 minutes", "4 minutes", host="laptop", intent="measured again")
    page = ann.kb / "drinks/tea.md"
    page.write_text(page.read_text() + "\nSugar is there.\n")
    edits(ann, "drinks/tea.md", "No milk.", "Some milk.", host="phone")
    found = authors(ann, "drinks/tea.md")
    newest, by_editor, measured, begin = (change["id"] for change in listed(ann, "drinks/tea.md"))
    assert found["It takes 4 minutes."][:2] == (f"{ME}@laptop", measured)
    assert found["Some milk."][:2] == (f"{ME}@phone", newest)
    assert found["Sugar is there."][:2] == ("", by_editor)
    assert found["# Tea"][:2] == ("", begin)
    out = ann.here("history", "drinks/tea.md", "--lines").stdout
    assert f"{ME}@laptop: measured again\n   3  It takes 4 minutes.\n" in out
    shown = [line.split(None, 1)[1:] for line in out.splitlines() if line.startswith(" ")]
    assert ["".join(line) for line in shown] == page.read_text().splitlines()


def test_the_source_of_a_line_is_named(ann: Person) -> None:
    async def merge() -> None:
        async with writing(ann.settings, host="laptop") as client:
            base = await client.revision("drinks/tea.md")
            await client.merge(
                "drinks/tea.md",
                "Green tea needs 80 degrees.",
                source="decision:tea/7",
                section="Tea",
                base_revision=base,
            )

    asyncio.run(merge())
    assert authors(ann, "drinks/tea.md")["Green tea needs 80 degrees."][2] == "decision:tea/7"
    assert "source decision:tea/7" in ann.here("history", "drinks/tea.md", "--lines").stdout


def test_a_page_that_nobody_changed_has_lines_without_an_author(ann: Person) -> None:
    done = ann.here("history", "start.md", "--lines")
    assert (done.returncode, done.stdout.splitlines()[0]) == (0, "not on record")
    assert set(authors(ann, "start.md").values()) == {("", None, "unknown")}


def test_a_removed_page_has_no_lines(ann: Person) -> None:
    edits(ann, "drinks/tea.md", "3 minutes", "4 minutes")
    (ann.kb / "drinks/tea.md").unlink()
    done = ann.here("history", "drinks/tea.md", "--lines")
    assert (done.returncode, done.stdout) == (1, "")
    assert "drinks/tea.md was removed; knowledge-forge history drinks/tea.md" in done.stderr


@pytest.mark.parametrize("words", [["--lines"], ["start.md", "--lines", "--host", "laptop"]])
def test_lines_are_those_of_one_page(ann: Person, words: list[str]) -> None:
    done = ann.here("history", *words)
    assert (done.returncode, done.stdout) == (2, "")
    assert "--lines shows one page as it is now" in done.stderr
