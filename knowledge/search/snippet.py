"""The few lines of a chunk that show why it was found. Pure."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from knowledge.pages.markdown.blocks import scan
from knowledge.search.query.analysis import folded_in_place, is_anywhere_in_a_run, is_part_of_a_run, tokens, words

ELLIPSIS = "..."
SHORTEST_STEM = 4
LOOKED_AT = 20_000
"""Characters of a chunk that are searched; only a chunk with one endless line has more."""
_MARGIN = 2 * (len(ELLIPSIS) + 1)
# It begins with the mark, and not by looking back at one, so that the engine skips to the next mark.
_SENTENCE_END = re.compile(r"[.!?\u3002\uff01\uff1f](?:(?<=[\u3002\uff01\uff1f])|[\"')\]*_]*[ \t]+(?=\S))")


class _Unit(NamedTuple):
    """A sentence, or a line of code, from `start` to `end` in the chunk; `hits` are the query words in it, by number."""

    start: int
    end: int
    hits: frozenset[int]


def snippet(text: str, query_words: Sequence[str], *, limit_chars: int = 320) -> str:
    """Return the part of `text`, at most `limit_chars` long, that has most of `query_words`, with `...` where it is cut.

    It consists of whole sentences, or whole lines of code. A sentence that is too long by itself is cut between words,
    around the query's words. A chunk that is short enough is returned unchanged. Without a hit: the beginning.
    """
    text = text.strip("\n")
    if len(text) <= limit_chars:
        return text
    asked = tuple(dict.fromkeys(query_words))
    units = _units(text[:LOOKED_AT], asked)
    if not units:
        return _with_ellipses(text, 0, _word_end(text, limit_chars - _MARGIN), limit_chars)
    first, last = _best_run(units, limit_chars)
    start, end = units[first].start, units[last].end
    if end - start > limit_chars - _MARGIN:
        start, end = _around_hits(text, start, end, asked, limit_chars)
    return _with_ellipses(text, start, end, limit_chars)


def marked(text: str, query_words: Sequence[str]) -> list[tuple[int, int]]:
    """Return the spans of `text` that are one of `query_words`, in any inflection with the same beginning, in order."""
    by_start: dict[str, list[tuple[int, str]]] = {}
    for index, word in enumerate(dict.fromkeys(query_words)):
        by_start.setdefault(word[:SHORTEST_STEM], []).append((index, word))
    spans: list[tuple[int, int]] = []
    for found in tokens(text):
        if not _hits(found.group(), by_start):
            continue
        # A script without spaces is searched in short runs, and a whole sentence of it is one token here.
        spans += _runs(found, query_words) if is_part_of_a_run(found.group()) else [found.span()]
    return spans


def _runs(found: re.Match[str], query_words: Sequence[str]) -> list[tuple[int, int]]:
    runs = sorted((re.escape(word) for word in query_words if word and is_part_of_a_run(word)), key=len, reverse=True)
    return [run.span() for run in re.compile("|".join(runs)).finditer(found.string, *found.span())] if runs else []


def _units(text: str, asked: Sequence[str]) -> list[_Unit]:
    lines = text.split("\n")
    code: set[int] = set()
    # Most texts show at a glance that they have no code; scanning blocks is the slow part.
    if any(mark in text for mark in ("```", "~~~", "\n    ", "\n\t")) or text.startswith(("    ", "\t")):
        for block in scan(lines).blocks:
            if block.kind in ("fence", "code"):
                code.update(range(block.start, block.end))
    words_in = _AskedWords(text, asked)
    units: list[_Unit] = []
    at = 0
    for number, line in enumerate(lines):
        starts = [0] if number in code else [0, *(found.end() for found in _SENTENCE_END.finditer(line))]
        for start, end in zip(starts, [*starts[1:], len(line)], strict=True):
            part = line[start:end].rstrip()
            if part:
                units.append(_Unit(at + start, at + start + len(part), words_in.part(at + start, at + end)))
        at += len(line) + 1
    return units


class _AskedWords:
    """Finds the question's words in parts of a text.

    Most parts have none of them: where their beginnings are in the whole text shows which parts need a closer look.
    """

    def __init__(self, text: str, asked: Sequence[str]) -> None:
        self._text, self._folded = text, folded_in_place(text)
        self._cut: list[tuple[int, str]] = []
        """Words that are in each part that has their letters: what is cut out of most scripts without spaces."""
        self._by_start: dict[str, list[tuple[int, str]]] = {}
        for index, word in enumerate(asked):
            is_cut = self._folded is not None and is_anywhere_in_a_run(word)
            (self._cut if is_cut else self._by_start.setdefault(word[:SHORTEST_STEM], [])).append((index, word))
        self._places = [] if self._folded is None else sorted(set(_places(self._folded, self._by_start)))

    def part(self, start: int, end: int) -> frozenset[int]:
        """Return the numbers of the question's words in `text[start:end]`, in any inflection with the same beginning."""
        if self._folded is None:
            return _hits(self._text[start:end], self._by_start)
        here = self._places[bisect_left(self._places, start) : bisect_left(self._places, end)]
        hits = _hits(_runs_at(self._text, here, start, end), self._by_start) if here else frozenset()
        if self._cut:
            part = self._folded[start:end]
            hits |= {index for index, word in self._cut if word in part}
        return hits


