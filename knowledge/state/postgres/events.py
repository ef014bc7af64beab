"""Publishing change events in PostgreSQL, within whichever transaction they belong to."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta

from knowledge.state.postgres.tables import Part

EVENTS_KEPT = timedelta(days=1)
EVENTS_PRUNED_AT_ONCE = 64

_PUBLISH = "SELECT forge.publish(%s, %s::text[], %s, %s, %s)"


def publishing(topic: str, keys: Sequence[str], channel: str) -> Part:
    """Return what adds one event a key, at least one, and wakes who listens; its row is the newest `seq`."""
    return _PUBLISH, (topic, list(keys), *telling(channel))


def telling(channel: str) -> tuple[timedelta, int, str]:
    """Return what a function of the schema that publishes asks for: how long and by how many events go, and who listens."""
    return EVENTS_KEPT, EVENTS_PRUNED_AT_ONCE, channel
