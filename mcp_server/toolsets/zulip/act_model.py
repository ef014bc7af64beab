"""Messages and reactions as they are planned: what Zulip would get, and the same as a person reads it. Pure."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

from mcp_server.connectors.text.preview import Change, shown_change
from mcp_server.connectors.zulip.model import Message, Where
from mcp_server.connectors.zulip.text.place_names import place_of
from mcp_server.gate.canonical_json import canonical
from mcp_server.toolsets.zulip.schemas import MessageActed

LONGEST_SENTENCE = 240
MOST_MENTIONED = 5
_EVERYBODY = re.compile(r"@\*\*(?:all|everyone|channel|stream|topic)\*\*", re.IGNORECASE)
_SOMEBODY = re.compile(r"@\*\*([^*|\n]{1,100})(?:\|\d+)?\*\*")
_GROUP = re.compile(r"@\*([^*\n]{1,100})\*(?!\*)")


@dataclass(frozen=True, slots=True)
class Reacted:
    """An emoji that is added to a message, or taken back; `there` is whether it was there when this was planned."""

    message: Message
    emoji: str
    remove: bool
    there: bool


@dataclass(frozen=True, slots=True)
class MessagePlan:
    """What a call would do in Zulip: send `parts`, or react.

    `place` is where, as people say it; `url` is where they see it. `halted` is the answer of a call that is not to be carried
    out: a rehearsal, or something that is so already. `quotes`: where text comes from that the plan repeats, of a topic.
    `among_reviews`: it goes to the topic in which people are told of proposals, under the name that tells them.
    """

    site: str
    where: Where
    place: str
    url: str
    parts: tuple[str, ...] = ()
    reaction: Reacted | None = None
    note: str | None = None
    halted: MessageActed | None = None
    arguments_hash: str = ""
    quotes: tuple[str, ...] = ()
    among_reviews: bool = False

    @property
    def destination(self) -> str:
        """Return where it goes: the channel, or the conversation."""
        return f"zulip:{place_of(replace(self.where, topic=None))}"

    @property
    def target(self) -> str:
        """Return the topic or conversation that it is about."""
        return f"zulip:{self.place}"

    @property
    def effect(self) -> str:
        """Return a hash over what would be sent, and where to."""
        place: list[object] = [
            self.where.channel.id if self.where.channel else None,
            self.where.topic,
            [person.id for person in self.where.people],
        ]
        told: list[object] = [self.site, place, list(self.parts)]
        if self.reaction is not None:
            told = [self.site, self.reaction.message.id, self.reaction.emoji, self.reaction.remove]
        return hashlib.sha256(canonical(told)).hexdigest()


def answered(
    plan: MessagePlan, status: Literal["analysis", "unchanged", "unsure"], note: str | None = None
) -> MessageActed:
    """Return the answer of an act that was not, or not certainly, done."""
    ids = [plan.reaction.message.id] if plan.reaction else []
    told = "; ".join(part for part in (plan.note, note) if part) or None
    shown = preview(plan) if status == "analysis" else None
    return MessageActed(status, None, plan.place, ids, plan.url, preview=shown, note=told)


def preview(plan: MessagePlan) -> str:
    """Return what would be sent, part by part."""
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
    """Return what the act does, in one line: where to, and whom it notifies."""
    if plan.reaction is not None:
        verb = "take back" if plan.reaction.remove else "add"
        said = f"message {plan.reaction.message.id} of {plan.reaction.message.sender} in {_shown_place(plan)}"
        return _short(f"{verb} :{plan.reaction.emoji}: {'from' if plan.reaction.remove else 'to'} {said}")
    what = "a message" if len(plan.parts) == 1 else f"{len(plan.parts)} messages"
    told = "; ".join(_notified("\n".join(plan.parts)))
    # Whom it notifies comes first: the name of a topic may be long, and what is told last may be cut.
    return _short(f"send {what}{f' ({told})' if told else ''} to {_shown_place(plan)}")


def _notified(text: str) -> Sequence[str]:
    """Return whom the text notifies, as far as its mentions say.

    Source: https://zulip.com/help/mention-a-user-or-group; silent mentions (`@_`) notify nobody.
    """
    told = []
    everybody = dict.fromkeys(_EVERYBODY.findall(text))
    if everybody:
        told.append(f"notifies everybody there by {', '.join(everybody)}")
    groups = dict.fromkeys(_GROUP.findall(text))
    if groups:
        told.append(f"notifies the group{'s' if len(groups) > 1 else ''} {_listed(list(groups))}")
    people = dict.fromkeys(_SOMEBODY.findall(_EVERYBODY.sub("", text)))
    if people:
        told.append(f"mentions {_listed(list(people))}")
    return told


def _listed(names: Sequence[str]) -> str:
    more = f" and {len(names) - MOST_MENTIONED} more" if len(names) > MOST_MENTIONED else ""
    return ", ".join(names[:MOST_MENTIONED]) + more


def _shown_place(plan: MessagePlan) -> str:
    if plan.where.channel is None:
        return f"{', '.join(sorted(person.name for person in plan.where.people))} in Zulip"
    return f"#{plan.where.channel.name} > {plan.where.topic} in Zulip"


def _short(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= LONGEST_SENTENCE else line[: LONGEST_SENTENCE - 3] + "..."
