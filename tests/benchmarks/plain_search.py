"""Search as one would build it without this program: BM25 of SQLite's FTS5, over whole pages or over passages.

Each kind makes other words of a text. In scripts without spaces, where FTS5 would take a whole sentence for one word, all
kinds but our own terms use pairs of neighbouring characters.
"""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from typing import Final

import Stemmer  # type: ignore[import-not-found]  # a compiled module without types

from knowledge.search.query.analysis import analyzer, is_stop_word

Words = Callable[[str], Sequence[str]]
"""Returns the words of a text that are indexed and searched for, in order."""

# Signs of vowels are part of a word, also where `\w` leaves them out: in Arabic, Hindi and their neighbours.
_WORD: Final = re.compile("[\\w\u0300-\u036f\u064b-\u065f\u0900-\u0dff\u0e00-\u0e7f]+")
_UNSPACED: Final = re.compile("([\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff]+)")


def plain_words(text: str) -> list[str]:
    """Return the words, in lower case."""
    found: list[str] = []
    for run in _WORD.findall(text.lower()):
        for part in filter(None, _UNSPACED.split(run)):
            pairs = ["".join(pair) for pair in pairwise(part)] if _UNSPACED.match(part) else []
            found += pairs or [part]
    return found


def snowball_words(language: str) -> Words:
    """Return the stems by Snowball of the words that are no stop words, in a language that it knows; otherwise the words."""
    try:
        stems = Stemmer.Stemmer(language).stemWords
    except KeyError:
        stems = list
    return lambda text: stems([word for word in plain_words(text) if not is_stop_word(word, (language,))])


def our_words(language: str) -> Words:
    """Return the terms of this program's own analysis."""
    return analyzer(language).terms


class Fts5:
    """A table of texts that can be searched by their words."""

    def __init__(self, texts: Mapping[str, str], words_of: Words) -> None:
        """Index the texts by their names."""
        self._words_of, self._names, self._tokens = words_of, list(texts), dict[str, str]()
        self._database = sqlite3.connect(":memory:")
        self._database.execute("CREATE VIRTUAL TABLE place USING fts5(text, tokenize='ascii')")
        rows = [(number, self._tokenized(text, learn=True)) for number, text in enumerate(texts.values())]
        self._database.executemany("INSERT INTO place(rowid, text) VALUES (?, ?)", rows)

    def search(self, query: str, limit: int) -> list[str]:
        """Return the names of the best texts that have one of the words, best first."""
        asked = " OR ".join(dict.fromkeys(self._tokenized(query, learn=False).split()))
        chosen = "SELECT rowid FROM place WHERE place MATCH ? ORDER BY bm25(place), rowid LIMIT ?"
        found = self._database.execute(chosen, (asked, limit)) if asked else []
        return [self._names[number] for (number,) in found]

    def _tokenized(self, text: str, *, learn: bool) -> str:
        """Return the words as tokens that FTS5 leaves alone: their numbers. Unknown ones are left out unless learnt."""
        words = self._words_of(text)
        if learn:
            return " ".join(self._tokens.setdefault(word, f"w{len(self._tokens)}") for word in words)
        return " ".join(self._tokens[word] for word in words if word in self._tokens)
