"""What is on record of a notice that people may react to, and whether its message is still as the server left it. Pure.

Zulip says who reacted and not when. So a reaction counts only on a message that nobody but the server has changed since it was
posted, and only if it cannot be from before it counted.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from mcp_server.approvals.zulip.notice_post import digest_of
from mcp_server.connectors.zulip.model import ChatPlace, Message, Reaction
from mcp_server.connectors.zulip.text.place_names import topic_names

Word = tuple[int, str]
"""Who reacted, by id, and with which emoji, by its code points."""

HASH: Final = "hash"
"""The hash of the proposal that it tells of."""
SAYS, SHOWN, NEXT = "says", "shown", "next"
"""Hashes over its text: as it should be, as it was when we last changed it, and as it is about to be changed."""
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
        """Return the hash of the proposal as it was when the notice was posted."""
        return self.marks.get(HASH, "")

    @property
    def touched(self) -> bool:
        """Return whether somebody else has changed the message, once."""
        return bool(self.marks.get(TOUCHED))

    @property
    def listed(self) -> frozenset[str]:
        """Return the addresses whose reactions counted when it was last looked after."""
        return frozenset(json.loads(self.marks.get(LISTED, "[]")))

    @property
    def ignored(self) -> frozenset[Word]:
        """Return the reactions that decide nothing until they were taken back: refused ones, and those from before they counted."""
        return frozenset((int(user), str(code)) for user, code in json.loads(self.marks.get(IGNORED, "[]")))

    def is_as_left(self, message: Message) -> bool:
        """Return whether the message is where it was posted and says what we wrote, and nobody changed it in between."""
        says, shown, next_ = digest_of(message.text), self.marks.get(SHOWN), self.marks.get(NEXT)
        if PLACE in self.marks and self.marks[PLACE] != place_mark(message.channel_id, message.topic):
            return False
        if next_ and next_ != shown and says == next_:
            return True  # a process that died after it had changed the text, and before it could note when
        return says == shown and self.marks.get(STAMP, stamp_of(message)) == stamp_of(message)


def new_marks(where: ChatPlace, hash_: str, listed: Iterable[str]) -> dict[str, str]:
    """Return what is known of a notice before it is posted."""
    channel = where.channel.id if where.channel else None
    return {
        HASH: hash_,
        STAMP: "0/0",
        PLACE: place_mark(channel, where.topic or ""),
        **listed_mark(listed),
    }


def stamp_of(message: Message) -> str:
    """Return when the message was last changed, as a mark."""
    return f"{message.edited_s}/{message.moved_s}"


def place_mark(channel_id: int | None, topic: str) -> str:
    """Return where a message is, as a mark. A topic that was resolved is the same topic."""
    return f"{channel_id}/{topic_names(topic)[-1]}"


def listed_mark(names: Iterable[str]) -> dict[str, str]:
    """Return the mark of whose reactions count."""
    return {LISTED: json.dumps(sorted(names))}


def ignored_mark(words: Collection[Word]) -> dict[str, str]:
    """Return the mark of the reactions that decide nothing."""
    return {IGNORED: json.dumps(sorted(words))}


def word_of(reaction: Reaction) -> Word:
    """Return what tells a reaction from others on the same message."""
    return reaction.user_id, reaction.code
