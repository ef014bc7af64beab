"""The links of a static site as pictures: one around each page, and one of the whole site. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from markupsafe import Markup

from knowledge.search.maps.link_graph import LinkGraph
from knowledge.search.maps.neighbourhood import LinkCount, NearPage, Neighbourhood, Side
from mcp_server.late_module import LateModule
from mcp_server.web.link_graph.folder_colours import FolderGroups, folder_groups
from mcp_server.web.link_graph.neighbourhood_picture import MOST_ROWS, Address, NeighbourhoodPicture, picture
from mcp_server.web.link_graph.overview import GraphOverview, overview_of
from mcp_server.web.link_graph.overview_picture import overview_picture

if TYPE_CHECKING:
    from mcp_server.web.link_graph.layout import positions
else:
    positions = LateModule("mcp_server.web.link_graph.layout.positions")


@dataclass(frozen=True)
class SiteLinkGraph:
    """The pages of a site with their titles. For each page there are also the pages that it links to, and those that link to it."""

    titles: Mapping[str, str]
    links: Mapping[str, Sequence[str]]
    back: Mapping[str, Sequence[str]]
    groups: FolderGroups = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "groups", folder_groups(list(self.titles)))

    def around(self, path: str, address: Address) -> NeighbourhoodPicture | None:
        """Return the picture of the links around the page, None if it has none."""
        out = [one for one in self.links[path] if one != path]
        back = list(self.back[path])
        if not out and not back:
            return None
        near = tuple(self._near(out, back))
        columns = ([page.path for page in near if (page.side != "in") == right] for right in (False, True))
        drawn = {path, *(one for column in columns for one in column[:MOST_ROWS])}
        edges = tuple(
            (one, other) for one in sorted(drawn) for other in self.links[one] if other in drawn and other != one
        )
        found = Neighbourhood(
            path, self.titles[path], near, edges, LinkCount(len(out)), LinkCount(len(back)), missing=()
        )
        return picture(found, self.groups.of, address)

    def _near(self, out: Sequence[str], back: Sequence[str]) -> Iterator[NearPage]:
        linked, linking = set(out), set(back)
        for path in [*back, *(one for one in out if one not in linking)]:
            side: Side = "both" if path in linked and path in linking else "in" if path in linking else "out"
            yield NearPage(path, self.titles[path], side, 1)

    def whole(self) -> tuple[GraphOverview, Markup]:
        """Return the whole graph in numbers and short lists, and the picture of its largest pages."""
        paths = list(self.titles)
        number = {path: at for at, path in enumerate(paths)}
        edges = sorted(
            (number[one], number[other]) for one, others in self.links.items() for other in others if other != one
        )
        graph = LinkGraph(paths, list(self.titles.values()), edges, ())
        overview = overview_of(graph, self.groups, positions.placed(paths, edges).places, ("", 0))
        return overview, overview_picture(overview) if overview.drawn else Markup("")
