"""Runs to lead in tests: headers, frames in place, and walks through every state."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from hypothesis import strategies as st

from agents.loop.record.frames import (
    AskUser,
    Control,
    Frame,
    Header,
    PersonAnswered,
    PlanFrame,
    ResponseFrame,
    RunLimits,
    Signal,
    ToolCallFrame,
    ToolResult,
)
from agents.loop.record.run import Run, begun
from agents.loop.store.ports import Hold
from tests.support.state.ledgers import NOW

ADA = "ada@desktop"
ODD = "Zażółć \x00 \ud800 🜁 \u2028 ' \" \\"
SECOND = timedelta(seconds=1)


def header(run: str = "run-1", **more: Any) -> Header:
    """Return the beginning of a run."""
    told = {"goal": "Say what the cap is.", "principal": ADA, "begun_at": NOW, "model": "test:small", **more}
    return Header(id=run, **told)


def hold(by: str = "one", at: datetime = NOW, seconds: float = 30) -> Hold:
    return Hold(by, at, at + timedelta(seconds=seconds))


@dataclass
class Walk:
    """A run led without a store or a model.

    Each method adds the frames of one step, a second after the previous ones.
    """

    run: Run = field(default_factory=lambda: begun(header()))

    def place(self, iteration: int | None = None) -> dict[str, Any]:
        """Return the next frame's place."""
        run = self.run
        return {
            "id": f"f-{run.count}",
            "run": run.id,
            "number": run.count,
            "at": NOW + (run.count + 1) * SECOND,
            "iteration": run.iterations if iteration is None else iteration,
        }

    def add(self, frame: Frame) -> Frame:
        self.run = self.run.then(frame)
        return frame

    def plan(self, action: Any, said: str = "", **more: Any) -> PlanFrame:
        told = {
            "goal": self.run.header.goal,
            "limit": self.run.header.limits.iterations,
            "tokens_in": 100,
            "tokens_out": 7,
        }
        made = PlanFrame(**self.place(self.run.iterations + 1), reasoning=said, next_action=action, **{**told, **more})
        self.add(made)
        return made

    def call(self, *tools: str, said: str = "", **arguments: Any) -> Sequence[ToolCallFrame]:
        """Decide to call these tools, all with the same arguments."""
        plan = self.plan("call", said)
        made = []
        for tool in tools:
            place = self.place()
            made.append(
                ToolCallFrame(**place, plan=plan.id, tool=tool, use=f"use-{place['number']}", arguments=arguments)
            )
            self.add(made[-1])
        return made

    def result(self, text: str = "found", *, success: bool = True, **more: Any) -> ToolResult:
        """Answer the first open call."""
        call = self.run.open_calls[0]
        made = ToolResult(**self.place(), call=call.id, tool=call.tool, success=success, text=text, **more)
        self.add(made)
        return made

    def correct(self, problem: str = "it was empty") -> None:
        self.plan("correct", problem=problem)

    def ask(self, question: str = "Which team?") -> AskUser:
        plan = self.plan("ask")
        made = AskUser(**self.place(), question=question, plan=plan.id, use="use-ask")
        self.add(made)
        return made

    def answer(self, text: str = "Blue.") -> None:
        assert self.run.ask is not None
        self.add(PersonAnswered(**self.place(), ask=self.run.ask.id, text=text, by=ADA))

    def control(self, signal: Signal, detail: str = "so it is", **more: Any) -> None:
        self.add(Control(**self.place(), signal=signal, detail=detail, **more))

    def respond(self, text: str = "The cap is 20.", *, achieved: bool = True) -> None:
        plan = self.plan("respond" if achieved else "give_up")
        run = self.run
        told: dict[str, Any] = {"iterations": run.iterations, "tools_called": run.tools_called}
        self.add(ResponseFrame(**self.place(), plan=plan.id, text=text, goal_achieved=achieved, **told))


@st.composite
def walks(draw: st.DrawFn) -> Walk:
    """Draw a run in any state that it can reach, with any texts."""
    texts = st.text(max_size=40) | st.just(ODD)
    limits = RunLimits(iterations=draw(st.integers(1, 9)), context_tokens=draw(st.sampled_from([200, 600, 24_000])))
    head = header(goal=draw(st.text(min_size=1, max_size=30)), context=draw(texts), limits=limits)
    walk = Walk(begun(head))
    for _ in range(draw(st.integers(0, 12))):
        if walk.run.over:
            break
        _step(draw, walk, texts)
    return walk


def _step(draw: st.DrawFn, walk: Walk, texts: st.SearchStrategy[str]) -> None:
    run = walk.run
    if run.state == "asking":
        walk.answer(draw(texts))
    elif run.state == "suspended":
        walk.control("resumed", draw(texts), proposal=run.proposal)
    elif run.open_calls:
        success = draw(st.booleans())
        walk.result(draw(texts) * draw(st.sampled_from([1, 80])), success=success, error="" if success else "no")
        if not walk.run.open_calls and draw(st.booleans()):
            walk.control("suspended", "a person decides", proposal="p-1")
    else:
        match draw(st.sampled_from(["call", "call", "call", "correct", "ask", "taken_up", "left", "shortened", "end"])):
            case "call":
                tools = draw(st.lists(st.sampled_from(["kb_search", "kb_read"]), min_size=1, max_size=3))
                walk.call(*tools, said=draw(texts), query=draw(texts) * draw(st.sampled_from([1, 40])))
            case "correct":
                walk.correct(draw(texts))
            case "ask":
                walk.ask(draw(texts))
            case "taken_up" | "left" as tried:
                walk.control("left" if tried == "left" else "taken_up", draw(texts))
            case "shortened":
                walk.control("shortened", context_tokens=max(1, run.context_tokens // 2))
            case _:
                _end(draw, walk, texts)


def _end(draw: st.DrawFn, walk: Walk, texts: st.SearchStrategy[str]) -> None:
    endings: list[Signal] = ["cancelled", "limit_reached", "provider_failed", "failed"]
    if draw(st.booleans()):
        walk.respond(draw(texts), achieved=draw(st.booleans()))
    else:
        walk.control(draw(st.sampled_from(endings)), draw(texts))
