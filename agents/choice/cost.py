"""What a journey with an agent costs: calls and tokens, from completed journeys, or at least from its definition. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import median

from agents.engine.agent import Agent
from agents.engine.events import Decided, Logged, WorkRecorded, canonical
from agents.engine.graph import PhaseGraph, Transition, checkpoint_on, transitions_from
from agents.engine.work.markdown import counted
from agents.engine.work.several import apart
from agents.prompts.ahead import form_text
from knowledge.tokens import count_tokens


@dataclass(frozen=True, slots=True)
class AgentCost:
    """The calls of journey tools and the tokens that `journeys` completed journeys took.

    If `journeys` is 0, they are a lower bound, computed from the agent's definition.

    Measured tokens are those of prompts and works. The lower bound counts only the instructions.
    """

    calls: int
    tokens: int
    journeys: int = 0

    def __str__(self) -> str:
        """Say the cost in a few words."""
        if self.journeys:
            return (
                f"usually {counted(self.calls, 'call')} and {self.tokens:,} tokens "
                f"(median of {counted(self.journeys, 'completed journey')})"
            )
        return (
            f"at least {counted(self.calls, 'call')} and {self.tokens:,} tokens of instructions (not measured here yet)"
        )


def measured(logs: Sequence[Sequence[Logged]]) -> AgentCost | None:
    """Return the medians over the logs of completed journeys; None if there are none."""
    if not logs:
        return None
    return AgentCost(round(median(map(_calls, logs))), round(median(map(_tokens, logs))), len(logs))


def _calls(log: Iterable[Logged]) -> int:
    events = [logged.event for logged in log]
    works = [event for event in events if isinstance(event, WorkRecorded) and not event.automatic]
    # A later part of a submission by phases had no prompt of its own, so no tokens are counted for reading one.
    later = [work for work in works if work.usage.counted and not work.usage.tokens_in]
    return 1 + len(works) - len(later) + sum(isinstance(event, Decided) for event in events)


def _tokens(log: Iterable[Logged]) -> int:
    usages = [logged.event.usage for logged in log if isinstance(logged.event, WorkRecorded)]
    return sum(usage.tokens_in + usage.tokens_out for usage in usages)


def defined(agent: Agent) -> AgentCost:
    """Return a lower bound: the shortest way to the first of the agent's ends, with as many phases as fit in one submission."""
    calls, tokens, before = 1, 0, ""
    for way in _shortest(agent.graph):
        phase = agent.graph.phase(way.source)
        if not phase.automatic and phase.name in agent.forms:
            alone = not before or apart(agent.graph, before, phase.name)
            schema = agent.forms[phase.name].schema
            tokens += count_tokens(agent.texts.get(phase.prompt, ""))
            tokens += count_tokens(canonical(dict(schema)) if alone else form_text(schema))
            calls += alone
            before = phase.name
        if (kind := checkpoint_on(agent.graph, way)) in ("optional", "blocking"):
            before = ""
            calls += kind == "blocking"
    return AgentCost(calls, tokens)


def _shortest(graph: PhaseGraph) -> Sequence[Transition]:
    """Return the forward transitions of the shortest way from the beginning to the first end."""
    ways: dict[str, tuple[Transition, ...]] = {graph.initial: ()}
    todo = [graph.initial]
    while todo:
        phase = todo.pop(0)
        if phase == graph.complete[0]:
            return ways[phase]
        for way in transitions_from(graph, phase):
            if not way.is_backward and way.target not in ways:
                ways[way.target] = (*ways[phase], way)
                todo.append(way.target)
    return ()
