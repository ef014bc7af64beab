"""Handles for callers over HTTP that send no token.

These callers are one principal, because each can pass as any other. Each reaches only journeys whose unguessable id it knows, so
answers to one of them must not contain an id that another one got.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from knowledge.errors import KnowledgeError
from mcp_server.gate.host_registration import Principal

HANDLE_BYTES = 10
"""Random bytes in a handle. Four, as in ids of older journeys, can be guessed in an hour on a server with many journeys."""
_UNGUESSABLE = re.compile(rf".*-[0-9a-f]{{{2 * HANDLE_BYTES}}}")
_JOURNEY = "journey:"


class GuessableHandle(KnowledgeError):
    """A caller without a token named a journey whose id is short enough to guess."""

    def __init__(self, journey: str) -> None:
        self.journey = journey
        super().__init__(
            f"journey {journey[:60]!r} cannot be reached over HTTP without a token, because its id is short enough to guess; "
            "send the token of a registered host (knowledge-forge enroll NAME)"
        )


class NotYours(KnowledgeError):
    """An unregistered host, or somebody who signed in, tried to decide on a journey that another principal started."""

    def __init__(self, journey: str, began: str) -> None:
        self.journey, self.began = journey, began
        super().__init__(
            f"journey {journey} was started by {began}: you can continue it but cannot decide on it. "
            "A person decides on the review page, in a terminal (knowledge-forge journeys), or in a registered host"
        )


def require_handle(who: Principal | None, journey: str) -> None:
    """Check that the caller may reach the journey by its id.

    Raises:
        GuessableHandle: the caller has only the id, and the id could be a guess.
    """
    if who is not None and who.by_handle and not _UNGUESSABLE.fullmatch(journey):
        raise GuessableHandle(journey)


def require_may_decide(who: Principal, journey: str, began: str) -> None:
    """Check that the caller may relay a decision about a journey that the principal `began` started.

    Raises:
        NotYours: another principal started it, and the caller is not a registered host on this machine.
    """
    if began != who.id and (who.signed_in or not (who.enrolled or who.is_person)):
        raise NotYours(journey, began)


def without_handles(value: Any, name: str = "") -> Any:
    """Return JSON `value`, the value of field `name`, without handles: journeys named as sources, and ids of proposals."""
    if isinstance(value, Mapping):
        return {key: without_handles(inside, key) for key, inside in value.items()}
    if isinstance(value, list | tuple):
        return [without_handles(inside) for inside in value]
    if isinstance(value, str) and name in ("source", "locator") and value.startswith(_JOURNEY):
        return _JOURNEY.rstrip(":")
    return None if isinstance(value, str) and name == "proposal" else value
