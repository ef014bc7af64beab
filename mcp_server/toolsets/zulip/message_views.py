"""The answers of the tools that read, search and wait for messages."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial
from typing import Literal

from knowledge.errors import BadCursor
from knowledge.wire.cursors import question, seal, unseal
from mcp_server.connectors.parallel import in_parallel
from mcp_server.connectors.text.dates import in_utc
from mcp_server.connectors.zulip.chat import Chat
from mcp_server.connectors.zulip.errors import Unclear
from mcp_server.connectors.zulip.inbox.files import file_text, uploaded_path
from mcp_server.connectors.zulip.inbox.replies import wait_for_messages
from mcp_server.connectors.zulip.inbox.search_index import finds_inside, is_unspaced
from mcp_server.connectors.zulip.message_time import LAST_ID, messages_since
from mcp_server.connectors.zulip.model import ChatPlace, Message, MessageWindow
from mcp_server.connectors.zulip.text.links import link_to, number_of, read_link
from mcp_server.connectors.zulip.text.place_names import place_name
from mcp_server.connectors.zulip.wire import Anchor
from mcp_server.toolsets.zulip.channel_views import NOTHING_UNREAD
from mcp_server.toolsets.zulip.schemas import (
    MessageLine,
    Messages,
    ReadMessages,
    ReadMessagesArguments,
    SearchMessagesArguments,
)
from mcp_server.toolsets.zulip.updates.plan import scheduled_place

MOST_CHARACTERS = 40_000
"""The most characters of all texts in one answer. If there are more, each message gets an equal share."""
MOST_AT_ONCE = 4
"""Channels that are searched at the same time."""
SCHEDULED = "scheduled"
"""The anchor that asks for messages that are not sent yet."""
SCHEDULED_IDS = "not sent yet: zulip_update(scheduled_id=..., delete=true) cancels one, by its id here"
ENDS = ("newest", "oldest", "first_unread")
NOTHING = "no messages there"
HIDDEN = "older messages are hidden by the organisation's plan"
MORE_OLDER, NO_OLDER = "next_cursor continues with older messages", "there are no older messages"
MORE_NEWER, NO_NEWER = "next_cursor continues with newer messages", "there are no newer messages"
INSIDE_NOT = "this Zulip's search finds no words inside text without spaces, such as Chinese, Japanese or Thai"
INSIDE_MAYBE = "Zulip's search usually finds no words inside text without spaces, such as Chinese, Japanese or Thai"
INSIDE_REMEDY = "messages may be missing here, so read the topic or search for words that stand alone"
FILE, MORE_OF_FILE = "file", "next_cursor continues the text"
WAIT_AGAIN = "next_cursor with wait_seconds continues to wait"
NO_NEWER_YET = f"there are no newer messages yet; {WAIT_AGAIN}"
CANNOT_WAIT = (
    "wait_seconds waits for newer messages, and this cursor continues with older messages: leave the cursor out, and give the id of "
    "the last message you know as anchor"
)

Direction = Literal["older", "newer", "around"]


@dataclass(frozen=True, slots=True)
class _Start:
    """Where reading begins, and in which direction it goes: at `anchor`, or at the first message since a point in time."""

    where: ChatPlace
    direction: Direction
    anchor: Anchor
    since: datetime | None = None


async def read(chat: Chat, arguments: ReadMessagesArguments) -> ReadMessages:
    """Return messages of a place, oldest first, or the text of a file there.

    Raises:
        Unclear: the arguments do not say which messages.
        BadCursor: the cursor belongs to another call.
    """
    named = arguments.model_dump(include={"channel", "topic", "people", "anchor", "since"})
    key = question({"of": "messages", **named})
    if (path := uploaded_path(chat.site, arguments.anchor)) is not None:
        return await _read_file(chat, arguments, path, key)
    if arguments.wait_seconds:
        return await _read_when_there(chat, arguments, key)
    start = await _start(chat, arguments)
    direction, anchor = _from_cursor(arguments.cursor, key) if arguments.cursor else (start.direction, start.anchor)
    if arguments.cursor is None and start.since is not None:
        window = await messages_since(chat, start.where, start.since, arguments.limit)
    else:
        window = await _window(chat, arguments, start.where, direction, anchor)
    kept = [message for message in window.messages if chat.allows(message)]
    has_more = not (window.found_oldest if direction == "older" else window.found_newest)
    if not kept:
        nothing_unread = arguments.anchor == "first_unread" and not arguments.cursor
        notes = [NOTHING_UNREAD if nothing_unread else NOTHING]
    elif direction == "older":
        notes = [MORE_OLDER if has_more else NO_OLDER]
    else:
        notes = [MORE_NEWER if has_more else NO_NEWER]
        if direction == "around" and not window.found_oldest:
            notes = [f"{notes[0]}; older ones are before anchor {kept[0].id}"]
    if direction == "older" and window.history_limited:
        notes.append(HIDDEN)
    cursor = None
    if has_more and kept:
        # The place of a message, not a number of messages: new ones that arrive between two pages move nothing.
        edge = kept[0] if direction == "older" else kept[-1]
        cursor = seal(key, ("older" if direction == "older" else "newer", edge.id))
    return await _messages(chat, kept, cursor, notes)


async def _read_file(chat: Chat, arguments: ReadMessagesArguments, path: str, key: str) -> ReadMessages:
    """Return a part of the text of a file, with the message that has it."""
    _require_clear(arguments)
    where = await _where(chat, arguments)
    if where is None:
        raise Unclear("also name the channel (and topic) or the people of the message that has the file")
    kind, at = unseal(arguments.cursor, key, str, int) if arguments.cursor else (FILE, 0)
    start = int(at)
    found = await file_text(chat, path, where)
    whole = len(found.text)
    if kind != FILE or not 0 <= start <= whole:
        raise BadCursor(arguments.cursor or "")
    end = min(start + MOST_CHARACTERS, whole)
    part = f"{found.name}: characters {start + 1:,} to {end:,} of {whole:,}" if whole else f"{found.name} is empty"
    notes = [f"{part}; {MORE_OF_FILE}" if end < whole else part]
    cursor = seal(key, (FILE, end)) if end < whole else None
    return replace(await _messages(chat, [found.message], cursor, notes), file=found.text[start:end])


async def _read_when_there(chat: Chat, arguments: ReadMessagesArguments, key: str) -> ReadMessages:
    """Return the messages after an anchor or cursor as soon as there are some. Messages sent by this server's bot don't count."""
    start = await _start(chat, arguments)
    direction, after = _from_cursor(arguments.cursor, key) if arguments.cursor else ("newer", 0)
    if direction == "older":
        raise Unclear(CANNOT_WAIT)
    asked = start.anchor if isinstance(start.anchor, int) else None
    if not arguments.cursor:
        if arguments.since is not None or start.anchor in ("oldest", "first_unread"):
            there = await read(chat, arguments.model_copy(update={"wait_seconds": 0}))
            if there.messages:
                return there
        if asked is not None:
            after = asked
        else:
            newest = await chat.client.messages(start.where, anchor="newest", before=1)
            after = newest.messages[-1].id if newest.messages else 0
    me = await chat.me()
    window = await wait_for_messages(
        chat,
        start.where,
        after,
        longest_s=arguments.wait_seconds,
        limit=arguments.limit,
        counts=lambda message: not (me.bot and message.sender_id == me.id),
        # A message without a channel means the place where that message is, even after somebody moves it.
        beside=asked if arguments.channel is None and not arguments.people else None,
    )
    kept = [message for message in window.messages if chat.allows(message)]
    if not kept:
        notes = [f"nothing came within {arguments.wait_seconds} s; {WAIT_AGAIN}"]
    else:
        notes = [NO_NEWER_YET if window.found_newest else MORE_NEWER]
    # Always a cursor: there may be messages after these at any time.
    return await _messages(chat, kept, seal(key, ("newer", kept[-1].id if kept else after)), notes)


async def scheduled(chat: Chat) -> ReadMessages:
    """Return the bot's messages that Zulip has yet to send, the next one first. Their ids are not those of messages."""
    me = await chat.me()
    lines, failed = list[MessageLine](), list[str]()
    for one in await chat.client.scheduled():
        where = await scheduled_place(chat, one)
        if where is None:
            continue
        url = await chat.url_of_place(where)
        lines.append(MessageLine(one.id, place_name(where), me.name, one.at.isoformat(), one.text, (), url))
        failed += [str(one.id)] if one.failed else []
    notes = [SCHEDULED_IDS if lines else "no messages are scheduled"]
    if failed:
        notes.append(f"Zulip could not send {', '.join(failed)}")
    return ReadMessages(lines, None, tainted=bool(lines), note="; ".join(notes))


