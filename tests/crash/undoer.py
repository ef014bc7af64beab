"""Processes that undo what a host did on several pages, and undo that again, each killed one step later than the one before.

Each is forked, finishes what its predecessor began, checks that all pages are as before or as after, and dies at its step.

`python -m tests.crash.undoer HOME STRIDE` prints one line for each death: which of the two states the next process found. It ends
once a process gets to the end of an undo in each direction. A process that finds something else exits with the finding in `wrong`.
"""

from __future__ import annotations

import os
import signal
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import anyio

from knowledge.history.audit.chain import verify
from knowledge.history.ports import Actor, Ledger
from knowledge.index.store.sqlite import SqliteIndexStore
from knowledge.pages.vault import Vault, revision_of
from knowledge.state.sqlite.store import SqliteStateStore
from knowledge.writing.acts.move_act import MoveActs
from knowledge.writing.files.file_set import FileSet
from knowledge.writing.locks.page_locks import Locks
from knowledge.writing.model import ActWork, Contents, PageAct
from knowledge.writing.related.backlinks import Backlinks
from knowledge.writing.requests import MoveRequest
from knowledge.writing.transaction import Transaction
from knowledge.writing.undo.past_act import PastAct, UndoRequest, past_act
from knowledge.writing.undo.undo_acts import UndoActs
from tests.support.writing.acts import now, rejoin

HOST, PERSON = Actor("ada@wild", "kb_merge", "ab" * 32), Actor("ada@terminal", "undo", "cd" * 32)
PAGES = {
    "tea.md": b"# Tea\n\nTwo minutes.\n",
    "cups.md": b"# Cups\n\nSix.\n",
    "old/plan.md": b"# Plan\n\n[Tea](../tea.md)\n",
    "home.md": b"# Home\n\n[Plan](old/plan.md)\n",
    "gone.md": b"# Gone\n\nA page.\n",
}


@dataclass
class Life:
    """One process's view. `dies_at` is the step of its undo at which it dies, 0 for none."""

    home: Path
    ledger: Ledger
    backlinks: Backlinks
    dies_at: int = 0

    def step(self, _name: str) -> None:
        if self.dies_at:
            self.dies_at -= 1
            if not self.dies_at:
                os.kill(os.getpid(), signal.SIGKILL)

    @property
    def acts(self) -> Transaction:
        files = FileSet(Vault.open(self.home / "kb"), step=self.step)
        return Transaction(files, Stepping(self), Locks(self.home / "locks"), now=now, rejoin=rejoin)

    def files(self) -> dict[str, bytes]:
        root = self.home / "kb"
        return {str(file.relative_to(root)): file.read_bytes() for file in root.rglob("*") if file.is_file()}


class Stepping:
    """A ledger in which beginning and recording an act are steps, before and after."""

    def __init__(self, life: Life) -> None:
        self._life = life

    def __getattr__(self, name: str) -> Any:
        return getattr(self._life.ledger, name)

    async def intend(self, *args: Any, **more: Any) -> None:
        self._life.step("intend")
        await self._life.ledger.intend(*args, **more)
        self._life.step("intended")

    async def commit(self, *args: Any, **more: Any) -> Any:
        self._life.step("commit")
        found = await self._life.ledger.commit(*args, **more)
        self._life.step("committed")
        return found


async def opened(home: Path) -> Life:
    """Open the knowledge base."""
    store = await SqliteStateStore.open(home / "state" / "state.db")
    index = await SqliteIndexStore.open(home / "state" / "index.db")
    return Life(home, store.ledger, Backlinks(Vault.open(home / "kb"), index))


def setting(path: str, raw: bytes | None) -> PageAct[None]:
    async def work(_: Contents) -> ActWork[None]:
        return ActWork({path: raw}, None)

    return PageAct(HOST, (path,), work)


