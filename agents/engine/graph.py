"""A phase graph is data: what may happen next, and nothing about when or where. Pure."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, TypeVar, get_args

from agents.errors import BadGraph

ALWAYS = "always"
"""The condition that any work meets."""
T = TypeVar("T")
_PART = re.compile(r"[\w-]+(\.[\w-]+)*")
CheckpointKind = Literal["none", "informational", "optional", "blocking"]
FeedbackKind = Literal["validation", "soft_failure", "hard_failure"]
FEEDBACK_KINDS: tuple[FeedbackKind, ...] = get_args(FeedbackKind)
CHECKPOINT_KINDS: tuple[CheckpointKind, ...] = get_args(CheckpointKind)
CHECKPOINT_LABELS: Mapping[CheckpointKind, str] = {"blocking": "a person decides", "optional": "a person may say"}
"""A label for each kind of checkpoint at which a person is asked something."""
ANSWERS_LABEL = "a person answers"


@dataclass(frozen=True, slots=True)
class Phase:
    """A stage of the work that is visible from outside. `entry` and `exit` say in words what holds before and after it.

    `checkpoint` says whether a person is asked before the work moves forward; `own_hand`: a model may not relay their
    decision. `ask_in` is the channel and topic in which the question is also asked, as `channel/topic`. `prompt` and
    `prompt_again` name the templates for the first visit and for coming back.

    `automatic`: the server does the work when the phase is entered, and continues. The phase continues the conversation of
    `speaker`; `fresh` begins a new one with each visit. `alone`: its work is not submitted together with that of the phases before
    it, because it needs something that happens in between, such as a learner's answer. `feedback` are the kinds of feedback that
    its prompt shows, from all phases.
    """

    name: str
    title: str = ""
    purpose: str = ""
    entry: str = ""
    exit: str = ""
    checkpoint: CheckpointKind = "none"
    own_hand: bool = False
    ask_in: str = ""
    tools: tuple[str, ...] = ()
    work_schema: str = ""
    prompt: str = ""
    prompt_again: str = ""
    automatic: bool = False
    speaker: str = ""
    fresh: bool = False
    alone: bool = False
    feedback: tuple[FeedbackKind, ...] = ()


@dataclass(frozen=True, slots=True)
class Transition:
    """A transition out of a phase. The higher its `priority`, the sooner it is tried.

    `asks` names the field of the work (a list of objects with `id` and `question`) that a person must answer before this
    transition is taken, whatever the phase's checkpoint is. `checkpoint` replaces the phase's checkpoint for this transition.
    `anew`: every speaker begins a new conversation afterwards.
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
        """Return the phase of that name.

        Raises:
            KeyError: there is no such phase.
        """
        for phase in self.phases:
            if phase.name == name:
                return phase
        raise KeyError(name)


def transitions_from(graph: PhaseGraph, phase: str) -> Sequence[Transition]:
    """Return the transitions out of a phase in the order in which they are tried: backward, then by priority, then as written."""
    out = [t for t in graph.transitions if t.source == phase]
    # Backward first: evidence that earlier work was wrong counts more than a met condition to continue.
    return sorted(out, key=lambda t: (not t.is_backward, -t.priority))


def checkpoint_on(graph: PhaseGraph, transition: Transition) -> CheckpointKind:
    """Return the checkpoint before that transition. No person is asked before going back."""
    if transition.is_backward:
        return "none"
    return transition.checkpoint or graph.phase(transition.source).checkpoint


def own_label(transition: Transition) -> str:
    """Return a transition's own setting for asking a person; "" if it follows its phase."""
    if transition.asks:
        return ANSWERS_LABEL
    if not transition.checkpoint or transition.is_backward:
        return ""
    return CHECKPOINT_LABELS.get(transition.checkpoint, "nobody is asked")


def advance(graph: PhaseGraph, phase: str, met: Collection[str]) -> Transition | None:
    """Return the first transition out of `phase` whose condition is among those `met`, or None to stay."""
    return next((t for t in transitions_from(graph, phase) if t.condition == ALWAYS or t.condition in met), None)


