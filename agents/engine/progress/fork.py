"""A journey that continues another one differently from one of its versions, under its own id."""

from __future__ import annotations

from datetime import datetime

from agents.engine.events import Forked, Logged
from agents.store.codec import upto
from agents.store.ports import Appended, JourneyStore
from knowledge.history.acts import storable


async def fork(
    store: JourneyStore, of: str, at_version: int, *, journey: str, by: str, at: datetime, conversation: str = ""
) -> Appended:
    """Begin `journey` with the log of `of` up to that version, as the journey of `by`. The fork itself is its next version.

    It continues in `conversation`, and all others begin again; with "" it continues in the conversations of `of`. Notes that were
    recorded at that version are copied too. Neither journey sees what happens in the other from now on.

    Raises:
        NoSuchJourney: there is no such journey, or it never had that version.
        JourneyExists: another journey has the new id.
    """
    log = upto(of, await store.events(of), at_version)
    principal = storable(by)
    last = Logged(len(log) + 1, at_version + 1, at, principal, Forked(of, at_version, principal, conversation))
    return await store.adopt(journey, [*log, last])
