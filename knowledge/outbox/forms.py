"""The forms in which engines keep outbox entries and mentions, and the few rules that are the same in all of them. Pure."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any, Final

from knowledge.history.acts import storable
from knowledge.history.timestamps import aware
from knowledge.outbox.ports import Fate, Mention, OutboxEntry

OPEN: Final = ("begun", "unsure")
"""The fates of outbox entries of which nobody knows whether they happened."""
OVER: Final = ("done", "failed")
KEPT = timedelta(days=90)
"""How long an outbox entry is kept after it ended."""
MENTIONS_OF_A_PAGE = 50
MENTIONS_IN_ALL = 50_000
"""What names a page is told by strangers: neither one page nor all of them may fill the database."""
LONGEST_TITLE = 300


def fresh(outbox_entry: OutboxEntry) -> OutboxEntry:
    """Return the outbox entry as it is kept when it begins.

    Raises:
        ValueError: it has no id, or no zone in its time, or it has ended already: a mistake of the caller.
    """
    if (
        not outbox_entry.id
        or outbox_entry.fate != "begun"
        or outbox_entry.ended_at is not None
        or outbox_entry.result is not None
    ):
        raise ValueError("an outbox entry begins with an id, and without an end")
    aware(outbox_entry.begun_at)
    return replace(
        outbox_entry,
        principal=storable(outbox_entry.principal),
        tool=storable(outbox_entry.tool),
        target=storable(outbox_entry.target),
        marks=kept_marks(outbox_entry.marks),
    )


def kept_marks(marks: Mapping[str, str]) -> dict[str, str]:
    """Return marks so that every database keeps them."""
    return {storable(name): storable(value) for name, value in marks.items()}


def ended(outbox_entry: OutboxEntry, fate: Fate, at: datetime, result: str | None) -> OutboxEntry | None:
    """Return the outbox entry as that end leaves it; None if it stays as it is.

    Raises:
        ValueError: no outbox entry ends as begun, or the time has no zone: a mistake of the caller.
    """
    if fate == "begun":
        raise ValueError("an outbox entry does not end as begun")
    aware(at)
    if outbox_entry.fate in (fate, *OVER):
        return None
    return replace(outbox_entry, fate=fate, ended_at=at, result=None if result is None else storable(result))


def marks_text(marks: Mapping[str, str]) -> str:
    """Return marks as JSON. ASCII, so that every database keeps every character."""
    return json.dumps(dict(marks), sort_keys=True, separators=(",", ":"))


def mark_text(name: str) -> str:
    """Return what stands in the JSON of marks of which one has that name; a value of another may hold it, too."""
    return f"{json.dumps(name)}:"


def outbox_entry_of(row: Sequence[Any]) -> OutboxEntry:
    """Return the outbox entry in a row: its fields in their order, marks as JSON."""
    *first, marks, fate, result, ended_at = row
    fields: Any = (*first, json.loads(marks), fate, result, ended_at)
    return OutboxEntry(*fields)


def kept_mention(mention: Mention) -> Mention:
    """Return the mention as it is kept."""
    aware(mention.at)
    return replace(
        mention,
        path=storable(mention.path),
        origin=storable(mention.origin),
        title=storable(mention.title)[:LONGEST_TITLE],
        url=storable(mention.url),
    )


def newest(mentions: Sequence[Mention]) -> list[Mention]:
    """Return of each page and origin the newest, of equally old ones the last, in one order everywhere."""
    found: dict[tuple[str, str], Mention] = {}
    for mention in map(kept_mention, mentions):
        known = found.get((mention.path, mention.origin))
        if known is None or known.at <= mention.at:
            found[mention.path, mention.origin] = mention
    return [found[key] for key in sorted(found)]
