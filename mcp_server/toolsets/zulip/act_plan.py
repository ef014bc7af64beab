"""Working out what a call would send to Zulip: names found, text made fit, parts cut. Changes nothing."""

from __future__ import annotations

import difflib
import re
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal

from mcp_server.connectors.text.name_match import folded
from mcp_server.connectors.zulip.errors import Unclear
from mcp_server.connectors.zulip.model import Where
from mcp_server.connectors.zulip.text.links import link_to, link_to_people, link_to_topic
from mcp_server.connectors.zulip.text.message_parts import Unsplittable, split
from mcp_server.connectors.zulip.text.place_names import RESOLVED, place_of, topic_names
from mcp_server.toolsets.zulip.act_model import MessagePlan, Reacted, answered
from mcp_server.toolsets.zulip.schemas import MessageActed

if TYPE_CHECKING:
    from mcp_server.connectors.replay import Earlier
    from mcp_server.connectors.zulip.chat import Chat
    from mcp_server.connectors.zulip.model import Channel, ZulipServer

ALIKE = 0.8
"""From this likeness on (difflib's ratio) a new topic may be a slip of one that is there."""
_EMOJI_NAME = re.compile(r"[0-9a-z._+-]{1,60}")
NAMES = {
    "👍": "+1",
    "👎": "-1",
    "👀": "eyes",
    "❤": "heart",
    "🎉": "tada",
    "✅": "check",
    "🙏": "pray",
    "👏": "clap",
    "🤔": "thinking",
    "😂": "joy",
    "🙂": "slight_smile",
    "😀": "grinning",
    "😢": "cry",
    "👋": "wave",
    "🙌": "raised_hands",
    "💪": "muscle",
    "👌": "ok",
    "🤝": "handshake",
    "🤖": "robot",
}
"""What Zulip calls emoji that people paste. Source: Zulip's tools/setup/emoji/emoji_names.py."""


@dataclass(frozen=True, slots=True)
class MessageWish:
    """What is to be sent, in the caller's words."""

    text: str
    channel: str | None = None
    topic: str | None = None
    people: tuple[str, ...] = ()
    too_long: Literal["split", "refuse"] = "split"
    rehearsal: bool = False
    arguments_hash: str = ""


async def planned_message(chat: Chat, wish: MessageWish) -> MessagePlan:
    """Return the plan of a message.

    Raises:
        Unclear: it does not say where to, or cannot be sent as it is.
        UnknownName, AmbiguousName, NotAllowed, Deactivated: of a channel or person.
    """
    server = await chat.client.limits()
    where, notes = await _where(chat, wish, server)
    quotes = (f"zulip:{place_of(replace(where, topic=None))}",) if notes else ()
    parts = _parts(tidied(wish.text), server.longest_message, wish.too_long)
    if len(parts) > 1:
        notes = [*notes, f"sent as {len(parts)} messages, because Zulip takes {server.longest_message} characters"]
    plan = MessagePlan(
        site=chat.site,
        where=where,
        place=place_of(where),
        url=_url(chat, server, where),
        parts=parts,
        note="; ".join(notes) or None,
        arguments_hash=wish.arguments_hash,
        quotes=quotes,
        among_reviews=chat.is_for_reviews(where),
    )
    return replace(plan, halted=answered(plan, "analysis")) if wish.rehearsal else plan


def sent_earlier(plan: MessagePlan, earlier: Earlier) -> MessagePlan:
    """Return the plan of a message that is not sent, because the same call was approved a moment ago and is done."""
    answer = MessageActed(
        "unchanged",
        None,
        str(earlier.answer.get("place") or plan.place),
        [int(one) for one in earlier.answer.get("message_ids") or ()],
        str(earlier.answer.get("url") or plan.url),
        note=f"the same call was approved on {earlier.at:%Y-%m-%d %H:%M UTC} and is done; nothing was sent again",
    )
    return replace(plan, halted=answer)


async def planned_reaction(
    chat: Chat, message_id: int, emoji: str, *, remove: bool, rehearsal: bool, arguments_hash: str = ""
) -> MessagePlan:
    """Return the plan of a reaction; one that is so already is halted.

    Raises:
        Missing: there is no such message, or it may not be read.
        Unclear: that is no name of an emoji.
    """
    name = emoji_name(emoji)
    message = await chat.message(message_id)
    me = await chat.me()
    own = [one.emoji for one in message.reactions if one.user_id == me.id]
    there = name in own
    where = await chat.where_of(message)
    plan = MessagePlan(
        site=chat.site,
        where=where,
        place=place_of(where),
        url=link_to(chat.site, await chat.server(), message),
        reaction=Reacted(message, name, remove, there),
        arguments_hash=arguments_hash,
        quotes=(f"zulip:{place_of(where)}",),
        among_reviews=chat.is_for_reviews(where),
    )
    if there is not remove:
        return replace(plan, halted=answered(plan, "unchanged", _as_it_is(own) if remove else "it is there already"))
    return replace(plan, halted=answered(plan, "analysis")) if rehearsal else plan


