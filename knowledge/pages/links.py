"""Resolves links: the path that is written in a link, and the pages that it may mean. Pure.

The path of a link is resolved relative to its page, then to the root of the knowledge base; without a suffix it may mean a
page or a folder's index. A wiki link names a file as in Obsidian, ignoring case: by its path from the root, by the end of its path
(`[[folder/page]]`), or by its name alone. If no file has that name, it means the page with that title or alias.
"""

from __future__ import annotations

import re
import unicodedata
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

    `exists` says whether a file or a folder has that path ("" is the root, which exists). `called` returns the files
    that a wiki link of that name may mean, ignoring case: pages by file name without suffix, title or alias, others by
    file name. With `by_name`, an ordinary link is looked up by name too if there is nothing at its path, as Obsidian
    does.
    """

    exists: Callable[[str], bool]
    called: Callable[[str], Sequence[str]] = lambda _: ()
    by_name: bool = False


def resolve_path(page: str, path: str, names: LinkTargets, *, wiki: bool) -> str | None:
    """Return the path that a link of `page` with this `path` leads to, or None.

    Of several files with the name, it is the nearest.
    """
    if not wiki or "/" in path:
        meanings = _meanings_of_wiki_path(page, path) if wiki else _meanings(page, path)
        if (found := next((meaning for meaning in meanings if names.exists(meaning)), None)) is not None:
            return found
        if not wiki and not names.by_name:
            return None
    if named := called_by(page, path, names):
        return named[0]
    if "/" in path:
        return None
    return next((meaning for meaning in _meanings_of_wiki_path(page, path) if names.exists(meaning)), None)


def called_by(page: str, path: str, names: LinkTargets) -> list[str]:
    """Return the files that a link of `page` names with `path`, the nearest first; only those of the best kind.

    Pages by their file name come before other files, and these before pages by title or alias.
    """
    wanted = path
    if path.startswith(("/", "./", "../")):
        wanted = joined(parent(page), path) or ""
    last = wanted.rpartition("/")[2]
    found = names.called(without_suffix(last)) if last else ()
    whole, here = _key(without_suffix(wanted)), parent(page)
    ranks: dict[int, list[str]] = {}
    for one in dict.fromkeys(found):
        own, asked = (_key(without_suffix(one)), whole) if is_markdown(one) else (_key(one), _key(wanted))
        if own == asked or (wanted == path and own.endswith(f"/{asked}")):
            ranks.setdefault(0 if is_markdown(one) else 1, []).append(one)
        elif "/" not in path and is_markdown(one):
            ranks.setdefault(2, []).append(one)
    best = ranks[min(ranks)] if ranks else []
    # From the root, `a/b` is that very page and not the one at `x/a/b`.
    rooted = [one for one in best if "/" in wanted and _key(without_suffix(one)) == whole]
    return rooted or sorted(best, key=lambda one: (parent(one) != here, len(one), one))


def _key(path: str) -> str:
    return " ".join(unicodedata.normalize("NFC", path).casefold().split())


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


def _meanings_of_wiki_path(page: str, path: str) -> Iterator[str]:
    """Yield the paths that a wiki link of `page` may mean, in the order of preference."""
    directories = [parent(page)] if path.startswith(("/", "./", "../")) else ["", parent(page)]
    for directory in directories:
        yield from _wiki_meanings(joined(directory, path))


def _wiki_meanings(path: str | None) -> Iterator[str]:
    if path and not is_markdown(path):
        yield from (path + suffix for suffix in MARKDOWN_SUFFIXES)
    if path:
        yield path
        yield f"{path}/{INDEX_NAME}"