async def begin(home: Path) -> None:
    """Let a host change, make, remove and move pages; keep both states to compare with."""
    life = await opened(home)
    for path, raw in PAGES.items():
        (home / "kb" / path).parent.mkdir(parents=True, exist_ok=True)
        (home / "kb" / path).write_bytes(raw)
    changes: tuple[tuple[str, bytes | None], ...] = (
        ("tea.md", b"# Tea\n\nFive minutes.\n"),
        ("new.md", b"# New\n"),
        ("gone.md", None),
        ("tea.md", b"# Tea\n\nNine minutes.\n"),
        ("cups.md", b"# Cups\n\nNone.\n"),
    )
    for path, changed in changes:
        await life.acts.run(setting(path, changed))
    moving = MoveRequest(Actor(HOST.principal, "kb_move", HOST.arguments_hash), "old/plan.md", "new/strategy.md")
    moves = MoveActs(life.ledger, life.backlinks, UndoActs(life.ledger, life.backlinks))
    await life.acts.run(moves.move(moving, ["home.md"]))
    assert life.files()["home.md"] == b"# Home\n\n[Plan](new/strategy.md)\n"
    for path, raw in life.files().items():
        copy = home / "after" / path
        copy.parent.mkdir(parents=True, exist_ok=True)
        copy.write_bytes(raw)


def state(life: Life) -> str:
    """Return in which of the two states the pages are; "" for any other."""
    root, files = life.home / "after", life.files()
    after = {str(file.relative_to(root)): file.read_bytes() for file in root.rglob("*") if file.is_file()}
    return "undone" if files == PAGES else "as the host left it" if files == after else ""


async def problems(life: Life) -> list[str]:
    """Return what is wrong after a process has died; normally nothing."""
    found = [] if state(life) else [f"neither before nor after: {sorted(life.files().items())}"]
    for path, raw in life.files().items():
        newest = await life.ledger.history(path, limit=1)
        if newest and newest[0].revision != revision_of(raw):
            found.append(f"{path} is in a state that is not on record")
    found += [f"an act is still begun: {intent.id}" for intent in await life.ledger.intents()]
    fault = verify(await life.ledger.records(limit=1_000_000), await life.ledger.chain_end())
    return found + ([f"the audit chain: {fault}"] if fault else [])


async def live(home: Path, dies_at: int) -> None:
    """Finish what the last process began, check, and undo until killed: what the host did, or the last undo."""
    life = await opened(home)
    await life.acts.recovery.finish_all()
    await life.acts.recovery.sweep(older_than_s=-1)
    if wrong := await problems(life):
        (home / "wrong").write_text("\n".join(wrong))
        os._exit(3)
    (home / "state.txt").write_text(state(life))
    request = UndoRequest(PERSON, "tea.md", tuple(await undoable(life.ledger)))
    act = await UndoActs(life.ledger, life.backlinks).act(request)
    life.dies_at = dies_at
    done = await life.acts.run(act)
    if done.result.status != "done":
        (home / "wrong").write_text(str(done.result))
        os._exit(3)


async def undoable(ledger: Ledger) -> list[PastAct]:
    """Return the last undo, or what the host did, newest first."""
    seq, _ = await ledger.chain_end()
    acts = [past_act(act) for number in range(seq, 0, -1) if (act := await ledger.act(str(number))) is not None]
    undos = [act for act in acts if act.tool == "undo"]
    return undos[:1] or acts


def main(home: Path, stride: int) -> int:
    """Let processes live and die, one after the other."""
    survived, dies_at = 0, 0
    _forked(begin, home)
    while survived < 2:
        dies_at += stride
        status = _forked(live, home, dies_at)
        if os.WIFEXITED(status) and os.WEXITSTATUS(status):
            return 1
        survived = survived + 1 if os.WIFEXITED(status) else 0
        print((home / "state.txt").read_text(), flush=True)  # noqa: T201 - for who started this
    return os.WEXITSTATUS(_forked(live, home, 1))


def _forked(work: Any, *args: Any) -> int:
    child = os.fork()
    if not child:
        anyio.run(work, *args)
        os._exit(0)
    return os.waitpid(child, 0)[1]


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), int(sys.argv[2])))
