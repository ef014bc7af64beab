"""The default embedder: word vectors that ship inside the `wordllama` wheel. It needs no network and runs no model."""

from __future__ import annotations

import base64
import importlib.util
import json
import math
import mmap
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache
from itertools import chain
from pathlib import Path

import anyio.to_thread
import numpy as np
from numpy.typing import NDArray
from tokenizers import Tokenizer

from knowledge.errors import EmbedderUnavailable
from knowledge.index.embed.center import CENTER_FLOAT16
from knowledge.search.query.analysis import remembered_words

DIMENSIONS = 256
MOST_WORDS = 49_152
"""Distinct words whose vectors are cached (1 KiB each)."""
KEPT_WORDS = MOST_WORDS * 3 // 4
"""The first words, mostly frequent ones, stay cached; when the cache is full, only the later ones are dropped."""
AT_ONCE_CHARACTERS = 1_000
"""A text of at most this length is embedded in less time than a thread takes to wake."""
GROUP_WORDS = 2_048
"""Words whose vectors are added up together: few enough to stay in the processor's cache."""
FEW_WORDS = 24
"""New words whose tokens' vectors are added up one after the other, which is faster for a question's words."""
ROWS_HELD = 64
"""Rows of the weights that may stay in memory: at most 4 MB of the file."""
LONGEST_HEADER = 100_000
"""Bytes of the header of the weights' file that are read; it has about a hundred."""
_NO_WORD = ""
_SPACE = "\u2581"
"""A space, as the tokenizer writes it."""
_WEIGHTS = "weights/l2_supercat_256.safetensors"
_TOKENIZER = "tokenizers/l2_supercat_tokenizer_config.json"


class StaticEmbedder:
    """A text's vector is the weighted sum of its words' vectors, normalised; a word's is the sum of its tokens', centered.

    Words weigh more the rarer they are in general. Nothing is loaded before the first text.
    """

    def __init__(self) -> None:
        self._lock, self._next = threading.Lock(), threading.Lock()
        self._lexicon: _Lexicon | None = None

    @property
    def name(self) -> str:
        """The name of model and recipe; any change of the vectors needs a new name."""
        return "static-l2_supercat-256/2"

    @property
    def dimensions(self) -> int:
        """The length of a vector."""
        return DIMENSIONS

    @property
    def multilingual(self) -> bool:
        """False: it knows the words of English, and few of other languages."""
        return False

    def is_usual_word(self, word: str) -> bool:
        """Return whether `word` (lower case) is one token of the model: a frequent word of English, sometimes of another language.

        False if the weights are not installed.
        """
        try:
            with self._turn():
                lexicon = self._lexicon = self._lexicon or _Lexicon()
        except EmbedderUnavailable:
            return False
        return lexicon.is_token(word)

    async def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Return one row per text, each of length 1; all zeros for a text without a known word (never NaN).

        Raises:
            EmbedderUnavailable: the weights are not installed.
        """
        if self._lexicon is not None and sum(map(len, texts)) <= AT_ONCE_CHARACTERS and not self._lock.locked():
            return self.embed_now(texts)
        return await anyio.to_thread.run_sync(self.embed_now, texts)

    def embed_now(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Return the same as `embed`, on the calling thread."""
        rows = np.zeros((len(texts), DIMENSIONS), np.float32)
        for numbers, stretches in _groups([remembered_words(text) for text in texts]):
            # Locked for each group alone, so that a question need not wait until a whole batch is done.
            with self._turn():
                lexicon = self._lexicon = self._lexicon or _Lexicon()
                sums = lexicon.sums(stretches)
            # `rows[numbers] += sums` would count a long text with several stretches once.
            np.add.at(rows, numbers, sums)
        lengths = np.linalg.norm(rows, axis=1, keepdims=True)
        np.divide(rows, lengths, out=rows, where=lengths > 0)
        return rows

    @contextmanager
    def _turn(self) -> Iterator[None]:
        # With a single lock, the thread that just released it would take it again, group after group, and others would starve.
        with self._next:
            self._lock.acquire()
        try:
            yield
        finally:
            self._lock.release()


