"""Channels, topics and people by their names, as far as the settings allow. The tools, notices and evidence are built on it."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from datetime import datetime

from knowledge.outbox.ports import Mention
from knowledge.search.answers import Citing
from mcp_server.app.settings.services import ZulipAccess
from mcp_server.connectors.cache import ReplyCache
from mcp_server.connectors.errors import AmbiguousServiceName, ConnectorError, Missing, NotAllowed, UnknownName
from mcp_server.connectors.ports import connector_of
from mcp_server.connectors.text.name_match import chosen, folded
from mcp_server.connectors.zulip.client import ZulipClient
from mcp_server.connectors.zulip.errors import CHANNELS_SETTING, Deactivated, Unclear
from mcp_server.connectors.zulip.model import Channel, ChatPlace, Message, Topic, ZulipGroup, ZulipServer, ZulipUser
from mcp_server.connectors.zulip.text.links import link_to, link_to_people, link_to_topic, read_link
from mcp_server.connectors.zulip.text.place_names import DIRECT, channel_word, topic_names
from mcp_server.connectors.zulip.wire import SERVICE
from mcp_server.ports import HasConnectors

ME = "me"
NAMES_S = 300.0
"""How long names are cached. If a name is not among them, they are requested again."""
JUST_ASKED_S = 5.0
"""If a name is unknown, the cached names are requested again, unless they are younger than this."""
_CHANNEL_MARKS = re.compile(r"#?\*\*(?P<marked>[^*>]+)\*\*|#?(?P<bare>.*)", re.DOTALL)
_PERSON_MARKS = re.compile(r"@?_?\*\*(?P<marked>[^*]+)\*\*|@?(?P<bare>.*)", re.DOTALL)
_TOPIC_PART = re.compile(r"/topic/[^/]*")
"""The part of an address that is a topic's name; Zulip finds a message without it."""
_OUT_OF_REACH = "it may be deleted, or in a place that the bot or ZULIP_CHANNELS does not cover"


