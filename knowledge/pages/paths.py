"""What a path in a knowledge base is: relative, with `/`, never leaving, never hidden. Pure."""

from __future__ import annotations

import re
import unicodedata

from knowledge.errors import InvalidPath

MARKDOWN_SUFFIXES = (".md", ".markdown", ".mdx")
INDEX_NAME = "_index.md"
SKIPPED_FOLDERS = frozenset({"node_modules", "__pycache__"})
"""Folders that hold other people's Markdown; folders whose name begins with a dot are skipped as well."""

AGENTS_FOLDER, SKILLS_FOLDER = "_agents", "_skills"
"""Folders at the top whose files configure the server: a team's own agents and skills."""
LEARNINGS_FOLDER = "_learnings"
"""The folder at the top of whose pages agents are told before they begin."""

LONGEST_PATH = 1024

ACTING = "\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069"
"""What makes a terminal or a page show something else than is written, as inside the brackets of a pattern: controls but tab and line
feed, separators of lines and paragraphs, and characters that set the direction of text. Source: Unicode Standard Annex 9."""
_ACTING = re.compile(f"[{ACTING}\t\n]")


def clean_path(asked: str) -> str:
    """Return `asked` as a relative path with single slashes; `""` is the root.

    A leading `./`, doubled slashes, a trailing slash and backslashes (Windows hosts) are forgiven.

    Raises:
        InvalidPath: absolute, leaving (`..`), hidden (a part begins with a dot), too long, or with a control character.
    """
    if len(asked) > LONGEST_PATH:
        raise InvalidPath(asked, f"longer than {LONGEST_PATH} characters")
    if any(ord(c) < 32 or c == "\x7f" for c in asked):
        raise InvalidPath(asked, "it has a control character")
    slashed = asked.replace("\\", "/")
    if slashed.startswith("/") or (
        len(slashed) > 1 and slashed[1] == ":" and slashed[0].isalpha() and slashed[2:3] in ("", "/")
    ):
        raise InvalidPath(asked, "paths are relative to the knowledge base, without a leading slash or drive")
    parts = [part for part in slashed.split("/") if part not in ("", ".")]
    for part in parts:
        if part == "..":
            raise InvalidPath(asked, "'..' would leave it")
        if is_hidden(part):
            raise InvalidPath(asked, f"{part!r} is hidden")
    return "/".join(parts)


def new_name(path: str) -> str:
    """Return `path` if a page may be given that name. Pages that have such a name already can be read, moved and deleted.

    Raises:
        InvalidPath: with a control or bidirectional character, which would show people another name.
    """
    if found := _ACTING.search(path):
        code = f"U+{ord(found[0]):04X}"
        raise InvalidPath(path, f"a new name may not hold {code}, a control or bidirectional character; leave it out")
    return path


def is_hidden(name: str) -> bool:
    """Return whether a file or folder of that name is not part of the knowledge base."""
    return name.startswith(".") or name in SKIPPED_FOLDERS


def is_markdown(name: str) -> bool:
    """Return whether a file of that name is a document."""
    return name.lower().endswith(MARKDOWN_SUFFIXES)


def folded(name: str) -> str:
    """Return the name as the most forgiving file system takes it, so that one name in another spelling is not another name.

    Case does not count, nor does the Unicode form, nor characters that nobody sees, nor a dot or a blank at the end, nor what
    stands after a colon, which names a stream of the same file.
    """
    seen = "".join(c for c in name.partition(":")[0] if unicodedata.category(c) != "Cf")
    return unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", seen).casefold()).rstrip(". ")


def parent(path: str) -> str:
    """Return the directory that `path` lies in; `""` for the root's children."""
    return path.rpartition("/")[0]


def ancestors(path: str) -> list[str]:
    """Return every directory above `path`, nearest first, the root (`""`) last."""
    found = []
    while path:
        path = parent(path)
        found.append(path)
    return found


def within(path: str, directory: str) -> bool:
    """Return whether `path` is `directory` or lies below it."""
    return not directory or path == directory or path.startswith(directory + "/")