async def search(chat: Chat, arguments: SearchMessagesArguments) -> Messages:
    """Return the newest messages with these words, newest last; the cursor continues with older ones.

    With an allow list, each channel on it is searched separately, so that messages elsewhere affect nothing, not even the counts.

    Raises:
        BadCursor: the cursor belongs to another search.
    """
    if arguments.topic is not None and arguments.channel is None:
        raise Unclear("a topic is searched within its channel: name that, too")
    named = arguments.model_dump(include={"channel", "topic", "sender", "query"})
    key = question({"of": "found messages", **named})
    anchor: Anchor = _from_cursor(arguments.cursor, key)[1] if arguments.cursor else "newest"
    sender = await chat.person(arguments.sender) if arguments.sender else None

    async def search_in(where: ChatPlace) -> MessageWindow:
        return await chat.client.messages(
            where,
            anchor=anchor,
            before=arguments.limit,
            # The anchor of a cursor is the oldest message that was shown already.
            with_anchor=not arguments.cursor,
            search=arguments.query,
            sender=sender,
        )

    places = await _places_to_search(chat, arguments)
    windows = await in_parallel([partial(search_in, where) for where in places], at_most=MOST_AT_ONCE)
    found = {message.id: message for window in windows for message in window.messages if chat.allows(message)}
    # The ids of messages grow with time, in all channels together.
    newest = [found[number] for number in sorted(found)][-arguments.limit :]
    has_more = len(found) > len(newest) or any(not window.found_oldest for window in windows)
    cursor = seal(key, ("older", newest[0].id)) if has_more and newest else None
    notes = [(MORE_OLDER if cursor else NO_OLDER) if newest else NOTHING]
    if any(window.history_limited for window in windows):
        notes.append(HIDDEN)
    if is_unspaced(arguments.query) and (inside := await finds_inside(chat, places)) is not True:
        notes.append(f"{INSIDE_MAYBE if inside is None else INSIDE_NOT}: {INSIDE_REMEDY}")
    return await _messages(chat, newest, cursor, notes)


