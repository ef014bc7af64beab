"""Paths for pages and attachments from elsewhere: names that every file system takes, each used once. Pure."""

from __future__ import annotations

import re
import unicodedata

from knowledge.errors import InvalidPath
from knowledge.pages.paths import ACTING, LONGEST_PATH, clean_path, file_system_key, is_hidden, new_name
from knowledge.writing.files.file_set import require_nameable
from mcp_server.imports.model import RenamedFile

LONGEST_NAME_BYTES = 200
"""Most file systems take 255 bytes; the rest is for the names of files that are staged beside a page."""
_LONGEST_SUFFIX = 12
_NOT_IN_NAMES = re.compile(f'[{ACTING}\t\n\\\\/:*?"<>|#^\\[\\]\ud800-\udfff]+')
"""What Windows forbids in names, what acts on a terminal, and what a wiki link can't contain."""


def is_usable(path: str) -> bool:
    """Return whether a new file may have exactly this path, on every system that people copy knowledge bases to."""
    try:
        require_nameable(path)
        return clean_path(new_name(path)) == path and all(_size(part) <= 255 for part in path.split("/"))
    except InvalidPath:
        return False


def usable_name(name: str) -> str:
    """Return the name of a file or folder that is most like `name` and can be used everywhere."""
    text = " ".join(_NOT_IN_NAMES.sub(" ", unicodedata.normalize("NFC", name)).split())
    stem, dot, suffix = text.rpartition(".")
    if not dot or not stem or len(suffix) > _LONGEST_SUFFIX or " " in suffix:
        stem, suffix = text, ""
    room = LONGEST_NAME_BYTES - _size(suffix) - 1
    # File systems limit names in bytes (`ignore` drops half a character at the cut), and Windows allows no dot or blank at the end.
    stem = stem.encode()[:room].decode("utf-8", "ignore").rstrip(". ") or "page"
    text = f"{stem}.{suffix}" if suffix else stem
    if is_hidden(text):
        text = f"_{text.lstrip('.')}"
    try:
        require_nameable(text)
    except InvalidPath:
        text = f"_{text.rstrip('. ')}"
    return text


def usable_path(path: str) -> str:
    """Return the path that is most like `path` and can be used everywhere."""
    parts = [usable_name(part) for part in path.replace("\\", "/").split("/") if part not in ("", ".", "..")]
    while len("/".join(parts)) > LONGEST_PATH // 2 and len(parts) > 1:
        del parts[len(parts) // 2]
    return "/".join(parts) or "page"


class FreePaths:
    """Hands out each path once, also on file systems that ignore case. `renamed` has those that differ from the wanted paths."""

    def __init__(self) -> None:
        self._taken: set[str] = set()
        self.renamed: list[RenamedFile] = []

    def free(self, path: str, wanted: str = "") -> str:
        """Return `path`, with a number before its suffix if that path was handed out before; `wanted` is the name in the source."""
        above, slash, name = path.rpartition("/")
        stem, dot, suffix = name.rpartition(".")
        if not stem:
            stem, dot, suffix = name, "", ""
        number, found = 1, path
        while (key := _key(found)) in self._taken:
            number += 1
            found = f"{above}{slash}{stem} {number}{dot}{suffix}"
        self._taken.add(key)
        if found != (wanted or path):
            self.renamed.append(RenamedFile(wanted or path, found))
        return found


def _key(path: str) -> str:
    return "/".join(file_system_key(part) for part in path.split("/"))


def _size(text: str) -> int:
    return len(text.encode("utf-8", "surrogatepass"))
