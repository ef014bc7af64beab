"""A run: what its header and its frames come to. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Literal, assert_never

from agents.loop.errors import BadFrames
from agents.loop.record.frames import (
    AskUser,
    Control,
    Frame,
    Header,
    PersonAnswered,
    PlanFrame,
    ResponseFrame,
    ToolCallFrame,
    ToolResult,
)

State = Literal["running", "asking", "suspended", "done", "failed", "cancelled"]
"""It is led, or could be; it waits for a person's answer; for a person's decision about a proposal; or it is over, in three ways."""
OVER: tuple[State, ...] = ("done", "failed", "cancelled")


@dataclass(frozen=True, slots=True)
class RunSpent:
    """What a run took so far. `cost_micros` is what is known of its cost; `unpriced`: there is more that nobody knows the price of.

    `seconds` are those in which it was led.
    """

    tokens_in: int = 0
    tokens_out: int = 0
    cost_micros: int = 0
    unpriced: bool = False
    seconds: float = 0.0

    @property
    def tokens(self) -> int:
        """Return both together, which is what is bounded."""
        return self.tokens_in + self.tokens_out


@dataclass(frozen=True, slots=True)
class Run:
    """A run as it stands.

    `open_calls` have no result yet, in the order in which they are carried out: one after the other, so only the first may have
    begun. `plan` is the newest answer of the model and `wrong` how many of the newest in a row could not be carried out. `ask` is
    what a person is asked, `proposal` what they are to decide about. `why` says in a sentence why it failed or was cancelled.
    `context_tokens` is how much a model is told at most, and `shortened` how often that had to be made less. `taken_up` is how
    often it was since the newest plan by a process that died over it.
    """

    header: Header
    frames: tuple[Frame, ...] = ()
    state: State = "running"
    iterations: int = 0
    spent: RunSpent = RunSpent()
    plan: PlanFrame | None = None
    wrong: int = 0
    open_calls: tuple[ToolCallFrame, ...] = ()
    ask: AskUser | None = None
    proposal: str = ""
    response: ResponseFrame | None = None
    why: str = ""
    context_tokens: int = 0
    shortened: int = 0
    taken_up: int = 0

    @property
    def id(self) -> str:
        """Return the run's id."""
        return self.header.id

    @property
    def count(self) -> int:
        """Return how many frames there are, which is the number of the next one."""
        return len(self.frames)

    @property
    def over(self) -> bool:
        """Return whether it ended."""
        return self.state in OVER

    @property
    def moved_at(self) -> datetime:
        """Return when the newest frame was made."""
        return self.frames[-1].at if self.frames else self.header.begun_at

    @property
    def calls(self) -> Sequence[ToolCallFrame]:
        """Return all calls, oldest first."""
        return [frame for frame in self.frames if isinstance(frame, ToolCallFrame)]

    @property
    def helped_on(self) -> bool:
        """Return whether a person answered it, or decided about what it proposed."""
        return any(
            isinstance(frame, PersonAnswered) or (isinstance(frame, Control) and frame.signal == "resumed")
            for frame in self.frames
        )

    @property
    def tools_called(self) -> tuple[str, ...]:
        """Return the names of the tools that were called, each once, in the order in which they answered first."""
        results = [frame for frame in self.frames if isinstance(frame, ToolResult)]
        return tuple(dict.fromkeys(result.tool for result in results if result.called))

    def seconds_at(self, now: datetime) -> float:
        """Return for how long it was led by then. Waiting for a person, or for a process after a crash, does not count."""
        since = 0.0 if self.state != "running" else max(0.0, (now - self.moved_at).total_seconds())
        return self.spent.seconds + since

    def then(self, *frames: Frame) -> Run:
        """Return the run with the frames.

        Raises:
            BadFrames: one of them does not fit where the run stands.
        """
        run, ids = self, {frame.id for frame in self.frames}
        for frame in frames:
            if frame.id in ids:
                raise BadFrames(frame.number, "its id is that of another frame")
            run = _after(run, frame)
            ids.add(frame.id)
        return run


def begun(header: Header) -> Run:
    """Return a run without any frame."""
    return Run(header, context_tokens=header.limits.context_tokens)


def fold(header: Header, frames: Iterable[Frame]) -> Run:
    """Return what a header and its frames come to.

    Raises:
        BadFrames: they cannot have been recorded one after the other.
    """
    return begun(header).then(*frames)


def _after(run: Run, frame: Frame) -> Run:
    _require_in_place(run, frame)
    counted = _counted(run, frame)
    after = replace(counted, frames=(*run.frames, frame))
    match frame:
        case PlanFrame():
            return _planned(after, frame)
        case ToolCallFrame():
            return _called(after, frame)
        case ToolResult():
            return _resulted(after, frame)
        case ResponseFrame():
            _require_decided(run, frame, frame.plan, "respond", "give_up")
            return replace(after, state="done", response=frame)
        case AskUser():
            return _asking(after, frame)
        case PersonAnswered():
            if run.ask is None or frame.ask != run.ask.id:
                raise BadFrames(frame.number, "it answers what is not asked now")
            return replace(after, state="running", ask=None)
        case Control():
            return _controlled(after, frame)
    assert_never(frame)


