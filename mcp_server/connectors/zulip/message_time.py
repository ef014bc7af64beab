"""Where in a place a moment lies: the first message at or after it, on servers that can be asked for that and on others."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

from mcp_server.connectors.zulip.errors import Unclear
from mcp_server.connectors.zulip.model import Where, Window
from mcp_server.connectors.zulip.wire import DATED_ANCHOR

if TYPE_CHECKING:
    from mcp_server.connectors.zulip.chat import Chat

STEP = 100
"""Messages that are looked at with one request on the way to a moment."""
LAST_ID = 2**53


async def since_moment(chat: Chat, where: Where, since: datetime, limit: int) -> Window:
    """Return the first messages at or after a moment; times in Zulip are whole seconds."""
    since = since.replace(microsecond=0)
    server = await chat.server()
    if server.level >= DATED_ANCHOR:
        window = await chat.client.messages(where, anchor=since, after=limit)
    else:
        window = await chat.client.messages(where, anchor=await _first_since(chat, where, since), after=limit)
    fitting = [message for message in window.messages if message.at >= since]
    newest = window.found_newest and len(fitting) <= limit
    return Window(fitting[:limit], found_oldest=False, found_newest=newest, history_limited=window.history_limited)


async def _first_since(chat: Chat, where: Where, since: datetime) -> int:
    """Return an id below which all messages of the place are older than `since`, and from which on none is.

    Ids grow with time, so the place is halved until the moment lies in what one request shows.
    """
    newest = (await chat.client.messages(where, anchor="newest", before=STEP)).messages
    if not newest or newest[-1].at < since:
        return LAST_ID
    low, high = 0, newest[0].id
    if newest[0].at < since:
        return next(message.id for message in newest if message.at >= since)
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


def moment_of(text: str) -> datetime:
    """Return the moment; a day begins at its midnight, and what names no zone is UTC."""
    try:
        moment = datetime.fromisoformat(text.strip())
        return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).astimezone(UTC)
    except (ValueError, OverflowError):  # the latter in the first and the last hours that there are
        raise Unclear(f"since is an ISO date like 2026-11-20 or 2026-11-20T14:00Z, not {text[:40]!r}") from None