def _as_it_is(own: Sequence[str]) -> str:
    """Return why nothing is taken back: an emoji has several names, and only Zulip knows which are the same."""
    listed = ", ".join(f":{name}:" for name in own)
    return f"it is not there under that name; yours there: {listed}" if own else "it is not there"


def tidied(text: str) -> str:
    """Return the text as Zulip keeps it: no empty lines at its beginning, nothing that is not seen at its end.

    Raises:
        Unclear: nothing is left, or it holds what Zulip refuses.
    """
    # A half of a surrogate pair cannot travel; line ends of other systems are line ends.
    whole = text.encode("utf-16", "surrogatepass").decode("utf-16", "replace").replace("\r\n", "\n").replace("\r", "\n")
    if "\0" in whole:
        raise Unclear("the text holds a NUL character, which Zulip refuses; send it without")
    kept = whole.lstrip("\n").rstrip()
    if not kept.strip():
        raise Unclear("the text is empty; say something")
    return kept


def emoji_name(asked: str) -> str:
    """Return the name of an emoji: without colons, and of a pasted one the name that Zulip has for it.

    Raises:
        Unclear: it is neither a name nor one of the emoji whose names are known here.
    """
    bare = asked.strip().strip(":").strip()
    pasted = NAMES.get(bare.rstrip("\ufe0f"))
    if pasted is not None:
        return pasted
    name = bare.lower().replace(" ", "_")
    if not _EMOJI_NAME.fullmatch(name):
        raise Unclear("give the emoji by its name in Zulip, like eyes, +1 or check")
    return name


async def _where(chat: Chat, wish: MessageWish, server: ZulipServer) -> tuple[Where, list[str]]:
    """Return where it goes, and what a person should hear about the topic."""
    if (wish.channel is None) == (not wish.people):
        raise Unclear("name a channel and a topic, or people, and not both")
    if wish.people:
        if wish.topic is not None:
            raise Unclear("a message to people has no topic; leave it out, or name a channel")
        return Where(people=await chat.told_apart(await chat.somebody(wish.people, active=True))), []
    channel = await chat.channel(wish.channel or "")
    topic = " ".join((wish.topic or "").split())
    if not topic:
        raise Unclear(f"a message to #{channel.name} needs a topic; zulip_list_channels tells those that there are")
    if any(_is_refused(letter) for letter in topic):
        raise Unclear("the topic holds characters that nobody sees and Zulip refuses; type it anew")
    if len(topic) > server.longest_topic:
        raise Unclear(f"the topic has {len(topic)} characters; Zulip keeps {server.longest_topic}, so shorten it")
    return Where(channel, topic), await _about_topic(chat, channel, topic)


def _is_refused(letter: str) -> bool:
    """Return whether no topic may hold the letter. Source: Zulip's zerver/lib/string_validation.py."""
    number = ord(letter)
    return unicodedata.category(letter) in ("Cc", "Cs") or 0xFDD0 <= number <= 0xFDEF or number & 0xFFFE == 0xFFFE


async def _about_topic(chat: Chat, channel: Channel, topic: str) -> list[str]:
    """Return a note about a new topic that may be a slip of one that is there."""
    there = [one.name for one in await chat.topics(channel)]
    if topic in there:
        return []
    same = next((one for one in there if folded(one) == folded(topic)), None)
    if same is not None:
        return [f"the topic is written {same!r} there"]
    resolved = next(
        (one for one in there if one.startswith(RESOLVED) and folded(topic) in map(folded, topic_names(one))), None
    )
    if resolved is not None:
        return [f"this begins a new topic: {topic!r} is marked as resolved there, as {resolved!r}"]
    near = difflib.get_close_matches(folded(topic), {folded(one): one for one in there}, n=1, cutoff=ALIKE)
    if not near:
        return []
    meant = next(one for one in there if folded(one) == near[0])
    return [f"this begins a new topic; there is {meant!r}"]


def _parts(text: str, longest: int, too_long: Literal["split", "refuse"]) -> tuple[str, ...]:
    if len(text) > longest and too_long == "refuse":
        raise Unclear(f"the text has {len(text)} characters, Zulip takes {longest}; shorten it, or have it split")
    try:
        return split(text, longest)
    except Unsplittable as error:
        raise Unclear(f"the text cannot be split into messages of {longest} characters: {error}") from None


def _url(chat: Chat, server: ZulipServer, where: Where) -> str:
    """Return where a person will see it."""
    if where.channel is not None:
        return link_to_topic(chat.site, server, where.channel, where.topic)
    return link_to_people(chat.site, server, where.people)
