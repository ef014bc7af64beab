"""The contract of a journey store. Every engine passes the same contract suite, which compares it with `tests/support/state/memory/`.

Journeys lie in the state database of their knowledge base. A journey is the log of its events; the state that is kept beside
it is a cache of their fold, so that neither a step nor resuming costs more the longer the journey is. Every method is one
transaction, and what it acknowledged survives a power cut. Times come in as arguments (aware UTC). Whatever adds to a
journey adds a change event `journey` with its id.
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
"""Of the journeys of one principal so many are looked at for one that was begun alike."""


@dataclass(frozen=True, slots=True)
class Appended:
    """Where an act brought a journey. `repeated`: it was on record already, and nothing was added.

    `state` is where the journey stands then, for who said where it stood before.
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
    """Where a journey stands, and the version that an act led to if it had that act already: both of one moment."""

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
        """Begin a journey with that id, at version 1. Beginning the very same again is a repetition, whenever it comes.

        Raises:
            JourneyExists: another one has that id. Nothing is recorded.
        """
        ...

    async def begin(self, journey: str, log: Sequence[Logged], *, since: datetime) -> Begun:
        """Put a new journey on record; or return the newest that was begun alike since then and is at version 1 still.

        A store that was given quotas counts what is new for its principal; `start` and `adopt` count alike.

        Alike is what has the same principal, agent, phase, brief and inputs, among the `NEWEST_COMPARED` newest journeys of
        that principal. Of any number that begin alike at once one begins it, so a lost reply can be asked for again.

        Raises:
            BadLog: its events do not follow each other. Nothing is recorded.
            JourneyExists: another one has that id. Nothing is recorded.
            OverQuota: the principal began too many, or stored too much. Nothing is recorded.
        """
        ...

    async def adopt(self, journey: str, log: Sequence[Logged]) -> Appended:
        """Take over a whole log, with its numbers, times and keys, under that id. The same log again is a repetition.

        Raises:
            BadLog: its events do not follow each other. Nothing is recorded.
            JourneyExists: another one has that id. Nothing is recorded.
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
        """Add the events, of which the first is a step, after version `expected`: the journey's version is then one more.

        Of any number of appends at one version exactly one counts. An append with a `key` that the journey has had already
        adds nothing and is answered as it was the first time, whatever it expects: a lost reply can be asked for again.

        `before` is what this store said of the journey at version `expected`, and saves reading it again.

        Raises:
            StaleJourney: someone else moved the journey first; carries `expected`, `actual` and the newest of what changed.
            NoSuchJourney: there is none.
            BadLog: an event does not fit where the journey stands.
            ValueError: no events, or no key.
            OverQuota: `by` stored too much in journeys; a person's own word is taken all the same.
        """
        ...

    async def head(self, journey: str, key: str) -> JourneyHead:
        """Return where the journey stands, and the version that the step with that key led to, None if it had no such step.

        Raises:
            NoSuchJourney: there is none.
        """
        ...

    async def note(self, journey: str, notes: Sequence[Note], *, by: str, at: datetime) -> None:
        """Add notes at whatever version the journey has. They move nothing, so they conflict with nobody.

        Raises:
            NoSuchJourney: there is none.
            OverQuota: a tool is to be called, and `by` stored too much in journeys.
        """
        ...

    async def journey(self, journey: str, *, version: int | None = None) -> JourneyState:
        """Return where the journey stands, or where it stood at that version: the fold of its events up to then.

        The newest state is found in a time that does not grow with the journey, an older one by folding.

        Raises:
            NoSuchJourney: there is none, or it has no such version.
        """
        ...

    async def events(self, journey: str, *, after: int = 0, limit: int | None = None) -> Sequence[Logged]:
        """Return what happened after the event number `after`, oldest first, at most `limit`.

        Raises:
            NoSuchJourney: there is none.
        """
        ...

    async def shorten(self, *, moved_before: datetime, limit: int) -> Shortened:
        """Shorten the texts of at most `limit` journeys that ended and moved last before then; no records when none is left.

        Every event stays, with its place, time, actor and key; where a text was cut it says so.
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
        """Return journeys, those that were put on record last first, from the one after the one with the id `before`."""
        ...