class Chat:
    """One organisation's chat. With an allow list, nothing in other channels is read or written, however it is named."""

    def __init__(
        self,
        client: ZulipClient,
        access: ZulipAccess,
        *,
        now: Callable[[], datetime],
        monotonic: Callable[[], float],
        sleep: Callable[[float], Awaitable[None]],
    ) -> None:
        self.client, self.access = client, access
        self.now, self.sleep = now, sleep
        self.site = access.site
        self._allowed = None if access.channels is None else {folded(name) for name in access.channels}
        self._channels = ReplyCache[Sequence[Channel]](monotonic, longest_s=NAMES_S)
        self._people = ReplyCache[Sequence[ZulipUser]](monotonic, longest_s=NAMES_S)
        self._groups = ReplyCache[Sequence[ZulipGroup]](monotonic, longest_s=NAMES_S)
        self._me = ReplyCache[ZulipUser](monotonic, longest_s=NAMES_S)
        self.finds_inside: bool | None = None
        """Whether the server's search finds words inside text without spaces; None until it was tried."""
        self.listening = 0
        """How many waits for messages hold a connection for events."""
        self._namesakes: tuple[Sequence[ZulipUser], dict[int, ZulipUser], Counter[str]] | None = None

    @property
    def limited(self) -> bool:
        """Whether there is an allow list."""
        return self._allowed is not None

    @property
    def direct_allowed(self) -> bool:
        """Whether conversations between people may be used."""
        return self._allowed is None or DIRECT in self._allowed

    def allows(self, message: Message) -> bool:
        """Return whether the message may be read."""
        return self.direct_allowed if message.channel_id is None else self._may_use(message.channel)

    def may_name(self, word: str) -> bool:
        """Return whether the channel may be named in answers; `word` is its name as written before a slash."""
        if self._allowed is None:
            return True
        channels = self._allowed - {DIRECT}
        return folded(word) in channels | {folded(channel_word(name)) for name in channels}

    def citation(self, mention: Mention) -> Citing | None:
        """Return the channel and the address, without the topic, which anyone may have written; None if neither may be named."""
        channel = mention.origin.partition("/")[0]
        if not self.may_name(channel.partition(":")[2]):
            return None
        return Citing(channel, _TOPIC_PART.sub("", mention.url))

    def is_for_reviews(self, where: ChatPlace) -> bool:
        """Return whether proposals are announced there, ignoring case, and even if the topic was resolved."""
        if self.access.reviews is None or where.channel is None or where.topic is None:
            return False
        channel, topic = self.access.reviews
        here, wanted = topic_names(where.topic)[-1], topic_names(topic)[-1]
        return folded(where.channel.name) == folded(channel) and folded(here) == folded(wanted)

    async def me(self) -> ZulipUser:
        """Return the owner of the key."""
        return await self._me.get("", self.client.me)

    async def server(self) -> ZulipServer:
        """Return the server."""
        return await self.client.server()

    async def channels(self, *, fresh: bool = False) -> Sequence[Channel]:
        """Return the channels that may be used, by name."""
        return [channel for channel in await self._all_channels(fresh=fresh) if self._may_use(channel.name)]

    async def _all_channels(self, *, fresh: bool = False) -> Sequence[Channel]:
        return await self._channels.get("", self.client.channels, at_most_s=JUST_ASKED_S if fresh else None)

    def _may_use(self, name: str) -> bool:
        if self._allowed is None:
            return True
        # `direct` on the list allows conversations, not a channel of that name.
        return not ({folded(channel_word(name)), folded(name)} - {DIRECT}).isdisjoint(self._allowed)

    async def channel(self, asked: str, *, to_act: bool = False) -> Channel:
        """Return the channel by name, `#name`, id or address; `to_act`: only by its exact name, as Zulip has it now.

        Raises: UnknownName, AmbiguousServiceName: none or several could be meant. NotAllowed: it is not on the allow list.
        """
        name = _unmarked(_CHANNEL_MARKS, asked)
        if "://" in asked:
            link = read_link(self.site, asked)
            if link is None or (link.channel_id is None and link.channel is None):
                raise Unclear(f"that address names no channel of {self.site}; copy one from a channel's menu there")
            name = str(link.channel_id) if link.channel_id is not None else str(link.channel)
        if to_act:
            return self._choose_channel(
                name, await self._channels.get("", self.client.channels, at_most_s=0), near=False
            )
        try:
            return self._choose_channel(name, await self._all_channels())
        except (UnknownName, NotAllowed):
            # It may be new, or renamed to an allowed name, since the names were cached.
            return self._choose_channel(name, await self._all_channels(fresh=True))

    def _choose_channel(self, asked: str, channels: Sequence[Channel], *, near: bool = True) -> Channel:
        usable = [channel for channel in channels if self._may_use(channel.name)]
        # The same refusal whether or not such a channel exists.
        not_allowed = NotAllowed(SERVICE, f"channel {asked[:60]!r}", CHANNELS_SETTING)
        exactly = [channel for channel in channels if folded(asked) in (folded(channel.name), str(channel.id))]
        if exactly and not any(channel in usable for channel in exactly):
            # Before the search below would take the name for a typo of an allowed one.
            raise not_allowed
        try:
            return chosen(SERVICE, "channel", asked, usable, lambda channel: (channel.name, str(channel.id)), near=near)
        except UnknownName:
            if self._allowed is None:
                raise
            raise not_allowed from None

    async def topics(self, channel: Channel) -> Sequence[Topic]:
        """Return the topics of a channel, newest first.

        Raises: Missing: the channel no longer exists; another one may have its name by now.
        """
        try:
            return await self.client.topics(channel)
        except Missing:
            self._channels.forget("")
            raise

    async def topic(self, channel: Channel, asked: str, *, to_act: bool = False) -> str:
        """Return the topic of that name, even if it was marked as resolved; `to_act`: only by its exact name.

        Raises:
            Unclear: none or several could be meant. It lists no topics: anyone may write one, and an error must not carry
                instructions to the model.
        """
        topics = [topic.name for topic in await self.topics(channel)]
        try:
            return chosen(SERVICE, "topic", asked, topics, topic_names, near=not to_act)
        except (UnknownName, AmbiguousServiceName) as error:
            found = "no topic" if isinstance(error, UnknownName) else "more than one topic like"
            why = f"{found} {asked[:60]!r} in #{channel.name}; zulip_list_channels with this channel lists them"
            raise Unclear(why) from None

    async def people(self, *, fresh: bool = False) -> Sequence[ZulipUser]:
        """Return everybody by name, including deactivated accounts."""
        return await self._people.get("", self.client.people, at_most_s=JUST_ASKED_S if fresh else None)

    async def groups(self) -> Sequence[ZulipGroup]:
        """Return the groups of users that people made, by name."""
        return await self._groups.get("", self.client.groups)

    async def person(self, asked: str, *, to_act: bool = False) -> ZulipUser:
        """Return the user by name, `@name`, e-mail, id, or `me`; active accounts come first.

        `to_act`: only by the exact name, as Zulip has it now.

        Raises:
            UnknownName, AmbiguousServiceName: nobody or several could be meant.
            Deactivated: with `to_act`, if only somebody with a deactivated account has that name.
        """
        name = _unmarked(_PERSON_MARKS, asked)
        if folded(name) == ME:
            return await self.me()
        if to_act:
            people = await self._people.get("", self.client.people, at_most_s=0)
            return _choose_person(name, people, to_act=True)
        try:
            return _choose_person(name, await self.people())
        except UnknownName:
            return _choose_person(name, await self.people(fresh=True))

    async def recipients(self, asked: Sequence[str], *, to_act: bool = False) -> tuple[ZulipUser, ...]:
        """Return these people, each once, by id. The bot itself always takes part, and is named only if nobody else is.

        Raises:
            NotAllowed: conversations between people may not be used.
        """
        if not self.direct_allowed:
            raise NotAllowed(SERVICE, "a direct conversation", CHANNELS_SETTING)
        # Sorted by id: the same people in another order are the same conversation, and the same act.
        found = {person.id: person for person in [await self.person(one, to_act=to_act) for one in asked]}
        me = (await self.me()).id
        return tuple(found[number] for number in sorted(found) if number != me or len(found) == 1)

    async def message(self, message_id: int) -> Message:
        """Return a message that may be read.

        Raises:
            Missing: it does not exist, or may not be read; the error does not say which.
        """
        try:
            found = await self.client.message(message_id)
        except Missing:
            found = None
        if found is None or not self.allows(found):
            raise Missing(SERVICE, f"message {message_id}", _OUT_OF_REACH)
        return found

    async def place_of(self, message: Message) -> ChatPlace:
        """Return the topic or conversation of the message."""
        if message.channel_id is not None:
            return ChatPlace(Channel(message.channel_id, message.channel, "", private=False), message.topic)
        me = await self.me()
        others = tuple(person for person in message.people if person.id != me.id) or tuple(message.people) or (me,)
        try:
            return ChatPlace(people=await self.with_unique_names(others))
        except ConnectorError:  # the message can be read all the same
            return ChatPlace(people=others)

    async def url_of(self, message: Message) -> str:
        """Return the address where a person sees the message."""
        return link_to(self.site, await self.server(), message)

    async def url_of_topic(self, channel: Channel, topic: str | None = None) -> str:
        """Return the address where a person sees the topic, or the channel."""
        return link_to_topic(self.site, await self.server(), channel, topic)

    async def url_of_place(self, where: ChatPlace) -> str:
        """Return the address where a person sees the channel, topic or conversation."""
        if where.channel is not None:
            return await self.url_of_topic(where.channel, where.topic)
        return link_to_people(self.site, await self.server(), where.people)

    async def with_unique_names(self, people: Sequence[ZulipUser]) -> tuple[ZulipUser, ...]:
        """Return the people, with the e-mail address added to each name that could be mistaken for another person's.

        Any account may take another's name, and a person who decides on a message sees only names.
        """
        everybody = await self.people()
        # Once for each list: there may be thousands of people, and this is called for every message.
        if self._namesakes is None or self._namesakes[0] is not everybody:
            by_id = {person.id: person for person in everybody}
            self._namesakes = everybody, by_id, Counter(folded(person.name) for person in everybody)
        _, by_id, counts = self._namesakes

        def unique(person: ZulipUser) -> ZulipUser:
            if counts[folded(person.name)] <= 1 and "," not in person.name:
                return person
            known = by_id.get(person.id, person)
            return replace(known, name=f"{' '.join(known.name.split())} ({known.delivery_email or known.email})")

        return tuple(map(unique, people))


