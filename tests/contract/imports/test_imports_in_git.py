"""Imports into a Git repository with commits turned on: one commit each, also with the state in PostgreSQL."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.support.git.repositories import PERSON, Repository, alone, made
from tests.support.hosts.persons import ME
from tests.support.knowledge_bases.import_sources import SOURCES, memory_lines
from tests.support.knowledge_bases.importing_person import (
    ImportingPerson,
    contents,
    imported,
    importing_person,
    statuses,
)


def _near(kind: str) -> object:
    """Return the kind as a parameter; only one runs by default, because a process in a terminal takes seconds."""
    return pytest.param(kind, marks=() if kind == "obsidian" else pytest.mark.external)


@pytest.fixture(params=["sqlite", pytest.param("postgres", marks=pytest.mark.external)])
def ann(
    tmp_path: Path, schema: str, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> ImportingPerson:
    """Return a person whose knowledge base is a repository, on each database."""
    alone(monkeypatch, tmp_path)
    repository = made(tmp_path / "ann" / "kb", {"own.md": "# Own\n", ".gitignore": ".forge-*.tmp\n"})
    database: Mapping[str, str] = {}
    if request.param == "postgres":
        url = request.getfixturevalue("postgres").url()
        database = {"FORGE_DATABASE_URL": url, "FORGE_DATABASE_SCHEMA": schema}
    return importing_person(repository.folder.parent, more={"FORGE_GIT": "commit", **database})


@pytest.mark.parametrize("kind", SOURCES)
def test_an_import_of_any_kind_is_one_commit(kind: str, ann: ImportingPerson) -> None:
    source, repository = SOURCES[kind](ann.folder / "source"), Repository(ann.kb)
    answer = imported(ann, kind, source.place)
    assert statuses(answer) == dict.fromkeys(source.pages, "new")
    assert (set(repository.changed()), repository.status) == (source.files, [])
    subject, begin = repository.subjects()
    assert (subject.partition(" from ")[0], begin) == (source.counts, "Begin")
    trailers = repository.trailers()
    records = trailers.pop("Forge-Act").split("-")
    assert int(records[1]) - int(records[0]) == len(source.files) - 1
    assert trailers == {
        "Forge-Host": "importer",
        "Forge-User": ME,
        "Forge-Source": subject.partition(" from ")[2],
        "Forge-Import": answer["import"],
    }
    author, committer = repository.log("%an <%ae>|%cn <%ce>")[0].split("|")
    assert author == f"importer on behalf of {ME} <importer@knowledge-forge.invalid>"
    assert committer == PERSON

    assert set(statuses(imported(ann, kind, source.place)).values()) == {"same"}
    assert repository.subjects() == [subject, "Begin"]


@pytest.mark.parametrize("kind", [_near(kind) for kind in SOURCES])
def test_the_undo_of_an_import_is_one_commit_of_the_person(kind: str, ann: ImportingPerson) -> None:
    source, repository = SOURCES[kind](ann.folder / "source"), Repository(ann.kb)
    answer = imported(ann, kind, source.place)
    with ann.themselves.at("undo", "--import", answer["import"], "--yes") as terminal:
        terminal.until(f"{len(source.pages)} changes undone")
        assert terminal.left() == 0
    assert (len(repository.subjects()), repository.trailers()["Forge-Host"]) == (3, "terminal")
    assert repository.log("%an <%ae>")[0] == PERSON
    # Attachments have no history, so an undo leaves them.
    assert (set(repository.changed()), repository.status) == (source.pages, [])
    assert set(contents(ann.kb)) == {"own.md"} | source.attachments
    assert "all intact" in ann.here("audit", "verify").stdout


def test_files_that_the_repository_ignores_or_that_are_gone_again_stay_out_of_the_commit(ann: ImportingPerson) -> None:
    source, repository = SOURCES["obsidian"](ann.folder / "source"), Repository(ann.kb)
    repository.write(".gitignore", ".forge-*.tmp\ndrinks/\n")
    repository.commit("Ignore drinks")
    (repository.folder / ".git/BISECT_LOG").write_text("")  # commits wait
    imported(ann, "obsidian", source.place)
    (ann.kb / "cup.png").unlink()
    (repository.folder / ".git/BISECT_LOG").unlink()
    ann.here("check")
    assert repository.subjects()[1:] == ["Ignore drinks", "Begin"]
    assert (repository.changed(), repository.status) == (["Home.md"], [])


def test_a_merge_by_an_import_has_the_edits_of_the_person_in_a_commit_of_theirs(ann: ImportingPerson) -> None:
    source, repository = ann.folder / "memory.jsonl", Repository(ann.kb)
    source.write_text(memory_lines(3))
    imported(ann, "memory-jsonl", source)
    page = (ann.kb / "Person 1.md").read_text()
    repository.write("Person 1.md", page + "\nPlays chess.\n")
    source.write_text(memory_lines(4, "was number"))
    answer = imported(ann, "memory-jsonl", source)
    assert sorted(statuses(answer).values()) == ["changed", "changed", "changed", "new"]
    assert [subject.partition(" from ")[0] for subject in repository.subjects()] == [
        "Import 4 pages",
        "Edit Person 1.md outside Knowledge Forge",
        "Import 3 pages",
        "Begin",
    ]
    assert (repository.text("Person 1.md", "HEAD~1"), repository.status) == (page + "\nPlays chess.\n", [])


def test_line_ends_are_converted_as_git_add_does(ann: ImportingPerson) -> None:
    source, repository = SOURCES["folder"](ann.folder / "source"), Repository(ann.kb)
    repository.git("config", "core.autocrlf", "input")
    imported(ann, "folder", source.place)
    assert repository.text("drinks/tea.md") == "# Tea\n\n[[Home]]\n"
    assert (ann.kb / "drinks" / "tea.md").read_bytes() == b"# Tea\r\n\r\n[[Home]]\r\n"
    assert (set(repository.changed()), repository.status) == (source.files, [])
