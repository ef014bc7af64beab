"""Draw a large graph in two pictures: its parts as boxes, and the phases of the part in which the journey is. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from agents.engine.graph import ALWAYS, Phase, PhaseGraph, Transition, grouped
from mcp_server.web.graph.svg import Drawing, JourneyPath, Move, drawing

MOST_PHASES = 14
"""A graph with more phases is folded if it is made of parts."""
MOST_CONDITIONS = 2
"""Conditions that are named on the arrow between two parts; the others are counted."""


@dataclass(frozen=True, slots=True)
class GraphPart:
    """One box of the folded picture: a part of the agent, or a phase that belongs to none."""

    name: str
    phases: frozenset[str]


@dataclass(frozen=True, slots=True)
class Pictures:
    """The whole graph, folded if it is large; then `inside` draws the present part, which `part` names."""

    whole: Drawing
    inside: Drawing | None = None
    part: str = ""


def pictures(graph: PhaseGraph, seen: JourneyPath) -> Pictures:
    """Return the graph as it is shown."""
    parts = parts_of(graph)
    if len(graph.phases) <= MOST_PHASES or len(parts) == len(graph.phases):
        return Pictures(drawing(graph, seen))
    here = next((part for part in parts if seen.phase in part.phases), parts[0])
    inside = _inside(graph, seen, here, parts) if len(here.phases) > 1 else None
    return Pictures(_folded(graph, seen, parts), inside, here.name)


def parts_of(graph: PhaseGraph) -> Sequence[GraphPart]:
    """Return the boxes of the folded picture, in the order of their first phases."""
    groups = grouped(graph)
    if len(groups) < 2:
        return [GraphPart(phase.name, frozenset({phase.name})) for phase in graph.phases]
    found: list[GraphPart] = []
    for name, phases in groups.items():
        # A phase without a part in which the journey ends gets its own box, so that the end is seen.
        own = frozenset(phase.name for phase in phases if name or phase.name not in graph.complete)
        if own:
            found.append(GraphPart(name or graph.name, own))
        found += [GraphPart(phase.name, frozenset({phase.name})) for phase in phases if phase.name not in own]
    place = {phase.name: number for number, phase in enumerate(graph.phases)}
    return sorted(found, key=lambda part: min(place[phase] for phase in part.phases))


def _folded(graph: PhaseGraph, seen: JourneyPath, parts: Sequence[GraphPart]) -> Drawing:
    """Return the picture of the graph whose phases are the parts."""
    of = {phase: part.name for part in parts for phase in part.phases}
    counts = {part.name: f"{len(part.phases)} phases" for part in parts if len(part.phases) > 1}
    phases = tuple(Phase(part.name, purpose=counts.get(part.name, "")) for part in parts)
    between: dict[tuple[str, str, bool], list[Transition]] = {}
    for transition in graph.transitions:
        ends = of[transition.source], of[transition.target]
        if ends[0] != ends[1]:
            between.setdefault((*ends, transition.is_backward), []).append(transition)
    named = {key: _conditions(key[0], transitions) for key, transitions in between.items()}
    moves: dict[Move, int] = {}
    for move, often in seen.moves.items():
        source, target = of.get(move.source, move.source), of.get(move.target, move.target)
        if source != target:
            key = source, target, move.is_backward
            # A move that no transition of the graph explains, such as a decision to revisit, keeps its reason.
            known = (move.source, move.target, move.reason) in [
                (one.source, one.target, one.condition) for one in between.get(key, ())
            ]
            reason = named[key] if known else move.reason
            folded = Move(source, target, reason, move.is_backward)
            moves[folded] = moves.get(folded, 0) + often
    whole = PhaseGraph(
        graph.name,
        phases,
        tuple(Transition(source, target, named[source, target, back], back) for source, target, back in between),
        of[graph.initial],
        tuple(dict.fromkeys(of[name] for name in graph.complete)),
    )
    path = JourneyPath(of.get(seen.phase, seen.phase), seen.status, _visits(graph, seen, parts, of), moves)
    return drawing(whole, path, counts)


def _conditions(source: str, transitions: Sequence[Transition]) -> str:
    """Return the conditions under which the work goes from part `source` to another one, without the part's name."""
    found = [one.condition.removeprefix(f"{source}.") for one in transitions if one.condition != ALWAYS]
    names = list(dict.fromkeys(found))
    more = len(names) - MOST_CONDITIONS
    return " or ".join(names[:MOST_CONDITIONS]) + (f" or {more} more" if more > 0 else "") or ALWAYS


def _visits(graph: PhaseGraph, seen: JourneyPath, parts: Sequence[GraphPart], of: Mapping[str, str]) -> dict[str, int]:
    """Return how often each part was entered from outside, and the visits of phases that the graph no longer has."""
    entered = {part.name: int(graph.initial in part.phases) for part in parts}
    for move, often in seen.moves.items():
        source, target = of.get(move.source), of.get(move.target)
        if target is not None and source != target:
            entered[target] += often
    been = {of[phase] for phase in seen.visits if phase in of}
    gone = {phase: count for phase, count in seen.visits.items() if phase not in of}
    return {name: max(1, count) for name, count in entered.items() if name in been} | gone


def _inside(graph: PhaseGraph, seen: JourneyPath, here: GraphPart, parts: Sequence[GraphPart]) -> Drawing:
    """Return the picture of one part: its phases, and as boxes the parts that it leads to."""
    of = {phase: part.name for part in parts for phase in part.phases}

    def bare(name: str) -> str:
        return name.removeprefix(f"{here.name}.")

    def named(phase: str) -> str:
        # The arrow sign keeps a part outside from being taken for a phase inside that has its name.
        return bare(phase) if phase in here.phases else f"→ {of.get(phase, phase)}"

    leaving = [one for one in graph.transitions if one.source in here.phases]
    outside = list(dict.fromkeys(named(one.target) for one in leaving if one.target not in here.phases))
    inner = [phase for phase in graph.phases if phase.name in here.phases]
    phases = [Phase(named(p.name), p.title, p.purpose, checkpoint=p.checkpoint, automatic=p.automatic) for p in inner]
    transitions = [
        replace(one, source=named(one.source), target=named(one.target), condition=bare(one.condition), anew=False)
        for one in leaving
    ]
    moves: dict[Move, int] = {}
    for move, often in seen.moves.items():
        if move.source in here.phases:
            shown = Move(named(move.source), named(move.target), bare(move.reason), move.is_backward)
            moves[shown] = moves.get(shown, 0) + often
    visits = {named(phase): count for phase, count in seen.visits.items() if phase in here.phases}
    own_end = tuple(named(name) for name in graph.complete if name in here.phases)
    # The first box is where the part is entered from outside, going forward.
    entered = {one.target for one in graph.transitions if not one.is_backward and one.source not in here.phases}
    targets = (graph.initial, *(one.target for one in graph.transitions))
    entrances = [name for name in targets if name in here.phases and (name == graph.initial or name in entered)]
    start = named(entrances[0] if entrances else inner[0].name)
    # Each transition once: those to several phases of a part outside may look the same here.
    whole = PhaseGraph(
        here.name, (*phases, *map(Phase, outside)), tuple(dict.fromkeys(transitions)), start, (*own_end, *outside)
    )
    return drawing(whole, JourneyPath(named(seen.phase), seen.status, visits, moves), place="inside")
