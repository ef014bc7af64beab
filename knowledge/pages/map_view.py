"""Entries of a map of the knowledge base, one line per child, and derived titles and summaries. Pure."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from knowledge.pages.paths import without_suffix

NAMED_CHILDREN = 3
"""How many children a derived summary names."""
EMPTY_SUMMARY = "Empty."
SHORT_SUMMARY = 60
_SEPARATORS = re.compile(r"[_\-]+")
_DATE = re.compile(r"^(\d{4})-(\d\d)-(\d\d)(?=$|[-_ ])")


# Not frozen, although nothing changes one: a map makes up to a hundred, and a frozen one takes ten times as long to make.
@dataclass(slots=True)
class MapEntry:
    """One child of a directory. `count` is the number of documents in it; `modified` is ISO 8601 in UTC, None if unknown."""

    name: str
    path: str
    title: str
    kind: Literal["directory", "document"]
    summary: str
    count: int
    modified: str | None

    def with_summary(self, summary: str) -> MapEntry:
        """Return the same child with that summary."""
        return MapEntry(self.name, self.path, self.title, self.kind, summary, self.count, self.modified)


def readable(name: str) -> str:
    """Return a file or folder name as a title: `release_check-list.md` becomes `Release check list`; dates keep their dashes."""
    bare = without_suffix(name)
    date = _DATE.match(bare)
    head = date[0] if date else ""
    words = " ".join(_SEPARATORS.sub(" ", bare[len(head) :]).split())
    title = f"{head} {words}".strip()
    return title[:1].upper() + title[1:] if title else name


def short_summary(summary: str) -> str:
    """Return the summary cut after a word; the summary itself if it is short."""
    if len(summary) <= SHORT_SUMMARY:
        return summary
    head = summary[: SHORT_SUMMARY - 3]
    return head[: head.rfind(" ") if " " in head else len(head)].rstrip(" ,;:-") + "..."


def describe_directory(entries: Sequence[MapEntry]) -> str:
    """Return a one-line summary for a directory without an `_index.md`: the first few titles. Its entry has the count."""
    if not entries:
        return EMPTY_SUMMARY
    more = " and more" if len(entries) > NAMED_CHILDREN else ""
    return ", ".join(entry.title for entry in entries[:NAMED_CHILDREN]) + more
