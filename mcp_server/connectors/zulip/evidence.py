"""A topic or message as evidence for a merge: checked to be at the cited place, with its author, time and address."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from knowledge.errors import NoSuchSource, SourceAway
from knowledge.writing.evidence.sources import Fetched, SourceEntry
from mcp_server.connectors.errors import ConnectorError, Missing
from mcp_server.connectors.text.name_match import folded
from mcp_server.connectors.zulip.chat import Chat
from mcp_server.connectors.zulip.model import Channel, ChatPlace, Message
from mcp_server.connectors.zulip.text.links import number_of
from mcp_server.connectors.zulip.text.place_names import channel_word, topic_names

MOST_MESSAGES = 100
"""The newest messages of a topic that are fetched; older ones can be cited one by one."""


async def fetch(chat: Chat, locator: str) -> Fetched:
    """Return one message (`channel/topic/message`), or the newest of a topic (`channel/topic`).

    Upper and lower case in names make no difference; a channel or topic may itself contain a slash.

    Raises:
        NoSuchSource: there is no such message or topic, or it may not be read.
        SourceAway: Zulip cannot be reached now.
    """
    source = f"zulip:{locator}"
    try:
        channel, rest = await _find_channel(chat, locator)
        if channel is None or not rest:
            why = "write zulip:channel/topic or zulip:channel/topic/message, of a channel that may be used"
            raise NoSuchSource(source, why)
        topic, _, number = rest.rpartition("/")
        if topic and (message_id := number_of(number)):
            # In addresses of Zulip `near/` precedes the id.
            message = await _find_message(chat, channel, topic.removesuffix("/near"), message_id)
            if message is not None:
                fetched = await _fetched(chat, channel, [message], await chat.url_of(message), f"/{number}")
                return replace(fetched, single=True)
        # A topic may end in a number, such as `releases/2026`.
        name = await _find_topic(chat, channel, rest)
        if name is None:
            why = f"#{channel.name} has no such topic, or the message is not in it; see zulip_read_messages"
            raise NoSuchSource(source, why)
        window = await chat.client.messages(ChatPlace(channel, name), anchor="newest", before=MOST_MESSAGES)
        messages = [message for message in window.messages if chat.allows(message)]
        if not messages:
            raise NoSuchSource(source, "the topic has no message that can be read")
        fetched = await _fetched(chat, channel, messages, await chat.url_of_topic(channel, name))
        return replace(fetched, truncated=not window.found_oldest)
    except ConnectorError as error:
        raise SourceAway(source, str(error)) from error


async def _find_channel(chat: Chat, locator: str) -> tuple[Channel | None, str]:
    """Return the channel, the one with the longest name if several could be meant, and the text after it."""
    parts = locator.strip().removeprefix("#").split("/")
    for fresh in (False, True):
        channels = await chat.channels(fresh=fresh)
        by_name = {folded(name): one for one in channels for name in (channel_word(one.name), one.name)}
        for count in range(len(parts) - 1, 0, -1):
            found = by_name.get(folded("/".join(parts[:count])))
            if found is not None:
                return found, "/".join(parts[count:]).strip()
    return None, ""


async def _find_message(chat: Chat, channel: Channel, topic: str, number: int) -> Message | None:
    """Return the message if it is in that topic: nobody may cite it as said elsewhere."""
    try:
        message = await chat.message(number)
    except Missing:
        return None
    in_topic = folded(_unresolved(topic)) == folded(_unresolved(message.topic))
    return message if message.channel_id == channel.id and in_topic else None


async def _find_topic(chat: Chat, channel: Channel, asked: str) -> str | None:
    """Return the topic of that name, or the same topic if it has since been resolved or reopened."""
    topics = [topic.name for topic in await chat.topics(channel)]
    exact = next((name for name in topics if folded(name) == folded(asked)), None)
    wanted = folded(_unresolved(asked))
    return exact or next((name for name in topics if folded(_unresolved(name)) == wanted), None)


def _unresolved(topic: str) -> str:
    return topic_names(topic)[-1]


async def _fetched(chat: Chat, channel: Channel, messages: Sequence[Message], url: str, behind: str = "") -> Fetched:
    me = await chat.me()
    # A bot's messages were sent from here: a host could cite itself. The owner of a person's key writes by hand, too.
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
        statements="\n\n".join(message.text for message in others),
        kind="Thread in Zulip",
        entries=tuple(
            [
                SourceEntry(
                    "Messages",
                    f"message {message.id}",
                    message.text,
                    message.sender,
                    message.at,
                    await chat.url_of(message),
                )
                for message in others
            ]
        ),
    )
