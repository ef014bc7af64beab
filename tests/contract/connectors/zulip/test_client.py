"""The client's promises, on the double at two feature levels and on a real Zulip if one is named."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from urllib.parse import quote

import anyio
import pytest

from mcp_server.connectors.errors import (
    ConnectorError,
    Denied,
    Missing,
    NoAnswer,
    ReplyLost,
    ServiceLimited,
    ServiceRefused,
)
from mcp_server.connectors.http import RequestLimits
from mcp_server.connectors.request.wire import UploadedFile
from mcp_server.connectors.zulip import wire
from mcp_server.connectors.zulip.client import ZulipClient
from mcp_server.connectors.zulip.model import Channel, ChatPlace, Queue, QueueEvents
from mcp_server.connectors.zulip.text.links import link_to, read_link
from mcp_server.connectors.zulip.wire import QueueGone
from tests.doubles.serving import after, before, for_requests, html, in_turn, served, status
from tests.support.zulip.servers import ALL, BOT, DOUBLES, Ground, client_at, ground, zulip_of

LONG = "я" * 10_050
KNOWN_S = timedelta(minutes=5)


@pytest.fixture(params=ALL)
async def here(request: pytest.FixtureRequest) -> AsyncIterator[Ground]:
    """Yield a server of each kind."""
    async with ground(request.param) as found:
        yield found


@pytest.fixture(params=DOUBLES)
async def double(request: pytest.FixtureRequest) -> AsyncIterator[Ground]:
    """Yield only servers that can be made to fail."""
    async with ground(request.param) as found:
        yield found


def _topic(here: Ground) -> ChatPlace:
    return ChatPlace(here.channel, here.topic)


async def events_of(here: Ground, queue: Queue, after: int) -> QueueEvents:
    """Return the next events. They come after the reply to the request that caused them."""
    with anyio.fail_after(60):
        while True:
            found = await here.client.events(queue, after, block=True)
            if found.messages or found.reactions or found.removed:
                return found
            after = found.last_event_id  # it was a heartbeat


async def test_a_server_reports_its_version_and_is_asked_once(here: Ground) -> None:
    """Feature levels decide names, so they must be known before anything else."""
    server = await here.client.server()
    assert server.level >= 120
    assert server.version
    assert await here.client.server() is server
    limits = await here.client.limits()
    assert limits.longest_message >= 1_000
    assert limits.longest_topic >= 30
    if here.double:
        assert here.double.count("GET", "/server_settings") == 1


async def test_a_keys_owner_is_known(here: Ground) -> None:
    """The bot must know itself, to find its own messages."""
    me = await here.client.me()
    people = {person.id: person for person in await here.client.people()}
    assert (people[me.id].name, people[me.id].bot) == (me.name, me.bot)


async def test_a_message_comes_back_as_typed(here: Ground) -> None:
    """Texts are Zulip's Markdown, never its HTML."""
    text = "Hello **there** [doc](https://example.com) ссылка\n\n```python\nprint(1)\n```"
    sent = await here.client.send(_topic(here), text)
    message = await here.client.message(sent)
    me = await here.client.me()
    assert (message.id, message.text, message.sender_id) == (sent, text, me.id)
    assert (message.channel_id, message.channel, message.topic) == (here.channel.id, here.channel.name, here.topic)
    assert abs(datetime.now(UTC) - message.at) < KNOWN_S
    topics = await here.client.topics(here.channel)
    assert (topics[0].name, topics[0].last_message_id) == (here.topic, sent)


async def test_messages_of_a_topic_are_read_in_pieces_without_gaps(here: Ground) -> None:
    """Around a message: those before, those after, and itself; the window says where the list ends."""
    sent = [await here.client.send(_topic(here), f"number {number}") for number in range(5)]
    window = await here.client.messages(_topic(here), before=2)
    assert [message.id for message in window.messages] == sent[3:]
    assert (window.found_oldest, window.found_newest) == (False, True)
    older = await here.client.messages(_topic(here), anchor=sent[3], before=5, with_anchor=False)
    assert [message.id for message in older.messages] == sent[:3]
    assert older.found_oldest
    around = await here.client.messages(_topic(here), anchor=sent[2], before=1, after=1)
    assert [message.id for message in around.messages] == sent[1:4]
    first = await here.client.messages(_topic(here), anchor="oldest", after=2)
    assert [message.id for message in first.messages] == sent[:2]


