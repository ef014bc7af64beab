"""A notice on which reactions count: its record in the outbox, its posting, and the check that nobody else changed it.

Zulip says who reacted but not when. So a reaction counts only on a message that nobody but the server has changed since it was
posted, and only if it cannot be older than the time from which it counts. Decision 38 has the reasons.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Final

from mcp_server.connectors.outbox_dispatcher import DeliveryAttempt, Json
from mcp_server.connectors.zulip.client import ZulipClient
from mcp_server.connectors.zulip.model import ChatPlace, Message, Reaction
from mcp_server.connectors.zulip.text.place_names import topic_names
from mcp_server.connectors.zulip.wire import MOST_MESSAGES

ReactionKey = tuple[int, str]
"""The accounts that reacted, by id, and their emoji, by code points."""

# The marks of a notice's outbox entry.
HASH: Final = "hash"
"""The hash of the proposal."""
SAYS, SHOWN, NEXT = "says", "shown", "next"
"""Digests of the message's text: as it should be, after our last change, and after the change that is about to be made."""
STAMP, PLACE = "stamp", "place"
TOUCHED, LISTED, IGNORED = "touched", "listed", "ignored"


@dataclass(frozen=True, slots=True)
class Card:
    """A notice on which reactions count, by the marks of the outbox entry that posted it."""

    proposal: str
    outbox_entry: str
    marks: Mapping[str, str]

    @property
    def hash(self) -> str:
        """The hash of the proposal when the notice was posted."""
        return self.marks.get(HASH, "")

    @property
    def touched(self) -> bool:
        """Whether somebody else has ever changed the message."""
        return bool(self.marks.get(TOUCHED))

    @property
    def listed(self) -> frozenset[str]:
        """The addresses whose reactions counted when the notice was last updated."""
        return frozenset(json.loads(self.marks.get(LISTED, "[]")))

    @property
    def ignored(self) -> frozenset[ReactionKey]:
        """The reactions that decide nothing until they are removed: refused ones, and those given before reactions counted."""
        return frozenset((int(user), str(code)) for user, code in json.loads(self.marks.get(IGNORED, "[]")))

    def is_untouched(self, message: Message) -> bool:
        """Return whether the message is where it was posted and has our text, and nobody changed it in between."""
        says, shown, next_ = text_digest(message.text), self.marks.get(SHOWN), self.marks.get(NEXT)
        if PLACE in self.marks and self.marks[PLACE] != place_mark(message.channel_id, message.topic):
            return False
        if next_ and next_ != shown and says == next_:
            # A process died between changing the text and recording the time of that change.
            return True
        return says == shown and self.marks.get(STAMP, stamp_of(message)) == stamp_of(message)


class PostNotice:
    """Posts one notice. Zulip takes no key for a message, so it is found again by its text, which contains the proposal's id."""

    keyed = False

    def __init__(
        self, client: ZulipClient, where: ChatPlace, text: str, marks: Mapping[str, str], *, after: int
    ) -> None:
        self._client, self._where, self._text, self._marks, self._after = client, where, text, marks, after

    async def send(self, attempt: DeliveryAttempt) -> Json:
        """Post the notice and return its message id."""
        says = text_digest(self._text)
        newest = attempt.marks.get("newest") or str(self._after)
        await attempt.mark({**self._marks, SAYS: says, SHOWN: says, "newest": newest})
        return {"message_id": await self._client.send(self._where, self._text)}

    async def look(self, attempt: DeliveryAttempt) -> Json | None:
        """Return the notice's message id if it was posted; None if not.

        Every topic is searched, because somebody may have moved it.
        """
        window = await self._client.messages(
            replace(self._where, topic=None),
            anchor=int(attempt.marks.get("newest") or 0),
            after=MOST_MESSAGES,
            with_anchor=False,
            sender=await self._client.me(),
        )
        found = [one.id for one in window.messages if text_digest(one.text) == attempt.marks.get(SHOWN)]
        return {"message_id": found[0]} if found else None


def text_digest(text: str) -> str:
    """Return the SHA-256 of a text, hexadecimal."""
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def first_marks(where: ChatPlace, hash_: str, listed: Iterable[str]) -> dict[str, str]:
    """Return the marks of a notice before it is posted."""
    channel = where.channel.id if where.channel else None
    place = place_mark(channel, where.topic or "")
    return {HASH: hash_, STAMP: "0/0", PLACE: place, **listed_mark(listed)}


def stamp_of(message: Message) -> str:
    """Return a mark for the time of the message's last change."""
    return f"{message.edited_s}/{message.moved_s}"


def place_mark(channel_id: int | None, topic: str) -> str:
    """Return a mark for the place of a message. Resolving a topic does not change it."""
    return f"{channel_id}/{topic_names(topic)[-1]}"


def listed_mark(names: Iterable[str]) -> dict[str, str]:
    """Return the mark that lists the addresses whose reactions count."""
    return {LISTED: json.dumps(sorted(names))}


def ignored_mark(reactions: Collection[ReactionKey]) -> dict[str, str]:
    """Return the mark of the reactions that decide nothing."""
    return {IGNORED: json.dumps(sorted(reactions))}


def key_of(reaction: Reaction) -> ReactionKey:
    """Return the identity of a reaction among those on one message."""
    return reaction.user_id, reaction.code
