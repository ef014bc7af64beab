"""The pages of the graph of links."""

from __future__ import annotations

import gzip
import hashlib
from collections.abc import Mapping, Sequence
from typing import Any

import anyio.to_thread
from starlette.background import BackgroundTask
from starlette.responses import JSONResponse, Response

from knowledge.errors import InvalidPath, KnowledgeError
from knowledge.pages.paths import clean_path
from knowledge.search.maps.neighbourhood import LinkCount, NearPage, Neighbourhood, neighbourhood
from knowledge.state.ports import Progress
from mcp_server.ports import WebServices
from mcp_server.web.link_graph.computation import SOON
from mcp_server.web.link_graph.folder_colours import folder_groups
from mcp_server.web.link_graph.neighbourhood_picture import picture
from mcp_server.web.link_graph.overview import GraphOverview
from mcp_server.web.link_graph.overview_picture import overview_picture
from mcp_server.web.page_context import PageRequest, see
from mcp_server.web.text.site_addresses import folder_address, graph_address, page_address

MOST_PAGES = 150
"""Pages of one neighbourhood."""
MOST_CHOICES = 20
MOST_FOLDERS = 100
LONGEST_NAME = 1_000


async def graph(request: PageRequest) -> Response:
    """Show the links around the page that the address names, or of the whole knowledge base."""
    asked = request.query.get("path", "").strip()[:LONGEST_NAME]
    if not asked:
        return await _whole(request)
    steps = 2 if request.query.get("steps") == "2" else 1
    path = _cleaned(asked)
    found = await _around(request, path, steps) if path else None
    if found is not None:
        around = found
        return await request.show("neighbourhood.html", lambda: _shown(around, steps))
    choices = await _choices(request, asked)
    if len(choices) == 1:
        return see(graph_address(choices[0]))
    values = {"here": "/graph", "asked": asked, "choices": choices, "page_address": page_address}
    return await request.show("graph_choice.html", {**values, "graph_address": graph_address}, 300 if choices else 404)


async def prepare(services: WebServices) -> None:
    """Have the graph of a large knowledge base laid out before a person asks for it: the first time takes a few seconds."""
    if (await services.index.progress()).done > SOON:
        await (await services.load_link_graphs()).renew_later()


async def _whole(request: PageRequest) -> Response:
    """Show the graph as it was last computed, and have it computed again after the answer if the index has changed."""
    graphs = await request.services.load_link_graphs()
    progress = await request.services.index.progress()
    overview, trouble = await graphs.overview(), ""
    current = await graphs.is_current(overview)
    if not current and progress.done <= SOON:
        try:
            overview, current = await graphs.renew(), True
        except KnowledgeError as error:
            trouble = str(error)
    # Until there is a first picture, the folders lead to pages.
    folders = (
        () if overview else (await request.services.index.children("", limit=MOST_FOLDERS, documents_after=None))[0]
    )
    values = {"current": current, "trouble": trouble, "folders": folders}
    answer = await request.show("graph.html", lambda: _overview(overview, progress) | values)
    if not current and not trouble:
        answer.background = BackgroundTask(graphs.renew_later)
    return answer


def _overview(overview: GraphOverview | None, progress: Progress) -> dict[str, Any]:
    return {
        "here": "/graph",
        "asked": "",
        "overview": overview,
        "picture": overview_picture(overview) if overview and overview.drawn else "",
        "progress": progress,
        "page_address": page_address,
        "graph_address": graph_address,
        "folder_address": folder_address,
    }


async def data(request: PageRequest) -> Response:
    """Return the graph for the page's script, as it was last computed. With `current=1`, it is computed again before the answer.

    If it was never computed to the end, the answer may have the provisional places of the pages. A script that names the graph
    that it has (`If-None-Match`) gets a short answer if the graph is still the same.
    """
    graphs = await request.services.load_link_graphs()
    try:
        overview = await (graphs.renew() if request.query.get("current") == "1" else graphs.soon())
    except KnowledgeError as error:
        return JSONResponse({"error": str(error)}, 503)
    try:
        packed = await anyio.to_thread.run_sync(graphs.data_file.read_bytes)
    except OSError as error:
        return JSONResponse({"error": f"The graph's file can't be read: {error.strerror}. Load the page again."}, 503)
    tag = f'"{hashlib.blake2b(packed, digest_size=12).hexdigest()}"'
    headers = {"etag": tag, "x-graph-current": str(int(await graphs.is_current(overview)))}
    if request.http.headers.get("if-none-match") == tag:
        return Response(status_code=304, headers=headers)
    if "gzip" not in request.http.headers.get("accept-encoding", ""):
        plain = await anyio.to_thread.run_sync(gzip.decompress, packed)
        return Response(plain, media_type="application/json", headers=headers)
    return Response(packed, media_type="application/json", headers={**headers, "content-encoding": "gzip"})


async def _around(request: PageRequest, path: str, steps: int) -> Neighbourhood | None:
    by_name = request.services.tiers.links_by_name
    return await neighbourhood(request.services.index, path, steps=steps, most=MOST_PAGES, by_name=by_name)


def _cleaned(asked: str) -> str:
    try:
        return clean_path(asked)
    except InvalidPath:
        return ""


async def _choices(request: PageRequest, asked: str) -> list[str]:
    """Return the pages that a person may mean by a name: those with that name, or if there are none, those with it in their path."""
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