async def test_messages_of_a_sender_and_with_words_are_found(here: Ground) -> None:
    """A send whose reply was lost is looked for among the bot's own messages."""
    sent = await here.client.send(_topic(here), "the lost reply was found")
    me = await here.client.me()
    own = await here.client.messages(_topic(here), before=10, sender=me)
    assert [message.id for message in own.messages] == [sent]
    found = await here.client.messages(ChatPlace(here.channel, here.topic), before=10, search="lost reply")
    assert [message.id for message in found.messages] in ([sent], [])  # a real server indexes words some moments later
    if here.zulip:
        assert found.messages
    none = await here.client.messages(_topic(here), before=10, search="neverwrittenbyanybody")
    assert not none.messages


async def test_queue_events_carry_the_senders_mark(here: Ground) -> None:
    """`local_id` shows whether a send whose reply was lost has happened."""
    queue = await here.client.register(_topic(here))
    sent = await here.client.send(_topic(here), "marked", queue=queue, local_id="mark-1")
    heard = await events_of(here, queue, queue.last_event_id)
    assert [(message.id, message.local_id, message.text) for message in heard.messages] == [(sent, "mark-1", "marked")]
    nothing = await here.client.events(queue, heard.last_event_id)
    assert (list(nothing.messages), nothing.last_event_id) == ([], heard.last_event_id)
    other = await here.client.register(_topic(here))
    await here.client.send(_topic(here), "not ours", queue=other, local_id="mark-2")
    unmarked = await events_of(here, queue, heard.last_event_id)
    assert [message.local_id for message in unmarked.messages] == [None]
    for made in (queue, other):
        await here.client.drop(made)
    with pytest.raises(QueueGone):
        await here.client.events(queue, queue.last_event_id)
    await here.client.drop(queue)


async def test_a_queue_that_waits_is_woken_by_a_message(here: Ground) -> None:
    """Long polling, so that notices receive reactions at once and still ask seldom."""
    queue = await here.client.register(_topic(here))
    heard = []

    async def wait() -> None:
        heard.append(await here.client.events(queue, queue.last_event_id, block=True))

    with anyio.fail_after(60):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(wait)
            sent = await here.client.send(_topic(here), "wake up")
    assert [message.id for message in heard[0].messages] == [sent]
    await here.client.drop(queue)


async def test_a_reaction_is_there_once_and_can_be_taken_back(here: Ground) -> None:
    """A second reaction gets the answer "already there", which is no error. Source: reaction_dup_400.json."""
    sent = await here.client.send(_topic(here), "react to me")
    queue = await here.client.register(_topic(here), reactions=True)
    assert await here.client.react(sent, "eyes")
    assert not await here.client.react(sent, "eyes")
    me = await here.client.me()
    message = await here.client.message(sent)
    assert [(reaction.emoji, reaction.user_id) for reaction in message.reactions] == [("eyes", me.id)]
    heard = await events_of(here, queue, queue.last_event_id)
    assert [reaction.emoji for reaction in heard.reactions.get(sent, ())] == ["eyes"]
    assert await here.client.unreact(sent, "eyes")
    assert not await here.client.unreact(sent, "eyes")
    assert not (await here.client.message(sent)).reactions
    with pytest.raises(ServiceRefused):
        await here.client.react(sent, "no_such_emoji_anywhere")
    await here.client.drop(queue)


async def test_a_message_of_ones_own_gets_another_text(here: Ground) -> None:
    """A notice is updated in place."""
    sent = await here.client.send(_topic(here), "first")
    await here.client.edit(sent, "second")
    assert (await here.client.message(sent)).text == "second"


async def test_the_servers_truncated_text_can_be_read(here: Ground) -> None:
    """It truncates silently. Sources: message_send_too_long.json, messages_get_newest.json."""
    server = await here.client.limits()
    sent = await here.client.send(ChatPlace(here.channel, "t" * (server.longest_topic + 9)), LONG)
    message = await here.client.message(sent)
    assert len(message.text) == min(len(LONG), server.longest_message)
    assert len(message.topic) == server.longest_topic
    assert message.topic.endswith("...")


