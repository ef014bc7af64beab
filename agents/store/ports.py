"""The contract of a journey store. Every engine passes the same contract suite, which compares it with `tests/support/state/memory/`.

Journeys are stored in the state database of their knowledge base. A journey is the log of its events. The state that is stored
beside the log is a cache of its fold, so a step and resuming cost the same however long the journey is. Every method is one
transaction, and an acknowledged write survives a power cut. Times are passed in, aware UTC. Every addition to a journey publishes
a change event `journey` with its id.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from agents.engine.events import Event, Logged, Note, Started
from agents.engine.state import JourneyState, Status
from knowledge.state.retention.cuts import Shortened

TITLE_CHARS = 120
MOST_KEY_CHARS = 200
NEWEST_COMPARED = 100
"""How many of a principal's newest journeys are compared with a new one."""


@dataclass(frozen=True, slots=True)
class Appended:
    """The version that an act led to. `repeated`: it was already recorded, and nothing was added.

    `state` is the new state, for callers that passed the state before.
    """

    version: int
    repeated: bool = False
    state: JourneyState | None = None


@dataclass(frozen=True, slots=True)
class Begun:
    """The journey that a start led to. `repeated`: it was begun before, and nothing was added."""

    journey: str
    repeated: bool = False


@dataclass(frozen=True, slots=True)
class JourneyHead:
    """The state of a journey, and the version that an act led to if it is on record already; both read in one transaction."""

    state: JourneyState
    kept: int | None


@dataclass(frozen=True, slots=True)
class JourneyLine:
    """A journey in a list. `title` is the beginning of its brief."""

    id: str
    agent: str
    title: str
    principal: str
    status: Status
    phase: str
    version: int
    started_at: datetime
    moved_at: datetime


class JourneyStore(Protocol):
    """The journeys of one knowledge base."""

    async def start(self, journey: str, begun: Started, *, by: str, at: datetime) -> Appended:
        """Begin a journey with that id, at version 1. Beginning the same journey again, however late, counts as a repetition.

        Raises:
            JourneyExists: another journey has that id. Nothing is recorded.
        """
        ...

    async def begin(self, journey: str, log: Sequence[Logged], *, since: datetime) -> Begun:
        """Put a new journey on record, or return the newest equal one that began after `since` and is still at version 1.

        Journeys are equal if they have the same principal, agent, phase, brief and inputs; the `NEWEST_COMPARED` newest
        journeys of the principal are compared. If several equal ones begin at once, only one is recorded, so a caller
        that lost the reply can repeat the call. A store that was given quotas counts new journeys for their principal,
        in `start` and `adopt` too.

        Raises:
            BadLog: its events do not follow each other. Nothing is recorded.
            JourneyExists: another journey has that id. Nothing is recorded.
            OverQuota: the principal began too many journeys, or stored too much in them. Nothing is recorded.
        """
        ...

    async def adopt(self, journey: str, log: Sequence[Logged]) -> Appended:
        """Take over a whole log, with its numbers, times and keys, under that id. Adopting the same log again counts as a repetition.

        Raises:
            BadLog: its events do not follow each other. Nothing is recorded.
            JourneyExists: another journey has that id. Nothing is recorded.
        """
        ...

    async def append(
        self,
        journey: str,
        events: Sequence[Event],
        *,
        expected: int,
        key: str,
        by: str,
        at: datetime,
        before: JourneyState | None = None,
    ) -> Appended:
        """Add the events, of which the first is a step, after version `expected`; this raises the journey's version by one.

        Of several appends at one version exactly one succeeds. An append with a `key` that the journey already has adds
        nothing and returns the first answer, whatever `expected` is, so a caller that lost the reply can repeat the
        call. `before` is the state that this store returned for version `expected`, and saves reading it again.

        Raises: StaleJourney: another caller moved the journey first; the error carries `expected`, `actual` and the
        newest of the changes.
            NoSuchJourney: there is no such journey.
            BadLog: an event does not fit the state of the journey.
            ValueError: there are no events, or no key.
            OverQuota: `by` stored too much in journeys; a person's own decision is stored all the same.
        """
        ...

    async def head(self, journey: str, key: str) -> JourneyHead:
        """Return the journey's state, and the version that the step with that key led to, or None if it has no such step.

        Raises:
            NoSuchJourney: there is no such journey.
        """
        ...

    def recent(self, journey: str, version: int) -> JourneyState | None:
        """Return the state that this store has just written for that version, None if it has none; it may be out of date.

        It serves as `before` of an append, which compares it with the record. So a step need not read first.
        """
        ...

    async def note(self, journey: str, notes: Sequence[Note], *, by: str, at: datetime) -> None:
        """Add notes at the journey's present version. Notes do not change the version, so they conflict with no other act.

        Raises:
            NoSuchJourney: there is no such journey.
            OverQuota: the note announces a tool call, and `by` stored too much in journeys.
        """
        ...

    async def journey(self, journey: str, *, version: int | None = None) -> JourneyState:
        """Return the journey's state now or at that version: the fold of its events up to then.

        Finding the newest state takes no longer for a long journey; an older one is folded.

        Raises:
            NoSuchJourney: there is no such journey, or it has no such version.
        """
        ...

    async def events(self, journey: str, *, after: int = 0, limit: int | None = None) -> Sequence[Logged]:
        """Return the events after number `after`, oldest first, at most `limit`.

        Raises:
            NoSuchJourney: there is no such journey.
        """
        ...

    async def shorten(self, *, moved_before: datetime, limit: int) -> Shortened:
        """Shorten the texts of at most `limit` journeys that ended and last moved before then. Zero records means that none is left.

        Every event stays, with its place, time, actor and key. A shortened text says so.
        """
        ...

    async def journeys(
        self,
        *,
        status: Status | None = None,
        agent: str | None = None,
        principal: str | None = None,
        limit: int = 20,
        before: str | None = None,
    ) -> Sequence[JourneyLine]:
        """Return journeys, the newest first, from the one after the one with the id `before`."""
        ...
