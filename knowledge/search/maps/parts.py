"""One part of a map: as many entries as its tokens allow, and the cursor of the rest."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from json.encoder import encode_basestring
from typing import Final

from knowledge.pages.map_view import MapEntry, short_summary
from knowledge.pages.paths import parent
from knowledge.search.answers import MapView
from knowledge.search.maps.walk import MapPlace, MapWalk, cursor_length, cursor_of, longest_cursor

MAP_TOKENS: Final = 2000
"""The most tokens of one map, counted as a model sees it: characters of its JSON / 4."""
NOTE_CHARACTERS = 450
"""Room that is reserved for the note and the names of the fields."""
MOST_OPENED = 60
"""Subdirectories that one map opens; the cursor continues with the rest."""
MOST_NAMED = 3
"""Directories that are too large to be opened, named in the note."""
LONGEST_NAMED = 60
LONGEST_SEARCHED = 100
"""The note suggests a search in the directory only if its path is no longer than this."""


# `json.dumps` would make an encoder for each entry.
_JSON = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"))
_FIELDS = tuple(one.name for one in fields(MapEntry))
_NAMES = len(_JSON.encode(dict.fromkeys(_FIELDS, ""))) - len(_FIELDS) * len('""')
"""The characters of an entry's JSON besides the values."""
_MARKS = 6 * len('""') + len(",")
"""The quotes around an entry's six texts, and the comma before the next entry."""
_VIEW_FIELDS = tuple(one.name for one in fields(MapView))


@dataclass
class _Part:
    """The entries taken so far, their short summaries, the length with these (`cost`), and the place after them (`end`)."""

    room: int
    shown: list[MapEntry] = field(default_factory=list)
    shorts: list[str] = field(default_factory=list)
    folded: list[str] = field(default_factory=list)
    cost: int = 0
    end: MapPlace | None = None
    complete: bool = True


async def fitted(walk: MapWalk, view: MapView, depth: int, place: MapPlace | None) -> MapView:
    """Return `view` with its children from `place` on, within `MAP_TOKENS`.

    The directory's own children come first, as many as fit. A subdirectory is opened with all of its children or not at all, so
    one with more children than fit into a map stays folded at any depth. `next_cursor` continues with the rest. Summaries are
    shortened if they don't all fit; names are never cut.
    """
    part = _Part(MAP_TOKENS * 4 - NOTE_CHARACTERS - map_length(view), end=place)
    looked_into = 0
    async for directory in walk.directories(view.path, depth, place):
        if directory == view.path:
            await _take_own(part, walk.children(directory, place), view.path)
        elif looked_into == MOST_OPENED:
            part.complete = False
        else:
            looked_into += 1
            await _take_opened(part, walk.children(directory), directory, view.path)
        if not part.complete:
            break
    cursor = cursor_of(part.end, view.path, depth) if part.end and not part.complete else None
    more = joined_length(entry.summary for entry in part.shown) - joined_length(part.shorts)
    as_they_are = part.cost + more + len(cursor or "") <= part.room
    if not as_they_are:
        part.shown = [entry.with_summary(short) for entry, short in zip(part.shown, part.shorts, strict=True)]
    return replace(
        view,
        children=_parents_first(part.shown),
        truncated=bool(cursor or part.folded),
        note=_note(view.path, part) if cursor or part.folded else None,
        next_cursor=cursor,
    )


async def _take_own(part: _Part, batches: AsyncIterator[Sequence[MapEntry]], root: str) -> None:
    """Take children while there is room, at least one."""
    async for batch in batches:
        shorts = [short_summary(entry.summary) for entry in batch]
        taken = part.cost + entries_length(batch, shorts)
        longest = max((longest_cursor(entry.path) for entry in batch), default=0)
        # Most directories fit. Measuring them at once takes a third of the time that measuring each entry does.
        if taken + longest <= part.room:
            part.shown += batch
            part.shorts += shorts
            part.cost = taken
        else:
            _take_some(part, batch, shorts, root)
        if not part.complete:
            break
    if part.shown:
        part.end = _after(part.shown[-1])


