"""Built-in agents together with the team's agents and skills, which are read again when their files change."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING

import anyio
import anyio.to_thread

from agents.catalogue import AgentListing, Catalogue, entries, no_such_agent
from agents.engine.agent import Agent
from agents.errors import NoSuchAgent
from agents.spec.files import FOLDER, FOLDERS, MOST_FILES, AgentFiles, ListedFile
from agents.spec.problems import SpecProblem
from agents.spec.yaml.values import MOST_BYTES
from knowledge.errors import KnowledgeError

if TYPE_CHECKING:
    from agents.library.skills.skill import Skill
    from agents.library.skills.team import TeamSkills
    from agents.spec.definition import Definition

MOST_AGENTS = 50
LOOK_EVERY_S = 1.0
RESERVED = frozenset(entry.name for entry in entries())


@dataclass
class _LastLook:
    """The files and agents as they were found last."""

    stamps: Mapping[str, str] = field(default_factory=dict)
    contents: dict[str, bytes] = field(default_factory=dict)
    definitions: dict[str, Definition] = field(default_factory=dict)
    problems: tuple[SpecProblem, ...] = ()


class TeamCatalogue:
    """Built-in agents and those of the team, including its skills.

    `beside` has the built-in agents, whose names are `reserved`; `tools` are the names of all tools; `clock` returns seconds. Files
    are checked at most once in `every_s`, and only agents whose files changed are read again. An agent with a broken file is
    missing until the file is corrected; its journeys stay on record. A skill becomes an agent when it is first used.
    """

    def __init__(
        self,
        beside: Catalogue,
        files: AgentFiles,
        tools: Collection[str],
        *,
        clock: Callable[[], float],
        reserved: Collection[str] = RESERVED,
        every_s: float = LOOK_EVERY_S,
    ) -> None:
        self._beside, self._files, self._tools = beside, files, tools
        self._clock, self._reserved, self._every_s = clock, reserved, every_s
        self._known = _LastLook()
        self._looked_at: float | None = None
        self._looking = anyio.Lock()

    @cached_property
    def _team_skills(self) -> TeamSkills:
        from agents.library.skills.team import TeamSkills  # 4 MB, which a team without agents does not need

        return TeamSkills(self._tools, self._reserved)

    def _skills(self) -> Sequence[Skill]:
        """Return the skills without known problems, by name."""
        return self._team_skills.skills(self.definitions) if self._known.contents else ()

    def _skill(self, name: str) -> Agent | None:
        """Return the skill of that name as an agent; None if it is missing or broken."""
        return self._team_skills.agent(name, self.definitions) if self._known.contents else None

    async def agents(self) -> Sequence[Agent]:
        """Return all agents: the built-in ones, then the team's by name, then its skills."""
        known = await self._fresh()
        own = [definition.agent for _, definition in sorted(known.definitions.items()) if definition.agent]
        led = [self._skill(skill.name) for skill in self._skills()]
        return [*await self._beside.agents(), *own, *(skill for skill in led if skill)]

    async def agent(self, name: str) -> Agent:
        """Return the agent of that name.

        Raises:
            NoSuchAgent: there is no such agent, or its file is broken, which the message then explains.
        """
        if name in self._reserved:
            return await self._beside.agent(name)
        known = await self._fresh()
        team = {definition.name: definition.agent for definition in known.definitions.values() if definition.agent}
        found = team.get(name) or self._skill(name)
        if found:
            return found
        broken = self._broken(name)
        if broken:
            more = f" (and {len(broken) - 1} more; `knowledge-forge agents check` lists all)" if len(broken) > 1 else ""
            raise NoSuchAgent(name, f"its definition cannot be used: {broken[0]}{more}")
        raise no_such_agent(name, [*sorted(self._reserved), *(line.name for line in await self.team())])

    def _broken(self, name: str) -> Sequence[SpecProblem]:
        """Return the problems of the agent of that name, if it is one of the team's."""
        from agents.spec.definition import name_of  # loads the reader of agents, as `_defined` does

        for definition in self._known.definitions.values():
            if definition.name == name:
                return definition.problems
        of_skills = self._team_skills.problems(self.definitions)
        wrong = [*self._known.problems, *(problem for found in of_skills.values() for problem in found)]
        # A problem of the folder itself may be why any agent of the team is missing.
        return [problem for problem in wrong if problem.file == FOLDER or name_of(problem.file) == name]

    async def team(self) -> Sequence[AgentListing]:
        """Return the team's agents that can be used, by name, and its skills, as lists show them.

        No built-in agent is loaded for that. So a skill is listed although an agent that it works with may turn out to be
        broken.
        """
        known = await self._fresh()
        own = [definition.agent for _, definition in sorted(known.definitions.items()) if definition.agent]
        return [*own, *self._skills()]

    @property
    def definitions(self) -> Sequence[Definition]:
        """The agents' definitions as they were read last, by file."""
        return [definition for _, definition in sorted(self._known.definitions.items())]

    async def skills(self) -> Mapping[str, Sequence[SpecProblem]]:
        """Return the problems of each file with a skill. This loads the agents that the skills work with."""
        await self._fresh()
        return self._team_skills.problems(self.definitions)

    async def rules(self) -> Mapping[str, Sequence[SpecProblem]]:
        """Return the problems of the file with the team's plan rules; nothing if there is no such file."""
        from agents.library.orchestrate.plan_rules.rules import (  # loads the reader of rules, which a list of agents does not need
            TEAM_FILE,
            rules_in,
        )

        raw = (await self._fresh()).contents.get(TEAM_FILE)
        return {} if raw is None else {TEAM_FILE: rules_in(raw, TEAM_FILE)[1]}

    async def problems(self) -> Sequence[SpecProblem]:
        """Return all problems of the team's agents and skills, by file and line."""
        known = await self._fresh()
        return (*known.problems, *(problem for found in (await self.skills()).values() for problem in found))

    async def all_problems(self) -> Sequence[SpecProblem]:
        """Return all problems of the team's agents, skills and plan rules."""
        return (*await self.problems(), *(problem for found in (await self.rules()).values() for problem in found))

    async def _fresh(self) -> _LastLook:
        async with self._looking:
            now = self._clock()
            if self._looked_at is None or now - self._looked_at >= self._every_s:
                await self._look()
                self._looked_at = self._clock()
        return self._known

    async def _look(self) -> None:
        try:
            listed = await self._files.list()
        except (KnowledgeError, OSError) as error:
            self._known = _LastLook(problems=(SpecProblem(FOLDER, 1, f"the folder cannot be read: {_why(error)}"),))
            return
        stamps = {entry.path: entry.stamp for entry in listed}
        before = self._known
        changed = {path for path in {*stamps, *before.stamps} if stamps.get(path) != before.stamps.get(path)}
        # Without stamps this is the first look, or the last listing failed and left its problem behind.
        if not changed and before.stamps:
            return
        contents, unread = await self._contents(listed, changed, before)
        # A file that could not be read is tried again next time, even if its stamp has not changed.
        kept = {path: stamp for path, stamp in stamps.items() if path not in {problem.file for problem in unread}}
        # Fifty files of the largest size take seconds, so a thread reads them while others are served.
        definitions, problems = await anyio.to_thread.run_sync(self._defined, contents, changed, before)
        for folder in FOLDERS:
            # A listing ends at the limit, so a full one may lack files.
            if sum(entry.path.startswith(f"{folder}/") for entry in listed) >= MOST_FILES:
                problems.append(SpecProblem(folder, 1, f"it has {MOST_FILES} files or more; the rest are ignored"))
        if contents or before.contents:
            skills = await anyio.to_thread.run_sync(
                lambda: self._team_skills
            )  # its modules are loaded beside other calls
            skills.look(contents, [definition.name for definition in definitions.values()])
        self._known = _LastLook(kept, contents, definitions, tuple(dict.fromkeys([*problems, *unread])))

    async def _contents(
        self, listed: Sequence[ListedFile], changed: Collection[str], before: _LastLook
    ) -> tuple[dict[str, bytes], list[SpecProblem]]:
        contents: dict[str, bytes] = {}
        unread = []
        for entry in listed:
            if entry.path not in changed and entry.path in before.contents:
                contents[entry.path] = before.contents[entry.path]
            elif entry.size_bytes > MOST_BYTES:
                # One byte too many is enough to report that the file is too large.
                contents[entry.path] = b" " * (MOST_BYTES + 1)
            else:
                try:
                    contents[entry.path] = await self._files.read(entry.path)
                except (KnowledgeError, OSError) as error:
                    unread.append(SpecProblem(entry.path, 1, f"the file cannot be read: {_why(error)}"))
        return contents, unread

    def _defined(
        self, contents: Mapping[str, bytes], changed: Collection[str], before: _LastLook
    ) -> tuple[dict[str, Definition], list[SpecProblem]]:
        definitions: dict[str, Definition] = {}
        problems: list[SpecProblem] = []
        if not contents:
            return definitions, problems
        from agents.spec.definition import defined  # the reader of agents, which a team without agents does not need

        names: dict[str, str] = {}
        # An agent's file is directly in the folder; those below it have prompts and schemas.
        directly = [path for path in contents if path.startswith(f"{FOLDER}/") and path.count("/") == 1]
        for file in sorted(path for path in directly if path.endswith((".yaml", ".yml"))):
            if len(definitions) >= MOST_AGENTS:
                problems.append(SpecProblem(file, 1, f"there are more than {MOST_AGENTS} agents; this one is ignored"))
                continue
            definition = before.definitions.get(file)
            # Prompts and schemas in files of their own count too, even those that do not exist yet.
            if definition is None or {file, *definition.reads} & set(changed):
                definition = defined(file, contents, self._tools, self._reserved)
            if definition.name in names:
                text = (
                    f"the agent {definition.name!r} is already defined in {names[definition.name]}; rename one of them"
                )
                problems.append(SpecProblem(file, 1, text))
                continue
            names[definition.name] = file
            definitions[file] = definition
            problems += definition.problems
        return definitions, problems


def _why(error: Exception) -> str:
    if isinstance(error, OSError):
        return error.strerror or type(error).__name__
    return str(error)
