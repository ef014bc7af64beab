"""A folder with acts on it: real files, a real ledger, faults at named steps, and an editor's ways to save."""

from __future__ import annotations

import secrets
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from difflib import SequenceMatcher
from pathlib import Path

from knowledge.history.ports import Actor, Ledger
from knowledge.pages.vault import Vault
from knowledge.writing.files.file_set import FileSet
from knowledge.writing.files.patience import ActPatience
from knowledge.writing.locks.page_locks import Locks
from knowledge.writing.model import ActWork, Contents, PageAct
from knowledge.writing.transaction import Transaction
from tests.support.state.memory.ledger import MemoryLedger

ADA = Actor("ada@desktop", "kb_merge", "ab" * 32)


def now() -> datetime:
    return datetime.now(UTC)


class Steps:
    """Called at each step of a write; acts when one step is reached for the `nth` time."""

    def __init__(self) -> None:
        self.seen: list[str] = []
        self._actions: dict[tuple[str, int], Callable[[], object]] = {}
        self._counts: Counter[str] = Counter()

    def at(self, step: str, do: Callable[[], object], *, nth: int = 1) -> None:
        self._actions[step, self._counts[step] + nth] = do

    def fail(self, step: str, number: int, *, nth: int = 1) -> None:
        def failing() -> None:
            raise OSError(number, "injected")

        self.at(step, failing, nth=nth)

    def __call__(self, step: str) -> None:
        self.seen.append(step)
        self._counts[step] += 1
        action = self._actions.get((step, self._counts[step]))
        if action is not None:
            action()


@dataclass
class World:
    """One process's view of a folder; `beside` makes another one's."""

    home: Path
    ledger: Ledger = field(default_factory=lambda: MemoryLedger(lambda _topic, _paths: None))
    steps: Steps = field(default_factory=Steps)
    patience: Callable[[], ActPatience] = ActPatience

    def __post_init__(self) -> None:
        self.root = self.home / "kb"
        self.root.mkdir(exist_ok=True)
        self.files = FileSet(Vault.open(self.root), step=self.steps)
        self.locks = Locks(self.home / "locks")
        self.acts = Transaction(self.files, self.ledger, self.locks, now=now, rejoin=rejoin, patience=self.patience)

    def beside(self) -> World:
        return World(self.home, self.ledger)

    def impatient(self) -> World:
        """Return the view of a process that gives up after the least number of tries, whatever time is left."""
        return World(self.home, self.ledger, self.steps, lambda: ActPatience(keeps_trying_s=0))

    def put(self, path: str, raw: bytes) -> None:
        file = self.root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(raw)

    def read(self, path: str) -> bytes | None:
        file = self.root / path
        return file.read_bytes() if file.exists() else None

    def pages(self) -> dict[str, bytes]:
        """Return all files, including hidden ones."""
        return {str(f.relative_to(self.root)): f.read_bytes() for f in sorted(self.root.rglob("*")) if f.is_file()}

    async def lineage(self, path: str) -> list[bytes]:
        """Return every stored state of the page, newest first."""
        states = []
        for line in await self.ledger.history(path, limit=100_000):
            for revision in (line.revision, line.before):
                raw = await self.ledger.content(path, revision) if revision else None
                if raw is not None and raw not in states:
                    states.append(raw)
        return states


def save_as_new(file: Path, raw: bytes) -> None:
    """Save as most editors do: a new file takes the name."""
    fresh = file.with_name(f".{file.name}.{secrets.token_hex(4)}.swp")
    fresh.write_bytes(raw)
    fresh.replace(file)


def save_in_place(file: Path, raw: bytes) -> None:
    """Save as simple editors do: the file is emptied and written again."""
    file.write_bytes(raw)


def appending(path: str, *lines: bytes) -> PageAct[str]:
    """Return the act of adding lines at the end of a page."""

    async def work(contents: Contents) -> ActWork[str]:
        return ActWork({path: (contents[path] or b"") + b"".join(line + b"\n" for line in lines)}, "appended")

    return PageAct(ADA, (path,), work)


def setting(contents: Mapping[str, bytes | None], **moved: str) -> PageAct[str]:
    """Return the act of giving pages these contents; `moved` by new path, dots for slashes."""

    async def work(_: Contents) -> ActWork[str]:
        return ActWork(contents, "set", moved={new.replace("__", "/"): old for new, old in moved.items()})

    return PageAct(ADA, tuple(contents), work)


def adapting(paths: Sequence[str], change: Callable[[Contents], Mapping[str, bytes | None]]) -> PageAct[Contents]:
    """Return an act with the result of `change`, which gets the page's state."""

    async def work(contents: Contents) -> ActWork[Contents]:
        return ActWork(change(contents), dict(contents))

    return PageAct(ADA, tuple(paths), work)


def checked(act: PageAct[str], check: Callable[[Contents], Awaitable[Sequence[str]]]) -> PageAct[str]:
    return PageAct(act.actor, act.paths, act.work, check=check)


def rejoin(before: bytes, current: bytes, after: bytes) -> bytes:
    """Apply the changes between `before` and `after` to `current`, line by line; where both changed a line, `current` stays."""
    old, now_, new = (raw.splitlines(keepends=True) for raw in (before, current, after))
    edges, kept = {0: 0}, {}
    for tag, first, end, start, stop in SequenceMatcher(None, old, now_, autojunk=False).get_opcodes():
        edges[end] = stop
        if tag == "equal":
            kept.update({first + n: start + n for n in range(end - first)})
            edges.update({first + n: start + n for n in range(1, end - first)})
    result = list(now_)
    for tag, first, end, start, stop in reversed(SequenceMatcher(None, old, new, autojunk=False).get_opcodes()):
        if tag == "insert":
            result[edges[first] : edges[first]] = [line for line in new[start:stop] if line not in now_]
        elif tag != "equal" and all(kept.get(n) == kept.get(first, -len(old)) + n - first for n in range(first, end)):
            result[kept[first] : kept[first] + end - first] = new[start:stop]
    return b"".join(result)
