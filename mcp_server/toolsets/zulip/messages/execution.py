"""Carries out planned messages and reactions: each part is sent once, looked up after a lost reply, and answered.

A file is uploaded before the message that links to it. Nobody sees an upload without a message, so it may happen twice.

Zulip knows no keys, but there are two other ways to find a message. If it is sent with the id of an event queue and a
`local_id`, the queue receives the message with that `local_id`. And a bot can find its own messages. Source:
https://zulip.com/api/send-message (`queue_id`, `local_id`).
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

import anyio

from knowledge.errors import KnowledgeError
from knowledge.outbox.ports import OutboxEntry
from mcp_server.connectors.errors import ConnectorError, Denied, Missing, ReplyLost, ServiceRefused
from mcp_server.connectors.outbox_dispatcher import (
    LONGEST_IN_FLIGHT,
    LOOK_UP_WAITS_S,
    REPEAT_WINDOW,
    Delivered,
    DeliveryAttempt,
    Json,
    OutboxAct,
    PartlyDone,
)
from mcp_server.connectors.page_mentions import remember_mentions
from mcp_server.connectors.text.dates import to_minute
from mcp_server.connectors.zulip.chat import Chat, chat_of
from mcp_server.connectors.zulip.model import ChatPlace, Message, Queue, ScheduledMessage
from mcp_server.connectors.zulip.text.place_names import place_name
from mcp_server.connectors.zulip.wire import MOST_MESSAGES, QueueGone
from mcp_server.ports import ActServices
from mcp_server.toolsets.service_act import ServiceAct, repetition_note
from mcp_server.toolsets.zulip import REACT, SEND
from mcp_server.toolsets.zulip.messages.model import MessagePlan, PlannedReaction, answered
from mcp_server.toolsets.zulip.schemas import MessageActed

NO_REPETITION = timedelta(0)
"""No reaction counts as a repetition of an earlier one, which may have been removed since.

