"""An import whose process is killed: each page is written completely or not at all, and the next run completes it."""

from __future__ import annotations

import json
import random
import signal
import time
from pathlib import Path

import pytest

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


@pytest.mark.external
def test_an_import_that_is_killed_again_and_again_loses_and_repeats_nothing(tmp_path: Path) -> None:
    ann, chance = importing_person(tmp_path / "ann"), random.Random(5)  # noqa: S311 - seeded, not secret
    source = ann.folder / "memory.jsonl"
    entities = [
        {"type": "entity", "name": f"Person {n}", "entityType": "p", "observations": [f"is number {n}"]}
        for n in range(PAGES)
    ]
    source.write_text("".join(json.dumps(one) + "\n" for one in entities))
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
    assert set(statuses(imported(ann, "memory-jsonl", source)).values()) == {"same"}
