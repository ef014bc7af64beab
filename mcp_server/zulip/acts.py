"""Messages and reactions: planned, shown, and sent once."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class MessagePlan:
    """What a call would do in Zulip."""
