"""How the double finds words: exactly, with typos, by prefix. It ranks roughly as the real server does."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

MOST_WORDS = 10
"""The server ignores further words of a query."""


def words_of(text: str) -> list[str]:
    """Return the words as the server cuts languages written with spaces; it cuts others by dictionaries."""
    return re.findall(r"[^\W_]+", text.lower())


def matched(query: str, strategy: str, one: Mapping[str, Any], attributes: Sequence[str]) -> float | None:
    """Return how well a document fits a query, 0..1, or None if it does not. In quotation marks, words fit exactly."""
    asked = words_of(query)[:MOST_WORDS]
    if not asked:
        return 1.0
    fields = [words_of(str(one.get(name, ""))) for name in attributes]
    if query.startswith('"') and query.endswith('"'):
        has = [at for at, words in enumerate(fields) if _together(asked, words)]
        return 1.0 - 0.01 * has[0] if has else None
    fits = [_fit(word, fields, prefix=at == len(asked) - 1 and query[-1:].isalnum()) for at, word in enumerate(asked)]
    needed = fits if strategy == "all" else fits[:1]
    if any(fit is None for fit in needed):
        return None
    return sum(fit or 0.0 for fit in fits) / len(fits)


def _together(asked: Sequence[str], words: Sequence[str]) -> bool:
    """Return whether the words contain those asked for, one after the other."""
    return any(list(words[at : at + len(asked)]) == list(asked) for at in range(len(words)))


def _fit(word: str, fields: Sequence[Sequence[str]], *, prefix: bool) -> float | None:
    best = None
    for place, words in enumerate(fields):
        for found in words:
            fit = _close(word, found, prefix=prefix)
            if fit is not None:
                best = max(best or 0.0, fit - 0.01 * place)
    return best


@lru_cache(maxsize=65_536)
def _close(word: str, found: str, *, prefix: bool) -> float | None:
    if word == found:
        return 1.0
    if prefix and found.startswith(word):
        return 0.95
    room = 0 if word.isdigit() else (len(word) >= 5) + (len(word) >= 9)
    typos = _edits(word, found) + (word[0] != found[0])  # an error in the first letter counts twice
    return 1.0 - 0.2 * typos if typos <= room else None


def _edits(one: str, other: str) -> int:
    if abs(len(one) - len(other)) > 2:
        return 3
    rows = [list(range(len(other) + 1))]
    for i, a in enumerate(one, start=1):
        row = [i]
        for j, b in enumerate(other, start=1):
            row.append(min(rows[-1][j] + 1, row[-1] + 1, rows[-1][j - 1] + (a != b)))
            if i > 1 and j > 1 and a == other[j - 2] and one[i - 2] == b:
                row[j] = min(row[j], rows[-2][j - 2] + 1)
        rows.append(row)
    return rows[-1][-1]
