"""The default embedder: word vectors whose weights ship inside the `wordllama` wheel. No network, no model to run."""

from __future__ import annotations

import importlib.util
import math
import threading
from collections.abc import Callable, Sequence
from pathlib import Path

import anyio.to_thread
import numpy as np
from numpy.typing import NDArray
from safetensors.numpy import load_file
from tokenizers import Tokenizer

from knowledge.errors import EmbedderUnavailable

DIMENSIONS = 256
MOST_WORDS = 32_768
"""Distinct words whose vectors are kept (1 KiB each)."""
KEPT_WORDS = MOST_WORDS * 3 // 4
"""The words met first, mostly the frequent ones, stay for ever; only the rest of the room is used again when full."""
_WEIGHTS = "weights/l2_supercat_256.safetensors"
_TOKENIZER = "tokenizers/l2_supercat_tokenizer_config.json"


class StaticEmbedder:
    """A text's vector is the weighted sum of its words' vectors, made 1 long; a word's is the sum of its tokens'.

    Nothing is loaded before the first text. `words` cuts a text; `weights` says how much a word counts, by default
    the more the rarer it is in general. Other weights need another name.
    """

    def __init__(
        self,
        words: Callable[[str], Sequence[str]] | None = None,
        weights: Callable[[str], float] | None = None,
    ) -> None:
        self._words, self._weights = words, weights
        self._lock = threading.Lock()
        self._lexicon: _Lexicon | None = None

    @property
    def name(self) -> str:
        """Identify model and recipe."""
        return "static-l2_supercat-256/1"

    @property
    def dimensions(self) -> int:
        """Return the length of a vector."""
        return DIMENSIONS

    async def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Return one row a text, each of length 1; all zeros for a text without a known word (never NaN).

        Raises:
            EmbedderUnavailable: the weights are not installed.
        """
        return await anyio.to_thread.run_sync(self._embed, texts)

    def _embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        rows = np.zeros((len(texts), DIMENSIONS), np.float32)
        cut = self._words or _default_words()
        said = [cut(text) for text in texts]
        with self._lock:
            lexicon = self._lexicon = self._lexicon or _Lexicon(self._weights)
            for row, words in zip(rows, said, strict=True):
                if words:
                    lexicon.add_up(words, row)
        lengths = np.linalg.norm(rows, axis=1, keepdims=True)
        np.divide(rows, lengths, out=rows, where=lengths > 0)
        return rows


class _Lexicon:
    """Weighted vectors of the words met so far; each word is tokenised once."""

    def __init__(self, weights: Callable[[str], float] | None) -> None:
        folder = _wheel()
        try:
            (self._tokens,) = load_file(folder / _WEIGHTS).values()
            self._tokenizer = Tokenizer.from_file(str(folder / _TOKENIZER))
        except (OSError, ValueError) as error:
            raise EmbedderUnavailable(str(folder), str(error)) from error
        self._tokenizer.no_padding()
        self._tokenizer.no_truncation()
        self._weights = weights
        self._places: dict[str, int] = {}
        self._vectors = np.zeros((1024, DIMENSIONS), np.float32)

    def add_up(self, words: Sequence[str], into: NDArray[np.float32]) -> None:
        """Make `into` the sum of the vectors of `words`, each as often as it occurs."""
        room = MOST_WORDS - KEPT_WORDS
        for start in range(0, len(words), room):
            some = words[start : start + room]
            places = np.fromiter(self._known(some), np.intp, len(some))
            distinct, counts = np.unique(places, return_counts=True)
            into += counts.astype(np.float32) @ self._vectors[distinct]

    def _known(self, words: Sequence[str]) -> list[int]:
        """Return where in the matrix the vector of each word is; new ones are added."""
        places = self._places
        new = [word for word in dict.fromkeys(words) if word not in places]
        if len(places) + len(new) > MOST_WORDS:
            self._places = places = {word: place for word, place in places.items() if place < KEPT_WORDS}
            new = [word for word in dict.fromkeys(words) if word not in places]
        if new:
            self._learn(new)
        return [places[word] for word in words]

    def _learn(self, words: Sequence[str]) -> None:
        first = len(self._places)
        needed = first + len(words)
        if needed > len(self._vectors):
            bigger = np.zeros((min(MOST_WORDS, max(needed, 2 * len(self._vectors))), DIMENSIONS), np.float32)
            bigger[:first] = self._vectors[:first]
            self._vectors = bigger
        # The blank makes the tokenizer see a whole word instead of the end of one.
        encoded = self._tokenizer.encode_batch_fast([f" {word}" for word in words], add_special_tokens=False)
        for place, (word, tokens) in enumerate(zip(words, encoded, strict=True), start=first):
            self._vectors[place] = self._vector(word, tokens.ids)
            self._places[word] = place

    def _vector(self, word: str, ids: Sequence[int]) -> NDArray[np.float32]:
        if not ids:
            return np.zeros(DIMENSIONS, np.float32)
        weight = self._weights(word) if self._weights else general_weight(max(ids))
        summed: NDArray[np.float32] = self._tokens[list(ids)].astype(np.float32).sum(axis=0)
        return summed * np.float32(weight)


def general_weight(rank: int) -> float:
    """Return how much a word counts whose rarest token has that rank in the vocabulary (frequent tokens come first)."""
    return math.log1p(rank)


def _default_words() -> Callable[[str], Sequence[str]]:
    from knowledge.find.analysis import words  # finding imports embedding's port; the cycle stays open

    return words


def _wheel() -> Path:
    # Found, not imported: importing wordllama is slow and configures logging for the whole process.
    found = importlib.util.find_spec("wordllama")
    if found is None or not found.submodule_search_locations:
        raise EmbedderUnavailable("wordllama", "it is not installed")
    return Path(found.submodule_search_locations[0])
