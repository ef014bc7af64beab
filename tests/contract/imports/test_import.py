"""`import`: it shows first, writes through the writer, and run again it writes no page twice and takes no edit away."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from knowledge.pages.document import parse
from tests.support.hosts.persons import ME, Person
from tests.support.knowledge_bases.import_sources import memory_lines
from tests.support.knowledge_bases.importing_person import (
    ImportingPerson,
    contents,
    imported,
    importing_person,
    statuses,
)

ALICE = {
    "type": "entity",
    "name": "Alice Smith",
    "entityType": "Person",
    "observations": ["Works in Berlin", "Likes tea"],
}
CORP = {"type": "entity", "name": "ACME/Corp: [x]", "entityType": "organisation", "observations": []}
RELATIONS = [
    {"type": "relation", "from": "Alice Smith", "to": "ACME/Corp: [x]", "relationType": "works_at"},
    {"type": "relation", "from": "Alice Smith", "to": "Nobody", "relationType": "knows"},
]


@pytest.fixture
def ann(tmp_path: Path) -> ImportingPerson:
    return importing_person(tmp_path / "ann", {"own.md": "# Own\n"})


def memory(ann: Person, *values: object, name: str = "memory.jsonl") -> Path:
    file = ann.folder / name
    file.write_text("".join(json.dumps(value) + "\n" for value in values))
    return file


def test_entities_become_pages_with_observations_and_relations(ann: ImportingPerson) -> None:
    answer = imported(ann, "memory-jsonl", memory(ann, ALICE, CORP, *RELATIONS), "--into", "people")
    assert statuses(answer) == {"people/Alice Smith.md": "new", "people/ACME Corp x.md": "new"}
    assert (ann.kb / "people" / "Alice Smith.md").read_text() == (
        '---\ntitle: "Alice Smith"\nkind: "person"\nsource: "memory-jsonl:memory/Alice Smith"\n---\n\n'
        "# Alice Smith\n\n- Works in Berlin\n- Likes tea\n\n## Relations\n\n"
        "- works_at [ACME/Corp: \\[x\\]](ACME%20Corp%20x.md)\n- knows Nobody\n"
    )
    assert answer["links_lost"] == [{"path": "people/Alice Smith.md", "target": "Nobody"}]
    (line,) = json.loads(ann.here("history", "people/Alice Smith.md", "--json").stdout)
    assert (line["by"], line["tool"], line["source"], line["call"]) == (
        f"{ME}@importer",
        "import",
        "memory-jsonl:memory/Alice Smith",
        f"import/{answer['import']}",
    )
    lines = json.loads(ann.here("history", "people/Alice Smith.md", "--lines", "--json").stdout)
    assert "memory-jsonl:memory/Alice Smith" in json.dumps(lines)


def test_nothing_is_written_by_a_rehearsal_or_without_an_answer(ann: ImportingPerson) -> None:
    file = memory(ann, ALICE)
    for words in (["--dry-run"], [], ["--json"]):
        done = ann.here("import", "memory-jsonl", str(file), *words)
        assert (done.returncode, set(contents(ann.kb))) == (0 if words == ["--dry-run"] else 1, {"own.md"})
        assert "Alice Smith.md" in done.stdout
    with ann.at("import", "memory-jsonl", str(file)) as terminal:
        terminal.until("+ Alice Smith.md", "Write 1 files? [y/N]")
        terminal.type("n\n")
        terminal.until("not confirmed")
        assert terminal.left() == 1
    with ann.at("import", "memory-jsonl", str(file)) as terminal:
        terminal.until("Write 1 files? [y/N]")
        terminal.type("y\n")
        terminal.until("Imported 1 new page", "knowledge-forge undo --import")
        assert terminal.left() == 0
    assert "Alice Smith.md" in contents(ann.kb)


def test_a_host_that_may_only_propose_imports_nothing(tmp_path: Path) -> None:
    bob = Person(tmp_path)
    bob.kb.mkdir()
    done = bob.here("import", "memory-jsonl", str(memory(bob, ALICE)), "--yes")
    assert (done.returncode, contents(bob.kb)) == (1, {})
    assert "trust level 3" in done.stderr


def test_a_changed_source_is_merged_and_edits_here_stay(ann: ImportingPerson) -> None:
    page = ann.kb / "Alice Smith.md"
    imported(ann, "memory-jsonl", memory(ann, ALICE))
    page.write_text(page.read_text().replace("- Works in Berlin", "- Works in Berlin\n- Born in Ulm"))
    assert statuses(imported(ann, "memory-jsonl", memory(ann, ALICE))) == {"Alice Smith.md": "edited"}

    richer = {**ALICE, "observations": ["Works in Berlin", "Likes tea", "Plays chess"]}
    for expected in ("changed", "edited"):
        assert statuses(imported(ann, "memory-jsonl", memory(ann, richer))) == {"Alice Smith.md": expected}
        text = page.read_text()
        assert all(fact in text for fact in ("Works in Berlin", "Born in Ulm", "Likes tea", "Plays chess"))


def test_a_conflict_is_shown_and_nothing_of_its_page_is_written(ann: ImportingPerson) -> None:
    page = ann.kb / "Alice Smith.md"
    imported(ann, "memory-jsonl", memory(ann, ALICE))
    edited = page.read_text().replace("Works in Berlin", "Works in Hamburg")
    page.write_text(edited)
    answer = imported(ann, "memory-jsonl", memory(ann, {**ALICE, "observations": ["Works in Munich", "Likes tea"]}))
    (only,) = answer["pages"]
    assert (only["status"], page.read_text()) == ("conflict", edited)
    (conflict,) = only["conflicts"]
    assert ("Hamburg" in conflict["here"], "Munich" in conflict["source"]) == (True, True)


def test_a_page_that_moved_is_followed_and_one_that_was_removed_stays_away(ann: ImportingPerson) -> None:
    imported(ann, "memory-jsonl", memory(ann, ALICE, CORP))
    page = ann.kb / "Alice Smith.md"
    ann.here("index")
    (ann.kb / "team").mkdir()
    page.rename(ann.kb / "team" / "Alice.md")
    (ann.kb / "ACME Corp x.md").unlink()
    ann.here("history")  # notices both
    answer = imported(ann, "memory-jsonl", memory(ann, {**ALICE, "observations": ["Moved"]}, CORP))
    assert statuses(answer) == {"team/Alice.md": "changed", "ACME Corp x.md": "skipped"}
    assert "Moved" in (ann.kb / "team" / "Alice.md").read_text()
    assert set(contents(ann.kb)) == {"own.md", "team/Alice.md"}


def test_another_page_at_that_path_is_never_overwritten(ann: ImportingPerson) -> None:
    (ann.kb / "Alice Smith.md").write_text("# Somebody else\n")
    answer = imported(ann, "memory-jsonl", memory(ann, ALICE))
    (only,) = answer["pages"]
    assert (only["status"], only["reason"]) == ("skipped", "another page is there; --into FOLDER imports beside it")
    assert (ann.kb / "Alice Smith.md").read_text() == "# Somebody else\n"


def test_names_that_differ_only_in_case_are_two_pages(ann: ImportingPerson) -> None:
    values = [{**ALICE, "name": name} for name in ("tea", "Tea", "CON", "..", "a" * 400)]
    answer = imported(ann, "memory-jsonl", memory(ann, *values))
    assert set(statuses(answer)) == {"tea.md", "Tea 2.md", "_CON.md", "page.md", f"{'a' * 199}.md"}
    assert {"name": "Tea.md", "path": "Tea 2.md"} in answer["renamed"]


def test_an_interrupted_import_continues_under_its_id(ann: ImportingPerson, monkeypatch: pytest.MonkeyPatch) -> None:
    file = memory(ann, *({**ALICE, "name": f"Person {number}"} for number in range(4)))
    from knowledge.writing import writer

    real, calls = writer.Writer.take_in, []

    async def stops(self: writer.Writer, plan: object) -> object:
        calls.append(plan)
        if len(calls) == 3:
            raise KeyboardInterrupt
        return await real(self, plan)  # type: ignore[arg-type]

    monkeypatch.setattr(writer.Writer, "take_in", stops)
    assert ann.here("import", "memory-jsonl", str(file), "--yes").returncode == 130
    assert len(contents(ann.kb)) == 3
    monkeypatch.undo()
    shown = ann.here("import", "memory-jsonl", str(file), "--dry-run").stdout
    assert "continues an interrupted one" in shown
    answer = imported(ann, "memory-jsonl", file)
    assert sorted(statuses(answer).values()) == ["new", "new", "same", "same"]
    with ann.at("undo", "--import", answer["import"], "--yes") as terminal:
        terminal.until("4 changes undone")
        assert terminal.left() == 0
    assert set(contents(ann.kb)) == {"own.md"}


def test_the_undo_of_many_pages_is_one_act_and_its_rehearsal_fits_on_a_screen(ann: ImportingPerson) -> None:
    file, count = ann.folder / "memory.jsonl", 70
    file.write_text(memory_lines(count))
    answer = imported(ann, "memory-jsonl", file)
    edited = ann.kb / "Person 7.md"
    edited.write_text(edited.read_text() + "\nPlays chess.\n")
    shown = ann.themselves.here("undo", "--import", answer["import"], "--dry-run").stdout
    assert f"and {count - 30} more changes" in shown
    assert f"and {count - 1 - 50} more pages ({count - 1 - 50} go away); --json has all" in shown
    assert "Person 7.md can't go away: it has changed since it was created" in shown
    assert shown.count("goes away") == 50
    assert len(contents(ann.kb)) == count + 1
    with ann.themselves.at("undo", "--import", answer["import"], "--yes") as terminal:
        terminal.until(f"{count - 1} changes undone on {count - 1} pages, except 1 part in conflict")
        assert terminal.left() == 0
    assert set(contents(ann.kb)) == {"own.md", "Person 7.md"}
    (undo,) = json.loads(ann.here("history", "--limit", "1", "--json").stdout)
    assert (undo["outcome"], len(undo["undoes"]), len(undo["pages"])) == ("partial", count - 1, count - 1)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "has no line with an entity"),
        ("[1]\nnull\n{}\n", "has no line with an entity"),
        ('{"type":"entity","name":""}\n', "has no line with an entity"),
        ("[" * 100_000, "has no line with an entity"),
    ],
)
def test_a_file_that_is_no_memory_is_refused(ann: ImportingPerson, text: str, why: str) -> None:
    file = ann.folder / "odd.jsonl"
    file.write_text(text)
    done = ann.here("import", "memory-jsonl", str(file), "--yes")
    assert (done.returncode, set(contents(ann.kb))) == (1, {"own.md"})
    assert why in done.stderr


@pytest.mark.parametrize(
    ("lines", "why"),
    [
        (['{"format": "other"}'], "does not name the format"),
        (['{"format": "knowledge-forge-pages", "version": 99}'], "version 99"),
        (['{"format": "knowledge-forge-pages", "version": 1}', "nonsense"], "line 2 is not JSON"),
        (['{"format": "knowledge-forge-pages", "version": 1}', '{"path": "a.md"}'], "line 2 has no `path`"),
        (
            ['{"format": "knowledge-forge-pages", "version": 1}', '{"path": "a.md", "text": "x", "sha256": "0"}'],
            "is not the one that was exported",
        ),
        (
            [
                '{"format": "knowledge-forge-pages", "version": 1}',
                '{"path": "a.md", "text": "x", "claims": [{"claims": [["zz"]], "authority": 1}]}',
            ],
            "line 2",
        ),
    ],
)
def test_a_damaged_export_is_refused_with_its_line(ann: ImportingPerson, lines: list[str], why: str) -> None:
    file = ann.folder / "odd.jsonl"
    file.write_text("\n".join(lines) + "\n")
    done = ann.here("import", "jsonl", str(file), "--yes")
    assert (done.returncode, set(contents(ann.kb))) == (1, {"own.md"})
    assert why in done.stderr


@pytest.mark.parametrize(
    "path", ["../out.md", "/abs.md", "a/../../b.md", ".hidden.md", "con.md", "x\u202e.md", "a.txt", "C:/x/y.md"]
)
def test_a_path_that_no_page_may_have_is_skipped(ann: ImportingPerson, path: str) -> None:
    file = ann.folder / "odd.jsonl"
    head = {"format": "knowledge-forge-pages", "version": 1}
    file.write_text("".join(json.dumps(one) + "\n" for one in (head, {"path": path, "text": "# x\n"})))
    answer = imported(ann, "jsonl", file)
    assert (answer["pages"], len(answer["skipped"]), set(contents(ann.kb))) == ([], 1, {"own.md"})
    assert not (ann.folder / "out.md").exists()


def test_pages_that_configure_the_server_need_the_person(ann: ImportingPerson) -> None:
    file = ann.folder / "pages.jsonl"
    head = {"format": "knowledge-forge-pages", "version": 1}
    pages = [
        {"path": "_agents/a.md", "text": "# x\n"},
        {"path": "b/_index.md", "text": "---\nuntrusted: false\n---\n# x\n"},
    ]
    file.write_text("".join(json.dumps(one) + "\n" for one in (head, *pages)))
    assert set(statuses(imported(ann, "jsonl", file)).values()) == {"skipped"}
    assert "trust level 5" in ann.here("import", "jsonl", str(file), "--yes", "--configuration").stderr
    with ann.themselves.at("import", "jsonl", str(file), "--yes", "--configuration") as terminal:
        terminal.until("Imported 2 new pages")
        assert terminal.left() == 0
    assert set(contents(ann.kb)) == {"own.md", "_agents/a.md", "b/_index.md"}


def test_pages_of_strangers_are_marked(ann: ImportingPerson) -> None:
    file = ann.folder / "pages.jsonl"
    texts = {
        "plain.md": "# Plain\n",
        "front.md": "---\ntitle: Front\n---\n# Front\n",
        "marked.md": "---\nuntrusted: true\n---\n# Marked\n",
        "toml.md": "+++\ntitle = 'Toml'\n+++\n# Toml\n",
        "broken.md": "---\ntitle: a: b\n---\n# Broken\n",
    }
    head = {"format": "knowledge-forge-pages", "version": 1}
    pages = [{"path": path, "text": text} for path, text in texts.items()]
    file.write_text("".join(json.dumps(one) + "\n" for one in (head, *pages)))
    imported(ann, "jsonl", file, "--untrusted")
    for path, text in texts.items():
        raw = (ann.kb / path).read_bytes()
        assert parse(path, raw).untrusted, path
        assert text.rpartition("# ")[2] in raw.decode()
    assert (ann.kb / "marked.md").read_text() == texts["marked.md"]
    assert set(statuses(imported(ann, "jsonl", file, "--untrusted")).values()) == {"same"}
