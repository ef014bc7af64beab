"""The answers about channels and their topics, and about everything that is unread."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime

from mcp_server.connectors.zulip.chat import Chat
from mcp_server.connectors.zulip.inbox.unread import unread_places
from mcp_server.connectors.zulip.model import Channel, ChatPlace
from mcp_server.connectors.zulip.text.place_names import RESOLVED, place_name
from mcp_server.toolsets.zulip.schemas import ChannelLine, Channels, PlaceLine

MOST_PLACES = 200
NO_CHANNELS = "there are no channels that you may use"
NOTHING_UNREAD = (
    "nothing is unread there: the bot has read everything, or gets no messages because it is not subscribed"
)
INCOMPLETE = "older unread messages are not counted: Zulip lists the newest 50,000"


async def channels(chat: Chat, asked: str | None, *, unread: bool) -> Channels:
    """Return the channels that may be used, or one with its description and topics; with `unread` only what has unread messages.

    The list of channels has only names, so that choosing between them does not expose the model to strangers' texts.
    """
    if asked is not None:
        return await _one(chat, await chat.channel(asked), unread=unread)
    if unread:
        return await _unread(chat)
    lines = [ChannelLine(one.name, "", one.private) for one in await chat.channels(fresh=True)]
    return Channels(lines, (), (), tainted=False, note=None if lines else NO_CHANNELS)


async def _one(chat: Chat, channel: Channel, *, unread: bool) -> Channels:
    topics = await chat.topics(channel)
    found, complete = await unread_places(chat)
    counts = {one.where.topic: len(one.message_ids) for one in found if one.where.channel == channel}
    if unread:
        topics = [topic for topic in topics if counts.get(topic.name)]
    shown, left = topics[:MOST_PLACES], len(topics) - MOST_PLACES
    times = await chat.client.times(ChatPlace(channel), [topic.last_message_id for topic in shown])
    places = [
        _line(ChatPlace(channel, topic.name), times, topic.last_message_id, counts.get(topic.name, 0))
        for topic in shown
    ]
    return Channels(
        [ChannelLine(channel.name, channel.description, channel.private)],
        [topic.name for topic in shown],
        places,
        tainted=True,
        note=_note(
            left, "older topics are left out", NOTHING_UNREAD if unread and not shown else "", complete=complete
        ),
    )


async def _unread(chat: Chat) -> Channels:
    found, complete = await unread_places(chat)
    shown, left = found[:MOST_PLACES], len(found) - MOST_PLACES
    times = await chat.client.times(ChatPlace(unread=True), [one.newest for one in shown])
    places = [_line(one.where, times, one.newest, len(one.message_ids)) for one in shown]
    named = {one.where.channel.name: one.where.channel for one in shown if one.where.channel}
    lines = [ChannelLine(name, "", named[name].private) for name in sorted(named, key=str.casefold)]
    nothing = "" if places else NOTHING_UNREAD
    return Channels(
        lines,
        (),
        places,
        tainted=bool(places),
        note=_note(left, "places with older messages are left out", nothing, complete=complete),
    )


def _line(where: ChatPlace, times: Mapping[int, datetime], newest: int, unread: int) -> PlaceLine:
    at = times.get(newest)
    resolved = where.topic is not None and where.topic.startswith(RESOLVED)
    return PlaceLine(place_name(where), at.astimezone(UTC).isoformat() if at else "", unread, resolved)


def _note(left: int, left_out: str, nothing: str, *, complete: bool) -> str | None:
    notes: Sequence[str] = [f"{left} {left_out}" if left > 0 else "", nothing, "" if complete else INCOMPLETE]
    return "; ".join(filter(None, notes)) or None
