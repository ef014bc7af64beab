"""What the page of the whole graph says before any script runs: the most linked pages, those without links, folders."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from knowledge.search.maps.link_graph import LinkGraph
from mcp_server.web.link_graph.folder_colours import OTHERS, FolderGroups

MOST_LISTED, MOST_ALONE, MOST_MISSING = 30, 100, 30
MOST_DRAWN, MOST_LINES = 250, 500
LONGEST_TITLE = 200


@dataclass(frozen=True, slots=True)
class CountedPage:
    """A page, how many pages link to it, and how many it links to."""

    path: str
    title: str
    back: int
    out: int


@dataclass(frozen=True, slots=True)
class FolderLinks:
    """The links of the pages below `folder`: those `inside` it, and those `across` its border. None is all other folders."""

    folder: str | None
    number: int
    pages: int
    inside: int
    across: int


@dataclass(frozen=True, slots=True)
class DrawnPage:
    """A page in the small picture, with the number of its folder's colour."""

    path: str
    title: str
    x: float
    y: float
    links: int
    colour: int


@dataclass(frozen=True, slots=True)
class GraphOverview:
    """The graph in numbers and short lists. `generation` and `seq` are the position of the index that it was computed from.

    `provisional`: the pages are placed by folder, because the graph is still being laid out for the first time.
    """

    generation: str
    seq: int
    pages: int
    links: int
    most_linked: Sequence[CountedPage]
    alone: int
    alone_pages: Sequence[CountedPage]
    missing: int
    missing_targets: Sequence[tuple[str, int]]
    folders: Sequence[FolderLinks]
    drawn: Sequence[DrawnPage]
    lines: Sequence[tuple[int, int]]
    provisional: bool = False

    def as_json(self) -> dict[str, Any]:
        """Return the overview as JSON, for its file."""
        return asdict(self)


def overview_of(
    graph: LinkGraph, groups: FolderGroups, places: Mapping[str, tuple[float, float]], position: tuple[str, int]
) -> GraphOverview:
    """Return the overview of the graph, with the pages at these places."""
    back, out = graph.degrees()
    pages = [
        CountedPage(path, title[:LONGEST_TITLE], back[n], out[n])
        for n, (path, title) in enumerate(zip(graph.paths, graph.titles, strict=True))
    ]
    by_links = sorted(range(len(pages)), key=lambda n: (-back[n], -out[n], graph.paths[n]))
    alone = [page for page in pages if not page.back and not page.out]
    wanted = Counter(target for _, target in graph.missing)
    drawn = sorted(range(len(pages)), key=lambda n: (-back[n] - out[n], graph.paths[n]))[:MOST_DRAWN]
    spot = {n: at for at, n in enumerate(drawn)}
    between = [(spot[a], spot[b]) for a, b in graph.edges if a in spot and b in spot]
    # The links of the largest pages come first.
    lines = sorted(between, key=lambda line: (max(line), min(line)))[:MOST_LINES]
    return GraphOverview(
        *position,
        pages=len(pages),
        links=len(graph.edges),
        most_linked=[pages[n] for n in by_links[:MOST_LISTED] if back[n]],
        alone=len(alone),
        alone_pages=alone[:MOST_ALONE],
        missing=len(wanted),
        missing_targets=sorted(wanted.items(), key=lambda one: (-one[1], one[0]))[:MOST_MISSING],
        folders=_folders(graph, groups),
        drawn=[
            DrawnPage(
                graph.paths[n],
                graph.titles[n][:LONGEST_TITLE],
                *places[graph.paths[n]],
                links=back[n] + out[n],
                colour=groups.of[graph.paths[n]],
            )
            for n in drawn
        ],
        lines=lines,
    )


def overview_from(held: Mapping[str, Any]) -> GraphOverview:
    """Return the overview in a file.

    Raises:
        KeyError, TypeError: it has another form.
    """
    return GraphOverview(
        **{
            **held,
            "most_linked": [CountedPage(**page) for page in held["most_linked"]],
            "alone_pages": [CountedPage(**page) for page in held["alone_pages"]],
            "folders": [FolderLinks(**folder) for folder in held["folders"]],
            "drawn": [DrawnPage(**page) for page in held["drawn"]],
        }
    )


def _folders(graph: LinkGraph, groups: FolderGroups) -> list[FolderLinks]:
    inside, across = Counter[int](), Counter[int]()
    for a, b in graph.edges:
        one, two = groups.of[graph.paths[a]], groups.of[graph.paths[b]]
        if one == two:
            inside[one] += 1
        else:
            across[one] += 1
            across[two] += 1
    return [
        FolderLinks(group.folder, group.number, group.pages, inside[group.number], across[group.number])
        for group in sorted(groups.groups, key=lambda group: (group.number == OTHERS, group.number))
    ]
