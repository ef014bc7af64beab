"""A run, computed from its header and its frames. Pure."""

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
"""`running`: a process leads the run, or could lead it. `asking`: the run waits for a person's answer. `suspended`: it
waits for a person's decision about a proposal. `done`, `failed` and `cancelled`: it has ended.
"""
OVER: tuple[State, ...] = ("done", "failed", "cancelled")


@dataclass(frozen=True, slots=True)
class RunSpent:
    """Usage and cost of a run so far. `cost_micros` is the known part of its cost; `unpriced`: there is a part whose price is unknown.

    `seconds` are those in which a process led it.
    """

    tokens_in: int = 0
    tokens_out: int = 0
    cost_micros: int = 0
    unpriced: bool = False
    seconds: float = 0.0

    @property
    def tokens(self) -> int:
        """The tokens in and out together, which is what the limit counts."""
        return self.tokens_in + self.tokens_out


@dataclass(frozen=True, slots=True)
class Run:
    """A run after its newest frame.

    `open_calls` have no result yet. They are made one after the other, in their order, so only the first may have begun. `plan` is the
    newest answer of the model, and `invalid_answers` how many of the newest in a row could not be carried out. `ask` is the question
    to a person, `proposal` what a person is to decide about. `why` says why the run failed, was cancelled, or did not achieve its
    goal. `context_tokens` is the most that the model is sent, and `shortened` how often that had to be reduced. `taken_up` is how
    often, since the newest plan, the run was resumed after its process died.
    """

    header: Header
    frames: tuple[Frame, ...] = ()
    state: State = "running"
    iterations: int = 0
    spent: RunSpent = RunSpent()
    plan: PlanFrame | None = None
    invalid_answers: int = 0
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
        """The run's id."""
        return self.header.id

    @property
    def count(self) -> int:
        """The number of frames, which is the number of the next one."""
        return len(self.frames)

    @property
    def over(self) -> bool:
        """Whether it ended."""
        return self.state in OVER

    @property
    def moved_at(self) -> datetime:
        """The time of the newest frame."""
        return self.frames[-1].at if self.frames else self.header.begun_at

    @property
    def calls(self) -> Sequence[ToolCallFrame]:
        """All calls, oldest first."""
        return [frame for frame in self.frames if isinstance(frame, ToolCallFrame)]

    @property
    def had_person(self) -> bool:
        """Whether a person answered it or decided about one of its proposals."""
        return any(
            isinstance(frame, PersonAnswered) or (isinstance(frame, Control) and frame.signal == "resumed")
            for frame in self.frames
        )

    @property
    def tools_called(self) -> tuple[str, ...]:
        """The names of the tools that were called, each once, in the order of their first results."""
        results = [frame for frame in self.frames if isinstance(frame, ToolResult)]
        return tuple(dict.fromkeys(result.tool for result in results if result.called))

    def seconds_at(self, now: datetime) -> float:
        """Return how many seconds a process had led it by then; waits for a person, or for a process after a crash, don't count."""
        since = 0.0 if self.state != "running" else max(0.0, (now - self.moved_at).total_seconds())
        return self.spent.seconds + since

    def then(self, *frames: Frame) -> Run:
        """Return the run with the frames added.

        Raises:
            BadFrames: one of them does not fit the state of the run.
        """
        # One shared set, so that the cost grows only with the number of frames.
        run, ids = self, {frame.id for frame in self.frames}
        for frame in frames:
            if frame.id in ids:
                raise BadFrames(frame.number, "its id is that of another frame")
            _check_place(run, frame)
            run = _after(run, frame)
            ids.add(frame.id)
        return run


def begun(header: Header) -> Run:
    """Return a run without frames."""
    return Run(header, context_tokens=header.limits.context_tokens)


def fold(header: Header, frames: Iterable[Frame]) -> Run:
    """Return the run of a header and its frames.

    Raises:
        BadFrames: they cannot have been recorded one after the other.
    """
    return begun(header).then(*frames)


def with_request_cost(spent: RunSpent, frame: Frame) -> RunSpent:
    """Return `spent` plus the cost of a request to the model that the frame records."""
    if not isinstance(frame, PlanFrame | Control) or not frame.tokens_in + frame.tokens_out:
        return spent
    return replace(
        spent,
        tokens_in=spent.tokens_in + frame.tokens_in,
        tokens_out=spent.tokens_out + frame.tokens_out,
        cost_micros=spent.cost_micros + (frame.cost_micros or 0),
        unpriced=spent.unpriced or frame.cost_micros is None,
    )


