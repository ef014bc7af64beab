"""Makes new vectors for a whole index beside those in use, and exchanges them when all exist (kb/decisions/0020)."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING

import anyio
import anyio.to_thread

from knowledge.errors import KnowledgeError
from knowledge.index.embed.ports import Embedder, EmbedderOf
from knowledge.pages.markdown.chunk import indexed_text
from knowledge.state.ports import IndexIdentity, IndexStore, LackingRow, Progress

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

log = logging.getLogger(__name__)

BATCH, FIRST_BATCH, SMALLEST_BATCH = 256, 64, 32
"""Chunks embedded between two writes, which is the most that a killed process loses; the first batch is smaller."""
BATCH_S = 5.0
"""Target duration of a batch: a slow embedder gets smaller batches, so that its progress is shown and stored just as
often."""
NO_VECTOR = (b"", bytes(32))
"""Stored for a chunk whose embedder was unavailable."""


async def begin(index: IndexStore, wanted: IndexIdentity, at_once: IndexIdentity | None) -> None:
    """Prepare `index` for vectors of `wanted`, or for those of `at_once` if the index is empty and `at_once` is given.

    `at_once` is always available, so that a first index need not wait for a slow embedder. When the index is filled,
    call this again with `wanted`.
    """
    space = await index.space()
    emptied = space.identity.recipe != wanted.recipe  # by `index.begin`, with all vectors in use
    # A process that died right after that left vectors that are to be used again: then `wanted` is coming already.
    empty = not space.wanted.same_vectors(wanted) and not (await index.progress()).done
    first = wanted
    if at_once is not None and (emptied or empty):
        first = at_once
    await index.begin(first)


class Renewal:
    """Gives every chunk a vector of the wanted embedder.

    `turn` is the lock for writing or exchanging the vectors in use.
    """

    def __init__(
        self,
        index: IndexStore,
        embedder: EmbedderOf,
        *,
        turn: anyio.Lock,
        on_progress: Callable[[Progress], None] = lambda _: None,
    ) -> None:
        self._index, self._embedder, self._turn, self._on_progress = index, embedder, turn, on_progress

    async def run(self, fence: int) -> bool:
        """Supply missing vectors batch by batch, then exchange all; return whether that was done.

        If the process is killed, the supplied vectors stay, and the next run continues there.

        Raises:
            EmbedderUnavailable: the wanted embedder cannot be asked now.
            LeaseLost: a writer with a higher fence has been here.
        """
        space = await self._index.space()
        if space.coming is None and not await self._index.lacking(0, limit=1):
            return False
        while await self._supply(space.wanted, fence):
            # Held during the exchange: no writer may still be about to store vectors of the old embedder.
            async with self._turn:
                if await self._index.swap(fence=fence):
                    log.info("all passages have vectors of %s now", space.wanted.embedder)
                    return True
        return False

    async def _supply(self, wanted: IndexIdentity, fence: int) -> bool:
        """Give all present chunks their vectors; False if another embedder was configured in the meantime."""
        progress = await self._index.renewal() or Progress(0, 0)
        done, after, size = progress.done, 0, min(FIRST_BATCH, BATCH)
        while rows := await self._index.lacking(after, limit=size):
            began = anyio.current_time()
            vectors = await self._vectors(await self._embedder(wanted), rows)
            spent_s = anyio.current_time() - began
            size = min(BATCH, max(SMALLEST_BATCH, int(size * BATCH_S / max(spent_s, 0.001))))
            if not await self._index.supply(vectors, of=wanted, fence=fence):
                return False
            done, after = done + len(rows), rows[-1].seq
            self._on_progress(Progress(done, max(progress.total, done)))
        return True

    async def _vectors(self, embedder: Embedder, rows: Sequence[LackingRow]) -> Mapping[bytes, tuple[bytes, bytes]]:
        texts = {row.digest: indexed_text(row.title, row.section, row.text) for row in rows}
        try:
            vectors = await embedder.embed(list(texts.values()))
        except KnowledgeError:
            raise
        except Exception as error:  # noqa: BLE001 - raised again unless single texts caused it
            vectors = await _one_by_one(embedder, list(texts.values()), error)
        return dict(zip(texts, await anyio.to_thread.run_sync(partial(packed, vectors)), strict=True))


async def _one_by_one(embedder: Embedder, texts: Sequence[str], error: Exception) -> NDArray[np.float32]:
    """Return the vectors, zeros for a text that cannot be embedded: words still find it. If none can be, raise `error`."""
    import numpy as np  # loaded with the embedder; a run without work does not need it

    found: list[NDArray[np.float32] | None] = []
    for text in texts:
        try:
            found.append((await embedder.embed([text]))[0])
        except KnowledgeError:
            raise
        except Exception as odd:  # noqa: BLE001 - logged for each text
            log.warning("a passage cannot be embedded (%s)", type(odd).__name__)
            found.append(None)
    some = next((vector for vector in found if vector is not None), None)
    if some is None:
        raise error
    return np.stack([np.zeros_like(some) if vector is None else vector for vector in found])


def packed(vectors: NDArray[np.float32]) -> list[tuple[bytes, bytes]]:
    """Return `(half, code)` of each row, as they are stored."""
    from knowledge.index.engines.codes import encode  # loads numpy, which a run without work does not need

    halves = vectors.astype("<f2")
    return [(half.tobytes(), code.tobytes()) for half, code in zip(halves, encode(vectors), strict=True)]
