"""The pages of the graph of links."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from starlette.responses import Response

from knowledge.errors import InvalidPath
from knowledge.pages.paths import clean_path
from knowledge.search.maps.neighbourhood import LinkCount, NearPage, Neighbourhood, neighbourhood
from mcp_server.web.link_graph.folder_colours import folder_groups
from mcp_server.web.link_graph.neighbourhood_picture import picture
from mcp_server.web.page_context import PageRequest, see
from mcp_server.web.text.site_addresses import graph_address, page_address

MOST_PAGES = 150
"""Pages of one neighbourhood."""
MOST_CHOICES = 20
LONGEST_NAME = 1_000


async def graph(request: PageRequest) -> Response:
    """Show the links around the page that the address names, or of the whole knowledge base."""
    asked = request.query.get("path", "").strip()[:LONGEST_NAME]
    if not asked:
        return await request.show("graph.html", {"here": "/graph", "asked": ""})
    steps = 2 if request.query.get("steps") == "2" else 1
    path = _cleaned(asked)
    around = await neighbourhood(request.services.index, path, steps=steps, most=MOST_PAGES) if path else None
    if around is not None:
        found = around
        return await request.show("neighbourhood.html", lambda: _shown(found, steps))
    choices = await _choices(request, asked)
    if len(choices) == 1:
        return see(graph_address(choices[0]))
    values = {"here": "/graph", "asked": asked, "choices": choices, "page_address": page_address}
    return await request.show("graph_choice.html", {**values, "graph_address": graph_address}, 300 if choices else 404)


def _cleaned(asked: str) -> str:
    try:
        return clean_path(asked)
    except InvalidPath:
        return ""


async def _choices(request: PageRequest, asked: str) -> list[str]:
    """Return the pages that a person may mean by a name: those that are called so, else those with it in their path."""
    index = request.services.index
    named = [match.path for match in await index.named(asked, limit=MOST_CHOICES) if match.by != "heading"]
    return list(dict.fromkeys(named)) or list(await index.paths(contains=asked, limit=MOST_CHOICES))


def _shown(around: Neighbourhood, steps: int) -> Mapping[str, Any]:
    groups = folder_groups([around.path, *(page.path for page in around.near)])
    linking = [page for page in around.near if page.side != "out" and page.steps == 1]
    back = sorted(linking, key=lambda page: page.path)
    out = [page for page in around.near if page.side != "in" and page.steps == 1]
    two = [page for page in around.near if page.steps == 2]
    return {
        "here": "/graph",
        "around": around,
        "steps": steps,
        "picture": picture(around, groups.of),
        "groups": groups.groups if len(groups.groups) > 1 else (),
        "lists": (
            _listed("in", "Pages that link here", back, around.backlinks),
            _listed("out", "Pages that it links to", out, around.links),
            *((_listed("two", "Two links away", two, around.two_away),) if steps == 2 else ()),
        ),
        "page_address": page_address,
        "graph_address": graph_address,
    }


def _listed(name: str, title: str, pages: Sequence[NearPage], count: LinkCount) -> Mapping[str, Any]:
    number = f"at least {count.number:,}" if count.at_least else f"{count.number:,}"
    return {"id": name, "title": title, "pages": pages, "count": number, "more": count.number - len(pages)}
