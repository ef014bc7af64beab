"""Handles over HTTP without a token: such a caller reaches only what it holds the handle of, so nothing else tells it one.

All of these callers are one principal, because nothing tells them apart. What one of them began is known to the others only by a
handle that nobody can guess.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from knowledge.errors import KnowledgeError
from mcp_server.gate.host_registration import Principal

HANDLE_BYTES = 10
"""Random bytes in a handle. Ids of journeys had four once, which can be tried out in an hour where there are many."""
_LONG = re.compile(rf".*-[0-9a-f]{{{2 * HANDLE_BYTES}}}")
_JOURNEY = "journey:"


class GuessableHandle(KnowledgeError):
    """A handle that could be guessed, from a caller that has nothing else to show."""

    def __init__(self, journey: str) -> None:
        self.journey = journey
        super().__init__(
            f"journey {journey[:60]!r} cannot be reached over HTTP without a token, because its id is short enough to guess; "
            "send the token of a registered host (knowledge-forge enroll NAME)"
        )


class NotYours(KnowledgeError):
    """A host that nobody registered decides about something that another one began."""

    def __init__(self, journey: str, began: str) -> None:
        self.journey, self.began = journey, began
        super().__init__(
            f"journey {journey} was started by {began}: an unregistered host can continue it but cannot decide on it. "
            "A person decides on the review page, in a terminal (knowledge-forge journeys), or in a registered host"
        )


def require_handle(who: Principal | None, journey: str) -> None:
    """Return if the caller may reach that journey by its id.

    Raises:
        GuessableHandle: the caller has nothing but the id, which proves nothing.
    """
    if who is not None and who.by_handle and not _LONG.fullmatch(journey):
        raise GuessableHandle(journey)


def require_may_decide(who: Principal, journey: str, began: str) -> None:
    """Return if the caller may relay a decision about a journey that `began` began.

    Raises:
        NotYours: another one began it, and the caller is not registered.
    """
    if not who.enrolled and began != who.id:
        raise NotYours(journey, began)


def without_handles(value: Any) -> Any:
    """Return JSON `value` without the handles that records of pages name: journeys as sources, and ids of proposals."""
    if isinstance(value, Mapping):
        return {name: _withheld(name, inside) for name, inside in value.items()}
    if isinstance(value, list | tuple):
        return [without_handles(inside) for inside in value]
    return value


def _withheld(name: str, value: Any) -> Any:
    if isinstance(value, str):
        if name in ("source", "locator") and value.startswith(_JOURNEY):
            return _JOURNEY.rstrip(":")
        return None if name == "proposal" else value
    return without_handles(value)
