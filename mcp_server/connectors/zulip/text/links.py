"""Addresses of topics and messages, as a person's browser knows them, made and read. Pure.

A part of such an address is percent-encoded, with `.` instead of `%`, so that a dot is `.2E`.

Source: https://zulip.com/api/message-formatting#links-to-channels-topics-and-messages, and, for the words that a server
knows, https://zulip.com/api/changelog (feature levels 177 and 250).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from urllib.parse import SplitResult, quote, unquote, urlsplit

from mcp_server.connectors.zulip.model import Channel, Message, ZulipServer, ZulipUser

CHANNEL_WORD = 250
"""From this feature level on narrows and addresses say `channel`; before it they say `stream`."""
DIRECT_WORD = 177
"""From this feature level on they say `dm`; before it they say `pm-with`."""
_CHANNEL_WORDS = ("channel", "stream")
_TOPIC_WORDS = ("topic", "subject")
_DIRECT_WORDS = ("dm", "pm-with")
_MESSAGE_WORDS = ("near", "id", "with")
_LONGEST_ID = 18
_GROUP = 3


@dataclass(frozen=True, slots=True)
class ZulipLink:
    """What an address names: a channel by id or, in old ones, by name; its topic; a message; the people of a conversation."""

    channel_id: int | None = None
    channel: str | None = None
    topic: str | None = None
    message_id: int | None = None
    people_ids: tuple[int, ...] = ()


def link_to(site: str, server: ZulipServer, message: Message) -> str:
    """Return the address of a message in its topic or conversation."""
    if message.channel_id is not None:
        channel = Channel(message.channel_id, message.channel, "", private=False)
        return f"{link_to_topic(site, server, channel, message.topic)}/near/{message.id}"
    word = "dm" if server.level >= DIRECT_WORD else "pm-with"
    ids = ",".join(str(i) for i in sorted({person.id for person in message.people} | {message.sender_id}))
    return f"{_base(site)}/{word}/{ids}-{'dm' if len(message.people) < _GROUP else 'group'}/near/{message.id}"


def link_to_topic(site: str, server: ZulipServer, channel: Channel, topic: str | None = None) -> str:
    """Return the address of a topic, or of a channel."""
    word = "channel" if server.level >= CHANNEL_WORD else "stream"
    path = f"{_base(site)}/{word}/{channel.id}-{_encoded(channel.name.replace(' ', '-'))}"
    return path if topic is None else f"{path}/topic/{_encoded(topic)}"


def link_to_people(site: str, server: ZulipServer, people: Sequence[ZulipUser]) -> str:
    """Return the address of a conversation with these people, the reader not counted."""
    word = "dm" if server.level >= DIRECT_WORD else "pm-with"
    ids = ",".join(str(person.id) for person in sorted(people, key=lambda one: one.id))
    return f"{_base(site)}/{word}/{ids}-{'dm' if len(people) == 1 else 'group'}"


def read_link(site: str, url: str) -> ZulipLink | None:
    """Return what `url` names on the server at `site`; None where it is of another server, or names nothing of these."""
    try:
        asked, own = urlsplit(url.strip()), urlsplit(site)
    except ValueError:
        return None
    if _place(asked) != _place(own):
        return None
    parts = asked.fragment.split("/")
    if parts[0] != "narrow":
        return None
    words = dict(zip(parts[1::2], map(_decoded, parts[2::2]), strict=False))
    return _read(words)


def _read(words: Mapping[str, str]) -> ZulipLink | None:
    channel = _first(words, _CHANNEL_WORDS)
    people = _first(words, _DIRECT_WORDS)
    message = number_of(_first(words, _MESSAGE_WORDS) or "")
    if channel is None and people is None and message is None:
        return None
    number = number_of((channel or "").split("-", 1)[0])
    ids = [number_of(part) for part in (people or "").split("-", 1)[0].split(",")]
    return ZulipLink(
        channel_id=number,
        channel=channel if number is None else None,
        topic=_first(words, _TOPIC_WORDS),
        message_id=message,
        people_ids=tuple(i for i in ids if i is not None),
    )


def _place(parts: SplitResult) -> tuple[str, str, str]:
    return parts.scheme, parts.netloc.lower(), parts.path.strip("/")


def _base(site: str) -> str:
    return f"{site.rstrip('/')}/#narrow"


def _first(words: Mapping[str, str], names: tuple[str, ...]) -> str | None:
    return next((words[name] for name in names if name in words), None)


def number_of(text: str) -> int | None:
    """Return the id that the text is; None where it is none, or longer than any."""
    return int(text) if text.isascii() and text.isdigit() and len(text) <= _LONGEST_ID else None


def _encoded(text: str) -> str:
    return quote(text, safe="").replace(".", "%2E").replace("%", ".")


def _decoded(text: str) -> str:
    return unquote(text.replace(".", "%"), errors="replace")
