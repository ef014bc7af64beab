"""Channels, people and messages as we speak of them. Pure values; ids are Zulip's, times aware UTC, texts Zulip's Markdown."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from mcp_server.connectors.zulip.mailbox import mailbox


@dataclass(frozen=True, slots=True)
class ZulipServer:
    """What the server says of itself: `level` decides which words it knows, `longest_message` is in characters."""

    name: str
    version: str
    level: int
    longest_message: int = 10_000
    longest_topic: int = 60


@dataclass(frozen=True, slots=True)
class Channel:
    """A channel. `restricted`: not everybody who sees it may write there, so that it must be tried."""

    id: int
    name: str
    description: str
    private: bool
    restricted: bool = False


@dataclass(frozen=True, slots=True)
class Topic:
    """A topic of a channel and its newest message."""

    name: str
    last_message_id: int


@dataclass(frozen=True, slots=True)
class ZulipUser:
    """A user. `email` is the one that the API takes."""

    id: int
    name: str
    email: str
    delivery_email: str | None = None
    bot: bool = False
    active: bool = True

    @property
    def mailboxes(self) -> frozenset[str]:
        """Return the user's addresses as `mailbox` writes them."""
        return frozenset(mailbox(address) for address in (self.email, self.delivery_email) if address)


@dataclass(frozen=True, slots=True)
class Reaction:
    """An emoji of somebody on a message.

    `emoji` is one of its names, `code` its code points, by which two names are known as one; "" where an organisation made it.
    """

    emoji: str
    user_id: int
    code: str = ""


@dataclass(frozen=True, slots=True)
class Message:
    """A message in a topic, or between `people` (then channel and topic are "").

    `edited_s` is when its text was changed last and `moved_s` when it was moved last, in seconds since 1970; 0 for never. Servers
    below feature level 365 tell of both in `edited_s`, also when only its topic was resolved.
    """

    id: int
    sender_id: int
    sender: str
    sender_email: str
    at: datetime
    text: str
    channel_id: int | None = None
    channel: str = ""
    topic: str = ""
    people: Sequence[ZulipUser] = ()
    reactions: Sequence[Reaction] = ()
    local_id: str | None = None
    edited_s: int = 0
    moved_s: int = 0


@dataclass(frozen=True, slots=True)
class Window:
    """Messages in order, oldest first, and whether there are none before or after them."""

    messages: Sequence[Message]
    found_oldest: bool
    found_newest: bool
    history_limited: bool = False


@dataclass(frozen=True, slots=True)
class Where:
    """Where a message goes, or where messages are looked for: a channel and perhaps a topic, or people.

    Only to look: all `public` channels with their whole history, or all `direct` messages. Nothing at all is the user's own
    history: what came while it was subscribed.
    """

    channel: Channel | None = None
    topic: str | None = None
    people: tuple[ZulipUser, ...] = ()
    public: bool = False
    direct: bool = False


@dataclass(frozen=True, slots=True)
class Queue:
    """A queue of events: `newest` is the newest message when it was made."""

    id: str
    last_event_id: int
    newest: int


@dataclass(frozen=True, slots=True)
class QueueEvents:
    """What a queue told: messages, the last event, and by message the reactions that were added and those that were taken back.

    A message has its `local_id` where it was sent from this queue.
    """

    messages: Sequence[Message]
    last_event_id: int
    reactions: Mapping[int, Sequence[Reaction]] = field(default_factory=dict)
    taken_back: Mapping[int, Sequence[Reaction]] = field(default_factory=dict)
