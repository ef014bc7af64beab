"""Planned messages and reactions: what Zulip would get, and the same as a person reads it. Pure."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

from mcp_server.connectors.errors import one_line
from mcp_server.connectors.text.preview import Change, shown_change
from mcp_server.connectors.zulip.model import ChatPlace, Message
from mcp_server.connectors.zulip.text.place_names import place_name
from mcp_server.toolsets.service_act import EarlierAct, digest_of
from mcp_server.toolsets.zulip.schemas import MessageActed

LONGEST_SENTENCE = 240


@dataclass(frozen=True, slots=True)
class PlannedReaction:
    """An emoji to add to a message, or to remove."""

    message: Message
    emoji: str
    remove: bool


@dataclass(frozen=True, slots=True)
class MessagePlan:
    """The effect of a call in Zulip: send `parts`, or react.

    `place` is where, as people write it; `url` is where they see it. `halted` is the answer of a call that is not carried out: a
    dry run, or nothing to do. `quotes` are the origins of text that the preview holds, such as the names of topics.
    `among_reviews`: it goes to the topic in which the server announces proposals. `notifies` says in words whom its mentions notify,
    `to_everybody` that it is everybody in the channel.
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
        return digest_of([self.site, place, list(self.parts)])


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
    if len(plan.parts) == 1:
        return plan.parts[0]
    count = len(plan.parts)
    return "\n\n".join(f"--- message {number} of {count} ---\n{part}" for number, part in enumerate(plan.parts, 1))


def changes(plan: MessagePlan) -> list[Change]:
    """Return the texts that go out, each as a message of its own."""
    if plan.reaction is not None:
        emoji = f":{plan.reaction.emoji}:"
        before, after = (emoji, None) if plan.reaction.remove else (None, emoji)
        return [shown_change(f"{plan.target} reaction to message {plan.reaction.message.id}", before, after)]
    if len(plan.parts) == 1:
        return [shown_change(plan.target, None, plan.parts[0])]
    count = len(plan.parts)
    return [
        shown_change(f"{plan.target} message {number} of {count}", None, part)
        for number, part in enumerate(plan.parts, 1)
    ]


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
    notified = "; ".join(plan.notifies)
    # Whom it notifies comes before the place: a long topic's name must not cut it off.
    return one_line(f"send {what}{f' ({notified})' if notified else ''} to {place}", LONGEST_SENTENCE)
