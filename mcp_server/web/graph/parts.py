"""A large graph in two pictures: its parts as boxes, and the part in which the journey is, phase by phase. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from agents.engine.graph import ALWAYS, Phase, PhaseGraph, Transition, grouped
from mcp_server.web.graph.svg import Drawing, Move, Travelled, drawing

MOST_PHASES = 14
"""A graph of more is folded, if it is made of parts."""
MOST_CONDITIONS = 2
"""Of the ways between two parts, so many are named by their conditions."""


@dataclass(frozen=True, slots=True)
class GraphPart:
    """What is one box: a part, or a phase that belongs to none. `name` is what it is called in the picture."""

    name: str
    phases: frozenset[str]


@dataclass(frozen=True, slots=True)
class Pictures:
    """The whole graph; folded into its parts if it is large, and then what is in the present part. `part` names that."""

    whole: Drawing
    inside: Drawing | None = None
    part: str = ""


@dataclass(frozen=True, slots=True)
class _Folded:
    graph: PhaseGraph
    seen: Travelled
    notes: Mapping[str, str] = field(default_factory=dict)


def pictures(graph: PhaseGraph, seen: Travelled) -> Pictures:
    """Return the graph as it is shown."""
    parts = parts_of(graph)
    if len(graph.phases) <= MOST_PHASES or len(parts) == len(graph.phases):
        return Pictures(drawing(graph, seen))
    whole = _folded(graph, seen, parts)
    here = next((part for part in parts if seen.phase in part.phases), parts[0])
    inside = _inside(graph, seen, here, parts)
    return Pictures(
        drawing(whole.graph, whole.seen, whole.notes),
        drawing(inside.graph, inside.seen, inside.notes, place="inside") if len(here.phases) > 1 else None,
        here.name,
    )


def parts_of(graph: PhaseGraph) -> Sequence[GraphPart]:
    """Return what stands for itself in the folded picture, in the order of the first phases."""
    groups = grouped(graph)
    if len(groups) < 2:
        return [GraphPart(phase.name, frozenset({phase.name})) for phase in graph.phases]
    found: dict[str, GraphPart] = {}
    for name, phases in groups.items():
        # Where a journey ends belongs to the whole.
        own = frozenset(phase.name for phase in phases if name or phase.name not in graph.complete)
        if own:
            found[min(_place(graph, own))] = GraphPart(name or graph.name, own)
        for phase in phases:
            if phase.name not in own:
                found[min(_place(graph, {phase.name}))] = GraphPart(phase.name, frozenset({phase.name}))
    return [found[place] for place in sorted(found)]


def _place(graph: PhaseGraph, names: frozenset[str] | set[str]) -> list[str]:
    return [f"{number:06}" for number, phase in enumerate(graph.phases) if phase.name in names]


def _folded(graph: PhaseGraph, seen: Travelled, parts: Sequence[GraphPart]) -> _Folded:
    """Return the graph whose phases are the parts, and what the journey saw of it."""
    of = {phase: part.name for part in parts for phase in part.phases}
    phases = tuple(Phase(part.name, purpose=_counted(part)) for part in parts)
    between = [way for way in graph.transitions if of[way.source] != of[way.target]]
    ways: dict[tuple[str, str, bool], list[Transition]] = {}
    for way in between:
        ways.setdefault((of[way.source], of[way.target], way.is_backward), []).append(way)
    named = {key: _condition(key[0], found) for key, found in ways.items()}
    moves: dict[Move, int] = {}
    for move, often in seen.moves.items():
        source, target = of.get(move.source, move.source), of.get(move.target, move.target)
        if source != target:
            known = any(_is(move, way) for way in ways.get((source, target, move.is_backward), ()))
            reason = named[source, target, move.is_backward] if known else move.reason
            folded = Move(source, target, reason, move.is_backward)
            moves[folded] = moves.get(folded, 0) + often
    whole = PhaseGraph(
        graph.name,
        phases,
        tuple(Transition(source, target, named[source, target, back], back) for source, target, back in ways),
        of[graph.initial],
        tuple(dict.fromkeys(of[name] for name in graph.complete)),
    )
    travelled = Travelled(of.get(seen.phase, seen.phase), seen.status, _visits(graph, seen, parts, of), moves)
    return _Folded(whole, travelled, {part.name: _counted(part) for part in parts if len(part.phases) > 1})


def _is(move: Move, way: Transition) -> bool:
    return (move.source, move.target, move.reason) == (way.source, way.target, way.condition)


def _counted(part: GraphPart) -> str:
    return f"{len(part.phases)} phases" if len(part.phases) > 1 else ""


def _condition(source: str, ways: Sequence[Transition]) -> str:
    """Return on what the work goes from one part to another, without the part's name before it."""
    names = list(dict.fromkeys(way.condition.removeprefix(f"{source}.") for way in ways if way.condition != ALWAYS))
    more = len(names) - MOST_CONDITIONS
    return " or ".join(names[:MOST_CONDITIONS]) + (f" or {more} more" if more > 0 else "") or ALWAYS


