"""Carries out planned changes in Zulip: each sets a value, is looked up after a lost reply, read back, and answered."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Protocol

from knowledge.errors import EffectChanged
from mcp_server.connectors.errors import ConnectorError, Missing, ReplyLost, ServiceRefused
from mcp_server.connectors.outbox_dispatcher import Delivered, DeliveryAttempt, Json
from mcp_server.connectors.page_mentions import remember_mentions
from mcp_server.connectors.zulip.chat import Chat, chat_of
from mcp_server.connectors.zulip.wire import SERVICE
from mcp_server.ports import ActServices
from mcp_server.toolsets.service_act import ServiceAct
from mcp_server.toolsets.zulip import UPDATE
from mcp_server.toolsets.zulip.schemas import ChatUpdated
from mcp_server.toolsets.zulip.updates.model import State, UpdatePlan, updated
from mcp_server.toolsets.zulip.updates.plan import marked

SENT, MESSAGE = "sent", "message"
"""Marks of an outbox entry: that its change may have reached Zulip, and the message by which a moved topic is found."""
NO_REPETITION = timedelta(0)
"""No change counts as a repetition of an earlier one: before each act, Zulip is asked whether the value is set already."""
Marks = Mapping[str, str]


class ValueInZulip(Protocol):
    """Something in Zulip that has a value, and can be given another one."""

    async def current(self, marks: Marks) -> State:
        """Return its value now."""
        ...

    async def check(self) -> None:
        """Check that exactly the planned change would happen now.

        Raises:
            EffectChanged: something else would happen.
        """
        ...

    async def change(self, marks: Marks) -> None:
        """Give it the planned value."""
        ...


@dataclass(frozen=True)
class OwnMessage:
    """The text of an own message; None if it is deleted."""

    chat: Chat
    plan: UpdatePlan

    async def current(self, _marks: Marks) -> State:
        """Return the text."""
        try:
            return (await self.chat.client.message(self.plan.number)).text
        except Missing:
            return None

    async def check(self) -> None:
        """Do nothing: the text was already compared, and nothing else matters."""

    async def change(self, _marks: Marks) -> None:
        """Edit or delete it."""
        if self.plan.after is None:
            await self.chat.client.delete(self.plan.number)
        else:
            await self.chat.client.edit(self.plan.number, str(self.plan.after), instead_of=str(self.plan.before))


@dataclass(frozen=True)
class WaitingMessage:
    """The text of a scheduled message; None if it is cancelled."""

    chat: Chat
    plan: UpdatePlan

    async def current(self, _marks: Marks) -> State:
        """Return the text.

        Raises:
            ReplyLost: it is not there and its time has come, so it was cancelled or sent.
        """
        found = next((one.text for one in await self.chat.client.scheduled() if one.id == self.plan.number), None)
        if found is None and self.plan.due is not None and self.chat.now() >= self.plan.due:
            raise ReplyLost(SERVICE, "its time has come, so it may have been sent")
        return found

    async def check(self) -> None:
        """Do nothing: the text was already compared, and nothing else matters."""

    async def change(self, _marks: Marks) -> None:
        """Cancel it."""
        await self.chat.client.unschedule(self.plan.number)


@dataclass(frozen=True)
class TopicPlace:
    """The channel and name of a topic, as its newest message had them when this was planned."""

    chat: Chat
    plan: UpdatePlan

    async def current(self, marks: Marks) -> State:
        """Return the channel's id and the topic's name."""
        message = await self.chat.client.message(int(marks.get(MESSAGE, self.plan.number)))
        return (message.channel_id or 0, message.topic)

    async def check(self) -> None:
        """Check that the new name is still taken, or still free, as when this was planned.

        Raises:
            EffectChanged: two topics would become one, or no longer would.
        """
        was, where = self.plan.was_at, self.plan.where
        if was is None or was.channel is None or where.channel is None:
            raise TypeError("a topic moves from a channel to a channel")
        new, old = (where.topic or "").casefold(), (was.topic or "").casefold()
        if (was.channel.id, old) == (where.channel.id, new):
            return  # only its case changes
        taken = new in {one.name.casefold() for one in await self.chat.client.topics(where.channel)}
        if taken is not self.plan.merges:
            raise EffectChanged(self.plan.place)

    async def change(self, marks: Marks) -> None:
        """Move it."""
        was, where = self.plan.was_at, self.plan.where
        stays = was is not None and was.channel is not None and was.channel == where.channel
        await self.chat.client.move(int(marks[MESSAGE]), where.topic or "", None if stays else where.channel)


@dataclass(frozen=True)
class ReadMarks:
    """Whether messages are read by the bot. If some of them are marked already, the change marks the rest."""

    chat: Chat
    plan: UpdatePlan

    async def current(self, _marks: Marks) -> State:
        """Return the new value if all have it, else the old one."""
        left = await marked(self.chat, self.plan.where, self.plan.number, read=bool(self.plan.before))
        return self.plan.after if set(left).isdisjoint(self.plan.message_ids) else self.plan.before

    async def check(self) -> None:
        """Do nothing: nothing else can happen."""

    async def change(self, _marks: Marks) -> None:
        """Mark them."""
        await self.chat.client.mark_read(self.plan.message_ids, read=bool(self.plan.after))


@dataclass(frozen=True)
class Subscription:
    """Whether the bot is subscribed to a channel."""

    chat: Chat
    plan: UpdatePlan

    async def current(self, _marks: Marks) -> State:
        """Return whether it is."""
        channel = self.plan.where.channel
        return channel is not None and channel.id in await self.chat.client.subscriptions()

    async def check(self) -> None:
        """Check that the channel still has its name: Zulip expects a name here, and creates a channel if none has it.

        Raises:
            EffectChanged: it was renamed or archived.
        """
        channel = self.plan.where.channel
        known = {(one.id, one.name) for one in await self.chat.client.channels()}
        if channel is None or (channel.id, channel.name) not in known:
            raise EffectChanged(self.plan.place)

    async def change(self, _marks: Marks) -> None:
        """Subscribe or unsubscribe it."""
        if self.plan.where.channel is not None:
            await self.chat.client.subscribe(self.plan.where.channel, on=bool(self.plan.after))


@dataclass(frozen=True)
class SetValue:
    """Gives something in Zulip the planned value. Doing it twice has the same result as once."""

    plan: UpdatePlan
    value: ValueInZulip
    # Not by a key: `look` raises if somebody else may have changed it since.
    keyed = True

    async def send(self, attempt: DeliveryAttempt) -> Json:
        """Change it unless it is done.

        Raises:
            EffectChanged: it is not as it was when this was planned; nothing was sent.
            ReplyLost: an earlier attempt may have changed it, and somebody else certainly did.
        """
        first = SENT not in attempt.marks
        if await self._is_done(attempt, first=first):
            return {}
        if first:
            await self.value.check()
            await attempt.mark({SENT: "yes", MESSAGE: str(self.plan.number)})
        try:
            await self.value.change(attempt.marks)
        except (ServiceRefused, Missing):
            # Zulip refuses to give a topic the name that it has, and to edit a text that changed since.
            if not await self._is_done(attempt, first=first):
                raise
        return {}

    async def look(self, attempt: DeliveryAttempt) -> Json | None:
        """Return a result if the new value is set; None if it certainly has not been set yet.

        Raises:
            ReplyLost: as for `send`.
        """
        if SENT not in attempt.marks:
            return None
        return {} if await self._is_done(attempt, first=False) else None

    async def _is_done(self, attempt: DeliveryAttempt, *, first: bool) -> bool:
        now = await self.value.current(attempt.marks)
        if now == self.plan.after:
            return True
        if now != self.plan.before:
            if first:
                raise EffectChanged(self.plan.place)
            raise ReplyLost(SERVICE, "somebody else changed it meanwhile")
        return False


def update_act(services: ActServices, plan: UpdatePlan) -> ServiceAct[ChatUpdated]:
    """Return how the plan is carried out and answered."""
    value = _value(chat_of(services), plan)
    return ServiceAct(
        tool=UPDATE,
        target=f"zulip:{plan.place}",
        digest=plan.effect,
        arguments_hash=plan.arguments_hash,
        window=NO_REPETITION,
        act=SetValue(plan, value),
        conclude=lambda delivered: _conclude(services, plan, value, delivered),
        # Two changes of one thing at once would both find it as it was.
        alone_with=[f"zulip {plan.kind} {plan.number or plan.place}"],
        conflict=updated(plan, "conflict", "it was changed meanwhile; nothing was sent. Read it and call again"),
    )


def _value(chat: Chat, plan: UpdatePlan) -> ValueInZulip:
    match plan.kind:
        case "edit" | "delete":
            return OwnMessage(chat, plan)
        case "cancel":
            return WaitingMessage(chat, plan)
        case "move":
            return TopicPlace(chat, plan)
        case "read":
            return ReadMarks(chat, plan)
        case "subscribe":
            return Subscription(chat, plan)


async def _conclude(services: ActServices, plan: UpdatePlan, value: ValueInZulip, delivered: Delivered) -> ChatUpdated:
    """Return the answer, and record which pages a new text in a channel names."""
    if delivered.status == "unsure":
        why = (
            f"{delivered.why}; look at {plan.url} to see whether it was done. "
            "Repeat the same call: it looks first, and does this only once"
        )
        return updated(plan, "unsure", why)
    note = ""
    try:
        if await value.current(delivered.outbox_entry.marks) != plan.after:
            note = "Zulip has other values than were sent: check it now"
    except ConnectorError:
        note = "it was done, but could not be read back"
    channel = plan.where.channel
    if plan.kind == "edit" and channel is not None:
        title = f"#{channel.name} > {plan.where.topic}"
        await remember_mentions(services, f"zulip:{plan.place}", url=plan.url, texts=[str(plan.after)], title=title)
    return updated(plan, "done", note)