def _unmarked(marks: re.Pattern[str], asked: str) -> str:
    """Return the name without the marks of Zulip's Markdown: `#**design**`, `@_**Ann**`."""
    match = marks.fullmatch(asked.strip())
    return (match["marked"] or match["bare"] or "").strip() if match else asked.strip()


def _choose_person(asked: str, people: Sequence[ZulipUser], *, to_act: bool = False) -> ZulipUser:
    active = [person for person in people if person.active]
    try:
        return chosen(SERVICE, "person", asked, active, _person_names, near=not to_act)
    except UnknownName:
        gone = [person for person in people if not person.active]
        # Somebody who left is never taken for a typo.
        exactly = [person for person in gone if folded(asked) in {folded(name) for name in _person_names(person)}]
        if not exactly:
            raise
    if to_act:
        raise Deactivated(exactly[0].name)
    return chosen(SERVICE, "person", asked, exactly, _person_names)


def _person_names(person: ZulipUser) -> Sequence[str]:
    """Return the names of a person. `name|id` is how Zulip mentions one of several with the same name.

    Source: https://zulip.com/api/message-formatting#mentions.
    """
    names = (person.name, person.delivery_email, person.email, str(person.id), f"{person.name}|{person.id}")
    return tuple(name for name in names if name)


def chat_of(services: HasConnectors) -> Chat:
    """Return the chat of Zulip.

    Raises:
        NotConfigured: the settings do not name it.
    """
    return connector_of(services.connectors, SERVICE, Chat)
