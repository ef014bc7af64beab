"""The cost of the phases of a journey: visits, time and tokens, and the phases with the most of each. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from datetime import datetime

from agents.engine.events import CheckpointReached, Decided, Logged, PhaseChanged
from agents.engine.state import JourneyState

_MINUTE, _HOUR, _DAY = 60, 3_600, 86_400


@dataclass(frozen=True, slots=True)
class PhaseRow:
    """The cost of one phase so far. `seconds` include the present visit and `waited_s`, the time spent waiting for a person.

    `counted` are tokens that no host reported: the server counted them from prompts and works.
    """

    phase: str
    visits: int = 0
    submits: int = 0
    seconds: float = 0.0
    waited_s: float = 0.0
    tokens_in: int = 0
    tokens_out: int = 0
    counted: int = 0

    @property
    def tokens(self) -> int:
        """All tokens, in and out."""
        return self.tokens_in + self.tokens_out

    @property
    def seconds_per_visit(self) -> float:
        """The average time of a visit, or 0 without visits."""
        return self.seconds / self.visits if self.visits else 0.0

    @property
    def tokens_per_visit(self) -> float:
        """The average tokens of a visit, or 0 without visits."""
        return self.tokens / self.visits if self.visits else 0.0


@dataclass(frozen=True, slots=True)
class PhaseAverage:
    """The cost of one phase in the journeys that reach it. `back` counts the visits that were not the first of their journey."""

    phase: str
    journeys: int
    visits: int
    back: int
    submits: int
    seconds: float
    waited_s: float
    tokens: int

    @property
    def visits_per_journey(self) -> float:
        """The visits of a journey that reaches the phase."""
        return self.visits / self.journeys

    @property
    def seconds_per_journey(self) -> float:
        """The time of the phase in one journey, all visits together."""
        return self.seconds / self.journeys

    @property
    def seconds_per_visit(self) -> float:
        """The time of one visit."""
        return self.seconds / self.visits

    @property
    def tokens_per_journey(self) -> float:
        """The tokens of the phase in one journey."""
        return self.tokens / self.journeys


def table(
    state: JourneyState, now: datetime, *, order: Sequence[str] = (), waited: Mapping[str, float] | None = None
) -> Sequence[PhaseRow]:
    """Return a row for each visited phase, in this `order`, other phases after them by name.

    `waited` is what `waits` returns for the journey's log.
    """
    rows, running = [], _running(state, now)
    for phase in _sorted(state.metrics, order):
        took = state.metrics[phase]
        seconds = took.seconds + (running if phase == state.phase else 0.0)
        # Log and state may end at clocks of different machines: a phase never waits longer than it takes.
        waiting = min((waited or {}).get(phase, 0.0), seconds)
        rows.append(
            PhaseRow(phase, took.visits, took.submits, seconds, waiting, took.tokens_in, took.tokens_out, took.counted)
        )
    return rows


def _sorted(phases: Iterable[str], order: Sequence[str]) -> list[str]:
    place = {phase: number for number, phase in enumerate(order)}
    return sorted(phases, key=lambda phase: (place.get(phase, len(place)), phase))


def by_part(rows: Iterable[PhaseRow], parts: Mapping[str, str]) -> Sequence[PhaseRow]:
    """Return the sum of the phases of each part, in the order of their first phases. A phase of no part is a part itself.

    `phase` is the name of the part.
    """
    found: dict[str, PhaseRow] = {}
    for row in rows:
        name = parts.get(row.phase, row.phase)
        so_far = found.get(name, PhaseRow(name))
        sums = {f.name: getattr(so_far, f.name) + getattr(row, f.name) for f in fields(row) if f.name != "phase"}
        found[name] = PhaseRow(name, **sums)
    return list(found.values())


def _running(state: JourneyState, now: datetime) -> float:
    """Return the seconds of the present visit, until now or until the journey was cancelled; 0 if it is complete."""
    if state.status == "complete":
        return 0.0
    until = now
    if state.status == "cancelled":
        until = state.word.at if state.word else state.moved_at
    return _between(state.entered_at, until)


def _between(start: datetime, end: datetime) -> float:
    # The clocks of two machines may disagree: nothing takes less than no time.
    return max(0.0, (end - start).total_seconds())


def waits(log: Iterable[Logged], now: datetime) -> Mapping[str, float]:
    """Return for how many seconds each phase waited for the decision of a person."""
    found: dict[str, float] = {}
    since: tuple[str, datetime] | None = None
    for logged in log:
        event = logged.event
        if isinstance(event, CheckpointReached) and event.kind == "blocking":
            since = event.phase, logged.at
        # An answer alone does not end the wait; if it answers the last question, a move follows it.
        elif since and (isinstance(event, PhaseChanged) or (isinstance(event, Decided) and event.decision != "answer")):
            found[since[0]] = found.get(since[0], 0.0) + _between(since[1], logged.at)
            since = None
    if since:
        found[since[0]] = found.get(since[0], 0.0) + _between(since[1], now)
    return found


def slowest(rows: Sequence[PhaseRow]) -> PhaseRow | None:
    """Return the phase with the most time, or None if no phase took any."""
    return max((row for row in rows if row.seconds > 0), key=lambda row: row.seconds, default=None)


def costliest(rows: Sequence[PhaseRow]) -> PhaseRow | None:
    """Return the phase with the most tokens, or None if no phase took any."""
    return max((row for row in rows if row.tokens > 0), key=lambda row: row.tokens, default=None)


def averages(tables: Iterable[Sequence[PhaseRow]], *, order: Sequence[str] = ()) -> Sequence[PhaseAverage]:
    """Return the averages of each phase over many journeys, in this `order`, other phases after them by name."""
    rows: dict[str, list[PhaseRow]] = {}
    for one in tables:
        for row in one:
            if row.visits:
                rows.setdefault(row.phase, []).append(row)
    return [_average(phase, rows[phase]) for phase in _sorted(rows, order)]


def _average(phase: str, rows: Sequence[PhaseRow]) -> PhaseAverage:
    visits = sum(row.visits for row in rows)
    return PhaseAverage(
        phase,
        journeys=len(rows),
        visits=visits,
        back=visits - len(rows),
        submits=sum(row.submits for row in rows),
        seconds=sum(row.seconds for row in rows),
        waited_s=sum(row.waited_s for row in rows),
        tokens=sum(row.tokens for row in rows),
    )


def bottleneck(phases: Sequence[PhaseAverage]) -> PhaseAverage | None:
    """Return the phase with the most time in all these journeys together, or None if no phase took any."""
    return max((one for one in phases if one.seconds > 0), key=lambda one: one.seconds, default=None)


def lasting(seconds: float) -> str:
    """Return a duration as a person says it."""
    if seconds < 10:
        return f"{seconds:.1f} s" if seconds else "0 s"
    if seconds < 2 * _MINUTE:
        return f"{seconds:.0f} s"
    if seconds < 2 * _HOUR:
        return f"{seconds / _MINUTE:.0f} min"
    if seconds < 2 * _DAY:
        return f"{seconds / _HOUR:.1f} h"
    return f"{seconds / _DAY:.1f} days"
