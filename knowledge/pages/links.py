"""Resolves links: the path that is written in a link, and the pages that it may mean. Pure.

The path of a link is resolved relative to its page, then to the root of the knowledge base; without a suffix it may mean a
page or a folder's index. A wiki link names a page by file name, title or alias, or by its path from the root.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from html import unescape
from typing import Literal
from urllib.parse import unquote

from knowledge.pages.paths import INDEX_NAME, MARKDOWN_SUFFIXES, is_markdown, joined, parent, without_suffix

LinkForm = Literal["inline", "image", "definition", "wiki", "embed", "auto", "html"]

_ESCAPE = re.compile(r"\\([!-/:-@\[-`{-~])")
_PATH_PART = re.compile(r"(?:&#?\w{1,32};|[^#?&]|&)*+")


@dataclass(frozen=True, slots=True)
class LinkTargets:
    """The possible targets of links.

    `exists` says whether a file or a folder has that path ("" is the root, which exists). `called` returns the pages that a
    wiki link of that name may mean: by file name without suffix, title or alias, ignoring case.
    """

    exists: Callable[[str], bool]
    called: Callable[[str], Sequence[str]] = lambda _: ()


def resolve_path(page: str, path: str, names: LinkTargets, *, wiki: bool) -> str | None:
    """Return the path that a link of `page` with this `path` leads to, or None; if several pages have the name, the nearest."""
    if not wiki:
        return next((meaning for meaning in _meanings(page, path) if names.exists(meaning)), None)
    directories = [parent(page)]
    if not path.startswith(("/", "./", "../")):
        if "/" not in path and (found := names.called(without_suffix(path))):
            return min(found, key=lambda one: (parent(one) != parent(page), one.count("/"), one))
        directories.insert(0, "")
    meanings = (meaning for directory in directories for meaning in _wiki_meanings(joined(directory, path)))
    return next((meaning for meaning in meanings if names.exists(meaning)), None)


def unescaped_path(written: str, form: LinkForm) -> str:
    """Return a written path with escapes, entities and percent encoding resolved; a wiki link has none of these."""
    if form in ("wiki", "embed"):
        return written.strip()
    if form not in ("html", "auto") and "\\" in written:
        written = _ESCAPE.sub(r"\1", written)
    if "&" in written:
        written = unescape(written)
    return unquote(written) if "%" in written else written


def path_length(written: str, *, wiki: bool) -> int:
    """Return how much of a written target is its path, without the anchor."""
    if wiki:
        path = written.partition("#")[0]
        # In a table the bar before the words shown is escaped.
        return len(path.rstrip().removesuffix("\\").rstrip())
    found = _PATH_PART.match(written)
    length = found.end() if found else len(written)
    return length - (length < len(written) and written.endswith("\\", 0, length))


def _meanings(page: str, path: str) -> Iterator[str]:
    """Yield the paths that an ordinary link of `page` may mean, in the order of preference."""
    if not path.startswith("/") and (beside := joined(parent(page), path)) is not None:
        yield from in_order(beside)
    if (from_root := joined("", path)) is not None:
        yield from in_order(from_root)


def in_order(path: str) -> Iterator[str]:
    """Yield the files that an ordinary link to `path` may mean, in the order of preference."""
    if not is_markdown(path):
        yield f"{path}/{INDEX_NAME}" if path else INDEX_NAME
        if path:
            yield from (path + suffix for suffix in MARKDOWN_SUFFIXES)
    yield path


def _wiki_meanings(path: str | None) -> Iterator[str]:
    if path and not is_markdown(path):
        yield from (path + suffix for suffix in MARKDOWN_SUFFIXES)
    if path:
        yield path
        yield f"{path}/{INDEX_NAME}"
