"""The pages that list pages: the map by folders."""

from __future__ import annotations

from starlette.responses import Response

from knowledge.errors import BadCursor, InvalidPath, NoSuchPath
from mcp_server.web.page_context import NotFound, PageRequest
from mcp_server.web.reading.page_view import folders_above
from mcp_server.web.reading.pages import ADDRESSES

MAP = "/pages"


async def folder(request: PageRequest) -> Response:
    """Show a folder of the map: its subfolders and pages with titles, summaries and counts, part by part."""
    path, cursor = request.query.get("path", ""), request.query.get("cursor")
    try:
        view = await request.services.tiers.folder(path, cursor=cursor)
    except (InvalidPath, NoSuchPath) as error:
        raise NotFound("No such folder", f"There is no folder {path!r} in this knowledge base.", MAP) from error
    except BadCursor as error:
        raise NotFound("This part of the list can't be shown", str(error), MAP) from error
    progress = await request.services.index.progress()
    entries = view.children
    values = {
        "here": MAP,
        "view": view,
        "above": folders_above(view.path),
        "subfolders": [entry for entry in entries if entry.kind == "directory"],
        "documents": [entry for entry in entries if entry.kind == "document"],
        "continued": cursor is not None,
        "unindexed": max(0, progress.total - progress.done),
        "own_page": await request.services.index.document(f"{view.path}/_index.md".lstrip("/")),
        **ADDRESSES,
    }
    return await request.show("pages.html", values)