def _from_cursor(cursor: str, key: str) -> tuple[Direction, int]:
    """Return in which direction a cursor continues, and from which message.

    Raises:
        BadCursor: it belongs to another question, or is not a cursor.
    """
    direction, message_id = unseal(cursor, key, str, int)
    if direction not in ("older", "newer"):
        raise BadCursor(cursor)
    return ("older" if direction == "older" else "newer"), int(message_id)


async def _places_to_search(chat: Chat, arguments: SearchMessagesArguments) -> Sequence[ChatPlace]:
    if arguments.channel is not None:
        channel = await chat.channel(arguments.channel)
        topic = await chat.topic(channel, arguments.topic) if arguments.topic is not None else None
        return [ChatPlace(channel, topic)]
    if not chat.limited:
        # A bot's own history covers only the time when it was subscribed, so public channels are searched besides.
        return [ChatPlace(), ChatPlace(public=True)]
    direct = [ChatPlace(direct=True)] if chat.direct_allowed else []
    return [*[ChatPlace(channel) for channel in await chat.channels()], *direct]


async def _start(chat: Chat, arguments: ReadMessagesArguments) -> _Start:
    """Return the beginning of the first page.

    Raises:
        Unclear: the arguments contradict each other, or do not say where to begin.
    """
    _require_clear(arguments)
    where = await _where(chat, arguments)
    if arguments.since is not None:
        try:
            return _Start(where or ChatPlace(), "newer", "oldest", in_utc(arguments.since))
        except ValueError:
            shown = arguments.since[:40]
            why = f"since is an ISO date like 2026-11-20 or 2026-11-20T14:00Z, not {shown!r}"
            raise Unclear(why) from None
    if arguments.anchor in ENDS:
        if where is None:
            raise Unclear("name a channel, or people, or the id or address of a message as anchor")
        if arguments.anchor == "newest":
            return _Start(where, "older", "newest")
        return _Start(where, "newer", "oldest" if arguments.anchor == "oldest" else "first_unread")
    if "://" in arguments.anchor:
        return await _start_at_address(chat, arguments.anchor, where)
    message_id = number_of(arguments.anchor) or 0
    if not 0 < message_id < LAST_ID:
        raise Unclear(f"anchor is {', '.join(ENDS)}, the id of a message or its address, not {arguments.anchor[:60]!r}")
    if where is None:
        where = await chat.place_of(await chat.message(message_id))
    return _Start(where, "around", message_id)


