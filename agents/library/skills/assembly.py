"""A skill as an agent like any other: the agents that work in it, each in its place. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from agents.engine.agent import Agent
from agents.engine.decide import REJECTED
from agents.engine.events import Json
from agents.engine.graph import Phase, checked
from agents.engine.progress.composition import AgentPart, PartLink, composed
from agents.errors import BadGraph
from agents.library.cognitive.agent import as_agent
from agents.library.cognitive.model import CLOSING, Cognitive
from agents.library.cognitive.setting import Pattern, PhaseSetting, Predecessor
from agents.library.skills.adapter import seated
from agents.library.skills.skill import ALL, COMPLETE, END, LAST, Skill, SkillPhase, SkillWay
from agents.prompts.prompt import COMMON, PLACEHOLDER
from agents.spec.predicates.conditions import FieldLook, read_condition
from agents.spec.problems import Problems, SpecProblem, meant, short
from agents.spec.schema.json_schema import described

CLOSED = "complete"
"""The name of the text for when the skill is complete."""
CLOSING_TEXT = """\
Tell the person in a few sentences what came of it, what is open, and where the results are: the memory documents of the phases are
at memory://{task}/{agent}, and journey_status(view="report") has every step."""
Worker = Agent | Cognitive
"""An agent that can work in a skill: a cognitive agent, which adapts to its place itself, or any other agent."""


@dataclass(frozen=True)
class Built:
    """A skill as an agent, or its problems."""

    agent: Agent | None
    problems: tuple[SpecProblem, ...]


def built(skill: Skill, workers: Mapping[str, Worker], following: Cognitive | None, tools: Collection[str]) -> Built:
    """Return the skill as an agent, or its problems.

    `workers` are the agents that work in it, by name; `following` is the agent that runs after every other, if there is one.
    `tools` are the names of all tools.
    """
    return _SkillBuilder(skill, workers, following, tools).built()


