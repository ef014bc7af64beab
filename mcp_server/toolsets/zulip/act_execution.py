"""Carrying out what was planned: sending each part once, finding what was sent when a reply is lost, telling what became of it.

Zulip knows no keys. But whoever hears a queue of events hears a message that was sent with that queue's id under the `local_id`
that it was sent with; and a bot finds its own messages. Source: https://zulip.com/api/send-message (`queue_id`, `local_id`).
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

import anyio

from knowledge.errors import KnowledgeError
from mcp_server.connectors.errors import ConnectorError, Denied, ReplyLost, ServiceRefused
from mcp_server.connectors.outbox_dispatcher import LOOKED_AFTER_S, SETTLED, WITHIN, Halfway, Json, outbox_entry_for
from mcp_server.connectors.page_mentions import noted
from mcp_server.connectors.zulip.model import Message, Queue, Where
from mcp_server.connectors.zulip.wire import MOST_MESSAGES, QueueGone
from mcp_server.toolsets.zulip.act_model import MessagePlan, Reacted, answered
from mcp_server.toolsets.zulip.schemas import MessageActed

if TYPE_CHECKING:
    from knowledge.outbox.ports import OutboxEntry
    from mcp_server.connectors.outbox_dispatcher import Delivered, DeliveryAttempt
    from mcp_server.connectors.zulip.chat import Chat
    from mcp_server.gate.caller import Call
    from mcp_server.ports import ActServices

NO_REPETITION = timedelta(0)
"""Whether a reaction is there already is known before it is sent; what was done earlier may have been taken back since."""
LONGEST_DROP_S = 2.0
"""Nobody waits longer for a queue to be dropped: Zulip forgets it in the end."""
SEND, REACT = "zulip_send_message", "zulip_react"
MOST_READ_BACK = 10
NOT_READ_BACK = "it was sent, but could not be read back"


class NotKnown(KnowledgeError):
    """Whether a message was sent cannot be told now."""

    def __init__(self, told: str) -> None:
        super().__init__(told)


class Sending:
    """Sends the parts of a message, each once, however often it is tried."""

    keyed = True
    """Zulip knows no keys, but what `look` says is not there was never sent, or refused, or cannot come any more."""

    def __init__(self, chat: Chat, plan: MessagePlan) -> None:
        self._chat, self._plan = chat, plan

    async def send(self, attempt: DeliveryAttempt) -> Json:
        """Send the parts that are not sent yet and return what they are known by.

        Raises:
            ReplyLost: nobody knows whether the first was sent.
            Halfway: some were sent; whether the next was, or why it could not be, is told.
            KnowledgeError: nothing was sent.
        """
        queue = await self._listening(attempt)
        for number, part in enumerate(self._plan.parts):
            if not attempt.marks.get(_id(number)):
                await self._send_part(attempt, number, part, queue)
        return await self._result(attempt)

    async def look(self, attempt: DeliveryAttempt) -> Json | None:
        """Return what the message is known by if all of it is there; None if some of it certainly is not.

        Raises:
            NotKnown: a part may be there, or come.
        """
        if attempt.outbox_entry.digest != self._plan.effect:
            raise NotKnown("names or limits in Zulip have changed since, so it cannot be looked up")
        whole = True
        for number in range(len(self._plan.parts)):
            if attempt.marks.get(_id(number)):
                continue
            whole = await self._find(attempt, number) and whole
        return await self._result(attempt) if whole else None

    async def _listening(self, attempt: DeliveryAttempt) -> Queue | None:
        """Return a queue that will hear what is sent, put on record together with the newest message before; None if there is none."""
        try:
            queue = await self._chat.client.register(self._plan.where)
        except (Denied, ServiceRefused):
            queue = None
        marks = {"newest": attempt.marks.get("newest") or str(await self._newest())}
        if queue is not None:
            marks["queues"] = json.dumps([[one.id, one.last_event_id] for one in (*_queues(attempt), queue)])
        await attempt.mark(marks)
        return queue

    async def _newest(self) -> int:
        """Return the newest message there, which is not always what the queue calls newest: that is the newest the bot received."""
        window = await self._chat.client.messages(_around(self._plan.where), anchor="newest", before=1)
        return window.messages[-1].id if window.messages else 0

    async def _send_part(self, attempt: DeliveryAttempt, number: int, part: str, queue: Queue | None) -> None:
        await attempt.mark({_begun(number): self._chat.now().isoformat()})
        try:
            sent = await self._chat.client.send(
                self._plan.where, part, queue=queue, local_id=_local_id(attempt, number) if queue else ""
            )
        except ReplyLost as error:
            if len(self._plan.parts) == 1 or not await self._found_soon(attempt, number):
                raise self._half(attempt, number, error) from error
            return
        except ConnectorError as error:
            await attempt.mark({_begun(number): ""})
            raise self._half(attempt, number, error) from error
        await attempt.mark({_id(number): str(sent)})

    async def _found_soon(self, attempt: DeliveryAttempt, number: int) -> bool:
        """Return whether a part whose reply was lost shows up within some seconds, so that the next can follow it."""
        for wait_s in LOOKED_AFTER_S:
            await self._chat.sleep(wait_s)
            try:
                if await self._find(attempt, number):
                    return True
            except KnowledgeError:
                continue
        return False

    def _half(self, attempt: DeliveryAttempt, number: int, error: ConnectorError) -> KnowledgeError:
        """Return what an error means when `number` parts before it were sent."""
        if not any(attempt.marks.get(_id(before)) for before in range(number)):
            return error
        count = len(self._plan.parts)
        if isinstance(error, ReplyLost):
            return Halfway(f"{number} of {count} messages were sent; of the next it is not known")
        return Halfway(f"{number} of {count} messages were sent, the next not: {error}")

    async def _find(self, attempt: DeliveryAttempt, number: int) -> bool:
        """Return whether the part is there, and put its id on record; False if it certainly is not.

        Raises:
            NotKnown: it may be there, or come.
        """
        begun = attempt.marks.get(_begun(number))
        if not begun:
            return False
        found = await self._heard(attempt, number)
        if found is not None:
            await attempt.mark({_id(number): str(found)})
            return True
        if self._chat.now() - datetime.fromisoformat(begun) < SETTLED:
            raise NotKnown("there is no trace of it in Zulip yet")
        await attempt.mark({_begun(number): ""})
        return False

    async def _heard(self, attempt: DeliveryAttempt, number: int) -> int | None:
        """Return the id of the part: as a queue heard it, else that of an own message there that says the same."""
        others: set[int] = set()
        for queue in _queues(attempt):
            try:
                heard = await self._chat.client.heard(queue, queue.last_event_id)
            except QueueGone:
                continue
            for message in heard.messages:
                if message.local_id == _local_id(attempt, number):
                    return message.id
                others.add(message.id)  # sent by somebody else, or as another part
        return await self._own(attempt, number, others)

    async def _own(self, attempt: DeliveryAttempt, number: int, others: set[int]) -> int | None:
        known = {one: int(id_) for one in range(len(self._plan.parts)) if (id_ := attempt.marks.get(_id(one)))}
        earlier = [id_ for one, id_ in known.items() if one < number]
        after = max([int(attempt.marks.get("newest") or 0), *earlier])
        not_it = others | set(known.values())
        window = await self._chat.client.messages(
            _around(self._plan.where),
            anchor=after,
            after=MOST_MESSAGES,
            with_anchor=False,
            sender=await self._chat.me(),
        )
        part = self._plan.parts[number]
        return next(
            (one.id for one in window.messages if one.text == part and one.id not in not_it),
            None,
        )

    async def _result(self, attempt: DeliveryAttempt) -> Json:
        """Return what the message is known by, which needs no queue any more."""
        with anyio.move_on_after(LONGEST_DROP_S):
            for queue in _queues(attempt):
                await self._chat.client.drop(queue)
        ids = [int(attempt.marks[_id(number)]) for number in range(len(self._plan.parts))]
        return {"message_ids": ids, "place": self._plan.place, "url": self._plan.url}


class Reacting:
    """Adds an emoji or takes it back, which does the same when it is done twice."""

    keyed = True

    def __init__(self, chat: Chat, plan: MessagePlan, reacted: Reacted) -> None:
        self._chat, self._plan, self._reacted = chat, plan, reacted

    async def send(self, attempt: DeliveryAttempt) -> Json:
        """Do it and return what it was done to."""
        del attempt
        client, message_id, emoji = self._chat.client, self._reacted.message.id, self._reacted.emoji
        if self._reacted.remove:
            await client.unreact(message_id, emoji)
            return self._told()
        return {**self._told(), "changed": await client.react(message_id, emoji) or await self._is_ours()}

    async def _is_ours(self) -> bool:
        """Return whether an emoji that was there when it came was added by this: a first try whose reply was lost may have done it.

        It was not there under that name before; under another name of the same emoji it may have been.
        """
        try:
            return await self._is_so()
        except ConnectorError:
            return True

    async def look(self, attempt: DeliveryAttempt) -> Json | None:
        """Return what it was done to if it is so; None if it is not so now."""
        del attempt
        return self._told() if await self._is_so() else None

    async def _is_so(self) -> bool:
        message, me = await self._chat.message(self._reacted.message.id), await self._chat.me()
        there = any(one.user_id == me.id and one.emoji == self._reacted.emoji for one in message.reactions)
        return there is not self._reacted.remove

    def _told(self) -> Json:
        return {"message_ids": [self._reacted.message.id], "place": self._plan.place, "url": self._plan.url}


async def carried_out(services: ActServices, call: Call, plan: MessagePlan) -> MessageActed:
    """Do what the plan says, once, and return what became of it.

    Raises:
        KnowledgeError: it certainly was not done.
    """
    outbox_entry = outbox_entry_for(
        call,
        tool=REACT if plan.reaction else SEND,
        target=plan.target,
        digest=plan.effect,
        arguments_hash=plan.arguments_hash,
        at=services.now(),
    )
    within = NO_REPETITION if plan.reaction else WITHIN
    delivered = await services.dispatcher.deliver(outbox_entry, _act(services.zulip, plan), within=within)
    answer = await told(services.zulip, plan, delivered)
    if answer.status == "done" and plan.parts and plan.where.channel:
        await noted(services, plan.target, url=answer.url or plan.url, texts=plan.parts, title=_title(plan))
    return answer


async def recalled(services: ActServices, call: Call, plan: MessagePlan) -> MessageActed | None:
    """Return the answer of an act that a process began and did not end; None if it is not there, or not whole."""
    delivered = await services.dispatcher.recall_for(call, _act(services.zulip, plan))
    return await told(services.zulip, plan, delivered) if delivered else None


def _act(chat: Chat, plan: MessagePlan) -> Sending | Reacting:
    return Reacting(chat, plan, plan.reaction) if plan.reaction else Sending(chat, plan)


async def told(chat: Chat, plan: MessagePlan, delivered: Delivered) -> MessageActed:
    """Return the answer of an act that was carried out, with what Zulip made of it."""
    if delivered.status == "unsure":
        answer = answered(plan, "unsure", _unsure(plan, delivered))
        return replace(answer, message_ids=_sent_ids(plan, delivered.outbox_entry)) if plan.parts else answer
    result = delivered.result or {}
    ids = [int(one) for one in result.get("message_ids", ())]
    answer = MessageActed(
        delivered.status,
        None,
        str(result.get("place") or plan.place),
        ids,
        str(result.get("url") or plan.url),
        note=plan.note,
    )
    if delivered.status == "unchanged":
        at = delivered.outbox_entry.begun_at.strftime("%Y-%m-%d %H:%M UTC")
        return replace(answer, note=f"the same call did it on {at}; nothing was sent again")
    if plan.reaction is not None:
        return replace(answer, status="done" if result.get("changed", True) else "unchanged")
    return await _read_back(chat, plan, answer)


def _title(plan: MessagePlan) -> str:
    return f"#{plan.where.channel.name} > {plan.where.topic}" if plan.where.channel else plan.place


def _unsure(plan: MessagePlan, delivered: Delivered) -> str:
    if _halted(plan, delivered.outbox_entry):
        return f"{delivered.why}. Nothing is under way; the same call sends the rest"
    return (
        f"{delivered.why}. Look at {plan.url} before anything is sent again; the same call looks first, and sends what is not "
        f"there only {SETTLED.total_seconds() / 60:.0f} minutes after it was sent"
    )


def _halted(plan: MessagePlan, outbox_entry: OutboxEntry) -> bool:
    """Return whether some parts are sent, and each other one certainly is not."""
    sent = _sent_ids(plan, outbox_entry)
    parts = range(len(plan.parts))
    return bool(sent) and not any(
        outbox_entry.marks.get(_begun(n)) and not outbox_entry.marks.get(_id(n)) for n in parts
    )


def _sent_ids(plan: MessagePlan, outbox_entry: OutboxEntry) -> Sequence[int]:
    """Return the ids of the parts that are known to be sent; of a message of old, which was of other parts, none."""
    if outbox_entry.digest != plan.effect:
        return []
    return [int(id_) for number in range(len(plan.parts)) if (id_ := outbox_entry.marks.get(_id(number)))]


async def _read_back(chat: Chat, plan: MessagePlan, answer: MessageActed) -> MessageActed:
    """Return the answer with what Zulip changed; what is sent is sent, whether it can be read back or not."""
    notes = [answer.note] if answer.note else []
    try:
        first = await chat.client.message(answer.message_ids[0])
        notes += _changed(plan, 0, first)
        for number, message_id in list(enumerate(answer.message_ids))[1:MOST_READ_BACK]:
            notes += _changed(plan, number, await chat.client.message(message_id))
        answer = replace(answer, url=await chat.url_of(first))
    except ConnectorError:
        notes.append(NOT_READ_BACK)
    return replace(answer, note="; ".join(notes) or None)


def _changed(plan: MessagePlan, number: int, message: Message) -> Sequence[str]:
    sent = plan.parts[number] if number < len(plan.parts) else ""
    told = []
    if message.topic != (plan.where.topic or ""):
        told.append(f"Zulip has message {message.id} under the topic {message.topic!r}")
    if message.text != sent:
        told.append(f"Zulip keeps another text in message {message.id}: {len(message.text)} of {len(sent)} characters")
    return told


def _around(where: Where) -> Where:
    """Return where to look for a message: its topic may have been changed since."""
    return Where(channel=where.channel) if where.channel else where


def _queues(attempt: DeliveryAttempt) -> Sequence[Queue]:
    """Return the queues that hear of the message, by what is on record of them."""
    return [Queue(str(id_), int(last_event), 0) for id_, last_event in json.loads(attempt.marks.get("queues", "[]"))]


def _id(number: int) -> str:
    return f"id.{number}"


def _begun(number: int) -> str:
    return f"begun.{number}"


def _local_id(attempt: DeliveryAttempt, number: int) -> str:
    return f"{attempt.id}.{number}"
