"""The page of one page: its text with links, origins and contradictions, or why there is nothing to read."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import anyio.to_thread
from starlette.responses import Response

from knowledge.errors import AmbiguousName, InvalidPath, KnowledgeError, NoSuchPath
from knowledge.pages.document import Document, parse
from knowledge.pages.paths import is_markdown, without_suffix
from mcp_server.presenters.change import author
from mcp_server.web.page_context import PageRequest
from mcp_server.web.reading import page_view as view
from mcp_server.web.reading.passages import ShownBlock, notes_of, passages_of, source_blocks
from mcp_server.web.text import site_addresses

LONGEST_NAME = 1_024
MOST_CHARACTERS = 300_000
"""Characters of a page that are shown at once; the rest is one click further."""
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
        return await missing(request, name, error)
    if raw is None or revision is None:
        return await missing(request, name, None)
    document = await anyio.to_thread.run_sync(parse, path, raw)
    record = await request.services.index.document(path)
    aliases = record.aliases if record else document.aliases
    links = await view.links_of(request.services.index, document, (document.title, *aliases))
    rules = await request.services.writer.rules(path)
    authored = await request.services.line_authors.of(path)
    contradictions = await view.contradictions_of(request, path, document.text)
    newest = view.newest(authored)
    values = {
        "here": "/pages",
        "document": document,
        "aliases": aliases,
        "outline": (),
        "author": author,
        "links": links,
        "cited": await view.citations_of(request, path, authored),
        "newest": newest,
        "stale": view.is_stale(newest.at if newest else None, rules, request.now),
        "half_life": rules.half_life_days,
        "from_elsewhere": view.is_from_elsewhere(document, record),
        "folders": view.folders_above(path),
        "contradictions": contradictions,
        "as_source": True,
        **ADDRESSES,
    }
    start, notes = request.number("line") or 1, notes_of(authored.runs, rules, request.now)

    def shown() -> Mapping[str, Any]:
        blocks = as_source(document, start)
        last = blocks[-1].last if blocks else 0
        passages = passages_of(blocks, notes, contradictions)
        lines = document.text.count("\n") + 1
        return {**values, "passages": passages, "next": last + 1 if last + 1 < lines else 0, "start": start}

    return await request.show("page.html", shown)


def as_source(document: Document, start: int) -> list[ShownBlock]:
    """Return the text as it is in the file, by blocks, from line `start` on, as much as is shown at once."""
    room = [MOST_CHARACTERS]
    blocks: list[ShownBlock] = []
    for block in source_blocks(document.text, [one.start + 1 for one in document.blocks], lambda _: room[0] <= 0):
        if block.last < start:
            continue
        room[0] -= len(block.html)
        blocks.append(block)
    return blocks


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
