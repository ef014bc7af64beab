"""A small skill as a team writes it, and functions to read and lead it."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from agents.engine.agent import Agent
from agents.library.cognitive.model import Cognitive
from agents.library.skills.assembly import Built, Worker, built
from agents.library.skills.definition import SkillFile, read_skill
from tests.support.agents.small_agents import noting
from tests.support.agents.team_agents import OWN_TOOLS, agent

FILE = "_skills/pair.yaml"
SMALL = """\
title: Pair
summary: Notes, a second look at them, and notes once more if it says so.
domain: bees
without_memory: all
phases:
  - id: first
    agent: noting
    focus: [what is new, what is old, what is blue]
    terms: [hive, honey]
    instructions: Note what you see of {{ inputs.topic }}.
    output: Two notes.
  - id: second
    agent: review
    context: [first]
    instructions: |
      Look at the notes.
      The brief was: {{ brief }}
  - id: third
    agent: noting
    context: last
ways:
  - from: second
    to: first.WRITE
    name: written_badly
    is_backward: true
    when:
      equals: {field: JUDGE.verdict, value: bad}
      detail: JUDGE.verdict
  - from: second
    to: end
    name: good_enough
    when:
      equals: {field: JUDGE.verdict, value: good}
closing: Say that it is done.
"""
WORKERS: Mapping[str, Worker] = {"noting": noting(), "review": agent()}
"""Agents that know nothing of skills: one in code, one a team's."""


def read(
    text: str | bytes = SMALL,
    *,
    file: str = FILE,
    agents: Collection[str] = ("noting", "review"),
    skills: Collection[str] = ("pair", "chain"),
    reserved: Collection[str] = ("research", "deliver"),
) -> SkillFile:
    raw = text.encode() if isinstance(text, str) else text
    return read_skill(file, raw, agents, skills, reserved)


def made(text: str = SMALL, workers: Mapping[str, Worker] | None = None, following: Cognitive | None = None) -> Built:
    """Return the skill as it is built from a file without problems."""
    found = read(text, agents=tuple(workers or WORKERS))
    assert found.problems == ()
    assert found.skill is not None
    return built(found.skill, workers or WORKERS, following, OWN_TOOLS)


def skill(text: str = SMALL, workers: Mapping[str, Worker] | None = None, following: Cognitive | None = None) -> Agent:
    """Return the skill of that text as an agent, which has no problems."""
    result = made(text, workers, following)
    assert result.problems == ()
    assert result.agent is not None
    return result.agent
