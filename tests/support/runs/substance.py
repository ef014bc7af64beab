"""Language models with a known opinion of texts and quotes, as scripts of the double."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from tests.doubles.provider_turns import Script, Turn

ITEMS = '"item"'
"""Words that occur only in the question about substance."""
Finding = Callable[[Mapping[str, Any]], str]
"""A model's finding on an item of the question."""


def items_of(body: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the items of a request on the wire."""
    told = next(message for message in body["messages"] if message.get("role") == "user")["content"]
    found: list[dict[str, Any]] = json.loads(told if isinstance(told, str) else "".join(part["text"] for part in told))
    return found


def finding(opinion: Finding, sure: float = 0.9) -> Script:
    """Return a step of the double with these findings."""

    def step(body: Mapping[str, Any]) -> Turn:
        return findings([{"item": one["item"], "finding": opinion(one), "sure": sure} for one in items_of(body)])

    return step


def findings(found: Sequence[Mapping[str, Any]]) -> Turn:
    """Return an answer of the model with these findings."""
    return Turn(json.dumps({"findings": list(found)}))


def doubting(words: str, fault: str = "not_in_quotes") -> Finding:
    """Return the finding that only texts with these words have the fault."""
    return lambda one: fault if words in one["text"] else "follows"
