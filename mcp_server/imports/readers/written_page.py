"""Pages that an import writes itself, because the source has no Markdown: front matter, headings, links. Pure."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from urllib.parse import quote

from knowledge.pages.paths import without_suffix

_BREAKS = re.compile(r"[\x00-\x1f\x7f\u2028\u2029]+")
_NOT_IN_WIKI = re.compile(r"[\[\]|#^\n\\]")
_MARKUP = re.compile(r"([\\`*_\[\]<>])")


def front_matter(values: Mapping[str, object]) -> str:
    """Return front matter with these values; those that are empty are left out."""
    lines = [
        f"{key}: {json.dumps(value, ensure_ascii=False)}"
        for key, value in values.items()
        if value not in ("", [], None)
    ]
    return "\n".join(["---", *lines, "---", ""]) if lines else ""


def one_line(text: str) -> str:
    """Return the text on one line, without characters that would end it."""
    return " ".join(_BREAKS.sub(" ", text).split())


def heading(text: str, level: int = 1) -> str:
    """Return a heading that shows exactly this text."""
    return f"{'#' * level} {_MARKUP.sub(_escaped, one_line(text))}"


def list_item(text: str) -> str:
    """Return a list item; further lines of the text belong to it."""
    first, *rest = text.strip().splitlines() or [""]
    return "\n".join([f"- {first}", *(f"  {line}" if line.strip() else "" for line in rest)])


def link_to(path: str, shown: str, *, beside: bool) -> str:
    """Return a link to the page at `path`: by name if the page is in the same folder and has a plain name, else by its path."""
    stem, words = without_suffix(path.rpartition("/")[2]), one_line(shown)
    if beside and not _NOT_IN_WIKI.search(stem) and not _NOT_IN_WIKI.search(words):
        return f"[[{stem}]]" if stem == words else f"[[{stem}|{words}]]"
    target = stem + path[len(without_suffix(path)) :] if beside else f"/{path}"
    return f"[{_MARKUP.sub(_escaped, words)}]({quote(target)})"


def page_text(front: Mapping[str, object], title: str, parts: Sequence[str]) -> bytes:
    """Return a page: front matter, the title, and these blocks with blank lines between them."""
    blocks = [heading(title), *(part.strip("\n") for part in parts if part.strip())]
    head = front_matter(front)
    return (f"{head}\n" if head else "").encode() + ("\n\n".join(blocks) + "\n").encode("utf-8", "replace")


def _escaped(found: re.Match[str]) -> str:
    return "\\" + found[1]
