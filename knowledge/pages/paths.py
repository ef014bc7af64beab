"""Paths in a knowledge base: relative, with `/`, never outside it, never hidden. Pure."""

from __future__ import annotations

import re
import unicodedata
from typing import NamedTuple

from knowledge.errors import InvalidPath

MARKDOWN_SUFFIXES = (".md", ".markdown", ".mdx")
INDEX_NAME = "_index.md"
FOLDER_PAGES = frozenset({"_index", "index", "readme"})
"""Names, without suffix and case, of pages that stand for their folder: many folders have one."""
SKIPPED_FOLDERS = frozenset({"node_modules", "__pycache__"})
"""Folders that are skipped because they hold other people's Markdown, in addition to those whose name begins with a dot."""

AGENTS_FOLDER, SKILLS_FOLDER = "_agents", "_skills"
"""Top-level folders whose files configure the server: a team's own agents and skills."""
LEARNINGS_FOLDER = "_learnings"
"""Top-level folder whose pages are given to agents when they start."""

LONGEST_PATH = 1024
HEADING_SEPARATOR = " > "
"""The text between two headings of a heading path, such as `Set up > On Linux`."""

ACTING = "\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069"
"""Characters that make a terminal or a page show something other than the text, written for use inside a regular
expression's brackets: controls except tab and line feed, line and paragraph separators, and directional formatting.
Source: Unicode Standard Annex 9."""
_ACTING = re.compile(f"[{ACTING}\t\n]")
_CONTROL = re.compile("[\x00-\x1f\x7f]")


class PageLink(NamedTuple):
    """A link as the index stores it: its path, without escapes and anchor, and whether it is a wiki link."""

    path: str
    wiki: bool


def clean_path(path: str) -> str:
    """Return `path` relative to the root with single slashes; `""` is the root.

    A leading `./`, doubled slashes, a trailing slash and backslashes (Windows hosts) are accepted.

    Raises:
        InvalidPath: absolute, leaving (`..`), hidden (a part begins with a dot), too long, or with a control character.
    """
    if len(path) > LONGEST_PATH:
        raise InvalidPath(path, f"longer than {LONGEST_PATH} characters")
    if _CONTROL.search(path):
        raise InvalidPath(path, "it has a control character")
    slashed = path.replace("\\", "/")
    if slashed.startswith("/") or (
        len(slashed) > 1 and slashed[1] == ":" and slashed[0].isalpha() and slashed[2:3] in ("", "/")
    ):
        raise InvalidPath(path, "paths are relative to the knowledge base, without a leading slash or drive")
    parts = [part for part in slashed.split("/") if part not in ("", ".")]
    for part in parts:
        if part == "..":
            raise InvalidPath(path, "'..' would leave it")
        if is_hidden(part):
            raise InvalidPath(path, f"{part!r} is hidden")
    return "/".join(parts)


def is_clean(path: str) -> bool:
    """Return whether `clean_path` would accept the path and change nothing."""
    try:
        return clean_path(path) == path
    except InvalidPath:
        return False


def new_name(path: str) -> str:
    """Return `path` if a new page may have that name. Existing pages with a bad name can still be read, moved and deleted.

    Raises:
        InvalidPath: it contains a control or bidirectional character, so people would see another name.
    """
    if found := _ACTING.search(path):
        code = f"U+{ord(found[0]):04X}"
        raise InvalidPath(
            path, f"a new name may not contain {code}, a control or bidirectional character; leave it out"
        )
    return path


def is_hidden(name: str) -> bool:
    """Return whether a file or folder of that name is left out of the knowledge base."""
    if name[:1] > "\x7f":
        # Some file systems take a name with invisible characters for the one without them.
        name = name.lstrip("".join({c for c in name if unicodedata.category(c) == "Cf"}))
    return name.startswith(".") or name in SKIPPED_FOLDERS


def is_markdown(name: str) -> bool:
    """Return whether a file of that name is a document."""
    return name.lower().endswith(MARKDOWN_SUFFIXES)


def without_suffix(path: str) -> str:
    """Return `path` without the suffix that makes it a document."""
    return next((path[: -len(suffix)] for suffix in MARKDOWN_SUFFIXES if path.lower().endswith(suffix)), path)


def file_system_key(name: str) -> str:
    """Return `name` as the most lenient file system compares it, so that another spelling is recognised as the same file.

    Ignored are case, the Unicode form, invisible characters, dots and spaces at the end, and everything after a colon
    (on NTFS it names another stream of the same file).
    """
    if name.isascii():
        # The same, in a tenth of the time: rules of folders compare ten thousand paths.
        return name.partition(":")[0].lower().rstrip(". ")
    visible = "".join(c for c in name.partition(":")[0] if unicodedata.category(c) != "Cf")
    # Folding the case can leave a text that is no longer normalised, so it is normalised again.
    return unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", visible).casefold()).rstrip(". ")


def parent(path: str) -> str:
    """Return the directory of `path`; `""` for children of the root."""
    return path.rpartition("/")[0]


def ancestors(path: str) -> list[str]:
    """Return every directory above `path`, nearest first, the root (`""`) last."""
    found = []
    while path:
        path = parent(path)
        found.append(path)
    return found


def joined(directory: str, path: str) -> str | None:
    """Return the target of `path` from `directory`, or from the root if it begins with `/`; None if it leaves the knowledge base."""
    parts = [] if path.startswith("/") or not directory else directory.split("/")
    for part in path.split("/"):
        if part == "..":
            if not parts:
                return None
            parts.pop()
        elif part not in ("", "."):
            parts.append(part)
    return "/".join(parts)


def within(path: str, directory: str) -> bool:
    """Return whether `path` is `directory` or below it."""
    return not directory or path == directory or path.startswith(directory + "/")
