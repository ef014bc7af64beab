"""The map of the knowledge base as a tree: the way to one place is open, and what is small enough is there from the beginning."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from knowledge.pages.map_view import MapEntry
from knowledge.pages.paths import INDEX_NAME, ancestors
from knowledge.search.answers import MapView
from knowledge.search.map_lines import join
from mcp_server.ports import HasPages

MOST_PAGES = 150
MOST_FOLDERS = 40
"""Pages and folders, besides those on the way, that are put into the tree before somebody opens their folder."""


@dataclass(slots=True)
class TreeFolder:
    """A folder of the tree. `listed` is the part of its list that is in the tree, None before somebody opens the folder.

    `open`: it is unfolded at first. `here`: it is the place that was asked for. `own_page` is its `_index.md`, "" if it has none.
    """

    path: str
    title: str
    summary: str
    count: int
    listed: MapView | None = None
    folders: list[TreeFolder] = field(default_factory=list)
    pages: Sequence[MapEntry] = ()
    own_page: str = ""
    open: bool = False
    here: bool = False
    continued: bool = False


class MapTree:
    """Reads the parts of a tree."""

    def __init__(self, services: HasPages) -> None:
        self._services = services
        self._pages_left, self._folders_left = MOST_PAGES, MOST_FOLDERS

    async def whole(self, folder: str, *, page: str = "", cursor: str | None = None) -> TreeFolder:
        """Return the tree from the top, with the way to `folder` open. `page` is a page in it that its list must have.

        With `cursor` the list of `folder` continues there.

        Raises:
            InvalidPath, NoSuchPath, BadCursor: as `Tiers.folder`.
        """
        way = [*reversed(ancestors(folder)), folder]
        read = [
            await self._read(path, child=child, cursor=cursor if path == folder else None)
            for path, child in zip(way, [*way[1:], page], strict=True)
        ]
        for above, below in pairwise(read):
            above.folders = [below if one.path == below.path else one for one in above.folders]
            if below not in above.folders:  # it has just been made
                above.folders.append(below)
        for one in read:
            one.open = True
        read[-1].here = not page
        await self._complete(read[0])
        return read[0]

    async def part(self, folder: str, *, cursor: str | None = None) -> TreeFolder:
        """Return one folder with the next part of its list.

        Raises:
            InvalidPath, NoSuchPath, BadCursor: as `Tiers.folder`.
        """
        found = await self._read(folder, cursor=cursor)
        await self._complete(found)
        return found

    async def _read(self, path: str, *, child: str = "", cursor: str | None = None) -> TreeFolder:
        """Return a folder with the next part of its list, or with the part that begins with `child` if the first one lacks it."""
        view = await self._services.tiers.folder(path, cursor=cursor)
        if lacks_child := bool(child and view.next_cursor and child not in [one.path for one in view.children]):
            view = await self._services.tiers.folder(path, first=child)
        return TreeFolder(
            view.path,
            view.title,
            view.summary,
            view.count,
            view,
            [
                TreeFolder(one.path, one.title, one.summary, one.count)
                for one in view.children
                if one.kind == "directory"
            ],
            [one for one in view.children if one.kind == "document"],
            continued=cursor is not None or lacks_child,
        )

    async def _complete(self, top: TreeFolder) -> None:
        await self._fill(top)
        listed = {join(one.path, INDEX_NAME): one for one in below(top) if one.listed is not None}
        for path in await self._services.index.existing(set(listed)):
            listed[path].own_page = path

    async def _fill(self, folder: TreeFolder) -> None:
        """Read those folders below `folder` for whose pages the tree still has room, in the order of the tree."""
        for number, one in enumerate(folder.folders):
            if one.listed is None and one.count <= self._pages_left and self._folders_left:
                self._pages_left, self._folders_left = self._pages_left - one.count, self._folders_left - 1
                folder.folders[number] = await self._read(one.path)
            await self._fill(folder.folders[number])


def below(folder: TreeFolder) -> Sequence[TreeFolder]:
    """Return the folder and all that are in the tree below it."""
    return [folder, *(found for one in folder.folders for found in below(one))]
