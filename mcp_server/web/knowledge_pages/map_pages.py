"""The pages that list pages: the map by folders, those changed last, and those with a tag."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime

from starlette.responses import Response

from knowledge.errors import BadCursor, InvalidPath, NoSuchPath
from knowledge.pages.markdown.tags import bare_tag, with_tags_above
from knowledge.pages.paths import clean_path, is_markdown, parent
from knowledge.state.ports import DocumentRecord
from mcp_server.web.knowledge_pages.map_tree import MapTree, below
from mcp_server.web.knowledge_pages.page_view import folders_above
from mcp_server.web.knowledge_pages.pages import ADDRESSES
from mcp_server.web.page_context import NotFound, PageRequest

MAP = "/pages"
LISTED = 60
"""Pages in one part of a list."""
MOST_TAGS = 2_000
MOST_WIDE_TAGS = 300
"""Tags with others below them whose pages are counted together."""


@dataclass(frozen=True, slots=True)
class RecentPage:
    """A page with the time of its file's last change. `by` made that change, "" if it is not on record."""

    record: DocumentRecord
    at: datetime
    by: str


async def tree(request: PageRequest) -> Response:
    """Show the map as a tree with the way to a folder or page open, or with `part=list` the next part of one folder's list."""
    path, cursor = request.query.get("path", "").strip("/"), request.query.get("cursor")
    page = path if is_markdown(path) else ""
    folder = parent(page) if page else path
    reader = MapTree(request.services)
    try:
        if request.query.get("part") == "list":
            return await request.show(
                "pages_list.html", {"folder": await reader.part(folder, cursor=cursor), **ADDRESSES}
            )
        top = await reader.whole(folder, page=page, cursor=cursor)
    except (InvalidPath, NoSuchPath) as error:
        raise NotFound("No such folder", f"There is no folder {folder!r} in this knowledge base.", MAP) from error
    except BadCursor as error:
        raise NotFound("This part of the list can't be shown", str(error), MAP) from error
    progress = await request.services.index.progress()
    values = {
        "here": MAP,
        "top": top,
        "shown": next(one for one in below(top) if one.path == clean_path(folder)),
        "page": page,
        "above": folders_above(folder),
        "unindexed": max(0, progress.total - progress.done),
        **ADDRESSES,
    }
    return await request.show("pages.html", values)


async def recent(request: PageRequest) -> Response:
    """Show the pages whose files changed last, newest first, and who changed them."""
    pages = []
    for record in await request.services.index.newest(limit=LISTED):
        lines = await request.services.state.ledger.history(record.path, limit=1)
        by = lines[0].principal if lines and lines[0].revision == record.revision else None
        pages.append(RecentPage(record, datetime.fromtimestamp(record.stamp.mtime_ns / 1e9, UTC), by or ""))
    return await request.show("recent.html", {"here": MAP, "pages": pages, **ADDRESSES})


async def tags(request: PageRequest) -> Response:
    """Show all tags with their counts, or the pages with one tag or one below it, part by part."""
    tag, after = bare_tag(request.query.get("tag", "")), request.query.get("after", "")
    index = request.services.index
    counts = await index.tags(limit=MOST_TAGS + 1)
    found = await index.tagged([tag], after=after, limit=LISTED + 1) if tag else ()
    known = dict(counts[:MOST_TAGS])
    # A tag counts the pages of those below it too, each page once.
    wide = with_tags_above(one.rpartition("/")[0] for one in known if "/" in one)[:MOST_WIDE_TAGS]
    known |= {one: (await index.count_tagged([one])).documents for one in wide if one in known and not tag}
    values = {
        "here": MAP,
        "tag": tag,
        "pages": found[:LISTED],
        "after": found[LISTED - 1].path if len(found) > LISTED else "",
        "continued": bool(after),
        "tags": sorted(known.items(), key=lambda pair: pair[0].casefold()),
        "more_tags": len(counts) > MOST_TAGS,
        "count": (await index.count_tagged([tag])).documents if tag else 0,
        "below": sorted(one for one in known if one.startswith(f"{tag}/")) if tag else (),
        **ADDRESSES,
    }
    return await request.show("tags.html", values)
