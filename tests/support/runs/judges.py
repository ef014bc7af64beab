"""Language models with a known opinion of contradictions, for tests and benchmarks: as scripts of the double, and behind the port."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from agents.loop.model.ports import FromUser, JsonReply, ModelReply, ModelRequest, ModelUsage, Shape
from tests.doubles.provider_turns import Script, Turn

Opinion = Callable[[str, str], float]
"""A model's certainty that the page's text and the new one can't both be true, 0..1."""
WORDS = '"pair"'
"""Words that occur only in the judge's question."""


def pairs_in(body: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the pairs of a request on the wire."""
    said = body["messages"] if "messages" in body else body["input"]
    told = next(message for message in said if message.get("role") == "user")["content"]
    text = told if isinstance(told, str) else "".join(part["text"] for part in told)
    found: list[dict[str, Any]] = json.loads(text)
    return found


def answer_of(pairs: Sequence[Mapping[str, Any]], opinion: Opinion, about: str = "what") -> dict[str, Any]:
    """Return the answer of a model with that opinion; it omits pairs with a certainty of 0."""
    held = [(one["pair"], opinion(one["page"]["says"], one["new"]["says"])) for one in pairs]
    return {"contradictions": [{"pair": number, "about": about, "sure": sure} for number, sure in held if sure]}


def judging(opinion: Opinion, about: str = "what") -> Script:
    """Return a step of the double with that answer."""

    def step(body: Mapping[str, Any]) -> Turn:
        return Turn(json.dumps(answer_of(pairs_in(body), opinion, about)))

    return step


def naming(*pairs: tuple[str, str], sure: float = 0.9) -> Opinion:
    """Return the opinion that these contradict each other: parts of the page's text and of the new one."""
    return lambda page, new: sure if any(old in page and said in new for old, said in pairs) else 0.0


class Opinionated:
    """A provider whose model has an opinion of pairs. `asked` holds the requests."""

    name, model = "opinionated", "some-model"

    def __init__(self, opinion: Opinion) -> None:
        self.opinion = opinion
        self.asked: list[ModelRequest] = []

    async def complete(self, asked: ModelRequest) -> ModelReply:
        """Return no text: nobody asks for prose."""
        self.asked.append(asked)
        return ModelReply("", (), "end", ModelUsage(), self.model)

    async def complete_json(self, asked: ModelRequest, _shape: Shape) -> JsonReply:
        """Answer about the pairs in the question."""
        self.asked.append(asked)
        (message,) = asked.messages
        assert isinstance(message, FromUser)
        return JsonReply(answer_of(json.loads(message.text), self.opinion), ModelUsage(), self.model)

    async def aclose(self) -> None:
        """Close: there is nothing to release."""
