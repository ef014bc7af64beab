"""Which pages a text from elsewhere may name: `kb:guides/trust`, `[[Trust]]`, a path or a link that ends like one. Pure.

Nothing here knows what pages there are, so what is found are only candidates.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from urllib.parse import unquote, urlsplit

from knowledge.pages.paths import is_markdown

MOST_NAMES = 50
"""Looked for in what is read at once; who names more pages cites none of them in particular."""
LONGEST_TEXT = 200_000
LONGEST_NAME = 300
DEEPEST = 8
"""Folders of a link that may belong to a page's path."""

_OWN = re.compile(r"(?<![\w/:])kb:(?://doc/)?([^\s<>()\[\]\"'`|#?]+)", re.IGNORECASE)
_WIKI = re.compile(r"\[\[([^\[\]\n|#]{1,300})(?:[|#][^\[\]\n]*)?\]\]")
_TARGET = re.compile(r"\]\(\s*(?:<([^<>\n]+)>|([^\s()<>]+))")
_WEB = re.compile(r"https?://[^\s<>()\[\]\"'`|]+", re.IGNORECASE)
_PATH = re.compile(r"(?<![\w./%:-])[\w.%-][\w./%-]*\.(?:md|markdown|mdx)(?![\w/])", re.IGNORECASE)
_SCHEME = re.compile(r"[a-z][a-z0-9+.-]*:", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class MentionedPage:
    """A page that may be named: by one of `paths`, the likeliest first, or by what it is `called`."""

    paths: tuple[str, ...] = ()
    called: str = ""


def names_in(texts: Iterable[str]) -> tuple[MentionedPage, ...]:
    """Return what may name pages in these texts, each once, as it comes."""
    found: dict[MentionedPage, None] = {}
    for text in texts:
        for named in _in(text[:LONGEST_TEXT]):
            found[named] = None
            if len(found) == MOST_NAMES:
                return tuple(found)
    return tuple(found)


def _in(text: str) -> Iterable[MentionedPage]:
    for match in _OWN.finditer(text):
        yield from _inside(match[1])
    for match in _WIKI.finditer(text):
        if name := " ".join(match[1].split()):
            yield MentionedPage((name,), called=name)
    for match in _TARGET.finditer(text):
        target = match[1] or match[2]
        if not _SCHEME.match(target) and not target.startswith("//"):
            yield from _inside(target.partition("#")[0].partition("?")[0])
    for match in _WEB.finditer(text):
        yield from _on_the_web(match[0])
    for match in _PATH.finditer(_TARGET.sub(" ", _WEB.sub(" ", text))):
        yield from _inside(match[0])


def _inside(written: str) -> Iterable[MentionedPage]:
    """Yield a path within the knowledge base; who writes it from another folder begins with dots."""
    path = unquote(written).rstrip(".,;:!?").lstrip("./")
    if path and len(path) <= LONGEST_NAME:
        yield MentionedPage((path,))


def _on_the_web(url: str) -> Iterable[MentionedPage]:
    """Yield the ends of a link to a Markdown file: somewhere in it the path within the knowledge base begins."""
    try:
        path = unquote(urlsplit(url.rstrip(".,;:!?")).path).strip("/")
    except ValueError:
        return
    parts = path.split("/")[-DEEPEST:]
    # A file's name alone says too little: there is a README.md everywhere.
    ends = tuple("/".join(parts[at:]) for at in range(len(parts) - 1))
    if ends and is_markdown(path) and len(ends[0]) <= LONGEST_NAME:
        yield MentionedPage(ends)
