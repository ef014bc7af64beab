"""The order of a map, and a place in it: how a map of any size is shown part by part. Reads nothing itself.

The order is level by level; in each directory subdirectories come before pages, both by path. A place is the path of an entry
and not a number, so it stays valid while files come and go: nothing is shown twice, and no remaining file is left out.
"""

from __future__ import annotations

import base64
import hashlib
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Final, Literal

from knowledge.errors import BadCursor
from knowledge.pages.map_view import MapEntry
from knowledge.pages.paths import parent, within

KEY_DIGITS = 12
BATCH: Final = 60
"""Children read at once; about as many as one map shows."""

PlaceKind = Literal["directory", "document", "opened"]
_LETTERS: Final[dict[PlaceKind, str]] = {"directory": "d", "document": "p", "opened": "o"}
_KINDS: Final = {letter: kind for kind, letter in _LETTERS.items()}


@dataclass(frozen=True, slots=True)
class MapPlace:
    """A place in a map: after the subdirectory or page `path` of the mapped directory, or after all children of `path`."""

    kind: PlaceKind
    path: str


@dataclass(frozen=True, slots=True)
class After:
    """Where listing a directory continues: after the subdirectory `folder`, and after the page `page`.

    "" means from the first one, None that no more are listed.
    """

    folder: str | None = ""
    page: str | None = ""


Listing = Callable[[str, After], Awaitable[Sequence[MapEntry]]]
"""Returns the next `BATCH` children of a directory, subdirectories first; fewer only at the end."""


def after_place(place: MapPlace | None, directory: str) -> After:
    """Return where the list of the directory's children continues; from its beginning if the place is not in that list."""
    if place is None or place.kind == "opened" or parent(place.path) != directory:
        return After()
    return After(place.path) if place.kind == "directory" else After(None, place.path)


def before(path: str) -> str:
    """Return a text that sorts right before `path`.

    Every path that is lower than `path` sorts before it, unless it contains the last character of Unicode.
    """
    last = ord(path[-1]) - 1
    return path[:-1] + chr(last if not 0xD800 <= last <= 0xDFFF else 0xD7FF) + chr(sys.maxunicode)


class MapWalk:
    """Walks the directories at and below `root`, down to `depth` levels of children.

    `listing` reads children with their lines, `folders` only the paths of subdirectories; `exists` tells whether a directory exists.
    """

    def __init__(
        self,
        listing: Listing,
        folders: Callable[[str, str], Awaitable[Sequence[str]]],
        exists: Callable[[str], Awaitable[bool]],
    ) -> None:
        self._listing, self._folders, self._exists = listing, folders, exists

    async def directories(self, root: str, depth: int, place: MapPlace | None) -> AsyncIterator[str]:
        """Yield the directories whose children are shown, from `place` on, in the order of the map."""
        opened = place.path if place and place.kind == "opened" else ""
        first = _level(root, opened) if opened else 0
        for level in range(first, depth):
            async for directory in self._at_level(root, level, opened if level == first else ""):
                if not opened or directory != opened:
                    yield directory

    async def children(self, directory: str, place: MapPlace | None = None) -> AsyncIterator[Sequence[MapEntry]]:
        """Yield the children of a directory in batches, from `place` on if that is in its list."""
        after = after_place(place, directory)
        while True:
            batch = await self._listing(directory, after)
            yield batch
            if len(batch) < BATCH:
                return
            after = after_place(MapPlace(batch[-1].kind, batch[-1].path), directory)

    async def _at_level(self, root: str, level: int, since: str) -> AsyncIterator[str]:
        """Yield the directories `level` levels below `root`, beginning with `since`, or with the next one if that is gone."""
        if not level:
            yield root
            return
        async for above in self._at_level(root, level - 1, parent(since) if since else ""):
            last = since if since and parent(since) == above else ""
            if last and await self._exists(last):
                yield last
            while found := await self._folders(above, last):
                for path in found:
                    yield path
                last = found[-1]


def _level(root: str, directory: str) -> int:
    """Return how many levels `directory` is below `root`."""
    below = directory[len(root) :].strip("/")
    return below.count("/") + 1 if below else 0


def cursor_of(place: MapPlace, root: str, depth: int) -> str:
    """Return the cursor of a place in the map of `root`."""
    return _cursor(_place_text(place, root), root, depth)


def _cursor(text: bytes, root: str, depth: int) -> str:
    return _key(root, depth) + base64.urlsafe_b64encode(text).decode().rstrip("=")


def cursor_length(place: MapPlace, root: str) -> int:
    """Return the length of `cursor_of`: every entry of a map asks for it, and few cursors are made."""
    # Three bytes make four characters; the rest makes one more than it has bytes.
    return KEY_DIGITS + (4 * len(_place_text(place, root)) + 2) // 3


def longest_cursor(path: str) -> int:
    """Return a length that no cursor of a place at `path` exceeds: a character takes at most four bytes."""
    return KEY_DIGITS + (4 * (1 + 4 * len(path)) + 2) // 3


def _place_text(place: MapPlace, root: str) -> bytes:
    return (_LETTERS[place.kind] + place.path[len(root) :].removeprefix("/")).encode("utf-8", "surrogatepass")


def place_in(cursor: str, root: str, depth: int) -> MapPlace:
    """Return the place that `cursor` names in the map of `root`.

    Raises:
        BadCursor: it belongs to another map, or is not a cursor.
    """
    text = _text_in(cursor, root, depth)
    kind, below = _KINDS.get(text[:1]), text[1:]
    if kind is None or not below:
        raise BadCursor(cursor)
    path = f"{root}/{below}" if root else below
    levels = _level(root, path)
    if not within(path, root) or not (levels < depth if kind == "opened" else levels == 1):
        raise BadCursor(cursor)
    return MapPlace(kind, path)


def cursor_of_tag(path: str, tag: str) -> str:
    """Return the cursor behind the page at `path` in the map of a tag."""
    return _cursor(path.encode("utf-8", "surrogatepass"), f"#{tag}", 1)


def path_in(cursor: str, tag: str) -> str:
    """Return the path of the page that `cursor` is behind in the map of a tag.

    Raises:
        BadCursor: it belongs to another map, or is not a cursor.
    """
    return _text_in(cursor, f"#{tag}", 1)


def _text_in(cursor: str, root: str, depth: int) -> str:
    """Return the text in a cursor of the map of `root`; raise `BadCursor` if it is no such cursor."""
    key, code = cursor[:KEY_DIGITS], cursor[KEY_DIGITS:]
    try:
        text = base64.b64decode(code + "=" * (-len(code) % 4), b"-_", validate=True).decode("utf-8", "surrogatepass")
    except ValueError:
        raise BadCursor(cursor) from None
    if key != _key(root, depth) or not text:
        raise BadCursor(cursor)
    return text


@lru_cache(maxsize=64)
def _key(root: str, depth: int) -> str:
    """Return the beginning of all cursors of a map; its length counts for each entry."""
    # A cursor must not be used for another map.
    return hashlib.sha256(repr((root, depth)).encode("utf-8", "surrogatepass")).hexdigest()[:KEY_DIGITS]
