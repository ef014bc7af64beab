"""Leads runs: decide, carry out, look, and again, within bounds.

A run is led by one call of one process at a time, which holds it and is heard of at least every `lease_s` seconds. When it dies
another may take the run up. A tool call that was on record then and has no result is never called again: the tools are asked what
became of it, or nobody knows.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from datetime import datetime

import anyio

from agents.loop.errors import RunNotThere, RunTaken
from agents.loop.explanation import STANDS
from agents.loop.leader import CANCELLED, CLOSING_S, Leading, Ports, Progress
from agents.loop.limits import Full
from agents.loop.processor import Processor
from agents.loop.record.frames import Frame, Header, PersonAnswered
from agents.loop.record.interventions import end
from agents.loop.record.run import Run
from agents.loop.store.ports import LONGEST_HOLD_S, RunStore
from agents.loop.tools import Tools
from knowledge.errors import KnowledgeError

LEASE_S = LONGEST_HOLD_S


async def _unbounded(_run: Run) -> Full | None:
    return None


async def _nobody(_run: Run, _frame: Frame) -> None:
    pass


class Executor:
    """Leads the runs of one principal with their tools and one model.

    `chance` returns hexadecimal digits that nobody guesses, for ids. `now` is the time in UTC, `sleep` waits for so many seconds.
    `wall` is the time by which holds end, where `now` is a clock that goes on evenly. `nap` sleeps, and wakes up when it knows that
    somebody ended the run. `progress` must not raise. `outlives`: a run outlives who leads it; when they are cancelled it is left for
    others to take up. `cancelled` says why a run was that is cancelled with who leads it. `day` says why no run may ask a model now;
    None where the one may that it is told.
    """

    def __init__(
        self,
        store: RunStore,
        processor: Processor,
        tools: Tools,
        *,
        now: Callable[[], datetime],
        sleep: Callable[[float], Awaitable[None]],
        chance: Callable[[], str],
        progress: Progress = _nobody,
        lease_s: float = LEASE_S,
        outlives: bool = False,
        wall: Callable[[], datetime] | None = None,
        nap: Callable[[str, float], Awaitable[None]] | None = None,
        cancelled: Callable[[], str] = lambda: CANCELLED,
        day: Callable[[Run], Awaitable[Full | None]] = _unbounded,
    ) -> None:
        self._ports = Ports(
            store,
            processor,
            tools,
            now,
            sleep,
            chance,
            progress,
            lease_s,
            outlives,
            wall or now,
            nap or (lambda _run, seconds: sleep(seconds)),
            cancelled,
            day,
        )
        self._store = store

    async def start(self, header: Header) -> Run:
        """Begin a run and lead it until it is over, or waits for a person. A run that is on record already is not begun again.

        Raises:
            RunExists: another run has that id. RunTaken: this one is being led.
            KnowledgeError: its record could not be kept; what is on record can be taken up.
        """
        by = self._name()
        begun = await self._store.begin(header, self._ports.hold(by))
        async with self._holding(header.id, by) as (run, leading):
            return await leading.lead(run) if run.count == begun.count == 0 else run

    async def take_up(self, run: str, by: str = "") -> Run:
        """Lead a run that nobody leads: its process died. What need not be led is returned as it stands.

        `by`: whose hold it is that has it, put on record by `begin` or `note_answer` just now; nobody died then.

        Raises:
            RunTaken: somebody leads it. NoSuchRun: there is none.
        """
        async with self._holding(run, by or self._name()) as (there, leading):
            if there.state != "running":
                return there
            if by and (not there.frames or isinstance(there.frames[-1], PersonAnswered)):
                return await leading.lead(there)
            taken = leading.draft(there).control("taken_up", "the process that led it is gone")
            return await leading.lead(there, taken)

    async def resume(self, run: str, proposal: str, became: str) -> Run:
        """Lead a run on that waited for a person's decision; `became` is what became of the proposal, as the model is told it.

        Raises:
            RunNotThere: it does not wait for that. RunTaken: somebody leads it. NoSuchRun: there is none.
        """
        async with self._holding(run, self._name()) as (there, leading):
            if there.state != "suspended" or there.proposal != proposal:
                raise RunNotThere(run, STANDS[there.state], f"resumed with proposal {proposal[:60]}")
            resumed = leading.draft(there).control("resumed", became, proposal=proposal)
            return await leading.lead(there, resumed)

    async def answer(self, run: str, text: str, by: str) -> Run:
        """Lead a run on that waited for a person's answer.

        Raises:
            RunNotThere: it asked nothing. RunTaken: somebody leads it. NoSuchRun: there is none.
        """
        async with self._holding(run, self._name()) as (there, leading):
            if there.ask is None:
                raise RunNotThere(run, STANDS[there.state], "answered")
            answered = leading.draft(there).add(PersonAnswered, ask=there.ask.id, text=text, by=by)
            return await leading.lead(there, answered)

    async def cancel(self, run: str, why: str) -> Run:
        """End a run, whoever leads it; they notice with their next step. One that is over stays as it is.

        Raises:
            NoSuchRun: there is none.
        """
        ended, frames = await end(self._store, run, "cancelled", why, now=self._ports.now, chance=self._ports.chance)
        for frame in frames:
            await self._ports.progress(ended, frame)
        return ended

    def _name(self) -> str:
        """Return a name for who leads a run that nobody else has, not even this process in another call."""
        return f"led-{self._ports.chance()}"

    @asynccontextmanager
    async def _holding(self, run: str, by: str) -> AsyncIterator[tuple[Run, Leading]]:
        """Hold the run inside, as it stands.

        Raises:
            RunTaken: somebody else does.
        """
        ours = True  # `begin` may have put it on record so, and a claim that is cancelled may have counted
        try:
            there = await self._store.claim(run, self._ports.hold(by))
            if there is None:
                ours = False
                raise RunTaken(run)
            yield there, Leading(self._ports, by)
        finally:
            if ours:
                with anyio.move_on_after(CLOSING_S, shield=True), suppress(KnowledgeError):
                    await self._store.release(run, by)