def _take_some(part: _Part, batch: Sequence[MapEntry], shorts: Sequence[str], root: str) -> None:
    """Take the entries of a batch while there is room, at least one if there is none yet."""
    for entry, short in zip(batch, shorts, strict=True):
        taken = part.cost + entry_length(entry, short)
        # A cursor behind this entry must fit as well. Its length is looked at only where the longest one would not fit.
        if (
            part.shown
            and taken + longest_cursor(entry.path) > part.room
            and taken + cursor_length(_after(entry), root) > part.room
        ):
            part.complete = False
            return
        part.shown.append(entry)
        part.shorts.append(short)
        part.cost = taken


def _after(entry: MapEntry) -> MapPlace:
    return MapPlace(entry.kind, entry.path)


async def _take_opened(part: _Part, batches: AsyncIterator[Sequence[MapEntry]], directory: str, root: str) -> None:
    """Take all children of a subdirectory; none if they have no room here, or in any map."""
    end = MapPlace("opened", directory)
    room, cost = part.room - cursor_length(end, root), 0
    taken: list[MapEntry] = []
    shorts: list[str] = []
    async for batch in batches:
        taken += batch
        shorts += (more := [short_summary(entry.summary) for entry in batch])
        cost += entries_length(batch, more)
        # It would not fit into an empty map either, so it stays folded, and the next part continues after it.
        if cost > room:
            part.folded.append(directory)
            part.end = end
            return
    if part.cost + cost > room:
        part.complete = False
        return
    part.shown += taken
    part.shorts += shorts
    part.cost, part.end = part.cost + cost, end


def _note(directory: str, part: _Part) -> str:
    """Return the note that says what the map leaves out, and how to see it."""
    notes = []
    if not part.complete:
        where = f", path={directory!r}" if directory else ""
        search = f"; to find one page, kb_search(query{where}) is cheaper" if len(directory) <= LONGEST_SEARCHED else ""
        notes.append(f"there are more pages: repeat with cursor=next_cursor{search}")
    if part.folded:
        names = [repr(path) for path in part.folded if len(path) <= LONGEST_NAMED][:MOST_NAMED]
        more = len(part.folded) - len(names)
        parts = [*names, *([f"{more} more" if names else f"{more} directories"] if more else [])]
        notes.append(f"too large to show here; call kb_map for each of them: {', '.join(parts)}")
    return "; ".join(notes)


def _parents_first(entries: Sequence[MapEntry]) -> list[MapEntry]:
    """Return the entries reordered so that children follow their directory."""
    shown = {entry.path for entry in entries if entry.kind == "directory"}
    if not shown:
        return list(entries)
    below: dict[str, list[MapEntry]] = {}
    for entry in entries:
        below.setdefault(parent(entry.path) if parent(entry.path) in shown else "", []).append(entry)
    return list(_nested(below.get("", ()), below))


def _nested(entries: Sequence[MapEntry], below: Mapping[str, Sequence[MapEntry]]) -> Iterator[MapEntry]:
    for entry in entries:
        yield entry
        if entry.path in below:
            yield from _nested(below[entry.path], below)


def entry_length(entry: MapEntry, summary: str) -> int:
    """Return the characters that an entry with that summary takes in a map's JSON, with the comma before the next one."""
    return entries_length((entry,), (summary,))


def entries_length(entries: Sequence[MapEntry], summaries: Sequence[str]) -> int:
    """Return the characters that entries with those summaries take in a map's JSON, each with the comma before the next one."""
    texts = joined_length(
        f"{entry.name}{entry.path}{entry.title}{entry.kind}{summary}{entry.modified or ''}"
        for entry, summary in zip(entries, summaries, strict=True)
    )
    counts = sum(len(str(entry.count)) for entry in entries)
    undated = sum(entry.modified is None for entry in entries)
    return texts + counts + len(entries) * (_NAMES + _MARKS) + undated * (len("null") - len('""'))


def joined_length(texts: Iterable[str]) -> int:
    """Return the characters of the texts' JSON, without quotes."""
    # Characters are escaped one by one, so all texts are counted at once. Encoding each of them would take much longer.
    return text_length("".join(texts)) - len('""')


def text_length(text: str) -> int:
    """Return the characters of a text's JSON."""
    return len(encode_basestring(text))


def map_length(view: MapView) -> int:
    """Return the characters of the map's JSON."""
    parts = {name: getattr(view, name) for name in _VIEW_FIELDS}
    children = entries_length(view.children, [entry.summary for entry in view.children])
    # No comma follows the last child.
    return len(_JSON.encode({**parts, "children": []})) + children - len("," if view.children else "")
