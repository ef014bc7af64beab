"""New frames of a run, each in its place. Pure: time and ids come in."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, replace
from datetime import datetime
from typing import Any, TypeVar

from agents.loop.decision import Decision, storable_json
from agents.loop.explanation import short_trace
from agents.loop.record.frames import (
    AskUser,
    Control,
    Frame,
    PlanFrame,
    RequestCost,
    ResponseFrame,
    Signal,
    ToolCallFrame,
    ToolResult,
)
from agents.loop.record.run import Run
from agents.loop.tools import CallOutcome

FrameT = TypeVar("FrameT", bound=Frame)

MOST_TEXT_CHARS, MOST_ERROR_CHARS = 100_000, 2_000
"""Limits of the text that a tool returned, and of its error. The model gets less anyway."""

NOT_CALLED = "It was not called: {why}."
UNSURE = "It is not known whether this was done: {why}. Look before you call it again."
WAITS = "the call before it waits for a person. Call it again afterwards if it still makes sense"


class FrameDraft:
    """Frames to add to the run `before`; `run` is the run with them."""

    def __init__(self, before: Run, at: datetime, chance: Callable[[], str]) -> None:
        self.before = self.run = before
        # The clocks of two machines differ, but the frames of a run are in order.
        self._at, self._chance = max(at, before.moved_at), chance

    @property
    def frames(self) -> tuple[Frame, ...]:
        """The new frames."""
        return self.run.frames[self.before.count :]

    def add(self, kind: type[FrameT], **values: Any) -> FrameDraft:
        """Add a frame of that kind."""
        self._add(kind, **values)
        return self

    def add_decision(self, decision: Decision, milliseconds: float) -> FrameDraft:
        """Add a model's answer with its calls, its question or the response."""
        plan = self._add(
            PlanFrame,
            goal=self.run.header.goal,
            reasoning=decision.text,
            next_action=decision.action,
            limit=self.run.header.limits.iterations,
            observations=decision.observations,
            problem=decision.problem,
            offered=decision.offered,
            echo=decision.echo,
            **asdict(replace(decision.cost, milliseconds=milliseconds)),
        )
        for one in decision.wanted:
            use = one.use
            self._add(
                ToolCallFrame,
                plan=plan.id,
                tool=use.name,
                use=use.id,
                arguments=use.arguments,
                reasoning=decision.text,
                problem=one.problem,
                unread=use.problem,
            )
        if decision.action == "ask":
            self._add(AskUser, question=decision.said, plan=plan.id, use=decision.use)
        elif decision.action in ("respond", "give_up"):
            self._add(
                ResponseFrame,
                plan=plan.id,
                text=decision.said,
                goal_achieved=decision.action == "respond" and not decision.lacks,
                why=decision.lacks,
                iterations=self.run.iterations,
                tools_called=self.run.tools_called,
                trace=short_trace(self.run),
            )
        return self

    def add_outcome(self, outcome: CallOutcome, milliseconds: float) -> FrameDraft:
        """Add the outcome of the first open call. If it waits for a person, the run waits, and the calls after it are not made."""
        text = outcome.text or outcome.asks
        if len(text) > MOST_TEXT_CHARS:
            more = len(text) - MOST_TEXT_CHARS
            text = f"{text[:MOST_TEXT_CHARS]}\n(the rest was not kept: {more} more characters)"
        result = self._add_result(
            success=outcome.success and not (outcome.proposal or outcome.asks or outcome.unsure),
            text=text,
            structured=storable_json(outcome.structured),
            error=outcome.text[:MOST_ERROR_CHARS] if outcome.unsure or not outcome.success else "",
            milliseconds=milliseconds,
            proposal=outcome.proposal,
            unsure=outcome.unsure,
            called=outcome.called,
        )
        # The model chose the calls after this one before it knew the outcome.
        if outcome.proposal:
            why = f"a person decides about proposal {outcome.proposal}"
            self.skip_calls(WAITS).add_control("suspended", why, proposal=outcome.proposal)
        elif outcome.asks:
            self.skip_calls(WAITS).add(AskUser, question=outcome.asks, call=result.call)
        return self

    def add_again(self, result: ToolResult) -> FrameDraft:
        """Add a result that was created for another position in the run."""
        at = max(self._at, result.at)
        self.run = self.run.then(replace(result, number=self.run.count, at=at, iteration=self.run.iterations))
        return self

    def add_unsure(self, why: str, milliseconds: float = 0.0) -> FrameDraft:
        """Add that it is unknown whether the first open call was done. A call with a `problem` certainly was not."""
        if problem := self.run.open_calls[0].problem:
            return self.skip_call(problem)
        text = UNSURE.format(why=why)
        self._add_result(success=False, text=text, error=text, milliseconds=milliseconds, unsure=True)
        return self

    def skip_call(self, why: str) -> FrameDraft:
        """Add that the first open call was not made."""
        text = NOT_CALLED.format(why=why)
        self._add_result(success=False, text=text, error=text, called=False)
        return self

    def skip_calls(self, why: str) -> FrameDraft:
        """Add that none of the open calls was made."""
        while self.run.open_calls:
            self.skip_call(why)
        return self

    def add_control(self, signal: Signal, detail: str, cost: RequestCost | None = None, **more: Any) -> FrameDraft:
        """Add that the run stops, waits or continues."""
        self._add(Control, signal=signal, detail=detail, **asdict(cost or RequestCost()), **more)
        return self

    def _add_result(self, **values: Any) -> ToolResult:
        call = self.run.open_calls[0]
        return self._add(ToolResult, call=call.id, tool=call.tool, **values)

    def _add(self, kind: type[FrameT], **values: Any) -> FrameT:
        iteration = self.run.iterations + (kind is PlanFrame)
        place: dict[str, Any] = {"run": self.run.id, "number": self.run.count, "at": self._at, "iteration": iteration}
        frame = kind(id=f"f-{self._chance()}", **place, **values)
        self.run = self.run.then(frame)
        return frame
