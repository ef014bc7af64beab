"""Planned messages and reactions: the values for Zulip, and the same as a person reads them. Pure."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Literal

from mcp_server.connectors.errors import one_line
from mcp_server.connectors.request.wire import UploadedFile
from mcp_server.connectors.text.dates import to_minute
from mcp_server.connectors.text.preview import Change, shown_change
from mcp_server.connectors.zulip.model import ChatPlace, Message
from mcp_server.connectors.zulip.text.place_names import place_name
from mcp_server.toolsets.service_act import EarlierAct, digest_of
from mcp_server.toolsets.zulip.schemas import MessageActed

LONGEST_SENTENCE = 240
LONGEST_FILE_NAME = 60
_MARKS_OF_LINKS = re.compile(r"[\[\]\\]")
ITS_ADDRESS = "address of the file"
"""Shown in place of the address that Zulip gives a file when it is uploaded."""


@dataclass(frozen=True, slots=True)
class PlannedReaction:
    """An emoji to add to a message, or to remove."""

    message: Message
    emoji: str
    remove: bool


@dataclass(frozen=True, slots=True)
class MessagePlan:
    """The effect of a call in Zulip: send `parts`, or react.

    `place` names the place for people; `url` is its address in a browser. `halted` is the answer of a call that is not
    carried out: a dry run, or nothing to do. `quotes` are the origins of text that the preview holds, such as the names
    of topics. `among_reviews`: it goes to the topic in which the server announces proposals. `notifies` describes whom
    its mentions notify; `to_everybody`: that is everybody in the channel. `file` is uploaded first, and the last part
    ends with a link to it. `page` is the path of the page that the file holds, if it holds one. `send_at` is the time
    at which Zulip will send it; None for now.
    """

    site: str
    where: ChatPlace
    place: str
    url: str
    parts: tuple[str, ...] = ()
    reaction: PlannedReaction | None = None
    note: str | None = None
    halted: MessageActed | None = None
    arguments_hash: str = ""
    quotes: tuple[str, ...] = ()
    among_reviews: bool = False
    notifies: tuple[str, ...] = ()
    to_everybody: bool = False
    file: UploadedFile | None = None
    page: str = ""
    send_at: datetime | None = None

    def texts(self, address: str) -> Sequence[str]:
        """Return the parts with the file's address in the last one."""
        if self.file is None:
            return self.parts
        label = _MARKS_OF_LINKS.sub("_", self.file.name)
        return [*self.parts[:-1], f"{self.parts[-1]}\n\n[{label}]({address})".lstrip("\n")]

    @property
    def destination(self) -> str:
        """The channel or conversation that it goes to: everybody there can read it."""
        return f"zulip:{place_name(replace(self.where, topic=None))}"

    @property
    def target(self) -> str:
        """The topic or conversation that it goes to."""
        return f"zulip:{self.place}"

    @property
    def effect(self) -> str:
        """A hash over what would be sent, and where."""
        if self.reaction is not None:
            return digest_of([self.site, self.reaction.message.id, self.reaction.emoji, self.reaction.remove])
        channel, people = self.where.channel, self.where.people
        place = [channel.id if channel else None, self.where.topic, [person.id for person in people]]
        more: list[object] = []
        if self.file is not None:
            more.append([self.file.name, hashlib.sha256(self.file.content).hexdigest()])
        if self.send_at is not None:
            more.append(self.send_at.isoformat())
        return digest_of([self.site, place, list(self.parts), *more])


def answered(
    plan: MessagePlan, status: Literal["analysis", "unchanged", "unsure"], note: str | None = None
) -> MessageActed:
    """Return the answer of an act that was not, or not certainly, done."""
    ids = [plan.reaction.message.id] if plan.reaction else []
    notes = "; ".join(part for part in (plan.note, note) if part) or None
    shown = preview(plan) if status == "analysis" else None
    return MessageActed(status, None, plan.place, ids, plan.url, preview=shown, note=notes)


def sent_before(plan: MessagePlan, earlier: EarlierAct) -> MessageActed:
    """Return the answer of a call that is done already, because a person approved the same one."""
    then = earlier.answer
    return MessageActed(
        "unchanged",
        None,
        str(then.get("place") or plan.place),
        [int(one) for one in then.get("message_ids") or ()],
        str(then.get("url") or plan.url),
        note=earlier.note,
    )


def preview(plan: MessagePlan) -> str:
    """Return the parts that would be sent."""
    if plan.reaction is not None:
        return f"{'take back ' if plan.reaction.remove else ''}:{plan.reaction.emoji}:"
    parts, count = plan.texts(ITS_ADDRESS), len(plan.parts)
    if count == 1:
        return parts[0]
    return "\n\n".join(f"--- message {number} of {count} ---\n{part}" for number, part in enumerate(parts, 1))


def changes(plan: MessagePlan) -> list[Change]:
    """Return the texts that go out, each as a separate message."""
    if plan.reaction is not None:
        emoji = f":{plan.reaction.emoji}:"
        before, after = (emoji, None) if plan.reaction.remove else (None, emoji)
        return [shown_change(f"{plan.target} reaction to message {plan.reaction.message.id}", before, after)]
    parts, count = plan.texts(ITS_ADDRESS), len(plan.parts)
    shown = [
        shown_change(f"{plan.target} message {number} of {count}" if count > 1 else plan.target, None, part)
        for number, part in enumerate(parts, 1)
    ]
    if plan.file is not None:
        shown.append(shown_change(f"{plan.target} file {plan.file.name}", None, plan.file.content.decode()))
    return shown


def sentence(plan: MessagePlan) -> str:
    """Return the effect of the act in one line: where it goes, and whom it notifies."""
    if plan.where.channel is None:
        place = f"{', '.join(sorted(person.name for person in plan.where.people))} in Zulip"
    else:
        place = f"#{plan.where.channel.name} > {plan.where.topic} in Zulip"
    if plan.reaction is not None:
        message, emoji = plan.reaction.message, plan.reaction.emoji
        verb, to = ("take back", "from") if plan.reaction.remove else ("add", "to")
        text = f"{verb} :{emoji}: {to} message {message.id} of {message.sender} in {place}"
        return one_line(text, LONGEST_SENTENCE)
    what = "a message" if len(plan.parts) == 1 else f"{len(plan.parts)} messages"
    if plan.file is not None:
        what = f"{what} with the file {one_line(plan.file.name, LONGEST_FILE_NAME)}"
    notified = "; ".join(plan.notifies)
    when = f" at {to_minute(plan.send_at)}" if plan.send_at else ""
    # Whom it notifies comes before the place: a long topic's name must not cut it off.
    return one_line(f"send {what}{f' ({notified})' if notified else ''}{when} to {place}", LONGEST_SENTENCE)
