"""Plans messages and reactions: names resolved, text prepared, long texts split. Reads, and changes nothing."""

from __future__ import annotations

import difflib
import re
import unicodedata
from dataclasses import replace
from datetime import UTC, datetime, timedelta

from knowledge.pages.document import Document
from mcp_server.connectors.request.wire import UploadedFile
from mcp_server.connectors.text.dates import to_minute
from mcp_server.connectors.text.name_match import folded
from mcp_server.connectors.zulip.chat import Chat
from mcp_server.connectors.zulip.errors import Unclear
from mcp_server.connectors.zulip.model import Channel, ChatPlace, ZulipServer
from mcp_server.connectors.zulip.text.links import link_to
from mcp_server.connectors.zulip.text.mentions import mentions_in
from mcp_server.connectors.zulip.text.message_parts import Unsplittable, split
from mcp_server.connectors.zulip.text.place_names import RESOLVED, place_name, topic_names
from mcp_server.connectors.zulip.wire import SCHEDULING
from mcp_server.toolsets.spec import ToolSpec
from mcp_server.toolsets.zulip.messages.model import MessagePlan, PlannedReaction, answered
from mcp_server.toolsets.zulip.schemas import ReactArguments, SendArguments

SIMILAR = 0.8
"""From this similarity on (difflib's ratio) a new topic may be a typo of an existing one."""
SOONEST = timedelta(minutes=1)
"""A message is not scheduled for sooner than this, because it must be read back before Zulip sends it."""
ROOM_FOR_LINK = 500
"""Characters of a message that are kept for the link to a file."""
_FILE_NAME = re.compile(r"[\w+-][\w .+()-]{0,80}\.[A-Za-z0-9]{1,10}")
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


async def plan_message(chat: Chat, arguments: SendArguments, page: Document | None = None) -> MessagePlan:
    """Return the plan of a message; `page` is attached to it.

    Raises:
        Unclear: the arguments do not say where to send it, or it cannot be sent unchanged.
        UnknownName, AmbiguousServiceName, NotAllowed, Deactivated: about a channel or person.
    """
    server = await chat.client.limits()
    where, notes = await _where(chat, arguments, server)
    # The notes name existing topics, which anyone may have written.
    quotes = (f"zulip:{place_name(replace(where, topic=None))}",) if notes else ()
    send_at = _send_at(chat, arguments.send_at, server) if arguments.send_at is not None else None
    text, file = prepared(arguments.text), None
    if page is not None:
        file = UploadedFile(page.path.rpartition("/")[2], page.text.encode(), "text/markdown; charset=utf-8")
    elif arguments.file is not None:
        text, file = "", UploadedFile(_file_name(arguments.file), f"{text}\n".encode(), "text/plain; charset=utf-8")
    parts = _parts(text, server.longest_message - (ROOM_FOR_LINK if file else 0), arguments)
    if len(parts) > 1 and send_at is not None:
        raise Unclear(f"a scheduled message has at most {server.longest_message} characters; shorten it, or use file")
    if len(parts) > 1:
        notes = [
            *notes,
            f"sent as {len(parts)} messages, because Zulip accepts {server.longest_message} characters in one",
        ]
    mentions = mentions_in(parts)
    notifies = tuple(mentions.sentences(await chat.people() if mentions.people else ()))
    notes += notifies
    plan = MessagePlan(
        site=chat.site,
        where=where,
        place=place_name(where),
        url=await chat.url_of_place(where),
        parts=parts,
        notifies=notifies,
        to_everybody=bool(mentions.everybody) and where.channel is not None,
        file=file,
        page=page.path if page is not None else "",
        send_at=send_at,
        note="; ".join(notes) or None,
        arguments_hash=ToolSpec.hash_of(arguments),
        quotes=quotes,
        among_reviews=chat.is_for_reviews(where),
    )
    return replace(plan, halted=answered(plan, "analysis")) if arguments.dry_run else plan


def _send_at(chat: Chat, asked: str, server: ZulipServer) -> datetime:
    """Return when to send it, to the second.

    Raises:
        Unclear: it is no time with a zone, has passed, or the server cannot schedule messages.
    """
    if server.level < SCHEDULING:
        raise Unclear(
            f"this server is too old for send_at (feature level {server.level}); it needs {SCHEDULING}, Zulip 7.0"
        )
    try:
        moment = datetime.fromisoformat(asked.strip())
        at = moment.astimezone(UTC).replace(microsecond=0) if moment.tzinfo else None
    except (ValueError, OverflowError):
        at = None
    if at is None:
        raise Unclear(f"send_at is an ISO time with its zone, like 2026-12-01T09:00+01:00, not {asked[:40]!r}")
    if at - chat.now() < SOONEST:
        raise Unclear(
            f"send_at is {to_minute(at)}, which has passed or comes within a minute; leave it out to send now"
        )
    return at


def _file_name(asked: str) -> str:
    name = asked.strip()
    if not _FILE_NAME.fullmatch(name):
        raise Unclear(
            "file is a page like kb:guides/deploy.md, or a name like notes.md under which the text is sent as a file"
        )
    return name


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

    Otherwise the message could not be found again by its text, and the answer would report a difference.

    Raises: Unclear: nothing is left, or it holds characters that Zulip refuses.
    """
    # Half of a surrogate pair cannot be encoded; line ends of other systems are line ends.
    whole = text.encode("utf-16", "surrogatepass").decode("utf-16", "replace").replace("\r\n", "\n").replace("\r", "\n")
    if "\0" in whole:
        raise Unclear("the text holds a NUL character, which Zulip refuses; send it without")
    kept = whole.lstrip("\n").rstrip()
    if not kept.strip():
        raise Unclear("the text is empty; write a message")
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
            raise Unclear("a message to people has no topic; omit topic, or name a channel")
        return ChatPlace(people=await chat.with_unique_names(await chat.recipients(arguments.people, to_act=True))), []
    channel = await chat.channel(arguments.channel or "", to_act=True)
    topic = " ".join((arguments.topic or "").split())
    if not topic:
        raise Unclear(f"a message to #{channel.name} needs a topic; zulip_list_channels lists the existing ones")
    require_topic(topic, server)
    return ChatPlace(channel, topic), await topic_notes(chat, channel, topic)


def require_topic(topic: str, server: ZulipServer) -> None:
    """Check that Zulip keeps a topic's name unchanged. Raises: Unclear: it is too long, or holds characters that Zulip refuses."""
    if any(_is_refused(letter) for letter in topic):
        raise Unclear("the topic holds invisible characters, which Zulip refuses; type it again")
    if len(topic) > server.longest_topic:
        # Zulip would cut it off and report success.
        raise Unclear(f"the topic has {len(topic)} characters, but Zulip keeps {server.longest_topic}; shorten it")


def _is_refused(letter: str) -> bool:
    """Return whether Zulip refuses the letter in topics. Source: Zulip's zerver/lib/string_validation.py."""
    number = ord(letter)
    return unicodedata.category(letter) in ("Cc", "Cs") or 0xFDD0 <= number <= 0xFDEF or number & 0xFFFE == 0xFFFE


async def topic_notes(chat: Chat, channel: Channel, topic: str) -> list[str]:
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
        raise Unclear(
            f"the text has {len(text)} characters, but Zulip accepts {longest}; shorten it, or let it be split"
        )
    try:
        return split(text, longest)
    except Unsplittable as error:
        raise Unclear(f"the text cannot be split into messages of {longest} characters: {error}") from None
