"""Reads folders that are Markdown already, a vault of Obsidian and a project of basic-memory, and keeps their text as it is.

Source: help.obsidian.md for vaults; github.com/basicmachines-co/basic-memory, NOTE-FORMAT.md. Observations (`- [category] fact`) and
relations (`- type [[Page]]`) are list items and wiki links, and stay so; only links by permalink are written as paths.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import replace
from functools import partial

from knowledge.merge.document.link_spans import LinkSpan
from knowledge.pages.document import parse
from knowledge.pages.paths import is_markdown
from mcp_server.imports.model import BadSource, Incoming, IncomingFile, IncomingPage, SkippedItem
from mcp_server.imports.names.page_names import FreePaths, is_usable, usable_path
from mcp_server.imports.names.placement import OBSIDIAN
from mcp_server.imports.names.relink import Relinker, nowhere
from mcp_server.imports.readers.source_tree import SourceTree

BASIC_MEMORY = "basic-memory"
MEMORY_ADDRESS = "memory://"
_ADDRESS = re.compile(r"\]\(memory://([^\s()<>]+)\)")


def read_vault(tree: SourceTree, name: str) -> Incoming:
    """Return the pages and attachments of a vault. Hidden folders, among them `.obsidian` and `.trash`, stay out.

    Raises:
        BadSource: it has no page.
    """
    pages, skipped = _pages(tree)
    free = FreePaths()
    places = places_of([*pages, *_attachments(tree)], free)
    names = {path: parse(path, raw).aliases for path, raw in pages.items()}
    relinker = Relinker(places, names, by_name=True)
    return replace(_incoming((OBSIDIAN, name), tree, pages, relinker, skipped), renamed=free.renamed)


def read_project(tree: SourceTree, name: str) -> Incoming:
    """Return the notes and attachments of a project; links by permalink lead to the notes, wherever they are.

    Raises:
        BadSource: it has no note.
    """
    pages, skipped = _pages(tree)
    free = FreePaths()
    places = places_of([*pages, *_attachments(tree)], free)
    names: dict[str, Iterable[str]] = {}
    permalinks: dict[str, str] = {}
    for path, raw in pages.items():
        document = parse(path, raw)
        names[path] = (document.title, *document.aliases)
        permalink = document.metadata.get("permalink")
        if isinstance(permalink, str) and permalink.strip("/"):
            permalinks.setdefault(permalink.strip("/").casefold(), path)
    relinker = Relinker(places, names, partial(_by_permalink, permalinks) if permalinks else nowhere)
    addressed = {path: _without_addresses(raw, permalinks) for path, raw in pages.items()}
    return replace(_incoming((BASIC_MEMORY, name), tree, addressed, relinker, skipped), renamed=free.renamed)


def places_of(paths: Iterable[str], free: FreePaths) -> dict[str, str]:
    """Return a usable path for each path of the source: the same wherever possible."""
    # Paths that can stay come first, so that a changed one never takes the place of one of them.
    ordered = sorted(paths, key=lambda path: (not is_usable(path), path))
    return {path: free.free(path if is_usable(path) else usable_path(path), path) for path in ordered}


def _pages(tree: SourceTree) -> tuple[dict[str, bytes], list[SkippedItem]]:
    pages: dict[str, bytes] = {}
    skipped = list(tree.skipped)
    for path in tree.files:
        if is_markdown(path) and not _is_hidden(path):
            try:
                pages[path] = tree.page(path)
            except BadSource as error:
                skipped.append(SkippedItem(path, str(error)))
    if not pages:
        raise BadSource(f"{tree.name} has no Markdown page")
    return pages, skipped


def _attachments(tree: SourceTree) -> list[str]:
    return [path for path in tree.files if not is_markdown(path) and not _is_hidden(path)]


def _is_hidden(path: str) -> bool:
    return any(part.startswith(".") for part in path.split("/"))


def _incoming(
    origin: tuple[str, str],
    tree: SourceTree,
    pages: Mapping[str, bytes],
    relinker: Relinker,
    skipped: list[SkippedItem],
) -> Incoming:
    kind, name = origin
    written = [
        IncomingPage(f"{kind}:{name}/{path}", relinker.places[path], relinker.page(path, raw))
        for path, raw in pages.items()
    ]
    files = [
        IncomingFile(
            f"{kind}:{name}/{path}", relinker.places[path], tree.files[path].size, partial(tree.attachment, path)
        )
        for path in _attachments(tree)
    ]
    return Incoming(kind, name, written, files, skipped, relinker.rewritten, relinker.lost)


def _by_permalink(permalinks: Mapping[str, str], _page: str, link: LinkSpan) -> str | None:
    """Return the note that a wiki link names by its permalink, with or without the name of the project before it."""
    return permalinks.get(link.path.strip("/ ").casefold()) if link.wiki else None


def _without_addresses(raw: bytes, permalinks: Mapping[str, str]) -> bytes:
    """Return the note with links to `memory://PERMALINK` as links to the note's path from the root."""
    if MEMORY_ADDRESS.encode() not in raw:
        return raw
    text = raw.decode("utf-8", "surrogateescape")

    def rewritten(found: re.Match[str]) -> str:
        path = permalinks.get(found[1].strip("/").casefold())
        return found[0] if path is None else f"](</{path}>)"

    return _ADDRESS.sub(rewritten, text).encode("utf-8", "surrogateescape")
