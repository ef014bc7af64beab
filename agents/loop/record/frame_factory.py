"""New frames of a run, each in its place. Pure: time and ids come in."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import datetime
from typing import Any, TypeVar

from agents.loop.decision import Decision, Took, storable_json
from agents.loop.explanation import traced
from agents.loop.record.frames import (
    AskUser,
    Control,
    Frame,
    PlanFrame,
    ResponseFrame,
    Signal,
    ToolCallFrame,
    ToolResult,
)
from agents.loop.record.run import Run
from agents.loop.tools import CallOutcome

FrameT = TypeVar("FrameT", bound=Frame)

MOST_TEXT_CHARS, MOST_ERROR_CHARS = 100_000, 2_000
"""Of what a tool returned, and of what it said when it failed. A model is told less anyway."""

NOT_CALLED = "It was not called: {why}."
UNSURE = "It is not known whether this was done: {why}. Look before you call it again."
WAITS = "the call before it waits for a person. Call it again afterwards if it still makes sense"


class FrameDraft:
    """What is to be added to `before`: `run` is the run with it."""

    def __init__(self, before: Run, at: datetime, chance: Callable[[], str]) -> None:
        self.before = self.run = before
        # Two machines' clocks differ, a run's frames are in order.
        self._at, self._chance = max(at, before.moved_at), chance

    @property
    def frames(self) -> tuple[Frame, ...]:
        """Return what is new."""
        return self.run.frames[self.before.count :]

    def decided(self, decision: Decision, milliseconds: float) -> FrameDraft:
        """Add a model's answer with what it decided."""
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
            **_took(replace(decision.took, milliseconds=milliseconds)),
        )
        for one in decision.wanted:
            use = one.use
            told = {"tool": use.name, "use": use.id, "arguments": use.arguments, "reasoning": decision.text}
            self._add(ToolCallFrame, plan=plan.id, problem=one.problem, unread=use.problem, **told)
        if decision.action == "ask":
            self._add(AskUser, question=decision.said, plan=plan.id, use=decision.use)
        elif decision.action in ("respond", "give_up"):
            self._add(
                ResponseFrame,
                plan=plan.id,
                text=decision.said,
                goal_achieved=decision.action == "respond",
                iterations=self.run.iterations,
                tools_called=self.run.tools_called,
                trace=traced(self.run),
            )
        return self

    def came(self, outcome: CallOutcome, milliseconds: float) -> FrameDraft:
        """Add what came of the first open call. Where it waits for a person, those after it are not called, and the run waits, too."""
        result = self._result(
            success=outcome.success and not (outcome.proposal or outcome.asks or outcome.unsure),
            text=_kept(outcome.text or outcome.asks),
            structured=storable_json(outcome.structured),
            error=outcome.text[:MOST_ERROR_CHARS] if outcome.unsure or not outcome.success else "",
            milliseconds=milliseconds,
            proposal=outcome.proposal,
            unsure=outcome.unsure,
            called=outcome.called,
        )
        if outcome.proposal:
            why = f"a person decides about proposal {outcome.proposal}"
            self.not_called(WAITS).control("suspended", why, proposal=outcome.proposal)
        elif outcome.asks:
            self.not_called(WAITS).add(AskUser, question=outcome.asks, call=result.call)
        return self

    def again(self, result: ToolResult) -> FrameDraft:
        """Add a result that was made for another place."""
        at = max(self._at, result.at)
        self.run = self.run.then(replace(result, number=self.run.count, at=at, iteration=self.run.iterations))
        return self

    def unsure(self, why: str, milliseconds: float = 0.0) -> FrameDraft:
        """Add that nobody knows whether the first open call was done; one that could not be called was not."""
        if self.run.open_calls[0].problem:
            return self.refused(self.run.open_calls[0].problem)
        told = UNSURE.format(why=why)
        self._result(success=False, text=told, error=told, milliseconds=milliseconds, unsure=True)
        return self

    def refused(self, why: str) -> FrameDraft:
        """Add that the first open call was not called."""
        told = NOT_CALLED.format(why=why)
        self._result(success=False, text=told, error=told, called=False)
        return self

    def not_called(self, why: str) -> FrameDraft:
        """Add that none of the open calls was called."""
        while self.run.open_calls:
            self.refused(why)
        return self

    def control(self, signal: Signal, detail: str, took: Took | None = None, **more: Any) -> FrameDraft:
        """Add that the run stops, waits or goes on."""
        self._add(Control, signal=signal, detail=detail, **_took(took or Took()), **more)
        return self

    def add(self, kind: type[FrameT], **what: Any) -> FrameDraft:
        """Add a frame of that kind."""
        self._add(kind, **what)
        return self

    def _result(self, **what: Any) -> ToolResult:
        call = self.run.open_calls[0]
        return self._add(ToolResult, call=call.id, tool=call.tool, **what)

    def _add(self, kind: type[FrameT], **what: Any) -> FrameT:
        iteration = self.run.iterations + (kind is PlanFrame)
        place: dict[str, Any] = {"run": self.run.id, "number": self.run.count, "at": self._at, "iteration": iteration}
        frame = kind(id=f"f-{self._chance()}", **place, **what)
        self.run = self.run.then(frame)
        return frame


def _kept(text: str) -> str:
    """Return what of a tool's output is kept, with a word on what is not."""
    if len(text) <= MOST_TEXT_CHARS:
        return text
    return f"{text[:MOST_TEXT_CHARS]}\n(the rest was not kept: {len(text) - MOST_TEXT_CHARS} more characters)"


def _took(took: Took) -> dict[str, Any]:
    return {name: getattr(took, name) for name in Took.__slots__}
