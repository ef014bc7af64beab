"""Posting one notice, and finding it again where nobody knows whether it was posted."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from mcp_server.connectors.outbox_dispatcher import DeliveryAttempt
from mcp_server.connectors.zulip.model import ChatPlace
from mcp_server.connectors.zulip.wire import MOST_MESSAGES

if TYPE_CHECKING:
    from mcp_server.connectors.outbox_dispatcher import Json
    from mcp_server.connectors.zulip.client import ZulipClient


class Posting:
    """Posts one notice. Its text, in which the id of its proposal is, is how it is found among the bot's own messages."""

    keyed = False

    def __init__(
        self, client: ZulipClient, where: ChatPlace, text: str, marks: Mapping[str, str], *, after: int
    ) -> None:
        self._client, self._where, self._text, self._marks, self._after = client, where, text, marks, after

    async def send(self, attempt: DeliveryAttempt) -> Json:
        """Post it and return its id."""
        says = digest_of(self._text)
        newest = attempt.marks.get("newest") or str(self._after)
        await attempt.mark({**self._marks, "says": says, "shown": says, "newest": newest})
        return {"message_id": await self._client.send(self._where, self._text)}

    async def look(self, attempt: DeliveryAttempt) -> Json | None:
        """Return its id if it is there, under whatever topic it is by now."""
        window = await self._client.messages(
            replace(self._where, topic=None),
            anchor=int(attempt.marks.get("newest") or 0),
            after=MOST_MESSAGES,
            with_anchor=False,
            sender=await self._client.me(),
        )
        found = [one.id for one in window.messages if digest_of(one.text) == attempt.marks.get("shown")]
        return {"message_id": found[0]} if found else None


def digest_of(text: str) -> str:
    """Return what tells the text of a notice from any other."""
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
