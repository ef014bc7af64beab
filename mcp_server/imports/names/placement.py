"""Where the files of a source go, with links that lead there and not to a page of the same name that was there before. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from knowledge.pages.document import head, parse
from knowledge.writing.acts.merge_work import with_front_line
from mcp_server.imports.earlier import EarlierImports
from mcp_server.imports.model import Incoming, IncomingPage
from mcp_server.imports.names.relink import Relinker

OBSIDIAN = "obsidian"
"""The kind of source whose Markdown links may name a file without its folder."""
MARK = "untrusted: true"


def placed(
    found: Incoming, into: str, there: Iterable[str], earlier: EarlierImports, *, by_name: bool = False
) -> Incoming:
    """Return the source with the paths that its files get in the folder `into`, and links adapted to them.

    `there` are the pages of the knowledge base. `by_name`: the knowledge base is a vault, in which Markdown links are found by name.
    A page that an earlier import brought stays where it is now.
    """
    places = {page.path: _place(page, into, earlier) for page in found.pages}
    places |= {file.path: _below(into, file.path) for file in found.files}
    names = {page.path: _names(page) for page in found.pages}
    # Pages that an earlier import brought are the source's own, although they are in the knowledge base already.
    foreign = set(there) - set(places.values())
    spelled_out = found.kind == OBSIDIAN and not by_name
    if not foreign and not spelled_out and all(old == new for old, new in places.items()):
        return found
    relinker = Relinker(places, names, there=sorted(foreign), by_name=spelled_out, spelled_out=spelled_out)
    pages = [replace(page, path=places[page.path], raw=relinker.page(page.path, page.raw)) for page in found.pages]
    files = [replace(file, path=places[file.path]) for file in found.files]
    lost = [replace(one, path=places.get(one.path, one.path)) for one in found.lost]
    renamed = [replace(one, path=places.get(one.path, one.path)) for one in found.renamed]
    count = found.rewritten + relinker.rewritten
    return replace(found, pages=pages, files=files, lost=lost, renamed=renamed, rewritten=count)


def _place(page: IncomingPage, into: str, earlier: EarlierImports) -> str:
    known = earlier.pages.get(page.origin)
    return known.path if known is not None else _below(into, page.path)


def _below(into: str, path: str) -> str:
    return f"{into}/{path}" if into else path


def _names(page: IncomingPage) -> tuple[str, ...]:
    document = parse(page.path, page.raw)
    return (document.title, *document.aliases)


def marked_untrusted(found: Incoming) -> Incoming:
    """Return the source with `untrusted: true` in the front matter of every page."""
    return replace(found, pages=[replace(page, raw=_marked(page.raw)) for page in found.pages])


def _marked(raw: bytes) -> bytes:
    if head(raw).untrusted:
        return raw
    text = raw.decode("utf-8", "surrogateescape")
    inside = with_front_line(text, MARK).encode("utf-8", "surrogateescape")
    # Front matter in TOML is not read, so the mark would have no effect in it.
    return inside if head(inside).untrusted else f"---\n{MARK}\n---\n\n".encode() + raw