Each act first checks whether it is there.
"""
FILE = "file"
"""The mark of an outbox entry with the address of its uploaded file."""
LONGEST_DROP_S = 2.0
"""Deleting a queue gets no more time than this: Zulip drops an unused queue by itself."""
LATEST_EVENT_S = 3.0
"""How long after a message its event may come."""
MOST_READ_BACK = 10  # messages; each costs a request
NOT_READ_BACK = "it was sent, but could not be read back"


class NotKnown(KnowledgeError):
    """Nobody can tell now whether a message was sent."""


class SendMessage:
    """Sends the parts of a message, each once, no matter how often it is tried.

    The outbox entry's marks: `newest` is the newest message there before, `queues` the event queues that may receive the parts,
    `begun.N` when part N was sent, and `id.N` its id once that is known. `file` is the address of the uploaded file.
    """

    # Zulip knows no keys, but a part that `look` reports missing was never sent, or refused, or can no longer arrive.
    keyed = True

    def __init__(self, chat: Chat, plan: MessagePlan) -> None:
        self._chat, self._plan = chat, plan

    async def send(self, attempt: DeliveryAttempt) -> Json:
        """Send the parts that are not sent yet, and return their ids and place.

        Raises:
            ReplyLost: it is unknown whether the first part was sent.
            PartlyDone: some parts were sent; the message says what is known of the next.
            KnowledgeError: nothing was sent.
        """
        await uploaded(self._chat, self._plan, attempt)
        queue = await self._listen(attempt)
        for number, part in enumerate(self._plan.texts(attempt.marks.get(FILE, ""))):
            if not attempt.marks.get(_id(number)):
                await self._send_part(attempt, number, part, queue)
        return await self._result(attempt)

    async def look(self, attempt: DeliveryAttempt) -> Json | None:
        """Return the ids and place if all parts are there; None if one certainly is not.

        Raises:
            NotKnown: a part may be there, or still arrive.
        """
        if attempt.outbox_entry.digest != self._plan.effect:
            raise NotKnown("names or limits in Zulip have changed since, so it cannot be looked up")
        found = [
            bool(attempt.marks.get(_id(number))) or await self._find(attempt, number)
            for number in range(len(self._plan.parts))
        ]
        return await self._result(attempt) if all(found) else None

    async def _listen(self, attempt: DeliveryAttempt) -> Queue | None:
        """Register an event queue that receives what is sent, and record it with the newest earlier message.

        None if Zulip refuses the queue.
        """
        try:
            queue = await self._chat.client.register(self._plan.where)
        except (Denied, ServiceRefused):
            queue = None  # then only the bot's own messages show whether a part arrived
        newest = attempt.marks.get("newest")
        if not newest:
            # Not the register reply's newest message: that is only the newest that the bot received.
            window = await self._chat.client.messages(_around(self._plan.where), anchor="newest", before=1)
            newest = str(window.messages[-1].id if window.messages else 0)
        marks = {"newest": newest}
        if queue is not None:
            marks["queues"] = json.dumps([[one.id, one.last_event_id] for one in (*_queues(attempt), queue)])
        await attempt.mark(marks)
        return queue

    async def _send_part(self, attempt: DeliveryAttempt, number: int, part: str, queue: Queue | None) -> None:
        await attempt.mark({_begun(number): self._chat.now().isoformat()})
        local_id = _local_id(attempt, number) if queue else ""
        try:
            sent = await self._chat.client.send(self._plan.where, part, queue=queue, local_id=local_id)
        except ReplyLost as error:
            # The next part may follow only if this one is there: parts must not change their order.
            if len(self._plan.parts) > 1 and await self._arrives(attempt, number):
                return
            raise self._partly_done(attempt, number, error) from error
        except ConnectorError as error:
            await attempt.mark({_begun(number): ""})
            raise self._partly_done(attempt, number, error) from error
        await attempt.mark({_id(number): str(sent)})

    async def _arrives(self, attempt: DeliveryAttempt, number: int) -> bool:
        """Return whether a part whose reply was lost shows up within some seconds."""
        for wait_s in LOOK_UP_WAITS_S:
            await self._chat.sleep(wait_s)
            try:
                if await self._find(attempt, number):
                    return True
            except KnowledgeError:
                continue
        return False

    def _partly_done(self, attempt: DeliveryAttempt, number: int, error: ConnectorError) -> KnowledgeError:
        """Return the error for part `number`: PartlyDone if parts before it were sent."""
        if not any(attempt.marks.get(_id(before)) for before in range(number)):
            return error
        sent = f"{number} of {len(self._plan.parts)} messages were sent"
        if isinstance(error, ReplyLost):
            return PartlyDone(f"{sent}; it is not known whether the next one was")
        return PartlyDone(f"{sent}, the next not: {error}")

    async def _find(self, attempt: DeliveryAttempt, number: int) -> bool:
        """Return whether the part is there, and record its id; False if it certainly is not.

        Raises:
            NotKnown: it may be there, or still arrive.
        """
        begun = attempt.marks.get(_begun(number))
        if not begun:
            return False
        found = await self._find_id(attempt, number)
        if found is not None:
            await attempt.mark({_id(number): str(found)})
            return True
        if self._chat.now() - datetime.fromisoformat(begun) < LONGEST_IN_FLIGHT:
            raise NotKnown("there is no trace of it in Zulip yet")
        await attempt.mark({_begun(number): ""})
        return False

    async def _find_id(self, attempt: DeliveryAttempt, number: int) -> int | None:
        """Return the id of the part, as an event queue received it, else that of the bot's message there with the same text.

        None if there is neither.
        """
        not_it: set[int] = set()
        live: list[tuple[Queue, int]] = []
        for queue in _queues(attempt):
            try:
                events = await self._chat.client.events(queue, queue.last_event_id)
            except QueueGone:
                continue
            live.append((queue, events.last_event_id))
            for message in events.messages:
                if message.local_id == _local_id(attempt, number):
                    return message.id
                not_it.add(message.id)  # sent by somebody else, or as another part
        known = {one: int(id_) for one in range(len(self._plan.parts)) if (id_ := attempt.marks.get(_id(one)))}
        not_it |= set(known.values())
        # Parts arrive in order, so this one is after those before it.
        after = max([int(attempt.marks.get("newest") or 0), *(id_ for one, id_ in known.items() if one < number)])
        window = await self._chat.client.messages(
            _around(self._plan.where),
            anchor=after,
            after=MOST_MESSAGES,
            with_anchor=False,
            sender=await self._chat.me(),
        )
        text = self._plan.texts(attempt.marks.get(FILE, ""))[number]
        found = [one.id for one in window.messages if one.text == text and one.id not in not_it]
        if not found or not live:
            return found[0] if found else None
        # The events of these messages come a moment after them, and say whether one is ours or another process of the bot sent it.
        with anyio.move_on_after(LATEST_EVENT_S), suppress(QueueGone):
            for queue, heard in live:
                after = heard
                unheard = set(found)
                while unheard:
                    events = await self._chat.client.events(queue, after, block=True)
                    after = events.last_event_id
                    for message in events.messages:
                        if message.local_id == _local_id(attempt, number):
                            return message.id
                    unheard -= {message.id for message in events.messages}
            return None
        return found[0]

    async def _result(self, attempt: DeliveryAttempt) -> Json:
        with anyio.move_on_after(LONGEST_DROP_S):
            for queue in _queues(attempt):
                await self._chat.client.drop(queue)
        ids = [int(attempt.marks[_id(number)]) for number in range(len(self._plan.parts))]
        return {"message_ids": ids, "place": self._plan.place, "url": self._plan.url}


async def uploaded(chat: Chat, plan: MessagePlan, attempt: DeliveryAttempt) -> None:
    """Upload the plan's file unless an earlier attempt did, and record its address."""
    if plan.file is not None and not attempt.marks.get(FILE):
        await attempt.mark({FILE: await chat.client.upload(plan.file)})


