"""The page of one page: its text with links, origins and contradictions, or why there is nothing to read."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

import anyio.to_thread
from starlette.responses import Response

from knowledge.errors import AmbiguousName, InvalidPath, KnowledgeError, NoSuchChange, NoSuchPath
from knowledge.history.timeline.timeline import Change
from knowledge.pages.document import anchors, parse
from knowledge.pages.obsidian.canvas import is_canvas
from knowledge.pages.paths import is_markdown, without_suffix
from mcp_server.presenters.change import author
from mcp_server.web.knowledge_pages import page_view as view
from mcp_server.web.knowledge_pages.page_text import (
    blocks_apart,
    is_large,
    outline_of,
    part_from,
    rendered_blocks,
    source_blocks,
    title_heading,
)
from mcp_server.web.knowledge_pages.passages import notes_of, passages_of
from mcp_server.web.knowledge_pages.site_links import SiteLinks
from mcp_server.web.page_context import PageRequest
from mcp_server.web.text import site_addresses

LONGEST_NAME = 1_024
ADDRESSES = {
    name: getattr(site_addresses, name)
    for name in (
        "edit_address",
        "file_address",
        "folder_address",
        "graph_address",
        "history_address",
        "new_page_address",
        "page_address",
        "tag_address",
    )
}
"""The functions with which the templates make links."""


async def page(request: PageRequest) -> Response:
    """Show the page with that path, title or alias."""
    name = request.query.get("path", "").strip()[:LONGEST_NAME]
    try:
        path, raw, revision = await request.services.page_history.present(name)
    except (NoSuchPath, AmbiguousName, InvalidPath) as error:
        return await (canvas(request, name, error) if is_canvas(name) else missing(request, name, error))
    if raw is None or revision is None:
        return await missing(request, name, None)
    document = await anyio.to_thread.run_sync(parse, path, raw)
    record = await request.services.index.document(path)
    aliases = record.aliases if record else document.aliases
    by_name = request.services.tiers.links_by_name
    linked = await view.links_of(request.services.index, document, (document.title, *aliases), by_name=by_name)
    rules = await request.services.writer.rules(path)
    authored = await request.services.line_authors.of(path)
    contradictions = await view.contradictions_of(request, path, document.text)
    newest, as_source = view.newest(authored), request.query.get("view") == "source"
    notes = notes_of(authored.runs, rules, request.now)
    links = await SiteLinks.of(request.services, document)
    values = {
        "here": "/pages",
        "document": document,
        "aliases": aliases,
        "author": author,
        "links": linked,
        "cited": await view.citations_of(request, path, authored),
        "newest": newest,
        "file_at": datetime.fromtimestamp(record.stamp.mtime_ns / 1e9, UTC) if record else None,
        # Only a summary that somebody wrote: one that was taken from the text is shown there already.
        "summary": document.summary if {"summary", "description"} & set(document.metadata) else "",
        "stale": view.is_stale(newest.at if newest else None, rules, request.now),
        "half_life": rules.half_life_days,
        "from_elsewhere": view.is_from_elsewhere(document, record),
        "folders": view.folders_above(path),
        "contradictions": contradictions,
        "as_source": as_source,
        "saved": await _saved(request, path),
        "editor": request.editor,
        **ADDRESSES,
    }
    part = part_from(document, request.number("line") or 1, with_front=as_source)

    apart = await blocks_apart(part, links.known, request.page.apart) if is_large(part) and not as_source else None

    def shown() -> Mapping[str, Any]:
        blocks = apart or (source_blocks(part) if as_source else rendered_blocks(part, links))
        title = None if as_source else title_heading(document)
        if title and blocks and blocks[0].first == title.line:
            blocks = blocks[1:]
        passages = passages_of(blocks, notes, contradictions)
        anchor = next(iter(anchors([title]))) if title else ""
        more = {"passages": passages, "outline": outline_of(document, part), "heading": title, "title_anchor": anchor}
        return {**values, **more, "part": part}

    return await request.show("page.html", shown)


async def canvas(request: PageRequest, name: str, error: KnowledgeError) -> Response:
    """Show the cards of the canvas with that path or name from top to bottom, part by part, and the links to and from it."""
    offset = request.number("offset") or 0
    try:
        reading = await request.services.tiers.read(name, offset=offset)
    except KnowledgeError:
        return await missing(request, name, error)
    document = parse(reading.path, reading.text.encode("utf-8", "replace"))
    links, index = await SiteLinks.of(request.services, document), request.services.index

    values = {
        "here": "/pages",
        "reading": reading,
        "offset": offset,
        "out": await view.named_pages(index, reading.links),
        "back": await view.named_pages(index, reading.backlinks),
        "folders": view.folders_above(reading.path),
        **ADDRESSES,
    }
    return await request.show(
        "canvas.html",
        lambda: {**values, "blocks": rendered_blocks(part_from(document, 1, with_front=True), links)},
    )


async def _saved(request: PageRequest, path: str) -> Change | None:
    """Return the change by which the person just saved this page; None if the address names none."""
    name = request.query.get("saved", "")
    try:
        change = await request.services.timeline.change(name) if name else None
    except NoSuchChange:
        return None
    return change if change and path in [page.path for page in change.pages] else None


async def missing(request: PageRequest, name: str, error: KnowledgeError | None) -> Response:
    """Say that there is no such page, and offer those that could be meant, its history, and to write it."""
    kind = "" if error else "removed"
    candidates: list[str] = []
    if isinstance(error, NoSuchPath):
        candidates = [one for one in error.nearest if is_markdown(one)]
    elif isinstance(error, AmbiguousName):
        kind, candidates = "several", list(error.candidates)
    elif isinstance(error, InvalidPath):
        kind = "invalid"
    try:
        is_folder = await request.services.tiers.place(name) == "directory"
    except InvalidPath:
        is_folder = False
    values = {
        "here": "/pages",
        "name": name,
        "kind": kind,
        "reason": error.reason if isinstance(error, InvalidPath) else "",
        "similar": await view.named_pages(request.services.index, candidates),
        "is_folder": is_folder,
        "words": without_suffix(name.rpartition("/")[2]).replace("-", " "),
        **ADDRESSES,
    }
    return await request.show("page_missing.html", values, 404)
