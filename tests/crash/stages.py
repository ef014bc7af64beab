"""A process that indexes without end and kills itself inside a named stage; `moment` then says in which stage it died.

`python -m tests.crash.stages HOME ENGINE PLACE STAGE SEED`: files change, the database indexes them, the engine catches
up, the vectors are exchanged for another embedder's and back. A thread waits for STAGE and kills the process a moment
after the stage began.
"""

from __future__ import annotations

import mmap
import os
import random
import signal
import sys
import threading
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import anyio
import apsw

from knowledge.index import vector_renewal as renewal
from knowledge.index.embed.ports import Embedder
from knowledge.index.engines import tantivy_keywords as tantivy_engine
from knowledge.index.indexer import Indexer
from knowledge.index.ports import KeywordIndex
from knowledge.index.store.sqlite import SqliteIndexStore
from knowledge.pages.vault import Vault
from knowledge.state.ports import IndexIdentity
from tests.crash.renewing import NEW, OLD, OtherEmbedder
from tests.support.index.keyword_engines import ENGINES
from tests.support.index.memory_embedder import MemoryEmbedder

DATABASE, KEYWORD, VECTOR, SWAP = "database commit", "keyword commit", "vector write", "swap"
STAGES = (DATABASE, KEYWORD, VECTOR, SWAP)
WORDS = ("apple", "berry", "cherry", "damson", "elder", "fig", "grape", "hazel")
LONGEST_DELAY_S = 0.004
FILES_A_ROUND = 12


class Moment:
    """The current stage of the process, in a file that outlives it."""

    def __init__(self, path: Path) -> None:
        path.write_bytes(b"\0")
        with path.open("r+b") as file:
            self._byte = mmap.mmap(file.fileno(), 1)
        self.entered = threading.Event()
        self.target = ""

    @contextmanager
    def of(self, stage: str) -> Iterator[None]:
        """Be in `stage`; inside another stage this counts as that one."""
        if self._byte[0]:
            yield
            return
        self._byte[0] = STAGES.index(stage) + 1
        if stage == self.target:
            self.entered.set()
        try:
            yield
        finally:
            self._byte[0] = 0

    @property
    def now(self) -> str:
        """Return the stage; "" outside of all."""
        return told(bytes([self._byte[0]]))


def told(byte: bytes) -> str:
    """Return the stage that the byte of a dead process names."""
    return STAGES[byte[0] - 1] if byte[0] else ""


def _kill_inside(moment: Moment, chance: random.Random) -> None:
    """Wait until the stage was entered a few times, then kill this process within it."""
    for _ in range(chance.randrange(4)):
        moment.entered.wait()
        time.sleep(0.001)
        moment.entered.clear()
    while True:
        moment.entered.wait()
        time.sleep(chance.random() ** 3 * LONGEST_DELAY_S)
        if moment.now == moment.target:
            os.kill(os.getpid(), signal.SIGKILL)
        moment.entered.clear()


def _watch(moment: Moment) -> None:
    """Make everything that writes report its stage."""

    class Watched(apsw.Connection):
        def execute(self, statements: str, *args: Any, **other: Any) -> Any:
            if statements.lower() != "commit":
                return super().execute(statements, *args, **other)
            with moment.of(KEYWORD if "keyword" in self.filename else DATABASE):
                return super().execute(statements, *args, **other)

    apsw.Connection = Watched  # type: ignore[misc]  # for this process only
    _around(tantivy_engine._TantivyCatchUp, "_commit", KEYWORD, moment)
    _around_async(SqliteIndexStore, "supply", VECTOR, moment)
    _around_async(SqliteIndexStore, "swap", SWAP, moment)


def _watch_servers(engine: str, moment: Moment) -> None:
    if engine.startswith("meilisearch"):
        from knowledge.index.engines.meilisearch.engine import MeilisearchKeywordIndex

        _around_async(MeilisearchKeywordIndex, "_put", KEYWORD, moment)
        _around_async(MeilisearchKeywordIndex, "_serve", SWAP, moment)


def _around(owner: type, name: str, stage: str, moment: Moment) -> None:
    original: Callable[..., Any] = getattr(owner, name)

    def within(*args: Any, **other: Any) -> Any:
        with moment.of(stage):
            return original(*args, **other)

    setattr(owner, name, within)


def _around_async(owner: type, name: str, stage: str, moment: Moment) -> None:
    original: Callable[..., Awaitable[Any]] = getattr(owner, name)

    async def within(*args: Any, **other: Any) -> Any:
        with moment.of(stage):
            return await original(*args, **other)

    setattr(owner, name, within)


def identity(embedder: MemoryEmbedder, recipe: int = 1) -> IndexIdentity:
    """Return the name that an index built with this embedder has."""
    return IndexIdentity(embedder.name, 64, recipe)


async def embedder_of(wanted: IndexIdentity) -> Embedder:
    """Return the embedder that is recorded."""
    return NEW if wanted.embedder == OtherEmbedder().name else OLD


def indexer_over(root: Path, index: SqliteIndexStore, keyword: KeywordIndex) -> Indexer:
    """Return the real indexer over a folder and an engine."""

    async def get() -> KeywordIndex:
        return keyword

    return Indexer(Vault.open(root), index, keyword=get, embedder=embedder_of, now_ns=time.time_ns)


def edit(root: Path, chance: random.Random) -> None:
    """Rewrite some files, delete one, rename one."""
    for _ in range(FILES_A_ROUND):
        file = root / f"d{chance.randrange(4)}" / f"p{chance.randrange(30)}.md"
        file.parent.mkdir(parents=True, exist_ok=True)
        parts = (f"## Part {n}\n\n{' '.join(chance.choices(WORDS, k=25))} {chance.random()}\n" for n in range(3))
        file.write_text("# Title\n\n" + "\n".join(parts), encoding="utf-8")
    files = sorted(root.rglob("*.md"))
    chance.choice(files).unlink()
    files = sorted(root.rglob("*.md"))
    chance.choice(files).rename(root / "d0" / f"r{chance.randrange(10**6)}.md")


async def _main(home: Path, engine: str, place: str, stage: str, seed: int) -> None:
    renewal.BATCH = 30
    tantivy_engine.ROWS_PER_COMMIT = 60
    moment, chance = Moment(home / "moment"), random.Random(seed)  # noqa: S311 - moments of dying, not secrets
    moment.target = stage
    _watch(moment)
    _watch_servers(engine, moment)
    index = await SqliteIndexStore.open(home / "index.db")
    keyword = ENGINES[engine].open(place)
    indexer = indexer_over(home / "kb", index, keyword)
    threading.Thread(target=_kill_inside, args=(moment, chance), daemon=True).start()
    for turn in range(seed, seed + 10_000):
        edit(home / "kb", chance)
        # Server engines that hold only words start over only with the texts: another recipe makes the index begin anew.
        recipe = 1 + turn % 2 if engine.startswith("meilisearch") and stage == SWAP else 1
        await index.begin(identity((OLD, NEW)[turn % 2], recipe))
        await indexer.reconcile(1)
        await indexer.catch_up()
        await indexer.renew(1)
        await keyword.catch_up(index)


if __name__ == "__main__":
    anyio.run(_main, Path(sys.argv[1]), sys.argv[2], sys.argv[3], sys.argv[4], int(sys.argv[5]))