@dataclass(frozen=True)
class ScheduleMessage:
    """Has Zulip send a message later, once, however often it is tried.

    Zulip has no keys here either, but lists what is scheduled. The marks: `newest` is the highest id before, `begun.0` when it
    was sent, `id.0` its id.
    """

    chat: Chat
    plan: MessagePlan
    send_at: datetime
    keyed = True  # as for `SendMessage`

    async def send(self, attempt: DeliveryAttempt) -> Json:
        """Schedule it, and return the id under which it waits.

        Raises:
            ReplyLost: it is unknown whether it was scheduled.
            KnowledgeError: it was not.
        """
        await uploaded(self.chat, self.plan, attempt)
        if not attempt.marks.get("newest"):
            before = [one.id for one in await self.chat.client.scheduled()]
            await attempt.mark({"newest": str(max(before, default=0))})
        await attempt.mark({_begun(0): self.chat.now().isoformat()})
        text = self.plan.texts(attempt.marks.get(FILE, ""))[0]
        try:
            scheduled_id = await self.chat.client.schedule(self.plan.where, text, self.send_at)
        except ReplyLost:
            raise
        except ConnectorError:
            await attempt.mark({_begun(0): ""})
            raise
        await attempt.mark({_id(0): str(scheduled_id)})
        return self._result(scheduled_id)

    async def look(self, attempt: DeliveryAttempt) -> Json | None:
        """Return the id under which it waits; None if it certainly was not scheduled.

        Raises:
            NotKnown: it may be there, still arrive, or be sent already.
        """
        if attempt.outbox_entry.digest != self.plan.effect:
            raise NotKnown("names or limits in Zulip have changed since, so it cannot be looked up")
        if known := attempt.marks.get(_id(0)):
            return self._result(int(known))
        if not (begun := attempt.marks.get(_begun(0))):
            return None
        found = await scheduled_as(self.chat, self.plan, attempt.marks.get(FILE, ""))
        new = [one.id for one in found if one.id > int(attempt.marks["newest"])]
        if new:
            await attempt.mark({_id(0): str(new[0])})
            return self._result(new[0])
        now = self.chat.now()
        if now >= self.send_at:
            raise NotKnown("its time has come, so it may have been sent")
        if now - datetime.fromisoformat(begun) < LONGEST_IN_FLIGHT:
            raise NotKnown("there is no trace of it in Zulip yet")
        await attempt.mark({_begun(0): ""})
        return None

    def _result(self, scheduled_id: int) -> Json:
        return {"scheduled_id": scheduled_id, "place": self.plan.place, "url": self.plan.url}


async def scheduled_as(chat: Chat, plan: MessagePlan, address: str) -> Sequence[ScheduledMessage]:
    """Return the scheduled messages that have the plan's text, place and time."""
    channel_id = plan.where.channel.id if plan.where.channel else None
    people = {person.id for person in plan.where.people}
    me = (await chat.me()).id
    return [
        one
        for one in await chat.client.scheduled()
        if (one.text, one.at, one.channel_id) == (plan.texts(address)[0], plan.send_at, channel_id)
        and one.topic == (plan.where.topic or "")
        and set(one.people_ids) | {me} == people | {me}
    ]


