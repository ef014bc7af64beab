"""A process that writes lines into a page while others do, and while an editor without locks saves it.

`python -m tests.crash.saving HOME NAME LINES` prints each of LINES lines once it is acknowledged, then waits for the
end of its input.
"""

from __future__ import annotations

import sys
from contextlib import suppress
from pathlib import Path

import anyio
import anyio.to_thread

from knowledge.errors import KeepsChanging
from knowledge.history.ports import Actor
from knowledge.pages.vault import Vault
from knowledge.state.sqlite.store import SqliteStateStore
from knowledge.writing.files.file_set import FileSet
from knowledge.writing.locks.page_locks import Locks
from knowledge.writing.model import ActWork, Contents, PageAct
from knowledge.writing.transaction import Transaction
from tests.support.writing.acts import now, rejoin

PAGE = "note.md"
TRIES = 10


def inserting(line: bytes) -> PageAct[None]:
    """Return an act that inserts a line below its writer's heading, as a merge does.

    A line that is already there isn't inserted twice; an editor may have read it before a failed attempt was undone.
    """

    async def work(contents: Contents) -> ActWork[None]:
        lines = (contents[PAGE] or b"").splitlines(keepends=True)
        if line + b"\n" in lines:
            return ActWork({}, None)
        heading = b"## " + line.split()[0] + b"\n"
        at = lines.index(heading) + 1 if heading in lines else len(lines)
        return ActWork({PAGE: b"".join([*lines[:at], line + b"\n", *lines[at:]])}, None)

    return PageAct(Actor("ada", "kb_merge", "ab" * 32), (PAGE,), work)


async def _run(acts: Transaction, act: PageAct[None]) -> None:
    """Execute it.

    Try again if others save the page so often that it is given up, because then nothing was acknowledged.
    """
    for _ in range(TRIES):
        with suppress(KeepsChanging):
            await acts.run(act)
            return
    raise AssertionError(f"the page was never left alone in {TRIES} tries")


async def main(home: Path, name: str, count: int) -> None:
    store = await SqliteStateStore.open(home / "state" / "state.db")
    files = FileSet(Vault.open(home / "kb"))
    acts = Transaction(files, store.ledger, Locks(home / "locks"), now=now, rejoin=rejoin)
    async with anyio.create_task_group() as group:
        group.start_soon(acts.watch)
        for number in range(count):
            line = f"{name} line {number}"
            await _run(acts, inserting(line.encode()))
            print(line, flush=True)  # noqa: T201 - the acknowledgement
        await anyio.to_thread.run_sync(sys.stdin.read)  # a server is still running, and checks its writes again
        group.cancel_scope.cancel()


if __name__ == "__main__":
    anyio.run(main, Path(sys.argv[1]), sys.argv[2], int(sys.argv[3]))