def _require_in_place(run: Run, frame: Frame) -> None:
    """Return if the frame may come next, whatever it says."""
    last = run.frames[-1] if run.frames else None
    wrong = ""
    if frame.run != run.id:
        wrong = "it is of another run"
    elif frame.number != run.count:
        wrong = f"number {run.count} comes next"
    elif frame.iteration != run.iterations + isinstance(frame, PlanFrame):
        wrong = f"iteration {run.iterations + isinstance(frame, PlanFrame)} is meant"
    elif last is not None and frame.at < last.at:
        wrong = "it happened before the one before"
    elif run.over and not _late(run, frame):
        wrong = f"the run is {run.state}"
    elif run.state == "asking" and not isinstance(frame, PersonAnswered | Control):
        wrong = "the run waits for an answer"
    elif run.state == "suspended" and not isinstance(frame, Control):
        wrong = "the run waits for a decision"
    if wrong:
        raise BadFrames(frame.number, wrong)


def _late(run: Run, frame: Frame) -> bool:
    """Return whether the frame tells what became of a call that was under way when somebody else cancelled the run."""
    return run.state == "cancelled" and isinstance(frame, ToolResult)


def _counted(run: Run, frame: Frame) -> Run:
    """Return the run with what the frame took."""
    spent = run.spent
    led = run.state == "running" and not (isinstance(frame, Control) and frame.signal in ("taken_up", "left"))
    if led:
        spent = replace(spent, seconds=spent.seconds + (frame.at - run.moved_at).total_seconds())
    return replace(run, spent=with_asking(spent, frame))


def with_asking(spent: RunSpent, frame: Frame) -> RunSpent:
    """Return it with what the frame says that asking a model took."""
    if not isinstance(frame, PlanFrame | Control) or not frame.tokens_in + frame.tokens_out:
        return spent
    return replace(
        spent,
        tokens_in=spent.tokens_in + frame.tokens_in,
        tokens_out=spent.tokens_out + frame.tokens_out,
        cost_micros=spent.cost_micros + (frame.cost_micros or 0),
        unpriced=spent.unpriced or frame.cost_micros is None,
    )


def _planned(after: Run, frame: PlanFrame) -> Run:
    if after.open_calls:
        raise BadFrames(frame.number, "a call before it has no result yet")
    wrong = after.wrong + 1 if frame.next_action == "correct" else 0
    return replace(after, iterations=frame.iteration, plan=frame, wrong=wrong, taken_up=0)


def _called(after: Run, frame: ToolCallFrame) -> Run:
    _require_decided(after, frame, frame.plan, "call", "correct")
    if not isinstance(after.frames[-2], PlanFrame | ToolCallFrame):
        raise BadFrames(frame.number, "the calls of a plan are recorded with it")
    return replace(after, open_calls=(*after.open_calls, frame))


def _resulted(after: Run, frame: ToolResult) -> Run:
    if not after.open_calls or after.open_calls[0].id != frame.call or after.open_calls[0].tool != frame.tool:
        raise BadFrames(frame.number, "no such call waits for a result now")
    return replace(after, open_calls=after.open_calls[1:])


def _asking(after: Run, frame: AskUser) -> Run:
    if after.open_calls:
        raise BadFrames(frame.number, "a call before it has no result yet")
    if frame.call:
        if not any(frame.call == call.id for call in after.calls):
            raise BadFrames(frame.number, "there is no such call")
    else:
        _require_decided(after, frame, frame.plan, "ask")
    return replace(after, state="asking", ask=frame)


def _require_decided(run: Run, frame: Frame, plan: str, *actions: str) -> None:
    if run.plan is None or run.plan.id != plan or run.plan.next_action not in actions:
        raise BadFrames(frame.number, "the newest plan did not decide that")


def _controlled(after: Run, frame: Control) -> Run:
    match frame.signal:
        case "suspended":
            if after.state != "running" or after.open_calls or not frame.proposal:
                raise BadFrames(frame.number, "nothing is there that a person could decide about")
            return replace(after, state="suspended", proposal=frame.proposal)
        case "resumed":
            if after.state != "suspended" or frame.proposal != after.proposal:
                raise BadFrames(frame.number, "the run does not wait for that proposal")
            return replace(after, state="running", proposal="")
        case "taken_up" | "left" | "shortened" if after.state != "running":
            raise BadFrames(frame.number, "the run is not being led")
        case "taken_up" | "left":
            died = after.taken_up + (1 if frame.signal == "taken_up" else -1)
            return replace(after, taken_up=max(0, died))
        case "shortened":
            return replace(after, context_tokens=frame.context_tokens, shortened=after.shortened + 1)
        case "cancelled":
            return replace(after, state="cancelled", why=frame.detail, ask=None, proposal="")
        case "limit_reached" | "provider_failed" | "failed":
            return replace(after, state="failed", why=frame.detail, ask=None, proposal="")
    assert_never(frame.signal)
