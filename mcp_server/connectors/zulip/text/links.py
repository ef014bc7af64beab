"""Addresses of topics and messages in a browser, made and read. Pure.

A part of such an address is percent-encoded with `.` instead of `%`, so a dot is `.2E`.

Source: https://zulip.com/api/message-formatting#links-to-channels-topics-and-messages, and, for the words that a server
knows, https://zulip.com/api/changelog (feature levels 177 and 250).
"""

from __future__ import annotations

from collections.abc import Sequence
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
_LONGEST_ID = 18  # digits that fit a signed 64-bit integer
_GROUP = 3
"""The address of a conversation says `group` if at least so many people are in it, the reader included."""


@dataclass(frozen=True, slots=True)
class ZulipLink:
    """The parts of an address: a channel by id or, in old ones, by name; its topic; a message; the people of a conversation."""

    channel_id: int | None = None
    channel: str | None = None
    topic: str | None = None
    message_id: int | None = None
    people_ids: tuple[int, ...] = ()


def channel_term(server: ZulipServer) -> str:
    """Return the server's word for a channel."""
    return "channel" if server.level >= CHANNEL_WORD else "stream"


def direct_term(server: ZulipServer) -> str:
    """Return the server's word for a conversation between people."""
    return "dm" if server.level >= DIRECT_WORD else "pm-with"


def link_to(site: str, server: ZulipServer, message: Message) -> str:
    """Return the address of a message in its topic or conversation."""
    if message.channel_id is not None:
        channel = Channel(message.channel_id, message.channel, "", private=False)
        return f"{link_to_topic(site, server, channel, message.topic)}/near/{message.id}"
    ids = {person.id for person in message.people} | {message.sender_id}
    return f"{_conversation(site, server, ids, is_group=len(message.people) >= _GROUP)}/near/{message.id}"


def link_to_topic(site: str, server: ZulipServer, channel: Channel, topic: str | None = None) -> str:
    """Return the address of a topic, or of a channel."""
    path = f"{_base(site)}/{channel_term(server)}/{channel.id}-{_encoded(channel.name.replace(' ', '-'))}"
    return path if topic is None else f"{path}/topic/{_encoded(topic)}"


def link_to_people(site: str, server: ZulipServer, people: Sequence[ZulipUser]) -> str:
    """Return the address of a conversation with these people, the reader not included."""
    return _conversation(site, server, {person.id for person in people}, is_group=len(people) > 1)


def _conversation(site: str, server: ZulipServer, ids: set[int], *, is_group: bool) -> str:
    listed = ",".join(str(number) for number in sorted(ids))
    return f"{_base(site)}/{direct_term(server)}/{listed}-{'group' if is_group else 'dm'}"


def read_link(site: str, url: str) -> ZulipLink | None:
    """Return the thing that `url` names on the server at `site`; None if it is on another server, or names nothing of this kind."""
    try:
        asked, own = urlsplit(url.strip()), urlsplit(site)
    except ValueError:
        return None
    kind, *parts = asked.fragment.split("/")
    if _server(asked) != _server(own) or kind != "narrow":
        return None
    decoded = [unquote(part.replace(".", "%"), errors="replace") for part in parts[1::2]]
    terms = dict(zip(parts[::2], decoded, strict=False))

    def first(names: tuple[str, ...]) -> str | None:
        return next((terms[name] for name in names if name in terms), None)

    channel, people = first(_CHANNEL_WORDS), first(_DIRECT_WORDS)
    message_id = number_of(first(_MESSAGE_WORDS) or "")
    if channel is None and people is None and message_id is None:
        return None
    # `25-kb-test` and `3,7-dm`: only the numbers before the dash count.
    channel_id = number_of((channel or "").split("-", 1)[0])
    ids = [number_of(part) for part in (people or "").split("-", 1)[0].split(",")]
    return ZulipLink(
        channel_id=channel_id,
        channel=channel if channel_id is None else None,
        topic=first(_TOPIC_WORDS),
        message_id=message_id,
        people_ids=tuple(number for number in ids if number is not None),
    )


def _server(parts: SplitResult) -> tuple[str, str, str]:
    return parts.scheme, parts.netloc.lower(), parts.path.strip("/")


def _base(site: str) -> str:
    return f"{site.rstrip('/')}/#narrow"


def number_of(text: str) -> int | None:
    """Return the text as an id; None if it is not a number, or longer than any id."""
    return int(text) if text.isascii() and text.isdigit() and len(text) <= _LONGEST_ID else None


def _encoded(text: str) -> str:
    return quote(text, safe="").replace(".", "%2E").replace("%", ".")
