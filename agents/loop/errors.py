"""The errors of runs: facts as attributes, the sentence built once."""

from __future__ import annotations

from agents.errors import AgentError


class RunError(AgentError):
    """Root of all errors of a run and its record."""


class NoSuchRun(RunError):
    """There is no run with that id."""

    def __init__(self, run: str) -> None:
        self.run = run
        super().__init__(f"there is no run {run[:100]!r}")


class RunExists(RunError):
    """Another run has that id."""

    def __init__(self, run: str) -> None:
        self.run = run
        super().__init__(f"run {run!r} already exists; give the new one another id")


class StaleRun(RunError):
    """Another process added frames first: the run has `actual` frames, not `expected`."""

    def __init__(self, run: str, expected: int, actual: int) -> None:
        self.run, self.expected, self.actual = run, expected, actual
        super().__init__(f"run {run} has {actual} frames, not {expected}: another process continued it. Read it again")


class RunTaken(RunError):
    """Another process leads the run now."""

    def __init__(self, run: str) -> None:
        self.run = run
        super().__init__(f"run {run} is being led by another process; wait for it, or try again in a minute")


class TooManyRuns(RunError):
    """A principal has as many runs in progress as are allowed; nothing was started."""

    def __init__(self, most: int) -> None:
        self.most = most
        super().__init__(
            f"you already have {most} runs in progress, the most allowed at once; nothing was started. Wait for one to end, or cancel "
            "one (knowledge-forge runs cancel)"
        )


class DaySpent(RunError):
    """All runs together reached their daily limit; nothing was started. `why` names the usage and the limit."""

    def __init__(self, why: str) -> None:
        self.why = why
        super().__init__(f"{why}; nothing was started")


class NoRoom(RunError):
    """All runs together reached their daily limit. This run has a person's decision, so it waits for room instead of ending."""

    def __init__(self, run: str, why: str) -> None:
        self.run, self.why = run, why
        super().__init__(f"it waits until a limit allows more: {why}")


class RunLeft(RunError):
    """The database was away for too long during the run: the run is on record, and continues when the database is back."""

    def __init__(self, run: str, reason: str) -> None:
        self.run = run
        super().__init__(
            f"run {run} is saved and continues by itself when the database is back; do not start it again. agent_trace and "
            f"`knowledge-forge runs show` show its status ({reason})"
        )


class LeftToOthers(RunError):
    """This process cannot reach the model, and another one may: the run waits for a process that can."""

    def __init__(self, run: str, why: str) -> None:
        self.run, self.why = run, why
        super().__init__(
            f"run {run} is saved and continues by itself on a server that can reach its model; do not start it again. "
            f"This one cannot: {why}"
        )


class RunNotThere(RunError):
    """The run's state does not allow the act; nothing was recorded."""

    def __init__(self, run: str, state: str, action: str) -> None:
        self.run, self.state, self.action = run, state, action
        super().__init__(f"run {run} {state}, so it cannot be {action}")


class BadFrames(RunError):
    """Frames that cannot have been recorded one after the other; `number` is the first that does not fit."""

    def __init__(self, number: int, reason: str) -> None:
        self.number, self.reason = number, reason
        super().__init__(f"frame {number} does not fit what came before: {reason}")


class UnknownFrame(RunError):
    """A stored frame or header that this program cannot read: a newer program wrote it, or it is damaged."""

    def __init__(self, type_: str, reason: str) -> None:
        self.type, self.reason = type_, reason
        super().__init__(f"a frame of type {type_[:60]!r} cannot be read: {reason}; a newer program may know it")
