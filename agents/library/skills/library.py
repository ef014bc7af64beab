"""The skills of this program, and the agents that may work in them, each loaded when it is first needed."""

from __future__ import annotations

from collections.abc import Collection
from functools import cache
from importlib.resources import files

from agents.catalogue import SKILLS, built_in, cognitive_entries, main_entries, skill_entries
from agents.engine.agent import Agent
from agents.errors import NoSuchAgent
from agents.library.cognitive.library import FOLLOWING, cognitive
from agents.library.cognitive.model import Cognitive
from agents.library.skills.assembly import Built, Worker, built
from agents.library.skills.definition import SkillFile, read_skill
from agents.spec.yaml.reader import AnyTool


def workers() -> Collection[str]:
    """Return the names of this program's agents that may work in a skill: all but skills."""
    return tuple(entry.name for entry in (*main_entries(), *cognitive_entries()))


def worker(name: str) -> Worker:
    """Return one of them.

    Raises:
        NoSuchAgent: none has that name.
    """
    if name in {entry.name for entry in cognitive_entries()}:
        return cognitive(name)
    try:
        return built_in(name)
    except KeyError:
        raise NoSuchAgent(name, f"there are {', '.join(workers())}") from None


def following() -> Cognitive:
    """Return the agent that runs after every other."""
    return cognitive(FOLLOWING)


def read(name: str) -> SkillFile:
    """Return the definition of one of our skills, or its problems."""
    file = f"{SKILLS.replace('.', '/')}/{name}.yaml"
    raw = (files(SKILLS) / f"{name}.yaml").read_bytes()
    return read_skill(file, raw, workers(), [entry.name for entry in skill_entries()])


def led(name: str, tools: Collection[str] = AnyTool()) -> Built:
    """Return one of our skills as an agent, or its problems."""
    found = read(name)
    if found.skill is None:
        return Built(None, found.problems)
    return built(found.skill, {one: worker(one) for one in found.skill.agents}, following(), tools)


@cache
def agent(name: str) -> Agent:
    """Return one of our skills as an agent.

    Raises:
        NoSuchAgent: its file cannot be used; the message says where.
    """
    made = led(name)
    if made.agent is None:
        raise NoSuchAgent(name, f"its definition cannot be used: {made.problems[0]}")
    return made.agent
