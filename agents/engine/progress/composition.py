"""Several agents as one: their graphs one after the other, in one journey. Pure.

Each part works as if it were alone. It sees its own phases under their own names, and those of other parts under names with a prefix.
So no agent has to know whether it is part of a chain, and the engine does not know about chains.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import count, zip_longest
from typing import TypeVar

from agents.engine.agent import MET, NOT_MET, Agent, Condition, ConditionFinding, Look, Provide, SubmitFacts
from agents.engine.decide import REJECTED
from agents.engine.events import Json, Note
from agents.engine.graph import ALWAYS, Phase, PhaseGraph, Transition, transitions_from
from agents.engine.state import JourneyState
from agents.engine.work.result import NO_RESULT, AgentResult
from agents.prompts.context import PromptSection

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class AgentPart:
    """An agent in a chain. The names of its phases begin with `prefix`: "" or a text that ends with a dot.

    `following` is where the work continues after the agent's end, written like the target of a link; "" for the next
    part. `aside`: its result is not part of the chain's result, because it only looks back on another part.
    """

    prefix: str
    agent: Agent
    following: str = ""
    aside: bool = False

    @property
    def name(self) -> str:
        """The name of the part: its prefix, or the agent's name."""
        return self.prefix.removesuffix(".") or self.agent.name

    @property
    def first(self) -> str:
        """The first phase, by its name in the chain."""
        return self.prefix + self.agent.graph.initial

    @property
    def phases(self) -> Iterator[Phase]:
        """Yield the agent's phases, without those in which it is complete."""
        return (phase for phase in self.agent.graph.phases if phase.name not in self.agent.graph.complete)

    @property
    def endings(self) -> list[Transition]:
        """The agent's transitions to its end."""
        return [t for t in self.agent.graph.transitions if t.target in self.agent.graph.complete]

    def speaker(self, name: str) -> str:
        """Return the name of a speaker in the chain.

        An agent that is its own speaker becomes the part's speaker, so an agent in two parts has two conversations.
        """
        return self.name if name in ("", self.agent.name) else self.prefix + name

    def own_names(self) -> Mapping[str, str]:
        """Return the part's own names of phases, by their names in the chain, where the two differ.

        If a phase of another part has the name of one of its own phases, the part sees it with a dot in front.
        """
        if not self.prefix:
            return {}
        names = [phase.name for phase in self.agent.graph.phases]
        return {**{name: f".{name}" for name in names}, **{self.prefix + name: name for name in names}}


