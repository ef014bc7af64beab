"""Names of places in a chat, as answers, origins of text and evidence write them. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from mcp_server.connectors.text.name_match import folded
from mcp_server.connectors.zulip.model import ChatPlace

DIRECT = "direct"
"""Written instead of a channel's name for conversations between people."""
RESOLVED = "✔ "
"""Zulip's prefix for a topic that is marked as resolved. Source: https://zulip.com/help/resolve-a-topic."""


def place_name(where: ChatPlace) -> str:
    """Return the place as people write it: `channel/topic`, the channel, or `direct/` and the people's names."""
    if where.channel is not None:
        channel = channel_word(where.channel.name)
        return channel if where.topic is None else f"{channel}/{where.topic}"
    return f"{DIRECT}/{', '.join(sorted(person.name for person in where.people))}"


def channel_word(name: str) -> str:
    """Return a channel's name as it is written before a slash.

    No channel can pass for another (`a/b` is written `a%2Fb`) or for a conversation (`direct` is written `%64irect`).
    """
    if "%2f" in name.lower():
        name = name.replace("%", "%25")
    word = name.replace("/", "%2F")
    return f"%{ord(word[0]):02X}{word[1:]}" if folded(word) == DIRECT else word


def topic_names(topic: str) -> Sequence[str]:
    """Return the names of a topic: as it is and, if it is resolved, without that prefix."""
    return (topic, topic.removeprefix(RESOLVED)) if topic.startswith(RESOLVED) else (topic,)
