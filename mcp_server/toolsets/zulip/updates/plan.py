"""Plans changes of what is in Zulip already. Reads, and changes nothing."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import timedelta

from mcp_server.connectors.errors import Missing
from mcp_server.connectors.text.dates import to_minute
from mcp_server.connectors.zulip.chat import Chat
from mcp_server.connectors.zulip.errors import Unclear
from mcp_server.connectors.zulip.model import Channel, ChatPlace, Message, ScheduledMessage
from mcp_server.connectors.zulip.text.links import link_to, link_to_topic
from mcp_server.connectors.zulip.text.mentions import mentions_in
from mcp_server.connectors.zulip.text.place_names import RESOLVED, place_name
from mcp_server.connectors.zulip.wire import MOST_MESSAGES, SERVICE
from mcp_server.gate.policy import Trust
from mcp_server.toolsets.spec import ToolSpec
from mcp_server.toolsets.zulip.messages.plan import prepared, require_topic, topic_notes
from mcp_server.toolsets.zulip.schemas import ChatUpdateArguments
from mcp_server.toolsets.zulip.updates.model import UpdatePlan, updated

CHANGES = ("text", "delete", "resolved", "read", "subscribed")
EDIT_BUFFER_S = 20
"""How much longer than the organisation's limit Zulip accepts an edit. Source: Zulip's zerver/actions/message_edit.py."""
COUNTED_AT_ONCE, MOST_COUNTED = 500, 2_000
"""How many messages of a topic are requested at once, and counted at most, before it moves.

