"""A skill, read from its file. Pure.

Nothing raises: all problems are noted together, each with its file and line, and then no skill is returned. Problems that depend
on its agents are found when it is assembled (`agents/library/skills/assembly.py`).
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from agents.engine.graph import Phase, PhaseGraph, Transition, checked
from agents.errors import BadGraph
from agents.library.skills.skill import ALL, END, LAST, Skill, SkillBlock, SkillContext, SkillPhase, SkillWay
from agents.spec.definition import NAME, PROMPTS, name_of, read_inputs
from agents.spec.problems import Problems, SpecProblem, meant, short
from agents.spec.yaml.block import read_block
from agents.spec.yaml.reader import AgentFileReading, listed
from agents.spec.yaml.values import Marked, UnreadableFile, read_marked

MOST_PHASES, MOST_WAYS = 12, 24
# A graph knows no lines, and reports its faults as sentences. These find what a fault is about, and so its line in the file.
_PHASE = re.compile(r"phase '([^']+)'")
_TRANSITION = re.compile(r"the transition (\S+) -> (\S+)")


@dataclass(frozen=True)
class SkillFile:
    """The result of reading a skill's file: its definition, or its problems."""

    name: str
    file: str
    skill: Skill | None
    problems: tuple[SpecProblem, ...]


def read_skill(
    file: str, raw: bytes, agents: Collection[str], skills: Collection[str] = (), reserved: Collection[str] = ()
) -> SkillFile:
    """Return the skill of that file, or its problems.

    `agents` are the names of those that may work in it, `skills` those of other skills, `reserved` those of built-in agents
    and skills, which it may not take.
    """
    name, problems = name_of(file), Problems(file)
    if not NAME.fullmatch(name):
        problems.add(
            1, f"a skill cannot be called {short(name)}: use lower-case letters, digits and hyphens, at most 40"
        )
    if name in PROMPTS:
        problems.add(1, f"this program already has a prompt {name!r}: give the file another name")
    elif name in reserved:
        problems.add(1, f"this program already has an agent or a skill {name!r}: give the file another name")
    elif name in agents:
        problems.add(1, f"there is already an agent {name!r}, and a skill is started like an agent: rename one of them")
    skill = None
    try:
        skill = _skill(read_marked(raw), SkillContext(name, agents, skills), problems)
    except UnreadableFile as error:
        problems.add(error.line, error.reason)
    return SkillFile(name, file, None if problems else skill, tuple(problems.in_order()))


def _skill(top: Marked, context: SkillContext, problems: Problems) -> Skill | None:
    block = read_block(SkillBlock, top, "the skill", problems, context)
    inputs = read_inputs(top, AgentFileReading(context.name, problems.file, {}, (), problems))
    items = listed(top, "phases", MOST_PHASES, problems)
    ids = _ids(items, problems)
    phases = tuple(phase for item in items if (phase := _phase(item, list(ids), context, problems)))
    ways = _ways(top, list(ids), problems)
    without = block.without_memory if block else ()
    for number, id_ in enumerate(without):
        if id_ not in (ALL, *ids):
            line = top.line_at(["without_memory", number])
            problems.add(line, f"'without_memory' names {short(id_)}, which is not a phase{meant(id_, ids)}")
    result = block.result if block else ()
    for number, id_ in enumerate(result):
        if id_ not in ids:
            line = top.line_at(["result", number])
            problems.add(
                line, f"'result' names {short(id_)}, which is not a phase{meant(id_, ids)}; name phases of the skill"
            )
    if block is None or problems or not phases:
        return None
    skill = Skill(
        name=context.name,
        file=problems.file,
        title=block.title,
        summary=" ".join(block.summary.split()),
        domain=block.domain,
        inputs=inputs,
        phases=phases,
        ways=ways,
        without_memory=frozenset(ids if ALL in without else without),
        result=result,
        closing=block.closing,
        source=top,
    )
    _reached(skill, problems)
    return skill


def _ids(items: Sequence[Marked], problems: Problems) -> Mapping[str, int]:
    """Return the ids of the phases with their lines, and note ids that are used twice."""
    ids: dict[str, int] = {}
    for item in items:
        found = item.take("id")
        if found is None or not isinstance(found.value, str):
            continue
        if found.value in ids:
            problems.add(item.line, f"there are two phases {found.value!r}, the first at line {ids[found.value]}")
        ids.setdefault(found.value, item.line)
    return ids


