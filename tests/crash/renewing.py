"""A process that exchanges the vectors of an index, and stops at a named point so that it can be killed there.

`python -m tests.crash.renewing HOME POINT`: prints the point when it is reached, or how many texts it embedded. At the
point `go` it doesn't stop, and takes small steps, so that a kill at any moment hits one.
"""

from __future__ import annotations

import hashlib
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import anyio
import numpy as np
from numpy.typing import NDArray

from knowledge.errors import EmbedderUnavailable
from knowledge.index import vector_renewal as renewal
from knowledge.index.embed.ports import Embedder
from knowledge.index.indexer import Indexer
from knowledge.index.store import sqlite_vectors as writing
from knowledge.index.store.sqlite import SqliteIndexStore
from knowledge.pages.vault import Vault
from knowledge.state.ports import IndexIdentity
from tests.support.index.memory_embedder import MemoryEmbedder
from tests.support.index.memory_engines import MemoryKeywordIndex

POINTS = ("supplying", "supplied", "swapping", "swapped")
BATCH = 40


class OtherEmbedder(MemoryEmbedder):
    """Vectors as long as the plain ones and not comparable with them: only the score shows a mix-up."""

    def __init__(self) -> None:
        super().__init__()
        self.texts = 0

    @property
    def name(self) -> str:
        return "other-words-64/1"

    async def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        self.texts += len(texts)
        return await super().embed(texts)

    def _direction(self, word: str) -> NDArray[np.float32]:
        digest = hashlib.shake_256(word.encode()).digest(64)
        return (np.frombuffer(digest, np.uint8).astype(np.float32) - 127.5) / 127.5


OLD, NEW = MemoryEmbedder(), OtherEmbedder()
BEFORE, AFTER = IndexIdentity(OLD.name, 64, 1), IndexIdentity(NEW.name, 64, 1)


async def embedder(identity: IndexIdentity) -> Embedder:
    """Return the recorded embedder."""
    for known in (OLD, NEW):
        if known.name == identity.embedder:
            return known
    raise EmbedderUnavailable(identity.embedder, "unknown", "use another")


def indexer(root: Path, index: SqliteIndexStore) -> Indexer:
    """Return an indexer whose keyword index doesn't matter here."""

    async def keyword() -> MemoryKeywordIndex:
        return MemoryKeywordIndex(lambda row: row.text.split())

    return Indexer(Vault.open(root), index, keyword=keyword, embedder=embedder, now_ns=time.time_ns)


def _stop(point: str) -> None:
    _say(point)
    time.sleep(600)


def _say(what: object) -> None:
    sys.stdout.write(f"{what}\n")
    sys.stdout.flush()


def _stopping(point: str) -> None:
    """Make the process stop at `point`: inside a transaction, or right after it."""
    supply, swap = writing.supply, writing.swap
    count = [0]

    def then(write: Callable[..., bool], inside: str) -> Callable[..., bool]:
        def written(*args: Any) -> bool:
            done = write(*args)
            count[0] += 1
            if point == inside and done and (inside == "swapping" or count[0] == 3):
                _stop(point)
            return done

        return written

    writing.supply, writing.swap = then(supply, "supplying"), then(swap, "swapping")
    if point in ("supplied", "swapped"):
        method = "supply" if point == "supplied" else "swap"
        original = getattr(SqliteIndexStore, method)

        async def after(*args: Any, **other: Any) -> bool:
            done: bool = await original(*args, **other)
            if method == "swap" or count[0] == 3:
                _stop(point)
            return done

        setattr(SqliteIndexStore, method, after)


async def _main(home: Path, point: str) -> None:
    renewal.BATCH = 3 if point == "go" else BATCH
    _stopping(point)
    index = await SqliteIndexStore.open(home / "index.db")
    if point == "go":
        _say(point)
    await index.begin(AFTER)
    await indexer(home / "kb", index).renew(1)
    await index.close()
    _say(NEW.texts)


if __name__ == "__main__":
    anyio.run(_main, Path(sys.argv[1]), sys.argv[2])
