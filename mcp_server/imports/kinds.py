"""The kinds of sources, and how each is read."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from mcp_server.imports.model import BadSource, Incoming
from mcp_server.imports.readers import documents, markdown_tree, memory_server, notion, own
from mcp_server.imports.readers.source_tree import SourceTree, opened_source

Form = Literal["folder", "file", "folder or zip"]


@dataclass(frozen=True, slots=True)
class SourceKind:
    """A kind of source: its form on the disk, and one line about it."""

    form: Form
    help: str


KINDS: Mapping[str, SourceKind] = {
    "folder": SourceKind("folder", "a folder that `export folder` wrote"),
    "jsonl": SourceKind("file", "a file that `export jsonl` wrote"),
    "obsidian": SourceKind("folder", "a vault of Obsidian, or any folder of Markdown"),
    "basic-memory": SourceKind("folder", "the folder of a basic-memory project"),
    "notion": SourceKind("folder or zip", 'an export of Notion as "Markdown & CSV"'),
    "html": SourceKind("folder or zip", "a folder of HTML pages"),
    "docx": SourceKind("folder or zip", "a folder of Word documents"),
    "memory-jsonl": SourceKind("file", "the file of the official memory server: a page for each entity"),
}


@contextlib.contextmanager
def incoming(kind: str, place: Path, name: str) -> Iterator[Incoming]:
    """Yield what the source holds; its attachments can be read while the block lasts.

    `name` tells the source from others of its kind. If it is "", the source has the name of its folder or file.

    Raises:
        BadSource: it can't be read as that kind.
    """
    form = KINDS[kind].form
    if form == "file" and not place.is_file():
        raise BadSource(f"{place} is not a file")
    if form == "folder" and not place.is_dir():
        raise BadSource(f"{place} is not a folder")
    with contextlib.ExitStack() as stack:
        called = name or place.name.rpartition(".")[0] or place.name
        if kind == "jsonl":
            yield own.read_pages(place)
        elif kind == "memory-jsonl":
            yield memory_server.read_memory(place, called)
        else:
            tree = stack.enter_context(opened_source(place))
            yield _in_tree(kind, place, tree, name or tree.name)


def _in_tree(kind: str, place: Path, tree: SourceTree, name: str) -> Incoming:
    if kind == "obsidian":
        return markdown_tree.read_vault(tree, name)
    if kind == "basic-memory":
        return markdown_tree.read_project(tree, name)
    if kind == "notion":
        return notion.read_notion(tree)
    if kind in ("html", "docx"):
        return documents.read_documents(tree, name, "html" if kind == "html" else "docx")
    return own.read_folder(place, tree)
