"""From a skill's file to what it says. Pure.

Nothing raises: whatever is wrong is noted with its file and line, all of it at once, and then there is no skill. What only shows
when the agents are known that work in it is found when it is built (`agents/library/skills/assembly.py`).
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from agents.engine.events import Json
from agents.engine.graph import Phase, PhaseGraph, Transition, checked
from agents.errors import BadGraph
from agents.library.cognitive.model import LEAST_FOCUS, MOST_FOCUS, MOST_TERMS
from agents.library.skills.skill import END, Skill, SkillPhase, SkillWay
from agents.spec.definition import NAME, PROMPTS, name_of, read_inputs
from agents.spec.graph.transitions import CONDITION_NAME
from agents.spec.problems import Problems, SpecProblem, meant, short
from agents.spec.yaml.block import MappingReader
from agents.spec.yaml.reader import AgentFileReading, listed
from agents.spec.yaml.values import Marked, UnreadableFile, read_marked

ID = re.compile(r"[a-z][a-z0-9-]{0,29}")
ALL, LAST = "all", "last"
MOST_PHASES, MOST_WAYS = 12, 24
MOST_INSTRUCTIONS, MOST_OUTPUT, MOST_CLOSING = 600, 600, 1_600
"""Characters. The first two are told at each step of an agent, whose budget is small; more of them would be cut there."""
_PHASE = re.compile(r"phase '([^']+)'")
_TRANSITION = re.compile(r"the transition (\S+) -> (\S+)")


@dataclass(frozen=True)
class SkillFile:
    """A skill's file, read: what it says, or what is wrong with it."""

    name: str
    file: str
    skill: Skill | None
    problems: tuple[SpecProblem, ...]


def read_skill(
    file: str, raw: bytes, agents: Collection[str], skills: Collection[str] = (), reserved: Collection[str] = ()
) -> SkillFile:
    """Return the skill of that file, or what is wrong with it.

    `agents` are the names of those that may work in it, `skills` those of other skills, `reserved` those of this program's
    agents and skills, none of which it may bear.
    """
    name, problems = name_of(file), Problems(file)
    if not NAME.fullmatch(name):
        problems.add(1, f"a skill cannot be called {short(name)}: lower-case letters, digits and hyphens, at most 40")
    if name in PROMPTS:
        problems.add(1, f"there is a prompt {name!r} of this program already; give the file another name")
    elif name in reserved:
        problems.add(1, f"there is an agent or a skill {name!r} of this program already; give the file another name")
    elif name in agents:
        problems.add(1, f"there is an agent {name!r} already, and a skill is started as agents are: rename one of them")
    skill = None
    try:
        skill = _SkillReader(read_marked(raw), name, problems, agents, skills).skill()
    except UnreadableFile as error:
        problems.add(error.line, error.reason)
    return SkillFile(name, file, None if problems else skill, tuple(problems.told()))