def _check_place(run: Run, frame: Frame) -> None:
    """Raise BadFrames unless the frame may come next, whatever its content."""
    last = run.frames[-1] if run.frames else None
    iteration = run.iterations + isinstance(frame, PlanFrame)
    # The call under way when somebody else cancels the run still gets its result.
    late = run.state == "cancelled" and isinstance(frame, ToolResult)
    problem = ""
    if frame.run != run.id:
        problem = "it is of another run"
    elif frame.number != run.count:
        problem = f"number {run.count} comes next"
    elif frame.iteration != iteration:
        problem = f"iteration {iteration} is meant"
    elif last is not None and frame.at < last.at:
        problem = "it is earlier than the frame before it"
    elif run.over and not late:
        problem = f"the run is {run.state}"
    elif run.state == "asking" and not isinstance(frame, PersonAnswered | Control):
        problem = "the run waits for an answer"
    elif run.state == "suspended" and not isinstance(frame, Control):
        problem = "the run waits for a decision"
    if problem:
        raise BadFrames(frame.number, problem)


def _after(run: Run, frame: Frame) -> Run:
    """Return the run with the frame added; raise BadFrames if the frame does not follow from those before."""
    spent = with_request_cost(run.spent, frame)
    # The time before a process resumes the run, or leaves it, does not count.
    if run.state == "running" and not (isinstance(frame, Control) and frame.signal in ("taken_up", "left")):
        spent = replace(spent, seconds=spent.seconds + (frame.at - run.moved_at).total_seconds())
    after = replace(run, spent=spent, frames=(*run.frames, frame))
    match frame:
        case PlanFrame():
            _check(frame, not run.open_calls, "a call before it has no result yet")
            invalid = run.invalid_answers + 1 if frame.next_action == "correct" else 0
            # An answer shows that the run itself kills no process.
            return replace(after, iterations=frame.iteration, plan=frame, invalid_answers=invalid, taken_up=0)
        case ToolCallFrame():
            # "correct" too: calls that cannot be made are recorded with the reason.
            _check_decided(run, frame, frame.plan, "call", "correct")
            _check(
                frame,
                isinstance(run.frames[-1], PlanFrame | ToolCallFrame),
                "the calls of a plan are recorded with it",
            )
            return replace(after, open_calls=(*run.open_calls, frame))
        case ToolResult():
            first = run.open_calls[0] if run.open_calls else None
            of_first = first is not None and (first.id, first.tool) == (frame.call, frame.tool)
            _check(frame, of_first, "no such call waits for a result now")
            return replace(after, open_calls=run.open_calls[1:])
        case ResponseFrame():
            _check_decided(run, frame, frame.plan, "respond", "give_up")
            return replace(after, state="done", response=frame, why=frame.why)
        case AskUser():
            _check(frame, not run.open_calls, "a call before it has no result yet")
            if frame.call:
                _check(frame, any(frame.call == call.id for call in run.calls), "there is no such call")
            else:
                _check_decided(run, frame, frame.plan, "ask")
            return replace(after, state="asking", ask=frame)
        case PersonAnswered():
            _check(frame, run.ask is not None and frame.ask == run.ask.id, "it answers a question that is not open")
            return replace(after, state="running", ask=None)
        case Control():
            return _after_control(after, frame)
    assert_never(frame)


def _after_control(after: Run, frame: Control) -> Run:
    match frame.signal:
        case "suspended":
            possible = after.state == "running" and not after.open_calls and bool(frame.proposal)
            _check(frame, possible, "there is nothing for a person to decide about")
            return replace(after, state="suspended", proposal=frame.proposal)
        case "resumed":
            waited = after.state == "suspended" and frame.proposal == after.proposal
            _check(frame, waited, "the run does not wait for that proposal")
            return replace(after, state="running", proposal="")
        case "taken_up" | "left" | "shortened" if after.state != "running":
            raise BadFrames(frame.number, "the run is not being led")
        case "taken_up" | "left":
            # A process that leaves the run did not die over it.
            died = after.taken_up + (1 if frame.signal == "taken_up" else -1)
            return replace(after, taken_up=max(0, died))
        case "shortened":
            return replace(after, context_tokens=frame.context_tokens, shortened=after.shortened + 1)
        case "cancelled":
            return replace(after, state="cancelled", why=frame.detail, ask=None, proposal="")
        case "limit_reached" | "provider_failed" | "failed":
            return replace(after, state="failed", why=frame.detail, ask=None, proposal="")
    assert_never(frame.signal)


def _check_decided(run: Run, frame: Frame, plan: str, *actions: str) -> None:
    decided = run.plan is not None and run.plan.id == plan and run.plan.next_action in actions
    _check(frame, decided, "the newest plan did not decide that")


def _check(frame: Frame, fits: bool, problem: str) -> None:  # noqa: FBT001 - it is a statement, like `assert`
    if not fits:
        raise BadFrames(frame.number, problem)