async def test_an_address_of_a_message_leads_back_to_it(here: Ground) -> None:
    """Links are for people, and people paste them."""
    sent = await here.client.send(_topic(here), "link to me")
    message = await here.client.message(sent)
    link = read_link(here.site, link_to(here.site, await here.client.server(), message))
    assert link is not None
    assert (link.channel_id, link.topic, link.message_id) == (here.channel.id, here.topic, sent)


async def test_a_missing_thing_is_reported_as_missing(here: Ground) -> None:
    """A channel, a message: each with its remedy."""
    nowhere = Channel(999_999_999, "no such", "", private=False)
    with pytest.raises((Missing, ServiceRefused)):
        await here.client.send(ChatPlace(nowhere, "x"), "y")
    for call in (here.client.message(2_000_000_000), here.client.react(2_000_000_000, "eyes")):
        with pytest.raises(Missing, match="message 2000000000"):
            await call
    with pytest.raises(QueueGone):
        await here.client.events(Queue("fb67bf8a-c031-47cc-84cf-ed80accacda8", -1), -1)


async def test_an_empty_text_is_refused_in_the_words_of_the_server(here: Ground) -> None:
    """Source: message_send_empty_400.json."""
    with pytest.raises(ServiceRefused) as refused:
        await here.client.send(_topic(here), "  ")
    assert "empty" in str(refused.value)


async def test_people_are_written_to_directly(here: Ground) -> None:
    """A conversation is identified by its people, and also has an address."""
    hamlet = (await someone(here, "King Hamlet").me()).id
    person = next(person for person in await here.client.people() if person.id == hamlet)
    sent = await here.client.send(ChatPlace(people=(person,)), f"between us, {here.topic}")
    message = await here.client.message(sent)
    me = await here.client.me()
    assert (message.channel_id, message.channel, message.topic) == (None, "", "")
    assert {one.id for one in message.people} == {hamlet, me.id}
    window = await here.client.messages(ChatPlace(people=(person,)), before=1)
    assert [one.id for one in window.messages] == [sent]
    link = read_link(here.site, link_to(here.site, await here.client.server(), message))
    assert link is not None
    assert (set(link.people_ids), link.message_id) == ({hamlet, me.id}, sent)


def someone(here: Ground, name: str) -> ZulipClient:
    """Return a person's client."""
    if name not in here.people:
        pytest.skip(
            "no people: FORGE_TEST_ZULIP_HAMLET_EMAIL and _KEY, FORGE_TEST_ZULIP_IAGO_EMAIL and _KEY are not set"
        )
    return here.people[name]


async def test_all_public_channels_and_all_direct_messages_can_be_looked_through(double: Ground) -> None:
    """A bot's own history lacks channels that it did not subscribe to. Source: messages_bot_search_public.json."""
    assert double.zulip
    world = double.zulip.world
    world.channel("elsewhere", "Iago")
    public = world.say("Iago", "elsewhere", "x", "needle in public")
    world.say("Iago", "secret-kb", "x", "needle in private")
    direct = world.tell("Iago", [BOT], "needle between us")
    for where, wanted in (
        (ChatPlace(public=True), [public]),
        (ChatPlace(direct=True), [direct]),
        (ChatPlace(), [direct]),
    ):
        window = await double.client.messages(where, before=5, search="needle")
        assert [message.id for message in window.messages] == wanted


async def test_a_bot_that_did_not_subscribe_receives_its_own_message_in_a_public_channel(double: Ground) -> None:
    """Source: https://zulip.com/api/register-queue (`all_public_streams`)."""
    assert double.zulip
    room = double.zulip.world.channel("elsewhere", "Iago")
    where = ChatPlace(Channel(room.id, room.name, "", private=False), "x")
    queue = await double.client.register(where)
    sent = await double.client.send(where, "heard", queue=queue, local_id="a")
    heard = await events_of(double, queue, -1)
    assert [(message.id, message.local_id) for message in heard.messages] == [(sent, "a")]


