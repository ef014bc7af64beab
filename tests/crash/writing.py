"""Processes that write pages and are killed meanwhile.

Each is forked, finishes what its predecessor began, checks, and dies.

`python -m tests.crash.writing HOME KILLS SEED` prints in which stage each died. A process that finds something lost
exits instead of dying, and this one then exits with the finding.
"""

from __future__ import annotations

import json
import mmap
import os
import random
import signal
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import anyio

from knowledge.history.audit.chain import verify
from knowledge.history.ports import Actor, Ledger
from knowledge.pages.vault import Vault, revision_of
from knowledge.state.sqlite.store import SqliteStateStore
from knowledge.writing.files.file_set import FileSet
from knowledge.writing.locks.page_locks import Locks
from knowledge.writing.model import ActWork, Contents, PageAct
from knowledge.writing.transaction import Transaction
from tests.support.writing.acts import now, rejoin

REVISION, WRITTEN, EXCHANGED, SYNCED, AUDIT = (
    "revision commit",
    "temporary file written",
    "exchanged",
    "directory synced",
    "audit",
)
STAGES = (REVISION, WRITTEN, EXCHANGED, SYNCED, AUDIT)
ANYWHERE = "anywhere"
TARGETS = (*STAGES, ANYWHERE)
BEGINS = {"create": WRITTEN, "exchange": EXCHANGED, "sync folder": SYNCED}
ENDS = {"written": WRITTEN, "folder synced": SYNCED}
PAGES = ("a.md", "b.md", "c/d.md")
LONGEST_DELAY_S = 0.003
LONGEST_LIFE_S = 0.06


class Moment:
    """The current stage of the process, in a file that outlives it, and its death when its time has come."""

    def __init__(self, path: Path, target: str, chance: random.Random) -> None:
        path.write_bytes(b"\0")
        with path.open("r+b") as file:
            self._byte = mmap.mmap(file.fileno(), 1)
        self._target, self._chance = target, chance
        self._entries = chance.randrange(1, 6)
        self._at_step = chance.random() < 0.5
        self._entered = threading.Event()
        threading.Thread(target=self._kill_at_last, daemon=True).start()

    def enter(self, stage: str) -> None:
        """Be in `stage`; die in it if it is the chosen one, now or a moment later."""
        self._byte[0] = STAGES.index(stage) + 1
        if stage == self._target:
            self._entries -= 1
            if self._entries <= 0:
                if self._at_step:
                    os.kill(os.getpid(), signal.SIGKILL)
                self._entered.set()

    def leave(self) -> None:
        """Leave the stage."""
        self._byte[0] = 0

    def step(self, name: str) -> None:
        """Follow the steps of a write; a kill may also hit between them."""
        if name in BEGINS:
            self.enter(BEGINS[name])
        elif told(self._byte[:1]) == self._target and self._entries <= 0 and self._chance.random() < 0.5:
            os.kill(os.getpid(), signal.SIGKILL)
        if name in ENDS:
            self.leave()

    @contextmanager
    def of(self, stage: str) -> Iterator[None]:
        """Be in `stage` during this block."""
        self.enter(stage)
        try:
            yield
        finally:
            self.leave()

    def _kill_at_last(self) -> None:
        if self._target == ANYWHERE:
            time.sleep(self._chance.random() * LONGEST_LIFE_S)
            os.kill(os.getpid(), signal.SIGKILL)
        while True:
            self._entered.wait()
            time.sleep(self._chance.random() ** 3 * LONGEST_DELAY_S)
            if told(self._byte[:1]) == self._target:
                os.kill(os.getpid(), signal.SIGKILL)
            self._entered.clear()


def told(byte: bytes) -> str:
    """Return the stage that the byte of a dead process names."""
    return STAGES[byte[0] - 1] if byte[0] else ""


class Watched:
    """A ledger that reports when it begins and when it records an act."""

    def __init__(self, ledger: Ledger, moment: Moment) -> None:
        self._ledger, self._moment = ledger, moment

    def __getattr__(self, name: str) -> Any:
        return getattr(self._ledger, name)

    async def intend(self, *args: Any, **more: Any) -> None:
        with self._moment.of(REVISION):
            await self._ledger.intend(*args, **more)

    async def commit(self, *args: Any, **more: Any) -> Any:
        with self._moment.of(AUDIT):
            return await self._ledger.commit(*args, **more)


def adding(token: str, paths: tuple[str, ...]) -> PageAct[None]:
    """Return the act of adding a line to each of these pages."""

    async def work(contents: Contents) -> ActWork[None]:
        return ActWork({path: (contents[path] or b"# Page\n") + token.encode() + b"\n" for path in paths}, None)

    return PageAct(Actor("ada", "kb_merge", "ab" * 32), paths, work)


