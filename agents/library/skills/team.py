"""A team's skills: read when their files change, and built into agents when first started."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from agents.catalogue import cognitive_entries, main_entries, skill_entries
from agents.engine.agent import Agent
from agents.errors import NoSuchAgent
from agents.library.skills.definition import SkillFile, read_skill
from agents.library.skills.skill import Skill
from agents.spec.definition import Definition, name_of
from agents.spec.files import SKILLS
from agents.spec.problems import SpecProblem

MOST_SKILLS = 50
SUFFIXES = (".yaml", ".yml")
Sources = tuple[bytes, frozenset[str], frozenset[str]]
"""A file is read again when one of these changes: its bytes, the names of agents, or those of skills."""


def is_skill(path: str) -> bool:
    """Return whether the file is a skill, directly in `_skills/`."""
    return path.startswith(f"{SKILLS}/") and path.endswith(SUFFIXES) and path.count("/") == 1


class TeamSkills:
    """The skills below `_skills/`.

    Reading one does not load the agents that work in it. Problems that depend on them are found when it is built into an agent; it
    then counts as broken until one of the files changes.
    """

    def __init__(self, tools: Collection[str], reserved: Collection[str]) -> None:
        self._tools, self._reserved = tools, reserved
        self._read: dict[str, tuple[Sources, SkillFile]] = {}
        self._made: dict[str, tuple[SkillFile, Sequence[object], Agent | None, tuple[SpecProblem, ...]]] = {}
        self._problems: tuple[SpecProblem, ...] = ()

    def look(self, contents: Mapping[str, bytes], agents: Collection[str]) -> None:
        """Read again each file that changed or depends on a change. `agents` are the names of the team's own agents."""
        files = sorted(path for path in contents if is_skill(path))
        problems = [
            SpecProblem(file, 1, f"there are more than {MOST_SKILLS} skills; this one is left out")
            for file in files[MOST_SKILLS:]
        ]
        names: dict[str, str] = {}
        found: dict[str, tuple[Sources, SkillFile]] = {}
        # A new or removed agent may mend or break a skill whose own file did not change.
        working = frozenset((*(entry.name for entry in (*main_entries(), *cognitive_entries())), *agents))
        skills = frozenset((*(entry.name for entry in skill_entries()), *map(name_of, files)))
        for file in files[:MOST_SKILLS]:
            name = name_of(file)
            if name in names:
                text = f"there is a skill {name!r} in {names[name]} already; give one of them another name"
                problems.append(SpecProblem(file, 1, text))
                continue
            names[name], sources = file, (contents[file], working, skills)
            known = self._read.get(file)
            if known is None or known[0] != sources:
                known = (sources, read_skill(file, contents[file], working, skills, self._reserved))
            found[file] = known
        self._read, self._problems = found, tuple(problems)

    def skills(self, definitions: Collection[Definition]) -> Sequence[Skill]:
        """Return the skills without known problems, by name, without building them into agents."""
        broken = {definition.name for definition in definitions if definition.agent is None}
        read = [one for _, one in self._read.values() if not self._found_broken(one)]
        skills = [one.skill for one in read if one.skill and not broken & set(one.skill.agents)]
        return sorted(skills, key=lambda skill: skill.name)

    def agent(self, name: str, definitions: Collection[Definition]) -> Agent | None:
        """Return the skill of that name as an agent; None if it is missing or broken.

        `definitions` are of the team's agents.
        """
        read = next((one for _, one in self._read.values() if one.name == name), None)
        return self._led(read, definitions)[0] if read else None

    def problems(self, definitions: Collection[Definition]) -> Mapping[str, Sequence[SpecProblem]]:
        """Return the problems of skills by file; a file without problems has an empty list."""
        found: dict[str, list[SpecProblem]] = {}
        for file, (_, read) in sorted(self._read.items()):
            found[file] = list(self._led(read, definitions)[1])
        for problem in self._problems:
            found.setdefault(problem.file, []).append(problem)
        return found

    def _found_broken(self, read: SkillFile) -> bool:
        made = self._made.get(read.file)
        return made is not None and made[0] is read and made[2] is None

    def _led(
        self, read: SkillFile, definitions: Collection[Definition]
    ) -> tuple[Agent | None, tuple[SpecProblem, ...]]:
        """Return the skill as an agent, or its problems. It is rebuilt when one of its agents changes."""
        skill = read.skill
        if skill is None:
            return None, read.problems
        from agents.library.skills.assembly import Worker, built
        from agents.library.skills.library import following, worker

        team = {definition.name: definition for definition in definitions}
        workers: dict[str, Worker] = {}
        problems = []
        for phase in skill.phases:
            own = team.get(phase.agent)
            try:
                workers[phase.agent] = own.agent if own and own.agent else worker(phase.agent)
            except NoSuchAgent as error:
                why = f"{own.problems[0]}" if own and own.problems else str(error)
                text = f"phase {phase.id!r} uses the agent {phase.agent!r}, which cannot be used: {why}"
                problems.append(SpecProblem(read.file, skill.line(phase), text))
        if problems:
            return None, tuple(problems)
        last = following()
        at_work: Sequence[object] = [last, *(workers[name] for name in skill.agents)]
        known = self._made.get(read.file)
        if known and known[0] is read and _same(known[1], at_work):
            return known[2], known[3]
        made = built(skill, workers, last, self._tools)
        self._made[read.file] = (read, at_work, made.agent, made.problems)
        return made.agent, made.problems


def _same(one: Sequence[object], other: Sequence[object]) -> bool:
    # By identity: an agent is made once for each version of its file, and comparing whole graphs takes long.
    return len(one) == len(other) and all(a is b for a, b in zip(one, other, strict=True))