async def test_a_private_channel_without_the_bot_is_denied_with_its_way_out(double: Ground) -> None:
    """Source: message_send_private_stream_not_subscribed_400.json."""
    assert double.zulip
    room = double.zulip.world.room("secret-kb")
    assert "secret-kb" not in {channel.name for channel in await double.client.channels()}
    with pytest.raises(Denied, match="subscribe the bot"):
        await double.client.send(ChatPlace(Channel(room.id, room.name, "", private=True), "x"), "y")
    said = double.zulip.world.say("Iago", "secret-kb", "x", "hidden")
    with pytest.raises(Missing):
        await double.client.message(said)


async def test_messages_around_a_moment_are_requested_only_if_the_server_supports_it(here: Ground) -> None:
    """Feature level 445. Source: https://zulip.com/api/get-messages."""
    first = await here.client.send(_topic(here), "one")
    then = (await here.client.message(first)).at
    if (await here.client.server()).level < wire.DATED_ANCHOR:
        with pytest.raises(ServiceRefused, match=f"feature level {(await here.client.server()).level}"):
            await here.client.messages(_topic(here), anchor=then, after=5)
        return
    window = await here.client.messages(_topic(here), anchor=then, after=5)
    assert [message.id for message in window.messages] == [first]


async def test_the_topic_without_a_name_is_called_general_chat(here: Ground) -> None:
    """From feature level 334 on, a topic may have no name; before, it needs one. Source: https://zulip.com/api/changelog."""
    if (await here.client.server()).level < 334:
        with pytest.raises(ServiceRefused, match="Topic can't be empty!"):
            await here.client.send(replace(_topic(here), topic=""), "no topic")
        return
    sent = await here.client.send(replace(_topic(here), topic=""), "no topic")
    assert (await here.client.message(sent)).topic == "general chat"
    window = await here.client.messages(replace(_topic(here), topic="general chat"), before=1)
    assert [message.id for message in window.messages] == [sent]


async def test_a_wrong_key_is_reported_with_its_setting() -> None:
    """Sources: err_bad_key_401.json, err_unknown_email_401.json."""
    zulip = zulip_of("double-247")
    async with served(zulip) as double, client_at(double.address, zulip.world.user(BOT).email, "x" * 32) as client:
        with pytest.raises(Denied, match="ZULIP_API_KEY") as denied:
            await client.me()
        assert "x" * 32 not in str(denied.value)


async def test_a_send_whose_reply_is_lost_is_not_sent_again(double: Ground) -> None:
    """Nothing in Zulip makes a second send harmless, so there is none; the queue shows that the first one happened."""
    assert double.double
    assert double.zulip
    queue = await double.client.register(_topic(double))
    double.double.plan = for_requests("POST", "/messages", after())
    with pytest.raises(ReplyLost):
        await double.client.send(_topic(double), "once", queue=queue, local_id="lost")
    heard = await events_of(double, queue, queue.last_event_id)
    assert [message.local_id for message in heard.messages] == ["lost"]
    assert double.zulip.world.texts(double.channel.name, double.topic) == ["once"]


async def test_repeatable_requests_survive_a_lost_reply(double: Ground) -> None:
    """A read, a queue, a reaction and an edit are retried."""
    assert double.double
    sent = await double.client.send(_topic(double), "steady")
    for call, method, path in (
        (lambda: double.client.message(sent), "GET", f"/messages/{sent}"),
        (lambda: double.client.register(_topic(double)), "POST", "/register"),
        (lambda: double.client.edit(sent, "steadier"), "PATCH", f"/messages/{sent}"),
        (lambda: double.client.react(sent, "eyes"), "POST", "/reactions"),
    ):
        double.double.plan = for_requests(method, path, before(), after())
        await call()
    message = await double.client.message(sent)
    assert (message.text, len(message.reactions)) == ("steadier", 1)


