"""Processes that commit a change to Git, each killed one step later than the one before: at each run of git, and between them.

`python -m tests.crash.committer HOME STRIDE` prints one line for each death: what it left. It ends once a process
gets to the end of its commit. A process that finds something wrong writes it to HOME/wrong.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import anyio

from knowledge.git.act_commits import ActCommits, CommitsLeft
from knowledge.git.checkout import Checkout
from knowledge.git.commit_message import act_of
from knowledge.git.commit_records import CommitRecords
from knowledge.git.program import Git, GitRun
from knowledge.history.acts import IMPORT, IMPORT_FINISHED, IMPORT_TOOL
from knowledge.history.audit.chain import fields_of
from knowledge.history.ports import Actor, HistoryEntry
from knowledge.pages.vault import Vault
from knowledge.state.sqlite.store import SqliteStateStore
from knowledge.writing.files.file_set import FileSet
from knowledge.writing.locks.page_locks import Locks
from knowledge.writing.model import ActWork, Contents, PageAct
from knowledge.writing.transaction import Transaction
from mcp_server.app.settings.environment import git_environment
from tests.support.git.repositories import Repository, made
from tests.support.writing.acts import rejoin

HOST = Actor("ada@writer", "kb_merge", "ab" * 32)
PAGES = ("plan.md", "notes/team.md")
BETWEEN = timedelta(minutes=2)
"""How far the clock of each process is ahead of its predecessor's, whose lease has expired by then."""


@dataclass
class Death:
    """The step at which this process dies, 0 for none."""

    at: int = 0

    def step(self) -> None:
        if self.at:
            self.at -= 1
            if not self.at:
                os.kill(os.getpid(), signal.SIGKILL)


class Finding(Exception):
    """Something is wrong."""


async def live(home: Path, number: int, death: Death) -> None:
    """Finish the predecessor's commit, check everything, and make a change whose commit is killed."""
    repository = Repository(home / "kb")
    state = await SqliteStateStore.open(home / "state.db")
    try:
        commits = ActCommits(
            state,
            repository.folder,
            git_environment(),
            holder=str(number),
            now=lambda: datetime.now(UTC) + BETWEEN * number,
        )
        await commits.begin()
        found = state_of(repository)
        left = await commits.commit_pending()
        if left != CommitsLeft(made=left.made):
            raise Finding(f"{left} after {found}")
        await check(repository, state)
        acts = Transaction(
            FileSet(Vault.open(repository.folder)),
            state.ledger,
            Locks(home / "locks"),
            now=lambda: datetime.now(UTC),
            rejoin=rejoin,
        )
        for one in changes(number):
            await acts.run(one)
        if number % 2:
            end = HistoryEntry(datetime.now(UTC), importer(number), source="notion:notes", intent=IMPORT_FINISHED)
            await state.ledger.commit(end)
        with_steps(death)
        await commits.commit_pending()
        await check(repository, state)
    finally:
        await state.close()


def changes(number: int) -> list[PageAct[None]]:
    """Return an act on all pages, or every other time an import: an act for each page, which become one commit."""

    async def work(contents: Contents) -> ActWork[None]:
        return ActWork({path: (raw or b"") + b"%d\n" % number for path, raw in contents.items()}, None)

    if number % 2:
        return [PageAct(importer(number), (path,), work) for path in PAGES]
    return [PageAct(HOST, PAGES, work)]


def importer(number: int) -> Actor:
    return Actor("ada@writer", IMPORT_TOOL, "ab" * 32, f"{IMPORT}{number}")


def state_of(repository: Repository) -> str:
    """Return how far the commit of the last process had come."""
    lock = (repository.folder / ".git/index.lock").exists()
    newest = repository.text(PAGES[0])
    moved = newest == (repository.folder / PAGES[0]).read_text(encoding="utf-8")
    return ("committed" if moved else "not committed") + (", locked" if lock else "")


async def check(repository: Repository, state: SqliteStateStore) -> None:
    """Check that each act is one commit, in order, and that the working tree is clean."""
    records = await state.ledger.records(limit=100_000)
    wanted = [record.seq for record in records if act_of(record.seq, fields_of(record)) is not None]
    done: list[int] = []
    for line in reversed(repository.log("%(trailers:key=Forge-Act,valueonly)")):
        first, _, last = line.strip().partition("-")
        done += range(int(first or 0), int(last or first or -1) + 1)
    unmade = [number for number in wanted if number not in await CommitRecords(state.tables).of(wanted)]
    if unmade:
        raise Finding(f"no commit is on record for {unmade}")
    if done != wanted:
        raise Finding(f"committed {done}, wanted {wanted}")
    if repository.status or (repository.folder / ".git/index.lock").exists():
        raise Finding(f"status {repository.status}")
    repository.git("fsck", "--strict", "--no-dangling")


def with_steps(death: Death) -> None:
    """Let this process die at its step: before and after each run of git, each record of a commit, and each change of the index."""
    lock: Callable[..., None] = Checkout._lock
    replace: Callable[..., Path] = Path.replace
    run: Callable[..., GitRun] = Git.run
    put: Callable[..., Awaitable[None]] = CommitRecords.put

    def stepped(*given: Any, **named: Any) -> GitRun:
        death.step()
        found = run(*given, **named)
        death.step()
        return found

    async def recorded(*given: Any, **named: Any) -> None:
        death.step()
        await put(*given, **named)
        death.step()

    def locked(checkout: Checkout, index: Path, place: Path) -> None:
        lock(checkout, index, place)
        death.step()

    def replaced(file: Path, target: Path) -> Path:
        found = replace(file, target)
        death.step()
        return found

    Checkout._lock = locked  # type: ignore[method-assign,assignment]
    Path.replace = replaced  # type: ignore[method-assign,assignment]
    Git.run = stepped  # type: ignore[method-assign]
    CommitRecords.put = recorded  # type: ignore[method-assign]


def main(home: Path, stride: int) -> int:
    made(home / "kb", dict.fromkeys(PAGES, "# Page\n\n"))
    for number, step in enumerate(range(1, 1000, stride), 1):
        child = os.fork()
        if not child:
            try:
                anyio.run(live, home, number, Death(step))
            except Exception as error:  # noqa: BLE001 - whatever it is, the test shows it
                (home / "wrong").write_text(f"process {number}: {error!r}", encoding="utf-8")
            os._exit(0)
        _, status = os.waitpid(child, 0)
        if (home / "wrong").exists():
            return 1
        if not os.WIFSIGNALED(status):
            return 0
        sys.stdout.write(state_of(Repository(home / "kb")) + "\n")
        sys.stdout.flush()
    return 1


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), int(sys.argv[2])))