def is_earlier(graph: PhaseGraph, phase: str, than: str) -> bool:
    """Return whether forward transitions lead from `phase` to `than`. If both lead to each other, the first listed is earlier."""
    forward = _targets(t for t in graph.transitions if not t.is_backward)
    if phase == than or than not in reachable([phase], forward):
        return False
    names = [one.name for one in graph.phases]
    return phase not in reachable([than], forward) or names.index(phase) < names.index(than)


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


def _targets(transitions: Iterable[Transition]) -> Mapping[str, list[str]]:
    found: dict[str, list[str]] = {}
    for t in transitions:
        found.setdefault(t.source, []).append(t.target)
    return found


# --- whether a graph can be used --------------------------------------------------------------------------------------


def checked(graph: PhaseGraph, conditions: Collection[str], tools: Collection[str]) -> PhaseGraph:
    """Return the graph, if work can always get from its start to an end.

    `conditions` and `tools` are the names of all that exist.

    Raises:
        BadGraph: it cannot be used; the error names every fault.
    """
    # With wrong names, paths cannot be checked.
    problems = [*_misnamed(graph, conditions, tools)] or [*_path_problems(graph), *_automatic_problems(graph)]
    if problems:
        raise BadGraph(graph.name, problems)
    return graph


def _misnamed(graph: PhaseGraph, conditions: Collection[str], tools: Collection[str]) -> Iterator[str]:
    names = [phase.name for phase in graph.phases]
    yield from (f"there are two phases {name!r}" for name in _twice(names))
    yield from ("a phase has no name" for name in names if not name)
    if graph.initial not in names:
        yield f"it begins in {graph.initial!r}, which is not one of its phases"
    if not graph.complete:
        yield "it names no phase in which the work is complete"
    yield from (
        f"it is complete in {name!r}, which is not one of its phases" for name in graph.complete if name not in names
    )
    for phase in graph.phases:
        yield from (f"phase {phase.name!r} uses the unknown tool {tool!r}" for tool in phase.tools if tool not in tools)
        unknown = [kind for kind in phase.feedback if kind not in FEEDBACK_KINDS]
        yield from (f"phase {phase.name!r} shows the unknown kind of feedback {kind!r}" for kind in unknown)
        if phase.fresh and not phase.speaker:
            yield f"phase {phase.name!r} begins a conversation with each visit, but names no speaker"
    for t in graph.transitions:
        yield from (
            f"{_named(t)} names {end!r}, which is not a phase" for end in (t.source, t.target) if end not in names
        )
        if t.condition != ALWAYS and t.condition not in conditions:
            yield f"{_named(t)} has the unknown condition {t.condition!r}"
    bare = [Transition(t.source, t.target, t.condition) for t in graph.transitions]
    yield from (f"{_named(t)} is there twice" for t in _twice(bare))


def _twice(things: Iterable[T]) -> Sequence[T]:
    return [thing for thing, times in Counter(things).items() if times > 1]


def _named(t: Transition) -> str:
    return f"the transition {t.source} -> {t.target}"


def _path_problems(graph: PhaseGraph) -> Iterator[str]:
    onward, forward = _targets(graph.transitions), _targets(t for t in graph.transitions if not t.is_backward)
    reached = reachable([graph.initial], onward)
    # One walk from the ends against the arrows finds every phase that can still be completed.
    ending = reachable(graph.complete, _targets(Transition(t.target, t.source) for t in graph.transitions))
    for t in graph.transitions:
        if t.source == t.target:
            yield f"{_named(t)} leads nowhere: to stay, no transition is needed"
        elif t.source in graph.complete:
            yield f"{_named(t)} leaves a phase in which the work is complete"
        elif t.is_backward and t.source not in reachable([t.target], forward):
            yield f"{_named(t)} is marked as backward, but no forward path leads from {t.target} to {t.source}"
    if graph.initial in graph.complete:
        yield f"it is complete in {graph.initial!r}, where it begins"
    for phase in graph.phases:
        if phase.name not in reached:
            yield f"phase {phase.name!r} is never reached from {graph.initial!r}"
        elif phase.name not in graph.complete and phase.name not in onward:
            yield f"phase {phase.name!r} is a dead end: no transition leaves it"
        elif phase.name not in ending:
            yield f"no path leads from phase {phase.name!r} to completion"


