"""The words of a site as scripts that a browser loads: titles in one file, and words in shards by their first letter. Pure.

A word's weight in a page is that of BM25, from 1 to 999, so that the script in the browser only adds up.
Source: S. Robertson, H. Zaragoza, "The Probabilistic Relevance Framework: BM25 and Beyond", 2009.
"""

from __future__ import annotations

import json
import math
import re
import unicodedata
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

SHARDS = 32
K1, B = 1.2, 0.75
TITLE_COUNTS, HEADING_COUNTS = 12, 4
"""A word in the title counts as often as this many in the text."""
LONGEST_WORD = 40
MOST_WEIGHT = 999
_WORD = re.compile(r"\w+")
_WIDE = re.compile("[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]")


@dataclass(frozen=True, slots=True)
class SearchablePage:
    """What the search knows of a page. `place` is its file in the site."""

    title: str
    place: str
    summary: str
    counts: Mapping[str, int]


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


def scripts_of(pages: Sequence[SearchablePage]) -> dict[str, str]:
    """Return the scripts by their files in the site."""
    lengths = [sum(page.counts.values()) for page in pages]
    average = max(1.0, sum(lengths) / max(1, len(lengths)))
    having = Counter(word for page in pages for word in page.counts)
    shards: defaultdict[int, dict[str, list[int]]] = defaultdict(dict)
    for number, page in enumerate(pages):
        for word, count in page.counts.items():
            rarity = math.log(1 + (len(pages) - having[word] + 0.5) / (having[word] + 0.5))
            share = count * (K1 + 1) / (count + K1 * (1 - B + B * lengths[number] / average))
            weight = min(MOST_WEIGHT, max(1, round(20 * rarity * share)))
            shards[shard_of(word)].setdefault(word, []).extend((number, weight))
    files = {"search/pages.js": _script("pages", [[page.title, page.place, page.summary] for page in pages])}
    for shard in range(SHARDS):
        files[f"search/{shard}.js"] = _script(f"words{shard}", sorted(shards[shard].items()))
    return files


def shard_of(word: str) -> int:
    """Return the shard of a word. Words with the same beginning are in the same one, so that a beginning can be looked up."""
    return ord(word[0]) % SHARDS


def _script(name: str, value: object) -> str:
    # Pairs and no object, because `__proto__` is no ordinary key in a script. ASCII without `<`, so that no browser takes any of it
    # for the end of a line or of a script.
    told = json.dumps(value, separators=(",", ":")).replace("<", "\\u003c")
    return f'(globalThis.forge??={{}})["{name}"]={told};\n'
