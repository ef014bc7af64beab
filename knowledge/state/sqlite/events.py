"""Publishing change events in SQLite, within whichever transaction they belong to."""

from __future__ import annotations

from collections.abc import Sequence

import apsw

EVENTS_KEPT_S = 24 * 3600
EVENTS_PRUNED_AT_ONCE = 64


def publish(events: Sequence[tuple[str, str]], c: apsw.Connection) -> int:
    """Add the events, each a topic and a key, at least one, and return the newest `seq`. Old ones may go."""
    c.executemany("INSERT INTO event (topic, key) VALUES (?, ?)", events)
    newest = c.last_insert_rowid()
    c.execute(
        "DELETE FROM event WHERE at_s < unixepoch() - ? AND seq IN (SELECT seq FROM event ORDER BY seq LIMIT ?)",
        (EVENTS_KEPT_S, len(events) + EVENTS_PRUNED_AT_ONCE),
    )
    return newest