def _places(text: str, beginnings: Iterable[str]) -> Iterator[int]:
    """Yield where any of the beginnings is in `text`, also within words."""
    for beginning in beginnings:
        place = text.find(beginning)
        while place >= 0:
            yield place
            place = text.find(beginning, place + 1)


def _runs_at(text: str, places: Sequence[int], start: int, end: int) -> str:
    """Return what stands between spaces around the places in `text[start:end]`: `words` of it are the words there."""
    runs: list[str] = []
    at = start
    for place in places:
        if place >= at:
            begin = text.rfind(" ", at, place) + 1 or at
            at = text.find(" ", place, end)
            at = at if at >= 0 else end
            runs.append(text[begin:at])
    return " ".join(runs)


def _hits(text: str, by_start: dict[str, list[tuple[int, str]]]) -> frozenset[int]:
    """Return the numbers of the query words in `text`, in any inflection with the same beginning."""
    if text.isascii():
        folded = text.lower()
        if not any(start in folded for start in by_start):
            return frozenset()  # true of most sentences, and twenty times as fast as splitting one into words
    return frozenset(
        index
        for word in set(words(text))
        for index, other in by_start.get(word[:SHORTEST_STEM], ())
        if same_word(other, word)
    )


def same_word(asked: str, other: str) -> bool:
    """Return whether two words are the same apart from an inflection: they have the same beginning."""
    if asked == other:
        return True
    # Instead of a stemmer, which would need the language of the text: inflections differ in their last letters.
    shorter = min(len(asked), len(other))
    kept = max(SHORTEST_STEM, shorter - 2)
    return shorter >= SHORTEST_STEM and abs(len(asked) - len(other)) <= SHORTEST_STEM and asked[:kept] == other[:kept]


def _best_run(units: Sequence[_Unit], limit: int) -> tuple[int, int]:
    """Return the first and last of the adjacent units that fit and have the most query words; among equals the densest run."""
    room = limit - _MARGIN
    best, best_score = (0, 0), (-1, -1.0)
    for first, unit in enumerate(units):
        if best_score[0] > 0 and not unit.hits:
            continue
        hits: frozenset[int] = frozenset()
        total = 0
        for last in range(first, len(units)):
            if last > first and units[last].end - unit.start > room:
                break
            hits |= units[last].hits
            total += len(units[last].hits)
            score = (len(hits), total - (last - first) * 0.01)
            if score > best_score:
                best, best_score = (first, last), score
    first, last = best
    # Remaining room shows what follows, then what precedes.
    while last + 1 < len(units) and units[last + 1].end - units[first].start <= room:
        last += 1
    while first and units[last].end - units[first - 1].start <= room:
        first -= 1
    return first, last


def _around_hits(text: str, start: int, end: int, asked: Sequence[str], limit: int) -> tuple[int, int]:
    """Return the window of a long unit that begins shortly before the first query word, at word boundaries."""
    room = limit - _MARGIN
    stems = [re.escape(word[: max(SHORTEST_STEM, len(word) - 2)]) for word in asked if word]
    found = re.compile("|".join(stems), re.IGNORECASE).search(text, start, end) if stems else None
    place = found.start() if found else start
    begin = max(start, min(place - room // 4, end - room))
    if begin > start:
        space = text.find(" ", begin, place)
        begin = space + 1 if space >= 0 else begin
    return begin, min(end, _word_end(text, begin + room))


def _word_end(text: str, at: int) -> int:
    """Return the last word boundary not after `at`; `at` itself within a very long word."""
    if at >= len(text) or text[at].isspace():
        return min(at, len(text))
    space = max(text.rfind(" ", max(0, at - 80), at), text.rfind("\n", max(0, at - 80), at))
    return space if space > 0 else at


def _with_ellipses(text: str, start: int, end: int, limit: int) -> str:
    before = f"{ELLIPSIS} " if text[:start].strip() else ""
    after = f" {ELLIPSIS}" if text[end:].strip() else ""
    return (before + text[start:end].rstrip() + after)[:limit]
