"""Plans messages and reactions: names resolved, text prepared, long texts split. Reads, and changes nothing."""

from __future__ import annotations

import difflib
import re
import unicodedata
from dataclasses import replace

from mcp_server.connectors.text.name_match import folded
from mcp_server.connectors.zulip.chat import Chat
from mcp_server.connectors.zulip.errors import Unclear
from mcp_server.connectors.zulip.model import Channel, ChatPlace, ZulipServer
from mcp_server.connectors.zulip.text.links import link_to, link_to_people, link_to_topic
from mcp_server.connectors.zulip.text.mentions import mentions_in
from mcp_server.connectors.zulip.text.message_parts import Unsplittable, split
from mcp_server.connectors.zulip.text.place_names import RESOLVED, place_name, topic_names
from mcp_server.toolsets.spec import ToolSpec
from mcp_server.toolsets.zulip.act_model import MessagePlan, PlannedReaction, answered
from mcp_server.toolsets.zulip.schemas import ReactArguments, SendArguments

SIMILAR = 0.8
"""From this similarity on (difflib's ratio) a new topic may be a typo of an existing one."""
_EMOJI_NAME = re.compile(r"[0-9a-z._+-]{1,60}")
EMOJI_NAMES = {
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
"""Zulip's names of emoji that people paste. Source: Zulip's tools/setup/emoji/emoji_names.py."""


async def plan_message(chat: Chat, arguments: SendArguments) -> MessagePlan:
    """Return the plan of a message.

    Raises:
        Unclear: it does not say where to, or cannot be sent as it is.
        UnknownName, AmbiguousServiceName, NotAllowed, Deactivated: about a channel or person.
    """
    server = await chat.client.limits()
    where, notes = await _where(chat, arguments, server)
    # The notes name existing topics, which anyone may have written.
    quotes = (f"zulip:{place_name(replace(where, topic=None))}",) if notes else ()
    parts = _parts(prepared(arguments.text), server.longest_message, arguments)
    if len(parts) > 1:
        notes = [*notes, f"sent as {len(parts)} messages, because Zulip takes {server.longest_message} characters"]
    if where.channel is not None:
        url = link_to_topic(chat.site, server, where.channel, where.topic)
    else:
        url = link_to_people(chat.site, server, where.people)
    mentions = mentions_in(parts)
    notifies = tuple(mentions.sentences(await chat.people() if mentions.people else ()))
    notes += notifies
    plan = MessagePlan(
        site=chat.site,
        where=where,
        place=place_name(where),
        url=url,
        parts=parts,
        notifies=notifies,
        to_everybody=bool(mentions.everybody) and where.channel is not None,
        note="; ".join(notes) or None,
        arguments_hash=ToolSpec.hash_of(arguments),
        quotes=quotes,
        among_reviews=chat.is_for_reviews(where),
    )
    return replace(plan, halted=answered(plan, "analysis")) if arguments.dry_run else plan


async def plan_reaction(chat: Chat, arguments: ReactArguments) -> MessagePlan:
    """Return the plan of a reaction, halted if it is there (or gone) already.

    Raises:
        Missing: there is no such message, or it may not be read.
        Unclear: that is not the name of an emoji.
    """
    emoji = emoji_name(arguments.emoji)
    message = await chat.message(arguments.message_id)
    me = await chat.me()
    own = [one.emoji for one in message.reactions if one.user_id == me.id]
    where = await chat.place_of(message)
    plan = MessagePlan(
        site=chat.site,
        where=where,
        place=place_name(where),
        url=link_to(chat.site, await chat.server(), message),
        reaction=PlannedReaction(message, emoji, arguments.remove),
        arguments_hash=ToolSpec.hash_of(arguments),
        quotes=(f"zulip:{place_name(where)}",),
        among_reviews=chat.is_for_reviews(where),
    )
    if (emoji in own) is not arguments.remove:
        why = "it is there already"
        if arguments.remove:
            # An emoji has several names, and only Zulip knows which are the same.
            listed = ", ".join(f":{name}:" for name in own)
            why = f"you have no reaction with that name there; yours: {listed}" if own else "it is not there"
        return replace(plan, halted=answered(plan, "unchanged", why))
    return replace(plan, halted=answered(plan, "analysis")) if arguments.dry_run else plan


def prepared(text: str) -> str:
    """Return the text as Zulip stores it: no empty lines at its start, no white space at its end.

    Sent otherwise, it would not be found again by its text, and the answer would report a difference.

    Raises:
        Unclear: nothing is left, or it holds what Zulip refuses.
    """
    # Half of a surrogate pair cannot be encoded; line ends of other systems are line ends.
    whole = text.encode("utf-16", "surrogatepass").decode("utf-16", "replace").replace("\r\n", "\n").replace("\r", "\n")
    if "\0" in whole:
        raise Unclear("the text holds a NUL character, which Zulip refuses; send it without")
    kept = whole.lstrip("\n").rstrip()
    if not kept.strip():
        raise Unclear("the text is empty; say something")
    return kept


def emoji_name(asked: str) -> str:
    """Return the name of an emoji without colons; for a pasted emoji Zulip's name of it.

    Raises:
        Unclear: it is neither a name nor one of the emoji whose names are known here.
    """
    bare = asked.strip().strip(":").strip()
    # A pasted emoji may end with a variation selector, which asks for the coloured form.
    pasted = EMOJI_NAMES.get(bare.rstrip("\ufe0f"))
    if pasted is not None:
        return pasted
    name = bare.lower().replace(" ", "_")
    if not _EMOJI_NAME.fullmatch(name):
        raise Unclear("give the emoji by its name in Zulip, like eyes, +1 or check")
    return name


async def _where(chat: Chat, arguments: SendArguments, server: ZulipServer) -> tuple[ChatPlace, list[str]]:
    """Return the message's destination, and notes about the topic."""
    if (arguments.channel is None) == (not arguments.people):
        raise Unclear("name a channel and a topic, or people, and not both")
    if arguments.people:
        if arguments.topic is not None:
            raise Unclear("a message to people has no topic; leave it out, or name a channel")
        return ChatPlace(people=await chat.with_unique_names(await chat.recipients(arguments.people, to_act=True))), []
    channel = await chat.channel(arguments.channel or "", to_act=True)
    topic = " ".join((arguments.topic or "").split())
    if not topic:
        raise Unclear(f"a message to #{channel.name} needs a topic; zulip_list_channels lists the existing ones")
    if any(_is_refused(letter) for letter in topic):
        raise Unclear("the topic holds invisible characters, which Zulip refuses; type it again")
    if len(topic) > server.longest_topic:
        # Zulip would cut it off and report success.
        raise Unclear(f"the topic has {len(topic)} characters; Zulip keeps {server.longest_topic}, so shorten it")
    return ChatPlace(channel, topic), await _topic_notes(chat, channel, topic)


def _is_refused(letter: str) -> bool:
    """Return whether no topic may hold the letter. Source: Zulip's zerver/lib/string_validation.py."""
    number = ord(letter)
    return unicodedata.category(letter) in ("Cc", "Cs") or 0xFDD0 <= number <= 0xFDEF or number & 0xFFFE == 0xFFFE


async def _topic_notes(chat: Chat, channel: Channel, topic: str) -> list[str]:
    """Return a note if the topic is new and may be a typo of an existing one."""
    topics = [one.name for one in await chat.topics(channel)]
    wanted = folded(topic)
    if topic in topics:
        return []
    for one in topics:
        if folded(one) == wanted:
            return [f"the topic is written {one!r} there"]
    for one in topics:
        if one.startswith(RESOLVED) and wanted in map(folded, topic_names(one)):
            return [f"this begins a new topic: {topic!r} is marked as resolved there, as {one!r}"]
    # Reversed, because they come newest first: of two topics that differ by case alone the newest is named.
    by_folded = {folded(one): one for one in reversed(topics)}
    near = difflib.get_close_matches(wanted, by_folded, n=1, cutoff=SIMILAR)
    return [f"this begins a new topic; there is {by_folded[near[0]]!r}"] if near else []


def _parts(text: str, longest: int, arguments: SendArguments) -> tuple[str, ...]:
    if len(text) > longest and arguments.too_long == "refuse":
        raise Unclear(f"the text has {len(text)} characters, Zulip takes {longest}; shorten it, or have it split")
    try:
        return split(text, longest)
    except Unsplittable as error:
        raise Unclear(f"the text cannot be split into messages of {longest} characters: {error}") from None