@dataclass(frozen=True, slots=True)
class PartLink:
    """A transition out of a part's end that is tried before the one to the next part.

    `target` is the name of a phase in the chain, or the prefix of a part, which means its first phase. `condition`
    judges the part with the prefix `looks`; if that is None, it judges the part `source`.
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
        """The prefix of the part that the condition judges."""
        return self.source if self.looks is None else self.looks


@dataclass(frozen=True, slots=True)
class _Joint:
    """A link at one of the endings of a part. `name` is that of its condition in the chain."""

    part: AgentPart
    end: Transition
    link: PartLink
    name: str


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
    results: Sequence[str] = (),
) -> Agent:
    """Return the agent that does the work of these parts in order, and is complete in `end` after the last.

    `texts` are those that `end` names. The inputs of all parts are its inputs. `results` names parts by their prefixes:
    the chain's result consists of theirs, in this order. Without `results`, the chain's result is that of the last part
    that has one.
    """
    chain, joints = _Chain(tuple(parts)), _joints(parts, links)
    transitions = [way for number, part in enumerate(parts) for way in _transitions(number, part, parts, end, joints)]
    graph = PhaseGraph(
        name,
        (*(phase for part in parts for phase in _phases(part)), end),
        tuple(transitions),
        parts[0].first,
        (end.name,),
    )
    return Agent(
        name=name,
        title=title,
        summary=summary,
        graph=graph,
        forms=_prefixed(parts, lambda part: part.agent.forms),
        conditions={**_prefixed(parts, _conditions), **_link_conditions(parts, joints)},
        texts={**_prefixed(parts, lambda part: part.agent.texts), **(texts or {})},
        questions=_prefixed(parts, lambda part: part.agent.questions),
        values=chain.values,
        done=chain.done,
        notes=chain.notes,
        origin=origin,
        inputs=_inputs(parts),
        provides=_prefixed(parts, _provides),
        budgets=_prefixed(parts, lambda part: part.agent.budgets),
        sections=chain.sections,
        documents=chain.documents,
        completes=chain.completes,
        models={part.speaker(speaker): advice for part in parts for speaker, advice in part.agent.models.items()},
        refuses=chain.refuses,
        result=ChainResult(tuple(parts), tuple(results)),
        profile={"parts": [{"part": part.name, "agent": part.agent.name, **part.agent.profile} for part in parts]},
    )


def _prefixed(parts: Sequence[AgentPart], of: Callable[[AgentPart], Mapping[str, T]]) -> dict[str, T]:
    return {part.prefix + name: value for part in parts for name, value in of(part).items()}


def _inputs(parts: Sequence[AgentPart]) -> Mapping[str, Json]:
    properties: dict[str, Json] = {}
    required: dict[str, None] = {}
    for part in parts:
        for input_, schema in part.agent.inputs.get("properties", {}).items():
            # Parts share an input of the same name; the first part's schema describes it.
            properties.setdefault(input_, schema)
        required |= dict.fromkeys(part.agent.inputs.get("required", ()))
    if not properties:
        return {}
    return {"type": "object", "properties": properties, **({"required": [*required]} if required else {})}


# --- the graph --------------------------------------------------------------------------------------------------------


def _phases(part: AgentPart) -> Iterator[Phase]:
    for phase in part.phases:
        yield replace(
            phase,
            name=part.prefix + phase.name,
            prompt=phase.prompt and part.prefix + phase.prompt,
            prompt_again=phase.prompt_again and part.prefix + phase.prompt_again,
            speaker=phase.speaker and part.speaker(phase.speaker),
        )


def _transitions(
    number: int, part: AgentPart, parts: Sequence[AgentPart], end: Phase, joints: Sequence[_Joint]
) -> Iterator[Transition]:
    following = parts[number + 1].first if number + 1 < len(parts) else end.name
    if part.following:
        following = _target(part.following, parts)
    for way in part.agent.graph.transitions:
        source = part.prefix + way.source
        condition = way.condition if way.condition in (ALWAYS, REJECTED) else part.prefix + way.condition
        if way.target not in part.agent.graph.complete:
            yield replace(way, source=source, target=part.prefix + way.target, condition=condition)
            continue
        # Links come before the part's own transition, so that they are tried first at equal priority.
        for joint in joints:
            if (joint.part.prefix, joint.end) != (part.prefix, way):
                continue
            link = joint.link
            # A person is asked before every way forward from this end, and never before going back.
            asked = Transition(source, following) if link.is_backward else way
            yield replace(
                asked,
                source=source,
                target=_target(link.target, parts),
                condition=joint.name,
                is_backward=link.is_backward,
                priority=link.priority,
            )
        yield replace(way, source=source, target=following, condition=condition)


def _target(target: str, parts: Sequence[AgentPart]) -> str:
    return next((part.first for part in parts if part.prefix == target), target)


def _joints(parts: Sequence[AgentPart], links: Sequence[PartLink]) -> Sequence[_Joint]:
    """Return every link at every ending of its part. No two conditions of the chain have the same name."""
    taken = {ALWAYS, REJECTED, *(part.prefix + name for part in parts for name in part.agent.conditions)}
    found: list[_Joint] = []
    for part in parts:
        for end in part.endings:
            for link in (one for one in links if one.source == part.prefix):
                name = next(name for name in _joint_names(part, end, link) if name not in taken)
                taken.add(name)
                found.append(_Joint(part, end, link, name))
    return found


def _joint_names(part: AgentPart, end: Transition, link: PartLink) -> Iterator[str]:
    """Yield names for the condition: a short one, then with the place of the link, finally with a number."""
    short = link.name if len(part.endings) == 1 else f"{end.condition}.{link.name}"
    yield link.looked_at + short
    yield f"{link.looked_at}{part.name}.{short}"
    full = f"{link.looked_at}{part.name}.{end.source}.{end.condition}.{link.name}"
    yield full
    yield from (f"{full}.{number}" for number in count(2))


# --- what each part sees ----------------------------------------------------------------------------------------------


def seen_by(part: AgentPart, facts: SubmitFacts) -> SubmitFacts:
    """Return the facts as the part sees them: with its own names of phases."""
    if not part.prefix:
        return facts
    names = part.own_names()
    return replace(
        facts,
        phase=names.get(facts.phase, facts.phase),
        works=_renamed(facts.works, names),
        answers=_renamed(facts.answers, names),
    )


def state_for(part: AgentPart, state: JourneyState) -> JourneyState:
    """Return the state as the part sees it: with its own names of phases."""
    if not part.prefix:
        return state
    asked, word, names = state.checkpoint, state.word, part.own_names()
    return replace(
        state,
        phase=names.get(state.phase, state.phase),
        phase_visits=_renamed(state.phase_visits, names),
        work=_renamed(state.work, names),
        metrics=_renamed(state.metrics, names),
        answers=_renamed(state.answers, names),
        checkpoint=asked and replace(asked, phase=names.get(asked.phase, asked.phase)),
        word=word and replace(word, phase=names.get(word.phase, word.phase)),
        feedback=tuple(replace(one, phase=names.get(one.phase, one.phase)) for one in state.feedback),
        transition_history=tuple(
            replace(one, source=names.get(one.source, one.source), target=names.get(one.target, one.target))
            for one in state.transition_history
        ),
    )


def _renamed(by_phase: Mapping[str, T], names: Mapping[str, str]) -> dict[str, T]:
    return {names.get(phase, phase): value for phase, value in by_phase.items()}


def _conditions(part: AgentPart) -> Mapping[str, Condition]:
    return {name: partial(_judge, part, condition) for name, condition in part.agent.conditions.items()}


async def _judge(part: AgentPart, condition: Condition, facts: SubmitFacts, look: Look) -> ConditionFinding:
    return await condition(seen_by(part, facts), look)


def _link_conditions(parts: Sequence[AgentPart], joints: Sequence[_Joint]) -> dict[str, Condition]:
    by_prefix = {part.prefix: part for part in parts}
    conditions: dict[str, Condition] = {}
    for joint in joints:
        link = partial(_judge, by_prefix[joint.link.looked_at], joint.link.condition)
        conditions[joint.name] = partial(_at_end, joint.part, joint.end, link)
    return conditions


async def _at_end(
    part: AgentPart, end: Transition, link: Condition, facts: SubmitFacts, look: Look
) -> ConditionFinding:
    """Judge whether the part would reach its end by this transition, and then whether the link is taken from there."""
    for way in transitions_from(part.agent.graph, end.source):
        condition = part.agent.conditions.get(way.condition)
        found = MET if way.condition == ALWAYS else NOT_MET
        if condition is not None:
            found = await _judge(part, condition, facts, look)
        if found.met:
            # The graph tries a link before all transitions of the part, even those that the part would take first.
            if way != end:
                return NOT_MET
            linked = await link(facts, look)
            return replace(linked, statements=(*found.statements, *linked.statements)) if linked.met else linked
    # The transition to the next part reports what is missing at this end.
    return NOT_MET


def _provides(part: AgentPart) -> Mapping[str, Provide]:
    return {phase: partial(_provide, part, provide) for phase, provide in part.agent.provides.items()}


async def _provide(part: AgentPart, provide: Provide, facts: SubmitFacts, look: Look) -> Mapping[str, Json] | None:
    return await provide(seen_by(part, facts), look)


# --- the result -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class ChainResult:
    """The results of the parts with the prefixes `named`; if none are named, that of the last part that has one."""

    parts: tuple[AgentPart, ...]
    named: tuple[str, ...] = ()

    @property
    def fields(self) -> Sequence[str]:
        """The places of the parts' results, as texts."""
        return [
            part.prefix + field for part in self._in_order() if part.agent.result for field in part.agent.result.fields
        ]

    def of(self, state: JourneyState) -> AgentResult:
        """Return what is recorded of these results so far."""
        found = [self._result(part, state) for part in self._in_order()]
        recorded = [one for one in found if one.parts] or found[:1]
        if not self.named:
            recorded = recorded[:1]
        return AgentResult(
            recorded[0].kind if recorded else "answer",
            tuple(part for one in recorded for part in one.parts),
            tuple(part for one in recorded for part in one.left_open),
        )

    def _in_order(self) -> Sequence[AgentPart]:
        if self.named:
            return [part for prefix in self.named for part in self.parts if part.prefix == prefix and not part.aside]
        return [part for part in reversed(self.parts) if not part.aside]

    def _result(self, part: AgentPart, state: JourneyState) -> AgentResult:
        own = part.agent.result.of(state_for(part, state)) if part.agent.result else NO_RESULT
        parts, left_open = (
            tuple(replace(one, source=part.prefix + one.source) for one in of) for of in (own.parts, own.left_open)
        )
        return AgentResult(own.kind, parts, left_open)


