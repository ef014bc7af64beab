"""What people said in a topic, as evidence: verified to be where it is said to be, with who said it, when, and where to see it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from knowledge.errors import NoSuchSource, SourceAway
from knowledge.writing.evidence.sources import Fetched
from mcp_server.connectors.errors import ConnectorError, Missing
from mcp_server.connectors.text.name_match import folded
from mcp_server.connectors.zulip.model import Channel, Message, Where
from mcp_server.connectors.zulip.text.links import number_of
from mcp_server.connectors.zulip.text.place_names import channel_word, topic_names

if TYPE_CHECKING:
    from mcp_server.connectors.zulip.chat import Chat

MOST_MESSAGES = 100
"""The newest of a topic: what was said long before is cited by its message."""


async def fetched(chat: Chat, locator: str) -> Fetched:
    """Return what stands at `channel/topic/message`, one message, or `channel/topic`, the newest of the topic.

    Names are those of Zulip in any case; a channel or topic may itself hold a slash.

    Raises:
        NoSuchSource: there is no such message or topic, or none that may be used.
        SourceAway: Zulip cannot be asked now.
    """
    source = f"zulip:{locator}"
    try:
        channel, rest = await _channel(chat, locator)
        if channel is None or not rest:
            raise NoSuchSource(
                source, "write zulip:channel/topic or zulip:channel/topic/message, of a channel that may be used"
            )
        topic, _, number = rest.rpartition("/")
        if topic and (message_id := number_of(number)):
            message = await _message(chat, channel, topic.removesuffix("/near"), message_id)
            if message is not None:
                return await _told(chat, channel, [message], await chat.url_of(message), f"/{number}")
        name = await _topic(chat, channel, rest)
        if name is None:
            raise NoSuchSource(
                source, f"#{channel.name} has no such topic, or the message is not in it; see zulip_read_messages"
            )
        window = await chat.client.messages(Where(channel, name), anchor="newest", before=MOST_MESSAGES)
        said = [message for message in window.messages if chat.allows(message)]
        if not said:
            raise NoSuchSource(source, "nothing that can be read was said there")
        return await _told(chat, channel, said, await chat.url_of_topic(channel, name))
    except ConnectorError as error:
        raise SourceAway(source, str(error)) from error


async def _channel(chat: Chat, locator: str) -> tuple[Channel | None, str]:
    """Return the channel, the one with the longest name where several could be meant, and what stands behind it."""
    parts = locator.strip().removeprefix("#").split("/")
    for channels in (await chat.channels(), await chat.channels(fresh=True)):
        by_name = {folded(name): one for one in channels for name in (channel_word(one.name), one.name)}
        for count in range(len(parts) - 1, 0, -1):
            found = by_name.get(folded("/".join(parts[:count])))
            if found is not None:
                return found, "/".join(parts[count:]).strip()
    return None, ""


async def _message(chat: Chat, channel: Channel, topic: str, number: int) -> Message | None:
    """Return the message if it is in that topic."""
    try:
        message = await chat.message(number)
    except Missing:
        return None
    named = folded(_unresolved(topic)) == folded(_unresolved(message.topic))
    return message if message.channel_id == channel.id and named else None


async def _topic(chat: Chat, channel: Channel, asked: str) -> str | None:
    """Return the topic of that name; else one that was marked as resolved since, or is not any more."""
    topics = [topic.name for topic in await chat.topics(channel)]
    for form in (folded, lambda name: folded(_unresolved(name))):
        found = next((name for name in topics if form(name) == form(asked)), None)
        if found is not None:
            return found
    return None


def _unresolved(topic: str) -> str:
    return topic_names(topic)[-1]


async def _told(chat: Chat, channel: Channel, messages: Sequence[Message], url: str, behind: str = "") -> Fetched:
    """Return what others said. A bot says only what is sent from here; who a person's key belongs to writes by hand, too."""
    me = await chat.me()
    others = [message for message in messages if not (me.bot and message.sender_id == me.id)]
    newest = (others or messages)[-1]
    return Fetched(
        "\n\n".join(f"{message.sender}: {message.text}" for message in others),
        newest.at,
        f"#{channel.name} > {newest.topic}",
        url,
        source=f"zulip:{channel_word(channel.name)}/{_unresolved(newest.topic)}{behind}",
        latest=newest.at,
        own=not others,
    )
