"""Which topics and conversations have messages that the owner of the key has not read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from mcp_server.connectors.zulip.chat import Chat
from mcp_server.connectors.zulip.model import Channel, ChatPlace
from mcp_server.connectors.zulip.wire import MOST_MESSAGES


@dataclass(frozen=True, slots=True)
class UnreadPlace:
    """A topic or conversation with unread messages, by id."""

    where: ChatPlace
    message_ids: frozenset[int]

    @property
    def newest(self) -> int:
        """The id of the newest of them."""
        return max(self.message_ids)


async def unread_places(chat: Chat) -> tuple[Sequence[UnreadPlace], bool]:
    """Return the places that may be used with unread messages of other people, newest first, and whether these are all.

    Zulip counts messages sent through the API as unread even for their sender. Those are left out.
    """
    found, complete = await chat.client.unread()
    if not found:
        return (), complete
    me = await chat.me()
    own = await chat.client.messages(ChatPlace(unread=True), before=MOST_MESSAGES, sender=me)
    mine = {message.id for message in own.messages}
    channels = {channel.id: channel for channel in await chat.channels()}
    # The cached list may be older than a channel.
    if missing := {one.channel_id for one in found} - {None, *channels}:
        channels |= {one.id: one for one in await chat.channels(fresh=True) if one.id in missing}
    people = {person.id: person for person in await chat.people()} if chat.direct_allowed else {}
    places = []
    for one in found:
        ids = one.message_ids - mine
        where = _topic(channels, one.channel_id, one.topic) if one.people == frozenset() else None
        if one.people and chat.direct_allowed:
            # A conversation with nobody else is the owner's own.
            others = sorted(one.people - {me.id}) or [me.id]
            named = [people[number] for number in others if number in people]
            where = ChatPlace(people=await chat.with_unique_names(named)) if named else None
        if ids and where is not None:
            places.append(UnreadPlace(where, ids))
    return sorted(places, key=lambda place: -place.newest), complete


def _topic(channels: Mapping[int, Channel], channel_id: int | None, topic: str) -> ChatPlace | None:
    channel = channels.get(channel_id or 0)
    return ChatPlace(channel, topic) if channel else None
