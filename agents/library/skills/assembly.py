"""From what a skill says to an agent that is led like any other: the agents that work in it, each in its place. Pure."""

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
from agents.library.skills.definition import ALL, LAST
from agents.library.skills.skill import COMPLETE, END, Skill, SkillPhase, SkillWay
from agents.prompts.prompt import COMMON, PLACEHOLDER
from agents.spec.predicates.conditions import FieldLook, read_condition
from agents.spec.problems import Problems, SpecProblem, meant, short
from agents.spec.schema.json_schema import described

CLOSED = "complete"
"""The name of the text that is told when the skill is complete."""
CLOSING_TEXT = """\
Tell the person in a few sentences what came of it, what is open, and where the results are: the memory documents of the phases are
at memory://{task}/{agent}, and journey_status(view="report") tells the whole way."""
Worker = Agent | Cognitive
"""What may work in a skill: a cognitive agent, which is told where it is, or any other, as it is."""


@dataclass(frozen=True)
class Built:
    """A skill as an agent, or what is wrong with it."""

    agent: Agent | None
    problems: tuple[SpecProblem, ...]


def built(skill: Skill, workers: Mapping[str, Worker], following: Cognitive | None, tools: Collection[str]) -> Built:
    """Return the skill as an agent, or what is wrong with it.

    `workers` has those that work in it, by name; `following` is the agent that runs after every other, if there is one. `tools`
    are the names of those that there are.
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
            self._free_to_close(phase)
        parts = [part for phase in skill.phases for part in self._parts(phase)]
        links = [link for way in skill.ways if (link := self._link(way, parts)) is not None]
        self._inputs_of_one_kind(parts)
        if self._problems:
            return self._failed()
        agent = composed(
            skill.name,
            skill.title,
            skill.summary,
            parts,
            Phase(COMPLETE, title="Complete", purpose="what is left to tell", prompt=CLOSED),
            links=links,
            texts={CLOSED: skill.closing or CLOSING_TEXT},
            origin=skill.file,
        )
        agent = replace(agent, inputs=_joined(skill.inputs, agent.inputs))
        self._placeholders(agent.inputs)
        try:
            # Agents are checked where they are read, and may name tools of a connector that is not there: a phase then has fewer.
            checked(agent.graph, [*agent.conditions, REJECTED], _tools_of(agent))
        except BadGraph as error:
            for text in error.problems:
                self._problems.add(1, text)
        return self._failed() if self._problems else Built(agent, ())

    def _failed(self) -> Built:
        return Built(None, tuple(self._problems.told()))

    # --- parts ----------------------------------------------------------------------------------------------------------

    def _parts(self, phase: SkillPhase) -> Iterator[AgentPart]:
        """Yield the phase's agent, and after it the one that runs after every other."""
        onward = COMPLETE if phase.following == END else f"{phase.following}."
        after = self._after(phase)
        yield AgentPart(_prefix(phase), self._worker(phase), f"{_prefix(phase)}{after.name}." if after else onward)
        if after:
            yield AgentPart(
                f"{_prefix(phase)}{after.name}.", as_agent(after, self._setting_after(phase, after)), onward
            )

    def _free_to_close(self, phase: SkillPhase) -> None:
        """Note an agent that has a phase of the name under which all leave their documents."""
        worker = self._workers[phase.agent]
        if isinstance(worker, Agent) and CLOSING in {one.name for one in worker.graph.phases}:
            text = f"phase {phase.id!r} uses the agent {phase.agent!r}, which has a phase {CLOSING} of its own: give that another name"
            self._problems.add(phase.line, text)

    def _after(self, phase: SkillPhase) -> Cognitive | None:
        """Return the agent that runs after every other, if it runs after this one: never after itself."""
        return self._following if self._following and phase.memory and phase.agent != self._following.name else None

    def _worker(self, phase: SkillPhase) -> Agent:
        worker, setting = self._workers[phase.agent], self._setting(phase)
        return as_agent(worker, setting) if isinstance(worker, Cognitive) else seated(worker, setting)

    def _setting(self, phase: SkillPhase) -> PhaseSetting:
        skill = self._skill
        pattern: Pattern = "last" if phase.context == (LAST,) else "all" if phase.context == (ALL,) else "named"
        others = [one for one in skill.phases if one.id != phase.id and (pattern != "named" or one.id in phase.context)]
        return PhaseSetting(
            skill=skill.name,
            title=skill.title,
            phase=phase.id,
            domain=skill.domain,
            predecessors=tuple(_predecessor(one) for one in others),
            pattern=pattern,
            earlier=tuple(_prefix(one) for one in skill.phases if one.agent == phase.agent and one.id != phase.id),
            focus=phase.focus,
            terms=phase.terms,
            instructions=phase.instructions,
            output=phase.output,
            agent_mode=True,
        )

    def _setting_after(self, phase: SkillPhase, after: Cognitive) -> PhaseSetting:
        """Return where the agent that follows a phase is at work: it has the memory document of that phase alone."""
        skill = self._skill
        others = [one for one in skill.phases if one.id != phase.id and self._after(one)]
        return PhaseSetting(
            skill=skill.name,
            title=skill.title,
            phase=f"{phase.id}.{after.name}",
            domain=skill.domain,
            predecessors=(_predecessor(phase),),
            pattern="last",
            earlier=tuple(f"{_prefix(one)}{after.name}." for one in others),
            agent_mode=True,
        )

    # --- ways -----------------------------------------------------------------------------------------------------------

    def _link(self, way: SkillWay, parts: Sequence[AgentPart]) -> PartLink | None:
        source = self._skill.phase(way.source)
        there = {part.prefix: part.agent for part in parts}
        after = self._after(source)
        condition = read_condition(
            way.name,
            way.when,
            [phase.name for phase in there[_prefix(source)].graph.phases],
            self._tools,
            self._problems,
        )
        for looked in condition.looked if condition else ():
            self._look(way, looked, there[_prefix(source)])
        target = COMPLETE if way.target == END else f"{way.target}.{way.phase}"
        if way.phase:
            self._phase_of(way, there[f"{way.target}."])
        if condition is None:
            return None
        return PartLink(
            source=f"{_prefix(source)}{after.name}." if after else _prefix(source),
            target=target,
            name=way.name,
            condition=condition.condition,
            is_backward=way.is_backward,
            priority=way.priority,
            looks=_prefix(source),
        )

    def _phase_of(self, way: SkillWay, agent: Agent) -> None:
        names = [phase.name for phase in agent.graph.phases if phase.name not in agent.graph.complete]
        if way.phase not in names:
            text = f"a way leads to {short(f'{way.target}.{way.phase}')}; {agent.name} has no such phase{meant(way.phase, names)}"
            self._problems.add(way.to_line, text)

    def _look(self, way: SkillWay, looked: FieldLook, agent: Agent) -> None:
        """Note a field at which a condition looks though no work of that agent has it: it could never be met."""
        what = f"the way {way.name!r} looks at {short(str(looked.path))}"
        if not looked.path.phase or looked.own:
            names = ", ".join(agent.forms)
            text = f"{what}; when {way.source} is through, no work is at hand but what is recorded: write PHASE.field ({names})"
            self._problems.add(looked.line, text)
            return
        form = agent.forms.get(looked.path.phase)
        if form is None:
            self._problems.add(looked.line, f"{what}, but {looked.path.phase} takes no work")
            return
        for parts in [looked.path.parts, *((*looked.path.parts, *inner.split(".")) for inner in looked.inside)]:
            if (lacking := described(form.schema, parts)) is not None:
                text = f"{what}; the work of {looked.path.phase} has no {short(lacking[0])} there{meant(*lacking)}"
                self._problems.add(looked.line, text)
                return

    # --- what it takes --------------------------------------------------------------------------------------------------

    def _inputs_of_one_kind(self, parts: Sequence[AgentPart]) -> None:
        """Note inputs by which two agents, or the skill and an agent, mean something else."""
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
        """Note placeholders in what phases are told that nothing stands for."""
        known = ["brief", *(f"inputs.{name}" for name in inputs.get("properties", {}))]
        for phase in self._skill.phases:
            for key, text in (("instructions", phase.instructions), ("output", phase.output)):
                self._known_in(text, known, f"{key!r} of phase {phase.id!r}", phase.lines.get(key, phase.line))
        self._known_in(
            self._skill.closing, [*known, *sorted(COMMON - {"brief"})], "'closing'", self._skill.closing_line
        )

    def _known_in(self, text: str, known: Sequence[str], whose: str, line: int) -> None:
        for found in PLACEHOLDER.finditer(text):
            if (name := found.group(1)) not in known:
                what = f"{whose} has the unknown placeholder {short(name)}{meant(name, known)}"
                self._problems.add(line + text[: found.start()].count("\n"), what)


def _tools_of(agent: Agent) -> set[str]:
    return {tool for phase in agent.graph.phases for tool in phase.tools}


def _prefix(phase: SkillPhase) -> str:
    return f"{phase.id}."


def _predecessor(phase: SkillPhase) -> Predecessor:
    return Predecessor(phase.agent, phase.id, f"{_prefix(phase)}{CLOSING}")


def _kind(form: Json) -> Json:
    """Return what kind of value an input is, however long it may be and whatever is said about it."""
    return [form.get("type"), _kind(form.get("items"))] if isinstance(form, dict) else None


def _joined(own: Mapping[str, Json], others: Mapping[str, Json]) -> Mapping[str, Json]:
    """Return the inputs of the skill with those of its agents; what the skill itself says of one counts."""
    properties = {**own.get("properties", {}), **others.get("properties", {}), **own.get("properties", {})}
    required = list(dict.fromkeys([*own.get("required", ()), *others.get("required", ())]))
    if not properties:
        return {}
    return {**others, **own, "type": "object", "properties": properties, **({"required": required} if required else {})}
