"""The promise of an embedder in its plainest form, and the double that tests embed with."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray


class MemoryEmbedder:
    """A bag of hashed words: texts are as close as the words they share. Knows no synonyms and loads nothing."""

    def __init__(self, dimensions: int = 64, words: Callable[[str], Sequence[str]] | None = None) -> None:
        self._dimensions = dimensions
        self._words = words or (lambda text: text.casefold().split())

    @property
    def name(self) -> str:
        """Identify model and recipe."""
        return f"hashed-words-{self._dimensions}/1"

    @property
    def dimensions(self) -> int:
        """Return the length of a vector."""
        return self._dimensions

    multilingual = False

    async def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Return one row for each text, of length 1; all zeros for a text without words."""
        rows = np.zeros((len(texts), self._dimensions), np.float32)
        for place, text in enumerate(texts):
            # Sorted, because adding in another order changes the last bits.
            for word in sorted(self._words(text)):
                rows[place] += self._direction(word)
        lengths = np.linalg.norm(rows, axis=1, keepdims=True)
        np.divide(rows, lengths, out=rows, where=lengths > 0)
        return rows

    def _direction(self, word: str) -> NDArray[np.float32]:
        digest = hashlib.shake_128(word.encode("utf-8", "surrogatepass")).digest(self._dimensions)
        return (np.frombuffer(digest, np.uint8).astype(np.float32) - 127.5) / 127.5
