"""The cost of changing the embedder, measured with some of the passages on this machine."""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from knowledge.errors import EmbedderUnavailable
from knowledge.index.embed.ports import Embedder
from knowledge.pages.markdown.chunk import indexed_text
from knowledge.state.ports import IndexPosition, IndexStore

FIRST_TEXTS, MOST_TEXTS = 8, 64
ENOUGH_S = 2.0
"""If the first few texts take this long, they are enough; otherwise more are embedded, because batches matter."""
FEWEST_NUMBERS = 8
ALIKE = 0.9999
"""Cosine from which vectors count as the same."""
PAGE_CHARACTERS = 1_000
CODES_AT_ONCE = 20_000


@dataclass(frozen=True, slots=True)
class EmbeddingEstimate:
    """The measured speed, and the estimate for all passages. `memory_bytes` is 0 where the system does not report it."""

    passages: int
    dimensions: int
    passages_per_s: float
    seconds: float
    disk_bytes: int
    memory_bytes: int


async def sample_of(index: IndexStore) -> tuple[int, list[str]]:
    """Return how many passages the index has, and the texts of a few, spread over the whole index."""
    seqs: list[int] = []
    position = IndexPosition("", 0)
    while rows := (delta := await index.delta(position, limit=CODES_AT_ONCE, codes=True)).codes:
        seqs += [row.seq for row in rows]
        if delta.upto == position:
            break
        position = delta.upto
    step = max(1, len(seqs) // MOST_TEXTS)
    found = await index.chunks(seqs[::step][:MOST_TEXTS])
    return len(seqs), [indexed_text(row.title, row.section, row.text) for row in found.values()]


def texts_below(folder: Path) -> list[str]:
    """Return pieces of the pages in a folder, each about as long as a passage."""
    pages = sorted(folder.rglob("*.md"))[:MOST_TEXTS]
    texts = [page.read_text(encoding="utf-8", errors="replace")[:PAGE_CHARACTERS] for page in pages]
    return [text for text in texts if text.strip()]


async def estimate(embedder: Embedder, texts: Sequence[str], passages: int) -> EmbeddingEstimate:
    """Return what embedding so many `passages` would take, measured with `texts`.

    Raises: EmbedderUnavailable: the model cannot be loaded or asked, or its vectors tell no texts apart.
    """
    before = _peak_bytes()
    rows = [await embedder.embed(["knowledge"])]  # loads the model, which is not to be counted
    done, spent_s = 0, 0.0
    for batch in (texts[:FIRST_TEXTS], texts[FIRST_TEXTS:MOST_TEXTS]):
        if batch and spent_s < ENOUGH_S:
            began = time.perf_counter()
            rows.append(await embedder.embed(batch))
            spent_s += time.perf_counter() - began
            done += len(batch)
    if problem := _problem(np.concatenate(rows)):
        raise EmbedderUnavailable(embedder.name, problem, "is it a model for embeddings? Nothing was changed")
    speed = done / spent_s if spent_s else 0.0
    return EmbeddingEstimate(
        passages=passages,
        dimensions=embedder.dimensions,
        passages_per_s=round(speed, 1),
        seconds=round(passages / speed, 1) if speed else 0.0,
        # Each vector is stored in half precision, with a code of one bit for each number.
        disk_bytes=passages * (2 * embedder.dimensions + embedder.dimensions // 8),
        memory_bytes=_peak_bytes() - before,
    )


def _problem(rows: NDArray[np.float32]) -> str:
    """Return why these vectors of different texts are of no use; "" if nothing is wrong with them."""
    numbers = rows[rows.any(axis=1)]
    if rows.shape[1] < FEWEST_NUMBERS:
        return f"its vectors have {rows.shape[1]} dimensions, and at least {FEWEST_NUMBERS} are needed"
    if 2 * len(numbers) <= len(rows):
        return "it returns zeros or no numbers for most texts"
    if len(numbers) > 1 and bool((numbers @ numbers[0] > ALIKE).all()):
        return "it returns the same vector for different texts"
    return ""


def _peak_bytes() -> int:
    """Return the most memory that this process has taken so far."""
    if sys.platform == "win32":
        return 0
    # Windows has no such module.
    import resource

    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024
