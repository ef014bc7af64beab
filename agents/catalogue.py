"""The agents that can be started. Their code is loaded when one of them is first needed."""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from importlib import import_module
from importlib.resources import files
from importlib.resources.abc import Traversable
from types import MappingProxyType
from typing import Protocol, cast

from agents.engine.agent import Agent
from agents.engine.events import Json
from agents.errors import NoSuchAgent


@dataclass(frozen=True, slots=True)
class CatalogueEntry:
    """An agent of this program, before it is loaded: what lists show."""

    name: str
    title: str
    summary: str
    module: str
    inputs: Mapping[str, str] = field(default_factory=dict)
    """Its inputs besides the brief: a description of each, by name."""


PACKAGE = "agents.library"
NAMES = ("research", "understand", "build", "curate", "orchestrate")
"""The agents that are folders of the package, in the order in which lists show them."""
COGNITIVE = "agents.library.cognitive"
"""The package whose folders are agents."""
SKILLS = "agents.library.skills"
"""The package whose YAML files are skills: agents that are made of others."""


_INPUTS = re.compile(r"^inputs:.*\n(?:(?:[ #].*)?\n)*", re.MULTILINE)
"""The block of a file that declares the agent's inputs: up to the next key that is not indented."""
_WORKING = re.compile(r"\bagent: ([a-z][a-z0-9-]*)")
"""The agents that work in a skill."""


class AgentListing(Protocol):
    """An agent as lists show it: the agent itself, or a skill that is not built yet."""

    @property
    def name(self) -> str:
        """The name by which it is started."""
        ...

    @property
    def title(self) -> str:
        """Its name for people."""
        ...

    @property
    def summary(self) -> str:
        """One line on what it does."""
        ...

    @property
    def origin(self) -> str:
        """Its origin: "built in", or its file."""
        ...

    @property
    def inputs(self) -> Mapping[str, Json]:
        """The JSON Schema of its inputs besides the brief; for a skill, those in its own file."""
        ...


class Catalogue(Protocol):
    """The agents available now: the built-in ones and the team's."""

    async def agents(self) -> Sequence[Agent]:
        """Return them all, this program's first."""
        ...

    async def agent(self, name: str) -> Agent:
        """Return the agent of that name.

        Raises:
            NoSuchAgent: it does not exist, or its definition cannot be used; the message says which.
        """
        ...


class BuiltIn:
    """The agents of this program alone."""

    async def agents(self) -> Sequence[Agent]:
        """Return them in their order."""
        return [built_in(entry.name) for entry in entries()]

    async def team(self) -> Sequence[AgentListing]:
        """Return none: there is no team."""
        return ()

    async def agent(self, name: str) -> Agent:
        """Return the agent of that name."""
        known = [entry.name for entry in entries()]
        if name not in known:
            raise no_such_agent(name, known)
        return built_in(name)


def entries() -> Sequence[CatalogueEntry]:
    """Return all agents of this program as lists show them. None of them is loaded."""
    return (*main_entries(), *cognitive_entries(), *skill_entries())


@cache
def main_entries() -> tuple[CatalogueEntry, ...]:
    """Return the agents that are neither cognitive agents nor skills, in their order."""
    return tuple(_entry(name, files(f"{PACKAGE}.{name}") / "agent.yaml", f"{PACKAGE}.folder") for name in NAMES)


@cache
def cognitive_entries() -> tuple[CatalogueEntry, ...]:
    """Return the cognitive agents by name. All of them take the same inputs, and some take more."""
    here = files(COGNITIVE)
    shared = inputs_in((here / "shared.yaml").read_text(encoding="utf-8"))
    folders = sorted(here.iterdir(), key=lambda entry: entry.name)
    found = ((folder.name, folder / "agent.yaml") for folder in folders if folder.is_dir())
    return tuple(_entry(name, file, f"{COGNITIVE}.library", shared) for name, file in found if file.is_file())


@cache
def skill_entries() -> tuple[CatalogueEntry, ...]:
    """Return the agents that are made of others, by name. Their inputs are those of the others and of their own files."""
    taken = {entry.name: entry.inputs for entry in (*main_entries(), *cognitive_entries())}
    found = []
    for file in sorted(files(SKILLS).iterdir(), key=lambda file: file.name):
        if file.name.endswith(".yaml"):
            workers = _WORKING.findall(file.read_text(encoding="utf-8"))
            inputs = {name: text for agent in workers for name, text in taken.get(agent, {}).items()}
            found.append(_entry(file.name.removesuffix(".yaml"), file, f"{SKILLS}.library", inputs))
    return tuple(found)


def _entry(
    name: str, file: Traversable, module: str, inputs: Mapping[str, str] = MappingProxyType({})
) -> CatalogueEntry:
    text = file.read_text(encoding="utf-8")
    return CatalogueEntry(name, *heading_of(text), module, {**inputs, **inputs_in(text)})


@cache
def built_in(name: str) -> Agent:
    """Return a built-in agent; KeyError if none has that name."""
    module = import_module({entry.name: entry for entry in entries()}[name].module)
    return cast("Agent", module.agent(name))


def heading_of(text: str) -> tuple[str, str]:
    """Return the title and summary of an agent's file, from its first two lines alone."""
    lines = [*text.split("\n", 2), "", ""]
    return _said(lines[0], "title"), _said(lines[1], "summary")


def inputs_in(text: str) -> Mapping[str, str]:
    """Return the inputs that an agent's file declares, each with its description, without reading the rest."""
    block = _INPUTS.search(text)
    if block is None:
        return {}
    # Loaded only for a file that declares inputs: start-up has a budget, and the YAML reader is heavy.
    from agents.spec.yaml.values import UnreadableFile, read_marked

    try:
        inputs = read_marked(block.group().encode()).plain()["inputs"]
        return {name: str(form.get("description", "")) for name, form in inputs["properties"].items()}
    except (UnreadableFile, LookupError, AttributeError, TypeError):
        return {}  # starting it reports what is wrong with it


def _said(line: str, key: str) -> str:
    name, _, text = line.partition(":")
    told = text.strip()
    if len(told) > 1 and told[0] == told[-1] and told[0] in "'\"":
        told = told[1:-1]
    return told if name == key else ""


def no_such_agent(name: str, known: Sequence[str]) -> NoSuchAgent:
    """Return the error, with the name that was probably meant."""
    near = difflib.get_close_matches(name, known, n=1)
    return NoSuchAgent(name, f"did you mean {near[0]!r}?" if near else f"there are {', '.join(known)}")
