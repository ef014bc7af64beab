"""Says whether JSON, or a sentence of the server, names a page that a caller may not read. Pure.

Texts of pages are left out: a readable page may name a hidden one, and a difference is shown beside the path of its page.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any, Final

from knowledge.access.rules import PathAccess, folder_key
from knowledge.errors import InvalidPath
from knowledge.pages.paths import file_system_key

PATHS: Final = frozenset({"path", "moved_from", "to", "folder", "page", "document"})
"""Fields whose value is a path, if it can be one."""
TEXTS: Final = frozenset({"content", "diff", "text", "block", "base", "ours", "theirs"})
"""Fields with the text of a page."""
_PAGE = re.compile(r"[^\s'\"`<>()\[\]|,;]+\.md\b", re.IGNORECASE)


def names_hidden(value: Any, access: PathAccess, field: str = "") -> bool:
    """Return whether JSON `value`, or what is inside it, names a page or folder that is hidden."""
    if isinstance(value, Mapping):
        return any(names_hidden(inside, access, str(name)) for name, inside in value.items())
    if isinstance(value, list | tuple):
        return any(names_hidden(inside, access, field) for inside in value)
    if not isinstance(value, str) or field in TEXTS:
        return False
    return (field in PATHS and _is_hidden(value, access)) or sentence_names_hidden(value, access)


def json_names_hidden(text: str | None, access: PathAccess) -> bool:
    """Return whether a JSON text names a page or folder that is hidden. A text that retention has shortened counts as a sentence."""
    if not text:
        return False
    try:
        return names_hidden(json.loads(text), access)
    except ValueError:
        return sentence_names_hidden(text, access)


def sentence_names_hidden(text: str, access: PathAccess) -> bool:
    """Return whether a sentence has the path of a hidden page, or a path in a hidden folder."""
    if any(_is_hidden(found.removeprefix("kb:"), access) for found in _PAGE.findall(text)):
        return True
    closed = [f"{key}/" for key, readable in access.reading if key and not readable]
    return bool(closed) and any(folder in file_system_key(text) for folder in closed)


def _is_hidden(path: str, access: PathAccess) -> bool:
    try:
        folder_key(path)
    except InvalidPath:
        return False  # it names no page
    return not access.may_read(path)
