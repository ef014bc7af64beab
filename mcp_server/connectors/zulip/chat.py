"""Channels, topics and people by the names that they have: what the tools, the notices and the evidence of merges speak to."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import TYPE_CHECKING

from mcp_server.connectors.cache import Keeping
from mcp_server.connectors.errors import AmbiguousServiceName, ConnectorError, Missing, NotAllowed, UnknownName
from mcp_server.connectors.text.name_match import chosen, folded
from mcp_server.connectors.zulip.errors import CHANNELS_SETTING, SERVICE, Deactivated, Unclear
from mcp_server.connectors.zulip.model import Channel, Message, Topic, Where, ZulipServer, ZulipUser
from mcp_server.connectors.zulip.text.links import link_to, link_to_topic, read_link
from mcp_server.connectors.zulip.text.place_names import DIRECT, channel_word, topic_names

if TYPE_CHECKING:
    from mcp_server.app.settings.access import ZulipAccess
    from mcp_server.connectors.zulip.client import ZulipClient

ME = "me"
ALL = "all"
"""The one key under which a whole list is kept."""
KEPT_S = 300.0
"""Names change seldom; whoever asks for one that is not there has them asked for again."""
JUST_ASKED_S = 5.0
"""What was asked so short a time ago is not asked again for a name that it does not have."""
_CHANNEL_MARKS = re.compile(r"#?\*\*(?P<marked>[^*>]+)\*\*|#?(?P<bare>.*)", re.DOTALL)
_PERSON_MARKS = re.compile(r"@?_?\*\*(?P<marked>[^*]+)\*\*|@?(?P<bare>.*)", re.DOTALL)
_OUT_OF_REACH = "it may be deleted, or outside of what the bot and ZULIP_CHANNELS reach"


class Chat:
    """One organisation's chat, as far as the settings let it be used.

    With an allow list nothing of another channel comes out, by whatever way it is asked for, and nothing goes there.
    """

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
        self._channels = Keeping[Sequence[Channel]](monotonic, longest_s=KEPT_S)
        self._people = Keeping[Sequence[ZulipUser]](monotonic, longest_s=KEPT_S)
        self._namesakes: _Namesakes | None = None
        self._me = Keeping[ZulipUser](monotonic, longest_s=KEPT_S)

    @property
    def limited(self) -> bool:
        """Return whether there is an allow list."""
        return self._allowed is not None

    @property
    def direct_allowed(self) -> bool:
        """Return whether conversations between people may be used."""
        return self._allowed is None or DIRECT in self._allowed

    def allows(self, message: Message) -> bool:
        """Return whether the message is in what may be used."""
        if message.channel_id is None:
            return self.direct_allowed
        return self._may_use(message.channel)

    def may_name(self, word: str) -> bool:
        """Return whether the channel may be spoken of; `word` is its name as it stands before a slash."""
        if self._allowed is None:
            return True
        named = self._allowed.difference((DIRECT,))
        return folded(word) in named | {folded(channel_word(name)) for name in named}

    def is_for_reviews(self, where: Where) -> bool:
        """Return whether people are told of proposals there, in whatever case it is written and also if the topic was resolved."""
        if self.access.reviews is None or where.channel is None or where.topic is None:
            return False
        channel, topic = self.access.reviews
        here, wanted = topic_names(where.topic)[-1], topic_names(topic)[-1]
        return folded(where.channel.name) == folded(channel) and folded(here) == folded(wanted)

    async def me(self) -> ZulipUser:
        """Return the user whose key it is."""
        return await self._me.get(ALL, self.client.me)

    async def server(self) -> ZulipServer:
        """Return what the server is."""
        return await self.client.server()

    async def channels(self, *, fresh: bool = False) -> Sequence[Channel]:
        """Return the channels that may be used, by name."""
        return [channel for channel in await self._all_channels(fresh=fresh) if self._may_use(channel.name)]

    async def _all_channels(self, *, fresh: bool = False) -> Sequence[Channel]:
        return await self._channels.get(ALL, self.client.channels, at_most_s=JUST_ASKED_S if fresh else None)

    def _may_use(self, name: str) -> bool:
        """Return whether a channel of that name may be used; `direct` on the list allows none that is called so."""
        if self._allowed is None:
            return True
        return not {folded(channel_word(name)), folded(name)}.difference((DIRECT,)).isdisjoint(self._allowed)

    async def channel(self, asked: str) -> Channel:
        """Return the channel that is called so: by name, `#name`, id or address.

        Raises:
            UnknownName, AmbiguousName: none or several could be meant.
            NotAllowed: it is not on the list of those that may be used.
        """
        wanted = self._channel_name(asked)
        try:
            return self._chosen_channel(wanted, await self._all_channels())
        except UnknownName:
            return self._chosen_channel(wanted, await self._all_channels(fresh=True))
        except NotAllowed as error:
            try:
                return self._chosen_channel(wanted, await self._all_channels(fresh=True))
            except NotAllowed:
                raise error from None

    def _channel_name(self, asked: str) -> str:
        if "://" in asked:
            link = read_link(self.site, asked)
            if link is None or (link.channel_id is None and link.channel is None):
                raise Unclear(f"that address names no channel of {self.site}; copy one from a channel's menu there")
            return str(link.channel_id) if link.channel_id is not None else str(link.channel)
        return _unmarked(_CHANNEL_MARKS, asked)

    def _chosen_channel(self, asked: str, channels: Sequence[Channel]) -> Channel:
        """Return the channel of that name; the name of one that may not be used is never taken for a slip of another's."""
        usable = [channel for channel in channels if self._may_use(channel.name)]
        exactly = [channel for channel in channels if folded(asked) in (folded(channel.name), str(channel.id))]
        if exactly and not any(channel in usable for channel in exactly):
            raise self._not_allowed(asked)
        try:
            return chosen(SERVICE, "channel", asked, usable, lambda channel: (channel.name, str(channel.id)))
        except UnknownName:
            if self._allowed is None:
                raise
            raise self._not_allowed(asked) from None

    def _not_allowed(self, asked: str) -> NotAllowed:
        """Return the refusal of a name, the same whether or not there is such a channel."""
        return NotAllowed(SERVICE, f"channel {asked[:60]!r}", CHANNELS_SETTING)

    async def topics(self, channel: Channel) -> Sequence[Topic]:
        """Return the topics of a channel, newest first.

        Raises:
            Missing: it is not there any more; another may bear its name by now.
        """
        try:
            return await self.client.topics(channel)
        except Missing:
            self._channels.forget(ALL)
            raise

    async def topic(self, channel: Channel, asked: str) -> str:
        """Return the topic that is called so, also where it is marked as resolved.

        Raises:
            Unclear: none or several could be meant. It names none of them: anybody may write a topic, and nobody is told in an
                error that what it says is not to be followed.
        """
        topics = [topic.name for topic in await self.topics(channel)]
        try:
            return chosen(SERVICE, "topic", asked, topics, topic_names)
        except (UnknownName, AmbiguousServiceName) as error:
            found = "no topic" if isinstance(error, UnknownName) else "more than one topic like"
            told = f"{found} {asked[:60]!r} in #{channel.name}; zulip_list_channels with this channel lists them"
            raise Unclear(told) from None

    async def people(self, *, fresh: bool = False) -> Sequence[ZulipUser]:
        """Return everybody, those whose accounts are deactivated too, by name."""
        return await self._people.get(ALL, self.client.people, at_most_s=JUST_ASKED_S if fresh else None)

    async def person(self, asked: str, *, active: bool = False) -> ZulipUser:
        """Return the user who is called so: by name, `@name`, e-mail, id, or `me`; those who are active first.

        Raises:
            UnknownName, AmbiguousName: nobody or several could be meant.
            Deactivated: with `active`, where only somebody whose account is deactivated is called so.
        """
        wanted = _unmarked(_PERSON_MARKS, asked)
        if folded(wanted) == ME:
            return await self.me()
        try:
            return _chosen_person(wanted, await self.people(), active=active)
        except UnknownName:
            return _chosen_person(wanted, await self.people(fresh=True), active=active)

    async def somebody(self, asked: Sequence[str], *, active: bool = False) -> tuple[ZulipUser, ...]:
        """Return these people, each once, by id. Who we are there takes part anyway, and is named only where nobody else is.

        Raises:
            NotAllowed: messages between people may not be used.
        """
        if not self.direct_allowed:
            raise NotAllowed(SERVICE, "a direct conversation", CHANNELS_SETTING)
        found = {person.id: person for person in [await self.person(one, active=active) for one in asked]}
        me = (await self.me()).id
        return tuple(found[number] for number in sorted(found) if number != me or len(found) == 1)

    async def people_by_id(self, ids: Sequence[int]) -> tuple[ZulipUser, ...]:
        """Return the people with these ids, as an address names them."""
        return await self.somebody([str(number) for number in ids])

    async def message(self, message_id: int) -> Message:
        """Return a message that may be read.

        Raises:
            Missing: there is none, or it may not be; which of the two is not told.
        """
        try:
            found = await self.client.message(message_id)
        except Missing:
            found = None
        if found is None or not self.allows(found):
            raise Missing(SERVICE, f"message {message_id}", _OUT_OF_REACH)
        return found

    async def where_of(self, message: Message) -> Where:
        """Return the topic, or the people, that the message is in."""
        if message.channel_id is None:
            return Where(people=await self._others(message.people))
        return Where(Channel(message.channel_id, message.channel, "", private=False), message.topic)

    async def url_of(self, message: Message) -> str:
        """Return where a person sees the message."""
        return link_to(self.site, await self.server(), message)

    async def url_of_topic(self, channel: Channel, topic: str | None = None) -> str:
        """Return where a person sees the topic, or the channel."""
        return link_to_topic(self.site, await self.server(), channel, topic)

    async def _others(self, people: Sequence[ZulipUser]) -> tuple[ZulipUser, ...]:
        """Return who takes part besides the bot; the bot itself where nobody else does."""
        me = await self.me()
        others = tuple(person for person in people if person.id != me.id)
        others = others or tuple(people) or (me,)
        try:
            return await self.told_apart(others)
        except ConnectorError:  # what somebody said can be read all the same
            return others

    async def told_apart(self, people: Sequence[ZulipUser]) -> tuple[ZulipUser, ...]:
        """Return them with what sets them apart in their names, where another is called the same, or one like two.

        Anybody may take anybody's name, and a person who is asked is shown names.
        """
        everybody = await self.people()
        if self._namesakes is None or self._namesakes.among is not everybody:
            self._namesakes = _Namesakes.of(everybody)
        return self._namesakes.told_apart(people)


