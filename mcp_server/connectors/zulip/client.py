"""Zulip as calls that are awaited: the requests of `wire`, sent, and their replies read."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import datetime
from typing import TYPE_CHECKING, TypeVar

from mcp_server.connectors.errors import ConnectorError, Denied, Missing, NoAnswer, ReplyLost, ServiceRefused
from mcp_server.connectors.request.wire import ServiceReply, ServiceRequest
from mcp_server.connectors.zulip import wire
from mcp_server.connectors.zulip.model import (
    Channel,
    Message,
    Queue,
    QueueEvents,
    Topic,
    Where,
    Window,
    ZulipServer,
    ZulipUser,
)

if TYPE_CHECKING:
    from mcp_server.connectors.http import Sender

SERVER_KEPT_S = 3_600.0
"""A server is asked again after an hour what it is: it may have been upgraded."""
_T = TypeVar("_T")


class ZulipClient:
    """What one bot can ask of one organisation. It resolves no names and knows no allow list."""

    def __init__(self, sender: Sender, *, monotonic: Callable[[], float]) -> None:
        self._sender, self._monotonic = sender, monotonic
        self._server: tuple[float, ZulipServer] | None = None
        self._limits: tuple[float, ZulipServer] | None = None

    async def server(self) -> ZulipServer:
        """Return what the server is, asked at most once an hour. Its limits may be the usual ones: see `limits`."""
        if self._server is None or self._old(self._server[0]):
            self._server = self._monotonic(), await self._do(wire.server_settings(), wire.server_read)
        return self._server[1]

    async def limits(self) -> ZulipServer:
        """Return the same, with the limits that this server has for messages and topics, asked at most once an hour."""
        if self._limits is None or self._old(self._limits[0]):
            server = await self.server()
            queue, message, topic = await self._queued(wire.limits(), wire.limits_read)
            known = replace(
                server,
                longest_message=message or server.longest_message,
                longest_topic=topic or server.longest_topic,
            )
            self._limits = self._monotonic(), known
            await self.drop(queue)
        return self._limits[1]

    async def me(self) -> ZulipUser:
        """Return the user whose key it is."""
        return await self._do(wire.own_user(), wire.person_read)

    async def people(self) -> Sequence[ZulipUser]:
        """Return all users by name, those that are deactivated too."""
        return await self._do(wire.users(), wire.people_read)

    async def channels(self) -> Sequence[Channel]:
        """Return the channels that the bot sees, by name, without those that are archived."""
        return await self._do(wire.channels(), wire.channels_read)

    async def topics(self, channel: Channel) -> Sequence[Topic]:
        """Return the topics of a channel, the one with the newest message first."""
        return await self._do(wire.topics(channel), wire.topics_read)

    async def messages(
        self,
        where: Where,
        *,
        anchor: wire.Anchor = "newest",
        before: int = 0,
        after: int = 0,
        with_anchor: bool = True,
        search: str = "",
        sender: ZulipUser | None = None,
    ) -> Window:
        """Return messages of `where` around `anchor`, oldest first, at most 1,000.

        `anchor` is the id of a message, whether or not it lies there, an end, or from feature level 445 on a moment. With an id,
        `with_anchor` adds that message itself, if it lies there. `search` are words of which each must be there.
        """
        server = await self.server()
        if isinstance(anchor, datetime) and server.level < wire.DATED_ANCHOR:
            raise ServiceRefused(
                wire.SERVICE, 400, f"servers of feature level {server.level} know no moment as an anchor"
            )
        wanted = wire.messages(
            server,
            where,
            anchor=anchor,
            before=before,
            after=after,
            search=search,
            sender=sender,
            with_anchor=with_anchor,
        )
        window = await self._do(wanted, wire.window_read)
        if with_anchor or not isinstance(anchor, int):
            return window
        return replace(window, messages=[message for message in window.messages if message.id != anchor])

    async def message(self, message_id: int) -> Message:
        """Return a message.

        Raises:
            Missing: there is none of that id, or none that the bot may see; the server does not say which.
        """
        try:
            return await self._do(wire.message(message_id), wire.message_read)
        except ServiceRefused as refused:
            raise self._no_message(message_id, refused) from None

    async def send(self, where: Where, text: str, *, queue: Queue | None = None, local_id: str = "") -> int:
        """Return the id of the message that was sent to a channel and topic, or to people. It is sent once.

        With `queue` it is heard there with `local_id`, also when this reply is lost.

        Raises:
            ReplyLost: it is not known whether it was sent.
        """
        return await self._do(
            wire.send(await self.server(), where, text, queue=queue, local_id=local_id), wire.sent_read
        )

    async def edit(self, message_id: int, text: str) -> None:
        """Give a message of the bot's own another text."""
        try:
            await self._do(wire.edit(message_id, text), wire.judged)
        except ServiceRefused as refused:
            raise self._no_message(message_id, refused) from None

    async def react(self, message_id: int, emoji: str) -> bool:
        """Add an emoji by its name; return False where it was there already."""
        try:
            return await self._do(wire.react(message_id, emoji), wire.reaction_judged)
        except ServiceRefused as refused:
            raise self._no_message(message_id, refused) from None

    async def unreact(self, message_id: int, emoji: str) -> bool:
        """Take an emoji back; return False where it was not there."""
        try:
            return await self._do(wire.unreact(message_id, emoji), wire.reaction_judged)
        except ServiceRefused as refused:
            raise self._no_message(message_id, refused) from None

    async def register(self, where: Where | None = None, *, reactions: bool = False) -> Queue:
        """Return a new queue of events that hears messages, of a channel and topic if given, and reactions if asked.

        What is sent to public channels is heard even where the bot did not subscribe, if the server lets it.
        """
        server = await self.server()
        public = where is not None and where.channel is not None and not where.channel.private
        try:
            wanted = wire.register(server, where, reactions=reactions, public=public)
            return await self._queued(wanted, wire.queue_read)
        except (Denied, ServiceRefused):
            if not public:
                raise
            # Guests may not listen to all public channels; what they are subscribed to they hear without.
            return await self._queued(wire.register(server, where, reactions=reactions), wire.queue_read)

    async def heard(self, queue: Queue, after: int, *, block: bool = False) -> QueueEvents:
        """Return what `queue` heard after the event `after`; with `block` as soon as there is something, or after a minute.

        What it heard up to `after` is forgotten there. `last_event_id` stays `after` when nothing was heard.

        Raises:
            QueueGone: register again.
        """
        heard = await self._do(wire.events(queue, after, block=block), wire.heard_read)
        return replace(heard, last_event_id=max(after, heard.last_event_id))

    async def drop(self, queue: Queue) -> None:
        """Have a queue forgotten, if it can be; a server forgets it in the end anyway."""
        try:
            await self._do(wire.drop(queue), wire.dropped)
        except ConnectorError:
            return

    async def _do(self, request: ServiceRequest, read: Callable[[ServiceRequest, ServiceReply], _T]) -> _T:
        return read(request, await self._sender.send(request))

    async def _queued(self, request: ServiceRequest, read: Callable[[ServiceRequest, ServiceReply], _T]) -> _T:
        """Return what came of asking for a queue; one more of which nobody knows is nothing that was done."""
        try:
            return await self._do(request, read)
        except ReplyLost as lost:
            raise NoAnswer(wire.SERVICE, lost.why) from lost

    def _old(self, asked_at: float) -> bool:
        return self._monotonic() - asked_at > SERVER_KEPT_S

    @staticmethod
    def _no_message(message_id: int, refused: ServiceRefused) -> ConnectorError:
        """Return that there is no such message, if that is what was refused. Source: message_by_id_no_access_400.json."""
        if refused.why.startswith("Invalid message"):
            return Missing(wire.SERVICE, f"message {message_id}", "it may be deleted, or in a channel without the bot")
        return refused
