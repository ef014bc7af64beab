"""Which known words a mistyped one may have meant. Pure.

Source: optimal string alignment, the restricted Damerau-Levenshtein distance (Boytsov, "Indexing methods for
approximate dictionary searching", 2011, section 2.2), one table for all candidates of a length at once.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

SHORTEST = 4
TWO_EDITS_FROM = 9


class _Group(NamedTuple):
    """All known words of one length: the words, their counts, their characters by row, and the letters they have."""

    words: list[str]
    counts: NDArray[np.int64]
    codes: NDArray[np.uint32]
    letters: NDArray[np.uint64]


class _Close(NamedTuple):
    """A known word, how many chunks have it, and how many edits lie between."""

    word: str
    chunks: int
    edits: int


class Vocabulary:
    """Known words with how often they occur, laid out for `near`. Immutable; build it anew when the words change."""

    def __init__(self, pairs: Sequence[tuple[str, int]]) -> None:
        import numpy as np

        by_length: dict[int, list[tuple[str, int]]] = {}
        for pair in pairs:
            # numpy strips trailing NULs, and no word has one.
            if "\x00" not in pair[0] and len(pair[0]) >= SHORTEST - 1:
                by_length.setdefault(len(pair[0]), []).append(pair)
        self._groups: dict[int, _Group] = {}
        for length, listed in by_length.items():
            texts = [word for word, _ in listed]
            codes = np.array(texts, dtype=f"<U{length}").view(np.uint32).reshape(len(texts), length)
            counts = np.array([count for _, count in listed], dtype=np.int64)
            self._groups[length] = _Group(texts, counts, codes, _letters(codes))

    def of_length(self, length: int) -> _Group | None:
        """Return the known words with so many characters, None if there are none."""
        return self._groups.get(length)


def near(word: str, vocabulary: Vocabulary, limit: int = 3) -> list[str]:
    """Return the known words that `word` may be a mistyping of: fewest edits first, then most frequent, then by word.

    One edit (a character put in, left out, replaced, or two neighbours swapped) for 4 to 8 letters, two from 9 on; none
    for shorter words and for words with a digit, where one edit makes another thing. `word` itself is not among them.
    """
    if len(word) < SHORTEST or not word.isalpha():
        return []
    edits = 2 if len(word) >= TWO_EDITS_FROM else 1
    lengths = range(len(word) - edits, len(word) + edits + 1)
    found = _within(word, [group for length in lengths if (group := vocabulary.of_length(length))], edits)
    # Two errors in one word are so much rarer than one that no frequency makes up for it.
    found.sort(key=lambda close: (close.edits, -close.chunks, close.word))
    return [close.word for close in found if close.edits][:limit]


def _within(word: str, groups: Sequence[_Group], edits: int) -> list[_Close]:
    import numpy as np

    asked = np.frombuffer(word.encode("utf-32-le"), dtype=np.uint32)
    mine = _letters(asked.reshape(1, -1))[0]
    # One edit changes at most two bits of the letters a word has: a test that leaves few for the table.
    close = [np.flatnonzero(np.bitwise_count(group.letters ^ mine) <= 2 * edits) for group in groups]
    # Words of all lengths go through one table, filled up with what is no letter: its cost is the number of its cells.
    width = max((group.codes.shape[1] for group in groups), default=0)
    parts = [group.codes[rows] for group, rows in zip(groups, close, strict=True)]
    filled = [np.pad(part, ((0, 0), (0, width - part.shape[1]))) for part in parts]
    if not sum(map(len, filled)):
        return []
    last = _last_row(asked, np.concatenate(filled), edits)
    found: list[_Close] = []
    start = 0
    for group, rows in zip(groups, close, strict=True):
        distances = last[group.codes.shape[1]][start : start + len(rows)]
        start += len(rows)
        found += [
            _Close(group.words[rows[at]], int(group.counts[rows[at]]), int(distances[at]))
            for at in np.flatnonzero(distances <= edits)
        ]
    return found


def _last_row(asked: NDArray[np.uint32], codes: NDArray[np.uint32], edits: int) -> list[NDArray[np.uint8]]:
    """Return for each length the distance of `asked` to so much of every row, exact up to `edits`; beyond, only that it is more."""
    import numpy as np

    columns = np.ascontiguousarray(codes.T)
    length, size = columns.shape
    far = np.full(size, edits + 1, dtype=np.uint8)
    equal = [columns == character for character in asked]
    before: list[NDArray[np.uint8]] = []
    above = [np.full(size, min(j, edits + 1), dtype=np.uint8) for j in range(length + 1)]
    for i in range(1, len(asked) + 1):
        row = [far] * (length + 1)
        if i <= edits:
            row[0] = np.full(size, i, dtype=np.uint8)
        # Cells further from the diagonal than `edits` cannot be on a path that is short enough.
        for j in range(max(1, i - edits), min(length, i + edits) + 1):
            cell = above[j - 1] + (~equal[i - 1][j - 1]).view(np.uint8)
            np.minimum(cell, above[j] + np.uint8(1), out=cell)
            np.minimum(cell, row[j - 1] + np.uint8(1), out=cell)
            if i > 1 and j > 1:
                swapped = equal[i - 1][j - 2] & equal[i - 2][j - 1]
                np.minimum(cell, before[j - 2] + np.uint8(1), out=cell, where=swapped)
            row[j] = np.minimum(cell, far)
        before, above = above, row
    return above


def _letters(codes: NDArray[np.uint32]) -> NDArray[np.uint64]:
    """Return one bit for each letter (by its code modulo 64) that a row has."""
    import numpy as np

    bits = np.left_shift(np.uint64(1), (codes & np.uint32(63)).astype(np.uint64))
    found: NDArray[np.uint64] = np.bitwise_or.reduce(bits, axis=1)
    return found
