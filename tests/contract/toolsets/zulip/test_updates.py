"""Changing what is in Zulip: own messages, topics, what is read, subscriptions; and messages for later and files."""

from __future__ import annotations

import json
import os
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from knowledge.errors import EffectChanged, KnowledgeError
from knowledge.writing.requests import Approval
from mcp_server.app.settings.settings import Settings
from mcp_server.connectors.outbox_dispatcher import DeliveryAttempt, outbox_entry_for
from mcp_server.connectors.zulip.chat import chat_of
from mcp_server.gate.caller import Call
from mcp_server.gate.host_registration import Principal
from mcp_server.toolsets.zulip.handlers import plan_change, recall_change
from mcp_server.toolsets.zulip.schemas import ChatUpdateArguments
from mcp_server.toolsets.zulip.updates.execution import update_act
from mcp_server.toolsets.zulip.updates.plan import plan_update
from tests.contract.toolsets.zulip.test_acts import ACTED, LONG, NOT_ACTED, SEND, Later
from tests.doubles.serving import Fault, after, before, for_requests, no_fault, status
from tests.support.hosts.reviewers import reviewing
from tests.support.hosts.writers import writing
from tests.support.knowledge_bases.folders import write
from tests.support.zulip.hosts import BEGUN, BOT, HAMLET, LEVELS, ZulipHost, chatting, held
from tests.support.zulip.servers import ALL, ground

UPDATE = "zulip_update"
READ = "zulip_read_messages"
PLAIN = {"channel": "drawing", "topic": "merge"}
NOTICE = "Zulip's Notification Bot says so in the topic"
LATER = (datetime.now(UTC) + timedelta(days=3)).replace(microsecond=0)


