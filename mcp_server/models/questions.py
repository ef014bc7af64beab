"""The shared parts of the short questions that the language model is asked besides runs."""

from __future__ import annotations

import secrets
from collections import deque
from collections.abc import Callable, Mapping
from typing import Any

from agents.loop.providers.usage import conversation_id


def new_conversation(agent: str) -> str:
    """Return a new id under which the usage of that agent's questions is accounted."""
    return conversation_id(agent, 1, secrets.token_hex(4))


def closed_object(properties: Mapping[str, Any]) -> dict[str, Any]:
    """Return the JSON Schema of an object with exactly these properties."""
    return {
        "type": "object",
        "properties": dict(properties),
        "required": list(properties),
        "additionalProperties": False,
    }


class QuestionLimit:
    """At most `most` questions within `within_s` seconds, so that nobody can make the model cost more. `clock` counts seconds."""

    def __init__(self, most: int, within_s: float, clock: Callable[[], float]) -> None:
        self._within_s, self._clock = within_s, clock
        self._asked_at: deque[float] = deque(maxlen=most)

    def take(self) -> bool:
        """Return whether one more question may be asked now, and count it."""
        now = self._clock()
        if len(self._asked_at) == self._asked_at.maxlen and now - self._asked_at[0] < self._within_s:
            return False
        self._asked_at.append(now)
        return True