@dataclass(frozen=True)
class _Namesakes:
    """Who is called like somebody else, counted once for each list of everybody: there may be many, and many messages."""

    among: Sequence[ZulipUser]
    by_id: Mapping[int, ZulipUser]
    called: Counter[str]

    @classmethod
    def of(cls, everybody: Sequence[ZulipUser]) -> _Namesakes:
        """Count them."""
        by_id = {person.id: person for person in everybody}
        return cls(everybody, by_id, Counter(folded(person.name) for person in everybody))

    def told_apart(self, people: Sequence[ZulipUser]) -> tuple[ZulipUser, ...]:
        """Return these people, with their address in the name where that could be taken for another, or for two."""
        return tuple(
            _with_address(self.by_id.get(person.id, person))
            if self.called[folded(person.name)] > 1 or "," in person.name
            else person
            for person in people
        )


def _with_address(person: ZulipUser) -> ZulipUser:
    return replace(person, name=f"{' '.join(person.name.split())} ({person.delivery_email or person.email})")


def _unmarked(marks: re.Pattern[str], asked: str) -> str:
    """Return the name without what Zulip's Markdown puts around it."""
    match = marks.fullmatch(asked.strip())
    return (match["marked"] or match["bare"] or "").strip() if match else asked.strip()


def _chosen_person(asked: str, people: Sequence[ZulipUser], *, active: bool) -> ZulipUser:
    try:
        return chosen(SERVICE, "person", asked, [person for person in people if person.active], _person_names)
    except UnknownName:
        gone = [person for person in people if not person.active]
        exactly = [person for person in gone if folded(asked) in {folded(name) for name in _person_names(person)}]
        if not exactly:
            raise
    if active:
        raise Deactivated(exactly[0].name)
    return chosen(SERVICE, "person", asked, exactly, _person_names)


def _person_names(person: ZulipUser) -> Sequence[str]:
    """Return by what a person is asked for. `name|id` is how Zulip writes a mention of one of several of the same name.

    Source: https://zulip.com/api/message-formatting#mentions.
    """
    id_ = str(person.id)
    return tuple(
        name for name in (person.name, person.delivery_email, person.email, id_, f"{person.name}|{id_}") if name
    )
