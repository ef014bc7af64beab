"""Planned changes in Zulip: the values for Zulip, and the same as a person reads them. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Literal

from mcp_server.connectors.errors import one_line
from mcp_server.connectors.text.preview import Change, shown_change
from mcp_server.connectors.zulip.model import ChatPlace
from mcp_server.connectors.zulip.text.place_names import place_name
from mcp_server.gate.policy import Trust
from mcp_server.toolsets.service_act import digest_of
from mcp_server.toolsets.zulip.schemas import ChatUpdated

UpdateKind = Literal["edit", "delete", "cancel", "move", "read", "subscribe"]
State = str | tuple[int, str] | bool | None
LONGEST_SENTENCE = 240


@dataclass(frozen=True, slots=True)
class UpdatePlan:
    """The effect of a call that changes what is there.

    Attributes:
        where: The place that the gate compares with what the caller has read; for a move, where the messages go.
        number: The id of the message or scheduled message; of a topic that moves, that of its newest message.
        before: The value now, and `after` the new one: a text (`after` is None if it is deleted), a topic as `(channel id, name)`,
            whether messages are read, or whether the bot is subscribed.
        was_at: The topic that moves.
        merges: A topic of the new name exists, so both become one.
        message_ids: The messages to mark as read or unread.
        due: When a scheduled message would be sent.
        what: The act, as a sentence says it.
        undo: The call that takes the change back, or the reason why no call can.
        halted: The answer of a call that is not carried out: a dry run, or nothing to do.
        quotes: Origins of text that the answer holds, such as the names of topics.
    """

    site: str
    kind: UpdateKind
    where: ChatPlace
    url: str
    what: str
    before: State
    after: State
    undo: str
    number: int = 0
    was_at: ChatPlace | None = None
    merges: bool = False
    message_ids: tuple[int, ...] = ()
    due: datetime | None = None
    note: str = ""
    level: Trust = Trust.NONE
    halted: ChatUpdated | None = None
    quotes: tuple[str, ...] = ()
    arguments_hash: str = ""

    @property
    def place(self) -> str:
        """The topic, channel or conversation in which it takes effect."""
        return place_name(self.where)

    @property
    def destination(self) -> str:
        """The channel or conversation: everybody there can see the change."""
        return f"zulip:{place_name(replace(self.where, topic=None))}"

    @property
    def effect(self) -> str:
        """A hash over what would change. New messages in a topic don't change it."""
        channel, people = self.where.channel, self.where.people
        place = [channel.id if channel else None, self.where.topic, [person.id for person in people]]
        number = 0 if self.kind == "move" else self.number
        states = [list(one) if isinstance(one, tuple) else one for one in (self.before, self.after)]
        return digest_of([self.site, self.kind, place, number, *states, self.merges])


def updated(
    plan: UpdatePlan, status: Literal["done", "unchanged", "analysis", "conflict", "unsure"], note: str = ""
) -> ChatUpdated:
    """Return the answer of the call."""
    return ChatUpdated(
        status,
        None,
        place=plan.place,
        url=plan.url,
        preview=preview(plan) if status == "analysis" else "",
        undo=plan.undo if status in ("done", "analysis") else "",
        note="; ".join(part for part in (plan.note, note) if part),
    )


def preview(plan: UpdatePlan) -> str:
    """Return the change for people: its sentence, and the new text if it changes one."""
    return f"{plan.what}:\n{plan.after}" if isinstance(plan.after, str) else plan.what


def changes(plan: UpdatePlan) -> Sequence[Change]:
    """Return what changes, before and after."""
    if isinstance(plan.before, str):
        after = plan.after if isinstance(plan.after, str) else None
        return [shown_change(f"zulip:{plan.place} message {plan.number}", plan.before, after)]
    if plan.was_at is not None:
        return [shown_change("zulip topic", place_name(plan.was_at), plan.place)]
    words = {"read": ("unread", "read"), "subscribe": ("not subscribed", "subscribed")}[plan.kind]
    return [shown_change(f"zulip:{plan.place}", words[bool(plan.before)], words[bool(plan.after)])]


def sentence(plan: UpdatePlan) -> str:
    """Return the effect of the act in one line."""
    return one_line("; ".join(part for part in (plan.what, plan.note) if part), LONGEST_SENTENCE)