def _automatic_problems(graph: PhaseGraph) -> Iterator[str]:
    """Yield the places where automatic work would get stuck or loop forever."""
    automatic = [phase for phase in graph.phases if phase.automatic]
    alone = {phase.name for phase in automatic}
    # Only transitions between automatic phases: any other phase waits for a host and so ends the step.
    onward = _targets(t for t in graph.transitions if {t.source, t.target} <= alone)
    for phase in automatic:
        ways = transitions_from(graph, phase.name)
        if phase.checkpoint != "none" or any(t.asks or t.checkpoint not in ("", "none") for t in ways):
            yield f"phase {phase.name!r} is automatic, so nobody can be asked there"
        if phase.name in graph.complete:
            yield f"phase {phase.name!r} is automatic, and the work is complete there"
        elif not ways or ways[-1].condition != ALWAYS:
            yield f"phase {phase.name!r} is automatic, so its last transition must be `{ALWAYS}`: nobody could continue it"
        if phase.name in reachable(onward.get(phase.name, ()), onward):
            yield f"automatic phases lead from {phase.name!r} back to it, and would never stop"


# --- the picture ------------------------------------------------------------------------------------------------------


def grouped(graph: PhaseGraph) -> Mapping[str, Sequence[Phase]]:
    """Return the phases by the part that they belong to: the text before the last dot of their name, "" if there is no dot.

    Parts are in the order of their first phases. All phases of a graph without parts are under "".
    """
    parts: dict[str, list[Phase]] = {}
    for phase in graph.phases:
        parts.setdefault(phase.name.rpartition(".")[0], []).append(phase)
    # A dot in a single phase's name does not make a part.
    if len(parts) < 2 or not all(_PART.fullmatch(name) and len(phases) > 1 for name, phases in parts.items() if name):
        return {"": graph.phases}
    return parts


def mermaid(graph: PhaseGraph, current: str | None = None, visits: Mapping[str, int] | None = None) -> str:
    """Return the graph as a Mermaid flowchart: phases with their visits, the current one marked, ways back dotted.

    Arrows are labelled with the condition of their transition and its checkpoint. The parts of a larger graph are frames.
    """
    counts = visits or {}
    # Numbers instead of names: a phase's name may be anything, even words that Mermaid takes for a command.
    number = {phase.name: f"p{n}" for n, phase in enumerate(graph.phases)}
    lines = ["flowchart LR"]
    for place, (part, phases) in enumerate(grouped(graph).items()):
        nodes = [f"    {number[p.name]}{_node(graph, p, part, counts.get(p.name, 0))}" for p in phases]
        framed = [f'    subgraph s{place}["{_quoted(part)}"]', *(f"    {node}" for node in nodes), "    end"]
        lines += framed if part else nodes
    for t in graph.transitions:
        arrow = "-.->" if t.is_backward else "-->"
        asked = ANSWERS_LABEL if t.asks else CHECKPOINT_LABELS.get(checkpoint_on(graph, t), "")
        texts = [text for text in ("" if t.condition == ALWAYS else t.condition, asked) if text]
        label = f'|"{_quoted(", ".join(texts))}"|' if texts else ""
        lines.append(f"    {number[t.source]} {arrow}{label} {number[t.target]}")
    if current in number:
        lines += ["    classDef current stroke-width:4px", f"    class {number[current]} current"]
    return "\n".join(lines) + "\n"


def _node(graph: PhaseGraph, phase: Phase, part: str, visits: int) -> str:
    name = phase.name.removeprefix(f"{part}.") if part else phase.name
    label = _quoted(name) + (f" ({visits})" if visits else "")
    return f'(["{label}"])' if phase.name in graph.complete else f'["{label}"]'


def _quoted(text: str) -> str:
    """Return the text so that Mermaid shows it instead of interpreting it.

    Source: Mermaid, flowchart syntax, "Entity codes to escape characters".
    """
    return "".join(c if c.isalnum() or c in " _-.,:" else f"#{ord(c)};" for c in text)
