"""Zulip's calls, awaited: `wire` makes each request and reads its reply, a `Sender` sends it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import TypeVar

from knowledge.wire.addresses import shown_address
from mcp_server.connectors.errors import (
    ConnectorError,
    Denied,
    Missing,
    NoAnswer,
    ReplyLost,
    ServiceRefused,
    WrongAddress,
)
from mcp_server.connectors.http import LONGEST_ADDRESS, Sender
from mcp_server.connectors.request.wire import ServiceRequest, UploadedFile
from mcp_server.connectors.zulip import wire
from mcp_server.connectors.zulip.model import (
    Channel,
    ChatPlace,
    Message,
    MessageWindow,
    Queue,
    QueueEvents,
    ScheduledMessage,
    Topic,
    UnreadMessages,
    ZulipGroup,
    ZulipServer,
    ZulipUser,
)

SERVER_KEPT_S = 3_600.0
"""How long a server's version is cached, because the server may be upgraded."""
_T = TypeVar("_T")


class ZulipClient:
    """One organisation as one bot sees it. It resolves no names and knows no allow list."""

    def __init__(self, sender: Sender, *, monotonic: Callable[[], float]) -> None:
        self._sender, self._monotonic = sender, monotonic
        self._server: tuple[float, ZulipServer] | None = None
        self._limits: tuple[float, ZulipServer] | None = None

    async def server(self) -> ZulipServer:
        """Return the server, requested at most once an hour. Its limits may be the default ones: see `limits`."""
        if self._server is None or self._monotonic() - self._server[0] > SERVER_KEPT_S:
            self._server = self._monotonic(), await self._do(wire.server_settings(), wire.read_server)
        return self._server[1]

    async def limits(self) -> ZulipServer:
        """Return the server with its organisation's limits, requested at most once an hour."""
        if self._limits is None or self._monotonic() - self._limits[0] > SERVER_KEPT_S:
            server = await self.server()
            queue, limits = await self._queue(wire.limits(), wire.read_limits)
            self._limits = self._monotonic(), replace(server, **limits)
            await self.drop(queue)  # the register request that returns the limits makes a queue that nobody needs
        return self._limits[1]

    async def me(self) -> ZulipUser:
        """Return the owner of the key."""
        return await self._do(wire.own_user(), wire.read_user)

    async def people(self) -> Sequence[ZulipUser]:
        """Return all users by name, including deactivated ones."""
        return await self._do(wire.users(), wire.read_users)

    async def channels(self) -> Sequence[Channel]:
        """Return the channels that the bot sees, by name, without archived ones."""
        return await self._do(wire.channels(), wire.read_channels)

    async def topics(self, channel: Channel) -> Sequence[Topic]:
        """Return the topics of a channel, the one with the newest message first."""
        return await self._do(wire.topics(channel), wire.read_topics)

    async def messages(
        self,
        where: ChatPlace,
        *,
        anchor: wire.Anchor = "newest",
        before: int = 0,
        after: int = 0,
        with_anchor: bool = True,
        search: str = "",
        sender: ZulipUser | None = None,
    ) -> MessageWindow:
        """Return messages of `where` around `anchor`, oldest first, at most 1,000.

        `anchor` is the id of a message, which may be in another place; an end of the place; or, from feature level 445 on, a point
        in time. If it is the id of a message of `where`, `with_anchor` says whether that message is returned. Only messages that
        contain every word of `search` are returned.
        """
        server = await self.server()
        if isinstance(anchor, datetime) and server.level < wire.DATED_ANCHOR:
            why = f"servers of feature level {server.level} do not accept a time as an anchor"
            raise ServiceRefused(wire.SERVICE, 400, why)
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
        window = await self._do(wanted, wire.read_messages)
        if with_anchor or not isinstance(anchor, int):
            return window
        # Servers below feature level 155 include the anchor all the same.
        return replace(window, messages=[message for message in window.messages if message.id != anchor])

    async def times(self, where: ChatPlace, message_ids: Sequence[int]) -> Mapping[int, datetime]:
        """Return when each of these messages of `where` was sent. `message_ids` begins with the newest.

        Only the first 1,000 are looked up. A server that can't return messages by their ids is asked for the newest 1,000 messages
        of the place; older ones are missing then.
        """
        if not message_ids:
            return {}
        if (await self.server()).level >= wire.MESSAGES_BY_ID:
            return await self._do(wire.messages_by_id(message_ids[: wire.MOST_MESSAGES]), wire.read_times)
        newest = await self.messages(where, before=wire.MOST_MESSAGES)
        return {message.id: message.at for message in newest.messages}

    async def unread(self) -> tuple[Sequence[UnreadMessages], bool]:
        """Return the unread messages by topic and conversation, and whether these are all; the server lists the newest 50,000."""
        queue, places, complete = await self._queue(wire.unread(), wire.read_unread)
        await self.drop(queue)  # the register request that returns them makes a queue that nobody needs
        return places, complete

    async def groups(self) -> Sequence[ZulipGroup]:
        """Return the groups of users that people made, by name."""
        queue, groups = await self._queue(wire.groups(), wire.read_groups)
        await self.drop(queue)  # the register request that returns them makes a queue that nobody needs
        return groups

    async def file(self, path: str) -> bytes:
        """Return the content of an uploaded file; `path` follows `/user_uploads/` and is percent-encoded.

        Raises:
            Missing: it does not exist, or the bot may not see it; the server does not say which.
            WrongAddress: the server keeps it elsewhere.
        """
        try:
            url = await self._do(wire.file_url(path), wire.read_file_url)
            where = url.removeprefix(self._sender.place.address)
            if not where.startswith("/") or where.startswith("//"):
                raise WrongAddress(wire.SERVICE, wire.ADDRESS_SETTING, shown_address(url)[:LONGEST_ADDRESS])
            return await self._do(wire.file(where), wire.read_file)
        except (Denied, ServiceRefused) as refused:
            # Both answers are pages of HTML. Source: zerver/views/upload.py of github.com/zulip/zulip.
            if refused.status in (403, 404):
                raise Missing(
                    wire.SERVICE, "such file", "it may be deleted, or in a message that the bot may not see"
                ) from None
            raise

    async def message(self, message_id: int) -> Message:
        """Return a message.

        Raises:
            Missing: it does not exist, or the bot may not see it; the server does not say which.
        """
        return await self._on_message(message_id, wire.message(message_id), wire.read_message)

    async def send(self, where: ChatPlace, text: str, *, queue: Queue | None = None, local_id: str = "") -> int:
        """Send a message, once, and return its id.

        With `queue`, the message is received there with `local_id`, even if this reply is lost.

        Raises:
            ReplyLost: it is unknown whether it was sent.
        """
        wanted = wire.send(await self.server(), where, text, queue=queue, local_id=local_id)
        return await self._do(wanted, wire.read_sent)

    async def upload(self, file: UploadedFile) -> str:
        """Upload a file and return its path on the server. Nobody sees it before a message links to it.

        Raises: NoAnswer: it may have been uploaded, but nobody would see that.
        """
        try:
            return await self._do(wire.upload(file), wire.read_upload)
        except ReplyLost as lost:
            raise NoAnswer(wire.SERVICE, lost.why) from lost

    async def schedule(self, where: ChatPlace, text: str, at: datetime) -> int:
        """Have a message sent at a time, and return the id under which it waits.

        Raises:
            ReplyLost: it is unknown whether it was scheduled.
        """
        return await self._do(wire.schedule(await self.server(), where, text, at), wire.read_scheduled_id)

    async def scheduled(self) -> Sequence[ScheduledMessage]:
        """Return the bot's messages that are not sent yet, the next one first."""
        return await self._do(wire.scheduled(), wire.read_scheduled)

    async def unschedule(self, scheduled_id: int) -> None:
        """Delete a scheduled message."""
        await self._do(wire.unschedule(scheduled_id), wire.require_success)

    async def edit(self, message_id: int, text: str, *, instead_of: str | None = None) -> None:
        """Change the text of one of the bot's own messages.

        With `instead_of` it is sent once and, if the server can check this, only if the message has that text now.
        """
        guard = instead_of if (await self.server()).level >= wire.EDIT_GUARD else None
        request = wire.edit(message_id, text, instead_of=guard, repeatable=instead_of is None)
        await self._on_message(message_id, request, wire.require_success)

    async def delete(self, message_id: int) -> None:
        """Delete a message."""
        await self._on_message(message_id, wire.delete(message_id), wire.require_success)

    async def move(self, message_id: int, topic: str, channel: Channel | None = None) -> None:
        """Move all messages of a message's topic to another topic, and to another channel if one is given."""
        await self._on_message(message_id, wire.move(message_id, topic, channel), wire.require_success)

    async def mark_read(self, message_ids: Sequence[int], *, read: bool) -> None:
        """Mark messages as read or unread by the bot, at most 1,000."""
        await self._do(wire.mark_read(message_ids, read=read), wire.require_success)

    async def subscriptions(self) -> frozenset[int]:
        """Return the ids of the channels that the bot is subscribed to."""
        return await self._do(wire.subscriptions(), wire.read_subscriptions)

    async def subscribe(self, channel: Channel, *, on: bool) -> None:
        """Subscribe the bot to the channel of that name, or unsubscribe it."""
        request = wire.subscribe(channel) if on else wire.unsubscribe(channel)
        await self._do(request, wire.require_success)

    async def react(self, message_id: int, emoji: str) -> bool:
        """Add an emoji by its name; return False if it was already there."""
        return await self._on_message(message_id, wire.react(message_id, emoji), wire.read_reaction_change)

    async def unreact(self, message_id: int, emoji: str) -> bool:
        """Remove our own emoji; return False if it was not there."""
        return await self._on_message(message_id, wire.unreact(message_id, emoji), wire.read_reaction_change)

    async def register(self, where: ChatPlace | None = None, *, reactions: bool = False) -> Queue:
        """Return a new queue of events that receives messages, of a channel and topic if given, and reactions if requested.

        It also receives messages in public channels that the bot is not subscribed to, if the server allows it.
        """
        server = await self.server()
        public = where is not None and where.channel is not None and not where.channel.private
        try:
            return await self._queue(wire.register(server, where, reactions=reactions, public=public), wire.read_queue)
        except (Denied, ServiceRefused):
            if not public:
                raise
            # Guests may not listen to all public channels; those that they are subscribed to need no such right.
            return await self._queue(wire.register(server, where, reactions=reactions), wire.read_queue)

    async def events(self, queue: Queue, after: int, *, block: bool = False) -> QueueEvents:
        """Return the events of `queue` after `after`; with `block` as soon as there are some, or after a minute.

        Events up to `after` are deleted there. `last_event_id` stays `after` if there were none.

        Raises:
            QueueGone: register a new queue.
        """
        found = await self._do(wire.events(queue, after, block=block), wire.read_events)
        return replace(found, last_event_id=max(after, found.last_event_id))

    async def drop(self, queue: Queue) -> None:
        """Delete a queue; if that fails, the server drops it after some minutes."""
        try:
            await self._do(wire.drop(queue), wire.read_dropped)
        except ConnectorError:
            return

    async def _do(self, request: ServiceRequest, read: wire.Reader[_T]) -> _T:
        return read(request, await self._sender.send(request))

    async def _queue(self, request: ServiceRequest, read: wire.Reader[_T]) -> _T:
        try:
            return await self._do(request, read)
        except ReplyLost as lost:
            # A queue that is forgotten expires; it is not an act whose outcome somebody must look up.
            raise NoAnswer(wire.SERVICE, lost.why) from lost

    async def _on_message(self, message_id: int, request: ServiceRequest, read: wire.Reader[_T]) -> _T:
        try:
            return await self._do(request, read)
        except ServiceRefused as refused:
            # Source: message_by_id_no_access_400.json.
            if refused.why.startswith("Invalid message"):
                remedy = "it may be deleted, or in a channel without the bot"
                raise Missing(wire.SERVICE, f"message {message_id}", remedy) from None
            raise
