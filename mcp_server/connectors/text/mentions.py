"""Finds page names in texts from elsewhere: `kb:guides/trust`, `[[Trust]]`, paths, and links that end in a path. Pure.

This module does not know which pages exist, so everything that it finds is only a candidate.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from urllib.parse import unquote, urlsplit

from knowledge.pages.paths import is_markdown

MOST_NAMES = 50
"""The most names in all texts of one call together. A text that names more pages cites none of them in particular."""
LONGEST_TEXT = 200_000
LONGEST_NAME = 300
DEEPEST = 8
"""How many folders of a link may belong to the page's path."""

# Strangers write these texts, so each pattern takes time in proportion to the length of any text (a test holds that).
_KB = re.compile(r"(?<![\w/:])kb:(?://doc/)?([^\s<>()\[\]\"'`|#?]+)", re.IGNORECASE)
_WIKI = re.compile(r"\[\[([^\[\]\n|#]{1,300})(?:[|#][^\[\]\n]*)?\]\]")
_TARGET = re.compile(r"\]\(\s*(?:<([^<>\n]+)>|([^\s()<>]+))")
_WEB = re.compile(r"https?://[^\s<>()\[\]\"'`|]+", re.IGNORECASE)
_PATH = re.compile(r"(?<![\w./%:-])[\w.%-][\w./%-]*\.(?:md|markdown|mdx)(?![\w/])", re.IGNORECASE)
_SCHEME = re.compile(r"[a-z][a-z0-9+.-]*:", re.IGNORECASE)
_SENTENCE_ENDS = ".,;:!?"


@dataclass(frozen=True, slots=True)
class MentionedPage:
    """A page that may be meant: at one of `paths`, the likeliest first, or with this `title`."""

    paths: tuple[str, ...] = ()
    title: str = ""


def mentions_in(texts: Iterable[str]) -> tuple[MentionedPage, ...]:
    """Return the pages that these texts may name, each once, at most MOST_NAMES."""
    found: dict[MentionedPage, None] = {}
    for text in texts:
        for mention in _find(text[:LONGEST_TEXT]):
            found[mention] = None
            if len(found) == MOST_NAMES:
                return tuple(found)
    return tuple(found)


def _find(text: str) -> Iterable[MentionedPage]:
    for match in _KB.finditer(text):
        yield from _local(match[1])
    for match in _WIKI.finditer(text):
        if name := " ".join(match[1].split()):
            yield MentionedPage((name,), title=name)
    for match in _TARGET.finditer(text):
        target = match[1] or match[2]
        if not _SCHEME.match(target) and not target.startswith("//"):
            yield from _local(target.partition("#")[0].partition("?")[0])
    for match in _WEB.finditer(text):
        yield from _on_the_web(match[0])
    # Without links, whose paths were found above and would be found again here in pieces.
    for match in _PATH.finditer(_TARGET.sub(" ", _WEB.sub(" ", text))):
        yield from _local(match[0])


def _local(written: str) -> Iterable[MentionedPage]:
    # A link from a page in another folder begins with `./` or `../`.
    path = unquote(written).rstrip(_SENTENCE_ENDS).lstrip("./")
    if path and len(path) <= LONGEST_NAME:
        yield MentionedPage((path,))


def _on_the_web(url: str) -> Iterable[MentionedPage]:
    """Yield the ends of a link to a Markdown file, longest first: one of them may be the path in the knowledge base."""
    try:
        path = unquote(urlsplit(url.rstrip(_SENTENCE_ENDS)).path).strip("/")
    except ValueError:
        return
    parts = path.split("/")[-DEEPEST:]
    # Not the file's name alone: there is a README.md everywhere.
    ends = tuple("/".join(parts[at:]) for at in range(len(parts) - 1))
    if ends and is_markdown(path) and len(ends[0]) <= LONGEST_NAME:
        yield MentionedPage(ends)
