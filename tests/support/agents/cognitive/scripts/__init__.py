"""A host's and its person's acts in each phase of a cognitive agent, as data.

One module an agent, by the agent's own phase names.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

Json = Any


@dataclass(frozen=True)
class Act:
    """One thing that a host does. The last act in a phase leads on.

    `submit`: content is the work. `call`: content is the tool's arguments with `tool` (and no journey_id). `answer`:
    content is the person's answers to the previous submit's questions, by id.
    """

    kind: Literal["submit", "call", "answer"]
    content: Mapping[str, Json]


@dataclass(frozen=True)
class Scene:
    """The host's position. `task` is the journey's id, `prompt` the text that it got, `visit` counts from 1."""

    task: str
    prompt: str
    visit: int = 1
    skill: str = ""
    inputs: Mapping[str, Json] = field(default_factory=dict)
    requirements: Sequence[str] = ()
    """The ids of the requirements that clarification recorded before."""


Script = Callable[[str, Scene], list[Act]]
"""Returns the acts in that phase. Shared phases (JOHARI_DISCOVERY, CLOSING) may be left to `shared.py`."""


def naming(items: Sequence[Json], requirements: Sequence[str], field_name: str = "meets") -> list[Json]:
    """Return the items, the first of which names the ids of these requirements in that field."""
    first, *rest = items
    return [{**first, field_name: list(requirements)} if requirements else first, *rest]
