"""Entries of a map of the knowledge base, one line per child, and derived titles and summaries. Pure."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import accumulate
from typing import Literal

from knowledge.pages.paths import without_suffix

NAMED_CHILDREN = 3
"""How many children a derived summary names."""
EMPTY_SUMMARY = "Empty."
SHORT_SUMMARY = 60
ENTRY_CHARACTERS = 105
"""Characters of a JSON entry in addition to its name, path, title and summary: field names, kind, count and time."""
_SEPARATORS = re.compile(r"[_\-]+")
_DATE = re.compile(r"^(\d{4})-(\d\d)-(\d\d)(?=$|[-_ ])")


@dataclass(frozen=True, slots=True)
class MapEntry:
    """One child of a directory. `count` is the number of documents in it; `modified` is ISO 8601 in UTC, None if unknown."""

    name: str
    path: str
    title: str
    kind: Literal["directory", "document"]
    summary: str
    count: int
    modified: str | None


def readable(name: str) -> str:
    """Return a file or folder name as a title: `release_check-list.md` becomes `Release check list`; dates keep their dashes."""
    bare = without_suffix(name)
    date = _DATE.match(bare)
    head = date[0] if date else ""
    words = " ".join(_SEPARATORS.sub(" ", bare[len(head) :]).split())
    title = f"{head} {words}".strip()
    return title[:1].upper() + title[1:] if title else name


def entry_tokens(entry: MapEntry) -> int:
    """Return roughly how many tokens the entry takes in an answer."""
    text = len(entry.name) + len(entry.path) + len(entry.title) + len(entry.summary)
    return (text + ENTRY_CHARACTERS) // 4


def within_tokens(entries: Sequence[MapEntry], tokens: int, *, most: int) -> list[MapEntry]:
    """Return the entries with summaries shortened, or dropped, until they fit into `tokens`.

    Without summaries they may take up to `most` tokens; only beyond that are the last entries dropped. Names are never cut.
    """
    if sum(map(entry_tokens, entries)) <= tokens:
        return list(entries)
    short = [replace(entry, summary=_cut(entry.summary)) for entry in entries]
    if sum(map(entry_tokens, short)) <= tokens:
        return short
    bare = [replace(entry, summary="") for entry in entries]
    costs = list(accumulate(map(entry_tokens, bare)))
    return bare[: bisect_right(costs, most)]


def _cut(summary: str) -> str:
    if len(summary) <= SHORT_SUMMARY:
        return summary
    head = summary[: SHORT_SUMMARY - 3]
    return head[: head.rfind(" ") if " " in head else len(head)].rstrip(" ,;:-") + "..."


def describe_directory(entries: Sequence[MapEntry]) -> str:
    """Return a one-line summary for a directory without an `_index.md`: counts, then the first few titles."""
    documents = sum(entry.count for entry in entries)
    folders = sum(entry.kind == "directory" for entry in entries)
    if not entries:
        return EMPTY_SUMMARY
    parts = [_number(documents, "document")] if documents or not folders else []
    if folders:
        parts.append(_number(folders, "folder"))
    shown = ", ".join(entry.title for entry in entries[:NAMED_CHILDREN])
    more = ", ..." if len(entries) > NAMED_CHILDREN else ""
    return f"{' in '.join(parts)}: {shown}{more}"


def _number(count: int, noun: str) -> str:
    return f"{count} {noun}" + ("" if count == 1 else "s")