class _SkillReader:
    """Reads one skill."""

    def __init__(
        self, marked: Marked, name: str, problems: Problems, agents: Collection[str], skills: Collection[str]
    ) -> None:
        self._name, self._problems = name, problems
        self._agents, self._skills = agents, skills
        self._top = MappingReader(marked, "the skill", problems)
        self._marked: dict[str, Marked] = {}
        """Where each phase is written, by its id."""

    def skill(self) -> Skill:
        top, problems = self._top, self._problems
        title = top.text("title", most=60, needed=True)
        summary = " ".join(top.text("summary", most=300, needed=True).split())
        domain, closing = top.text("domain", most=60), top.text("closing", most=MOST_CLOSING)
        inputs = read_inputs(top.take("inputs"), AgentFileReading(self._name, problems.file, {}, (), problems))
        without = self._without_memory()
        phases = self._followed(tuple(self._phases()))
        known = [phase.id for phase in phases]
        for id_, line in without:
            if id_ not in (ALL, *known):
                problems.add(line, f"'without_memory' names {short(id_)}, which is no phase{meant(id_, known)}")
        opted_out = {id_ for id_, _ in without}
        if ALL in opted_out:
            opted_out |= set(known)
        phases = tuple(replace(phase, memory=phase.id not in opted_out) for phase in phases)
        ways = tuple(self._ways(known))
        top.done()
        self._reached(phases, ways)
        said = top.marked.entries.get("closing")
        line = said.text_line if said else 1
        return Skill(self._name, title, summary, problems.file, domain, inputs, phases, ways, closing, line)

    def _without_memory(self) -> Sequence[tuple[str, int]]:
        return self._top.words("without_memory")

    # --- phases ---------------------------------------------------------------------------------------------------------

    def _phases(self) -> Iterator[SkillPhase]:
        for item in listed(self._top, "phases", MOST_PHASES):
            block = MappingReader(item, "a phase", self._problems)
            id_ = block.text("id", most=30, needed=True)
            block.what = f"phase {id_!r}" if id_ else "a phase"
            if id_ and (not ID.fullmatch(id_) or id_ in (END, ALL, LAST)):
                text = f"a phase cannot be called {short(id_)}: small letters, digits and hyphens, and not {END}, {ALL} or {LAST}"
                self._problems.add(block.line("id"), text)
            if id_ in self._marked:
                text = f"there are two phases {id_!r}, the first at line {self._marked[id_].line}"
                self._problems.add(item.line, text)
                continue
            phase = self._phase(block, id_)
            if id_:
                self._marked[id_] = item
                yield phase

    def _phase(self, block: MappingReader, id_: str) -> SkillPhase:
        agent = block.text("agent", most=40, needed=True)
        self._known_agent(agent, block)
        focus = self._texts(block, "focus", LEAST_FOCUS, MOST_FOCUS, 120)
        terms = self._texts(block, "terms", 1, MOST_TERMS, 60)
        context = tuple(word for word, _ in block.words("context"))
        if not context and "context" in block.marked.entries:
            text = f"'context' of {block.what} names nothing: leave it out for {ALL}, or name the phases that count"
            self._problems.add(block.line("context"), text)
        instructions = block.text("instructions", most=MOST_INSTRUCTIONS)
        output = block.text("output", most=MOST_OUTPUT)
        following = block.text("next", most=30)
        block.done()
        lines = {key: item.text_line for key in ("instructions", "output") if (item := block.marked.entries.get(key))}
        return SkillPhase(
            id_, agent, block.marked.line, focus, terms, context or (ALL,), instructions, output, following, lines=lines
        )

    def _known_agent(self, agent: str, block: MappingReader) -> None:
        if not agent or agent in self._agents:
            return
        text = f"{block.what} uses the unknown agent {short(agent)}{meant(agent, sorted(self._agents))}"
        if agent in self._skills or agent == self._name:
            text = f"{block.what} uses {short(agent)}, which is a skill: what works in a skill is an agent"
        self._problems.add(block.line("agent"), text)

    def _texts(self, block: MappingReader, key: str, least: int, most: int, chars: int) -> tuple[str, ...]:
        found = block.words(key)
        words = tuple(dict.fromkeys(" ".join(word.split()) for word, _ in found if word.strip()))
        if block.marked.entries.get(key) is not None and not least <= len(words) <= most:
            text = f"{key!r} of {block.what} has {len(words)} different entries, from {least} to {most} are taken"
            self._problems.add(block.line(key), text)
        for word, line in found:
            if len(word) > chars:
                text = f"an entry of {key!r} of {block.what} has {len(word)} characters, at most {chars} are taken"
                self._problems.add(line, text)
        return words

    def _followed(self, phases: tuple[SkillPhase, ...]) -> tuple[SkillPhase, ...]:
        """Return the phases, each with the one that follows it: the one that it names, or the next in the list."""
        known = [phase.id for phase in phases]
        following = dict(zip(known, [*known[1:], END], strict=False))
        for phase in phases:
            marked = self._marked[phase.id]
            self._known_context(phase, marked, known)
            if phase.following and phase.following not in (END, *known):
                line = marked.key_lines.get("next", marked.line)
                text = f"phase {phase.id!r} goes on to {short(phase.following)}, which is no phase"
                self._problems.add(line, text + meant(phase.following, [*known, END]))
            elif phase.following in known and known.index(phase.following) <= known.index(phase.id):
                line = marked.key_lines.get("next", marked.line)
                text = f"phase {phase.id!r} goes on to {phase.following!r}, which does not come after it: a way back is one of 'ways'"
                self._problems.add(line, text)
        return tuple(replace(phase, following=phase.following or following[phase.id]) for phase in phases)

    def _known_context(self, phase: SkillPhase, marked: Marked, known: Sequence[str]) -> None:
        line = marked.key_lines.get("context", marked.line)
        if len(phase.context) > 1 and {ALL, LAST} & set(phase.context):
            text = f"'context' of phase {phase.id!r} is {ALL}, {LAST} or a list of phases, not both"
            self._problems.add(line, text)
        for id_ in phase.context:
            if id_ == phase.id:
                text = f"phase {phase.id!r} names itself in 'context': what it recorded itself it has anyway"
                self._problems.add(line, text)
            elif id_ not in (ALL, LAST, *known):
                text = f"'context' of phase {phase.id!r} names {short(id_)}, which is no phase{meant(id_, [*known, ALL, LAST])}"
                self._problems.add(line, text)

    # --- ways -----------------------------------------------------------------------------------------------------------

    def _ways(self, known: Sequence[str]) -> Iterator[SkillWay]:
        found = self._top.take("ways")
        if found is not None and not isinstance(found.value, list):
            self._problems.add(self._top.line("ways"), f"'ways' must be a list, not {found.kind}")
        items = found.items if found is not None else ()
        if len(items) > MOST_WAYS:
            self._problems.add(items[MOST_WAYS].line, f"there are {len(items)} ways, at most {MOST_WAYS} are taken")
        names: dict[tuple[str, str], int] = {}
        for item in items[:MOST_WAYS]:
            way = self._way(item, known)
            if way is None:
                continue
            if (way.source, way.name) in names:
                text = f"two ways out of {way.source} are called {way.name!r}, the first at line {names[way.source, way.name]}"
                self._problems.add(item.line, text)
                continue
            names[way.source, way.name] = item.line
            yield way

    def _way(self, item: Marked, known: Sequence[str]) -> SkillWay | None:
        block = MappingReader(item, "a way", self._problems)
        source, to = block.text("from", most=30, needed=True), block.text("to", most=80, needed=True)
        name, when = block.text("name", most=60, needed=True), block.take("when", needed=True)
        backward = block.flag("is_backward")
        priority = block.number("priority", least=-100, most=100, usual=0)
        block.done()
        target, _, phase = to.partition(".")
        if name and not CONDITION_NAME.fullmatch(name):
            text = f"a way cannot be called {short(name)}: small letters, digits and underscores"
            self._problems.add(block.line("name"), text)
        if source and source not in known:
            text = f"a way leaves {short(source)}, which is no phase{meant(source, known)}"
            self._problems.add(block.line("from"), text)
        ends = () if backward else (END,)
        if target and target not in (*known, *ends):
            text = f"a way leads to {short(target)}, which is no phase{meant(target, [*known, *ends])}"
            self._problems.add(block.line("to"), text)
        if target == END and phase:
            self._problems.add(block.line("to"), f"a way leads to {short(to)}: the end has no phases")
        if source in known and target in known:
            self._directed(source, target, known, backward=backward, line=block.line("to"))
        if when is None or not (source and to and name):
            return None
        return SkillWay(source, target, phase, name, when, item.line, block.line("to"), backward, priority)

    def _directed(self, source: str, target: str, known: Sequence[str], *, backward: bool, line: int) -> None:
        """Note a way that leads back and does not say so, or says so and leads forward: the order of the list counts."""
        back = known.index(target) <= known.index(source)
        if back and not backward:
            text = f"a way leads from {source} back to {target}, which does not come after it: say `is_backward: true`"
            self._problems.add(line, text)
        elif backward and not back:
            text = f"a way leads from {source} to {target}, which comes after it: it is no way back (is_backward)"
            self._problems.add(line, text)

    # --- the graph ------------------------------------------------------------------------------------------------------

    def _reached(self, phases: Sequence[SkillPhase], ways: Sequence[SkillWay]) -> None:
        """Note phases that no way leads to, or that no way leads on from. Where names are wrong nothing can be said of ways."""
        if self._problems or not phases:
            return
        transitions = [Transition(phase.id, phase.following) for phase in phases]
        transitions += [
            Transition(way.source, way.target, way.name, is_backward=way.is_backward)
            for way in ways
            if way.source != way.target  # the same agent once more
        ]
        nodes = (*(Phase(phase.id) for phase in phases), Phase(END))
        try:
            checked(
                PhaseGraph(self._name, nodes, tuple(transitions), phases[0].id, (END,)), [way.name for way in ways], ()
            )
        except BadGraph as error:
            for text in error.problems:
                self._problems.add(self._line_of(text, ways), text)

    def _line_of(self, text: str, ways: Sequence[SkillWay]) -> int:
        if (ends := _TRANSITION.match(text)) is not None:
            source, target = ends.groups()
            there = [way.line for way in ways if (way.source, way.target) == (source, target)]
            return there[0] if there else self._marked[source].line
        named = _PHASE.search(text)
        return self._marked[named.group(1)].line if named and named.group(1) in self._marked else self._top.line()


def inputs_told(skill: Skill) -> Mapping[str, str]:
    """Return what the skill's file itself says that it takes beside the brief, and what each is."""
    properties: Mapping[str, Json] = skill.inputs.get("properties", {})
    return {name: str(form.get("description", "")) for name, form in properties.items() if isinstance(form, dict)}
