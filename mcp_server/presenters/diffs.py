"""Read a unified diff for people: its hunks, which line became which, and the words that differ. Pure.

The proposer of a change chooses its texts. They may write lines that look like headers of the diff, so that the page
would hide or misplace the lines after them, or texts that take minutes to compare. So lines are counted, and comparing
has a limit.

Source: GNU diffutils, "Unified Format".
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from difflib import Match, SequenceMatcher
from itertools import accumulate, groupby, zip_longest

Span = tuple[int, int]
"""A part of a line: its first character, and the one after its last."""

MOST_COMPARED = 250_000
"""The most pairs of words, or of lines, that are compared with each other. With more, only common beginnings and ends are found."""
ALIKE_ENOUGH = 0.35
"""Lines that share less are not shown as changed into each other: nearly all of their words would be marked."""

MARKS = (" ", "-", "+", "\\")
EFFORT = 3_000_000
"""Comparisons of words for all diffs of one page, about half a second. After that, no words of lines are marked."""
CHARACTERS_A_STEP = 8
"""Comparing the sets of words of two lines counts as one step for this many characters of them."""
LONG_FOR_WORDS = 100_000
"""For two lines that are longer together, only common beginnings and ends are found: their words would fill the memory."""
NAMING_LINES = 2
"""A diff begins with the names of the file before and after, one line each."""

HEADER = re.compile(r"@@ -(\d+)(?:,(\d+))? \+(\d+)(?:,(\d+))? @@")
_ENDS = {mark: re.compile(rf"\n(?!{re.escape(mark)})") for mark in (" ", "-", "+")}
"""Finds where consecutive lines with the same mark end."""
_TOKEN = re.compile(r"\w+|\s+|[^\w\s]")


@dataclass(frozen=True, slots=True)
class DiffLine:
    """One line of a page in a diff. `note` is what the diff says after it, such as that there is no line end."""

    number: int
    text: str
    note: str = ""


@dataclass(frozen=True, slots=True)
class DiffChange:
    """Consecutive lines of a hunk: the same on both sides, or `old` replaced by `new`. One of them may be empty."""

    same: bool
    old: tuple[DiffLine, ...]
    new: tuple[DiffLine, ...]


@dataclass(frozen=True, slots=True)
class DiffHunk:
    """A stretch of the page with its changes. `note` reports lines that the diff itself left out."""

    changes: tuple[DiffChange, ...]
    note: str = ""


@dataclass(frozen=True, slots=True)
class LinePair:
    """Which line became which, None for none, and the parts of each that the other does not have."""

    old: DiffLine | None
    new: DiffLine | None
    removed: Sequence[Span] = ()
    added: Sequence[Span] = ()


@dataclass(slots=True)
class Effort:
    """How many more steps the comparison may take. Somebody can write texts for which difflib needs minutes."""

    left: int = EFFORT

    def spend(self, steps: int) -> bool:
        """Use up this many steps and return True, or return False if fewer are left."""
        if steps > self.left:
            return False
        self.left -= steps
        return True


class _Exhausted(Exception):
    """Comparing two lines would take more steps than are left."""


class _Matcher(SequenceMatcher[str]):
    """Finds the common parts of two lines, within a limit on effort."""

    def __init__(self, old: Sequence[str], new: Sequence[str], effort: Effort) -> None:
        super().__init__(None, old, new, autojunk=False)
        self._effort = effort
        counts = Counter(new)
        self._cost = [0, *accumulate(1 + counts[token] for token in old)]

    def find_longest_match(self, alo: int = 0, ahi: int | None = None, blo: int = 0, bhi: int | None = None) -> Match:
        """Works like difflib, with a cost that is known in advance: each token of `old` times how often `new` has it."""
        if not self._effort.spend(self._cost[-1 if ahi is None else ahi] - self._cost[alo]):
            raise _Exhausted
        return super().find_longest_match(alo, ahi, blo, bhi)


def parsed(diff: str) -> list[DiffHunk]:
    """Return the hunks of a unified diff of one file.

    A removed line `-- x` reads `--- x` in the diff, like a header. So the numbers in each header say which lines are content.
    """
    lines = diff.split("\n")
    found: list[DiffHunk] = []
    at = 0
    while at < len(lines):
        header = HEADER.match(lines[at])
        at += 1
        if header is None:
            if at > NAMING_LINES and lines[at - 1]:
                found.append(DiffHunk((), lines[at - 1]))
            continue
        start, old_count, first, new_count = (int(part) if part is not None else 1 for part in header.groups())
        entries = list(_entries(lines[at:], _Counts(start, old_count, first, new_count)))
        at += len(entries)
        found.append(DiffHunk(tuple(_changes(entries))))
    return found


@dataclass(frozen=True, slots=True)
class Beginning:
    """As much of a diff as its first rows need.

    `added` and `removed` count the lines of the whole diff, `left_out` those that are missing here.
    """

    diff: str
    added: int
    removed: int
    left_out: int


def beginning(diff: str, rows: int) -> Beginning:
    """Return the part of a long diff that its first `rows` rows need, without parsing the rest.

    Lines are kept in order. Once one side of a change alone fills the rows, only as many lines of its other side follow.
    """
    at, names = 0, 0
    if diff.startswith("--- "):
        at, names = _after_lines(diff, 0, NAMING_LINES), 1
    kept, lines, full = [diff[:at]], 0, False
    while at < len(diff) and lines <= 2 * rows:
        mark = diff[at]
        if full and mark != "+":
            break
        found = _ENDS[mark].search(diff, at) if mark in _ENDS else None
        end = found.end() if found else len(diff) if mark in _ENDS else _after_lines(diff, at, 1)
        kept_to = min(end, _after_lines(diff, at, rows))
        kept.append(diff[at:kept_to])
        lines += max(1, diff.count("\n", at, kept_to))
        if full:
            break
        full, at = kept_to < end, end
    text = "".join(kept)
    left_out = max(diff.count("\n") - text.count("\n"), int(len(text) < len(diff)))
    return Beginning(text, diff.count("\n+") - names, diff.count("\n-"), left_out)


def _after_lines(text: str, at: int, count: int) -> int:
    """Return the start of the line that many lines after the one at `at`, or the end of the text."""
    for _ in range(count):
        at = text.find("\n", at) + 1
        if not at:
            return len(text)
    return at


@dataclass(slots=True)
class _Counts:
    """Where a hunk is: the numbers of the next lines, and how many are left on each side."""

    old: int
    old_left: int
    new: int
    new_left: int


@dataclass(frozen=True, slots=True)
class _HunkLine:
    """One line of a hunk. `mark` says on which side it is (`-`, `+`, a blank for both), or that it is a note (a backslash)."""

    mark: str
    text: str
    old: int
    new: int


def _entries(lines: Iterable[str], counts: _Counts) -> Iterator[_HunkLine]:
    for line in lines:
        mark, text = line[:1], line[1:]
        over = counts.old_left <= 0 and counts.new_left <= 0
        if mark not in MARKS or (over and mark != "\\"):
            return
        yield _HunkLine(mark, text, counts.old, counts.new)
        is_old, is_new = mark not in ("+", "\\"), mark not in ("-", "\\")
        counts.old, counts.old_left = counts.old + is_old, counts.old_left - is_old
        counts.new, counts.new_left = counts.new + is_new, counts.new_left - is_new


def _changes(entries: Sequence[_HunkLine]) -> Iterator[DiffChange]:
    noted: list[tuple[_HunkLine, str]] = []
    for entry in entries:
        if entry.mark == "\\" and noted:
            noted[-1] = (noted[-1][0], entry.text.strip())
        else:
            noted.append((entry, ""))
    for same, group in groupby(noted, key=lambda one: one[0].mark == " "):
        part = list(group)
        old = tuple(DiffLine(entry.old, entry.text, note) for entry, note in part if entry.mark in " -")
        new = tuple(DiffLine(entry.new, entry.text, note) for entry, note in part if entry.mark in " +")
        yield DiffChange(same, old, new)


def paired(change: DiffChange, effort: Effort) -> Iterator[LinePair]:
    """Yield the lines of a change, similar ones beside each other. Comparing takes at most `effort`."""
    if change.same:
        yield from map(LinePair, change.old, change.new)
        return
    for old, new in _paired(change.old, change.new, effort):
        removed, added = differing(old.text, new.text, effort) if old and new else ([], [])
        yield LinePair(old, new, removed, added)


def differing(before: str, after: str, effort: Effort | None = None) -> tuple[list[Span], list[Span]]:
    """Return the spans of words in each line that the other one does not have; none if the two share little."""
    if len(before) + len(after) > LONG_FOR_WORDS:
        return _between_ends(before, after)
    old, new = _TOKEN.findall(before), _TOKEN.findall(after)
    head = _common(old, new)
    tail = _common(old[head:][::-1], new[head:][::-1])
    blocks = [
        (0, 0, head),
        *_common_blocks(old, new, (head, tail), effort or Effort()),
        (len(old) - tail, len(new) - tail, tail),
    ]
    kept = sum(sum(map(len, old[start : start + size])) for start, _, size in blocks)
    if 2 * kept < ALIKE_ENOUGH * (len(before) + len(after)):
        return [], []
    return _gaps(old, [(a, size) for a, _, size in blocks]), _gaps(new, [(b, size) for _, b, size in blocks])


def _between_ends(before: str, after: str) -> tuple[list[Span], list[Span]]:
    """Return the one stretch of each line between their common beginning and end, found by bisection."""
    shorter = min(len(before), len(after))
    head = bisect_left(range(1, shorter + 1), 1, key=lambda size: int(before[:size] != after[:size]))
    rest = shorter - head
    tail = bisect_left(range(1, rest + 1), 1, key=lambda size: int(before[-size:] != after[-size:]))
    if 2 * (head + tail) < ALIKE_ENOUGH * (len(before) + len(after)):
        return [], []
    removed, added = ([(head, len(text) - tail)] if len(text) > head + tail else [] for text in (before, after))
    return removed, added


def _common_blocks(
    old: Sequence[str], new: Sequence[str], ends: tuple[int, int], effort: Effort
) -> list[tuple[int, int, int]]:
    """Return the common tokens (position in each, number) between the common beginning and end, which have these lengths."""
    head, tail = ends
    middle_old, middle_new = old[head : len(old) - tail], new[head : len(new) - tail]
    if not middle_old or not middle_new or len(middle_old) * len(middle_new) > MOST_COMPARED:
        return []
    try:
        found = _Matcher(middle_old, middle_new, effort).get_matching_blocks()
    except _Exhausted:
        return []
    # A common blank or comma alone would only split the marks of words that differ.
    worth = [b for b in found if any(token[:1].isalnum() for token in middle_old[b.a : b.a + b.size])]
    return [(head + b.a, head + b.b, b.size) for b in worth]


def _common(one: Sequence[str], other: Sequence[str]) -> int:
    pairs = enumerate(zip(one, other, strict=False))
    return next((at for at, (a, b) in pairs if a != b), min(len(one), len(other)))


def _gaps(tokens: Sequence[str], kept: Sequence[tuple[int, int]]) -> list[Span]:
    """Return the tokens outside of the kept stretches, as spans of characters."""
    starts = [0, *accumulate(map(len, tokens))]
    found, at = [], 0
    for start, size in [*kept, (len(tokens), 0)]:
        if start > at:
            found.append((starts[at], starts[start]))
        at = max(at, start + size)
    return found


def _paired(
    old: Sequence[DiffLine], new: Sequence[DiffLine], effort: Effort
) -> list[tuple[DiffLine | None, DiffLine | None]]:
    """Return which line became which, in order, so that lines beside each other share as many words as possible."""
    compared = len(old) * len(new)
    simple = len(old) == len(new) or not compared or compared > MOST_COMPARED // 100
    if simple or not _spend_on_lines(old, new, effort):
        return list(zip_longest(old, new))
    best = _scores(old, new)
    pairs: list[tuple[DiffLine | None, DiffLine | None]] = []
    i = j = 0
    while i < len(old) and j < len(new):
        if best[i][j] == best[i + 1][j]:
            pairs.append((old[i], None))
            i += 1
        elif best[i][j] == best[i][j + 1]:
            pairs.append((None, new[j]))
            j += 1
        else:
            pairs.append((old[i], new[j]))
            i, j = i + 1, j + 1
    return [*pairs, *((line, None) for line in old[i:]), *((None, line) for line in new[j:])]


def _spend_on_lines(old: Sequence[DiffLine], new: Sequence[DiffLine], effort: Effort) -> bool:
    """Return whether there was effort left to compare the words of each old line with those of each new one."""
    sizes = [sum(len(line.text) for line in side) for side in (old, new)]
    return effort.spend((sizes[0] * len(new) + sizes[1] * len(old)) // CHARACTERS_A_STEP)


def _scores(old: Sequence[DiffLine], new: Sequence[DiffLine]) -> list[list[float]]:
    """Return, for each pair of an old and a new line, how much the best pairing of these and all later lines shares."""
    words_old, words_new = ([frozenset(_TOKEN.findall(line.text)) for line in side] for side in (old, new))
    best = [[0.0] * (len(new) + 1) for _ in range(len(old) + 1)]
    for i in range(len(old) - 1, -1, -1):
        for j in range(len(new) - 1, -1, -1):
            both, either = len(words_old[i] & words_new[j]), len(words_old[i] | words_new[j])
            shared = both / either if either else 0.0
            paired = best[i + 1][j + 1] + (shared if shared >= ALIKE_ENOUGH else 0.0)
            best[i][j] = max(best[i + 1][j], best[i][j + 1], paired)
    return best