@cache
def shared_embedder() -> StaticEmbedder:
    """Return the embedder of this process. Loading one takes 60 ms, and each keeps its words in memory (`MOST_WORDS`)."""
    return StaticEmbedder()


def _groups(texts: Sequence[Sequence[str]]) -> Iterator[tuple[list[int], list[Sequence[str]]]]:
    """Yield stretches of words with the numbers of their texts, about `GROUP_WORDS` words at a time.

    How a text is cut into stretches does not depend on the others: the same sums in the same order are the same vector,
    to the last bit. Texts of similar length share a group, because shorter ones are padded.
    """
    most = min(GROUP_WORDS, MOST_WORDS - KEPT_WORDS - 1)
    numbers: list[int] = []
    stretches: list[Sequence[str]] = []
    longest = 0
    for number in sorted(range(len(texts)), key=lambda n: len(texts[n])):
        words = texts[number]
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
    """Weighted vectors of the words seen so far; each word is tokenised once."""

    def __init__(self) -> None:
        # Found, not imported: importing wordllama is slow and configures logging for the whole process.
        package = importlib.util.find_spec("wordllama")
        if package is None or not package.submodule_search_locations:
            raise EmbedderUnavailable("wordllama", "it is not installed")
        folder = Path(package.submodule_search_locations[0])
        try:
            self._tokens = MappedTable(folder / _WEIGHTS)
            self._tokenizer = Tokenizer.from_file(str(folder / _TOKENIZER))
        except (OSError, ValueError) as error:
            raise EmbedderUnavailable(str(folder), str(error)) from error
        self._tokenizer.no_padding()
        self._tokenizer.no_truncation()
        self._model = self._tokenizer.model
        self._center = np.frombuffer(base64.b85decode(CENTER_FLOAT16), "<f2").astype(np.float32)
        self._places = _Places({_NO_WORD: 0})
        self._vectors = np.zeros((1024, DIMENSIONS), np.float32)
        self._taken = np.empty((GROUP_WORDS, DIMENSIONS), np.float32)

    def is_token(self, word: str) -> bool:
        """Return whether the tokenizer has `word` as one whole word."""
        return self._tokenizer.token_to_id(f"{_SPACE}{word}") is not None

    def sums(self, stretches: Sequence[Sequence[str]]) -> NDArray[np.float32]:
        """Return the sum of the word vectors of each stretch; none may be empty."""
        longest = max(map(len, stretches))
        padded: list[str] = []
        for words in stretches:
            padded += words
            padded += [_NO_WORD] * (longest - len(words))
        # Rows are added one after the other, so that a text's sum depends on its own words alone. `reduceat` would need
        # no padding and is ten times slower.
        places = self._known(padded)  # first, because it may replace the matrix
        taken = self._taken[: len(padded)]
        # All places are valid; `clip` only skips a check that would cost a copy.
        np.take(self._vectors, places, axis=0, out=taken, mode="clip")
        summed: NDArray[np.float32] = np.add.reduce(taken.reshape(len(stretches), longest, DIMENSIONS), axis=1)
        return summed

    def _known(self, words: Sequence[str]) -> NDArray[np.intp]:
        """Return the row of each word's vector; vectors of new words are added."""
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
        """Compute the vectors of `words`, whose places are the last ones."""
        needed = len(self._places)
        first = needed - len(words)
        if needed > len(self._vectors):
            bigger = np.zeros((min(MOST_WORDS, max(needed, 2 * len(self._vectors))), DIMENSIONS), np.float32)
            bigger[:first] = self._vectors[:first]
            self._vectors = bigger
        tokens = self._tokenised(words)
        vectors = np.zeros((len(words), DIMENSIONS), np.float32)
        lengths = np.fromiter(map(len, tokens), np.intp, len(tokens))
        if len(words) <= FEW_WORDS:
            for vector, of_word in zip(vectors, tokens, strict=True):
                self._tokens.add(of_word, vector)
        else:
            ids = np.fromiter(chain.from_iterable(tokens), np.intp)
            firsts = np.cumsum(lengths) - lengths
            # The first token of all words, then the second of those that have one, and so on: the same sums, to the last bit.
            for position in range(max(lengths, default=0)):
                having = np.flatnonzero(lengths > position)
                vectors[having] += self._tokens.rows(ids[firsts[having] + position])
        self._tokens.rest()
        vectors[lengths > 0] -= self._center
        weights = [general_weight(max(of_word)) if of_word else 0.0 for of_word in tokens]
        vectors *= np.array(weights, np.float32)[:, np.newaxis]
        self._vectors[first:needed] = vectors

    def _tokenised(self, words: Sequence[str]) -> list[list[int]]:
        """Return the numbers of the tokens of each word."""
        # With the space before it the tokenizer takes it for a whole word, not for the end of one. Its own steps before the model only
        # put these marks for spaces, and take longer than the model; a batch of words would wake threads for that.
        return [[token.id for token in self._model.tokenize(f"{_SPACE}{_SPACE}{word}")] for word in words]


