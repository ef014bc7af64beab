"""The words of a site as scripts that a browser loads: titles in one file, and words in shards by their first letter. Pure.

A word's weight in a page is that of BM25, from 1 to 999, so that the script in the browser only adds up.
Source: S. Robertson, H. Zaragoza, "The Probabilistic Relevance Framework: BM25 and Beyond", 2009.
"""

from __future__ import annotations

import json
import math
import re
import unicodedata
from array import array
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence

SHARDS = 32
K1, B = 1.2, 0.75
TITLE_COUNTS, HEADING_COUNTS = 12, 4
"""One word in the title, or in a heading, counts as much as this many in the text."""
LONGEST_WORD = 40
MOST_WEIGHT = 999
_WORD = re.compile(r"\w+")
_WIDE = re.compile("[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]")


class SearchWords:
    """Collects the words of a site's pages, in little memory, and weighs them once all are known."""

    def __init__(self) -> None:
        self._pages: list[tuple[str, str, str]] = []
        self._lengths = array("L")
        self._having: dict[str, array[int]] = {}

    def add(self, title: str, place: str, summary: str, counts: Mapping[str, int]) -> None:
        """Add a page, whose file in the site is `place`, and how often each word counts in it."""
        number = len(self._pages)
        self._pages.append((title, place, summary))
        self._lengths.append(sum(counts.values()))
        for word, count in counts.items():
            found = self._having.get(word)
            if found is None:
                found = self._having[word] = array("L")
            # Two numbers in a flat array take 16 bytes; a tuple of them in a list would take over a hundred.
            found.extend((number, count))

    def scripts(self) -> Iterator[tuple[str, str]]:
        """Yield the file and the text of each script."""
        yield "search/pages.js", _script("pages", self._pages)
        average = max(1.0, sum(self._lengths) / max(1, len(self._lengths)))
        shards: defaultdict[int, list[str]] = defaultdict(list)
        for word in sorted(self._having):
            shards[shard_of(word)].append(word)
        for shard in range(SHARDS):
            yield (
                f"search/{shard}.js",
                _script(f"words{shard}", [[w, self._weights(w, average)] for w in shards[shard]]),
            )

    def _weights(self, word: str, average: float) -> list[int]:
        """Return the numbers of the pages that have the word, each followed by its weight there."""
        found, total = self._having[word], len(self._pages)
        having = len(found) // 2
        rarity = math.log(1 + (total - having + 0.5) / (having + 0.5))
        weights: list[int] = []
        for number, count in zip(found[::2], found[1::2], strict=True):
            share = count * (K1 + 1) / (count + K1 * (1 - B + B * self._lengths[number] / average))
            weights += (number, min(MOST_WEIGHT, max(1, round(20 * rarity * share))))
        return weights


def words_in(text: str) -> list[str]:
    """Return the words as the script in the browser cuts them: folded, without accents; scripts without blanks by character."""
    folded = "".join(char for char in unicodedata.normalize("NFKD", text.casefold()) if not unicodedata.combining(char))
    found = []
    for word in _WORD.findall(folded):
        wide = _WIDE.findall(word)
        found += wide or [word[:LONGEST_WORD]]
    return found


def counts_of(title: str, headings: Sequence[str], text: str) -> Counter[str]:
    """Return how often each word counts in a page."""
    counts = Counter(words_in(text))
    for words, weight in ((words_in(title), TITLE_COUNTS), (words_in(" ".join(headings)), HEADING_COUNTS)):
        for word in words:
            counts[word] += weight
    return counts


def shard_of(word: str) -> int:
    """Return the shard of a word. Words with the same beginning are in the same one, so that a beginning can be looked up."""
    return ord(word[0]) % SHARDS


def _script(name: str, value: object) -> str:
    # Pairs and no object, because `__proto__` is no ordinary key in a script. ASCII without `<`, so that no browser takes any of it
    # for the end of a line or of a script.
    told = json.dumps(value, separators=(",", ":")).replace("<", "\\u003c")
    return f'(globalThis.forge??={{}})["{name}"]={told};\n'
