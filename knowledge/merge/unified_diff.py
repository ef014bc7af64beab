"""A unified diff that shows people the changes of a write. Pure.

Source: GNU diffutils, "Unified Format".
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import accumulate

from knowledge.merge.three_way.line_join import LineHunk, hunks

LONGEST_LINE = 400
"""Characters of one line that are shown."""


def unified_diff(
    before: str,
    after: str,
    path: str,
    *,
    context: int = 2,
    most_characters: int = 6000,
    longest_line: int = LONGEST_LINE,
) -> str:
    """Return the diff of two texts, "" if they are equal.

    A diff of more than about `most_characters` is cut, and ends with a note on what was cut. At most `longest_line`
    characters of a line are shown. A line that differs only in its line end counts as changed, and its line end is
    named.
    """
    old, new = _lines(before), _lines(after)
    groups = _groups(hunks(old, new), context)
    if not groups:
        return ""
    shown = [f"--- {path}", f"+++ {path}"]
    size = sum(map(len, shown))
    for index, group in enumerate(groups):
        part = list(_hunk(group, old, new, context, longest_line))
        size += sum(len(line) + 1 for line in part)
        if size > most_characters:
            if not index:
                shown += _as_much_as_fits(part, most_characters)
            return "\n".join([*shown, _note_on_rest(groups[index:], cut_through=not index)])
        shown += part
    return "\n".join(shown)


def _lines(text: str) -> list[str]:
    lines = text.split("\n")
    # A last line without a line end differs from the same line with one.
    ended = [line + "\n" for line in lines[:-1]]
    return [*ended, lines[-1]] if lines[-1] else ended


def _groups(changed: Sequence[LineHunk], context: int) -> list[list[LineHunk]]:
    """Return the changes in groups: those whose context lines touch or overlap share one hunk."""
    groups: list[list[LineHunk]] = []
    for hunk in changed:
        if groups and hunk.start - groups[-1][-1].end <= 2 * context:
            groups[-1].append(hunk)
        else:
            groups.append([hunk])
    return groups


def _hunk(
    group: Sequence[LineHunk], old: Sequence[str], new: Sequence[str], context: int, longest: int
) -> Iterator[str]:
    low, first = max(0, group[0].start - context), group[0].first - min(context, group[0].start)
    high, last = min(len(old), group[-1].end + context), min(len(new), group[-1].last + context)
    yield f"@@ -{_range(low, high)} +{_range(first, last)} @@"
    # Line ends are named only if they differ among the changed lines, not in a file that uses CR LF throughout.
    touched = [line for hunk in group for line in (*old[hunk.start : hunk.end], *new[hunk.first : hunk.last])]
    ends = len({line.endswith("\r\n") for line in touched}) > 1
    at = low
    for hunk in group:
        yield from _marked(" ", old[at : hunk.start], ends=False, longest=longest)
        yield from _marked("-", old[hunk.start : hunk.end], ends=ends, longest=longest)
        yield from _marked("+", new[hunk.first : hunk.last], ends=ends, longest=longest)
        at = hunk.end
    yield from _marked(" ", old[at:high], ends=False, longest=longest)


def _range(first: int, last: int) -> str:
    count = last - first
    # In this format a range of one line has no count, and an empty one names the line before it.
    return f"{first + 1}" if count == 1 else f"{first + 1 if count else first},{count}"


def _marked(mark: str, lines: Sequence[str], *, ends: bool, longest: int) -> Iterator[str]:
    for line in lines:
        bare = line.removesuffix("\n")
        shown = bare.removesuffix("\r")
        cut = f"... ({len(shown)} characters)" if len(shown) > longest else ""
        yield mark + shown[:longest] + cut + (" (CR LF)" if ends and bare != shown else "")
        if bare == line:
            yield "\\ No newline at end of file"


def _as_much_as_fits(part: Sequence[str], most_characters: int) -> Sequence[str]:
    sizes = accumulate(len(line) + 1 for line in part)
    return part[: max(1, sum(size <= most_characters for size in sizes))]


def _note_on_rest(rest: Sequence[Sequence[LineHunk]], *, cut_through: bool) -> str:
    added = sum(hunk.last - hunk.first for group in rest for hunk in group)
    removed = sum(hunk.end - hunk.start for group in rest for hunk in group)
    begun = "; the first one is cut off above" if cut_through else ""
    places = "changed place is" if len(rest) == 1 else "changed places are"
    return f"... {len(rest)} {places} not shown in full (+{added} -{removed} lines){begun}"
