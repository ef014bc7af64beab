"""An editor that takes no locks keeps saving a page while processes write to it."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import NamedTuple

import anyio
import pytest

from knowledge.history.audit.chain import verify
from knowledge.state.sqlite.store import SqliteStateStore
from tests.crash.saving import PAGE
from tests.support.writing.acts import World, save_as_new, save_in_place

ROOT = Path(__file__).parents[2]
WRITERS = ("w1", "w2", "w3")
FIRST = b"# Note\n\n## editor\n\n" + b"".join(b"## %s\n\nText.\n\n" % name.encode() for name in WRITERS)
WITHIN_S = 120
SETTLES_S = 60
"""A process looks for overwritten lines again some seconds after writing a page."""


HASTE_S = 0.003


class Saved(NamedTuple):
    """One save, as its editor knows it, so that a lost line can be told from an overwritten one."""

    number: int
    read_from: int
    """The inode that the buffer came from."""
    knew_last: bool
    """Whether it contained the line of the editor's previous save.

    If not, it was read while a write was in progress.
    """
    read_at_s: float
    written_at_s: float
    named: int
    """The inode of the page right after the save."""


class Editor:
    """Reads the page, adds a line below its own heading, and saves; a stale editor waits between reading and saving.

    If its previous save is missing from the page, it saves at once: that is when the two could overwrite each other
    unseen.
    """

    def __init__(self, file: Path, save: Callable[[Path, bytes], None], longest_thought_s: float) -> None:
        self._file, self._save, self._longest_thought_s = file, save, longest_thought_s
        self._chance = Random(7)  # noqa: S311 - when a test saves, not a secret
        self.saves: list[bytes] = []
        self.journal: list[Saved] = []

    def edit(self) -> None:
        with self._file.open("rb") as file:
            read_from, raw = os.fstat(file.fileno()).st_ino, file.read()
        number, read_at_s = len(self.saves), time.monotonic()
        knew_last = number == 0 or _line(number - 1) in raw
        time.sleep(self._chance.random() * (self._longest_thought_s if knew_last else HASTE_S))
        saved = raw.replace(b"## editor\n", b"## editor\n" + _line(number), 1) if b"## editor\n" in raw else raw
        self._save(self._file, saved)
        self.saves.append(saved)
        named = self._file.stat().st_ino
        self.journal.append(Saved(number, read_from, knew_last, read_at_s, time.monotonic(), named))


def _line(number: int) -> bytes:
    return b"by hand %d\n" % number


def _not_once(lines: list[bytes], page: bytes) -> list[bytes]:
    there = Counter(page.splitlines())
    return [line for line in lines if there[line] != 1]


STYLES = {
    "a new file": (save_as_new, 0.002),
    "in place": (save_in_place, 0.002),
    "stale": (save_as_new, 0.1),
    "stale, in place": (save_in_place, 0.1),
}


LONG = [pytest.param(style, 200, 150, marks=pytest.mark.slow) for style in STYLES]


@pytest.mark.parametrize(("style", "saves", "lines"), [("in place", 12, 12), ("stale", 12, 12), *LONG])
def test_an_editor_without_locks_removes_no_acknowledged_line_and_loses_none(
    style: str, saves: int, lines: int, tmp_path: Path
) -> None:
    """0 acknowledged edits lost, 0 editor saves unrecoverable."""
    file = tmp_path / "kb" / PAGE
    file.parent.mkdir()
    file.write_bytes(FIRST)
    command = [sys.executable, "-m", "tests.crash.saving", str(tmp_path)]
    processes = [
        subprocess.Popen(
            [*command, name, str(lines)], cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        for name in WRITERS
    ]
    editor = Editor(file, *STYLES[style])
    assert processes[0].stdout is not None
    processes[0].stdout.readline()
    while len(editor.saves) < saves:
        editor.edit()
    told = [
        [process.stdout.readline() for _ in range(lines - (process is processes[0]))]
        for process in processes
        if process.stdout
    ]
    assert all(line.endswith("\n") for lines_told in told for line in lines_told)
    acknowledged = [f"{name} line {number}".encode() for name in WRITERS for number in range(lines)]
    end = time.monotonic() + SETTLES_S
    while (missing := _not_once(acknowledged, file.read_bytes())) and time.monotonic() < end:
        time.sleep(0.05)
    for process in processes:
        process.communicate(timeout=WITHIN_S)
    assert [process.returncode for process in processes] == [0, 0, 0]
    final = file.read_bytes()
    missing = _not_once(acknowledged, final)
    assert not missing, f"{len(missing)} of {len(acknowledged)}: {missing[:5]}"
    anyio.run(_all_is_kept, tmp_path, editor, final)


async def _all_is_kept(home: Path, editor: Editor, final: bytes) -> None:
    """Every save is a state of the page, or was overwritten by a later save of the same editor that holds its line."""
    store = await SqliteStateStore.open(home / "state" / "state.db")
    world = World(home, store.ledger)
    lineage = await world.lineage(PAGE)
    kept = b"\n".join([final, *lineage])
    gone = [number for number, save in enumerate(editor.saves) if save not in lineage and save != final]
    missing = [number for number in gone if _line(number) not in kept]
    assert not missing, [editor.journal[max(0, number - 1) : number + 3] for number in missing]
    assert verify(await store.ledger.records(limit=100_000), await store.ledger.chain_end()) == []
    assert await store.ledger.intents() == []
    assert set(world.pages()) == {PAGE}
    await store.close()