# --- the functions of the chain ---------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Chain:
    """The parts, with the functions of an agent that ask the part of the present phase."""

    parts: tuple[AgentPart, ...]

    def at(self, phase: str) -> AgentPart | None:
        """Return the part to which a phase belongs."""
        return next((part for part in self.parts if any(part.prefix + one.name == phase for one in part.phases)), None)

    def values(self, state: JourneyState) -> Mapping[str, str]:
        part = self.at(state.phase)
        return part.agent.values(state_for(part, state)) if part else {}

    def sections(self, state: JourneyState, body: str) -> Sequence[PromptSection]:
        part = self.at(state.phase)
        return part.agent.sections(state_for(part, state), body) if part else ()

    def completes(self, state: JourneyState, work: Mapping[str, Json]) -> Mapping[str, Json]:
        part = self.at(state.phase)
        return part.agent.completes(state_for(part, state), work) if part else work

    def notes(self, phase: str, before: Json, after: Json) -> Sequence[Note]:
        part = self.at(phase)
        return part.agent.notes(phase.removeprefix(part.prefix), before, after) if part else ()

    def done(self, state: JourneyState) -> Sequence[str]:
        """Return the present part's work and the finished parts; at the end, each part's work, last part first."""
        present = self.at(state.phase)
        visited = [part for part in self.parts if part.first in state.phase_visits]
        if present:
            before = self.parts[: self.parts.index(present)]
            through = [f"{part.name} ({part.agent.title}) is through" for part in visited if part in before]
            return [*present.agent.done(state_for(present, state)), *through]
        lines = [[f"{part.name}: {line}" for line in part.agent.done(state_for(part, state))] for part in visited[::-1]]
        # One line of each part before the second line of any, because there may be no room for more.
        return [line for row in zip_longest(*lines) for line in row if line is not None]

    def documents(self, state: JourneyState) -> Mapping[str, str]:
        """Return the documents by the name of their part, and the newest document of each agent by the agent's name too."""

        def worked_at(part: AgentPart) -> int:
            works = (state.work.get(part.prefix + phase.name) for phase in part.phases)
            return max((work.seq for work in works if work), default=0)

        found: dict[str, str] = {}
        newest: dict[str, str] = {}
        # Oldest first: if an agent is in several parts, its newest document is the one under its own name.
        for part in sorted(self.parts, key=worked_at):
            for name, text in part.agent.documents(state_for(part, state)).items():
                found[part.name if name == part.agent.name else f"{part.name}.{name}"] = text
                newest[name] = text
        return {**newest, **found}

    def refuses(self, inputs: Mapping[str, Json]) -> Sequence[str]:
        return list(dict.fromkeys(text for part in self.parts for text in part.agent.refuses(inputs)))
