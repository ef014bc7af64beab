"""What places in a chat are called: in answers, in origins of text, in evidence. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from mcp_server.connectors.text.name_match import folded
from mcp_server.connectors.zulip.model import Where

DIRECT = "direct"
"""What conversations between people are called where a channel's name would stand."""
RESOLVED = "✔ "
"""What Zulip puts before a topic that is marked as resolved. Source: https://zulip.com/help/resolve-a-topic."""


def place_of(where: Where) -> str:
    """Return the place as people say it: `channel/topic`, the channel, or `direct/` and the people's names."""
    if where.channel is not None:
        channel = channel_word(where.channel.name)
        return channel if where.topic is None else f"{channel}/{where.topic}"
    return f"{DIRECT}/{', '.join(sorted(person.name for person in where.people))}"


def channel_word(name: str) -> str:
    """Return a channel's name as it stands before a slash, so that no channel passes for another one, or for a conversation."""
    if "%2f" in name.lower():
        name = name.replace("%", "%25")
    word = name.replace("/", "%2F")
    return f"%{ord(word[0]):02X}{word[1:]}" if folded(word) == DIRECT else word


def topic_names(topic: str) -> Sequence[str]:
    """Return by what a topic is asked for: as it is, or without the mark that it is resolved."""
    return (topic, topic.removeprefix(RESOLVED)) if topic.startswith(RESOLVED) else (topic,)
