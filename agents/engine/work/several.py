"""The work for several phases in one submission, by the names of the phases. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from agents.engine.agent import Agent
from agents.engine.events import Json
from agents.engine.graph import Phase, PhaseGraph, checkpoint_on, transitions_from
from agents.engine.work.form import MOST_PROBLEMS


@dataclass(frozen=True, slots=True)
class Recorded:
    """What a submission came to: the phases whose work was recorded, in order, and the phases whose work was not used.

    `why` says why the work of the first unused one was not recorded, if it was tried and refused.
    """

    phases: tuple[str, ...]
    unused: tuple[str, ...] = ()
    why: str = ""


def by_phase(agent: Agent, work: Mapping[str, Json]) -> bool:
    """Return whether a submission holds works by phase: one of its keys is a phase, and no form of the agent has such a field."""
    phases = {phase.name for phase in agent.graph.phases}
    if phases.isdisjoint(work):
        return False
    return all(phases.isdisjoint(_fields(form.schema)) for form in agent.forms.values())


def misplaced(agent: Agent, phase: str, works: Mapping[str, Json]) -> Sequence[str]:
    """Return what is wrong with works by phase in a journey that is in `phase`; none if the first can be tried."""
    found = [f"there is no phase {name[:60]!r}" for name in works if name not in agent.forms]
    found += [
        f"the work for {name} is not an object"
        for name, work in works.items()
        if name in agent.forms and not isinstance(work, dict)
    ]
    if phase not in works:
        found.append(f"the journey is in {phase}, and its work is not among them")
    elif next(iter(works)) != phase:
        found.append(f"the journey is in {phase}, so its work comes first")
    return found[:MOST_PROBLEMS]


def stretch(agent: Agent, phase: str) -> Sequence[Phase]:
    """Return the phases after `phase` whose work may come in the same submission, in order.

    The stretch ends before a phase that is worked on apart, and where a person decides or the way forward branches.
    """
    ahead, seen = list[Phase](), {phase}
    while (following := _together_with(agent, phase)) is not None and following.name not in seen:
        ahead.append(following)
        seen.add(following.name)
        phase = following.name
    return ahead


def beginning(agent: Agent, phase: str) -> str:
    """Return the first phase of the stretch that `phase` is in; `phase` itself if its work cannot come with that of another."""
    seen = {phase}
    while True:
        sources = [t.source for t in agent.graph.transitions if t.target == phase and not t.is_backward]
        before = [
            source
            for source in sources
            if source in agent.forms
            and source not in seen
            and (following := _together_with(agent, source)) is not None
            and following.name == phase
        ]
        if not before:
            return phase
        phase = before[0]
        seen.add(phase)


def _together_with(agent: Agent, phase: str) -> Phase | None:
    """Return the next phase, if its work may come in the same submission as that of `phase`."""
    following = _following(agent.graph, phase)
    if following is None or following.name not in agent.forms or apart(agent.graph, phase, following.name):
        return None
    return following


def apart(graph: PhaseGraph, source: str, target: str) -> bool:
    """Return whether the work of `target` cannot be submitted with that of `source`: it is alone, or of another conversation."""
    before, after = graph.phase(source), graph.phase(target)
    return after.alone or after.fresh or bool(after.speaker and before.speaker and after.speaker != before.speaker)


def _following(graph: PhaseGraph, phase: str) -> Phase | None:
    """Return the only phase with work that can follow without a person; None if there is none, or more than one."""
    forward = [t for t in transitions_from(graph, phase) if not t.is_backward]
    if any(checkpoint_on(graph, t) in ("optional", "blocking") for t in forward):
        return None
    # Ways out of the work, such as an exhausted budget, are no branches of it.
    targets = {t.target for t in forward if t.target not in graph.complete}
    return graph.phase(targets.pop()) if len(targets) == 1 else None


def _fields(schema: Mapping[str, Json]) -> Mapping[str, Json]:
    fields = schema.get("properties")
    return fields if isinstance(fields, dict) else {}
