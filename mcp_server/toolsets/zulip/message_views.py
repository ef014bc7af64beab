"""Looking through channels, reading and searching messages: what the reading tools answer."""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING, Literal

import anyio

from knowledge.errors import KnowledgeError
from knowledge.wire.cursors import question
from mcp_server.connectors.page_mentions import noted
from mcp_server.connectors.zulip.errors import Unclear
from mcp_server.connectors.zulip.message_time import LAST_ID, moment_of, since_moment
from mcp_server.connectors.zulip.model import Message, Where, Window
from mcp_server.connectors.zulip.text.links import link_to, number_of, read_link
from mcp_server.connectors.zulip.text.place_names import DIRECT, channel_word, place_of
from mcp_server.toolsets.zulip.cursors import sealed, unsealed
from mcp_server.toolsets.zulip.schemas import ChannelLine, Channels, MessageLine, Messages

if TYPE_CHECKING:
    from mcp_server.connectors.zulip.chat import Chat
    from mcp_server.connectors.zulip.wire import Anchor
    from mcp_server.ports import ActServices

MOST_TOPICS = 200
MOST_TOLD = 40_000
"""Characters of texts in one answer; where there are more, each message has its share of them."""
MOST_AT_ONCE = 4
ENDS = ("newest", "oldest", "first_unread")
NOTHING = "no messages there"
NOTHING_UNREAD = "nothing unread there: the bot is up to date, or gets no messages of what it did not subscribe to"
HIDDEN = "older messages are hidden by the organisation's plan"

Way = Literal["older", "newer", "around"]


@dataclass(frozen=True, slots=True)
class MessageQuery:
    """Which messages are asked for."""

    channel: str | None = None
    topic: str | None = None
    people: tuple[str, ...] = ()
    anchor: str = "newest"
    since: str | None = None
    limit: int = 20
    cursor: str | None = None

    @property
    def key(self) -> str:
        """Return what tells this question from others, so that a cursor is not taken to another one."""
        told = {"channel": self.channel, "topic": self.topic, "people": self.people}
        return question({"of": "messages", **told, "anchor": self.anchor, "since": self.since})


@dataclass(frozen=True, slots=True)
class Sought:
    """Which words are looked for, and where."""

    query: str
    channel: str | None = None
    topic: str | None = None
    sender: str | None = None
    limit: int = 20
    cursor: str | None = None

    @property
    def key(self) -> str:
        """Return what tells this question from others."""
        told = {"channel": self.channel, "topic": self.topic, "sender": self.sender}
        return question({"of": "found messages", **told, "query": self.query})


@dataclass(frozen=True, slots=True)
class _Start:
    """Where reading begins and which way it goes: at `anchor`, or at the first message since a moment."""

    where: Where
    way: Way
    anchor: Anchor
    since: datetime | None = None


async def channels(chat: Chat, channel: str | None) -> Channels:
    """Return the channels that may be used, or one with what it is for and its topics.

    Without a channel only names are told, so that a choice between channels does not bring in what strangers wrote of each.
    """
    if channel is None:
        lines = [ChannelLine(one.name, "", one.private) for one in await chat.channels(fresh=True)]
        return Channels(lines, (), tainted=False, note=None if lines else "there are no channels that may be used")
    found = await chat.channel(channel)
    topics = [topic.name for topic in await chat.topics(found)]
    left = len(topics) - MOST_TOPICS
    return Channels(
        [ChannelLine(found.name, found.description, found.private)],
        topics[:MOST_TOPICS],
        tainted=True,
        note=f"{left} older topics are left out" if left > 0 else None,
    )


async def read(chat: Chat, asked: MessageQuery) -> Messages:
    """Return messages of a place, oldest first.

    Raises:
        Unclear: the call does not say which messages.
        BadCursor: the cursor belongs to another call.
    """
    start = await _start(chat, asked)
    way, anchor = unsealed(asked.cursor, asked.key) if asked.cursor else (start.way, start.anchor)
    if asked.cursor or start.since is None:
        window = await _window(chat, start.where, way, anchor, asked.limit, after_cursor=bool(asked.cursor))
    else:
        window, way = await since_moment(chat, start.where, start.since, asked.limit), "newer"
    kept = [message for message in window.messages if chat.allows(message)]
    more = _more(window, way)
    unread = asked.anchor == "first_unread" and not asked.cursor
    notes = [_direction(way, kept, more=more, window=window, unread=unread)]
    if way == "older" and window.history_limited:
        notes.append(HIDDEN)
    edge = (kept[0] if way == "older" else kept[-1]).id if kept else None
    cursor = sealed(asked.key, "older" if way == "older" else "newer", edge) if more and edge else None
    return await _told(chat, kept, cursor, notes)


