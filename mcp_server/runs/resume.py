"""Looks after runs that wait: goes on with those about whose proposal a person decided, and with those whose process died."""

from __future__ import annotations

import logging
import time
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

import anyio

from agents.loop.decision import tools_digest
from agents.loop.errors import RunError
from agents.loop.record.frames import Control
from knowledge.errors import KnowledgeError
from mcp_server.toolsets.runs.decision_notes import became as became_of
from mcp_server.toolsets.runs.decision_notes import chain_of

if TYPE_CHECKING:
    from agents.loop.record.run import Run, State
    from agents.loop.store.ports import RunLine
    from mcp_server.ports import HasState
    from mcp_server.runs.supervisor import Runs

logger = logging.getLogger("knowledge_forge.runs")

LOOK_S = 10.0
PAGE = 100
OTHERS_S = 120.0
"""So long a run is left to processes that offer it the very tools that it had; a newer program offers others, as does one that
reaches fewer services."""
ABANDONED = timedelta(days=1)
SURELY_S = 600.0
"""So long a process waits for another one that could go on with a run, however long the run has waited."""


async def keep_runs(services: HasState, runs: Runs) -> None:
    """Go on with runs, for ever. Several processes may: of those that try to lead a run one does."""
    keeper = Keeper(services, runs)
    while True:
        try:
            seen = await services.state.last_event()
            await keeper.look()
            with anyio.move_on_after(LOOK_S):
                await keeper.news(seen)
        except KnowledgeError:
            logger.warning("cannot look after runs now", exc_info=True)
            await anyio.sleep(LOOK_S)
        except Exception:
            logger.exception("cannot look after runs")
            await anyio.sleep(LOOK_S)


