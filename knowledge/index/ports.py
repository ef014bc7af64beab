"""What an index engine must promise. `memory.py` is the specification; every engine passes the same contract suite.

An index is a cache of an `IndexStore`: late, deleted or corrupt, it catches up or starts over by itself, and it never
fails a write. Searching never waits for indexing: it answers from what is there.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from knowledge.storage.ports import IndexStore, Position

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


@dataclass(frozen=True, slots=True)
class Scored:
    """A chunk and how well it fits; higher is closer. Scores of different engines cannot be compared."""

    seq: int
    doc: int
    score: float


@dataclass(frozen=True, slots=True)
class QueryTerm:
    """One word of a question and the indexed terms that count as it, each with its weight in 0..1.

    A document scores for a query term by the best of its alternatives, not by their sum.
    """

    word: str
    alternatives: tuple[tuple[str, float], ...]


class KeywordIndex(Protocol):
    """Ranks chunks by the words they share with a question (BM25, k1 = 1.2, b = 0.75, heading path and text alike)."""

    async def catch_up(self, store: IndexStore) -> int:
        """Take in what the store has and this index has not, and return how many rows that were.

        Safe to call in several processes at once (one works, the others wait or return 0), and to be killed in.
        """
        ...

    async def search(
        self, terms: Sequence[QueryTerm], *, limit: int, docs: frozenset[int] | None = None
    ) -> Sequence[Scored]:
        """Return at most `limit` chunks that have any of the terms, best first; `docs` restricts to these documents."""
        ...

    async def position(self) -> Position:
        """Return up to where searches find the store's rows; an empty generation while there is nothing yet. Cheap."""
        ...

    async def close(self) -> None:
        """Give everything back."""
        ...


class VectorIndex(Protocol):
    """Ranks chunks by the angle between their vector and a question's."""

    async def search(
        self, store: IndexStore, vector: NDArray[np.float32], *, limit: int, docs: frozenset[int] | None = None
    ) -> Sequence[Scored]:
        """Return at most `limit` chunks, best first, score = cosine in -1..1; what the store has now is taken in first."""
        ...

    async def close(self) -> None:
        """Give everything back."""
        ...