class MappedTable:
    """The one table of a safetensors file, mapped: processes share it in the system's cache, and it takes no memory of their own.

    Source: the README of safetensors, "Format": the length of a header, the header in JSON, the numbers.

    Raises:
        OSError: the file can't be read.
        ValueError: it is damaged, or does not have one table of half-precision numbers.
    """

    def __init__(self, file: Path) -> None:
        self._read = 0
        with file.open("rb") as weights:
            self._mapped = mmap.mmap(weights.fileno(), 0, access=mmap.ACCESS_READ)
        size = int.from_bytes(self._mapped[:8], "little")
        header = json.loads(self._mapped[8 : 8 + min(size, LONGEST_HEADER)])
        tables = [table for name, table in header.items() if name != "__metadata__"]
        if len(tables) != 1 or tables[0]["dtype"] != "F16":
            raise ValueError(f"{file.name} has other tables than one of half-precision numbers")
        begin, _ = tables[0]["data_offsets"]
        rows, columns = tables[0]["shape"]
        self._numbers = np.frombuffer(self._mapped, "<f2", rows * columns, 8 + size + begin).reshape(rows, columns)

    def rows(self, numbers: NDArray[np.intp]) -> NDArray[np.float16]:
        """Return these rows."""
        self._read += len(numbers)
        return self._numbers[numbers]

    def add(self, numbers: Sequence[int], to: NDArray[np.float32]) -> None:
        """Add these rows to `to`, one after the other."""
        self._read += len(numbers)
        for number in numbers:
            to += self._numbers[number]

    def rest(self) -> None:
        """Let go of what was read, if that is much; the system has it in its cache.

        Each row read brings 64 kB into memory, soon the whole file. Letting go takes as long as reading the rows of a question, so
        `ROWS_HELD` are kept.
        """
        if self._read >= ROWS_HELD and hasattr(mmap, "MADV_DONTNEED"):
            self._mapped.madvise(mmap.MADV_DONTNEED)
            self._read = 0


class _Places(dict[str, int]):
    """The row of each word's vector. A word that is looked up for the first time gets the next row and counts as new."""

    def __init__(self, known: Mapping[str, int] | Iterable[tuple[str, int]]) -> None:
        super().__init__(known)
        self.new: list[str] = []

    def __missing__(self, word: str) -> int:
        place = self[word] = len(self)
        self.new.append(word)
        return place


def general_weight(rank: int) -> float:
    """Return the weight of a word whose rarest token has that rank in the vocabulary (frequent tokens come first)."""
    return math.log1p(rank)
