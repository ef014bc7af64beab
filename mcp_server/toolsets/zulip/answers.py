"""What the Zulip tools answer: frozen values, cheap to import, for they are part of the tool list. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from mcp_server.connectors.text.answers import ActStatus


@dataclass(frozen=True, slots=True)
class ChannelLine:
    """A channel."""

    name: str
    description: str
    private: bool


@dataclass(frozen=True, slots=True)
class Channels:
    """Channels by name; topics, newest first, when one channel was asked for."""

    channels: Sequence[ChannelLine]
    topics: Sequence[str]
    tainted: bool
    note: str | None = None


@dataclass(frozen=True, slots=True)
class MessageLine:
    """A message as its writer typed it. `place` is `channel/topic`, or the people of a direct message."""

    id: int
    place: str
    sender: str
    at: str
    text: str
    reactions: Sequence[str]
    url: str


@dataclass(frozen=True, slots=True)
class Messages:
    """Messages, oldest first. `next_cursor` goes on where these end; `note` says which way, and what was cut."""

    messages: Sequence[MessageLine]
    next_cursor: str | None
    tainted: bool
    note: str | None = None


@dataclass(frozen=True, slots=True)
class MessageActed:
    """What became of a message or reaction. `preview` is what would be sent, part by part, as a person reads it."""

    status: ActStatus
    proposal: Mapping[str, Any] | None
    place: str | None
    message_ids: Sequence[int]
    url: str | None
    preview: str | None = None
    note: str | None = None