@pytest.fixture(params=LEVELS)
async def both(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[ZulipHost]:
    """Yield a host that may do everything, at the recorded feature level and at a newer one."""
    async with held(chatting(tmp_path, level=5, feature_level=request.param)) as found:
        yield found


@pytest.fixture
async def here(tmp_path: Path) -> AsyncIterator[ZulipHost]:
    """Yield a host that may do everything."""
    async with held(chatting(tmp_path, level=5)) as found:
        yield found


@pytest.fixture
async def routine(tmp_path: Path) -> AsyncIterator[ZulipHost]:
    """Yield a host of level 4."""
    async with held(chatting(tmp_path, level=4)) as found:
        yield found


def topics(here: ZulipHost, channel: str = "drawing") -> dict[str, list[str]]:
    """Return the texts that people wrote, by topic."""
    room, bot, found = here.world.room(channel).id, here.world.user("Notification Bot").id, dict[str, list[str]]()
    for said in here.world.said.values():
        if said.room == room and said.sender != bot:
            found.setdefault(said.topic, []).append(said.text)
    return found


def notices(here: ZulipHost, topic: str, channel: str = "drawing") -> list[str]:
    room, bot = here.world.room(channel).id, here.world.user("Notification Bot").id
    return [one.text for one in here.world.said.values() if (one.room, one.topic, one.sender) == (room, topic, bot)]


async def sent(here: ZulipHost, text: str = "first") -> int:
    return int((await here.call(SEND, **PLAIN, text=text))["message_ids"][0])


# --- own messages -----------------------------------------------------------------------------------------------------


async def test_an_own_message_gets_another_text_and_back(both: ZulipHost) -> None:
    message = await sent(both)
    shown = await both.call(UPDATE, message_id=message, text="second @**King Hamlet**\n\n", dry_run=True)
    assert (shown["status"], shown["preview"].splitlines()[-1]) == ("analysis", "second @**King Hamlet**")
    assert "mentions King Hamlet" in shown["note"]
    assert both.world.said[message].text == "first"
    answer = await both.call(UPDATE, message_id=message, text="second @**King Hamlet**")
    assert (answer["status"], answer["place"]) == ("done", "drawing/merge")
    assert answer["undo"] == f'zulip_update(message_id={message}, text="first")'
    assert both.world.said[message].text == "second @**King Hamlet**"
    again = await both.call(UPDATE, message_id=message, text="second @**King Hamlet**")
    assert (again["status"], again["note"], again["undo"]) == ("unchanged", "it has that text already", "")
    assert (await both.call(UPDATE, message_id=message, text="first"))["status"] == "done"
    assert both.world.said[message].text == "first"
    assert (both.sent, len(both.world.said[message].versions)) == (1, 3)


async def test_a_person_sees_before_and_after_and_approves_exactly_that(tmp_path: Path) -> None:
    async with chatting(tmp_path, level=3) as here, reviewing(here.settings) as person:
        message = here.said("The old plan.", by=BOT)
        asked = {"message_id": message, "text": "The new plan, @**all**."}
        waits = await here.call(UPDATE, **asked)
        assert (waits["status"], waits["proposal"]["level_needed"]) == ("proposed", 5)
        proposal = await person.only()
        preview = json.loads(proposal.preview)
        assert "notifies everybody in the channel by @**all**" in preview["sentence"]
        assert "-The old plan.\n+The new plan, @**all**." in preview["files"][0]["diff"]
        here.world.edited(here.world.user(BOT), here.world.said[message], "Changed since.")
        assert (await person.approve(proposal.id)).state != "executed"
        assert here.world.said[message].text == "Changed since."
        await here.call(UPDATE, **asked)
        (again,) = [one for one in await person.waiting() if one.id != proposal.id]
        assert "-Changed since." in json.loads(again.preview)["files"][0]["diff"]
        assert (await person.approve(again.id)).state == "executed"
        assert here.world.said[message].text == asked["text"]


@pytest.mark.parametrize("feature_level", LEVELS)
async def test_a_text_that_changed_since_it_was_read_is_a_conflict(tmp_path: Path, feature_level: int) -> None:
    async with chatting(tmp_path, level=5, feature_level=feature_level) as here:
        for asked in ({"text": "second"}, {"delete": True}):
            message = await sent(here, f"first {asked}")
            plan = await plan_change(
                here.app.services, Call(Principal("ada", "desktop")), ChatUpdateArguments(message_id=message, **asked)
            )
            here.world.edited(here.world.user(BOT), here.world.said[message], "by another process")
            answer = await plan.execute(Call(Principal("ada", "desktop")))
            assert (answer.status, here.world.said[message].text) == ("conflict", "by another process")
        message = await sent(here, "once more")

        def plan_faults(method: str, _path: str, _number: int) -> Fault | None:
            if method == "PATCH":
                here.world.edited(here.world.user(BOT), here.world.said[message], "at the last moment")
            return None

        here.served.plan = plan_faults
        answer_now = await here.call(UPDATE, message_id=message, text="second")
        # From feature level 379 on Zulip itself compares the text.
        overwritten = feature_level < 379
        assert answer_now["status"] == ("done" if overwritten else "conflict")
        assert here.world.said[message].text == ("second" if overwritten else "at the last moment")


async def test_what_cannot_be_changed_is_said_before_anything_is_sent(here: ZulipHost) -> None:
    other, own = here.said("of somebody else"), here.said("own", by=BOT)
    here.world.edit_limit_s = here.world.delete_limit_s = 600
    unclear: list[tuple[dict[str, Any], str]] = [
        ({"message_id": other, "text": "x"}, "only your own messages can be changed"),
        ({"message_id": other, "delete": True}, "only your own messages can be changed"),
        ({"message_id": own}, "this asks for none"),
        ({"message_id": own, "text": "x", "delete": True}, "this asks for text and delete"),
        ({"text": "x"}, "give its message_id"),
        ({"message_id": own, "text": " "}, "the text is empty"),
        ({"message_id": own, "text": "x" * 10_001}, "Zulip accepts 10000"),
        ({"message_id": 999_999, "delete": True}, "has no message 999999"),
        ({"scheduled_id": 999, "delete": True}, "has no scheduled message 999"),
        ({"message_id": own, "delete": False}, "delete=false changes nothing"),
        ({"channel": "drawing", "resolved": True}, "name the channel and the topic"),
        ({"channel": "drawing", "topic": "nowhere", "resolved": True}, "no topic 'nowhere' in #drawing"),
        ({"channel": "drawing", "topic": "merg", "new_topic": "x"}, "no topic 'merg' in #drawing"),
        ({"channel": "drawin", "topic": "merge", "new_topic": "x"}, "no channel 'drawin' in Zulip; there are drawing"),
        ({**PLAIN, "new_channel": "tea"}, "no channel 'tea' in Zulip; there are team"),
        ({**PLAIN, "new_topic": " "}, "new_topic is empty"),
        ({**PLAIN, "new_topic": "m" * 61}, "Zulip keeps 60"),
        ({**PLAIN, "new_topic": "x", "resolved": True}, "this asks for resolved and new_topic"),
        ({"channel": "team", "topic": "x", "subscribed": True}, "a whole channel"),
        ({**PLAIN, "read": False}, "to mark as unread, give message_id"),
        ({"read": True}, "name the channel"),
    ]
    chat_of(here.app.services).now = lambda: datetime.fromtimestamp(here.clock.at, UTC)
    for asked, told in unclear:
        assert told in await here.refused(UPDATE, **asked), asked
    shown = await here.call(UPDATE, message_id=own, text="x", dry_run=True)
    assert (
        f"Zulip allows this edit until {datetime.fromtimestamp(BEGUN + 720, UTC):%Y-%m-%d %H:%M} UTC" in shown["note"]
    )
    here.clock.at += 3_600
    assert "could be edited until" in await here.refused(UPDATE, message_id=own, text="x")
    shown = await here.call(UPDATE, message_id=own, delete=True, dry_run=True)
    assert "the time for deleting it ended" in shown["note"]
    assert "time limit for deleting this message has passed" in await here.refused(UPDATE, message_id=own, delete=True)
    assert (here.world.said[own].text, here.world.said[other].text) == ("own", "of somebody else")


async def test_a_message_is_deleted_only_with_a_level_more_because_nothing_brings_it_back(tmp_path: Path) -> None:
    async with chatting(tmp_path, level=4) as here, reviewing(here.settings) as person:
        message = await sent(here)
        waits = await here.call(UPDATE, message_id=message, delete=True)
        assert (waits["status"], waits["proposal"]["level_needed"]) == ("proposed", 5)
        assert "this cannot be undone" in json.loads((await person.only()).preview)["sentence"]
        assert (await person.approve(waits["proposal"]["id"])).state == "executed"
        assert message not in here.world.said
        again = await here.call(UPDATE, message_id=message, delete=True)
        assert (again["status"], "was approved on" in again["note"]) == ("unchanged", True)


# --- topics -----------------------------------------------------------------------------------------------------------


async def test_a_topic_is_resolved_renamed_moved_and_taken_back_by_the_calls_in_the_answers(both: ZulipHost) -> None:
    texts = ["one", "two", "three"]
    for text in texts:
        both.said(text)
    both.said("elsewhere", topic="other")
    changes: list[tuple[dict[str, Any], str, str]] = [
        ({"resolved": True}, "drawing", "✔ merge"),
        ({"new_topic": "merge  of branches"}, "drawing", "merge of branches"),
        ({"new_topic": "MERGE"}, "drawing", "MERGE"),
        ({"new_channel": "team"}, "team", "merge"),
        ({"new_channel": "#Team", "new_topic": "from drawing"}, "team", "from drawing"),
    ]
    for change, channel, topic in changes:
        shown = await both.call(UPDATE, **PLAIN, **change, dry_run=True)
        assert (shown["status"], "3 messages" in shown["preview"], NOTICE in shown["note"]) == ("analysis", True, True)
        answer = await both.call(UPDATE, **PLAIN, **change)
        assert (answer["status"], answer["place"]) == ("done", f"{channel}/{topic}"), (change, answer)
        assert topics(both, channel)[topic] == texts
        assert notices(both, topic, channel), change
        asked = eval(answer["undo"].replace("zulip_update", "dict").replace("true", "True").replace("false", "False"))  # noqa: S307 - the tool's own answer
        back = await both.call(UPDATE, **asked)
        assert (back["status"], back["place"]) == ("done", "drawing/merge"), (change, back)
        assert "read back" not in back["note"]
        assert topics(both)["merge"] == texts
        for notice in [
            one.id for one in both.world.said.values() if one.sender == both.world.user("Notification Bot").id
        ]:
            del both.world.said[notice]
    assert topics(both)["other"] == ["elsewhere"]
    same = await both.call(UPDATE, **PLAIN, new_topic="merge")
    assert (same["status"], same["note"]) == ("unchanged", "it is there already")


async def test_two_topics_become_one_only_with_a_level_more_and_the_plan_says_so(tmp_path: Path) -> None:
    async with chatting(tmp_path, level=4) as here, reviewing(here.settings) as person:
        here.said("one")
        here.said("two", topic="Old Plans")
        near = await here.call(UPDATE, **PLAIN, new_topic="old plan", dry_run=True)
        assert "there is 'Old Plans'" in near["note"]
        waits = await here.call(UPDATE, **PLAIN, new_topic="old plans")
        assert (waits["status"], waits["proposal"]["level_needed"]) == ("proposed", 5)
        assert "the two become one, which cannot be undone" in json.loads((await person.only()).preview)["sentence"]
        assert (await person.approve(waits["proposal"]["id"])).state == "executed"
        assert [text for texts in topics(here).values() for text in texts] == ["one", "two"]
        again = await here.call(UPDATE, **PLAIN, new_topic="old plans")
        assert (again["status"], "was approved on" in again["note"]) == ("unchanged", True)


async def test_the_plan_says_how_many_messages_a_long_topic_has_and_names_are_quoted(here: ZulipHost) -> None:
    topic = 'the "big\\small" one'
    for number in range(1_100):
        here.world.say(HAMLET, "drawing", topic, f"message {number}")
    shown = await here.call(UPDATE, channel="drawing", topic=topic, new_topic="x", dry_run=True)
    assert "move 1,100 messages from" in shown["preview"]
    assert json.loads(shown["undo"].partition("new_topic=")[2].removesuffix(")")) == topic
    for number in range(1_000):
        here.world.say(HAMLET, "drawing", topic, f"message {number}")
    shown = await here.call(UPDATE, channel="drawing", topic=topic, new_topic="x", dry_run=True)
    assert "move more than 2,000 messages from" in shown["preview"]


async def test_a_private_channels_topic_leaves_it_only_with_a_level_more(routine: ZulipHost) -> None:
    routine.world.channel("board", BOT, HAMLET, private=True)
    routine.said("in confidence", channel="board")
    waits = await routine.call(UPDATE, channel="board", topic="merge", new_channel="team")
    assert (waits["status"], waits["proposal"]["level_needed"]) == ("proposed", 5)
    assert "everybody in #team can then read these messages of a private channel" in waits["note"]
    assert (await routine.call(UPDATE, channel="board", topic="merge", new_topic="x"))["status"] == "done"


async def test_a_topic_that_appears_at_the_new_name_meanwhile_is_a_conflict(here: ZulipHost) -> None:
    here.said("one")
    call = Call(Principal("ada", "desktop"))
    plan = await plan_change(
        here.app.services, call, ChatUpdateArguments(channel="drawing", topic="merge", new_topic="new")
    )
    here.said("two", topic="new")
    assert (await plan.execute(call)).status == "conflict"
    assert topics(here) == {"merge": ["one"], "new": ["two"]}
    plan = await plan_change(
        here.app.services, call, ChatUpdateArguments(channel="drawing", topic="merge", new_topic="newer")
    )
    here.world.move(here.said("three"), topic="elsewhere")
    here.said("four")
    answer = await plan.execute(call)
    assert (answer.status, topics(here)["newer"]) == ("done", ["one", "four"])


async def test_a_topic_is_found_although_zulips_own_notice_is_its_newest_message(here: ZulipHost) -> None:
    """Taken back within a minute, a topic loses that notice: it must not be the message by which the topic is found."""
    here.said("one")
    await here.call(UPDATE, **PLAIN, resolved=True)
    assert len(notices(here, "✔ merge")) == 1
    here.served.plan = for_requests("PATCH", "", after())
    answer = await here.call(UPDATE, channel="drawing", topic="merge", resolved=False)
    assert (answer["status"], answer["note"]) == ("done", NOTICE)
    assert (topics(here), notices(here, "merge")) == ({"merge": ["one"]}, [])


# --- marks of reading, and subscriptions ------------------------------------------------------------------------------


async def test_messages_are_marked_as_read_and_unread_at_level_3(tmp_path: Path) -> None:
    async with chatting(tmp_path, level=3) as here:
        bot = here.world.user(BOT)
        direct = here.world.tell(HAMLET, [BOT], "between us")
        assert (await here.call(UPDATE, message_id=direct, read=True))["place"] == f"direct/{HAMLET}"
        assert direct in bot.read
        # The answer names the conversation, so marking messages elsewhere now needs a level more.
        assert (await here.call(UPDATE, channel="drawing", read=True))["proposal"]["level_needed"] == 4
    async with chatting(tmp_path / "other", level=3) as here:
        ids, bot = [here.said(f"message {number}") for number in range(6)], here.world.user(BOT)
        other = here.said("x", topic="other")
        answer = await here.call(UPDATE, message_id=ids[2], read=True)
        assert (answer["status"], answer["place"], bot.read & set(ids)) == ("done", "drawing/merge", set(ids[:3]))
        assert answer["undo"] == f"zulip_update(message_id={ids[0]}, read=false)"
        shown = await here.call(UPDATE, channel="drawing", read=True, dry_run=True)
        assert "mark 5 messages in #drawing as read" in shown["preview"]
        await here.call(UPDATE, **PLAIN, read=True)
        assert (bot.read & {*ids, other}) == set(ids)
        assert "is read already" in (await here.call(UPDATE, **PLAIN, read=True))["note"]
        await here.call(UPDATE, message_id=ids[4], read=False)
        assert (bot.read & set(ids)) == set(ids[:4])
        for act in ({**PLAIN, "resolved": True}, {"channel": "lobby", "subscribed": True}):
            assert (await here.call(UPDATE, **act))["status"] == "proposed"


async def test_the_bot_subscribes_to_a_channel_by_its_exact_name_and_creates_none(tmp_path: Path) -> None:
    async with chatting(tmp_path, level=4, zulip_channels=("drawing", "lobby", "team", "board")) as here:
        world, call = here.world, Call(Principal("ada", "desktop"))
        bot = world.user(BOT)
        answer = await here.call(UPDATE, channel="#Lobby", subscribed=True)
        assert (answer["status"], world.room("lobby").id in bot.subscribed) == ("done", True)
        assert (await here.call(UPDATE, channel="lobby", subscribed=True))["note"] == "the bot is subscribed already"
        assert (await here.call(UPDATE, channel="lobby", subscribed=False))["status"] == "done"
        assert "ZULIP_CHANNELS" in await here.refused(UPDATE, channel="lob", subscribed=True)
        assert "ZULIP_CHANNELS" in await here.refused(UPDATE, channel="social", subscribed=True)
        plan = await plan_change(here.app.services, call, ChatUpdateArguments(channel="lobby", subscribed=True))
        world.rename("lobby", "foyer")
        assert (await plan.execute(call)).status == "conflict"
        assert "lobby" not in {room.name for room in world.rooms.values()}
        world.channel("board", BOT, private=True)
        waits = await here.call(UPDATE, channel="board", subscribed=False)
        assert (waits["status"], waits["proposal"]["level_needed"]) == ("proposed", 5)
        assert "cannot be undone from here" in waits["note"]


async def test_nothing_changes_where_the_allow_list_does_not_reach(tmp_path: Path) -> None:
    async with chatting(tmp_path, level=5, zulip_channels=("drawing",)) as here:
        here.said("one")
        own = here.said("own", channel="team", by=BOT)
        hidden = here.world.schedule(
            here.world.user(BOT), here.world.room("team"), "later", int(LATER.timestamp()), topic="x"
        )
        for asked in (
            {"message_id": own, "delete": True},
            {"message_id": own, "read": True},
            {"scheduled_id": hidden, "delete": True},
        ):
            assert "has no " in await here.refused(UPDATE, **asked)
        for named in ({"channel": "team", "topic": "merge", "resolved": True}, {**PLAIN, "new_channel": "team"}):
            assert "ZULIP_CHANNELS" in await here.refused(UPDATE, **named)
        assert (await here.call(READ, anchor="scheduled"))["messages"] == []
        assert (here.world.said[own].text, list(here.world.scheduled)) == ("own", [hidden])


async def test_the_topic_of_proposals_is_changed_only_with_a_level_more(tmp_path: Path) -> None:
    async with chatting(tmp_path, level=4, zulip_reviews=("drawing", "merge")) as here:
        notice = here.said("A proposal waits.", by=BOT)
        here.said("one", topic="other")
        for asked in (
            {"message_id": notice, "text": "Nothing waits."},
            {**PLAIN, "new_topic": "elsewhere"},
            {"channel": "drawing", "topic": "other", "new_topic": "merge"},
        ):
            waits = await here.call(UPDATE, **asked)
            assert (waits["status"], waits["proposal"]["level_needed"]) == ("proposed", 5)


# --- for later --------------------------------------------------------------------------------------------------------


async def test_a_message_for_later_waits_in_zulip_is_listed_and_cancelled(both: ZulipHost) -> None:
    at = LATER.astimezone().isoformat()
    shown = await both.call(SEND, **PLAIN, text="later", send_at=at, dry_run=True)
    assert (shown["status"], both.world.scheduled) == ("analysis", {})
    answer = await both.call(SEND, **PLAIN, text="later", send_at=at)
    (waits,) = both.world.scheduled.values()
    assert (waits.text, waits.at, waits.topic) == ("later", LATER.timestamp(), "merge")
    assert (answer["status"], answer["message_ids"], both.sent) == ("done", [], 0)
    assert f"scheduled for {LATER:%Y-%m-%d %H:%M} UTC under the id {waits.id}" in answer["note"]
    assert "check it now" not in answer["note"]
    again = await both.call(SEND, **PLAIN, text="later", send_at=at)
    assert (again["status"], len(both.world.scheduled)) == ("unchanged", 1)
    assert f"under the id {waits.id}" in again["note"]
    direct = await both.call(SEND, people=[HAMLET], text="for you", send_at=at)
    assert (direct["status"], "check it now" in direct["note"]) == ("done", False)
    listed = await both.call(READ, anchor="scheduled")
    assert [(one["place"], one["text"]) for one in listed["messages"]] == [
        ("drawing/merge", "later"),
        (f"direct/{HAMLET}", "for you"),
    ]
    assert datetime.fromisoformat(listed["messages"][0]["at"]) == LATER
    cancelled = await both.call(UPDATE, scheduled_id=listed["messages"][0]["id"], delete=True)
    assert (cancelled["status"], cancelled["place"]) == ("done", "drawing/merge")
    assert [one.text for one in both.world.scheduled.values()] == ["for you"]
    assert "has no scheduled message" in await both.refused(UPDATE, scheduled_id=waits.id, delete=True)


async def test_when_a_message_cannot_wait_is_said_before(tmp_path: Path) -> None:
    soon = datetime.now(UTC).isoformat()
    async with chatting(tmp_path, level=4) as here:
        for send_at, told in (
            ("2026-12-01T09:00", "with its zone"),
            ("tomorrow", "with its zone"),
            (soon, "has passed or comes within a minute"),
        ):
            assert told in await here.refused(SEND, **PLAIN, text="x", send_at=send_at)
        assert "at most 10000 characters" in await here.refused(
            SEND, **PLAIN, text="x " * 9_000, send_at=LATER.isoformat()
        )
        assert here.world.scheduled == {}
    async with chatting(tmp_path, level=4, feature_level=178) as old:
        assert "needs 179, Zulip 7.0" in await old.refused(SEND, **PLAIN, text="x", send_at=LATER.isoformat())


async def test_a_message_for_later_is_scheduled_once_whatever_happens_to_the_reply(
    here: ZulipHost, tmp_path: Path
) -> None:
    later = Later(here, tmp_path)

    def waiting(text: str) -> int:
        return sum(one.text == text for one in here.world.scheduled.values())

    for number, (name, fault) in enumerate([*ACTED.items(), *NOT_ACTED.items()]):
        acts, text = number < len(ACTED), f"later {number}"
        asked = {**PLAIN, "text": text, "send_at": LATER.isoformat()}
        later.passed = timedelta()
        here.served.plan = for_requests("POST", "/scheduled_messages", fault)
        first = await later.send(**asked)
        assert (first.status, waiting(text)) == (("done", 1) if acts else ("unsure", 0)), name
        later.passed = timedelta(minutes=6)
        again = await later.send(**asked)
        assert (again.status, waiting(text)) == ("unchanged" if acts else "done", 1), name
    here.served.plan = for_requests("POST", "/scheduled_messages", before())
    asked = {**PLAIN, "text": "too late", "send_at": LATER.isoformat()}
    assert (await later.send(**asked)).status == "unsure"
    assert waiting("too late") == 0


# --- files ------------------------------------------------------------------------------------------------------------

PAGE = "# Deploying\n\nWith a canary, und Grüße.\n"


async def test_a_page_or_a_text_is_sent_as_a_file_and_approved_with_its_whole_text(tmp_path: Path) -> None:
    write(
        tmp_path / "kb",
        {
            "guides/deploy [old].md": PAGE,
            "guides/_index.md": "# Guides\n",
            "clip.md": "---\nuntrusted: true\n---\n# Clip\n\nObey.\n",
        },
    )
    async with chatting(tmp_path, level=4) as here, reviewing(here.settings) as person:
        world = here.world
        answer = await here.call(SEND, **PLAIN, text="See:", file="kb:guides/deploy [old].md")
        ((name, content),) = world.files.items()
        assert (answer["status"], answer["note"], content.decode()) == ("done", None, PAGE)
        assert topics(here)["merge"] == [f"See:\n\n[deploy _old_.md](/user_uploads/{name})"]
        again = await here.call(SEND, **PLAIN, text="See:", file="kb:guides/deploy [old].md")
        assert (again["status"], len(world.files)) == ("unchanged", 1)
        cited = (await here.call("kb_read", path="guides/deploy [old].md"))["cited_by"]
        assert [one["origin"] for one in cited] == ["zulip:drawing"]
        await here.call(SEND, **PLAIN, text="1. a long list @**all**", file="list.md")
        assert list(world.files.values())[1] == b"1. a long list @**all**\n"
        assert topics(here)["merge"][1] == f"[list.md](/user_uploads/{list(world.files)[1]})"
        whole = await here.call(SEND, **PLAIN | {"topic": "long"}, text=LONG, file="kb:guides/deploy [old].md")
        parts = topics(here)["long"]
        assert (whole["status"], len(parts), max(map(len, parts)) <= 10_000) == ("done", 3, True)
        assert parts[-1].endswith(f"\n\n[deploy _old_.md](/user_uploads/{list(world.files)[2]})")
        assert not any("](/user_uploads/" in part for part in parts[:-1])
        for file, told in (
            ("kb:guides/deplo", "nothing at 'guides/deplo'"),
            ("kb:guides", "the nearest is kb:guides/_index.md"),
            ("../etc/passwd", "a name like notes.md"),
            ("list", "a name like notes.md"),
        ):
            error = await here.refused(SEND, **PLAIN, text="x", file=file)
            assert told in error, (file, error)
        waits = await here.call(SEND, **PLAIN, text="Look", file="kb:clip.md")
        assert (waits["status"], waits["proposal"]["level_needed"]) == ("proposed", 5)
        assert "You read text from kb:clip.md" in waits["proposal"]["why"]
        proposal = await person.only()
        preview = json.loads(proposal.preview)
        assert "with the file clip.md" in preview["sentence"]
        assert "+Obey." in preview["files"][1]["diff"]
        assert len(world.files) == 3
        (here.settings.kb / "clip.md").write_text("---\nuntrusted: true\n---\nObey me!\n", encoding="utf-8")
        assert (await person.approve(proposal.id)).state != "executed"
        assert (len(world.files), len(topics(here)["merge"])) == (3, 2)


async def test_a_file_is_in_one_message_whatever_happens_to_the_replies(here: ZulipHost, tmp_path: Path) -> None:
    later = Later(here, tmp_path)
    for number, (name, fault) in enumerate([*ACTED.items(), *NOT_ACTED.items()]):
        acts = number < len(ACTED)
        asked = {**PLAIN, "topic": f"file {number}", "text": "x" * 20, "file": "notes.txt"}
        later.passed = timedelta()
        here.served.plan = for_requests("POST", "/user_uploads", fault)
        with suppress(KnowledgeError):
            await later.send(**asked)
        here.served.plan = no_fault
        assert (await later.send(**asked)).status in ("done", "unchanged"), name
        here.served.plan = for_requests("POST", "/api/v1/messages", fault)
        asked["text"] = "y" * 20
        assert (await later.send(**asked)).status == ("done" if acts else "unsure"), name
        here.world.forget_queues()
        later.passed = timedelta(minutes=6)
        assert (await later.send(**asked)).status == ("unchanged" if acts else "done"), name
        links = topics(here)[f"file {number}"]
        assert len(links) == 2, name
        assert [here.world.files[link[len("[notes.txt](/user_uploads/") : -1]][:1] for link in links] == [b"x", b"y"]
    here.served.plan = lambda _method, path, _number: status(500) if path.endswith("/user_uploads") else None
    assert "nothing was changed" in await here.refused(SEND, **PLAIN, text="z", file="notes.txt")
    assert b"z\n" not in here.world.files.values()


# --- lost replies -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Scene:
    """A change, and whether it is made."""

    asked: dict[str, Any]
    is_made: Callable[[], bool]


def scene(here: ZulipHost, kind: str, number: int) -> Scene:
    """Return a change of that kind that was not made yet."""
    world, topic = here.world, f"{kind} {number}"
    message = here.said("before", topic=topic, by=BOT)
    said, bot = world.said[message], world.user(BOT)
    if kind == "edit":
        return Scene({"message_id": message, "text": "after"}, lambda: said.text == "after")
    if kind == "delete":
        return Scene({"message_id": message, "delete": True}, lambda: message not in world.said)
    if kind == "resolve":
        return Scene({"channel": "drawing", "topic": topic, "resolved": True}, lambda: said.topic == f"✔ {topic}")
    if kind == "move":
        asked = {"channel": "drawing", "topic": topic, "new_channel": "team", "new_topic": f"{topic} there"}
        return Scene(asked, lambda: (said.room, said.topic) == (world.room("team").id, f"{topic} there"))
    if kind == "read":
        theirs = here.said("theirs", topic=topic)
        return Scene({"channel": "drawing", "topic": topic, "read": True}, lambda: theirs in bot.read)
    if kind == "cancel":
        waits = world.schedule(bot, world.room("drawing"), "later", int(LATER.timestamp()), topic=topic)
        return Scene({"scheduled_id": waits, "delete": True}, lambda: waits not in world.scheduled)
    room = world.channel(f"channel {number}", HAMLET)
    return Scene({"channel": room.name, "subscribed": True}, lambda: room.id in bot.subscribed)


KINDS = ("edit", "delete", "resolve", "move", "read", "cancel", "subscribe")


def on_change(fault: Fault) -> Callable[[str, str, int], Fault | None]:
    """Return a plan in which the next request that changes something has this fault."""
    left = [fault]

    def plan(method: str, path: str, _number: int) -> Fault | None:
        if method == "GET" or path.endswith(("/register", "/events")) or not left:
            return None
        return left.pop()

    return plan


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
async def test_whatever_happens_to_a_reply_a_change_is_made_once_and_said_truly(here: ZulipHost, kind: str) -> None:
    for number, (name, fault) in enumerate([*ACTED.items(), *NOT_ACTED.items()]):
        one = scene(here, kind, number)
        here.served.plan = on_change(fault)
        answer = await here.call(UPDATE, **one.asked)
        assert answer["status"] in ("done", "unsure"), (name, answer)
        assert one.is_made() or answer["status"] == "unsure", (name, answer)
        here.served.plan = no_fault
        if answer["status"] == "unsure":
            assert (await here.call(UPDATE, **one.asked))["status"] == "done", name
        assert one.is_made(), name
    if kind in ("resolve", "move"):
        counts = [
            len(notices(here, said.topic, here.world.rooms[said.room or 0].name))
            for said in here.world.said.values()
            if said.text == "before"
        ]
        assert set(counts) == {1}


async def test_zulip_shows_the_outcome_of_a_change_whose_process_died(here: ZulipHost, tmp_path: Path) -> None:
    later, outbox = Later(here, tmp_path), here.app.services.state.outbox
    for number, (kind, fault) in enumerate((kind, fault) for kind in KINDS for fault in (None, after(), before())):
        one, proposal = scene(here, kind, number), f"p-{number}"
        asked = ChatUpdateArguments(**one.asked)
        call = Call(Principal("ada", "desktop"), approval=Approval(proposal, "approved by ann", "effect"))
        plan = await plan_update(chat_of(here.app.services), asked)
        if fault is None:
            assert await recall_change(later.services, call, asked) is None, kind
            continue
        entry = outbox_entry_for(
            call, tool=UPDATE, target=plan.place, digest=plan.effect, arguments_hash="", at=later.now()
        )
        attempt = DeliveryAttempt(await outbox.begin(entry, within=timedelta(0)), outbox.mark)
        here.served.plan = on_change(fault)
        with suppress(KnowledgeError):
            await update_act(later.services, plan).act.send(attempt)
        here.served.plan = no_fault
        found = await recall_change(later.services, call, asked)
        # A mark that was lost is set again at once, because that does no harm.
        is_made = number % 3 == 1 or kind == "read"
        outcome = found.status if found else None
        assert (outcome, one.is_made()) == (("done", True) if is_made else (None, False)), kind


async def test_a_change_that_somebody_made_undone_after_a_lost_reply_is_not_made_again(here: ZulipHost) -> None:
    one = scene(here, "edit", 0)
    plan = await plan_update(chat_of(here.app.services), ChatUpdateArguments(**one.asked))
    outbox, call = here.app.services.state.outbox, Call(Principal("ada", "desktop"))
    entry = outbox_entry_for(
        call, tool=UPDATE, target=plan.place, digest=plan.effect, arguments_hash="", at=here.app.services.now()
    )
    attempt, act = (
        DeliveryAttempt(await outbox.begin(entry, within=timedelta(0)), outbox.mark),
        update_act(here.app.services, plan).act,
    )
    here.served.plan = on_change(after())
    with pytest.raises(KnowledgeError):
        await act.send(attempt)
    here.world.edited(here.world.user(BOT), here.world.said[plan.number], "a third text")
    with pytest.raises(KnowledgeError, match="somebody else changed it meanwhile"):
        await act.look(attempt)
    with pytest.raises(KnowledgeError, match="somebody else changed it meanwhile"):
        await act.send(attempt)
    fresh = DeliveryAttempt(
        await outbox.begin(
            outbox_entry_for(call, tool=UPDATE, target="x", digest="y", arguments_hash="", at=here.app.services.now()),
            within=timedelta(0),
        ),
        outbox.mark,
    )
    with pytest.raises(EffectChanged):
        await act.send(fresh)
    assert here.world.said[plan.number].text == "a third text"


# --- double and real server -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ALL)
async def test_everything_that_can_be_changed_is_changed_and_taken_back(tmp_path: Path, kind: str) -> None:
    """The same on the double and on a real server, named by FORGE_TEST_ZULIP_SITE, _EMAIL and _KEY."""
    async with ground(kind) as place:
        bot = place.zulip.world.user(BOT) if place.zulip else None
        settings = Settings(
            kb=write(tmp_path / "kb", {"deploy.md": PAGE}),
            state_dir=tmp_path / "state",
            zulip_site=place.site,
            zulip_email=bot.email if bot else os.environ["FORGE_TEST_ZULIP_EMAIL"],
            zulip_api_key=bot.key if bot else os.environ["FORGE_TEST_ZULIP_KEY"],
        )
        there: dict[str, Any] = {"channel": place.channel.name, "topic": place.topic}
        resolved = {**there, "topic": f"✔ {place.topic}"}
        async with writing(settings) as host:

            async def done(tool: str, **asked: Any) -> dict[str, Any]:
                answer = await host.call(tool, **asked)
                assert (answer["status"], "read back" in (answer["note"] or "")) == ("done", False), (asked, answer)
                assert "check it now" not in (answer["note"] or ""), (asked, answer)
                return answer

            first = (await done(SEND, **there, text="first"))["message_ids"][0]
            await done(UPDATE, message_id=first, text="second")
            assert (await host.call(UPDATE, message_id=first, text="second"))["status"] == "unchanged"
            filed = await done(SEND, **there, text="See:", file="kb:deploy.md")
            await done(UPDATE, **there, resolved=True)
            assert (await host.call(UPDATE, **there, resolved=True))["status"] == "unchanged"
            await done(UPDATE, **resolved, resolved=False)
            await done(UPDATE, **there, new_topic=f"{place.topic} renamed")
            await done(UPDATE, channel=place.channel.name, topic=f"{place.topic} renamed", new_topic=place.topic)
            read = await host.call(READ, **there)
            (link,) = [one["text"] for one in read["messages"] if one["id"] == filed["message_ids"][0]]
            address = link.partition("(")[2].removesuffix(")")
            assert (await host.call(READ, **there, anchor=address))["file"] == PAGE
            assert [
                line["text"].split("\n")[0] for line in read["messages"] if line["sender"] != "Notification Bot"
            ] == ["second", "See:"]
            await host.call(UPDATE, **there, read=True)
            assert (await host.call(UPDATE, **there, read=True))["status"] == "unchanged"
            await done(UPDATE, message_id=first, read=False)
            await done(UPDATE, **there, read=True)
            await done(SEND, **there, text="later", send_at=LATER.isoformat(), file="kb:deploy.md")
            await done(SEND, people=["me"], text="later", send_at=LATER.isoformat())
            waiting = (await host.call(READ, anchor="scheduled"))["messages"]
            for one in waiting:
                await done(UPDATE, scheduled_id=one["id"], delete=True)
            assert len(waiting) >= 2
            await done(UPDATE, channel=place.channel.name, subscribed=False)
            await done(UPDATE, channel=place.channel.name, subscribed=True)
            await done(UPDATE, message_id=first, delete=True)
            assert "has no message" in await host.refused(UPDATE, message_id=first, delete=True)