def moving(old: str, new: str, index: str) -> PageAct[None]:
    """Return the act of moving a page and mentioning that in another."""

    async def work(contents: Contents) -> ActWork[None]:
        if contents[old] is None or contents[new] is not None:
            return ActWork({}, None)
        said = (contents[index] or b"# Index\n") + f"{old} is {new}\n".encode()
        return ActWork({old: None, new: contents[old], index: said}, None, moved={new: old})

    return PageAct(Actor("ada", "kb_move", "cd" * 32), (old, new, index), work)


async def problems(home: Path, ledger: Ledger) -> list[str]:
    """Return what is lost, torn or broken once the next process has finished what was begun; normally nothing."""
    root, found = home / "kb", []
    files = {str(file.relative_to(root)): file.read_bytes() for file in root.rglob("*") if file.is_file()}
    found += [f"left behind: {path}" for path in files if path.rpartition("/")[2].startswith(".")]
    for line in (home / "acks").read_text().splitlines() if (home / "acks").exists() else []:
        token, *paths = json.loads(line)
        times = [files.get(path, b"").splitlines().count(token.encode()) for path in paths]
        found += [f"acknowledged {token} is {times} times in {paths}"] if times != [1] * len(paths) else []
    for path, raw in files.items():
        doubled = [line for line, count in Counter(raw.splitlines()).items() if count > 1 and line.startswith(b"t")]
        found += [f"{path} has {doubled} more than once"] if doubled else []
        newest = await ledger.history(path, limit=1)
        if newest and newest[0].revision != revision_of(raw):
            found.append(f"{path} is in a state that is not on record")
    pairs = [{line for line in files.get(path, b"").splitlines() if line[:5] == b"tpair"} for path in PAGES[:2]]
    found += [f"half of an act: {pairs[0] ^ pairs[1]}"] if pairs[0] != pairs[1] else []
    if ("m1.md" in files) == ("m2.md" in files):
        found.append("the moved page is in both places, or in none")
    found += [f"an act is still begun: {intent.id}" for intent in await ledger.intents()]
    fault = verify(await ledger.records(limit=1_000_000), await ledger.chain_end())
    return found + ([f"the audit chain: {fault}"] if fault else [])


async def live(home: Path, seed: int) -> None:
    """Finish what the last process began, check everything, and write until killed."""
    chance = random.Random(seed)  # noqa: S311 - moments of dying, not secrets
    store = await SqliteStateStore.open(home / "state" / "state.db")
    vault = Vault.open(home / "kb")
    recovering = Transaction(FileSet(vault), store.ledger, Locks(home / "locks"), now=now, rejoin=rejoin)
    await recovering.recovery.finish_all()
    await recovering.recovery.sweep(older_than_s=-1)
    wrong = await problems(home, store.ledger) if seed else []
    if wrong:
        (home / "wrong").write_text("\n".join(wrong))
        os._exit(3)
    moment = Moment(home / "moment", TARGETS[seed % len(TARGETS)], chance)
    ledger: Any = Watched(store.ledger, moment)
    acts = Transaction(FileSet(vault, step=moment.step), ledger, Locks(home / "locks"), now=now, rejoin=rejoin)
    acks = os.open(home / "acks", os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    for number in range(1_000):
        kind = chance.randrange(4)
        if kind == 0:
            pair, token = (PAGES[0], PAGES[1]), f"tpair-{seed}-{number}"
            await acts.run(adding(token, pair))
            os.write(acks, (json.dumps([token, *pair]) + "\n").encode())
        elif kind == 1:
            await acts.run(moving(*chance.choice([("m1.md", "m2.md"), ("m2.md", "m1.md")]), "index.md"))
        else:
            page, token = chance.choice(PAGES), f"t-{seed}-{number}"
            await acts.run(adding(token, (page,)))
            os.write(acks, (json.dumps([token, page]) + "\n").encode())


def main(home: Path, kills: int, seed: int) -> int:
    """Let processes live and die, one after the other; print in which stage each died."""
    for number in range(seed, seed + kills + 1):
        child = os.fork()
        if not child:
            # The last process only checks.
            anyio.run(live if number < seed + kills else look, home, number)
            os._exit(0)
        _, status = os.waitpid(child, 0)
        if number < seed + kills:
            if not os.WIFSIGNALED(status) or os.WTERMSIG(status) != signal.SIGKILL:
                print(f"process {number} ended with {status}", file=sys.stderr)  # noqa: T201 - for who started this
                return 1
            print(told((home / "moment").read_bytes()), flush=True)  # noqa: T201 - likewise
        elif status:
            return 1
    return 0


async def look(home: Path, seed: int) -> None:
    """Do what a starting process does, and return what is wrong."""
    store = await SqliteStateStore.open(home / "state" / "state.db")
    acts = Transaction(FileSet(Vault.open(home / "kb")), store.ledger, Locks(home / "locks"), now=now, rejoin=rejoin)
    await acts.recovery.finish_all()
    await acts.recovery.sweep(older_than_s=-1)
    wrong = await problems(home, store.ledger) if seed else []
    (home / "wrong").write_text("\n".join(wrong))
    if wrong:
        os._exit(3)


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])))