def _require_clear(arguments: ReadMessagesArguments) -> None:
    if arguments.channel is not None and arguments.people:
        raise Unclear("name a channel or people, not both")
    if arguments.topic is not None and arguments.channel is None:
        raise Unclear("a topic is read in its channel: name that, too")
    if arguments.since is not None:
        if arguments.anchor != "newest":
            raise Unclear("since begins at a time and anchor at a message: give only one of them")
        if arguments.channel is None and not arguments.people:
            raise Unclear("since needs a channel or people")


async def _where(chat: Chat, arguments: ReadMessagesArguments) -> ChatPlace | None:
    if arguments.people:
        return ChatPlace(people=await chat.recipients(arguments.people))
    if arguments.channel is None:
        return None
    channel = await chat.channel(arguments.channel)
    return ChatPlace(channel, await chat.topic(channel, arguments.topic) if arguments.topic is not None else None)


async def _start_at_address(chat: Chat, address: str, where: ChatPlace | None) -> _Start:
    """Return where to begin for an address as the anchor: around its message, or at its topic's newest one."""
    link = read_link(chat.site, address)
    if link is None:
        raise Unclear(f"that is not the address of a message or topic on {chat.site}")
    if link.message_id is not None:
        message = await chat.message(link.message_id)
        return _Start(where or await chat.place_of(message), "around", message.id)
    if where is not None:
        return _Start(where, "older", "newest")
    if link.people_ids:
        # The address of a conversation may name the bot, too. If it names nobody else, it is the bot's own
        # conversation.
        others = [number for number in link.people_ids if number != (await chat.me()).id] or link.people_ids
        people = await chat.recipients([str(number) for number in others])
        return _Start(ChatPlace(people=people), "older", "newest")
    channel = await chat.channel(address)
    topic = await chat.topic(channel, link.topic) if link.topic else None
    return _Start(ChatPlace(channel, topic), "older", "newest")


async def _window(
    chat: Chat, arguments: ReadMessagesArguments, where: ChatPlace, direction: Direction, anchor: Anchor
) -> MessageWindow:
    half = arguments.limit // 2
    before, after = {
        "older": (arguments.limit, 0),
        "newer": (0, arguments.limit),
        "around": (half, arguments.limit - 1 - half),  # and the anchor itself
    }[direction]
    if anchor == "first_unread":
        after -= 1  # the anchor itself comes, too
    return await chat.client.messages(
        where, anchor=anchor, before=before, after=after, with_anchor=not arguments.cursor
    )


async def _messages(chat: Chat, messages: Sequence[Message], cursor: str | None, notes: Sequence[str]) -> ReadMessages:
    server = await chat.server() if messages else None
    too_long = sum(len(one.text) for one in messages) > MOST_CHARACTERS
    share = MOST_CHARACTERS // max(1, len(messages)) if too_long else MOST_CHARACTERS
    lines = [
        MessageLine(
            message.id,
            place_name(await chat.place_of(message)),
            message.sender,
            message.at.astimezone(UTC).isoformat(),
            message.text[:share],
            [f"{emoji}: {count}" for emoji, count in Counter(one.emoji for one in message.reactions).items()],
            link_to(chat.site, server, message) if server else "",
        )
        for message in messages
    ]
    cut = [str(message.id) for message in messages if len(message.text) > share]
    if cut:
        more = f" and {len(cut) - 10} more" if len(cut) > 10 else ""
        verb = "are" if len(cut) > 1 else "is"
        ids = ", ".join(cut[:10]) + more
        notes = [
            *notes,
            f"{ids} {verb} cut after {share} characters: to read one in full, pass its id as anchor and limit 1",
        ]
    return ReadMessages(lines, cursor, tainted=bool(lines), note="; ".join(notes) or None)
