"""The errors of journeys: one root, facts as attributes, and the sentence built from them."""

from __future__ import annotations

from collections.abc import Sequence

from knowledge.errors import KnowledgeError


class AgentError(KnowledgeError):
    """Root of every error of this package. `str(error)` is safe to show to a model or a person.

    At most `MOST_CHARS` are shown: the problems of a work, or the changes made meanwhile, need more room than other errors.
    """

    MOST_CHARS = 2_000


class BadGraph(AgentError):
    """A graph that cannot be used; `problems` has one sentence for each mistake."""

    def __init__(self, graph: str, problems: Sequence[str]) -> None:
        self.graph, self.problems = graph, tuple(problems)
        super().__init__(f"the phase graph {graph!r} cannot be used: {'; '.join(problems)}")


class NoSuchJourney(AgentError):
    """There is no journey with that id, or it has no such version."""

    def __init__(self, journey: str, version: int | None = None, newest: int | None = None) -> None:
        self.journey, self.version, self.newest = journey, version, newest
        if version is None:
            super().__init__(f"there is no journey {journey!r}; call journey_list to see which exist")
        else:
            super().__init__(f"journey {journey!r} has no version {version}; it has 1 to {newest}")


class JourneyExists(AgentError):
    """Another journey has that id."""

    def __init__(self, journey: str) -> None:
        self.journey = journey
        super().__init__(f"journey {journey!r} already exists; give the new one another id")


class StaleJourney(AgentError):
    """Somebody else moved the journey first; `changed` has one sentence for each step since `expected`, oldest first."""

    def __init__(self, journey: str, expected: int, actual: int, changed: Sequence[str]) -> None:
        self.journey, self.expected, self.actual, self.changed = journey, expected, actual, tuple(changed)
        since = f" Since then: {'; '.join(changed)}." if changed else ""
        super().__init__(
            f"journey {journey} is at version {actual}, not {expected}.{since} Call journey_status and continue from there"
        )


class WaitsForPerson(AgentError):
    """Work was submitted while a person has to decide about the recorded work."""

    def __init__(self, journey: str, phase: str) -> None:
        self.journey, self.phase = journey, phase
        super().__init__(
            f"journey {journey} waits for a person's decision on {phase}; ask them and relay it with journey_decide"
        )


class JourneyOver(AgentError):
    """The journey is complete or cancelled, so this can no longer be done with it."""

    def __init__(self, journey: str, status: str) -> None:
        self.journey, self.status = journey, status
        way = (
            "a person may send it back with `revisit`"
            if status == "complete"
            else "fork it to continue from an earlier version"
        )
        super().__init__(f"journey {journey} is {status}; {way}")


class NotToDecide(AgentError):
    """A decision that is not possible in the present state."""

    def __init__(self, journey: str, decision: str, reason: str) -> None:
        self.journey, self.decision, self.reason = journey, decision, reason
        super().__init__(f"journey {journey} takes no {decision!r} now: {reason}")


class NeedsOwnHand(AgentError):
    """A model relayed a decision that the person has to make themselves."""

    def __init__(self, journey: str, phase: str) -> None:
        self.journey, self.phase = journey, phase
        super().__init__(
            f"only the person can decide what follows {phase} in journey {journey}: "
            "in the host's own form, on the review page or in the terminal; it cannot be relayed"
        )


class NoSuchAgent(AgentError):
    """There is no usable agent of that name; `reason` names the existing ones, or what is wrong with its definition."""

    def __init__(self, agent: str, reason: str) -> None:
        self.agent, self.reason = agent, reason
        super().__init__(f"there is no agent {agent[:60]!r}: {reason}")


class PhaseGone(AgentError):
    """The journey is in a phase that its agent no longer has."""

    def __init__(self, journey: str, agent: str, phase: str, phases: Sequence[str]) -> None:
        self.journey, self.agent, self.phase = journey, agent, phase
        super().__init__(
            f"journey {journey} is in {phase}, a phase that {agent} no longer has; a person may `revisit` one of "
            f"{', '.join(phases)}, or `cancel`"
        )


class NoSuchDocument(AgentError):
    """The journey has no memory document of that name; `known` are the ones that it has."""

    def __init__(self, journey: str, document: str, known: Sequence[str]) -> None:
        self.journey, self.document, self.known = journey, document, tuple(known)
        there = f"it has {', '.join(known)}" if known else "it has none yet: an agent leaves one when it is complete"
        super().__init__(f"journey {journey} has no memory document {document[:60]!r}; {there}")


class BadWork(AgentError):
    """Work that does not have the form of its phase; `problems` name each wrong field. Nothing was recorded."""

    def __init__(self, journey: str, phase: str, problems: Sequence[str]) -> None:
        self.journey, self.phase, self.problems = journey, phase, tuple(problems)
        super().__init__(f"nothing was recorded because the work for {phase} is not valid: {'; '.join(problems)}")


class BadStart(AgentError):
    """A journey cannot begin like this; nothing was recorded."""


class ToolOutsidePhase(AgentError):
    """A tool call for a journey whose phase does not use that tool."""

    def __init__(self, journey: str, phase: str, tool: str, tools: Sequence[str]) -> None:
        self.journey, self.phase, self.tool, self.tools = journey, phase, tool, tuple(tools)
        super().__init__(
            f"{tool} is not allowed in phase {phase} of journey {journey}, which uses {', '.join(tools) or 'no tools'}; "
            "call it without journey_id if it is not part of that work"
        )


class BadLog(AgentError):
    """Events that cannot follow each other; `seq` is the first wrong one."""

    def __init__(self, seq: int, reason: str) -> None:
        self.seq, self.reason = seq, reason
        super().__init__(f"event {seq} does not fit what came before: {reason}")


class UnknownEvent(AgentError):
    """A recorded event that this program cannot read: a newer program wrote it, or it is damaged."""

    def __init__(self, type_: str, reason: str) -> None:
        self.type, self.reason = type_, reason
        super().__init__(f"an event of type {type_[:60]!r} cannot be read: {reason}; a newer program may know it")


class BadState(AgentError):
    """A JSON object that is not the state of a journey."""

    def __init__(self, reason: str) -> None:
        self.reason = reason
        super().__init__(f"this is not the state of a journey: {reason}")


class BadJourneyFile(AgentError):
    """A file that is not a complete, unchanged export of a journey; `line` is the first wrong one."""

    def __init__(self, line: int, reason: str) -> None:
        self.line, self.reason = line, reason
        super().__init__(f"line {line} of the journey's file: {reason}; nothing was imported, export it again")


class NoResult(AgentError):
    """The result of a journey cannot be kept yet."""

    def __init__(self, journey: str, *, complete: bool) -> None:
        self.journey = journey
        why = (
            "nothing of its agent's result is recorded; send the text as content"
            if complete
            else "it is not complete; finish it, or send the text as content"
        )
        super().__init__(f"journey {journey} has no result to keep: {why}")
