"""Publishing change events in PostgreSQL, within whichever transaction they belong to."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta

from knowledge.storage.postgres_tables import Part

EVENTS_KEPT = timedelta(days=1)
EVENTS_PRUNED_AT_ONCE = 64

_PUBLISH = """
WITH counted AS (
    UPDATE forge.counter SET seq = seq + cardinality(%(keys)s::text[]) RETURNING seq
), added AS (
    INSERT INTO forge.event (seq, topic, key)
    SELECT seq - cardinality(%(keys)s::text[]) + position, %(topic)s, key
    FROM counted, unnest(%(keys)s::text[]) WITH ORDINALITY AS told (key, position)
), pruned AS (
    DELETE FROM forge.event
    WHERE published_at < now() - %(kept)s::interval
    AND seq IN (SELECT seq FROM forge.event ORDER BY seq LIMIT cardinality(%(keys)s::text[]) + %(pruned)s)
)
SELECT seq, pg_notify(%(channel)s, seq::text) FROM counted
"""


def publishing(topic: str, keys: Sequence[str], channel: str) -> Part:
    """Return what adds one event a key, at least one, and wakes who listens; its row begins with the newest `seq`."""
    values = {
        "topic": topic,
        "keys": list(keys),
        "kept": EVENTS_KEPT,
        "pruned": EVENTS_PRUNED_AT_ONCE,
        "channel": channel,
    }
    return _PUBLISH, values