@dataclass(frozen=True)
class React:
    """Adds an emoji or removes it. Doing it twice has the same result as once."""

    chat: Chat
    plan: MessagePlan
    reaction: PlannedReaction
    keyed = True

    async def send(self, attempt: DeliveryAttempt) -> Json:
        """Do it, and return the message and its place."""
        del attempt
        client, message_id, emoji = self.chat.client, self.reaction.message.id, self.reaction.emoji
        if self.reaction.remove:
            await client.unreact(message_id, emoji)
            return self._result()
        # Zulip may say that the emoji is there already. It was not there under that name when this was planned, so a
        # first try whose reply was lost may have added it. Or it was there under another name of the same emoji, and
        # then nothing changed.
        changed = await client.react(message_id, emoji)
        if not changed:
            try:
                changed = await self._is_done()
            except ConnectorError:
                changed = True
        return {**self._result(), "changed": changed}

    async def look(self, attempt: DeliveryAttempt) -> Json | None:
        """Return the message and its place if the emoji is there (or was removed, as wanted), else None."""
        del attempt
        return self._result() if await self._is_done() else None

    async def _is_done(self) -> bool:
        message, me = await self.chat.message(self.reaction.message.id), await self.chat.me()
        there = any(one.user_id == me.id and one.emoji == self.reaction.emoji for one in message.reactions)
        return there is not self.reaction.remove

    def _result(self) -> Json:
        return {"message_ids": [self.reaction.message.id], "place": self.plan.place, "url": self.plan.url}


def message_act(services: ActServices, plan: MessagePlan) -> ServiceAct[MessageActed]:
    """Return how the plan is carried out and answered."""
    chat = chat_of(services)
    act: OutboxAct
    if plan.reaction is not None:
        act = React(chat, plan, plan.reaction)
    elif plan.send_at is not None:
        act = ScheduleMessage(chat, plan, plan.send_at)
    else:
        act = SendMessage(chat, plan)
    return ServiceAct(
        tool=REACT if plan.reaction else SEND,
        target=plan.target,
        digest=plan.effect,
        arguments_hash=plan.arguments_hash,
        window=NO_REPETITION if plan.reaction else REPEAT_WINDOW,
        act=act,
        conclude=lambda delivered: _conclude(services, plan, delivered),
    )


async def _conclude(services: ActServices, plan: MessagePlan, delivered: Delivered) -> MessageActed:
    """Return the answer, and record which pages a message in a channel names. Conversations name none for others."""
    answer = await _answer(chat_of(services), plan, delivered)
    channel = plan.where.channel
    if answer.status == "done" and plan.parts and channel and plan.send_at is None:
        title = f"#{channel.name} > {plan.where.topic}"
        texts = [*plan.parts, f"[page](<{plan.page}>)"] if plan.page else plan.parts
        await remember_mentions(services, plan.target, url=answer.url or plan.url, texts=texts, title=title)
    return answer


async def _answer(chat: Chat, plan: MessagePlan, delivered: Delivered) -> MessageActed:
    if delivered.status == "unsure":
        answer = answered(plan, "unsure", _unsure_note(plan, delivered))
        return replace(answer, message_ids=_sent_ids(plan, delivered.outbox_entry)) if plan.parts else answer
    result = delivered.result or {}
    answer = MessageActed(
        delivered.status,
        None,
        str(result.get("place") or plan.place),
        [int(one) for one in result.get("message_ids", ())],
        str(result.get("url") or plan.url),
        note=plan.note,
    )
    address = delivered.outbox_entry.marks.get(FILE, "")
    if delivered.status == "unchanged":
        answer = replace(answer, note=repetition_note(delivered.outbox_entry))
    if plan.reaction is not None:
        return replace(answer, status="done" if result.get("changed", True) else "unchanged")
    if plan.send_at is not None:
        return await _with_schedule(chat, plan, answer, int(result.get("scheduled_id", 0)), address)
    if delivered.status == "unchanged":
        return await with_deletions(chat, answer)
    return await _read_back(chat, plan, answer, address)


async def with_deletions(chat: Chat, answer: MessageActed) -> MessageActed:
    """Return the answer of a call that sends nothing again, with a note on messages that are no longer there.

    They are not sent again by themselves: somebody may have deleted them on purpose.
    """
    gone = []
    for message_id in answer.message_ids[:MOST_READ_BACK]:
        try:
            await chat.client.message(message_id)
        except Missing:
            gone.append(str(message_id))
        except ConnectorError:
            break  # then nothing is known, and nothing said
    if not gone:
        return answer
    which = f"message {gone[0]} has" if len(gone) == 1 else f"messages {', '.join(gone)} have"
    minutes = f"{REPEAT_WINDOW.total_seconds() / 60:.0f} minutes"
    deleted = (
        f"{which} been deleted since; to send it all again, change the text or wait {minutes} after the first time"
    )
    return replace(answer, note="; ".join(filter(None, [answer.note, deleted])))


