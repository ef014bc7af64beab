"""Finds the first message at or after a point in time, even on servers that cannot be asked for that."""

from __future__ import annotations

from datetime import datetime

from mcp_server.connectors.zulip.chat import Chat
from mcp_server.connectors.zulip.model import ChatPlace, MessageWindow
from mcp_server.connectors.zulip.wire import DATED_ANCHOR

STEP = 100
"""Messages in one request of the search."""
LAST_ID = 2**53  # above every id, and still exact in JSON


async def messages_since(chat: Chat, where: ChatPlace, since: datetime, limit: int) -> MessageWindow:
    """Return the first messages at or after a point in time."""
    since = since.replace(microsecond=0)  # times in Zulip are whole seconds
    server = await chat.server()
    anchor = since if server.level >= DATED_ANCHOR else await _first_id_since(chat, where, since)
    window = await chat.client.messages(where, anchor=anchor, after=limit)
    fitting = [message for message in window.messages if message.at >= since]
    is_end = window.found_newest and len(fitting) <= limit
    return MessageWindow(
        fitting[:limit], found_oldest=False, found_newest=is_end, history_limited=window.history_limited
    )


async def _first_id_since(chat: Chat, where: ChatPlace, since: datetime) -> int:
    """Return an id: all messages of the place with lower ids are older than `since`, and no others are.

    Ids grow with time, so this is a binary search over ids, until the point in time lies within what one request returns.
    """
    newest = (await chat.client.messages(where, anchor="newest", before=STEP)).messages
    if not newest or newest[-1].at < since:
        return LAST_ID
    if newest[0].at < since:
        return next(message.id for message in newest if message.at >= since)
    # Most questions are about recent messages; from here on it is a binary search.
    low, high = 0, newest[0].id
    while low < high:
        middle = (low + high) // 2
        shown = (await chat.client.messages(where, anchor=middle, after=STEP)).messages
        if not shown or shown[0].at >= since:
            high = middle
        elif shown[-1].at < since:
            low = shown[-1].id + 1
        else:
            return next(message.id for message in shown if message.at >= since)
    return low
