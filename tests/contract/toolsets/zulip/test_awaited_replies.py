"""Waiting for a person's reply: it ends with the reply, leaves nothing behind, and can be continued."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import anyio
import pytest

from mcp_server.connectors.zulip.chat import chat_of
from mcp_server.connectors.zulip.inbox import replies
from tests.doubles.serving import for_requests, status
from tests.support.zulip.hosts import BOT, HAMLET, LEVELS, SOON_S, ZulipHost, chatting, held, until, until_dropped

READ = "zulip_read_messages"


@pytest.fixture(params=LEVELS)
async def here(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[ZulipHost]:
    """Yield a host that may read, at two feature levels."""
    async with held(chatting(tmp_path, level=1, feature_level=request.param)) as found:
        yield found


async def until_listening(here: ZulipHost) -> None:
    """Return once a call waits for events."""
    await until(lambda: here.zulip.waiting)


async def waited(here: ZulipHost, **arguments: Any) -> dict[str, Any]:
    """Return the answer of a call that waits, with the texts alone in place of its messages."""
    answer = await here.call(READ, wait_seconds=50, **arguments)
    return {**answer, "messages": [line["text"] for line in answer["messages"]]}


async def test_a_reply_ends_the_wait_in_a_topic_a_conversation_and_a_channel_that_the_bot_is_not_in(
    here: ZulipHost,
) -> None:
    question = here.said("which date?", by=BOT)
    here.said("elsewhere", topic="other")
    asked: list[tuple[dict[str, Any], Any]] = [
        ({"anchor": str(question)}, lambda: here.said("the first", topic="merge")),
        ({"channel": "drawing", "topic": "merge"}, lambda: here.said("the second", topic="✔ merge")),
        ({"channel": "lobby"}, lambda: here.said("the third", channel="lobby")),
        ({"people": [HAMLET]}, lambda: here.world.tell(HAMLET, [BOT], "the fourth")),
    ]
    for arguments, answer in asked:
        here.zulip.waiting.clear()
        with anyio.fail_after(SOON_S):
            async with anyio.create_task_group() as tasks:

                async def reply(answer: Any = answer) -> None:
                    await until_listening(here)
                    here.said("in another topic", topic="other")
                    here.world.tell(HAMLET, ["Iago"], "not for the bot")
                    # The bot's own message is no reply.
                    here.world.say(BOT, "team", "merge", "from here")
                    answer()

                tasks.start_soon(reply)
                told = await waited(here, **arguments)
        assert len(told["messages"]) == 1
        assert told["messages"][0].startswith("the ")
        assert told["tainted"] is True
        assert "there are no newer messages yet" in told["note"]
        await until_dropped(here)


async def test_a_reply_that_is_there_already_is_returned_at_once_and_without_a_queue(here: ZulipHost) -> None:
    question = here.said("which date?", by=BOT)
    here.said("Monday")
    told = await waited(here, anchor=str(question))
    assert told["messages"] == ["Monday"]
    assert here.served.count("POST", "/api/v1/register") == 0
    assert (await waited(here, channel="drawing", topic="merge", anchor="oldest", limit=1))["messages"] == [
        "which date?"
    ]


async def test_nothing_came_is_reported_and_the_cursor_continues_to_wait(here: ZulipHost) -> None:
    question = here.said("which date?", by=BOT)
    nothing = await here.call(READ, anchor=str(question), wait_seconds=1)
    assert (nothing["messages"], nothing["tainted"]) == ([], False)
    assert nothing["note"] == "nothing came within 1 s; next_cursor with wait_seconds continues to wait"
    here.said("Monday")
    here.said("or Tuesday")
    first = await waited(here, anchor=str(question), cursor=nothing["next_cursor"], limit=1)
    assert (first["messages"], first["note"]) == (["Monday"], "next_cursor continues with newer messages")
    second = await waited(here, anchor=str(question), cursor=first["next_cursor"])
    assert second["messages"] == ["or Tuesday"]
    older = (await here.call(READ, channel="drawing", limit=1))["next_cursor"]
    assert "leave the cursor out" in await here.refused(READ, channel="drawing", cursor=older, wait_seconds=1)


async def test_cancelled_waits_leave_no_queue_and_others_go_on(
    here: ZulipHost, monkeypatch: pytest.MonkeyPatch
) -> None:
    """More calls wait than may hold a connection; meanwhile other calls are answered."""
    monkeypatch.setattr(replies, "POLL_S", 0.05)
    question = here.said("which date?", by=BOT)
    async with anyio.create_task_group() as tasks:
        for _ in range(replies.MOST_QUEUES + 4):
            tasks.start_soon(lambda: here.call(READ, anchor=str(question), wait_seconds=50))
        await until(lambda: len(here.zulip.waiting) == replies.MOST_QUEUES)
        with anyio.fail_after(SOON_S):
            assert (await here.call("zulip_list_channels", channel="drawing"))["topics"]
        assert len(here.world.queues) == replies.MOST_QUEUES
        tasks.cancel_scope.cancel()
    await until_dropped(here)
    assert chat_of(here.app.services).listening == 0


async def test_a_lost_queue_and_a_refused_one_are_replaced_by_looking(
    here: ZulipHost, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(replies, "POLL_S", 0.05)
    question = here.said("which date?", by=BOT)

    async def reply() -> None:
        await until_listening(here)
        here.world.forget_queues()
        await anyio.sleep(0.1)
        here.said("Monday")

    with anyio.fail_after(SOON_S):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(reply)
            assert (await waited(here, anchor=str(question)))["messages"] == ["Monday"]
    here.served.plan = for_requests("POST", "/api/v1/register", status(400, body='{"result": "error", "msg": "no"}'))
    registered = here.served.count("POST", "/register")
    with anyio.fail_after(SOON_S):
        async with anyio.create_task_group() as tasks:

            async def later() -> None:
                await until(lambda: here.served.count("POST", "/register") > registered)
                await anyio.sleep(0.2)
                here.said("Tuesday")

            tasks.start_soon(later)
            told = await waited(here, channel="drawing", topic="merge")
    assert told["messages"] == ["Tuesday"]


async def test_the_wait_for_an_answer_follows_a_question_that_is_moved(
    here: ZulipHost, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(replies, "LOOK_S", 0.05)
    question = here.said("which date?", by=BOT)

    async def move_and_answer() -> None:
        await until_listening(here)
        here.world.move(question, channel="team", topic="dates")
        here.said("Monday", channel="team", topic="dates")

    with anyio.fail_after(SOON_S):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(move_and_answer)
            told = await waited(here, anchor=str(question))
    assert told["messages"] == ["Monday"]
    await until_dropped(here)