A reply with 1,000 long messages would be too large.
"""
NEWEST_LOOKED_AT = 20
LONGEST_UNDO = 500
GONE_FOR_GOOD = "none: a deleted message cannot be restored"
MIXED = "none: afterwards nobody can tell the messages of the two topics apart"


async def plan_update(chat: Chat, arguments: ChatUpdateArguments, *, recalled: bool = False) -> UpdatePlan:
    """Return the plan of the one change that the call asks for, halted if nothing would change.

    `recalled`: an earlier process may have made it, so what it deletes or moves may be gone.

    Raises:
        Unclear: it asks for no change or several, or for one that Zulip would refuse.
        ConnectorError: about a name, or because Zulip cannot be asked.
    """
    asked = [name for name in CHANGES if getattr(arguments, name) is not None]
    if arguments.new_topic is not None or arguments.new_channel is not None:
        asked.append("new_topic or new_channel")
    if len(asked) != 1:
        found = f"this asks for {' and '.join(asked)}" if asked else "this asks for none"
        raise Unclear(f"one call makes one change (text, delete, new_topic, resolved, read or subscribed); {found}")
    if arguments.text is not None:
        plan = await _edit(chat, arguments)
    elif arguments.delete is not None:
        plan = await _removal(chat, arguments, recalled=recalled)
    elif arguments.read is not None:
        plan = await _marking(chat, arguments, read=arguments.read)
    elif arguments.subscribed is not None:
        plan = await _subscription(chat, arguments, on=arguments.subscribed)
    else:
        plan = await _move(chat, arguments, recalled=recalled)
    plan = replace(plan, arguments_hash=ToolSpec.hash_of(arguments))
    if plan.halted is None and arguments.dry_run:
        return replace(plan, halted=updated(plan, "analysis"))
    return plan


async def _own_message(chat: Chat, arguments: ChatUpdateArguments) -> Message:
    if arguments.message_id is None:
        raise Unclear("text and delete change one of your own messages: give its message_id")
    message = await chat.message(arguments.message_id)
    if message.sender_id != (await chat.me()).id:
        raise Unclear(f"message {message.id} is not yours; only your own messages can be changed")
    return message


async def _edit(chat: Chat, arguments: ChatUpdateArguments) -> UpdatePlan:
    message, server = await _own_message(chat, arguments), await chat.client.limits()
    text, where = prepared(arguments.text or ""), await chat.place_of(message)
    if len(text) > server.longest_message:
        raise Unclear(f"the text has {len(text)} characters, but Zulip accepts {server.longest_message}; shorten it")
    notes: list[str] = []
    if not server.editing:
        raise Unclear("this organisation does not allow editing messages")
    if server.edit_limit_s is not None:
        until = message.at + timedelta(seconds=server.edit_limit_s)
        if chat.now() > until + timedelta(seconds=EDIT_BUFFER_S):
            raise Unclear(f"message {message.id} could be edited until {to_minute(until)}; send another one instead")
        notes.append(f"Zulip allows this edit until {to_minute(until)}")
    mentions = mentions_in([text])
    notes += mentions.sentences(await chat.people() if mentions.people else ())
    quoted = _quoted(message.text)
    earlier = (
        quoted if len(quoted) <= LONGEST_UNDO else "the earlier text, which is in the message's edit history in Zulip"
    )
    calls_everybody = bool(mentions.everybody) and where.channel is not None
    plan = UpdatePlan(
        site=chat.site,
        kind="edit",
        where=where,
        url=link_to(chat.site, server, message),
        what=f"replace the text of your message {message.id} in {_shown(where)}",
        before=message.text,
        after=text,
        undo=f"zulip_update(message_id={message.id}, text={earlier})",
        number=message.id,
        note="; ".join(notes),
        level=Trust.HIGH_STAKES if calls_everybody or chat.is_for_reviews(where) else Trust.ROUTINE,
        quotes=(f"zulip:{place_name(where)}",),
    )
    return _unchanged(replace(plan, note=""), "it has that text already") if text == message.text else plan


async def _removal(chat: Chat, arguments: ChatUpdateArguments, *, recalled: bool) -> UpdatePlan:
    if not arguments.delete:
        raise Unclear("delete=false changes nothing; leave it out")
    try:
        return await (_cancellation(chat, arguments) if arguments.scheduled_id else _deletion(chat, arguments))
    except Missing:
        if not recalled:
            raise
    # An earlier process deleted it, and its text and place are no longer known.
    number = arguments.scheduled_id or arguments.message_id or 0
    return UpdatePlan(
        site=chat.site,
        kind="cancel" if arguments.scheduled_id else "delete",
        where=ChatPlace(),
        url=chat.site,
        what=f"delete message {number}",
        before="",
        after=None,
        undo=GONE_FOR_GOOD,
        number=number,
    )


async def _deletion(chat: Chat, arguments: ChatUpdateArguments) -> UpdatePlan:
    message, server = await _own_message(chat, arguments), await chat.client.limits()
    where, note = await chat.place_of(message), "this cannot be undone"
    if server.delete_limit_s is not None:
        until = message.at + timedelta(seconds=server.delete_limit_s)
        passed = chat.now() > until
        # Not refused: some groups may delete without a limit.
        ends = f"the time for deleting it ended at {to_minute(until)}, so Zulip may refuse"
        note = f"{note}; {ends if passed else f'Zulip allows it until {to_minute(until)}'}"
    return UpdatePlan(
        site=chat.site,
        kind="delete",
        where=where,
        url=link_to(chat.site, server, message),
        what=f"delete your message {message.id} in {_shown(where)}",
        before=message.text,
        after=None,
        undo=GONE_FOR_GOOD,
        number=message.id,
        note=note,
        level=Trust.HIGH_STAKES,
        quotes=(f"zulip:{place_name(where)}",),
    )


async def _cancellation(chat: Chat, arguments: ChatUpdateArguments) -> UpdatePlan:
    number = arguments.scheduled_id
    found = next((one for one in await chat.client.scheduled() if one.id == number), None)
    where = await scheduled_place(chat, found) if found else None
    if found is None or where is None:
        remedy = "zulip_read_messages(anchor='scheduled') lists the scheduled ones; this one may already be sent"
        raise Missing(SERVICE, f"scheduled message {number}", remedy)
    return UpdatePlan(
        site=chat.site,
        kind="cancel",
        where=where,
        url=await chat.url_of_place(where),
        what=f"cancel the message scheduled for {to_minute(found.at)} to {_shown(where)}",
        before=found.text,
        after=None,
        undo=f"zulip_send_message with the same text, place and send_at={found.at.isoformat()}",
        number=found.id,
        due=found.at,
        level=Trust.ROUTINE,
    )


async def scheduled_place(chat: Chat, one: ScheduledMessage) -> ChatPlace | None:
    """Return where a scheduled message goes; None if that place may not be used."""
    if one.channel_id is None:
        if not chat.direct_allowed:
            return None
        people = {person.id: person for person in await chat.people()}
        return ChatPlace(people=await chat.with_unique_names([people[id_] for id_ in one.people_ids if id_ in people]))
    channel = next((channel for channel in await chat.channels() if channel.id == one.channel_id), None)
    return ChatPlace(channel, one.topic) if channel else None


async def _move(chat: Chat, arguments: ChatUpdateArguments, *, recalled: bool) -> UpdatePlan:
    if arguments.channel is None or arguments.topic is None:
        raise Unclear("name the channel and the topic that is to change")
    server = await chat.client.limits()
    channel = await chat.channel(arguments.channel, to_act=True)
    topic = await _topic_to_move(chat, channel, arguments.topic, recalled=recalled)
    here = await chat.topics(channel)
    newest = await _message_of(chat, ChatPlace(channel, topic))
    target = channel
    if arguments.new_channel is not None:
        target = await chat.channel(arguments.new_channel, to_act=True)
    new = _new_topic(arguments, topic)
    require_topic(new, server)
    there = here if target.id == channel.id else await chat.topics(target)
    # Zulip ignores case in topics, so another one that differs in case alone is the same.
    merges = any(
        one.name.casefold() == new.casefold()
        and not (target.id == channel.id and one.name.casefold() == topic.casefold())
        for one in there
    )
    was_at, where = ChatPlace(channel, topic), ChatPlace(target, new)
    notes, quotes = ["Zulip's Notification Bot says so in the topic"], tuple[str, ...]()
    if merges:
        notes.insert(0, "a topic with that name exists: the two become one, which cannot be undone")
    elif arguments.resolved is None and (near := await topic_notes(chat, target, new)):
        notes, quotes = [*near, *notes], (f"zulip:{place_name(ChatPlace(target))}",)
    leaves_private = channel.private and target.id != channel.id
    if leaves_private:
        notes.insert(0, f"everybody in #{target.name} can then read these messages of a private channel")
    what, back = _move_in_words(was_at, where, await _count(chat, was_at), arguments)
    plan = UpdatePlan(
        site=chat.site,
        kind="move",
        where=where,
        url=link_to_topic(chat.site, server, target, new),
        what=what,
        # Not the topic's name as it was found: messages of one topic may have two spellings that differ in case.
        before=(channel.id, newest.topic if newest else topic),
        after=(target.id, new),
        undo=MIXED if merges else back,
        number=newest.id if newest else 0,
        was_at=was_at,
        merges=merges,
        note="; ".join(notes),
        level=Trust.HIGH_STAKES
        if merges or leaves_private or chat.is_for_reviews(was_at) or chat.is_for_reviews(where)
        else Trust.ROUTINE,
        quotes=quotes,
    )
    return _unchanged(replace(plan, note=""), "it is there already") if plan.before == plan.after else plan


def _move_in_words(was_at: ChatPlace, where: ChatPlace, count: str, arguments: ChatUpdateArguments) -> tuple[str, str]:
    """Describe the move, and return the call that undoes it."""
    here, there = was_at.channel, where.channel
    call = f"zulip_update(channel={_quoted(there.name if there else '')}, topic={_quoted(where.topic or '')}"
    if arguments.resolved is not None:
        what = f"mark {_shown(was_at)} ({count}) as {'resolved' if arguments.resolved else 'not resolved'}"
        return what, f"{call}, resolved={str(not arguments.resolved).lower()})"
    back = f", new_channel={_quoted(here.name)}" if here and here != there else ""
    return (
        f"move {count} from {_shown(was_at)} to {_shown(where)}",
        f"{call}, new_topic={_quoted(was_at.topic or '')}{back})",
    )


async def _topic_to_move(chat: Chat, channel: Channel, asked: str, *, recalled: bool) -> str:
    try:
        return await chat.topic(channel, asked, to_act=True)
    except Unclear:
        if not recalled:
            raise
        return " ".join(asked.split())  # an earlier process may have moved it


def _new_topic(arguments: ChatUpdateArguments, topic: str) -> str:
    if arguments.resolved is not None:
        bare = topic.lstrip(RESOLVED)  # as Zulip removes the mark
        return f"{RESOLVED}{bare}" if arguments.resolved else bare
    if arguments.new_topic is None:
        return topic
    new = " ".join(arguments.new_topic.split())
    if not new:
        raise Unclear("new_topic is empty; give the topic's new name")
    return new


async def _message_of(chat: Chat, where: ChatPlace) -> Message | None:
    """Return the newest message of a topic that somebody of the organisation wrote; None if there is no message.

    Zulip deletes its own notice about a topic if the topic is changed back within a moment.
    Source: Zulip's zerver/actions/message_edit.py (`maybe_delete_previous_resolve_topic_notification`).
    """
    window = await chat.client.messages(where, anchor="newest", before=NEWEST_LOOKED_AT)
    known = {person.id for person in await chat.people()}  # Zulip's own bots are not among them
    written = [one for one in window.messages if one.sender_id in known] or window.messages
    return written[-1] if written else None


async def _count(chat: Chat, where: ChatPlace) -> str:
    """Return how many messages a topic has, in words."""
    count, anchor, more = 0, 0, True
    while more and count < MOST_COUNTED:
        window = await chat.client.messages(where, anchor=anchor, after=COUNTED_AT_ONCE, with_anchor=False)
        count += len(window.messages)
        more = bool(window.messages) and not window.found_newest
        anchor = window.messages[-1].id if window.messages else anchor
    return f"more than {count:,} messages" if more else f"{count:,} message{'' if count == 1 else 's'}"


async def _marking(chat: Chat, arguments: ChatUpdateArguments, *, read: bool) -> UpdatePlan:
    message = await chat.message(arguments.message_id) if arguments.message_id is not None else None
    if arguments.channel is not None:
        channel = await chat.channel(arguments.channel, to_act=True)
        topic = await chat.topic(channel, arguments.topic, to_act=True) if arguments.topic is not None else None
        where = ChatPlace(channel, topic)
    elif message is not None:
        where = await chat.place_of(message)
    else:
        raise Unclear("name the channel (and topic) to mark, or the last message that you have read")
    if not read and message is None:
        raise Unclear("to mark as unread, give message_id: that message and all after it become unread")
    ids = await marked(chat, where, message.id if message else 0, read=not read)
    state = "read" if read else "unread"
    more = (
        f"at most {MOST_MESSAGES:,} are marked at once; repeat the same call to mark more"
        if len(ids) == MOST_MESSAGES
        else ""
    )
    plan = UpdatePlan(
        site=chat.site,
        kind="read",
        where=where,
        url=await chat.url_of_place(where),
        what=f"mark {len(ids):,} message{'' if len(ids) == 1 else 's'} in {_shown(where)} as {state} for yourself",
        before=not read,
        after=read,
        # "Unread" covers a message and all after it, "read" all up to one.
        undo=f"zulip_update(message_id={ids[0 if read else -1]}, read={str(not read).lower()})" if ids else "",
        number=message.id if message else 0,
        message_ids=ids,
        note=more,
        level=Trust.EDIT,
        quotes=(f"zulip:{place_name(where)}",) if arguments.channel is None else (),
    )
    return plan if ids else _unchanged(plan, f"everything there is {state} already")


async def marked(chat: Chat, where: ChatPlace, message_id: int, *, read: bool) -> tuple[int, ...]:
    """Return the ids of messages of a place: with `read`, those that are read, from `message_id` on; else the unread ones.

    Unread ones count up to `message_id`; 0 means all of them.
    """
    if not read:
        window = await chat.client.messages(replace(where, unread=True), anchor=0, after=MOST_MESSAGES)
        return tuple(one.id for one in window.messages if not message_id or one.id <= message_id)
    window = await chat.client.messages(where, anchor=message_id, after=MOST_MESSAGES - 1)
    unread = await chat.client.messages(replace(where, unread=True), anchor=message_id, after=MOST_MESSAGES - 1)
    still = {one.id for one in unread.messages}
    return tuple(one.id for one in window.messages if one.id not in still)


async def _subscription(chat: Chat, arguments: ChatUpdateArguments, *, on: bool) -> UpdatePlan:
    if arguments.channel is None or arguments.topic is not None:
        raise Unclear("subscribed applies to a whole channel: name it, without a topic")
    channel = await chat.channel(arguments.channel, to_act=True)
    now = channel.id in await chat.client.subscriptions()
    # A bot cannot come back into a private channel by itself.
    for_good = channel.private and not on
    verb = "subscribe to" if on else "unsubscribe from"
    again = f"zulip_update(channel={_quoted(channel.name)}, subscribed={str(not on).lower()})"
    plan = UpdatePlan(
        site=chat.site,
        kind="subscribe",
        where=ChatPlace(channel),
        url=await chat.url_of_topic(channel),
        what=f"{verb} #{channel.name} in Zulip",
        before=now,
        after=on,
        undo="none: only somebody in that private channel can add the bot again" if for_good else again,
        note="the channel is private, so this cannot be undone from here" if for_good else "",
        level=Trust.HIGH_STAKES if for_good else Trust.ROUTINE,
    )
    return _unchanged(plan, f"the bot is {'' if on else 'not '}subscribed already") if now is on else plan


def _unchanged(plan: UpdatePlan, why: str) -> UpdatePlan:
    return replace(plan, halted=updated(plan, "unchanged", why))


def _quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)


def _shown(where: ChatPlace) -> str:
    if where.channel is None:
        return f"the conversation with {', '.join(sorted(person.name for person in where.people))}"
    return f"#{where.channel.name} > {where.topic}" if where.topic is not None else f"#{where.channel.name}"
