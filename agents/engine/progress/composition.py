"""Several agents as one: their graphs one after the other, in one journey. Pure.

Each part goes on as if it were alone: what it is asked and what it looks at is told in its own names, those of other parts with
their prefix. So no part knows whether it stands in a chain, and the engine does not know that there are chains.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import count, zip_longest
from typing import TypeVar

from agents.engine.agent import NOT_MET, Agent, Condition, ConditionFinding, Look, ModelAdvice, Provide, SubmitFacts
from agents.engine.decide import REJECTED
from agents.engine.events import Json, Note
from agents.engine.graph import ALWAYS, Phase, PhaseGraph, Transition, transitions_from
from agents.engine.state import JourneyState, TransitionRecord
from agents.prompts.context import PromptSection

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class AgentPart:
    """An agent's place in a larger one. Its phases have `prefix` before their names: "" or something that ends with a dot.

    `following` is where the work goes from its end, as the target of a link; "" for the part that stands next.
    """

    prefix: str
    agent: Agent
    following: str = ""

    @property
    def name(self) -> str:
        """Return how the part is called: by its prefix, or as the agent."""
        return self.prefix.removesuffix(".") or self.agent.name


@dataclass(frozen=True, slots=True)
class PartLink:
    """A way from the end of a part that is tried before the one to the next part.

    `target` is a phase by its whole name, or the prefix of a part, whose first phase is meant. `condition` looks at what a part
    recorded, in its own names: that of the prefix `looks`, or the part `source` itself.
    """

    source: str
    target: str
    name: str
    condition: Condition
    is_backward: bool = False
    priority: int = 10
    looks: str | None = None

    @property
    def looked_at(self) -> str:
        """Return the prefix of the part that the condition looks at."""
        return self.source if self.looks is None else self.looks


def composed(
    name: str,
    title: str,
    summary: str,
    parts: Sequence[AgentPart],
    end: Phase,
    *,
    links: Sequence[PartLink] = (),
    texts: Mapping[str, str] | None = None,
    origin: str = "built in",
) -> Agent:
    """Return the agent that is these parts in their order, complete in `end` after the last.

    `texts` are those that `end` names. Inputs of all parts are inputs of it.
    """
    joints = _joints(parts, links)
    transitions = [way for number, part in enumerate(parts) for way in _ways(number, part, parts, end, joints)]
    graph = PhaseGraph(
        name,
        (*(phase for part in parts for phase in _phases(part)), end),
        tuple(transitions),
        _first(parts[0]),
        (end.name,),
    )
    return Agent(
        name=name,
        title=title,
        summary=summary,
        graph=graph,
        forms=_named(parts, lambda part: part.agent.forms),
        conditions={**_named(parts, _conditions), **_linked(parts, joints)},
        texts={**_named(parts, lambda part: part.agent.texts), **(texts or {})},
        questions=_named(parts, lambda part: part.agent.questions),
        values=partial(_values, tuple(parts)),
        done=partial(_done, tuple(parts)),
        notes=partial(_notes, tuple(parts)),
        origin=origin,
        inputs=_inputs(parts),
        provides=_named(parts, _provides),
        budgets=_named(parts, lambda part: part.agent.budgets),
        sections=partial(_sections, tuple(parts)),
        documents=partial(_documents, tuple(parts)),
        models=_models(parts),
        refuses=partial(_refused, tuple(parts)),
        profile={"parts": [{"part": part.name, "agent": part.agent.name, **part.agent.profile} for part in parts]},
    )


# --- the graph --------------------------------------------------------------------------------------------------------


def _first(part: AgentPart) -> str:
    return part.prefix + part.agent.graph.initial


def _own(part: AgentPart) -> Iterator[Phase]:
    """Yield the part's phases but those in which it is complete."""
    return (phase for phase in part.agent.graph.phases if phase.name not in part.agent.graph.complete)


def _phases(part: AgentPart) -> Iterator[Phase]:
    for phase in _own(part):
        yield replace(
            phase,
            name=part.prefix + phase.name,
            prompt=phase.prompt and part.prefix + phase.prompt,
            prompt_again=phase.prompt_again and part.prefix + phase.prompt_again,
            speaker=phase.speaker and _whose(part, phase.speaker),
        )


def _whose(part: AgentPart, speaker: str) -> str:
    """Return how a speaker of the part is called in the whole; "" is the part itself, and so is who is called as its agent.

    An agent that is two parts speaks in each for itself.
    """
    return part.name if speaker in ("", part.agent.name) else part.prefix + speaker


