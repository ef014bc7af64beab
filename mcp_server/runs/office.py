"""Leads the runs of one process: those that a call waits for, and those that go on in the background."""

from __future__ import annotations

import logging
import secrets
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import anyio
from anyio.abc import TaskGroup

from agents.loop.errors import RunTaken
from agents.loop.executor import Executor
from agents.loop.frames import Frame, Header
from agents.loop.processor import Processor
from agents.loop.run import Run
from agents.loop.store import Hold, RunStore
from agents.loop.tools import Tools
from knowledge.errors import KnowledgeError
from knowledge.storage.ports import StateStore

if TYPE_CHECKING:
    from mcp_server.models.configured import ConfiguredModel
    from mcp_server.services import Clock

logger = logging.getLogger("knowledge_forge.runs")

Progress = Callable[[Run, Frame], Awaitable[None]]


async def unwatched(_run: Run, _frame: Frame) -> None:
    """Look at nothing."""


@dataclass(frozen=True, slots=True)
class _Wish:
    """What is to be done with a run: by default to lead it as it stands."""

    proposal: str = ""
    became: str = ""
    answer: str = ""
    by: str = ""


class Runs:
    """The runs of one knowledge base, as one process begins and leads them.

    `tools` returns what a run may call. `background` is where runs go on for which nobody waits; they outlive this process: another
    one takes them up.
    """

    def __init__(
        self,
        store: RunStore,
        state: StateStore,
        model: ConfiguredModel,
        tools: Callable[[Header], Tools],
        background: TaskGroup,
        *,
        now: Clock,
        sleep: Callable[[float], Awaitable[None]] = anyio.sleep,
    ) -> None:
        self.store, self.model = store, model
        self._state, self._tools, self._background = state, tools, background
        self._now, self._sleep = now, sleep

    async def begin(self, header: Header) -> Run:
        """Put a run on record that nobody leads yet. The very same header again returns the run as it stands.

        Raises:
            RunExists: another run has that id.
        """
        now = self._now()
        return await self.store.begin(header, Hold(f"begun-{secrets.token_hex(4)}", now, now))

    async def lead(self, run: str, *, progress: Progress = unwatched) -> Run:
        """Lead a run until it is over or waits for a person, and return it. When this is cancelled, so is the run.

        Where another process leads it, this follows.
        """
        return await self._led(run, _Wish(), progress, outlives=False)

    async def answer(self, run: str, text: str, by: str, *, progress: Progress = unwatched) -> Run:
        """Answer the question of a run and lead it on, likewise.

        Raises:
            RunNotThere: it asks nothing.
        """
        return await self._led(run, _Wish(answer=text, by=by), progress, outlives=False)

    async def resume(self, run: str, proposal: str, became: str, *, progress: Progress = unwatched) -> Run:
        """Lead a run on that waited for that proposal, likewise; `became` is what its model is told of it.

        Raises:
            RunNotThere: it does not wait for that.
        """
        return await self._led(run, _Wish(proposal=proposal, became=became), progress, outlives=False)

    def lead_aside(self, run: str) -> None:
        """Lead a run in the background."""
        self._background.start_soon(self._aside, run, _Wish())

    def answer_aside(self, run: str, text: str, by: str) -> None:
        """Answer the question of a run and lead it on in the background."""
        self._background.start_soon(self._aside, run, _Wish(answer=text, by=by))

    def resume_aside(self, run: str, proposal: str, became: str) -> None:
        """Lead a run on in the background that waited for that proposal."""
        self._background.start_soon(self._aside, run, _Wish(proposal=proposal, became=became))

    async def cancel(self, run: str, why: str) -> Run:
        """End a run, whoever leads it."""
        return await (await self._executor(await self.store.run(run), unwatched, outlives=True)).cancel(run, why)

    async def followed(self, run: str, start: int = 0) -> AsyncIterator[tuple[Run, Frame]]:
        """Yield the frames of a run from that number on, as they come on record, until it is over or waits for a person."""
        while True:
            seen = await self._state.last_event()
            there = await self.store.run(run)
            for frame in there.frames[start:]:
                yield there, frame
            start = there.count
            if there.state != "running":
                return
            await self._state.changed(seen)

    async def _led(self, run: str, wish: _Wish, progress: Progress, *, outlives: bool) -> Run:
        there = await self.store.run(run)
        executor = await self._executor(there, progress, outlives=outlives)
        try:
            if wish.proposal:
                return await executor.resume(run, wish.proposal, wish.became)
            if wish.answer:
                return await executor.answer(run, wish.answer, wish.by)
            return await executor.take_up(run)
        except RunTaken:
            async for at, frame in self.followed(run, there.count):
                await progress(at, frame)
            return await self.store.run(run)

    async def _aside(self, run: str, wish: _Wish) -> None:
        try:
            await self._led(run, wish, unwatched, outlives=True)
        except KnowledgeError as error:
            logger.warning("run %s cannot be led on now: %s", run, error)
        except Exception:
            logger.exception("run %s cannot be led on", run)

    async def _executor(self, run: Run, progress: Progress, *, outlives: bool) -> Executor:
        return Executor(
            self.store,
            Processor(await self.model.provider(), self.model.cost),
            self._tools(run.header),
            now=self._now,
            sleep=self._sleep,
            chance=lambda: secrets.token_hex(8),
            progress=progress,
            outlives=outlives,
        )
