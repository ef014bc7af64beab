"""Imports, and undos of imports, whose process is killed.

Each page of an import is written completely or not at all, and the next run completes it; an undo is one act.
"""

from __future__ import annotations

import json
import random
import signal
import time
from pathlib import Path

import anyio
import pytest

from mcp_server.app.factories.writer import recovery_of
from mcp_server.app.knowledge_base import open_base, utc_now
from tests.support.git.repositories import Repository, alone, made
from tests.support.knowledge_bases.import_sources import memory_lines
from tests.support.knowledge_bases.importing_person import (
    ImportingPerson,
    contents,
    imported,
    importing_person,
    statuses,
)

PAGES = 60
MANY = 150
"""Pages of an undo; of more than 64, those that it displaces are not held open."""
PATIENCE_S = 60


def killed_after(ann: ImportingPerson, source: Path, pages: int) -> None:
    """Start the import and kill it once so many pages are there."""
    with ann.start("import", "memory-jsonl", str(source), "--yes") as process:
        until = time.monotonic() + PATIENCE_S
        while len(list(ann.kb.glob("*.md"))) < pages and process.poll() is None:
            assert time.monotonic() < until, process.communicate()
            time.sleep(0.002)
        process.send_signal(signal.SIGKILL)
        process.communicate()


@pytest.fixture(params=["sqlite", "postgres"])
def ann(
    tmp_path: Path, schema: str, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> ImportingPerson:
    """Return a person with a repository, whose changes are committed, on each database."""
    alone(monkeypatch, tmp_path)
    folder = made(tmp_path / "ann" / "kb", {".gitignore": ".forge-*.tmp\n"}).folder.parent
    on_server = request.param == "postgres"
    url = {"FORGE_DATABASE_URL": request.getfixturevalue("postgres").url()} if on_server else {}
    return importing_person(folder, more={"FORGE_GIT": "commit", "FORGE_DATABASE_SCHEMA": schema, **url})


@pytest.mark.external
def test_an_import_that_is_killed_again_and_again_loses_and_repeats_nothing(ann: ImportingPerson) -> None:
    chance = random.Random(5)  # noqa: S311 - seeded, not secret
    source = ann.folder / "memory.jsonl"
    source.write_text(memory_lines(PAGES))
    for pages in sorted(chance.sample(range(1, PAGES), 4)):
        killed_after(ann, source, pages)
    last = imported(ann, "memory-jsonl", source)
    assert set(statuses(last).values()) <= {"new", "same"}
    assert len(contents(ann.kb)) == PAGES
    calls = set()
    for path, raw in contents(ann.kb).items():
        (line,) = json.loads(ann.here("history", path, "--json").stdout)
        calls.add(line["call"])
        assert b"is number" in raw, path
    # One number although several runs wrote; the last run has the next one if a run was killed only after its last page.
    source_key = last["import"].rpartition("-")[0]
    assert len(calls) == 1
    assert calls.pop().startswith(f"import/{source_key}-")
    anyio.run(sweep, ann)
    assert not list(ann.kb.glob(".forge-*"))
    assert "all intact" in ann.here("audit", "verify").stdout
    repository = Repository(ann.kb)
    # A page that a killed process left half done comes on record after the import, and its commit waits whether more follow.
    wait_for_commits(ann, repository)
    changes = [line for line in repository.git("log", "--format=", "--name-status").splitlines() if line]
    assert sorted(changes) == sorted(f"A\t{path}" for path in (*contents(ann.kb), ".gitignore"))
    # At most one for each process that wrote, and one for each page that was left half done.
    assert len(repository.subjects()) <= 1 + 5 + 4
    assert set(statuses(imported(ann, "memory-jsonl", source)).values()) == {"same"}


@pytest.mark.slow
def test_the_undo_of_an_import_that_is_killed_again_and_again_is_complete_or_has_not_begun(
    ann: ImportingPerson,
) -> None:
    chance = random.Random(7)  # noqa: S311 - seeded, not secret
    source = ann.folder / "memory.jsonl"
    source.write_text(memory_lines(MANY))
    done = imported(ann, "memory-jsonl", source)
    pages = contents(ann.kb)
    assert len(pages) == MANY
    for left in chance.sample(range(1, MANY), 4):
        undo_killed_at(ann, done["import"], left)
        ann.here("history", "--limit", "1")  # as any command, it finishes what a dead process began
        found = contents(ann.kb)
        assert found in (pages, {})
        if not found:
            again = imported(ann, "memory-jsonl", source)
            assert contents(ann.kb) == pages
            done = again
    with ann.themselves.at("undo", "--import", done["import"], "--yes") as terminal:
        terminal.until(f"{MANY} changes undone on {MANY} pages")
        assert terminal.left() == 0
    assert contents(ann.kb) == {}
    anyio.run(sweep, ann)
    assert not list(ann.kb.glob(".forge-*"))
    assert "all intact" in ann.here("audit", "verify").stdout
    repository = Repository(ann.kb)
    wait_for_commits(ann, repository)
    assert {subject.partition(" ")[0] for subject in repository.subjects()} == {"Undo", "Import", "Begin"}
    assert len(repository.changed()) == MANY


async def sweep(ann: ImportingPerson) -> None:
    """Remove staged files as a server does every hour; a process killed after it recorded its act leaves them for a minute."""
    async with open_base(ann.settings) as base:
        recovery = recovery_of(base.vault, base.state, base.locks, utc_now)
        await recovery.finish_all()
        await recovery.sweep(older_than_s=-1)


def wait_for_commits(ann: ImportingPerson, repository: Repository) -> None:
    """Run commands until one of them has made the last commit; each gives it some seconds at its end."""
    until = time.monotonic() + PATIENCE_S
    while repository.status:
        assert time.monotonic() < until, repository.status
        ann.here("history", "--limit", "1")
        time.sleep(0.2)


def undo_killed_at(ann: ImportingPerson, id_: str, left: int) -> None:
    """Start the undo and kill it once at most so many pages are there, or the moment in which it ends."""
    with ann.themselves.at("undo", "--import", id_, "--yes") as terminal:
        terminal.until("more pages")
        until = time.monotonic() + PATIENCE_S
        while len(list(ann.kb.glob("*.md"))) > left and terminal.process.poll() is None:
            assert time.monotonic() < until, terminal.shown
            time.sleep(0.002)
        terminal.process.kill()
        terminal.process.wait()
