"""Which lines of a front matter are searched: those that say what a page is about."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

MOST_LINES, MOST_CHARACTERS = 60, 2_000
_KEY = re.compile(r"([^\s#-][^:]{0,80}?)[ \t]*:(?:[ \t]+(.*))?$")
"""A key of any letters and signs at the beginning of a line, and what follows on that line."""
_SAYS_NOTHING = re.compile(r"[\s\[\]{}|>~'\"+-]*(?:true|false|yes|no|null)?[\s\]'\"]*", re.IGNORECASE)
_KNOWN_OTHERWISE = frozenset((
    "title", "aliases", "alias", "kind", "type", "lang", "language", "source", "untrusted", "append", "exclude", "merge", "router",
))  # fmt: skip
"""Properties that are names of the page, that hits are filtered by, or that say how the server treats the page."""
_ABOUT_THE_FILE = frozenset((
    # How and where a page is shown.
    "ads", "aside", "banner", "bookcollapsesection", "bookhidden", "canary", "cascade", "comments", "content_type", "cover",
    "displayed_sidebar", "draft", "editlink", "excerpt_separator", "footer", "grand_parent", "has_children", "has_toc", "head",
    "header", "headless", "hero", "hidden", "hide", "icon", "id", "identifier", "image", "images", "index", "kanban-plugin",
    "layout", "link_title", "linktitle", "locale", "markup", "math", "mathjax", "menu", "menutitle", "nav", "navigation", "next",
    "no-loc", "no_list", "noindex", "original_id", "outline", "outputs", "page", "pageclass", "params", "parent", "permalink",
    "prev", "private", "publish", "published", "returntotop", "robots", "schema", "search", "simple_list", "sitemap", "slug",
    "sort", "spelling", "template", "theme", "thumbnail", "titlefortitletag", "titletemplate", "toc", "translationkey", "uid",
    "uri", "url", "urls", "weight",
    # When the page was written, which is not what it is about.
    "created", "created_at", "created-at", "creation-date", "creation_date", "ctime", "date", "date created", "date modified",
    "date_created", "date_modified", "expirydate", "last-updated", "last_modified", "last_modified_at", "last_updated", "lastmod",
    "modified", "modified_at", "mtime", "publishdate", "pubdate", "update", "updated", "updated-at", "updated_at",
))  # fmt: skip
"""Properties whose values would be found instead of the pages that are about them: `layout: default`."""
_OF_PROGRAMS = (
    "_", "cspell", "css", "default_lang", "download help", "excalidraw", "external help", "help version", "hide_", "killercoda",
    "meta_", "module ", "ms.", "nav_", "og:", "og_", "online version", "pagination", "redirect_", "render_", "show_", "sidebar",
    "sort_", "toc_", "tocdepth",
)  # fmt: skip
"""How the names of further such properties begin."""
_SECRET = re.compile(r"passw|passphrase|secret|token|api[-_ ]?key")


def searched_lines(block: Sequence[str]) -> Sequence[int]:
    """Return the lines of a front matter, from 0, that say what the page is about: `author: Susanna Clarke`.

    Left out are properties that the server reads itself, that say how a page is shown or when it was written, secrets, and those
    without a value or with just true or false. At most `MOST_LINES` of at most `MOST_CHARACTERS` characters.
    """
    found: list[int] = []
    left = MOST_CHARACTERS
    for key, numbers, values in _entries(block):
        if _is_about_the_subject(key.casefold().strip("\"'")) and not all(map(_SAYS_NOTHING.fullmatch, values)):
            size = sum(len(block[number]) for number in numbers)
            if size <= left:
                left -= size
                found += numbers
    return found[:MOST_LINES]


def _is_about_the_subject(key: str) -> bool:
    return (
        key not in _KNOWN_OTHERWISE
        and key not in _ABOUT_THE_FILE
        and not key.startswith(_OF_PROGRAMS)
        and not _SECRET.search(key)
    )


def _entries(block: Sequence[str]) -> Iterator[tuple[str, list[int], list[str]]]:
    """Yield each property's key, its lines, and what stands on them behind the key."""
    key, numbers, values = "", list[int](), list[str]()
    for number, line in enumerate(block):
        if pair := _KEY.match(line):
            if key:
                yield key, numbers, values
            key, numbers, values = pair[1], [number], [pair[2] or ""]
        elif not line.startswith("#"):
            numbers.append(number)
            values.append(line)
    if key:
        yield key, numbers, values