async def test_ones_own_messages_are_not_unread_and_their_times_are_known(here: Ground) -> None:
    """Zulip takes what a program sends for unread by its sender, unless the request says otherwise (feature level 236)."""
    sent = [await here.client.send(_topic(here), text) for text in ("one", "two")]
    places, complete = await here.client.unread()
    assert complete
    assert not {one.message_ids for one in places if one.message_ids & {*sent}}
    topics = {topic.name: topic.last_message_id for topic in await here.client.topics(here.channel)}
    assert topics[here.topic] == sent[1]
    times = await here.client.times(ChatPlace(here.channel), [sent[1]])
    assert times[sent[1]] == (await here.client.message(sent[1])).at


async def test_groups_are_those_that_people_made(here: Ground) -> None:
    """A bot may not ask for them by the request that is meant for it, but gets them when it registers."""
    if here.zulip is not None:
        here.zulip.world.group("backend", "Iago", BOT)
    found = await here.client.groups()
    assert all(not group.name.startswith("role:") for group in found)
    assert {"backend"} <= {group.name for group in found} or here.zulip is None


async def test_a_file_is_read_as_it_was_uploaded_once_a_message_has_it(here: Ground) -> None:
    content = "Знания\r\n".encode() + bytes(range(256))
    path = (await here.client.upload(UploadedFile("ключ и план.md", content, "text/markdown"))).partition("uploads/")[2]
    await here.client.send(_topic(here), f"[a file](/user_uploads/{path})")
    assert await here.client.file(quote(path)) == content
    found = await here.client.messages(replace(_topic(here), with_files=True), before=5)
    assert [path in message.text for message in found.messages] == [True]
    with pytest.raises(Missing):
        await here.client.file(quote(f"{path}x"))


async def test_too_many_requests_are_reported_with_the_requested_wait(double: Ground) -> None:
    """`Retry-After` is a fraction here. Source: err_429.json."""
    assert double.zulip
    await double.client.server()
    double.zulip.world.exhausted[double.zulip.world.user(BOT).id] = 45.38
    with pytest.raises(ServiceLimited) as limited:
        await double.client.send(_topic(double), "too much")
    assert limited.value.wait_s == pytest.approx(45.38)
    del double.zulip.world.exhausted[double.zulip.world.user(BOT).id]
    assert double.zulip.world.texts(double.channel.name, double.topic) == []


@pytest.mark.parametrize(
    "body",
    [
        "{}",
        "[]",
        '{"result":"success","msg":""}',
        '{"result":"success","messages":null,"found_oldest":true,"found_newest":true}',
        '{"result":"success","messages":[{"id":"x"}],"found_oldest":true,"found_newest":true}',
        '{"result":"success","message":{"id":1,"timestamp":1e400}}',
    ],
)
async def test_a_reply_of_another_form_is_no_answer_and_for_a_send_a_lost_one(double: Ground, body: str) -> None:
    """A reply that can't be parsed never counts as done or as not done."""
    assert double.double
    await double.client.server()
    json = {"content-type": "application/json"}
    double.double.plan = in_turn(status(200, json, body))
    with pytest.raises(NoAnswer):
        await double.client.messages(_topic(double), before=1)
    double.double.plan = in_turn(status(200, json, body))
    with pytest.raises(ReplyLost):
        await double.client.send(_topic(double), "x")


async def test_a_site_without_zulip_is_reported_with_the_setting() -> None:
    """Someone else's page instead of JSON. Source: err_404.json."""
    zulip = zulip_of("double-247")
    async with (
        served(zulip, plan=lambda *_: html(404, acts=False)) as double,
        client_at(double.address, "a@example.com", "x" * 32, bounds=RequestLimits(tries=1)) as client,
    ):
        with pytest.raises(ConnectorError, match="ZULIP_SITE"):
            await client.server()


async def test_the_servers_version_is_checked_again_after_an_hour(double: Ground) -> None:
    """It may have been upgraded meanwhile, and then it knows other names."""
    assert double.double
    clock = [0.0]
    double.client._monotonic = lambda: clock[0]
    await double.client.server()
    clock[0] = 3_599.0
    await double.client.server()
    assert double.double.count("GET", "/server_settings") == 1
    clock[0] = 3_602.0
    await double.client.server()
    assert double.double.count("GET", "/server_settings") == 2
