"""Whether a server's search finds words inside text that is written without spaces, such as Chinese, Japanese and Thai.

Zulip's own index takes a run of such letters for one word. With the extension PGroonga it finds parts of it. No reply
says which index a server has, so an existing message is searched for by two letters from its middle.

Source: https://zulip.readthedocs.io/en/latest/subsystems/full-text-search.html
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from datetime import timedelta

from knowledge.search.query.analysis import is_part_of_a_run
from mcp_server.connectors.zulip.chat import Chat
from mcp_server.connectors.zulip.model import ChatPlace

NEWEST = 100
"""The newest messages of each place that are considered for the trial search."""
INDEXED_AFTER = timedelta(minutes=1)
"""Zulip indexes a message some moments after it was sent."""
MOST_PLACES = 2


def is_unspaced(text: str) -> bool:
    """Return whether the text has letters of a script without spaces."""
    return any(map(is_part_of_a_run, text))


async def finds_inside(chat: Chat, places: Sequence[ChatPlace]) -> bool | None:
    """Return whether the server's search finds words inside such text; None if there is no message to try it with."""
    if chat.finds_inside is not None:
        return chat.finds_inside
    for where in places[:MOST_PLACES]:
        window = await chat.client.messages(where, before=NEWEST)
        for message in reversed(window.messages):
            inner = next(_inner_words(message.text), None)
            if inner is None or chat.now() - message.at < INDEXED_AFTER:
                continue
            found = await chat.client.messages(where, anchor=message.id, search=inner)
            chat.finds_inside = any(one.id == message.id for one in found.messages)
            return chat.finds_inside
    return None


def _inner_words(text: str) -> Iterator[str]:
    """Yield two letters from the middle of each run, with others of such a script on both sides."""
    for run in re.findall(r"\w{4,}", text):
        middle = len(run) // 2
        around = run[middle - 2 : middle + 2]
        # Elsewhere in the text, the same two letters could be a separate word.
        if all(map(is_part_of_a_run, around)) and text.count(around[1:3]) == 1:
            yield around[1:3]
