"""One Markdown file, parsed: front matter, headings, links, tags. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Heading:
    """An ATX or setext heading. `line` counts from 1 in the file; `path` is the headings above it and itself."""

    level: int
    text: str
    line: int
    path: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Document:
    """What one file says.

    `text` is the file decoded (a BOM dropped, CR LF and CR made LF), front matter included, so that line numbers fit
    the file; `body_line` is the line, from 1, of the first line after the front matter. `metadata` is the front
    matter made plain JSON. `problems` says in short sentences what was odd (broken front matter, invalid UTF-8).
    """

    path: str
    text: str
    body_line: int
    title: str
    summary: str
    kind: str
    source: str
    language: str
    tags: tuple[str, ...]
    aliases: tuple[str, ...]
    links: tuple[str, ...]
    headings: tuple[Heading, ...]
    metadata: Mapping[str, object]
    untrusted: bool
    problems: tuple[str, ...]
