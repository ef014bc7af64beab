"""An import whose process is killed: each page is written completely or not at all, and the next run completes it."""

from __future__ import annotations

import json
import random
import signal
import time
from pathlib import Path

import pytest

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
    assert not list(ann.kb.glob(".forge-*"))
    assert "all intact" in ann.here("audit", "verify").stdout
    repository = Repository(ann.kb)
    assert repository.status == []
    changes = [line for line in repository.git("log", "--format=", "--name-status").splitlines() if line]
    assert sorted(changes) == sorted(f"A\t{path}" for path in (*contents(ann.kb), ".gitignore"))
    # A commit for each process that wrote, at most: a process may be killed while it makes the one of its predecessor.
    assert len(repository.subjects()) <= 1 + 5
    assert set(statuses(imported(ann, "memory-jsonl", source)).values()) == {"same"}
