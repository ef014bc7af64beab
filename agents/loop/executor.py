"""Starts, resumes and ends runs: a model decides and tools are called, in a loop, within limits.

One call of one process leads a run at a time. It holds the run and renews its hold at least every `lease_s` seconds; when it dies,
another may take the run up. A recorded tool call without a result is never repeated: the tools are asked for its outcome, which
may stay unknown.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass

import anyio

from agents.loop.errors import RunNotThere, RunTaken
from agents.loop.explanation import STATE_PHRASES
from agents.loop.leader import CLOSING_S, LeaderPorts, RunLeader
from agents.loop.record.frames import Header, PersonAnswered
from agents.loop.record.interventions import end
from agents.loop.record.run import Run
from knowledge.errors import KnowledgeError


@dataclass(frozen=True, slots=True)
class Executor(LeaderPorts):
    """Leads the runs of one principal with their tools and one model."""

    async def start(self, header: Header) -> Run:
        """Begin a run and lead it until it ends or waits for a person. A run that is on record already is not begun again.

        Raises:
            RunExists: another run has that id. RunTaken: another process leads this one.
            KnowledgeError: its record could not be written; the run can be resumed from what is recorded.
        """
        by = self._holder()
        begun = await self.store.begin(header, self.hold(by))
        async with self._holding(header.id, by) as (run, leader):
            # Frames mean that this start was repeated after its reply was lost. Then the run is under way, or was led before.
            return await leader.lead(run) if run.count == begun.count == 0 else run

    async def take_up(self, run: str, by: str = "") -> Run:
        """Lead a run whose process died. A run that needs no process is returned as it is.

        `by`: the holder that `begin` or `note_answer` has just recorded; then no process died.

        Raises:
            RunTaken: another process leads it. NoSuchRun: there is no such run.
        """
        async with self._holding(run, by or self._holder()) as (current, leader):
            if current.state != "running":
                return current
            if by and (not current.frames or isinstance(current.frames[-1], PersonAnswered)):
                return await leader.lead(current)
            taken = leader.draft(current).add_control("taken_up", "the process that led it is gone")
            return await leader.lead(current, taken)

    async def resume(self, run: str, proposal: str, became: str) -> Run:
        """Continue a run that waited for a person's decision; `became` is the outcome of the proposal as the model gets it.

        Raises:
            RunNotThere: it does not wait for that proposal. RunTaken: another process leads it. NoSuchRun: there is no such run.
        """
        async with self._holding(run, self._holder()) as (current, leader):
            if current.state != "suspended" or current.proposal != proposal:
                raise RunNotThere(run, STATE_PHRASES[current.state], f"resumed with proposal {proposal[:60]}")
            resumed = leader.draft(current).add_control("resumed", became, proposal=proposal)
            return await leader.lead(current, resumed)

    async def answer(self, run: str, text: str, by: str) -> Run:
        """Continue a run that waited for a person's answer.

        Raises:
            RunNotThere: it has no open question. RunTaken: another process leads it. NoSuchRun: there is no such run.
        """
        async with self._holding(run, self._holder()) as (current, leader):
            if current.ask is None:
                raise RunNotThere(run, STATE_PHRASES[current.state], "answered")
            answered = leader.draft(current).add(PersonAnswered, ask=current.ask.id, text=text, by=by)
            return await leader.lead(current, answered)

    async def cancel(self, run: str, why: str) -> Run:
        """End a run, whichever process leads it; that process notices with its next step. A run that has ended stays unchanged.

        Raises:
            NoSuchRun: there is no such run.
        """
        ended, frames = await end(self.store, run, "cancelled", why, now=self.now, chance=self.chance)
        for frame in frames:
            await self.progress(ended, frame)
        return ended

    def _holder(self) -> str:
        # A name for each call: even two calls of one process must not lead the same run.
        return f"led-{self.chance()}"

    @asynccontextmanager
    async def _holding(self, run: str, by: str) -> AsyncIterator[tuple[Run, RunLeader]]:
        """Hold the run while the block runs, and yield it as it is now.

        Raises:
            RunTaken: another process holds it.
        """
        ours = True  # `begin` may have recorded the hold, and a claim that is cancelled may have counted
        try:
            current = await self.store.claim(run, self.hold(by))
            if current is None:
                ours = False
                raise RunTaken(run)
            yield current, RunLeader(self, by)
        finally:
            if ours:
                # Shielded, because a cancelled call must still give the run up: nobody else could lead it for a whole lease.
                with anyio.move_on_after(CLOSING_S, shield=True), suppress(KnowledgeError):
                    await self.store.release(run, by)
