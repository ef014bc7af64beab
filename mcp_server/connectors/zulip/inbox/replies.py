"""Waits for messages in a place. A queue of events signals when to look; the messages themselves are read as usual.

Events can be missed: a guest gets none from channels that it is not subscribed to, a server restart drops the queue, and a moved
message has no event in its new place. So the place is also looked at every few seconds.

Source: https://zulip.com/api/real-time-events; zerver/lib/narrow_predicate.py of github.com/zulip/zulip (a queue's narrow knows
channels, but no conversations).
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace

import anyio

from mcp_server.connectors.errors import ConnectorError
from mcp_server.connectors.text.name_match import folded
from mcp_server.connectors.zulip.chat import Chat
from mcp_server.connectors.zulip.model import ChatPlace, Message, MessageWindow, Queue
from mcp_server.connectors.zulip.text.place_names import topic_names

LOOK_S = 15.0
"""How often the place is looked at without any event."""
POLL_S = 5.0
"""How often it is looked at without a queue of events. Zulip allows 200 requests a minute."""
REST_S = 0.5
"""The pause after events of other places, so that a busy channel does not cause many requests."""
MOST_QUEUES = 8
"""Waits that hold a connection for events; others look every `POLL_S`. The client has 16 connections, and other calls need some."""
LONGEST_REGISTER_S = 3.0
LONGEST_DROP_S = 2.0
"""The time limit for deleting a queue: Zulip drops it later by itself."""


async def wait_for_messages(
    chat: Chat,
    where: ChatPlace,
    after: int,
    *,
    longest_s: float,
    limit: int,
    counts: Callable[[Message], bool],
    beside: int | None = None,
) -> MessageWindow:
    """Return the first messages of a place after message `after`, as soon as one of them `counts`.

    After `longest_s` seconds the messages so far are returned, possibly none. With `beside`, the place is wherever that
    message is now, even if it is moved during the wait; without it, a topic is followed only when it is resolved.

    Raises:
        ConnectorError: the messages cannot be read.
    """

    async def look() -> MessageWindow:
        return await chat.client.messages(where, anchor=after, after=limit, with_anchor=False)

    window = await look()
    if _is_enough(window, counts):
        return window
    with anyio.move_on_after(longest_s):
        async with _listening(chat, where) as news:
            while True:
                if beside is not None:
                    where = await chat.place_of(await chat.message(beside))
                # Again after the queue was made: a message may have come in between.
                window = await look()
                if _is_enough(window, counts):
                    break
                message = await news(where)
                if message is not None and where.topic is not None:
                    where = replace(where, topic=message.topic)
    return window


def _is_enough(window: MessageWindow, counts: Callable[[Message], bool]) -> bool:
    return any(map(counts, window.messages)) or not window.found_newest


@dataclass
class _Events:
    """Events about a channel's messages, or about all that the bot receives. Without a queue it only waits."""

    chat: Chat
    queue: Queue | None
    after: int = -1

    async def news(self, where: ChatPlace) -> Message | None:
        """Return a new message of the place; None if it is time to look there anyway."""
        if self.queue is None:
            await anyio.sleep(POLL_S)
            return None
        with anyio.move_on_after(LOOK_S):
            while True:
                try:
                    events = await self.chat.client.events(self.queue, self.after, block=True)
                except ConnectorError:
                    self.queue = None
                    return None
                self.after = events.last_event_id
                there = [message for message in events.messages if _is_in(message, where)]
                if there:
                    return there[-1]
                await anyio.sleep(REST_S)
        return None


@asynccontextmanager
async def _listening(chat: Chat, where: ChatPlace) -> AsyncIterator[Callable[[ChatPlace], Awaitable[Message | None]]]:
    """Yield a function that waits until it is time to look at the place again. The queue behind it is deleted afterwards."""
    queue: Queue | None = None
    has_room = chat.listening < MOST_QUEUES
    chat.listening += has_room
    try:
        if has_room:
            # Shielded: after a cancelled registration nobody would know which queue to delete.
            with anyio.move_on_after(LONGEST_REGISTER_S, shield=True):
                try:
                    queue = await chat.client.register(replace(where, topic=None))
                except ConnectorError:
                    queue = None
        yield _Events(chat, queue, queue.last_event_id if queue else -1).news
    finally:
        chat.listening -= has_room
        if queue is not None:
            # Shielded, because a wait mostly ends by being cancelled, and Zulip would keep the queue.
            with anyio.move_on_after(LONGEST_DROP_S, shield=True):
                await chat.client.drop(queue)


def _is_in(message: Message, where: ChatPlace) -> bool:
    if where.channel is None:
        # The bot itself may be named among the people, or not.
        people = {person.id for person in where.people}
        return (
            message.channel_id is None
            and people <= {one.id for one in message.people}
            and (len(message.people) - len(people) <= 1)
        )
    if message.channel_id != where.channel.id:
        return False
    return where.topic is None or folded(topic_names(message.topic)[-1]) == folded(topic_names(where.topic)[-1])
