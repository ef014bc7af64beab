"""The default embedder: word vectors whose weights ship inside the `wordllama` wheel. No network, no model to run."""

from __future__ import annotations

import base64
import importlib.util
import math
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import chain
from pathlib import Path

import anyio.to_thread
import numpy as np
from numpy.typing import NDArray
from safetensors.numpy import load_file
from tokenizers import Tokenizer

from knowledge.errors import EmbedderUnavailable
from knowledge.index.embed.center import CENTER_FLOAT16

DIMENSIONS = 256
MOST_WORDS = 49_152
"""Distinct words whose vectors are kept (1 KiB each)."""
KEPT_WORDS = MOST_WORDS * 3 // 4
"""The words met first, mostly the frequent ones, stay for ever; only the rest of the room is used again when full."""
AT_ONCE_CHARACTERS = 1_000
"""A question is embedded in less time than a thread takes to wake."""
GROUP_WORDS = 2_048
"""Words whose vectors are added up in one go: few enough to stay near the processor."""
_NO_WORD = ""
_WEIGHTS = "weights/l2_supercat_256.safetensors"
_TOKENIZER = "tokenizers/l2_supercat_tokenizer_config.json"


class StaticEmbedder:
    """A text's vector is the weighted sum of its words' vectors, made 1 long; a word's is the sum of its tokens', centered.

    Nothing is loaded before the first text. `words` cuts a text; `weights` says how much a word counts, by default
    the more the rarer it is in general. Other weights need another name.
    """

    def __init__(
        self,
        words: Callable[[str], Sequence[str]] | None = None,
        weights: Callable[[str], float] | None = None,
    ) -> None:
        self._words, self._weights = words, weights
        self._lock, self._next = threading.Lock(), threading.Lock()
        self._lexicon: _Lexicon | None = None

    @property
    def name(self) -> str:
        """Identify model and recipe."""
        return "static-l2_supercat-256/2"

    @property
    def dimensions(self) -> int:
        """Return the length of a vector."""
        return DIMENSIONS

    async def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Return one row a text, each of length 1; all zeros for a text without a known word (never NaN).

        Raises:
            EmbedderUnavailable: the weights are not installed.
        """
        if self._lexicon is not None and sum(map(len, texts)) <= AT_ONCE_CHARACTERS and not self._lock.locked():
            return self.embed_now(texts)
        return await anyio.to_thread.run_sync(self.embed_now, texts)

    def embed_now(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Return what `embed` does, on this thread."""
        rows = np.zeros((len(texts), DIMENSIONS), np.float32)
        cut = self._words or _default_words()
        said = [cut(text) for text in texts]
        for numbers, stretches in _groups(said):
            # Taken anew for each group, so that a question need not wait until a whole batch is done.
            with self._my_turn():
                lexicon = self._lexicon = self._lexicon or _Lexicon(self._weights)
                sums = lexicon.sums(stretches)
            # One after the other, because a long text may be here twice.
            np.add.at(rows, numbers, sums)
        lengths = np.linalg.norm(rows, axis=1, keepdims=True)
        np.divide(rows, lengths, out=rows, where=lengths > 0)
        return rows

    @contextmanager
    def _my_turn(self) -> Iterator[None]:
        # A lock alone would be taken again by whoever just gave it back, group after group.
        with self._next:
            self._lock.acquire()
        try:
            yield
        finally:
            self._lock.release()