def _phase(item: Marked, ids: Sequence[str], context: SkillContext, problems: Problems) -> SkillPhase | None:
    found = item.take("id")
    what = f"phase {found.value!r}" if found and isinstance(found.value, str) else "a phase"
    phase = read_block(SkillPhase, item, what, problems, context)
    if phase is None:
        return None
    line = item.line_at(["context"])
    if len(phase.context) > 1 and {ALL, LAST} & set(phase.context):
        problems.add(line, f"'context' of {what} is {ALL}, {LAST} or a list of phases, not both")
    for one in phase.context:
        if one == phase.id:
            problems.add(line, f"{what} names itself in 'context': it has what it recorded itself anyway")
        elif one not in (ALL, LAST, *ids):
            hint = meant(one, [*ids, ALL, LAST])
            problems.add(line, f"'context' of {what} names {short(one)}, which is not a phase{hint}")
    line = item.line_at(["next"])
    if phase.next and phase.next not in (END, *ids):
        hint = meant(phase.next, [*ids, END])
        problems.add(line, f"{what} continues with {short(phase.next)}, which is not a phase{hint}")
    elif phase.next in ids and ids.index(phase.next) <= ids.index(phase.id):
        text = f"{what} continues with {phase.next!r}, which does not come after it: write a way back under 'ways'"
        problems.add(line, text)
    return phase


def _ways(top: Marked, ids: Sequence[str], problems: Problems) -> tuple[SkillWay, ...]:
    found = top.take("ways")
    if found is None:
        return ()
    if not isinstance(found.value, list):
        problems.add(top.line_at(["ways"]), f"'ways' must be a list, not {found.kind}")
    if len(found.items) > MOST_WAYS:
        text = f"there are {len(found.items)} ways, at most {MOST_WAYS} are allowed"
        problems.add(found.items[MOST_WAYS].line, text)
    ways: list[SkillWay] = []
    lines: dict[tuple[str, str], int] = {}
    for item in found.items[:MOST_WAYS]:
        way = read_block(SkillWay, item, "a way", problems)
        if way is None:
            continue
        _ends(way, item, ids, problems)
        first = lines.setdefault((way.source, way.name), item.line)
        if first != item.line:
            text = f"two ways out of {way.source} are called {way.name!r}, the first at line {first}"
            problems.add(item.line, text)
        ways.append(way)
    return tuple(ways)


def _ends(way: SkillWay, item: Marked, ids: Sequence[str], problems: Problems) -> None:
    """Note a transition whose phases do not exist, or whose `is_backward` disagrees with the order of the phases."""
    source, target, line = way.source, way.target, item.line_at(["to"])
    ends = ids if way.is_backward else [*ids, END]
    if source not in ids:
        problems.add(item.line_at(["from"]), f"a way leaves {short(source)}, which is not a phase{meant(source, ids)}")
    if target not in ends:
        problems.add(line, f"a way leads to {short(target)}, which is not a phase{meant(target, ends)}")
    elif target == END and way.phase:
        problems.add(line, f"a way leads to {short(way.to)}: the end has no phases")
    if source not in ids or target not in ids:
        return
    back = ids.index(target) <= ids.index(source)
    if back and not way.is_backward:
        text = f"a way leads from {source} back to {target}, which does not come after it: say `is_backward: true`"
        problems.add(line, text)
    elif way.is_backward and not back:
        problems.add(line, f"a way leads from {source} to {target}, which comes after it, so it is not backward")


def _reached(skill: Skill, problems: Problems) -> None:
    """Note phases that cannot be reached, or that cannot be left."""
    phases = {phase.id: phase for phase in skill.phases}
    transitions = [Transition(phase.id, skill.following(phase)) for phase in skill.phases]
    transitions += [
        Transition(way.source, way.target, way.name, is_backward=way.is_backward)
        for way in skill.ways
        if way.source != way.target  # running the same agent again makes nothing reachable
    ]
    nodes = (*(Phase(id_) for id_ in phases), Phase(END))
    graph = PhaseGraph(skill.name, nodes, tuple(transitions), skill.phases[0].id, (END,))
    try:
        checked(graph, [way.name for way in skill.ways], ())
    except BadGraph as error:
        for text in error.problems:
            line, named = skill.source.line, _PHASE.search(text)
            if ends := _TRANSITION.match(text):
                same = [way for way in skill.ways if (way.source, way.target) == ends.groups()]
                line = skill.line(same[0] if same else phases[ends.group(1)])
            elif named and named.group(1) in phases:
                line = skill.line(phases[named.group(1)])
            problems.add(line, text)