def _ways(
    number: int, part: AgentPart, parts: Sequence[AgentPart], end: Phase, joints: Sequence[_Joint]
) -> Iterator[Transition]:
    standing_next = _first(parts[number + 1]) if number + 1 < len(parts) else end.name
    following = _target(part.following, parts) if part.following else standing_next
    for way in part.agent.graph.transitions:
        source, condition = part.prefix + way.source, _name(part, way.condition)
        if way.target not in part.agent.graph.complete:
            yield replace(way, source=source, target=part.prefix + way.target, condition=condition)
            continue
        for joint in joints:
            if (joint.part.prefix, joint.end) != (part.prefix, way):
                continue
            link, target = joint.link, _target(joint.link.target, parts)
            # What a person is asked before the end they are asked before any way on, and not before a way back.
            asked = Transition(source, target) if link.is_backward else way
            yield replace(
                asked,
                source=source,
                target=target,
                condition=joint.name,
                is_backward=link.is_backward,
                priority=link.priority,
            )
        yield replace(way, source=source, target=following, condition=condition)


def _target(asked: str, parts: Sequence[AgentPart]) -> str:
    """Return the phase that is meant by a part's prefix, or by its own name."""
    return next((_first(part) for part in parts if part.prefix == asked), asked)


def _name(part: AgentPart, condition: str) -> str:
    return condition if condition in (ALWAYS, REJECTED) else part.prefix + condition


@dataclass(frozen=True, slots=True)
class _Joint:
    """A link where a part would come to its end by the way `end`. `name` is that of the condition on which it is gone."""

    part: AgentPart
    end: Transition
    link: PartLink
    name: str


def _joints(parts: Sequence[AgentPart], links: Sequence[PartLink]) -> Sequence[_Joint]:
    """Return all of them, each with a name that no other condition of the whole has: it would be judged in its place."""
    taken = {ALWAYS, REJECTED, *(part.prefix + name for part in parts for name in part.agent.conditions)}
    found: list[_Joint] = []
    for part in parts:
        for end in _endings(part):
            for link in (one for one in links if one.source == part.prefix):
                name = next(name for name in _joint_names(part, end, link) if name not in taken)
                taken.add(name)
                found.append(_Joint(part, end, link, name))
    return found


def _joint_names(part: AgentPart, end: Transition, link: PartLink) -> Iterator[str]:
    """Yield how the condition may be called: in short, then with where the link leaves, at last with a number."""
    short = link.name if len(_endings(part)) == 1 else f"{end.condition}.{link.name}"
    yield link.looked_at + short
    yield f"{link.looked_at}{part.name}.{short}"
    full = f"{link.looked_at}{part.name}.{end.source}.{end.condition}.{link.name}"
    yield full
    yield from (f"{full}.{number}" for number in count(2))


def _endings(part: AgentPart) -> list[Transition]:
    """Return the ways by which the part comes to its end."""
    return [way for way in part.agent.graph.transitions if way.target in part.agent.graph.complete]


# --- what each part looks at --------------------------------------------------------------------------------------------


def _scoped(part: AgentPart, known: Mapping[str, T]) -> dict[str, T]:
    """Return what is known by phase: the part's own in its own names only.

    What others have by a name of its own is told with a dot before it.
    """
    names = _names(part)
    return {names.get(name, name): value for name, value in known.items()}


def _names(part: AgentPart) -> Mapping[str, str]:
    """Return how the part calls the phases whose names in the whole it calls otherwise."""
    if not part.prefix:
        return {}
    own = [phase.name for phase in part.agent.graph.phases]
    return {**{name: f".{name}" for name in own}, **{part.prefix + name: name for name in own}}


def seen_by(part: AgentPart, facts: SubmitFacts) -> SubmitFacts:
    """Return the facts as the part sees them."""
    if not part.prefix:
        return facts
    return replace(
        facts,
        phase=_names(part).get(facts.phase, facts.phase),
        works=_scoped(part, facts.works),
        answers=_scoped(part, facts.answers),
    )


def state_for(part: AgentPart, state: JourneyState) -> JourneyState:
    """Return the state as the part sees it."""
    if not part.prefix:
        return state
    asked, word, names = state.checkpoint, state.word, _names(part)
    return replace(
        state,
        phase=names.get(state.phase, state.phase),
        phase_visits=_scoped(part, state.phase_visits),
        work=_scoped(part, state.work),
        metrics=_scoped(part, state.metrics),
        answers=_scoped(part, state.answers),
        checkpoint=asked and replace(asked, phase=names.get(asked.phase, asked.phase)),
        word=word and replace(word, phase=names.get(word.phase, word.phase)),
        feedback=tuple(replace(one, phase=names.get(one.phase, one.phase)) for one in state.feedback),
        transition_history=tuple(_moved(one, names) for one in state.transition_history),
    )


def _moved(record: TransitionRecord, names: Mapping[str, str]) -> TransitionRecord:
    source, target = (names.get(phase, phase) for phase in (record.source, record.target))
    return replace(record, source=source, target=target)


def _conditions(part: AgentPart) -> Mapping[str, Condition]:
    return {name: partial(_judge, part, condition) for name, condition in part.agent.conditions.items()}


async def _judge(part: AgentPart, condition: Condition, facts: SubmitFacts, look: Look) -> ConditionFinding:
    return await condition(seen_by(part, facts), look)


