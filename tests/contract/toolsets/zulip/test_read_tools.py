"""Reading Zulip: by the names that people use, completely or with a note, and never outside the allow list."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from knowledge.errors import NoSuchSource, SourceAway
from knowledge.writing.evidence.sources import Fetched
from mcp_server.connectors.zulip.chat import chat_of
from mcp_server.connectors.zulip.evidence import fetch
from tests.doubles.serving import before
from tests.support.zulip.hosts import BOT, HAMLET, LEVELS, ZulipHost, chatting, held, until_dropped

CHANNELS, READ, SEARCH = "zulip_list_channels", "zulip_read_messages", "zulip_search_messages"


@pytest.fixture
async def here(tmp_path: Path) -> AsyncIterator[ZulipHost]:
    """Yield a host that may read."""
    async with held(chatting(tmp_path, level=1)) as found:
        yield found


@pytest.fixture(params=LEVELS)
async def both(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[ZulipHost]:
    """Yield the same at the recorded feature level and at a newer one, where other names are used."""
    async with held(chatting(tmp_path, level=1, feature_level=request.param)) as found:
        yield found


@pytest.fixture
async def fenced(tmp_path: Path) -> AsyncIterator[ZulipHost]:
    """Yield a host that may use one channel only."""
    async with held(chatting(tmp_path, zulip_channels=("Drawing",))) as found:
        yield found


def texts(answer: dict[str, Any]) -> list[str]:
    return [line["text"] for line in answer["messages"]]


async def test_channels_are_listed_by_name_and_one_with_its_purpose_and_topics(here: ZulipHost) -> None:
    here.said("old", topic="first")
    here.said("new", topic="second")
    listed = await here.call(CHANNELS)
    assert {"drawing", "team", "lobby"} <= {line["name"] for line in listed["channels"]}
    assert "secret" not in {line["name"] for line in listed["channels"]}
    assert {line["description"] for line in listed["channels"]} == {""}
    assert listed["tainted"] is False
    one = await here.call(CHANNELS, channel="#Drawing")
    assert [line["description"] for line in one["channels"]] == ["How things look and work"]
    assert one["topics"] == ["second", "first", "stream events"]
    assert one["tainted"] is True


async def test_topics_have_the_time_of_their_newest_message_and_their_unread_messages(both: ZulipHost) -> None:
    """Zulip counts what a bot sends as unread for the bot; that is news to nobody."""
    first = both.said("old", topic="✔ first")
    both.said("second")
    read = both.said("newer")
    both.said("from here", by=BOT)
    at = datetime.fromtimestamp(both.clock.at, UTC).isoformat()
    both.world.user(BOT).read.update({first, read})
    answer = await both.call(CHANNELS, channel="drawing")
    assert [line["place"] for line in answer["places"]] == [f"drawing/{topic}" for topic in answer["topics"]]
    newest, older = answer["places"][:2]
    assert newest == {"place": "drawing/merge", "at": at, "unread": 1, "resolved": False}
    assert (older["place"], older["unread"], older["resolved"]) == ("drawing/✔ first", 0, True)
    assert older["at"] < at
    only = await both.call(CHANNELS, channel="drawing", unread=True)
    assert "merge" in only["topics"]
    assert "✔ first" not in only["topics"]
    await until_dropped(both)


async def test_unread_messages_are_listed_by_place_without_ones_own(both: ZulipHost) -> None:
    bot = both.world.user(BOT)
    bot.read.update(both.world.said)
    nothing = await both.call(CHANNELS, unread=True)
    assert (nothing["places"], nothing["channels"], nothing["tainted"]) == ([], [], False)
    assert nothing["note"].startswith("nothing is unread there")
    both.said("one", channel="team")
    both.said("two", channel="team")
    both.said("my own", channel="drawing", by=BOT)
    both.said("not subscribed", channel="lobby")
    both.world.tell(HAMLET, [BOT], "for the bot")
    both.world.tell(HAMLET, [BOT, "Iago"], "for both")
    answer = await both.call(CHANNELS, unread=True)
    found = [(line["place"], line["unread"]) for line in answer["places"]]
    assert found == [(f"direct/Iago, {HAMLET}", 1), (f"direct/{HAMLET}", 1), ("team/merge", 2)]
    assert all(line["at"] for line in answer["places"])
    assert ([line["name"] for line in answer["channels"]], answer["topics"], answer["tainted"]) == (["team"], [], True)
    await until_dropped(both)


async def test_a_message_is_shown_with_its_place_writer_time_reactions_and_address(both: ZulipHost) -> None:
    asked = both.said("what do you think of [[guides/trust]]?")
    both.world.react(HAMLET, asked, "eyes")
    both.world.react(BOT, asked, "eyes")
    both.world.react(BOT, asked, "tada")
    answer = await both.call(READ, channel="drawing", topic="merge")
    room = both.world.room("drawing").id
    word = "channel" if both.world.level >= 250 else "stream"
    assert answer["messages"] == [
        {
            "id": asked,
            "place": "drawing/merge",
            "sender": HAMLET,
            "at": datetime.fromtimestamp(both.clock.at, UTC).isoformat(),
            "text": "what do you think of [[guides/trust]]?",
            "reactions": ["eyes: 2", "tada: 1"],
            "url": f"{both.served.address}/#narrow/{word}/{room}-drawing/topic/merge/near/{asked}",
        }
    ]
    assert answer["tainted"] is True


async def test_the_newest_are_read_first_and_the_cursor_continues_to_older_ones(here: ZulipHost) -> None:
    for number in range(7):
        here.said(f"m{number}")
    page = await here.call(READ, channel="drawing", topic="merge", limit=3)
    assert texts(page) == ["m4", "m5", "m6"]
    assert page["note"] == "next_cursor continues with older messages"
    here.said("m7")
    page = await here.call(READ, channel="drawing", topic="merge", limit=3, cursor=page["next_cursor"])
    assert texts(page) == ["m1", "m2", "m3"]
    page = await here.call(READ, channel="drawing", topic="merge", limit=3, cursor=page["next_cursor"])
    assert texts(page) == ["m0"]
    assert (page["next_cursor"], page["note"]) == (None, "there are no older messages")


async def test_from_the_oldest_the_cursor_continues_to_newer_ones(here: ZulipHost) -> None:
    for number in range(5):
        here.said(f"m{number}")
    page = await here.call(READ, channel="drawing", topic="merge", anchor="oldest", limit=3)
    assert texts(page) == ["m0", "m1", "m2"]
    page = await here.call(READ, channel="drawing", topic="merge", anchor="oldest", limit=3, cursor=page["next_cursor"])
    assert texts(page) == ["m3", "m4"]
    assert (page["next_cursor"], page["note"]) == (None, "there are no newer messages")


async def test_from_the_first_that_is_unread(here: ZulipHost) -> None:
    read = [here.said(f"m{number}") for number in range(5)]
    here.world.user(BOT).read.update(range(1, read[1] + 1))
    page = await here.call(READ, channel="drawing", topic="merge", anchor="first_unread", limit=2)
    assert texts(page) == ["m2", "m3"]
    page = await here.call(
        READ, channel="drawing", topic="merge", anchor="first_unread", limit=2, cursor=page["next_cursor"]
    )
    assert texts(page) == ["m4"]
    here.world.user(BOT).read.update(read)
    nothing = await here.call(READ, channel="drawing", topic="merge", anchor="first_unread")
    assert nothing["messages"] == []
    assert nothing["note"].startswith("nothing is unread there")


async def test_around_a_message_by_its_id_and_by_its_address(here: ZulipHost) -> None:
    said = [here.said(f"m{number}") for number in range(9)]
    around = await here.call(READ, anchor=str(said[4]), limit=5)
    assert texts(around) == ["m2", "m3", "m4", "m5", "m6"]
    assert around["note"] == f"next_cursor continues with newer messages; older ones are before anchor {said[2]}"
    address = around["messages"][2]["url"]
    assert texts(await here.call(READ, anchor=address, limit=1)) == ["m4"]
    assert texts(await here.call(READ, anchor=address.partition("/near/")[0], limit=2)) == ["m7", "m8"]


async def test_since_a_moment_begins_with_the_first_message_at_or_after_it(both: ZulipHost) -> None:
    for number in range(250):
        both.said(f"m{number}")
    begun = both.clock.at - 249 * 60
    for number in (0, 1, 117, 249):
        moment = datetime.fromtimestamp(begun + 60 * number, UTC)
        page = await both.call(READ, channel="drawing", topic="merge", since=moment.isoformat(), limit=2)
        assert texts(page) == [f"m{number}", f"m{number + 1}"][: 250 - number]
        earlier = datetime.fromtimestamp(begun + 60 * number - 30, UTC).isoformat()
        assert texts(await both.call(READ, channel="drawing", since=earlier, limit=1)) == [f"m{number}"]
    after = datetime.fromtimestamp(both.clock.at + 1, UTC).isoformat()
    assert (await both.call(READ, channel="drawing", topic="merge", since=after))["messages"] == []
    assert texts(await both.call(READ, channel="drawing", topic="merge", since="2020-01-01", limit=1)) == ["m0"]
    assert both.served.count("GET", "/api/v1/messages") < 60


async def test_a_direct_conversation_is_read_by_its_members(both: ZulipHost) -> None:
    both.world.tell(HAMLET, [BOT], "to the bot")
    both.world.tell(HAMLET, [BOT, "Iago"], "to both")
    answer = await both.call(READ, people=["hamlet@zulip.com"])
    assert (texts(answer), answer["messages"][0]["place"]) == (["to the bot"], f"direct/{HAMLET}")
    together = await both.call(READ, people=["@**King Hamlet**", "iago"])
    assert (texts(together), together["messages"][0]["place"]) == (["to both"], f"direct/Iago, {HAMLET}")


async def test_long_texts_share_the_room_and_it_is_said_which_are_cut(here: ZulipHost) -> None:
    said = [here.said("x" * 9_000) for _ in range(6)]
    answer = await here.call(READ, channel="drawing", topic="merge")
    assert {len(text) for text in texts(answer)} == {40_000 // 6}
    assert f"{', '.join(map(str, said))} are cut after 6666 characters" in answer["note"]
    assert texts(await here.call(READ, anchor=str(said[0]), limit=1)) == ["x" * 9_000]


async def test_a_topic_is_found_in_any_case_and_where_it_is_resolved(here: ZulipHost) -> None:
    here.said("done", topic="✔ Index rebuild")
    assert texts(await here.call(READ, channel="drawing", topic="index REBUILD")) == ["done"]
    told = await here.refused(READ, channel="drawing", topic="weather")
    assert "no topic 'weather' in #drawing; zulip_list_channels with this channel lists them" in told
    assert "rebuild" not in told


async def test_a_misspelt_name_is_found_and_an_ambiguous_one_is_asked_about(here: ZulipHost) -> None:
    here.world.channel("engineering", BOT)
    here.world.channel("research backend", BOT)
    here.world.channel("research frontend", BOT)
    here.said("found", channel="engineering")
    assert texts(await here.call(READ, channel="enginering", topic="merge")) == ["found"]
    told = await here.refused(READ, channel="research")
    assert "ambiguous" in told
    assert "research backend" in told
    assert "research frontend" in told


async def test_search_finds_public_and_own_messages_and_pages_back(both: ZulipHost) -> None:
    """A bot's own history lacks public channels that it hasn't joined (sample messages_bot_search_public)."""
    for number in range(3):
        both.said(f"lobster {number}", channel="lobby")
        both.said(f"lobster {number}", channel="drawing")
    both.world.tell(HAMLET, [BOT], "a lobster for you")
    both.said("lobster", channel="secret")
    first = await both.call(SEARCH, query="lobster", limit=4)
    assert [line["place"] for line in first["messages"]] == [
        "drawing/merge",
        "lobby/merge",
        "drawing/merge",
        f"direct/{HAMLET}",
    ]
    second = await both.call(SEARCH, query="lobster", limit=4, cursor=first["next_cursor"])
    assert [line["place"] for line in second["messages"]] == ["lobby/merge", "drawing/merge", "lobby/merge"]
    assert second["next_cursor"] is None
    assert len({line["id"] for line in first["messages"] + second["messages"]}) == 7


async def test_search_in_a_topic_by_a_sender(here: ZulipHost) -> None:
    here.said("lobster one")
    here.said("lobster two", topic="other")
    here.said("lobster three", by="Iago", channel="drawing")
    assert texts(await here.call(SEARCH, query="lobster", channel="drawing", topic="merge", sender="hamlet")) == [
        "lobster one"
    ]


UNCLEAR: list[tuple[dict[str, Any], str]] = [
    ({}, "name a channel, or people, or the id or address of a message"),
    ({"topic": "merge"}, "a topic is read in its channel"),
    ({"channel": "drawing", "people": ["hamlet"]}, "a channel or people, not both"),
    ({"channel": "drawing", "anchor": "yesterday"}, "not 'yesterday'"),
    ({"channel": "drawing", "since": "yesterday"}, "since is an ISO date"),
    ({"channel": "drawing", "since": "2026-11-20", "anchor": "oldest"}, "give only one of them"),
    ({"channel": "drawing", "since": "0001-01-01T00:00+14:00"}, "since is an ISO date"),
    ({"channel": "drawing", "anchor": "9" * 5_000}, "anchor is newest, oldest, first_unread"),
    ({"since": "2026-11-20"}, "since needs a channel or people"),
    ({"anchor": "https://elsewhere.example/#narrow/near/1"}, "not the address of a message or topic"),
    ({"anchor": "999999"}, "has no message 999999"),
    ({"channel": "drawing", "cursor": "bm8="}, "this cursor belongs to another call"),
]


async def test_unreadable_messages_are_reported_with_a_remedy(here: ZulipHost) -> None:
    for arguments, told in UNCLEAR:
        assert told in await here.refused(READ, **arguments)


async def test_a_cursor_belongs_to_its_question(here: ZulipHost) -> None:
    for number in range(4):
        here.said(f"lobster {number}")
    cursor = (await here.call(READ, channel="drawing", limit=2))["next_cursor"]
    assert "belongs to another call" in await here.refused(READ, channel="team", cursor=cursor)
    assert "belongs to another call" in await here.refused(SEARCH, query="lobster", cursor=cursor)


async def test_names_are_requested_rarely_and_again_for_an_unknown_one(here: ZulipHost) -> None:
    for _ in range(3):
        await here.call(READ, channel="drawing")
    assert here.served.count("GET", "/api/v1/streams") == 1


async def test_nothing_of_other_channels_comes_out(fenced: ZulipHost) -> None:
    """Names, ids, addresses, searches and counts: none of them opens a place outside the list."""
    other = fenced.said("lobster in team", channel="team")
    direct = fenced.world.tell(HAMLET, [BOT], "lobster in private")
    mine = fenced.said("lobster in drawing")
    for number in range(30):
        fenced.said(f"lobster {number}", channel="team")
    assert [line["name"] for line in (await fenced.call(CHANNELS))["channels"]] == ["drawing"]
    for asked in ("team", "Team", "#team", str(fenced.world.room("team").id), "nothing like it"):
        refusals = [await fenced.refused(READ, channel=asked), await fenced.refused(CHANNELS, channel=asked)]
        assert all("ZULIP_CHANNELS" in told for told in refusals)
    room = fenced.world.room("team").id
    address = f"{fenced.served.address}/#narrow/stream/{room}-team/topic/merge"
    assert "ZULIP_CHANNELS" in await fenced.refused(READ, anchor=address)
    for anchor in (str(other), str(direct), f"{address}/near/{other}"):
        told = await fenced.refused(READ, anchor=anchor)
        assert "lobster" not in told
        hidden = told.replace(anchor.rpartition("/")[2], "0")
        assert hidden == (await fenced.refused(READ, anchor="999999")).replace("999999", "0")
    assert "ZULIP_CHANNELS" in await fenced.refused(READ, people=[HAMLET])
    unread = await fenced.call(CHANNELS, unread=True)
    assert {line["place"].partition("/")[0] for line in unread["places"]} == {"drawing"}
    around = await fenced.call(READ, channel="drawing", anchor=str(other), limit=50)
    assert {line["place"].partition("/")[0] for line in around["messages"]} == {"drawing"}
    found = await fenced.call(SEARCH, query="lobster")
    assert [line["id"] for line in found["messages"]] == [mine]
    assert (found["next_cursor"], found["note"]) == (None, "there are no older messages")
    assert "ZULIP_CHANNELS" in await fenced.refused(SEARCH, query="lobster", channel="team")


async def test_direct_on_the_list_means_conversations_between_people(tmp_path: Path) -> None:
    async with chatting(tmp_path, level=1, zulip_channels=("drawing", "direct")) as here:
        here.world.tell(HAMLET, [BOT], "lobster in private")
        here.said("lobster in team", channel="team")
        assert texts(await here.call(READ, people=[HAMLET])) == ["lobster in private"]
        assert texts(await here.call(SEARCH, query="lobster")) == ["lobster in private"]


async def test_a_channel_called_direct_is_not_the_lists_direct(tmp_path: Path) -> None:
    async with chatting(tmp_path / "a", zulip_channels=("direct",)) as here:
        here.world.channel("Direct", BOT)
        assert (await here.call("zulip_list_channels"))["channels"] == []
        assert "ZULIP_CHANNELS limits what this server may use" in await here.refused(READ, channel="Direct")
        assert not chat_of(here.app.services).may_name("%44irect")
    async with chatting(tmp_path / "b", zulip_channels=("%44irect", "team%2Finfra")) as here:
        here.world.channel("Direct", BOT)
        here.world.channel("team/infra", BOT)
        for name, word in (("Direct", "%44irect"), ("team/infra", "team%2Finfra")):
            assert (await here.call(READ, channel=name))["messages"]
            assert chat_of(here.app.services).may_name(word)
        assert "ZULIP_CHANNELS limits what this server may use" in await here.refused(READ, people=["hamlet"])


async def test_a_forbidden_channel_is_never_taken_for_an_allowed_one(tmp_path: Path) -> None:
    async with chatting(tmp_path, level=1, zulip_channels=("drawings",)) as here:
        here.world.channel("drawings", BOT)
        assert "ZULIP_CHANNELS" in await here.refused(READ, channel="drawing")


async def test_a_topic_is_evidence_with_its_time_title_and_address(both: ZulipHost) -> None:

    first = both.said("The limit is 4,000.", topic="a/b")
    last = both.said("Agreed.", topic="a/b", by="Iago")
    chat = chat_of(both.app.services)
    topic = await fetch(chat, "Drawing/a/b")
    assert isinstance(topic, Fetched)
    assert topic.text == f"{HAMLET}: The limit is 4,000.\n\nIago: Agreed."
    assert (topic.title, topic.at.timestamp()) == ("#drawing > a/b", both.clock.at)
    assert topic.url.endswith("/topic/a.2Fb")
    one = await fetch(chat, f"drawing/a/b/{first}")
    assert (one.text, one.url.endswith(f"/near/{first}")) == (f"{HAMLET}: The limit is 4,000.", True)
    assert (await fetch(chat, f"drawing/a/b/{last}")).text == "Iago: Agreed."


async def test_a_topic_stays_evidence_when_it_is_resolved_and_reopened(
    here: ZulipHost,
) -> None:
    chat = chat_of(here.app.services)
    for topic, cited in (("✔ done", "done"), ("open", "✔ open")):
        number = here.said(topic, topic=topic)
        assert (await fetch(chat, f"drawing/{cited}")).text == f"{HAMLET}: {topic}"
        assert (await fetch(chat, f"drawing/{cited}/{number}")).text == f"{HAMLET}: {topic}"
    here.said("of another topic", topic="✔ open")
    assert (await fetch(chat, "drawing/open")).text == f"{HAMLET}: open"


async def test_a_missing_message_is_no_evidence(fenced: ZulipHost) -> None:

    said = fenced.said("The limit is 4,000.")
    other = fenced.said("The limit is 4,000.", channel="team")
    chat = chat_of(fenced.app.services)
    for locator in (
        "team/merge",
        f"team/merge/{other}",
        f"drawing/merge/{other}",
        f"drawing/else/{said}",
        "drawing",
        "drawing/none",
        f"drawing/merge/{'9' * 5_000}",
    ):
        with pytest.raises(NoSuchSource):
            await fetch(chat, locator)
    fenced.served.plan = lambda _method, _path, _number: before()
    with pytest.raises(SourceAway):
        await fetch(chat, f"drawing/merge/{said}")