async def search(chat: Chat, sought: Sought) -> Messages:
    """Return the newest messages with these words, newest last; the cursor goes on to older ones.

    With an allow list each channel on it is searched by itself, so that nothing of others, not even their number, counts.

    Raises:
        BadCursor: the cursor belongs to another search.
    """
    if sought.topic is not None and sought.channel is None:
        raise Unclear("a topic is searched within its channel: name that, too")
    anchor: Anchor = unsealed(sought.cursor, sought.key)[1] if sought.cursor else "newest"
    sender = await chat.person(sought.sender) if sought.sender else None
    places = await _places(chat, sought)

    async def one(where: Where) -> Window:
        return await chat.client.messages(
            where,
            anchor=anchor,
            before=sought.limit,
            with_anchor=not sought.cursor,
            search=sought.query,
            sender=sender,
        )

    windows = await _all([partial(one, where) for where in places])
    found = {message.id: message for window in windows for message in window.messages if chat.allows(message)}
    newest = [found[number] for number in sorted(found)][-sought.limit :]
    more = len(found) > len(newest) or any(not window.found_oldest for window in windows)
    cursor = sealed(sought.key, "older", newest[0].id) if more and newest else None
    notes = [("next_cursor continues with older ones" if cursor else "there are no older ones") if newest else NOTHING]
    if any(window.history_limited for window in windows):
        notes.append(HIDDEN)
    return await _told(chat, newest, cursor, notes)


async def _places(chat: Chat, sought: Sought) -> Sequence[Where]:
    """Return where to search: a bot's own messages are those it was subscribed to, so public channels are asked besides."""
    if sought.channel is not None:
        channel = await chat.channel(sought.channel)
        topic = await chat.topic(channel, sought.topic) if sought.topic is not None else None
        return [Where(channel, topic)]
    if not chat.limited:
        return [Where(), Where(public=True)]
    direct = [Where(direct=True)] if chat.direct_allowed else []
    return [*[Where(channel) for channel in await chat.channels()], *direct]


async def _start(chat: Chat, asked: MessageQuery) -> _Start:
    """Return where the first page begins."""
    _see_that_it_is_clear(asked)
    where = await _where(chat, asked)
    if asked.since is not None:
        return _Start(where or Where(), "newer", "oldest", moment_of(asked.since))
    if asked.anchor in ENDS:
        if where is None:
            raise Unclear("name a channel, or people, or the id or address of a message as anchor")
        if asked.anchor == "newest":
            return _Start(where, "older", "newest")
        return _Start(where, "newer", "oldest" if asked.anchor == "oldest" else "first_unread")
    if "://" in asked.anchor:
        return await _from_address(chat, asked.anchor, where)
    message_id = number_of(asked.anchor) or 0
    if not 0 < message_id < LAST_ID:
        raise Unclear(f"anchor is {', '.join(ENDS)}, the id of a message or its address, not {asked.anchor[:60]!r}")
    if where is None:
        where = await chat.where_of(await chat.message(message_id))
    return _Start(where, "around", message_id)


def _see_that_it_is_clear(asked: MessageQuery) -> None:
    if asked.channel is not None and asked.people:
        raise Unclear("name a channel or people, not both")
    if asked.topic is not None and asked.channel is None:
        raise Unclear("a topic is read in its channel: name that, too")
    if asked.since is not None:
        if asked.anchor != "newest":
            raise Unclear("since begins at a moment and anchor at a message: give one of them")
        if asked.channel is None and not asked.people:
            raise Unclear("since needs a channel or people")


async def _where(chat: Chat, asked: MessageQuery) -> Where | None:
    if asked.people:
        return Where(people=await chat.somebody(asked.people))
    if asked.channel is None:
        return None
    channel = await chat.channel(asked.channel)
    return Where(channel, await chat.topic(channel, asked.topic) if asked.topic is not None else None)


