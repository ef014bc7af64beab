"""Resumes waiting runs: those whose proposal a person decided on, and those whose process died."""

from __future__ import annotations

import logging
import time
from collections.abc import AsyncIterator, Callable
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
"""How often waiting runs are looked at without news: a process that is killed announces nothing."""
PAGE = 100
OTHERS_S = 120.0
"""How long a run is left to processes with exactly its tools. A newer program has other tools, as does one that reaches fewer
services."""
ABANDONED = timedelta(days=1)
"""A run that no process could continue for this long is ended."""
SURELY_S = 600.0
"""How long a process waits for another one that could resume a run, however long the run has waited already."""


async def keep_runs(services: HasState, runs: Runs) -> None:
    """Resume runs, forever. Several processes may do that: of those that try to lead a run, one succeeds."""
    keeper = Keeper(services, runs)
    while True:
        try:
            # Taken before the look, so that events during the look count as news.
            seen = await services.state.last_event()
            await keeper.look()
            with anyio.move_on_after(LOOK_S):
                await keeper.news(seen)
        except KnowledgeError:
            logger.warning("cannot resume runs now", exc_info=True)
            await anyio.sleep(LOOK_S)
        except Exception:
            logger.exception("cannot resume runs")
            await anyio.sleep(LOOK_S)


@dataclass(frozen=True, slots=True)
class _EndedProposal:
    """The outcome of a run's proposal in words for the run, and when it ended."""

    became: str
    at: datetime | None


@dataclass
class Keeper:
    """The waiting runs that one process knows. `clock` is monotonic: nobody can set it back."""

    services: HasState
    runs: Runs
    clock: Callable[[], float] = time.monotonic
    _proposals: dict[str, tuple[int, str]] = field(default_factory=dict)
    _since: dict[str, float] = field(default_factory=dict)
    _logged: set[str] = field(default_factory=set)
    _full: bool = False

    async def look(self) -> None:
        """Resume every run that can be resumed now, the oldest first."""
        due = [line async for line in self._lines(adrift=True)]
        decided: dict[str, _EndedProposal] = {}
        waiting: set[str] = set()
        async for line in self._lines(state="suspended"):
            waiting.add(line.id)
            try:
                ended = await _ended(self.services, await self._proposal(line))
            except RunError as error:  # written by a newer program, or damaged
                self._warn_once(line.id, error)
                continue
            if ended is not None:
                decided[line.id] = ended
                due.append(line)
        self._proposals = {run: kept for run, kept in self._proposals.items() if run in waiting}
        full = bool(due and await self.runs.day.reached())
        if full and not self._full:
            logger.warning("%d runs wait for another day: %s", len(due), await self.runs.day.spent())
        if full:
            self._since.clear()  # no process could have resumed them, so this time does not count
        self._full = full
        ids = {line.id for line in due}
        self._since = {run: at for run, at in self._since.items() if run in ids}
        for line in sorted(due, key=lambda line: line.begun_at):
            try:
                await self._resume(line, decided.get(line.id))
            except RunError as error:
                self._warn_once(line.id, error)
            except KnowledgeError as error:
                logger.warning("run %s cannot be resumed now: %s", line.id, error)

    def _warn_once(self, run: str, error: RunError) -> None:
        if run not in self._logged:
            self._logged.add(run)
            logger.warning("run %s cannot be resumed: %s", run, error)

    async def news(self, seen: int) -> None:
        """Return when something happened that may affect a waiting run."""
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
            except KnowledgeError:  # the next look logs it
                await anyio.sleep(LOOK_S)
                return
            ours = self.runs.here
            if any(event.topic == "proposal" or (event.topic == "run" and event.key not in ours) for event in events):
                return
            seen = last

    async def _resume(self, line: RunLine, ended: _EndedProposal | None) -> None:
        """Resume the run in the background, leave it to another process, or end it if nobody can."""
        since = self._since.setdefault(line.id, self.clock())
        if line.id in self.runs.here:
            return
        unable = ""
        if line.model != self.runs.model.name:
            unable = f"no server that asks {line.model} was running"
        elif not self.runs.may_try(line.id):
            unable = "each try to resume it failed; the servers' logs say why"
        if unable:
            if self.clock() - since > SURELY_S and await self._is_abandoned(line, ended):
                why = f"nobody could resume it: {unable}. Start it again if you still need it"
                await self.runs.end(line.id, "failed", why)
            return
        if refused := await self.runs.refused(line.principal):
            await self.runs.cancel(line.id, refused)
            return
        if self._full:
            return
        run = await self.runs.store.run(line.id)
        offered = run.plan.offered if run.plan else ""
        same_tools = not offered or offered == tools_digest(self.runs.offered(run.header))
        if not same_tools and self.clock() - since < OTHERS_S:
            return
        # Only the hold decides which process leads, because several may get here at once.
        if ended is None:
            self.runs.lead_aside(run.id)
        else:
            self.runs.resume_aside(run.id, run.proposal, ended.became)

    async def _is_abandoned(self, line: RunLine, ended: _EndedProposal | None) -> bool:
        """Return whether the run has had nothing but failed tries for `ABANDONED`."""
        if ended and ended.at:
            return self.services.now() - ended.at > ABANDONED
        run = await self.runs.store.run(line.id)
        tries = ("taken_up", "left")
        steps = [one.at for one in run.frames if not (isinstance(one, Control) and one.signal in tries)]
        return self.services.now() - max([run.header.begun_at, *steps]) > ABANDONED

    async def _proposal(self, line: RunLine) -> str:
        """Return the proposal that the run waits for. Its record is read once, and again when frames were added."""
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
    """Return the outcome of the proposal that the run waits for, in words for the run; None if it is open or absent."""
    ended = await _ended(services, run.proposal)
    return ended.became if ended else None


async def _ended(services: HasState, proposal: str) -> _EndedProposal | None:
    if not proposal:
        return None
    chain = await chain_of(services.state.trust, proposal)
    if chain and chain[-1].open:
        return None
    return _EndedProposal(became_of(chain), chain[-1].ended_at if chain else None)
