"""Arguments and answers of the tools on messages in Zulip."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Literal

from pydantic import Field

from mcp_server.toolsets.spec import ActStatus, Arguments, Cursor, DryRun, InJourney

LONGEST_TEXT = 100_000
MOST_PEOPLE = 20
LONGEST_WAIT_S = 50
"""Hosts give up on a call after a minute."""
_ANCHOR = "newest, oldest, first_unread, scheduled, a message id or URL, or a /user_uploads/ file."
_WAIT = "Wait for messages after the anchor or cursor."

People = Annotated[list[str], Field(max_length=MOST_PEOPLE, description="Direct message: names or email addresses.")]


class ChannelsArguments(Arguments):
    """Arguments of zulip_list_channels."""

    channel: Annotated[str | None, Field(description="Only this channel, with its topics.")] = None
    unread: Annotated[bool, Field(description="Only places with unread messages, direct ones too.")] = False
    journey_id: InJourney = None


class ReadMessagesArguments(Arguments):
    """Arguments of zulip_read_messages."""

    channel: str | None = None
    topic: str | None = None
    people: People = Field(default_factory=list)
    anchor: Annotated[str, Field(description=_ANCHOR)] = "newest"
    since: Annotated[str | None, Field(description="ISO date, e.g. 2026-03-31.")] = None
    limit: Annotated[int, Field(ge=1, le=100)] = 20
    cursor: Cursor = None
    wait_seconds: Annotated[int, Field(ge=0, le=LONGEST_WAIT_S, description=_WAIT)] = 0
    journey_id: InJourney = None


class FindPeopleArguments(Arguments):
    """Arguments of zulip_find_people."""

    query: Annotated[str, Field(max_length=200)] = ""
    journey_id: InJourney = None


class SearchMessagesArguments(Arguments):
    """Arguments of zulip_search_messages."""

    query: Annotated[str, Field(min_length=1, max_length=1_000)]
    channel: str | None = None
    topic: str | None = None
    sender: str | None = None
    limit: Annotated[int, Field(ge=1, le=100)] = 20
    cursor: Cursor = None
    journey_id: InJourney = None


class SendArguments(Arguments):
    """Arguments of zulip_send_message."""

    channel: str | None = None
    topic: str | None = None
    people: People = Field(default_factory=list)
    text: Annotated[
        str, Field(min_length=1, max_length=LONGEST_TEXT, description="Markdown; cite a page as kb:guides/backup.md.")
    ]
    too_long: Annotated[Literal["split", "refuse"], Field(description="For a text over 10,000 characters.")] = "split"
    file: Annotated[str | None, Field(description="kb:page to attach, or a file name: sends text as that file.")] = None
    send_at: Annotated[str | None, Field(description="ISO time with zone.")] = None
    dry_run: DryRun = False
    journey_id: InJourney = None


class ReactArguments(Arguments):
    """Arguments of zulip_react."""

    message_id: Annotated[int, Field(ge=1)]
    emoji: Annotated[str, Field(min_length=1, max_length=100, description="Emoji name, e.g. eyes.")]
    remove: bool = False
    dry_run: DryRun = False
    journey_id: InJourney = None


class ChatUpdateArguments(Arguments):
    """Arguments of zulip_update."""

    message_id: Annotated[int | None, Field(description="Yours. With read: the last read, or first unread.")] = None
    text: str | None = None
    delete: bool | None = None
    scheduled_id: int | None = None
    channel: str | None = None
    topic: str | None = None
    new_topic: str | None = None
    new_channel: str | None = None
    resolved: bool | None = None
    read: bool | None = None
    subscribed: bool | None = None
    dry_run: DryRun = False
    journey_id: InJourney = None


@dataclass(frozen=True, slots=True)
class ChannelLine:
    """A channel."""

    name: str
    description: str
    private: bool


@dataclass(frozen=True, slots=True)
class PlaceLine:
    """A topic (`channel/topic`) or conversation, the time of its newest message ("" if it is not known), and unread messages."""

    place: str
    at: str
    unread: int
    resolved: bool


@dataclass(frozen=True, slots=True)
class Channels:
    """Channels by name; topics, newest first, only if one channel was asked for. `places` are these topics, or all unread places."""

    channels: Sequence[ChannelLine]
    topics: Sequence[str]
    places: Sequence[PlaceLine]
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
    """Messages, oldest first. `next_cursor` continues where these end; `note` says in which direction, and what was cut."""

    messages: Sequence[MessageLine]
    next_cursor: str | None
    tainted: bool
    note: str | None = None


@dataclass(frozen=True, slots=True)
class ReadMessages(Messages):
    """Messages, and the text of a file if that was asked for. In that case the only message is the one with the file."""

    file: str | None = None


@dataclass(frozen=True, slots=True)
class PersonLine:
    """A user; `email` is "" if it is not shown, `role` a word such as member or guest."""

    id: int
    name: str
    email: str
    role: str
    bot: bool
    active: bool


@dataclass(frozen=True, slots=True)
class PeopleFound:
    """People, the best match first, and groups with their number of members, such as `backend: 14 members`."""

    people: Sequence[PersonLine]
    groups: Sequence[str]
    note: str | None = None


@dataclass(frozen=True, slots=True)
class MessageActed:
    """The outcome of a message or reaction. `preview` is what would be sent, part by part, as people read it."""

    status: ActStatus
    proposal: Mapping[str, Any] | None
    place: str | None
    message_ids: Sequence[int]
    url: str | None
    preview: str | None = None
    note: str | None = None


@dataclass(frozen=True, slots=True)
class ChatUpdated:
    """The outcome of a change. `preview` is what would change; `undo` is the call that undoes it, or why nothing undoes it."""

    status: ActStatus
    proposal: Mapping[str, Any] | None
    place: str = ""
    url: str = ""
    preview: str = ""
    undo: str = ""
    note: str = ""