@dataclass
class Keeper:
    """What one process knows of the runs that wait. `clock` goes on evenly."""

    services: HasState
    runs: Runs
    clock: Callable[[], float] = time.monotonic
    _proposals: dict[str, tuple[int, str]] = field(default_factory=dict)
    _since: dict[str, float] = field(default_factory=dict)
    _told: set[str] = field(default_factory=set)
    _full: bool = False

    async def look(self) -> None:
        """Go on with whatever can be gone on with now, the oldest first."""
        due = [line async for line in self._lines(adrift=True)]
        decided: dict[str, _Ended] = {}
        waiting: set[str] = set()
        async for line in self._lines(state="suspended"):
            waiting.add(line.id)
            try:
                ended = await _ended(self.services, await self._proposal(line))
            except RunError as error:  # of a newer program, or damaged
                self._unreadable(line.id, error)
                continue
            if ended is not None:
                decided[line.id] = ended
                due.append(line)
        self._proposals = {run: kept for run, kept in self._proposals.items() if run in waiting}
        await self._look_at_day(due)
        there = {line.id for line in due}
        self._since = {run: at for run, at in self._since.items() if run in there}
        for line in sorted(due, key=lambda line: line.begun_at):
            try:
                await self._go_on(line, decided.get(line.id))
            except RunError as error:
                self._unreadable(line.id, error)
            except KnowledgeError as error:
                logger.warning("run %s cannot be looked after now: %s", line.id, error)

    async def _look_at_day(self, due: Sequence[RunLine]) -> None:
        """See whether any of them may ask a model now. That none may is said once."""
        full = bool(due and await self.runs.day.reached())
        if full and not self._full:
            logger.warning("%d runs wait for another day: %s", len(due), await self.runs.day.spent())
        if full:
            self._since.clear()  # whoever has their model could not go on with them either
        self._full = full

    def _unreadable(self, run: str, error: RunError) -> None:
        """Say once that nobody can go on here with that run."""
        if run not in self._told:
            self._told.add(run)
            logger.warning("run %s cannot be looked after: %s", run, error)

    async def news(self, seen: int) -> None:
        """Return when something happened that may concern a run that waits."""
        async with anyio.create_task_group() as tasks:

            async def watch() -> None:
                await self._events(seen)
                tasks.cancel_scope.cancel()

            tasks.start_soon(watch)
            await self.runs.ended()
            tasks.cancel_scope.cancel()

    async def _events(self, seen: int) -> None:
        state = self.services.state
        while True:
            try:
                await state.changed(seen)
                events = await state.events_after(seen)
                last = events[-1].seq if events else await state.last_event()
            except KnowledgeError:  # the next look says so, in its time
                await anyio.sleep(LOOK_S)
                return
            ours = self.runs.here
            if any(event.topic == "proposal" or (event.topic == "run" and event.key not in ours) for event in events):
                return
            seen = last

    async def _go_on(self, line: RunLine, ended: _Ended | None) -> None:
        since = self._since.setdefault(line.id, self.clock())
        if line.id in self.runs.here:
            return
        if unable := self._unable(line):
            if self.clock() - since > SURELY_S and await self._is_abandoned(line, ended):
                why = f"nobody could go on with it: {unable}. Begin it again if it is still meant"
                await self.runs.end(line.id, "failed", why)
            return
        if refused := await self.runs.refused(line.principal):
            await self.runs.cancel(line.id, refused)
            return
        if self._full:
            return
        run = await self.runs.store.run(line.id)
        if not self._same_tools(run) and self.clock() - since < OTHERS_S:
            return
        if ended is None:
            self.runs.lead_aside(run.id)
        else:
            self.runs.resume_aside(run.id, run.proposal, ended.became)

    async def _is_abandoned(self, line: RunLine, ended: _Ended | None) -> bool:
        """Return whether nothing was done for the run but to try, for so long."""
        if ended and ended.at:
            return self.services.now() - ended.at > ABANDONED
        run = await self.runs.store.run(line.id)
        tries = ("taken_up", "left")
        steps = [one.at for one in run.frames if not (isinstance(one, Control) and one.signal in tries)]
        return self.services.now() - max([run.header.begun_at, *steps]) > ABANDONED

    def _unable(self, line: RunLine) -> str:
        """Return why this process cannot lead the run on now; "" where it can."""
        if line.model != self.runs.model.name:
            return f"no server that asks {line.model} was running"
        return "" if self.runs.may_try(line.id) else "each try to lead it on failed; the servers' logs say why"

    def _same_tools(self, run: Run) -> bool:
        """Return whether this process offers the run what it was offered last."""
        return (
            run.plan is None or not run.plan.offered or run.plan.offered == tools_digest(self.runs.offered(run.header))
        )

    async def _proposal(self, line: RunLine) -> str:
        """Return what the run waits for; its record is read once for as long as nothing is added."""
        count, proposal = self._proposals.get(line.id, (-1, ""))
        if count != line.count:
            proposal = (await self.runs.store.run(line.id)).proposal
            self._proposals[line.id] = (line.count, proposal)
        return proposal

    async def _lines(self, *, state: State | None = None, adrift: bool = False) -> AsyncIterator[RunLine]:
        before: str | None = None
        at = self.services.now() if adrift else None
        while True:
            page = await self.runs.store.runs(state=state, adrift_at=at, limit=PAGE, before=before)
            for line in page:
                yield line
            if len(page) < PAGE:
                return
            before = page[-1].id


async def became(services: HasState, run: Run) -> str | None:
    """Return what a run is told of the proposal that it waits for; None while that is open, and where it waits for none."""
    ended = await _ended(services, run.proposal)
    return ended.became if ended else None


@dataclass(frozen=True, slots=True)
class _Ended:
    """What a run is told of its proposal, and when that ended."""

    became: str
    at: datetime | None


async def _ended(services: HasState, proposal: str) -> _Ended | None:
    if not proposal:
        return None
    chain = await chain_of(services.state.trust, proposal)
    if chain and chain[-1].open:
        return None
    return _Ended(became_of(chain), chain[-1].ended_at if chain else None)
