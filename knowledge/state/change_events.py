"""Publishing change events in the transaction that they belong to. Events are kept for a day."""

from __future__ import annotations

from collections.abc import Sequence

import apsw

from knowledge.state.tables import Row, SqlPair

KEPT_S = 24 * 3600
PRUNED_AT_ONCE = 64


def publish_in_sqlite(c: apsw.Connection, topic: str, keys: Sequence[str]) -> list[Row]:
    """Do what `PUBLISH` does."""
    c.executemany("INSERT INTO event (topic, key) VALUES (?, ?)", [(topic, key) for key in keys])
    newest = c.last_insert_rowid()
    c.execute(
        "DELETE FROM event WHERE at_s < unixepoch() - ? AND seq IN (SELECT seq FROM event ORDER BY seq LIMIT ?)",
        # More than were added, so that old events are used up, and few enough that no publisher waits for it.
        (KEPT_S, len(keys) + PRUNED_AT_ONCE),
    )
    return [(newest,)]


PUBLISH_ARGUMENTS = f"make_interval(secs => {KEPT_S}), {PRUNED_AT_ONCE}, 'forge'"
"""The last arguments of each stored function that publishes an event. The channel of listeners has the name of the schema."""
PUBLISH = SqlPair(publish_in_sqlite, f"SELECT forge.publish(%s, %s::text[], {PUBLISH_ARGUMENTS})")
"""Add one event for each key, at least one, and wake listeners; its row is the newest `seq`. A few old events are deleted."""
