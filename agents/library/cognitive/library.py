"""The cognitive agents of this program: each folder beside this file that has an `agent.yaml` is one."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from functools import cache
from importlib.resources import files
from importlib.resources.abc import Traversable

from agents.catalogue import COGNITIVE, cognitive_entries
from agents.engine.agent import Agent
from agents.errors import NoSuchAgent
from agents.library.cognitive.agent import alone
from agents.library.cognitive.definition import Described, described_in
from agents.library.cognitive.model import Cognitive
from agents.spec.yaml.reader import AnyTool

FOLLOWING = "memory"
"""The agent that runs after every other, and never after itself."""
SUFFIXES = (".yaml", ".json", ".md")


def contents(folder: Traversable) -> Mapping[str, bytes]:
    """Return the files of a folder that belong to an agent, by name."""
    return {entry.name: entry.read_bytes() for entry in folder.iterdir() if entry.name.endswith(SUFFIXES)}


def described(name: str, tools: Collection[str] = AnyTool()) -> Described:
    """Return the definition in one of these folders, or its problems."""
    return described_in(f"{COGNITIVE.replace('.', '/')}/{name}", contents(files(COGNITIVE) / name), tools)


@cache
def cognitive(name: str) -> Cognitive:
    """Return one of the agents here.

    Raises:
        NoSuchAgent: its folder cannot be used; the message says where.
    """
    read = described(name)
    if read.cognitive is None:
        raise NoSuchAgent(name, f"its definition cannot be used: {read.problems[0]}")
    return read.cognitive


@cache
def agent(name: str) -> Agent:
    """Return one of the agents here as it runs on its own, followed by the agent that looks back on its work.

    Raises:
        NoSuchAgent: its folder, or that of the other agent, cannot be used.
    """
    return alone(cognitive(name), cognitive(FOLLOWING) if FOLLOWING in names() else None)


def names() -> list[str]:
    """Return the names of the agents here."""
    return [entry.name for entry in cognitive_entries()]
