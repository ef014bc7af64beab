"""The stored form of outbox entries and mentions, and the rules that every engine applies to them. Pure."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any, Final

from knowledge.history.acts import storable
from knowledge.history.timestamps import aware, moment, moment_if_any
from knowledge.outbox.ports import Fate, Mention, OutboxEntry

OPEN: Final = ("begun", "unsure")
"""The fates of outbox entries whose act may still happen, or may have happened."""
OVER: Final = ("done", "failed")
KEPT = timedelta(days=90)
"""How long an outbox entry is kept after it ended."""
MENTIONS_OF_A_PAGE = 50
MENTIONS_IN_ALL = 50_000
"""The most mentions of one page, and of all pages. Strangers write them, so they must not be able to fill the database."""
LONGEST_TITLE = 300


def new_entry(outbox_entry: OutboxEntry) -> OutboxEntry:
    """Return a new outbox entry in the form in which it is stored.

    Raises:
        ValueError: it has no id, its time has no zone, or it has ended already: a bug in the caller.
    """
    e = outbox_entry
    if not e.id or e.fate != "begun" or e.ended_at is not None or e.result is not None:
        raise ValueError("a new outbox entry has an id, and neither an end nor a result")
    aware(e.begun_at)
    principal, tool, target = storable(e.principal), storable(e.tool), storable(e.target)
    return replace(e, principal=principal, tool=tool, target=target, marks=storable_marks(e.marks))


def storable_marks(marks: Mapping[str, str]) -> dict[str, str]:
    """Return the marks, with characters replaced that some database can't store."""
    return {storable(name): storable(value) for name, value in marks.items()}


def ended_entry(outbox_entry: OutboxEntry, fate: Fate, at: datetime, result: str | None) -> OutboxEntry | None:
    """Return the outbox entry with that end; None if it stays unchanged.

    Raises:
        ValueError: `fate` is `begun`, or the time has no zone: a bug in the caller.
    """
    if fate == "begun":
        raise ValueError("an outbox entry does not end as begun")
    aware(at)
    # An unsure act may still turn out as done or failed; after that nothing changes.
    if outbox_entry.fate in (fate, *OVER):
        return None
    return replace(outbox_entry, fate=fate, ended_at=at, result=None if result is None else storable(result))


def marks_text(marks: Mapping[str, str]) -> str:
    """Return marks as JSON in ASCII, which every database stores unchanged."""
    return json.dumps(dict(marks), sort_keys=True, separators=(",", ":"))


def mark_text(name: str) -> str:
    """Return a text that is in `marks_text` if there is a mark of that name.

    The value of another mark may have the text too.
    """
    return f"{json.dumps(name)}:"


def outbox_entry_of(row: Sequence[Any]) -> OutboxEntry:
    """Return the outbox entry in a row: its fields in their order, marks as JSON."""
    id_, principal, tool, target, digest, begun_at, proposal, arguments_hash, marks, fate, result, ended_at = row
    act = (id_, principal, tool, target, digest, moment(begun_at), proposal, arguments_hash, json.loads(marks))
    return OutboxEntry(*act, fate, result, moment_if_any(ended_at))


def newest_mentions(mentions: Sequence[Mention]) -> list[Mention]:
    """Return the mentions in the form in which they are stored, sorted.

    For each page and origin only the newest is returned; of equally old ones, the last.
    """
    found: dict[tuple[str, str], Mention] = {}
    for mention in mentions:
        aware(mention.at)
        path, origin, url = storable(mention.path), storable(mention.origin), storable(mention.url)
        stored = Mention(path, origin, storable(mention.title)[:LONGEST_TITLE], url, mention.at)
        known = found.get((stored.path, stored.origin))
        if known is None or known.at <= stored.at:
            found[stored.path, stored.origin] = stored
    return [found[key] for key in sorted(found)]
