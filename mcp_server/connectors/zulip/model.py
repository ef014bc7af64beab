"""Channels, people and messages as we call them. Pure values: ids are Zulip's, times aware UTC, texts Zulip's Markdown."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from mcp_server.connectors.text.name_match import folded
from mcp_server.connectors.zulip.mailbox import mailbox


@dataclass(frozen=True, slots=True)
class ZulipServer:
    """A Zulip server. `level` is its feature level, which decides the requests it supports; `longest_message` is in characters.

    `edit_limit_s` and `delete_limit_s` say for how long after sending a message may be edited or deleted; None means forever.
    """

    name: str
    version: str
    level: int
    longest_message: int = 10_000
    longest_topic: int = 60
    editing: bool = True
    edit_limit_s: int | None = None
    delete_limit_s: int | None = None


@dataclass(frozen=True, slots=True)
class Channel:
    """A channel. `restricted`: not everybody who sees it may write there; only an attempt shows whether the bot may."""

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
class UnreadMessages:
    """Unread messages, by id, of a topic, or of the conversation with `people`, by id (the key's owner may be among them)."""

    message_ids: frozenset[int]
    channel_id: int | None = None
    topic: str = ""
    people: frozenset[int] = frozenset()


@dataclass(frozen=True, slots=True)
class ZulipUser:
    """A user. `email` is the address that the API accepts; `delivery_email` is the real one, if the bot may see it.

    `role` is a word such as "member"; "" if the server does not say it.
    """

    id: int
    name: str
    email: str
    delivery_email: str | None = None
    bot: bool = False
    active: bool = True
    role: str = ""

    @property
    def reviewer_names(self) -> frozenset[str]:
        """The forms in which `ZULIP_REVIEWERS` may list the user, as `reviewer_name` writes them."""
        name = folded(self.name)
        # An account can choose any name, so a name that looks like an id or an address does not count.
        own = {name} if not name.isdigit() and not {"@", "|"} & {*name} else set()
        return self.mailboxes | own | {str(self.id), f"{name}|{self.id}"}

    @property
    def mailboxes(self) -> frozenset[str]:
        """The user's addresses as `mailbox` writes them."""
        return frozenset(mailbox(address) for address in (self.email, self.delivery_email) if address)


@dataclass(frozen=True, slots=True)
class ZulipGroup:
    """A group of users, who are mentioned together: its own members and those of its subgroups, by id."""

    id: int
    name: str
    members: frozenset[int]
    subgroups: frozenset[int] = frozenset()


def reviewer_name(entry: str) -> str:
    """Return an entry of `ZULIP_REVIEWERS` so that it can be compared: e-mail addresses as they are, names without case."""
    return entry if "@" in entry else folded(entry)


def why_powerless(entry: str, bearers: Sequence[ZulipUser], me: ZulipUser) -> str:
    """Return why reactions of `bearers`, the accounts that `entry` names, decide nothing; "" if they count.

    `me` is the owner of the server's key.
    """
    kind = "address" if "@" in entry else "name or id"
    match bearers:
        case []:
            hidden = "; where Zulip hides addresses from bots, list the user's id or name" if "@" in entry else ""
            return f"nobody that the bot sees has the {kind} {entry}{hidden}"
        case [one] if one.id == me.id:
            return f"{entry} is the account that the server itself uses"
        case [one] if one.bot:
            return f"{entry} is a bot, and only people decide"
        case [one] if not one.active:
            return f"{entry} is deactivated"
        case [_]:
            return ""
        case _:
            return f"{len(bearers)} accounts have the {kind} {entry}, so none decides"


@dataclass(frozen=True, slots=True)
class Reaction:
    """An emoji of somebody on a message.

    `emoji` is one of its names. `code` are its code points, by which two names are known as one emoji; "" for an organisation's
    own picture.
    """

    emoji: str
    user_id: int
    code: str = ""


@dataclass(frozen=True, slots=True)
class Message:
    """A message in a topic, or between `people` (then channel and topic are "").

    `edited_s` is when its text was last changed and `moved_s` when it was last moved, in seconds since 1970; 0 for never. Servers
    below feature level 365 report both in `edited_s`, even when its topic was only resolved.
    """

    id: int
    sender_id: int
    sender: str
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
class MessageWindow:
    """Messages, oldest first, and whether these reach the ends of the place.

    `history_limited`: the organisation's plan hides older ones (https://zulip.com/api/get-messages).
    """

    messages: Sequence[Message]
    found_oldest: bool
    found_newest: bool
    history_limited: bool = False


@dataclass(frozen=True, slots=True)
class ChatPlace:
    """Where a message goes or is searched: a channel and perhaps a topic, or a conversation between people.

    Only for searching: all `public` channels with their whole history, all `direct` messages, those that are `unread`, or
    those `with_files`. With nothing set it is the user's own history: the messages since the user was subscribed.
    """

    channel: Channel | None = None
    topic: str | None = None
    people: tuple[ZulipUser, ...] = ()
    public: bool = False
    direct: bool = False
    unread: bool = False
    with_files: bool = False


@dataclass(frozen=True, slots=True)
class ScheduledMessage:
    """A message that Zulip will send at a time, to a topic of a channel or to people. `failed`: Zulip could not send it."""

    id: int
    text: str
    at: datetime
    channel_id: int | None = None
    topic: str = ""
    people_ids: tuple[int, ...] = ()
    failed: bool = False


@dataclass(frozen=True, slots=True)
class Queue:
    """A queue of events."""

    id: str
    last_event_id: int


@dataclass(frozen=True, slots=True)
class QueueEvents:
    """The events of a queue: messages, and by message the reactions that were added and removed.

    A message has its `local_id` if it was sent with this queue.
    """

    messages: Sequence[Message]
    last_event_id: int
    reactions: Mapping[int, Sequence[Reaction]] = field(default_factory=dict)
    removed: Mapping[int, Sequence[Reaction]] = field(default_factory=dict)
