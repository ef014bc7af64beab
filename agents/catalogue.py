"""Which agents there are. Their code is loaded when one of them is first needed."""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from importlib import import_module
from importlib.resources import files
from importlib.resources.abc import Traversable
from typing import Protocol, cast

from agents.agent import Agent
from agents.errors import NoSuchAgent
from agents.events import Json


@dataclass(frozen=True, slots=True)
class Entry:
    """An agent of this program, before it is loaded: what lists show."""

    name: str
    title: str
    summary: str
    module: str
    inputs: Mapping[str, str] = field(default_factory=dict)
    """What it takes beside the brief, by name, and what each is."""


BUILT_IN = (
    Entry(
        "research",
        "Research",
        "Breaks a question into a tree, answers each part with quotes from the knowledge base, rises above, finds what is next.",
        "agents.research.agent",
    ),
    Entry(
        "understand",
        "Understand",
        "Teaches a person: finds out what they know, diagnoses, teaches objective by objective until each is passed.",
        "agents.understand.agent",
    ),
    Entry(
        "build",
        "Build",
        "Makes something: first the concepts it rests on, with quotes, and a plan; then step by step, with what shows it.",
        "agents.build.agent",
    ),
    Entry(
        "curate",
        "Curate",
        "From a question to a verified act: route, map, page, passages, a conclusion, the act, and what the page says then.",
        "agents.curate.agent",
    ),
    Entry(
        "orchestrate",
        "Orchestrate",
        "Plans, holds the plan to rules, does it, and has it judged: refined or planned anew until it passes or the budget ends.",
        "agents.orchestrate.agent",
        {
            "requirements": "What has to be met, if the brief alone does not say it: list of {id, text}.",
            "limit": "How long all steps together may take, such as 3 days.",
            "budget": "The most that may be spent: tokens (500000), iterations (6), seconds (86400).",
            "pass_score": "From this score on the work has succeeded (80).",
            "soft_score": "From this score on the implementation is refined, below it all is planned anew (60).",
            "rules": "More rules for the plan, as in _agents/rules/orchestrate.yaml.",
        },
    ),
)


COGNITIVE = "agents.cognitive"
"""The package whose folders are agents."""
SKILLS = "agents.skills"
"""The package whose YAML files are skills: agents that are made of others."""


class Listing(Protocol):
    """What lists show of an agent: an agent itself, or a skill that is none yet."""

    @property
    def name(self) -> str:
        """Return what it is started by."""
        ...

    @property
    def title(self) -> str:
        """Return what people call it."""
        ...

    @property
    def summary(self) -> str:
        """Return in one line what it does."""
        ...

    @property
    def origin(self) -> str:
        """Return where it comes from: "built in", or its file."""
        ...

    @property
    def inputs(self) -> Mapping[str, Json]:
        """Return the JSON Schema of what it takes beside the brief; of a skill what its own file says."""
        ...


class Catalogue(Protocol):
    """The agents that there are now: this program's and the team's."""

    async def agents(self) -> Sequence[Agent]:
        """Return them all, this program's first."""
        ...

    async def agent(self, name: str) -> Agent:
        """Return the agent of that name.

        Raises:
            NoSuchAgent: there is none, or its definition cannot be used; the message says which.
        """
        ...


class BuiltIn:
    """The agents of this program alone."""

    async def agents(self) -> Sequence[Agent]:
        """Return them in their order."""
        return [built_in(entry.name) for entry in entries()]

    async def agent(self, name: str) -> Agent:
        """Return the agent of that name."""
        known = [entry.name for entry in entries()]
        if name not in known:
            raise no_such_agent(name, known)
        return built_in(name)


def entries() -> Sequence[Entry]:
    """Return all agents of this program as lists show them. None of them is loaded."""
    return (*BUILT_IN, *cognitive_entries(), *skill_entries())


@cache
def cognitive_entries() -> tuple[Entry, ...]:
    """Return the agents that are folders of data, by name. All of them take the same inputs; what else one takes it says itself."""
    inputs = _shared_inputs()
    folders = sorted(files(COGNITIVE).iterdir(), key=lambda entry: entry.name)
    found = ((folder.name, folder / "agent.yaml") for folder in folders if folder.is_dir())
    return tuple(entry_of(name, file, f"{COGNITIVE}.library", inputs) for name, file in found if file.is_file())


@cache
def skill_entries() -> tuple[Entry, ...]:
    """Return the agents that are made of others, by name. They take what cognitive agents take; what else they say themselves."""
    inputs = _shared_inputs()
    found = sorted(
        (file for file in files(SKILLS).iterdir() if file.name.endswith(".yaml")), key=lambda file: file.name
    )
    return tuple(entry_of(file.name.removesuffix(".yaml"), file, f"{SKILLS}.library", inputs) for file in found)


def _shared_inputs() -> Mapping[str, str]:
    from agents.cognitive.cognitive import INPUTS

    return {name: str(form["description"]) for name, form in INPUTS.items()}


def entry_of(name: str, file: Traversable, module: str, inputs: Mapping[str, str]) -> Entry:
    """Return the agent that is described in a file, with no more of it read than its first two lines."""
    with file.open(encoding="utf-8") as lines:
        return Entry(name, *heading_of(lines.readline() + lines.readline()), module, inputs)


@cache
def built_in(name: str) -> Agent:
    """Return an agent of this program; a KeyError if there is none of that name."""
    module = import_module({entry.name: entry for entry in entries()}[name].module)
    # A module that knows many agents by their names makes them from data.
    return cast("Agent", module.agent(name) if hasattr(module, "agent") else module.AGENT)


def heading_of(text: str) -> tuple[str, str]:
    """Return title and summary of an agent that is described in a file: what its first two lines say, without reading the rest."""
    lines = [*text.split("\n", 2), "", ""]
    return _said(lines[0], "title"), _said(lines[1], "summary")


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


def texts_of(package: str) -> dict[str, str]:
    """Return the Markdown templates in `prompts/` of a package, by file name without suffix."""
    folder = files(package) / "prompts"
    found = {entry.name: entry for entry in folder.iterdir() if entry.name.endswith(".md")}
    return {name.removesuffix(".md"): found[name].read_text(encoding="utf-8") for name in sorted(found)}