async def _with_schedule(
    chat: Chat, plan: MessagePlan, answer: MessageActed, scheduled_id: int, address: str
) -> MessageActed:
    """Return the answer with the id of the scheduled message, how to cancel it, and whether Zulip has it as it was planned."""
    notes = [answer.note] if answer.note else []
    at = f" for {to_minute(plan.send_at)}" if plan.send_at else ""
    cancel = f"zulip_update(scheduled_id={scheduled_id}, delete=true) cancels it"
    notes.append(f"scheduled{at} under the id {scheduled_id}; {cancel}")
    if answer.status == "done":
        try:
            if all(one.id != scheduled_id for one in await scheduled_as(chat, plan, address)):
                notes.append("Zulip lists it with other values than were sent: check it now")
        except ConnectorError:
            notes.append(NOT_READ_BACK)
    return replace(answer, note="; ".join(notes))


def _unsure_note(plan: MessagePlan, delivered: Delivered) -> str:
    entry = delivered.outbox_entry
    parts = range(len(plan.parts))
    under_way = any(entry.marks.get(_begun(n)) and not entry.marks.get(_id(n)) for n in parts)
    if _sent_ids(plan, entry) and not under_way:
        return f"{delivered.why}. Nothing is being sent now; the same call sends the rest"
    minutes = LONGEST_IN_FLIGHT.total_seconds() / 60
    return (
        f"{delivered.why}. Look at {plan.url} before you send anything again; the same call looks first, and sends what is "
        f"missing only {minutes:.0f} minutes after the first attempt"
    )


def _sent_ids(plan: MessagePlan, entry: OutboxEntry) -> Sequence[int]:
    """Return the ids of the parts that certainly were sent."""
    if entry.digest != plan.effect:
        return []  # an earlier message, which was split into other parts
    return [int(id_) for number in range(len(plan.parts)) if (id_ := entry.marks.get(_id(number)))]


async def _read_back(chat: Chat, plan: MessagePlan, answer: MessageActed, address: str) -> MessageActed:
    """Return the answer with what Zulip changed; the message is sent, whether it can be read back or not."""
    notes, parts = [answer.note] if answer.note else [], plan.texts(address)
    try:
        first = await chat.client.message(answer.message_ids[0])
        for number, message_id in enumerate(answer.message_ids[:MOST_READ_BACK]):
            message = await chat.client.message(message_id) if number else first
            sent = parts[number] if number < len(parts) else ""
            if (place := await _moved_to(chat, plan, message)) is not None:
                notes.append(f"message {message.id} is in {place}, not where it was sent: check it now")
            if message.topic != (plan.where.topic or ""):
                notes.append(f"Zulip has message {message.id} under the topic {message.topic!r}")
            if message.text != sent:
                counts = f"{len(message.text)} of {len(sent)} characters"
                notes.append(f"Zulip keeps another text in message {message.id}: {counts}")
        answer = replace(answer, url=await chat.url_of(first))
    except ConnectorError:
        notes.append(NOT_READ_BACK)
    return replace(answer, note="; ".join(notes) or None)


async def _moved_to(chat: Chat, plan: MessagePlan, message: Message) -> str | None:
    """Return the channel or conversation that Zulip has the message in, if its name or its people are not those of the plan."""
    if (channel := plan.where.channel) is not None:
        same = (message.channel_id, message.channel) == (channel.id, channel.name)
    else:
        me = (await chat.me()).id
        meant = {person.id for person in plan.where.people}
        same = message.channel_id is None and {person.id for person in message.people} | {me} == meant | {me}
    return None if same else place_name(replace(await chat.place_of(message), topic=None))


def _around(where: ChatPlace) -> ChatPlace:
    """Return where to search for a message: the whole channel, because its topic may have changed since."""
    return ChatPlace(channel=where.channel) if where.channel else where


def _queues(attempt: DeliveryAttempt) -> Sequence[Queue]:
    return [Queue(str(id_), int(last_event)) for id_, last_event in json.loads(attempt.marks.get("queues", "[]"))]


def _id(number: int) -> str:
    return f"id.{number}"


def _begun(number: int) -> str:
    return f"begun.{number}"


def _local_id(attempt: DeliveryAttempt, number: int) -> str:
    return f"{attempt.id}.{number}"
