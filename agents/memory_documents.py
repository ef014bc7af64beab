"""The memory documents of a journey: Markdown that its agent, and each part of a chain, leaves behind. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from agents.engine.agent import Agent
from agents.engine.state import JourneyState
from agents.errors import NoSuchDocument
from agents.prompts.prompt import OUTGROWN


@dataclass(frozen=True, slots=True)
class MemoryDocument:
    """A document with the name of its part, and the other names under which it can be read."""

    name: str
    text: str
    others: tuple[str, ...] = ()


def documents(agent: Agent, state: JourneyState) -> Mapping[str, str]:
    """Return the documents by all their names; none if another version of the agent recorded the works."""
    try:
        return agent.documents(state)
    except OUTGROWN:
        return {}


def each(agent: Agent, state: JourneyState) -> Sequence[MemoryDocument]:
    """Return each document once. In a chain its name is that of the part, and the other name that of the part's agent."""
    names: dict[str, list[str]] = {}
    found = documents(agent, state)
    for name, text in found.items():
        names.setdefault(text, []).append(name)
    # A chain lists agents' names before parts' names, and the later one, the part's, is more specific.
    order = list(found)
    each_once = [MemoryDocument(of[-1], text, tuple(of[:-1])) for text, of in names.items()]
    return sorted(each_once, key=lambda one: order.index(one.name))


def document(agent: Agent, state: JourneyState, journey: str, name: str) -> str:
    """Return the document of that name.

    Raises:
        NoSuchDocument: there is no such document; the message names the existing ones.
    """
    found = documents(agent, state)
    if name not in found:
        raise NoSuchDocument(journey, name, list(found))
    return found[name]
