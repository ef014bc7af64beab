"""The pages around one page in the graph of links, from the index: one or two links away, each direction separately."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from knowledge.pages.paths import is_markdown, joined, parent
from knowledge.search.maps.linked_pages import followed
from knowledge.state.document_names import keys_of_links_to
from knowledge.state.ports import IndexStore, LinkedDocument, LinkRow

MOST_LINKS, MOST_LINKING = 2_000, 2_000
"""Links of one page, and links to it, that are followed."""
MOST_ROWS = 6_000
"""Links that are followed to find the pages two links away."""
MOST_NAMES = 1_000
_FILE = re.compile(r"\.[A-Za-z0-9]{1,5}$")

Side = Literal["in", "out", "both"]
"""Whether a page links to the page in the middle, is linked from it, or both."""


@dataclass(frozen=True, slots=True)
class NearPage:
    """A page of a neighbourhood, `steps` links away. For a page two links away, `side` is the side of the page in between."""

    path: str
    title: str
    side: Side
    steps: int


@dataclass(frozen=True, slots=True)
class LinkCount:
    """How many pages there are; with `at_least` there may be more, because not all links were followed."""

    number: int
    at_least: bool = False


@dataclass(frozen=True, slots=True)
class Neighbourhood:
    """The page in the middle, the pages near it that were asked for, and all links among these.

    `links` and `backlinks` count all pages in that direction, also those that `near` leaves out. `missing` are the link targets
    of the page that do not exist.
    """

    path: str
    title: str
    near: tuple[NearPage, ...]
    edges: tuple[tuple[str, str], ...]
    links: LinkCount
    backlinks: LinkCount
    missing: tuple[str, ...]
    two_away: LinkCount = LinkCount(0)


async def neighbourhood(
    index: IndexStore, path: str, *, steps: int, most: int, by_name: bool = False
) -> Neighbourhood | None:
    """Return the neighbourhood of the page, at most `most` pages, or None if the index has no page there.

    Each direction gets half of the room, and also what the other one does not need. With `by_name`, ordinary links are
    found by name too, as in an Obsidian folder.
    """
    links = _Links(index, by_name=by_name)
    found = await index.linked_documents([path])
    if not found:
        return None
    (middle,) = found
    out, missing = await links.targets(middle)
    back, all_back = await links.linking([middle], MOST_LINKING)
    linking = sorted({row[0] for row in back})
    sides = _sides(out, linking, most)
    documents = await index.linked_documents(sides)
    near = {page.path: NearPage(page.path, page.title, sides[page.path], 1) for page in documents}
    two_away = LinkCount(0)
    if steps > 1:
        further, two_away = await links.further(path, documents, sides, most - len(near))
        near |= {page.path: page for page in further}
        documents = [*documents, *await index.linked_documents([page.path for page in further])]
    edges = await links.among([middle, *documents])
    edges |= {(path, page) for page in out if page in near} | {(page, path) for page in linking if page in near}
    ordered = [near[page] for page in dict.fromkeys([*sides, *near]) if page in near]
    return Neighbourhood(
        path,
        middle.title,
        tuple(ordered),
        tuple(sorted(edges)),
        LinkCount(len(out), len(middle.links) > MOST_LINKS),
        LinkCount(len(linking), not all_back),
        missing,
        two_away,
    )


class _Links:
    """Follows links of the index."""

    def __init__(self, index: IndexStore, *, by_name: bool) -> None:
        self._index, self._by_name = index, by_name

    async def _followed(self, rows: Sequence[LinkRow]) -> list[str | None]:
        return await followed(self._index, rows, most_names=MOST_NAMES, by_name=self._by_name)

    async def targets(self, page: LinkedDocument) -> tuple[list[str], tuple[str, ...]]:
        """Return the other pages that the page links to, in the order of its links, and the targets that no page has."""
        links = page.links[:MOST_LINKS]
        led = await self._followed([LinkRow(page.path, link) for link in links])
        lost = [link for link, target in zip(links, led, strict=True) if target is None and names_a_page(link.path)]
        missing = [link.path for link in lost[:MOST_NAMES] if not await self._leads_to_folder(page.path, link.path)]
        return list(dict.fromkeys(one for one in led if one not in (None, page.path))), tuple(dict.fromkeys(missing))

    async def _leads_to_folder(self, page: str, path: str) -> bool:
        found = [await self._index.directory(folder) for folder in folders_meant(page, path)]
        return any(folder is not None for folder in found)

    async def linking(self, pages: Sequence[LinkedDocument], limit: int) -> tuple[list[tuple[str, str]], bool]:
        """Return the links from other pages to these, as (page, target), and whether that is all of them."""
        keys = frozenset[str]().union(*(keys_of_links_to(page.path, (page.title, *page.aliases)) for page in pages))
        rows = await self._index.linking(keys, limit=limit) if keys else ()
        wanted = {page.path for page in pages}
        led = await self._followed(rows)
        found = [
            (row.page, target)
            for row, target in zip(rows, led, strict=True)
            if target in wanted and target is not None and row.page != target
        ]
        return list(dict.fromkeys(found)), len(rows) < limit

    async def further(
        self, path: str, documents: Sequence[LinkedDocument], sides: Mapping[str, Side], room: int
    ) -> tuple[list[NearPage], LinkCount]:
        """Return the pages that are connected to these, those with most connections first, and how many there are."""
        rows = [LinkRow(page.path, link) for page in documents for link in page.links][:MOST_ROWS]
        led = await self._followed(rows)
        ahead = {(row.page, target) for row, target in zip(rows, led, strict=True) if target is not None}
        back, all_back = await self.linking(documents, MOST_ROWS)
        through = [(far, near) for near, far in sorted(ahead)] + sorted(back)
        known = {path, *sides}
        ties = [(far, near) for far, near in through if far not in known]
        counted = Counter(far for far, _ in dict.fromkeys(ties))
        first = dict(reversed(ties))
        best = sorted(counted, key=lambda page: (-counted[page], page))[: max(0, room)]
        titles = {page.path: page.title for page in await self._index.linked_documents(best)}
        further = [NearPage(page, titles[page], sides[first[page]], 2) for page in best if page in titles]
        return further, LinkCount(len(counted), not all_back or len(rows) == MOST_ROWS)

    async def among(self, documents: Collection[LinkedDocument]) -> set[tuple[str, str]]:
        """Return the links from one of these documents to another."""
        paths = {page.path for page in documents}
        rows = [LinkRow(page.path, link) for page in documents for link in page.links][:MOST_ROWS]
        led = await self._followed(rows)
        return {
            (row.page, target)
            for row, target in zip(rows, led, strict=True)
            if target is not None and target in paths and target != row.page
        }


def names_a_page(path: str) -> bool:
    """Return whether a link with that path is meant for a page, and not for a picture or another file."""
    return is_markdown(path) or not _FILE.search(path)


def folders_meant(page: str, path: str) -> Sequence[str]:
    """Return the paths of the folders that a link of the page may mean."""
    return [folder for folder in (joined(parent(page), path), joined("", path)) if folder is not None]


def _sides(out: Sequence[str], linking: Sequence[str], most: int) -> dict[str, Side]:
    """Return the pages to show with their sides."""
    both = set(out) & set(linking)
    ahead = list(out)
    behind = [page for page in linking if page not in both]
    room = max(most - len(behind), most - most // 2)
    shown = ahead[:room]
    found: dict[str, Side] = {page: "both" if page in both else "out" for page in shown}
    return found | dict.fromkeys(behind[: most - len(shown)], "in")