def _linked(parts: Sequence[AgentPart], joints: Sequence[_Joint]) -> dict[str, Condition]:
    by_prefix = {part.prefix: part for part in parts}
    return {
        joint.name: partial(
            _from_end, joint.part, joint.end, partial(_judge, by_prefix[joint.link.looked_at], joint.link.condition)
        )
        for joint in joints
    }


async def _from_end(
    part: AgentPart, end: Transition, link: Condition, facts: SubmitFacts, look: Look
) -> ConditionFinding:
    """Judge whether the part would go to its end by that way, and then whether the link is gone from there."""
    for way in transitions_from(part.agent.graph, end.source):
        condition = part.agent.conditions.get(way.condition)
        met = way.condition == ALWAYS or (condition is not None and (await _judge(part, condition, facts, look)).met)
        if met:
            # A link is tried before all ways of the part, also before those that it would take sooner.
            return await link(facts, look) if way == end else NOT_MET
    # What is missing at the end says the way to the next part: it is not told twice.
    return NOT_MET


def _provides(part: AgentPart) -> Mapping[str, Provide]:
    return {phase: partial(_provide, part, provide) for phase, provide in part.agent.provides.items()}


async def _provide(part: AgentPart, provide: Provide, facts: SubmitFacts, look: Look) -> Mapping[str, Json]:
    return await provide(seen_by(part, facts), look)


# --- what is told -------------------------------------------------------------------------------------------------------


def _named(parts: Sequence[AgentPart], of: Callable[[AgentPart], Mapping[str, T]]) -> dict[str, T]:
    return {part.prefix + name: value for part in parts for name, value in of(part).items()}


def _part_at(parts: Sequence[AgentPart], phase: str) -> AgentPart | None:
    """Return the part that a phase belongs to."""
    return next((part for part in parts if phase in {part.prefix + one.name for one in _own(part)}), None)


def _values(parts: Sequence[AgentPart], state: JourneyState) -> Mapping[str, str]:
    part = _part_at(parts, state.phase)
    return part.agent.values(state_for(part, state)) if part else {}


def _sections(parts: Sequence[AgentPart], state: JourneyState, body: str) -> Sequence[PromptSection]:
    part = _part_at(parts, state.phase)
    return part.agent.sections(state_for(part, state), body) if part else ()


def _done(parts: Sequence[AgentPart], state: JourneyState) -> Sequence[str]:
    """Return what the present part did, and before it which parts are through; at the end what each did, the last first."""
    present = _part_at(parts, state.phase)
    if present:
        before = [part for part in parts[: parts.index(present)] if _visited(part, state)]
        through = [f"{part.name} ({part.agent.title}) is through" for part in before]
        return [*present.agent.done(state_for(present, state)), *through]
    visited = [part for part in reversed(parts) if _visited(part, state)]
    told = [[f"{part.name}: {line}" for line in part.agent.done(state_for(part, state))] for part in visited]
    # One line of each before the second of any: there may be room for no more.
    return [line for lines in zip_longest(*told) for line in lines if line is not None]


def _visited(part: AgentPart, state: JourneyState) -> bool:
    return _first(part) in state.phase_visits


def _notes(parts: Sequence[AgentPart], phase: str, before: Json, after: Json) -> Sequence[Note]:
    part = _part_at(parts, phase)
    return part.agent.notes(phase.removeprefix(part.prefix), before, after) if part else ()


def _documents(parts: Sequence[AgentPart], state: JourneyState) -> Mapping[str, str]:
    """Return the documents by the name of their part; and the newest of each agent by the agent's own name."""
    found: dict[str, str] = {}
    newest: dict[str, str] = {}
    for part in sorted(parts, key=lambda part: _worked_at(part, state)):
        for name, text in part.agent.documents(state_for(part, state)).items():
            found[part.name if name == part.agent.name else f"{part.name}.{name}"] = text
            newest[name] = text
    return {**newest, **found}


def _worked_at(part: AgentPart, state: JourneyState) -> int:
    """Return the event that holds the newest work of the part, 0 if it has none."""
    own = (state.work.get(part.prefix + phase.name) for phase in _own(part))
    return max((work.seq for work in own if work), default=0)


def _inputs(parts: Sequence[AgentPart]) -> Mapping[str, Json]:
    properties: dict[str, Json] = {}
    required: list[str] = []
    for part in parts:
        properties |= {
            name: form for name, form in part.agent.inputs.get("properties", {}).items() if name not in properties
        }
        required += [name for name in part.agent.inputs.get("required", ()) if name not in required]
    if not properties:
        return {}
    return {"type": "object", "properties": properties, **({"required": required} if required else {})}


def _refused(parts: Sequence[AgentPart], inputs: Mapping[str, Json]) -> Sequence[str]:
    told = [text for part in parts for text in part.agent.refuses(inputs)]
    return list(dict.fromkeys(told))


def _models(parts: Sequence[AgentPart]) -> Mapping[str, ModelAdvice]:
    return {_whose(part, speaker): advice for part in parts for speaker, advice in part.agent.models.items()}