def _visits(graph: PhaseGraph, seen: Travelled, parts: Sequence[GraphPart], of: Mapping[str, str]) -> dict[str, int]:
    """Return how often each part was entered from outside of it, and phases that are gone as they are."""
    entered = {part.name: int(graph.initial in part.phases) for part in parts}
    for move, often in seen.moves.items():
        source, target = of.get(move.source), of.get(move.target)
        if target is not None and source != target:
            entered[target] += often
    been = {of[phase] for phase in seen.visits if phase in of}
    gone = {phase: count for phase, count in seen.visits.items() if phase not in of}
    return {name: max(1, count) for name, count in entered.items() if name in been} | gone


def _inside(graph: PhaseGraph, seen: Travelled, here: GraphPart, parts: Sequence[GraphPart]) -> _Folded:
    """Return what is in a part: its phases, and as boxes the parts that it leads to, or comes from."""
    of = {phase: part.name for part in parts for phase in part.phases}
    shorter = {name: name.removeprefix(f"{here.name}.") for name in here.phases}

    def named(phase: str) -> str:
        # A part outside must not be taken for a phase inside that has its name.
        return shorter[phase] if phase in here.phases else f"→ {of.get(phase, phase)}"

    touching = [way for way in graph.transitions if way.source in here.phases]
    outside = list(dict.fromkeys(named(way.target) for way in touching if way.target not in here.phases))
    inner = [phase for phase in graph.phases if phase.name in here.phases]
    phases = [Phase(named(p.name), p.title, p.purpose, checkpoint=p.checkpoint, automatic=p.automatic) for p in inner]
    ways = [
        Transition(
            named(way.source),
            named(way.target),
            _bare(here, way.condition),
            way.is_backward,
            way.priority,
            way.asks,
            checkpoint=way.checkpoint,
        )
        for way in touching
    ]
    moves: dict[Move, int] = {}
    for move, often in seen.moves.items():
        if move.source in here.phases:
            told = Move(named(move.source), named(move.target), _bare(here, move.reason), move.is_backward)
            moves[told] = moves.get(told, 0) + often
    visits = {named(phase): count for phase, count in seen.visits.items() if phase in here.phases}
    own_end = tuple(named(name) for name in graph.complete if name in here.phases)
    entrances = [name for name in (graph.initial, *(way.target for way in graph.transitions)) if name in here.phases]
    start = next((name for name in entrances if _entered(graph, name, here)), inner[0].name)
    whole = PhaseGraph(
        here.name, (*phases, *map(Phase, outside)), tuple(dict.fromkeys(ways)), named(start), (*own_end, *outside)
    )
    return _Folded(whole, Travelled(named(seen.phase), seen.status, visits, moves))


def _entered(graph: PhaseGraph, phase: str, here: GraphPart) -> bool:
    """Return whether the part is entered there, going forward."""
    ways = (way for way in graph.transitions if way.target == phase and not way.is_backward)
    return phase == graph.initial or any(way.source not in here.phases for way in ways)


def _bare(here: GraphPart, condition: str) -> str:
    return condition.removeprefix(f"{here.name}.")
