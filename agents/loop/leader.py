"""One process leads one run, step by step. Every frame is on record before the next step begins."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Generic, TypeVar

import anyio

from agents.loop.decision import Took, require_ours_free
from agents.loop.errors import LeftToOthers, NoRoom, RunTaken, StaleRun
from agents.loop.limits import MOST_TAKEN_UP, MOST_WRONG, Full, reached, seconds_left
from agents.loop.model.errors import BadAddress, BadKey, BadSurroundings, ContextTooLong, ProviderAway, ProviderError
from agents.loop.model.ports import ToolDefinition
from agents.loop.processor import Processor
from agents.loop.record.frame_factory import FrameDraft
from agents.loop.record.frames import Frame, ToolCallFrame, ToolResult
from agents.loop.record.run import Run
from agents.loop.record.transcript import transcript, transcript_tokens
from agents.loop.store.ports import Hold, RunStore
from agents.loop.store.retries import outlasting
from agents.loop.tools import CallOutcome, Tools
from knowledge.errors import KnowledgeError, OutcomeUnknown, OverQuota

T = TypeVar("T")
Progress = Callable[[Run, Frame], Awaitable[None]]
"""Is told each frame as soon as it is on record, with the run as it stands after the step."""

CLOSING_S = 5.0
"""So long a run that is cancelled may take to record that."""
MOST_SHORTENED = 3
CANCELLED = "the request that led the run was cancelled"
UNPLANNED = "the tool failed in a way that nobody planned for"
NO_TIME = "the run has no time left"
NO_PROCESS = "too many processes died over the run"
LACKS = (BadKey, BadAddress, BadSurroundings, ProviderAway)
"""What may be wrong with one process, and not with the model or the run."""

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Ports:
    """What leading a run needs. `now` is the time of its frames, `wall` that by which holds end.

    `nap` waits for so many seconds, less if it is known that somebody ended the run meanwhile. `cancelled` says why a run ends
    with what leads it. `day` returns why no run may ask a model now because all runs together took what they may; None where
    this one may.
    """

    store: RunStore
    processor: Processor
    tools: Tools
    now: Callable[[], datetime]
    sleep: Callable[[float], Awaitable[None]]
    chance: Callable[[], str]
    progress: Progress
    lease_s: float
    outlives: bool
    wall: Callable[[], datetime]
    nap: Callable[[str, float], Awaitable[None]]
    cancelled: Callable[[], str]
    day: Callable[[Run], Awaitable[Full | None]]

    def hold(self, by: str) -> Hold:
        """Return that `by` leads a run from now on."""
        now = self.wall()
        return Hold(by, now, now + timedelta(seconds=self.lease_s))

    async def append(self, draft: FrameDraft, hold: Hold | None) -> Run:
        """Return the run with the draft on record, of which whoever looks on is told. The same frames again are no others.

        What a model answered, and what a tool did, is not lost because the database is away for a while.
        """
        run = await outlasting(lambda: self.store.append(draft.before, draft.frames, hold), self.sleep)
        for frame in draft.frames:
            await self.progress(run, frame)
        return run


@dataclass(frozen=True, slots=True)
class _Came(Generic[T]):
    """What came of work that was bounded: its value, or that time was up, or that the run is led from here no more."""

    value: T | None = None
    late: bool = False
    lost: bool = False


class Leading:
    """Leads a run that `by` holds."""

    def __init__(self, ports: Ports, by: str) -> None:
        self._ports, self._by = ports, by

    async def lead(self, run: Run, first: FrameDraft | None = None) -> Run:
        """Record `first` and return the run when it is over or waits for a person. When this is cancelled, so is the run.

        One that outlives who leads it stays as it is then.

        Raises:
            RunTaken: another process believed this one dead, and leads the run now.
            ProviderError: this process cannot ask the model, and another one may: the run stays as it is. Where somebody waits for
                the run, LeftToOthers says so.
            NoRoom: all runs together took what they may, and a person's word would be lost: the run stays as it is.
        """
        try:
            if first is not None:
                run = await self._settled(await self.record(first))
            while run.state == "running":
                run = await self._step(run)
        except StaleRun as error:
            raise RunTaken(run.id) from error
        except anyio.get_cancelled_exc_class():
            if not self._ports.outlives:
                with anyio.move_on_after(CLOSING_S, shield=True), suppress(KnowledgeError):
                    await self._ended(run.id)
            raise
        return run

    async def _step(self, run: Run) -> Run:
        if run.taken_up > MOST_TAKEN_UP:
            why = f"each of the last {run.taken_up} processes that led the run died, or could not go on"
            return await self.record(self.draft(run).not_called(NO_PROCESS).control("failed", why))
        if run.open_calls:
            return await self._carried_out(run, run.open_calls[0])
        if run.wrong >= MOST_WRONG and run.plan:
            why = f"{run.wrong} answers of the model in a row could not be used, the last because {run.plan.problem}"
            return await self.record(self.draft(run).control("failed", why))
        if bound := reached(run, self._ports.now()):
            limit, told = bound
            return await self.record(self.draft(run).control("limit_reached", told, limit=limit))
        if full := await self._ports.day(run):
            if full.passes and run.helped_on:
                waits = NoRoom(run.id, full.why)
                return await self._left(run, waits, str(waits), Took())
            return await self.record(self.draft(run).control("limit_reached", full.why, limit="day"))
        return await self._asked(run)

    async def _asked(self, run: Run) -> Run:
        """Return the run with what a model decides."""
        offered = self._offered()
        began = self._ports.now()
        try:
            came = await self._within(run, lambda: self._ports.processor.decide(run, offered))
        except ContextTooLong as error:
            return await self._shortened(run, error)
        except ProviderError as error:
            took = self._ports.processor.failed(error)
            if not self._left_to_others(run, error):
                return await self.record(self.draft(run).control("provider_failed", str(error), took))
            told = error if self._ports.outlives else LeftToOthers(run.id, str(error))
            return await self._left(run, told, str(error), took)
        if came.value is None:
            return await self._stopped(run, came)
        milliseconds = self._since(began)
        try:
            return await self.record(self.draft(run).decided(came.value, milliseconds))
        except OverQuota as full:
            # Nothing of the answer is kept but what it took, and none of its calls is made.
            took = replace(came.value.took, milliseconds=milliseconds)
            return await self.record(self.draft(run).control("limit_reached", str(full), took, limit="stored"))

    async def _left(self, run: Run, why: KnowledgeError, detail: str, took: Took) -> Run:
        """Record that the run is left for later, and raise why; return it if somebody ended it meanwhile."""
        left = await self.record(self.draft(run).control("left", detail, took))
        if left.over:
            return left
        raise why

    def _left_to_others(self, run: Run, error: ProviderError) -> bool:
        """Return whether another process may have what this one lacks.

        A run that others led already, or that a person helped on, does not end for want of it.
        """
        others = run.taken_up > 0 or run.helped_on or (self._ports.outlives and run.plan is not None)
        return isinstance(error, LACKS) and others

    async def _shortened(self, run: Run, error: ContextTooLong) -> Run:
        """Return the run so that a model is told half of what it had no room for, or failed if that was tried often enough."""
        told, took = transcript_tokens(transcript(run)), self._ports.processor.failed(error)
        if run.shortened >= MOST_SHORTENED:
            return await self.record(self.draft(run).control("provider_failed", str(error), took))
        half = min(run.context_tokens, told) // 2
        return await self.record(self.draft(run).control("shortened", str(error), took, context_tokens=half))

    async def _carried_out(self, run: Run, call: ToolCallFrame) -> Run:
        """Return the run with what came of its first open call."""
        if call.problem:
            return await self.record(self.draft(run).refused(call.problem))
        if seconds_left(run, self._ports.now()) <= 0:
            return await self.record(self.draft(run).not_called(NO_TIME))
        began = self._ports.now()
        came = await self._within(run, lambda: self._outcome(call))
        if came.value is None and not came.late and not came.lost:
            return await self.record(self.draft(run).unsure(UNPLANNED, self._since(began)))
        if came.value is None:
            return await self._stopped(run, came)
        return await self.record(self.draft(run).came(came.value, self._since(began)))

    async def _outcome(self, call: ToolCallFrame) -> CallOutcome | None:
        """Call the tool and return what came of it; None if nobody can tell."""
        try:
            return await self._ports.tools.call(call.tool, call.arguments, call.key)
        except OutcomeUnknown as error:
            return CallOutcome(success=False, text=str(error), unsure=True)
        except KnowledgeError as error:
            return CallOutcome(success=False, text=str(error))
        except Exception as error:  # noqa: BLE001 - a tool must not end a run that has a record of it
            # Its text may be anybody's.
            _log.error("%s failed in a run: %s", call.tool, type(error).__name__)
            return None

    async def _stopped(self, run: Run, came: _Came[T]) -> Run:
        """Return the run after time was up, or somebody else took it, while something was under way."""
        if came.lost:
            there = await self._ports.store.run(run.id)
            if not there.over:
                raise RunTaken(run.id)
            return await self._known_late(there, "somebody cancelled the run while it was under way")
        draft = self.draft(run)
        if draft.run.open_calls:
            draft.unsure("it was under way when the time of the run was up").not_called(NO_TIME)
        told = f"the run has had its {run.header.limits.seconds:g} seconds"
        return await self.record(draft.control("limit_reached", told, limit="seconds"))

    async def _settled(self, run: Run) -> Run:
        """Return the run with what became of the call that may have been under way when the process died that led it before."""
        if not run.open_calls or run.open_calls[0].problem:
            return run
        call = run.open_calls[0]
        came = await self._within(run, lambda: self._recalled(call))
        if came.value is None:
            return await self.record(self.draft(run).unsure("the process that called it died"))
        return await self.record(self.draft(run).came(came.value, 0.0))

    async def _recalled(self, call: ToolCallFrame) -> CallOutcome | None:
        try:
            return await self._ports.tools.recalled(call.tool, call.key)
        except KnowledgeError:
            return None

    async def _ended(self, run: str) -> None:
        """Record that the run was cancelled, as far as its record goes."""
        for _ in range(3):  # what was being recorded when the cancellation came may come to be on record meanwhile
            there = await self._ports.store.run(run)
            if there.state != "running":
                return
            draft = self.draft(there)
            if there.open_calls:
                draft.unsure("the run was cancelled while it was under way").not_called("the run was cancelled")
            with suppress(StaleRun):
                await self.record(draft.control("cancelled", self._ports.cancelled()))
                return

    # --- on record ----------------------------------------------------------------------------------------------------

    async def record(self, draft: FrameDraft) -> Run:
        """Return the run with the draft on record; if somebody cancelled it meanwhile, with the result of what was under way."""
        try:
            return await self._ports.append(draft, self._ports.hold(self._by))
        except StaleRun:
            there = await self._ports.store.run(draft.run.id)
            if not there.over:
                raise
            result = next((frame for frame in draft.frames if isinstance(frame, ToolResult)), None)
            return await self._known_late(there, "", result)

    async def _known_late(self, run: Run, why: str, result: ToolResult | None = None) -> Run:
        """Return the cancelled run with what came of the call that was under way."""
        if run.state != "cancelled" or not run.open_calls or (result and result.call != run.open_calls[0].id):
            return run
        draft = self.draft(run)
        if result is None and not why:
            return run
        return await self._ports.append(draft.again(result) if result else draft.unsure(why), None)

    async def _within(self, run: Run, work: Callable[[], Awaitable[T]]) -> _Came[T]:
        """Return what the work returns, unless the run's time is up before, or it is led by this process no more."""
        done: list[_Came[T]] = []
        stopped: list[_Came[T]] = []
        failed: list[Exception] = []

        async def watch() -> None:
            stopped.append(await self._watched(run, seconds_left(run, self._ports.now())))
            group.cancel_scope.cancel()

        async with anyio.create_task_group() as group:
            group.start_soon(watch)
            try:
                done.append(_Came(await work()))
            except Exception as error:  # noqa: BLE001 - raised below, where no group wraps it
                failed.append(error)
            group.cancel_scope.cancel()
        if failed:
            raise failed[0]
        return (done or stopped)[0]

    async def _watched(self, run: Run, seconds: float) -> _Came[T]:
        """Return when that time is up, or the run is lost; let others know meanwhile that it is led."""
        while seconds > 0:
            nap = min(seconds, self._ports.lease_s / 3)
            await self._ports.nap(run.id, nap)
            seconds -= nap
            if seconds > 0:
                with suppress(KnowledgeError):
                    there = await self._ports.store.claim(run.id, self._ports.hold(self._by))
                    if there is None or there.over:
                        return _Came(lost=True)
        return _Came(late=True)

    def _offered(self) -> Sequence[ToolDefinition]:
        offered = self._ports.tools.definitions()
        require_ours_free(offered)
        return offered

    def draft(self, run: Run) -> FrameDraft:
        """Return what is to be added to the run, nothing so far."""
        return FrameDraft(run, self._ports.now(), self._ports.chance)

    def _since(self, began: datetime) -> float:
        """Return the milliseconds since then."""
        return max(0.0, (self._ports.now() - began) / timedelta(milliseconds=1))