def _groups(said: Sequence[Sequence[str]]) -> Iterator[tuple[list[int], list[Sequence[str]]]]:
    """Yield stretches of texts with the numbers of the texts, as many at a time as make `GROUP_WORDS` words.

    How a text is cut into stretches does not depend on the others: the same sums in the same order are the same vector.
    Texts of about the same length come together, because the shorter ones are filled up.
    """
    most = min(GROUP_WORDS, MOST_WORDS - KEPT_WORDS - 1)
    numbers: list[int] = []
    stretches: list[Sequence[str]] = []
    longest = 0
    for number in sorted(range(len(said)), key=lambda n: len(said[n])):
        words = said[number]
        for start in range(0, len(words), most):
            stretch = words if len(words) <= most else words[start : start + most]
            longest = max(longest, len(stretch))
            if longest * (len(stretches) + 1) > most and stretches:
                yield numbers, stretches
                numbers, stretches, longest = [], [], len(stretch)
            numbers.append(number)
            stretches.append(stretch)
    if stretches:
        yield numbers, stretches


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
        self._center = np.frombuffer(base64.b85decode(CENTER_FLOAT16), "<f2").astype(np.float32)
        self._places = _Places({_NO_WORD: 0})
        self._vectors = np.zeros((1024, DIMENSIONS), np.float32)
        self._taken = np.empty((GROUP_WORDS, DIMENSIONS), np.float32)

    def sums(self, stretches: Sequence[Sequence[str]]) -> NDArray[np.float32]:
        """Return for each stretch, none of them empty, the sum of the vectors of its words in their order."""
        longest = max(map(len, stretches))
        filled: list[str] = []
        for words in stretches:
            filled += words
            filled += [_NO_WORD] * (longest - len(words))
        # Rows are added up one after the other, so that a text's sum depends on its own words alone. `reduceat` would
        # not need to fill up and is ten times slower.
        places = self._known(filled)  # first, because it may put another matrix in the place of this one
        taken = self._taken[: len(filled)]
        # Every place is there; `clip` only says that nothing need be checked, which would cost a copy.
        np.take(self._vectors, places, axis=0, out=taken, mode="clip")
        summed: NDArray[np.float32] = np.add.reduce(taken.reshape(len(stretches), longest, DIMENSIONS), axis=1)
        return summed

    def _known(self, words: Sequence[str]) -> NDArray[np.intp]:
        """Return where in the matrix the vector of each word is; new ones are added."""
        if len(self._places) + len(words) > MOST_WORDS:
            self._places = _Places((word, place) for word, place in self._places.items() if place < KEPT_WORDS)
        found = self._places
        places = np.fromiter(map(found.__getitem__, words), np.intp, len(words))
        if found.new:
            try:
                self._learn(found.new)
            except BaseException:
                for word in found.new:
                    del found[word]
                raise
            finally:
                found.new = []
        return places

    def _learn(self, words: Sequence[str]) -> None:
        """Put the vectors of `words` at the last places, which they were given."""
        needed = len(self._places)
        first = needed - len(words)
        if needed > len(self._vectors):
            bigger = np.zeros((min(MOST_WORDS, max(needed, 2 * len(self._vectors))), DIMENSIONS), np.float32)
            bigger[:first] = self._vectors[:first]
            self._vectors = bigger
        # The blank makes the tokenizer see a whole word instead of the end of one.
        encoded = self._tokenizer.encode_batch_fast([f" {word}" for word in words], add_special_tokens=False)
        self._vectors[first:needed] = self._weighted(words, [each.ids for each in encoded])

    def _weighted(self, words: Sequence[str], tokens: Sequence[Sequence[int]]) -> NDArray[np.float32]:
        vectors = np.zeros((len(words), DIMENSIONS), np.float32)
        lengths = np.fromiter(map(len, tokens), np.intp, len(tokens))
        ids = np.fromiter(chain.from_iterable(tokens), np.intp)
        firsts = np.cumsum(lengths) - lengths
        # The first token of all words, then the second of those that have one, and so on.
        for position in range(max(lengths, default=0)):
            having = np.flatnonzero(lengths > position)
            vectors[having] += self._tokens[ids[firsts[having] + position]]
        vectors[lengths > 0] -= self._center
        weight = self._weights
        weights = [
            (weight(word) if weight else general_weight(max(of_word))) if of_word else 0.0
            for word, of_word in zip(words, tokens, strict=True)
        ]
        vectors *= np.array(weights, np.float32)[:, np.newaxis]
        return vectors


class _Places(dict[str, int]):
    """Where the vector of each word is. A word that is asked for the first time gets the next place and counts as new."""

    def __init__(self, known: Mapping[str, int] | Iterable[tuple[str, int]]) -> None:
        super().__init__(known)
        self.new: list[str] = []

    def __missing__(self, word: str) -> int:
        place = self[word] = len(self)
        self.new.append(word)
        return place


def general_weight(rank: int) -> float:
    """Return how much a word counts whose rarest token has that rank in the vocabulary (frequent tokens come first)."""
    return math.log1p(rank)


def _default_words() -> Callable[[str], Sequence[str]]:
    from knowledge.search.query.analysis import (
        remembered_words,  # finding imports embedding's port; the cycle stays open
    )

    return remembered_words


def _wheel() -> Path:
    # Found, not imported: importing wordllama is slow and configures logging for the whole process.
    found = importlib.util.find_spec("wordllama")
    if found is None or not found.submodule_search_locations:
        raise EmbedderUnavailable("wordllama", "it is not installed")
    return Path(found.submodule_search_locations[0])
