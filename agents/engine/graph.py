"""A phase graph is data: what may happen next, and nothing about when or where. Pure."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, TypeVar, get_args

from agents.errors import BadGraph

ALWAYS = "always"
"""The condition that is met by any work."""
T = TypeVar("T")
_PART = re.compile(r"[\w-]+(\.[\w-]+)*")
CheckpointKind = Literal["none", "informational", "optional", "blocking"]
FeedbackKind = Literal["validation", "soft_failure", "hard_failure"]
FEEDBACK_KINDS: tuple[FeedbackKind, ...] = get_args(FeedbackKind)
CHECKPOINT_KINDS: tuple[CheckpointKind, ...] = get_args(CheckpointKind)
ANSWERS = "a person answers"
ASKED: Mapping[CheckpointKind, str] = {"blocking": "a person decides", "optional": "a person may say"}
"""What a person is asked for at a checkpoint, in a word or two beside a name; at others they are asked nothing."""
UNASKED = "nobody is asked"


@dataclass(frozen=True, slots=True)
class Phase:
    """A stage of the work that is visible from outside. `entry` and `exit` say in words what holds before and after it.

    `checkpoint` is what a person is asked before the work leaves the phase forward; `own_hand` means that their word may not
    be relayed. `prompt` and `prompt_again` name the templates of the first visit and of coming back. `sub_phases` belong to
    the agent alone: nothing outside of it shows them.

    `automatic`: the server itself does the work, at the moment in which the phase is entered, and goes on. `speaker` is whose
    conversation the phase goes on in; `fresh` begins a new one with each visit. `feedback` are the kinds of feedback, of all
    phases, that its prompt tells.
    """

    name: str
    title: str = ""
    purpose: str = ""
    entry: str = ""
    exit: str = ""
    checkpoint: CheckpointKind = "none"
    own_hand: bool = False
    tools: tuple[str, ...] = ()
    work_schema: str = ""
    prompt: str = ""
    prompt_again: str = ""
    sub_phases: tuple[str, ...] = ()
    automatic: bool = False
    speaker: str = ""
    fresh: bool = False
    feedback: tuple[FeedbackKind, ...] = ()


@dataclass(frozen=True, slots=True)
class Transition:
    """One way out of a phase. Of those that may be taken the higher `priority` goes first.

    `asks` names the field of the work (a list of objects with `id` and `question`) that a person answers before this way is
    gone, whatever the phase's checkpoint is. `checkpoint` is what a person is asked before this way is gone, where that is
    another than the phase's. `anew`: whoever speaks after this way begins a new conversation.
    """

    source: str
    target: str
    condition: str = ALWAYS
    is_backward: bool = False
    priority: int = 0
    asks: str = ""
    anew: bool = False
    checkpoint: CheckpointKind | Literal[""] = ""


@dataclass(frozen=True, slots=True)
class PhaseGraph:
    """A workflow as a table. `checked` says whether it can be used."""

    name: str
    phases: tuple[Phase, ...]
    transitions: tuple[Transition, ...]
    initial: str
    complete: tuple[str, ...]

    def phase(self, name: str) -> Phase:
        """Return the phase of that name; a KeyError if there is none."""
        for phase in self.phases:
            if phase.name == name:
                return phase
        raise KeyError(name)


def ways_out(graph: PhaseGraph, phase: str) -> Sequence[Transition]:
    """Return the transitions out of a phase in the order in which they are tried: backward, then by priority, then as written."""
    out = [t for t in graph.transitions if t.source == phase]
    return sorted(out, key=lambda t: (not t.is_backward, -t.priority))


def checkpoint_on(graph: PhaseGraph, way: Transition) -> CheckpointKind:
    """Return what a person is asked before that way is gone. Nobody is asked before work is done again."""
    if way.is_backward:
        return "none"
    return way.checkpoint or graph.phase(way.source).checkpoint


def own_mark(way: Transition) -> str:
    """Return in a few words what a way itself says of asking a person; "" where it is as its phase says."""
    if way.asks:
        return ANSWERS
    return ASKED.get(way.checkpoint, UNASKED) if way.checkpoint and not way.is_backward else ""


def advance(graph: PhaseGraph, phase: str, met: Collection[str]) -> Transition | None:
    """Return the first way out of `phase` whose condition is among those `met`, or None to stay."""
    return next((t for t in ways_out(graph, phase) if t.condition == ALWAYS or t.condition in met), None)


def earlier(graph: PhaseGraph, phase: str, than: str) -> bool:
    """Return whether forward ways lead from `phase` to `than`. Of two that lead to each other the one listed first is earlier."""
    forward = _targets(t for t in graph.transitions if not t.is_backward)
    if phase == than or than not in reachable([phase], forward):
        return False
    names = [one.name for one in graph.phases]
    return phase not in reachable([than], forward) or names.index(phase) < names.index(than)


def checked(graph: PhaseGraph, conditions: Collection[str], tools: Collection[str]) -> PhaseGraph:
    """Return the graph, through which work can be led from the start to an end, whatever way it takes.

    Raises:
        BadGraph: it cannot; names everything that is wrong. `conditions` and `tools` are those that there are.
    """
    problems = [*_misnamed(graph, conditions, tools)]
    # Where names are wrong, nothing can be said of ways.
    problems = problems or [*_ways_wrong(graph), *_automatic_wrong(graph)]
    if problems:
        raise BadGraph(graph.name, problems)
    return graph


def _misnamed(graph: PhaseGraph, conditions: Collection[str], tools: Collection[str]) -> Iterator[str]:
    names = [phase.name for phase in graph.phases]
    yield from (f"there are two phases {name!r}" for name in _twice(names))
    yield from ("a phase has no name" for name in names if not name)
    if graph.initial not in names:
        yield f"it begins in {graph.initial!r}, which is no phase of it"
    if not graph.complete:
        yield "it names no phase in which the work is complete"
    yield from (f"it is complete in {name!r}, which is no phase of it" for name in graph.complete if name not in names)
    for phase in graph.phases:
        yield from (f"phase {phase.name!r} uses the unknown tool {tool!r}" for tool in phase.tools if tool not in tools)
        unknown = [kind for kind in phase.feedback if kind not in FEEDBACK_KINDS]
        yield from (f"phase {phase.name!r} is told the unknown kind of feedback {kind!r}" for kind in unknown)
        if phase.fresh and not phase.speaker:
            yield f"phase {phase.name!r} begins a conversation with each visit, but names no speaker"
    for t in graph.transitions:
        yield from (f"{_said(t)} names {end!r}, which is no phase" for end in (t.source, t.target) if end not in names)
        if t.condition != ALWAYS and t.condition not in conditions:
            yield f"{_said(t)} has the unknown condition {t.condition!r}"
    yield from (f"{_said(t)} is there twice" for t in _twice(_bare(t) for t in graph.transitions))


def _bare(t: Transition) -> Transition:
    return Transition(t.source, t.target, t.condition)


def _twice(things: Iterable[T]) -> Sequence[T]:
    return [thing for thing, times in Counter(things).items() if times > 1]


def _said(t: Transition) -> str:
    return f"the transition {t.source} -> {t.target}"


def _ways_wrong(graph: PhaseGraph) -> Iterator[str]:
    onward = _targets(graph.transitions)
    reached = reachable([graph.initial], onward)
    backwards = _targets(Transition(t.target, t.source) for t in graph.transitions)
    ending = reachable(graph.complete, backwards)
    for t in graph.transitions:
        if t.source == t.target:
            yield f"{_said(t)} leads nowhere: to stay, no transition is needed"
        elif t.source in graph.complete:
            yield f"{_said(t)} leaves a phase in which the work is complete"
    if graph.initial in graph.complete:
        yield f"it is complete in {graph.initial!r}, where it begins"
    for phase in graph.phases:
        if phase.name not in reached:
            yield f"phase {phase.name!r} is never reached from {graph.initial!r}"
        elif phase.name not in graph.complete and phase.name not in onward:
            yield f"phase {phase.name!r} is a dead end: no transition leaves it"
        elif phase.name not in ending:
            yield f"no way leads from phase {phase.name!r} to completion"
    yield from _not_backward(graph)


def _automatic_wrong(graph: PhaseGraph) -> Iterator[str]:
    """Yield where work that nobody is asked for would stand still, or go round for ever."""
    automatic = [phase for phase in graph.phases if phase.automatic]
    alone = {phase.name for phase in automatic}
    onward = _targets(t for t in graph.transitions if {t.source, t.target} <= alone)
    for phase in automatic:
        ways = ways_out(graph, phase.name)
        if phase.checkpoint != "none" or any(way.asks or way.checkpoint not in ("", "none") for way in ways):
            yield f"phase {phase.name!r} is automatic, so nobody can be asked there"
        if phase.name in graph.complete:
            yield f"phase {phase.name!r} is automatic, and the work is complete there"
        elif not ways or ways[-1].condition != ALWAYS:
            yield f"phase {phase.name!r} is automatic, so its last way must be `{ALWAYS}`: nobody could help it on"
        if phase.name in reachable(onward.get(phase.name, ()), onward):
            yield f"automatic phases lead from {phase.name!r} back to it: nobody would stop them"


def _not_backward(graph: PhaseGraph) -> Iterator[str]:
    forward = _targets(t for t in graph.transitions if not t.is_backward)
    for t in graph.transitions:
        if t.is_backward and t.source != t.target and t.source not in reachable([t.target], forward):
            yield f"{_said(t)} is marked as backward, but no forward way leads from {t.target} to {t.source}"


def _targets(transitions: Iterable[Transition]) -> Mapping[str, list[str]]:
    found: dict[str, list[str]] = {}
    for t in transitions:
        found.setdefault(t.source, []).append(t.target)
    return found


def reachable(starts: Iterable[str], targets: Mapping[str, Iterable[str]]) -> set[str]:
    """Return the starts, and every name that can be reached from them."""
    reached: set[str] = set()
    todo = list(starts)
    while todo:
        name = todo.pop()
        if name not in reached:
            reached.add(name)
            todo.extend(targets.get(name, ()))
    return reached


def grouped(graph: PhaseGraph) -> Mapping[str, Sequence[Phase]]:
    """Return the phases by the part that they belong to: by what stands before the last dot of their name, "" where none does.

    Parts stand in the order of their first phases. Of a graph that is not made of parts all phases stand under "".
    """
    parts: dict[str, list[Phase]] = {}
    for phase in graph.phases:
        parts.setdefault(phase.name.rpartition(".")[0], []).append(phase)
    if len(parts) < 2 or not all(_PART.fullmatch(name) and len(phases) > 1 for name, phases in parts.items() if name):
        return {"": graph.phases}
    return parts


def mermaid(graph: PhaseGraph, current: str | None = None, visits: Mapping[str, int] | None = None) -> str:
    """Return the graph as a Mermaid flowchart: phases with their visits, the current one marked, ways back dotted.

    Ways say on which condition they are gone, and what a person is asked before. The parts of a larger graph are frames with
    their phases in them.
    """
    counts = visits or {}
    number = {phase.name: f"p{n}" for n, phase in enumerate(graph.phases)}
    lines = ["flowchart LR"]
    for place, (part, phases) in enumerate(grouped(graph).items()):
        nodes = [f"    {number[p.name]}{_node(graph, p, part, counts.get(p.name, 0))}" for p in phases]
        framed = [f'    subgraph s{place}["{_quoted(part)}"]', *(f"    {node}" for node in nodes), "    end"]
        lines += framed if part else nodes
    for t in graph.transitions:
        arrow = "-.->" if t.is_backward else "-->"
        said = [*([] if t.condition == ALWAYS else [t.condition]), *filter(None, [_asked(graph, t)])]
        label = f'|"{_quoted(", ".join(said))}"|' if said else ""
        lines.append(f"    {number[t.source]} {arrow}{label} {number[t.target]}")
    if current in number:
        lines += ["    classDef current stroke-width:4px", f"    class {number[current]} current"]
    return "\n".join(lines) + "\n"


def _asked(graph: PhaseGraph, way: Transition) -> str:
    return ANSWERS if way.asks else ASKED.get(checkpoint_on(graph, way), "")


def _node(graph: PhaseGraph, phase: Phase, part: str, visits: int) -> str:
    name = phase.name.removeprefix(f"{part}.") if part else phase.name
    label = _quoted(name) + (f" ({visits})" if visits else "")
    return f'(["{label}"])' if phase.name in graph.complete else f'["{label}"]'


def _quoted(text: str) -> str:
    """Return the text as Mermaid shows it, whatever it means to Mermaid.

    Source: Mermaid, flowchart syntax, "Entity codes to escape characters".
    """
    return "".join(c if c.isalnum() or c in " _-.,:" else f"#{ord(c)};" for c in text)
