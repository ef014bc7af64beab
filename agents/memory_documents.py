"""What journeys left behind as Markdown: the memory documents of agents, and of the parts of larger ones. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from agents.engine.agent import Agent
from agents.engine.state import JourneyState
from agents.errors import NoSuchDocument
from agents.prompts.prompt import OUTGROWN


@dataclass(frozen=True, slots=True)
class MemoryDocument:
    """A document, once: by the name of its part, and by other names under which it is read, too."""

    name: str
    text: str
    others: tuple[str, ...] = ()


def documents(agent: Agent, state: JourneyState) -> Mapping[str, str]:
    """Return the documents by every name; none of works that another version of the agent took."""
    try:
        return agent.documents(state)
    except OUTGROWN:
        return {}


def each(agent: Agent, state: JourneyState) -> Sequence[MemoryDocument]:
    """Return each document once. Of an agent with parts the name of the part comes first, then that of the part's agent."""
    names: dict[str, list[str]] = {}
    found = documents(agent, state)
    for name, text in found.items():
        names.setdefault(text, []).append(name)
    # The names of agents come before those of parts (agents.engine.progress.composition): the last one says most.
    order = list(found)
    told = [MemoryDocument(of[-1], text, tuple(of[:-1])) for text, of in names.items()]
    return sorted(told, key=lambda one: order.index(one.name))


def document(agent: Agent, state: JourneyState, journey: str, name: str) -> str:
    """Return the document of that name.

    Raises:
        NoSuchDocument: there is none; says which there are.
    """
    found = documents(agent, state)
    if name not in found:
        raise NoSuchDocument(journey, name, list(found))
    return found[name]