class _SkillBuilder:
    """Builds one skill."""

    def __init__(
        self, skill: Skill, workers: Mapping[str, Worker], following: Cognitive | None, tools: Collection[str]
    ) -> None:
        self._skill, self._workers, self._following, self._tools = skill, workers, following, tools
        self._problems = Problems(skill.file)

    def built(self) -> Built:
        skill = self._skill
        for phase in skill.phases:
            worker = self._workers[phase.agent]
            if isinstance(worker, Agent) and CLOSING in {one.name for one in worker.graph.phases}:
                text = (
                    f"phase {phase.id!r} uses the agent {phase.agent!r}, which has a phase {CLOSING}: every agent of a skill gets "
                    "a phase of that name, so rename it"
                )
                self._problems.add(skill.line(phase), text)
        parts = [part for phase in skill.phases for part in self._parts(phase)]
        links = [link for way in skill.ways if (link := self._link(way, parts)) is not None]
        self._inputs_of_one_kind(parts)
        agent = None
        if not self._problems:
            agent = composed(
                skill.name,
                skill.title,
                skill.summary,
                parts,
                Phase(COMPLETE, title="Complete", purpose="tell the person the result", prompt=CLOSED),
                links=links,
                texts={CLOSED: skill.closing or CLOSING_TEXT},
                origin=skill.file,
                results=[f"{id_}." for id_ in skill.result],
            )
            agent = replace(agent, inputs=_joined(skill.inputs, agent.inputs))
            self._placeholders(agent.inputs)
            # The tools were checked when the agents were read: an agent may name tools of a connector that is not configured.
            tools = {tool for phase in agent.graph.phases for tool in phase.tools}
            try:
                checked(agent.graph, [*agent.conditions, REJECTED], tools)
            except BadGraph as error:
                for text in error.problems:
                    self._problems.add(1, text)
        return Built(None if self._problems else agent, tuple(self._problems.in_order()))

    # --- parts ----------------------------------------------------------------------------------------------------------

    def _parts(self, phase: SkillPhase) -> Iterator[AgentPart]:
        """Yield the phase's agent, and after it the one that runs after every other."""
        following = self._skill.following(phase)
        onward = COMPLETE if following == END else f"{following}."
        after, worker, setting = self._after(phase), self._workers[phase.agent], self._setting(phase)
        agent = as_agent(worker, setting) if isinstance(worker, Cognitive) else seated(worker, setting)
        if after is None:
            yield AgentPart(phase.prefix, agent, onward)
            return
        prefix = f"{phase.prefix}{after.name}."
        yield AgentPart(phase.prefix, agent, prefix)
        others = [one for one in self._skill.phases if one.id != phase.id and self._after(one)]
        setting = PhaseSetting(
            skill=self._skill.name,
            title=self._skill.title,
            phase=f"{phase.id}.{after.name}",
            domain=self._skill.domain,
            # It gets the memory document of the phase that it follows, and no other.
            predecessors=(_predecessor(phase),),
            pattern="last",
            earlier=tuple(f"{one.prefix}{after.name}." for one in others),
            agent_mode=True,
            looks_back=True,
        )
        yield AgentPart(prefix, as_agent(after, setting), onward, aside=True)

    def _after(self, phase: SkillPhase) -> Cognitive | None:
        """Return the agent that runs after every other, if it runs after this one. It never runs after itself."""
        after = self._following
        return after if after and phase.id not in self._skill.without_memory and phase.agent != after.name else None

    def _setting(self, phase: SkillPhase) -> PhaseSetting:
        skill = self._skill
        patterns: Mapping[tuple[str, ...], Pattern] = {(LAST,): "last", (ALL,): "all"}
        pattern = patterns.get(phase.context, "named")
        others = [one for one in skill.phases if one.id != phase.id and (pattern != "named" or one.id in phase.context)]
        return PhaseSetting(
            skill=skill.name,
            title=skill.title,
            phase=phase.id,
            domain=skill.domain,
            predecessors=tuple(_predecessor(one) for one in others),
            pattern=pattern,
            earlier=tuple(one.prefix for one in skill.phases if one.agent == phase.agent and one.id != phase.id),
            focus=phase.focus,
            terms=phase.terms,
            instructions=phase.instructions,
            output=phase.output,
            agent_mode=True,
        )

    # --- transitions ----------------------------------------------------------------------------------------------------

    def _link(self, way: SkillWay, parts: Sequence[AgentPart]) -> PartLink | None:
        source = next(phase for phase in self._skill.phases if phase.id == way.source)
        agents = {part.prefix: part.agent for part in parts}
        own, after = agents[source.prefix], self._after(source)
        phases = [phase.name for phase in own.graph.phases]
        condition = read_condition(way.name, self._skill.condition(way), phases, self._tools, self._problems)
        for looked in condition.looked if condition else ():
            self._look(way, looked, own)
        if way.phase:
            agent = agents[f"{way.target}."]
            names = [phase.name for phase in agent.graph.phases if phase.name not in agent.graph.complete]
            if way.phase not in names:
                text = f"a way leads to {short(way.to)}; {agent.name} has no such phase{meant(way.phase, names)}"
                self._problems.add(self._skill.line(way, "to"), text)
        if condition is None:
            return None
        return PartLink(
            # The way begins after the memory agent, but its condition judges the agent before it (`looks`).
            source=f"{source.prefix}{after.name}." if after else source.prefix,
            target=COMPLETE if way.target == END else f"{way.target}.{way.phase}",
            name=way.name,
            condition=condition.condition,
            is_backward=way.is_backward,
            priority=way.priority,
            looks=source.prefix,
        )

    def _look(self, way: SkillWay, looked: FieldLook, agent: Agent) -> None:
        """Note a field that no work of that agent has: a condition on it could never be met."""
        what, form = f"the way {way.name!r} looks at {short(str(looked.path))}", agent.forms.get(looked.path.phase)
        if not looked.path.phase or looked.own:
            text = f"{what}; when {way.source} is complete there are only recorded works: write PHASE.field"
            self._problems.add(looked.line, f"{text} ({', '.join(agent.forms)})")
        elif form is None:
            self._problems.add(looked.line, f"{what}, but {looked.path.phase} takes no work")
        else:
            for parts in looked.all_parts():
                if (lacking := described(form.schema, parts)) is not None:
                    text = f"{what}; the work of {looked.path.phase} has no {short(lacking[0])} there{meant(*lacking)}"
                    self._problems.add(looked.line, text)
                    return

    # --- inputs ---------------------------------------------------------------------------------------------------------

    def _inputs_of_one_kind(self, parts: Sequence[AgentPart]) -> None:
        """Note each input that has different types for two agents, or for an agent and the skill."""
        known: dict[str, tuple[str, Json]] = {
            name: ("the skill", _kind(form)) for name, form in self._skill.inputs.get("properties", {}).items()
        }
        for part in parts:
            for name, form in part.agent.inputs.get("properties", {}).items():
                whose, kind = known.setdefault(name, (part.agent.name, _kind(form)))
                if kind != _kind(form):
                    text = f"the input {name!r} of {part.agent.name} is of another kind than that of {whose}: they cannot share it"
                    self._problems.add(1, text)

    def _placeholders(self, inputs: Mapping[str, Json]) -> None:
        """Note placeholders that nothing fills in."""
        skill, known = self._skill, ["brief", *(f"inputs.{name}" for name in inputs.get("properties", {}))]
        texts = [
            (text, f"{key!r} of phase {phase.id!r}", skill.text_line(key, phase), known)
            for phase in skill.phases
            for key, text in (("instructions", phase.instructions), ("output", phase.output))
        ]
        texts.append((skill.closing, "'closing'", skill.text_line("closing"), [*known, *sorted(COMMON - {"brief"})]))
        for text, whose, line, names in texts:
            for found in PLACEHOLDER.finditer(text):
                if (name := found.group(1)) not in names:
                    what = f"{whose} has the unknown placeholder {short(name)}{meant(name, names)}"
                    self._problems.add(line + text[: found.start()].count("\n"), what)


def _predecessor(phase: SkillPhase) -> Predecessor:
    return Predecessor(phase.agent, phase.id, f"{phase.prefix}{CLOSING}")


def _kind(form: Json) -> Json:
    """Return the type of an input, without its limits and description."""
    return [form.get("type"), _kind(form.get("items"))] if isinstance(form, dict) else None


def _joined(own: Mapping[str, Json], others: Mapping[str, Json]) -> Mapping[str, Json]:
    """Return the inputs of the skill with those of its agents; the skill's own declaration of an input takes precedence."""
    # Twice: the first puts the skill's inputs first in the list, the second lets its declarations win.
    properties = {**own.get("properties", {}), **others.get("properties", {}), **own.get("properties", {})}
    required = list(dict.fromkeys([*own.get("required", ()), *others.get("required", ())]))
    if not properties:
        return {}
    return {**others, **own, "type": "object", "properties": properties, **({"required": required} if required else {})}
