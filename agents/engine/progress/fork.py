"""A journey that goes another way from some version on: the same log up to there, under an id of its own."""

from __future__ import annotations

from datetime import datetime

from agents.engine.events import Forked, Logged
from agents.store.codec import upto
from agents.store.ports import Appended, JourneyStore
from knowledge.history.acts import storable


async def fork(
    store: JourneyStore, of: str, at_version: int, *, journey: str, by: str, at: datetime, conversation: str = ""
) -> Appended:
    """Begin `journey` where `of` stood at that version, as the journey of `by`; that it was forked is its next version.

    `conversation` is the one in which it goes on; all others begin anew. With "" it goes on in those of the other journey.
    Notes that were made at that version come along. What happens to either from now on is not known to the other.

    Raises:
        NoSuchJourney: there is no such journey, or it never had that version.
        JourneyExists: another one has the new id.
    """
    log = upto(of, await store.events(of), at_version)
    whose = storable(by)
    last = Logged(len(log) + 1, at_version + 1, at, whose, Forked(of, at_version, whose, conversation))
    return await store.adopt(journey, [*log, last])
