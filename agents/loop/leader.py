"""One process leads one run, step by step. Every frame is on record before the next step begins."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import KW_ONLY, dataclass, replace
from datetime import datetime, timedelta
from typing import Generic, TypeVar

import anyio

from agents.loop.decision import check_tool_names
from agents.loop.errors import LeftToOthers, NoRoom, RunTaken, StaleRun
from agents.loop.limits import MOST_INVALID, MOST_TAKEN_UP, DayLimitReached, limit_reached, seconds_left
from agents.loop.model.errors import BadAddress, BadKey, BadSurroundings, ContextTooLong, ProviderAway, ProviderError
from agents.loop.model.ports import ToolDefinition
from agents.loop.processor import Processor
from agents.loop.record.frame_factory import FrameDraft
from agents.loop.record.frames import Frame, RequestCost, ToolCallFrame, ToolResult
from agents.loop.record.run import Run
from agents.loop.record.transcript import build_transcript, definition_tokens, transcript_tokens
from agents.loop.store.ports import LONGEST_HOLD_S, Hold, RunStore
from agents.loop.store.retries import outlasting
from agents.loop.tools import CallOutcome, Tools
from knowledge.errors import KnowledgeError, OutcomeUnknown, OverQuota

T = TypeVar("T")
Progress = Callable[[Run, Frame], Awaitable[None]]
"""Gets each frame as soon as it is on record, with the run after that step. It must not raise."""

LEASE_S = LONGEST_HOLD_S
CLOSING_S = 5.0
"""Time for a cancelled run to record that it was cancelled."""
# Each time halves the history, so an eighth is left after three.
MOST_SHORTENED = 3
FEWEST_LEFT = 800
"""Tokens of the context window that a run needs beside the descriptions of its tools: the prompt, the goal, a result and an answer."""
TOOLS_TOO_LONG = (
    "the descriptions of the tools take about {tools:,} tokens, and the model's context window has {limit:,}; give the run fewer "
    "toolsets, or use a model or a server with a larger window"
)
CANCELLED = "the request that led the run was cancelled"
UNPLANNED = "the tool failed unexpectedly"
NO_TIME = "the run has no time left"
NO_PROCESS = "too many processes died while they worked on the run"
LACKS = (BadKey, BadAddress, BadSurroundings, ProviderAway)
"""Errors that may be those of one process, and not of the model or the run."""

_log = logging.getLogger(__name__)


async def _no_progress(_run: Run, _frame: Frame) -> None:
    pass


async def _no_day_limit(_run: Run) -> DayLimitReached | None:
    return None


@dataclass(frozen=True, slots=True)
class LeaderPorts:
    """Everything that leading a run needs.

    `now` returns the time of the frames, and `wall` that of the holds. The two differ if `now` is a clock that nobody
    can set back. `sleep` waits that many seconds. `nap` waits that many seconds for a run, or less if it hears that the
    run was ended. `chance` returns hexadecimal digits that nobody can guess, for ids. `outlives`: when the process is
    stopped, the run is left for another one to resume; otherwise it is cancelled, and `cancelled` returns why. `day`
    returns why the limit of all runs together keeps this run from asking a model now; None if it may.
    """

    store: RunStore
    processor: Processor
    tools: Tools
    _: KW_ONLY
    now: Callable[[], datetime]
    sleep: Callable[[float], Awaitable[None]]
    chance: Callable[[], str]
    progress: Progress = _no_progress
    lease_s: float = LEASE_S
    outlives: bool = False
    wall: Callable[[], datetime] | None = None
    nap: Callable[[str, float], Awaitable[None]] | None = None
    cancelled: Callable[[], str] = lambda: CANCELLED
    day: Callable[[Run], Awaitable[DayLimitReached | None]] = _no_day_limit

    def hold(self, by: str) -> Hold:
        """Return the hold of a process that leads a run from now on."""
        now = (self.wall or self.now)()
        return Hold(by, now, now + timedelta(seconds=self.lease_s))


@dataclass(frozen=True, slots=True)
class _BoundedResult(Generic[T]):
    """The result of work within the limits: its value, or that time was up, or that this process no longer leads the run."""

    value: T | None = None
    late: bool = False
    lost: bool = False


class RunLeader:
    """Leads a run that `by` holds."""

    def __init__(self, ports: LeaderPorts, by: str) -> None:
        self._ports, self._by = ports, by

    async def lead(self, run: Run, first: FrameDraft | None = None) -> Run:
        """Record `first`, and lead the run until it ends or waits for a person.

        If this call is cancelled, so is the run.

        A run that `outlives` its process is not cancelled: it stays as it is.

        Raises:
            RunTaken: another process believed that this one had died, and leads the run now.
            ProviderError: this process cannot ask the model, and another one may: the run stays as it is. If a caller waits for the
                run, it is LeftToOthers.
            NoRoom: all runs together reached their limit, and a person's decision would be lost: the run stays unchanged.
        """
        try:
            if first is not None:
                run = await self._settle(await self._record(first))
            while run.state == "running":
                run = await self._step(run)
        except StaleRun as error:
            raise RunTaken(run.id) from error
        except anyio.get_cancelled_exc_class():
            if not self._ports.outlives:
                with anyio.move_on_after(CLOSING_S, shield=True), suppress(KnowledgeError):
                    await self._record_cancelled(run.id)
            raise
        return run

    def draft(self, run: Run) -> FrameDraft:
        """Return an empty draft of frames for the run."""
        return FrameDraft(run, self._ports.now(), self._ports.chance)

    async def _settle(self, run: Run) -> Run:
        """Return the run with the outcome of the call that may have been under way when the process before this one died."""
        if not run.open_calls or run.open_calls[0].problem:
            return run
        # Only the first one can have begun: calls are made one after the other, each after the result before it is on record.
        call = run.open_calls[0]

        async def recall() -> CallOutcome | None:
            try:
                return await self._ports.tools.recalled(call.tool, call.key)
            except KnowledgeError:
                return None

        found = await self._within(run, recall)
        # Never called again: it may have been done, and doing it twice can do harm.
        if found.value is None:
            return await self._record(self.draft(run).add_unsure("the process that called it died"))
        return await self._record(self.draft(run).add_outcome(found.value, 0.0))

    async def _step(self, run: Run) -> Run:
        # First, because a run that kills its processes must end before it does anything that may kill this one.
        if run.taken_up > MOST_TAKEN_UP:
            why = f"each of the last {run.taken_up} processes that led the run died, or could not continue"
            return await self._record(self.draft(run).skip_calls(NO_PROCESS).add_control("failed", why))
        # Before the limits: an answer that was within them is carried out completely.
        if run.open_calls:
            return await self._make_call(run, run.open_calls[0])
        if run.invalid_answers >= MOST_INVALID and run.plan:
            count = run.invalid_answers
            why = f"{count} answers of the model in a row could not be used, the last because {run.plan.problem}"
            return await self._record(self.draft(run).add_control("failed", why))
        if reached := limit_reached(run, self._ports.now()):
            limit, why = reached
            return await self._record(self.draft(run).add_control("limit_reached", why, limit=limit))
        if day := await self._ports.day(run):
            if day.temporary and run.had_person:
                waits = NoRoom(run.id, day.why)
                return await self._leave(run, waits, str(waits), RequestCost())
            return await self._record(self.draft(run).add_control("limit_reached", day.why, limit="day"))
        return await self._ask_model(run)

    async def _ask_model(self, run: Run) -> Run:
        """Return the run with the model's decision, or with the reason why it made none."""
        offered = self._ports.tools.definitions()
        check_tool_names(offered)  # a tool of a server must not be taken for ours
        began = self._ports.now()
        try:
            decided = await self._within(run, lambda: self._ports.processor.decide(run, offered))
        except ContextTooLong as error:
            return await self._shorten(run, error, offered)
        except ProviderError as error:
            cost = self._ports.processor.cost_of(error)
            # Another process may have the key or the connection that this one lacks. So a run that others led already, or that has a
            # person's word, does not end because of it.
            others = run.taken_up > 0 or run.had_person or (self._ports.outlives and run.plan is not None)
            if isinstance(error, LACKS) and others:
                raised = error if self._ports.outlives else LeftToOthers(run.id, str(error))
                return await self._leave(run, raised, str(error), cost)
            return await self._record(self.draft(run).add_control("provider_failed", str(error), cost))
        if decided.value is None:
            return await self._stop(run, decided)
        milliseconds = self._since(began)
        try:
            return await self._record(self.draft(run).add_decision(decided.value, milliseconds))
        except OverQuota as full:
            # Only the cost of the answer is recorded, and none of its calls is made.
            cost = replace(decided.value.cost, milliseconds=milliseconds)
            return await self._record(self.draft(run).add_control("limit_reached", str(full), cost, limit="stored"))

    async def _leave(self, run: Run, raised: KnowledgeError, detail: str, cost: RequestCost) -> Run:
        """Record that the run is left for later, and raise `raised`; return the run if it was ended in the meantime."""
        left = await self._record(self.draft(run).add_control("left", detail, cost))
        if left.over:
            return left
        raise raised

    async def _shorten(self, run: Run, error: ContextTooLong, offered: Sequence[ToolDefinition]) -> Run:
        """Return the run with a smaller budget for the model's input, or failed if that was tried often enough or cannot help."""
        cost, why = self._ports.processor.cost_of(error), str(error)
        # The project's estimate of tokens is rough, so the vendor may refuse a request that fits by our count.
        budget = min(run.context_tokens, transcript_tokens(build_transcript(run))) // 2
        if error.limit is not None:
            tools = definition_tokens(offered)
            budget = min(budget, (error.limit - tools) // 2)
            if error.limit - tools < FEWEST_LEFT:
                why = TOOLS_TOO_LONG.format(tools=tools, limit=error.limit)
        if run.shortened >= MOST_SHORTENED or why != str(error):
            return await self._record(self.draft(run).add_control("provider_failed", why, cost))
        return await self._record(self.draft(run).add_control("shortened", why, cost, context_tokens=budget))

    async def _make_call(self, run: Run, call: ToolCallFrame) -> Run:
        """Return the run with the outcome of its first open call."""
        if call.problem:
            return await self._record(self.draft(run).skip_call(call.problem))
        if seconds_left(run, self._ports.now()) <= 0:
            return await self._record(self.draft(run).skip_calls(NO_TIME))
        began = self._ports.now()

        async def outcome() -> CallOutcome | None:
            try:
                return await self._ports.tools.call(call.tool, call.arguments, call.key)
            except OutcomeUnknown as error:
                return CallOutcome(success=False, text=str(error), unsure=True)
            except KnowledgeError as error:
                return CallOutcome(success=False, text=str(error))
            except Exception as error:  # noqa: BLE001 - a tool must not end a run that has a record of it
                # Without the error's text, which anyone may have written.
                _log.error("%s failed in a run: %s", call.tool, type(error).__name__)
                return None

        made = await self._within(run, outcome)
        if made.value is not None:
            return await self._record(self.draft(run).add_outcome(made.value, self._since(began)))
        if made.late or made.lost:
            return await self._stop(run, made)
        return await self._record(self.draft(run).add_unsure(UNPLANNED, self._since(began)))

    async def _stop(self, run: Run, result: _BoundedResult[T]) -> Run:
        """Return the run, if its time ran out or another process took or ended it while work was under way."""
        if result.lost:
            current = await self._ports.store.run(run.id)
            if not current.over:
                raise RunTaken(run.id)
            if current.state != "cancelled" or not current.open_calls:
                return current
            # Without a hold: the run has ended, and no process leads it.
            draft = self.draft(current).add_unsure("somebody cancelled the run while it was under way")
            return await self._append(draft, None)
        draft = self.draft(run)
        if draft.run.open_calls:
            draft.add_unsure("it was under way when the run's time ran out").skip_calls(NO_TIME)
        why = f"the run used up its {run.header.limits.seconds:g} seconds"
        return await self._record(draft.add_control("limit_reached", why, limit="seconds"))

    async def _record_cancelled(self, run: str) -> None:
        for _ in range(3):  # the step that was being recorded during the cancellation may still be recorded
            current = await self._ports.store.run(run)
            if current.state != "running":
                return
            draft = self.draft(current)
            if current.open_calls:
                draft.add_unsure("the run was cancelled while it was under way").skip_calls("the run was cancelled")
            with suppress(StaleRun):
                await self._record(draft.add_control("cancelled", self._ports.cancelled()))
                return

    async def _record(self, draft: FrameDraft) -> Run:
        """Return the run with the draft recorded; if it was cancelled in the meantime, with the result of the call under way."""
        try:
            return await self._append(draft, self._ports.hold(self._by))
        except StaleRun:
            current = await self._ports.store.run(draft.run.id)
            if not current.over:
                raise
            result = next((frame for frame in draft.frames if isinstance(frame, ToolResult)), None)
            # The cancellation left the outcome of the open call to the process that made the call, which is this one.
            waits = current.open_calls[0].id if current.state == "cancelled" and current.open_calls else ""
            if result is None or result.call != waits:
                return current
            return await self._append(self.draft(current).add_again(result), None)

    async def _append(self, draft: FrameDraft, hold: Hold | None) -> Run:
        """Return the run with the draft on record, and report the new frames.

        A model's answer and a tool's result survive while the database is unavailable for a moment. If the reply of an append was
        lost, the same frames are found on record and not added again.
        """
        ports = self._ports
        run = await outlasting(lambda: ports.store.append(draft.before, draft.frames, hold), ports.sleep)
        for frame in draft.frames:
            await ports.progress(run, frame)
        return run

    async def _within(self, run: Run, work: Callable[[], Awaitable[T]]) -> _BoundedResult[T]:
        """Return the result of the work, unless the run's time is up first, or this process no longer leads it."""
        done: list[_BoundedResult[T]] = []
        stopped: list[_BoundedResult[T]] = []
        failed: list[Exception] = []

        async def watch() -> None:
            stopped.append(await self._watch(run, seconds_left(run, self._ports.now())))
            group.cancel_scope.cancel()

        async with anyio.create_task_group() as group:
            group.start_soon(watch)
            try:
                done.append(_BoundedResult(await work()))
            except Exception as error:  # noqa: BLE001 - raised below: out of the task group it would come in an ExceptionGroup
                failed.append(error)
            group.cancel_scope.cancel()
        if failed:
            raise failed[0]
        return (done or stopped)[0]  # if both came, the work was done

    async def _watch(self, run: Run, seconds: float) -> _BoundedResult[T]:
        """Renew the hold until the time is up or the run is lost, then return."""
        ports = self._ports
        while seconds > 0:
            # Three times per lease, so that one renewal that fails does not cost the run.
            wait_s = min(seconds, ports.lease_s / 3)
            await (ports.nap(run.id, wait_s) if ports.nap else ports.sleep(wait_s))
            seconds -= wait_s
            if seconds > 0:
                with suppress(KnowledgeError):
                    current = await ports.store.claim(run.id, ports.hold(self._by))
                    if current is None or current.over:
                        return _BoundedResult(lost=True)
        return _BoundedResult(late=True)

    def _since(self, began: datetime) -> float:
        """Return the milliseconds since then."""
        return max(0.0, (self._ports.now() - began) / timedelta(milliseconds=1))