async def _from_address(chat: Chat, address: str, where: Where | None) -> _Start:
    """Return where to begin when an address is the anchor: around its message, or at the newest of its topic."""
    link = read_link(chat.site, address)
    if link is None:
        raise Unclear(f"that is no address of a message or topic on {chat.site}")
    if link.message_id is not None:
        message = await chat.message(link.message_id)
        return _Start(where or await chat.where_of(message), "around", message.id)
    if where is not None:
        return _Start(where, "older", "newest")
    if link.people_ids:
        others = [number for number in link.people_ids if number != (await chat.me()).id]
        return _Start(Where(people=await chat.people_by_id(others or link.people_ids)), "older", "newest")
    channel = await chat.channel(address)
    topic = await chat.topic(channel, link.topic) if link.topic else None
    return _Start(Where(channel, topic), "older", "newest")


async def _window(chat: Chat, where: Where, way: Way, anchor: Anchor, limit: int, *, after_cursor: bool) -> Window:
    before, after = {"older": (limit, 0), "newer": (0, limit), "around": (limit // 2, limit - 1 - limit // 2)}[way]
    if anchor == "first_unread":
        after -= 1  # the anchor itself comes besides
    return await chat.client.messages(where, anchor=anchor, before=before, after=after, with_anchor=not after_cursor)


def _more(window: Window, way: Way) -> bool:
    return not (window.found_oldest if way == "older" else window.found_newest)


def _direction(way: Way, messages: Sequence[Message], *, more: bool, window: Window, unread: bool) -> str:
    if not messages:
        return NOTHING_UNREAD if unread else NOTHING
    if way == "older":
        return "next_cursor continues with older ones" if more else "there are no older ones"
    newer = "next_cursor continues with newer ones" if more else "there are no newer ones"
    if way == "around" and not window.found_oldest:
        return f"{newer}; older ones are before anchor {messages[0].id}"
    return newer


async def _told(chat: Chat, messages: Sequence[Message], cursor: str | None, notes: Sequence[str]) -> Messages:
    server = await chat.server() if messages else None
    share = MOST_TOLD // max(1, len(messages)) if sum(len(one.text) for one in messages) > MOST_TOLD else MOST_TOLD
    cut = [message.id for message in messages if len(message.text) > share]
    lines = [
        MessageLine(
            message.id,
            place_of(await chat.where_of(message)),
            message.sender,
            message.at.astimezone(UTC).isoformat(),
            message.text[:share],
            _reactions(message),
            link_to(chat.site, server, message) if server else "",
        )
        for message in messages
    ]
    if cut:
        notes = [*notes, f"{_ids(cut)} cut after {share} characters: read one with its id as anchor and limit 1"]
    return Messages(lines, cursor, tainted=bool(lines), note="; ".join(notes) or None)


def _ids(ids: Sequence[int]) -> str:
    shown = ", ".join(str(number) for number in ids[:10])
    return f"{shown} and {len(ids) - 10} more are" if len(ids) > 10 else f"{shown} {'are' if len(ids) > 1 else 'is'}"


def _reactions(message: Message) -> Sequence[str]:
    return [f"{emoji}: {count}" for emoji, count in Counter(one.emoji for one in message.reactions).items()]


async def _all(asks: Sequence[Callable[[], Awaitable[Window]]]) -> list[Window]:
    """Return what each answers, in order; few are asked at a time, and the first that fails ends it."""
    found: dict[int, Window] = {}
    failed: list[KnowledgeError] = []
    room = anyio.CapacityLimiter(MOST_AT_ONCE)

    async def ask(number: int) -> None:
        async with room:
            try:
                found[number] = await asks[number]()
            except KnowledgeError as error:
                failed.append(error)
                tasks.cancel_scope.cancel()

    async with anyio.create_task_group() as tasks:
        for number in range(len(asks)):
            tasks.start_soon(ask, number)
    if failed:
        raise failed[0]
    return [found[number] for number in range(len(asks))]


def origins(told: Messages | Channels) -> Sequence[str]:
    """Return where the text in an answer comes from."""
    if isinstance(told, Messages):
        return tuple(dict.fromkeys(f"zulip:{line.place}" for line in told.messages))
    return tuple(f"zulip:{channel_word(line.name)}" for line in told.channels) if told.tainted else ()


async def remember_mentions(services: ActServices, told: Messages) -> None:
    """Remember which pages the topics in an answer name. What people say to each other in private names none for others."""
    texts: dict[str, list[MessageLine]] = {}
    for line in told.messages:
        texts.setdefault(line.place, []).append(line)
    for place, lines in texts.items():
        if not place.startswith(f"{DIRECT}/"):
            title = f"#{place.replace('/', ' > ', 1)}"
            said = [line.text for line in lines]
            await noted(services, f"zulip:{place}", url=lines[-1].url, texts=said, title=title)
