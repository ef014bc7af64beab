"""Proposals are announced in Zulip once, whichever process dies or reply is lost, and only reactions of listed people count."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import anyio
import pytest

from knowledge.trust.ports import Proposal
from mcp_server.app.knowledge_base import utc_now
from mcp_server.app.settings.values import reviewers
from mcp_server.approvals.approvers import Approver
from mcp_server.approvals.zulip.notice_record import powerless_reviewers
from mcp_server.approvals.zulip.notices import LEASE
from mcp_server.connectors.outbox_dispatcher import OutboxDispatcher
from tests.doubles.serving import Fault, after, before, for_requests, served, status
from tests.support.hosts.reviewers import reviewing
from tests.support.hosts.writers import writing
from tests.support.knowledge_bases.folders import write
from tests.support.zulip.reviews import (
    CORDELIA,
    HAMLET,
    IAGO,
    LISTED,
    MESSAGES,
    PAGE,
    QUICK,
    TEXT,
    TOPIC,
    Scene,
    configured,
    scene,
    soon,
    told_by,
)
from tests.support.zulip.servers import BOT, CHANNEL, zulip_of

# --- notices ----------------------------------------------------------------------------------------------------------


async def test_a_notice_names_host_place_deadline_and_where_to_decide_without_any_text(
    tmp_path: Path,
) -> None:
    """The readers of the channel and of the pages are two groups of people (ADR 38)."""
    async with scene(tmp_path) as here:
        proposal_id = await here.propose("SECRET plan")
        proposal = await here.person.proposal(proposal_id)
        (notice,) = await here.told()
        assert f"`{proposal_id}`" in notice
        assert f"requested by: `{proposal.principal}`; level 3 is needed, 2 is held" in notice
        assert f"call: `kb_merge` for `{PAGE}`" in notice
        assert f"<time:{proposal.expires_at.isoformat(timespec='seconds')}>" in notice
        assert "* review it: `knowledge-forge review` on the server's machine\n" in notice
        assert "http" not in notice
        for text in ("SECRET", "canary", "Deploying", "payment"):
            assert text not in notice


async def test_several_servers_tell_each_proposal_once(tmp_path: Path) -> None:
    """One of the servers, by lease; it also announces proposals of the other's host."""
    async with scene(tmp_path) as here, anyio.create_task_group() as tasks:
        tasks.start_soon(told_by(here.host.app, here.access))
        ids = [await here.propose(f"word {number}", f"notes/{number}.md") for number in range(4)]
        notices = await here.told(4)
        assert [next(one for one in ids if f"`{one}`" in notice) for notice in notices] == ids
        tasks.cancel_scope.cancel()
    assert len(here.notices) == 4


@pytest.mark.external
async def test_a_successor_announces_nothing_twice_and_what_arrived_meanwhile(tmp_path: Path) -> None:
    """The notices are recorded, not kept in a process's memory."""
    async with scene(tmp_path, telling=False) as here:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(told_by(here.person.app, here.access))
            first = await here.propose("one", "notes/1.md")
            await here.told()
            tasks.cancel_scope.cancel()
        second = await here.propose("two", "notes/2.md")
        await here.person.reject(first)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(told_by(here.host.app, here.access))
            await here.told(2)
            await soon(lambda: "**Rejected**" in here.notices[0])
            tasks.cancel_scope.cancel()
        assert [f"`{first}`" in here.notices[0], f"`{second}`" in here.notices[1]] == [True, True]
        assert len(here.notices) == 2


async def test_a_notice_whose_reply_is_lost_is_found_and_not_sent_again(tmp_path: Path) -> None:
    """Nothing in Zulip makes a second message harmless."""
    async with scene(tmp_path) as here:
        here.double.plan = for_requests("POST", MESSAGES, after())
        proposal_id = await here.propose()
        await here.told()
        await here.person.reject(proposal_id)
        await soon(lambda: "**Rejected**" in here.notices[-1])
        assert len(here.notices) == 1
        assert here.double.count("POST", MESSAGES) == 1


async def test_a_notice_says_how_it_ended(tmp_path: Path) -> None:
    """In the same message, so that nobody goes to decide what is already decided."""
    async with scene(tmp_path) as here:
        approved, rejected, expired = [await here.propose(f"{n}", f"notes/{n}.md") for n in range(3)]
        replaced = await here.propose("word")
        await here.told(4)
        taken_back = await here.propose("another word")
        await here.told(5)
        await here.person.approve(approved)
        await here.person.reject(rejected)
        trust, now = here.person.app.base.state.trust, here.person.app.services.now()
        await trust.withdraw(taken_back, (await here.person.proposal(taken_back)).principal, at=now)
        await trust.expire(now=now + timedelta(days=8))
        for number, proposal_id, words in (
            (0, approved, "**Approved and applied**"),
            (1, rejected, "**Rejected**"),
            (2, expired, "**Expired: nobody decided in time**"),
            (3, replaced, "**Replaced by a newer proposal**"),
            (4, taken_back, "**Withdrawn by the caller**"),
        ):
            await here.begins(number, words)
            assert f"`{proposal_id}`" in here.notices[number]
        assert "approved by `ann` on the review page" in here.notices[0]
        assert len(here.notices) == 5


async def test_a_notice_that_can_no_longer_be_edited_gets_an_emoji(tmp_path: Path) -> None:
    """Many organisations allow no edits after ten minutes.

    Source: https://zulip.com/help/restrict-message-editing-and-deletion.
    """
    async with scene(tmp_path) as here:
        proposal_id = await here.propose()
        await here.told()
        here.zulip.world.edit_limit_s = -1.0
        await here.person.reject(proposal_id)
        bot = here.zulip.world.user(BOT).id
        await soon(lambda: (bot, "cross_mark") in here.zulip.world.said[here.last].reactions)
        assert here.notices[0].startswith("**Waiting for approval**")
        assert len(here.notices) == 1


@pytest.mark.external
async def test_an_unreachable_zulip_disturbs_nobody_and_is_notified_later(tmp_path: Path) -> None:
    """The proposal is made all the same."""
    async with scene(tmp_path) as here:
        here.double.plan = lambda _method, _path, _number: status(503)
        proposal_id = await here.propose()
        assert (await here.person.proposal(proposal_id)).state == "pending"
        await soon(lambda: len(here.double.seen) >= 2)
        assert not here.notices
        here.double.plan = lambda _method, _path, _number: None
        await here.told()
        with anyio.fail_after(60):  # the message is seen a moment before its entry is closed
            while await here.person.app.base.state.outbox.open():  # noqa: ASYNC110
                await anyio.sleep(0.01)


@pytest.mark.external
async def test_a_missing_channel_is_no_reason_to_crash(tmp_path: Path) -> None:
    """The channel may be made later."""
    async with scene(tmp_path, telling=False) as here, anyio.create_task_group() as tasks:
        elsewhere = replace(here.access, reviews=("later", TOPIC))
        tasks.start_soon(told_by(here.person.app, elsewhere))
        await here.propose()
        await soon(lambda: here.double.count("GET", "/streams") >= 2)
        here.zulip.world.channel("later", BOT)
        await soon(lambda: len(here.zulip.world.texts("later", TOPIC)) == 1)
        tasks.cancel_scope.cancel()


async def test_a_channel_recreated_under_the_same_name_gets_the_waiting_proposals(tmp_path: Path) -> None:
    async with scene(tmp_path) as here:
        await here.propose("one", "notes/1.md")
        await here.told()
        here.zulip.world.archive(CHANNEL)
        await here.propose("two", "notes/2.md")
        await soon(lambda: here.double.count("GET", "/streams") >= 2)
        here.zulip.world.channel(CHANNEL, BOT)
        assert "notes/2.md" in (await here.told())[0]


async def test_a_deleted_notice_does_not_block_others(tmp_path: Path) -> None:
    async with scene(tmp_path, telling=False) as here:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(told_by(here.person.app, here.access))
            await here.propose("one", "notes/1.md")
            await here.told()
            tasks.cancel_scope.cancel()
        del here.zulip.world.said[here.last]
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(told_by(here.person.app, here.access, replace(QUICK, retry=600.0, longest_retry=600.0)))
            await soon(lambda: here.double.count("GET", "/streams") >= 1)
            await here.propose("two", "notes/2.md")
            assert "notes/2.md" in (await here.told())[0]
            tasks.cancel_scope.cancel()


async def test_without_anything_that_waits_zulip_is_not_contacted(tmp_path: Path) -> None:
    """Nothing is contacted at start."""
    async with scene(tmp_path) as here:
        state = here.person.app.base.state

        async def led() -> bool:
            return await state.lease(LEASE) is not None

        await soon(led)
        await state.publish("doc", ["x"])
        await anyio.sleep(0.1)
        assert here.double.seen == []


# --- reactions --------------------------------------------------------------------------------------------------------


async def test_a_person_on_the_list_approves_by_a_reaction(tmp_path: Path) -> None:
    """Up to level 3; it raises nobody's score (ADR 38)."""
    async with scene(tmp_path) as here:
        proposal_id = await here.propose()
        (notice,) = await here.told()
        assert ":check: approves" in notice
        score = await here.person.score((await here.person.proposal(proposal_id)).principal)
        here.zulip.world.react(HAMLET, here.last, "thumbs_up")
        done = await here.state_of(proposal_id, "executed", "failed")
        assert (done.state, done.error) == ("executed", None)
        assert done.verdict is not None
        assert (done.verdict.by, done.verdict.channel) == ("King Hamlet (hamlet@zulip.com)", "zulip")
        assert "blue-green step" in here.host.text(PAGE)
        assert await here.person.score(done.principal) == score
        await soon(lambda: here.notices[0].startswith("**Approved and applied**"))
        assert "approved by `King Hamlet (hamlet@zulip.com)` by a reaction to this message" in here.notices[0]


async def test_others_decide_nothing(tmp_path: Path) -> None:
    """Neither unlisted people, nor bots, nor deactivated accounts, nor other emoji."""
    listed = (*LISTED, "cordelia@zulip.com", "webhook-bot@zulip.com")
    async with scene(tmp_path, reviewers=listed) as here:
        world = here.zulip.world
        world.deactivate(CORDELIA)
        first = await here.propose("one", "notes/1.md")
        await here.told()
        notice = here.last
        for who in (IAGO, CORDELIA, "Zulip Webhook Bot", BOT):
            world.react(who, notice, "check")
        world.react(HAMLET, notice, "eyes")
        await here.looked_at()
        second = await here.propose("two", "notes/2.md")
        await here.told(2)
        world.react(HAMLET, here.last, "+1")
        await here.state_of(second, "executed")
        assert (await here.person.proposal(first)).state == "pending"


async def test_words_of_others_on_many_notices_cost_one_question_a_look(tmp_path: Path) -> None:
    """An organisation allows a bot only some requests a minute, and hosts need them too."""
    async with scene(tmp_path) as here:
        for number in range(5):
            await here.propose("one", f"notes/{number}.md")
            await here.told(number + 1)
            here.zulip.world.react(IAGO, here.last, "+1")
        await here.looked_at()
        asked, looks = here.double.count("GET", "/api/v1/users"), here.double.count("GET", MESSAGES)
        await here.looked_at()
        assert here.double.count("GET", "/api/v1/users") - asked <= 2 * (here.double.count("GET", MESSAGES) - looks)


@pytest.mark.parametrize(("emoji", "state"), [("approved", "executed"), ("wrong", "rejected")])
async def test_a_word_is_known_by_the_emoji_whatever_name_it_was_clicked_by(
    tmp_path: Path, emoji: str, state: str
) -> None:
    async with scene(tmp_path) as here:
        proposal_id = await here.propose()
        await here.told()
        here.zulip.world.react(HAMLET, here.last, emoji)
        assert (await here.state_of(proposal_id, "executed", "rejected", "failed")).state == state


async def test_a_picture_that_an_organisation_calls_check_is_no_word(tmp_path: Path) -> None:
    async with scene(tmp_path) as here:
        proposal_id = await here.propose()
        await here.told()
        here.zulip.world.own_emoji["check"] = "42"
        here.zulip.world.react(HAMLET, here.last, "check")
        await here.looked_at()
        assert (await here.person.proposal(proposal_id)).state == "pending"
        here.zulip.world.react(HAMLET, here.last, "cross_mark")
        await here.state_of(proposal_id, "rejected")


async def test_a_no_outweighs_a_yes(tmp_path: Path) -> None:
    """If two people differ, one has seen a problem."""
    async with scene(tmp_path, reviewers=(*LISTED, "iago@zulip.com")) as here:
        proposal_id = await here.propose()
        await here.told()
        here.zulip.world.react(IAGO, here.last, "check")
        here.zulip.world.react(HAMLET, here.last, "cross_mark")
        rejected = await here.state_of(proposal_id, "rejected", "approved", "executed", "failed")
        assert rejected.state == "rejected"
        assert rejected.verdict is not None
        assert rejected.verdict.by == "King Hamlet (hamlet@zulip.com)"
        assert here.host.text(PAGE) == TEXT


async def test_a_server_with_a_persons_own_key_cannot_say_yes_to_itself(tmp_path: Path) -> None:
    """Otherwise a host that may react in Zulip would approve its own proposal."""
    async with scene(tmp_path, user=IAGO, reviewers=("iago@zulip.com", *LISTED)) as here:
        first = await here.propose("one", "notes/1.md")
        await here.told()
        here.zulip.world.react(IAGO, here.last, "check")
        second = await here.propose("two", "notes/2.md")
        await here.told(2)
        here.zulip.world.react(HAMLET, here.last, "check")
        await here.state_of(second, "executed")
        # The other reaction was there before, and has been looked at since.
        assert (await here.person.proposal(first)).state == "pending"


@pytest.mark.parametrize("listed", [HAMLET, "28", f"{HAMLET}|28", "king  hamlet"])
async def test_where_addresses_are_hidden_reviewers_are_listed_by_name_or_id(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, listed: str
) -> None:
    """And a listed address that nobody shows is mentioned in the notice and the log."""
    async with scene(tmp_path, telling=False) as here, anyio.create_task_group() as tasks:
        for user in here.zulip.world.users.values():
            user.record["delivery_email"] = None
        access = replace(here.access, reviewers=(*reviewers(listed), "hamlet@zulip.com"))
        tasks.start_soon(told_by(here.person.app, access))
        proposal_id = await here.propose()
        (notice,) = await here.told()
        assert "* 1 listed reviewer cannot decide it here: `knowledge-forge doctor` says why" in notice
        hidden = (
            "nobody that the bot sees has the address hamlet@zulip.com; where Zulip hides addresses from bots, list the"
        )
        assert hidden in caplog.text
        outbox = here.person.app.base.state.outbox
        assert await powerless_reviewers(outbox, proposal_id) == ("hamlet@zulip.com",)
        here.zulip.world.react(HAMLET, here.last, "check")
        done = await here.state_of(proposal_id, "executed")
        assert done.verdict is not None
        assert done.verdict.by == f"{HAMLET} ({here.zulip.world.user(HAMLET).email})"
        tasks.cancel_scope.cancel()


async def test_a_notice_links_to_the_pages_public_address(tmp_path: Path) -> None:
    async with scene(tmp_path, telling=False) as here, anyio.create_task_group() as tasks:
        access = replace(here.access, review_page="https://forge.example.com")
        tasks.start_soon(told_by(here.person.app, access))
        proposal_id = await here.propose()
        (notice,) = await here.told()
        link = f"https://forge.example.com/proposals/{proposal_id}"
        assert f"* review it: {link}, or `knowledge-forge review` on the server's machine" in notice
        tasks.cancel_scope.cancel()


async def test_a_rejection_by_a_reaction_counts_at_every_level(tmp_path: Path) -> None:
    """It only takes something away; an approval of such an act needs the review page, also after one was tried here."""
    async with scene(tmp_path) as here:
        sent = await here.host.call("zulip_send_message", channel=CHANNEL, topic="x", text="HELLO there")
        high = str(sent["proposal"]["id"])
        (notice,) = await here.told()
        assert "* reviewers may also reject it here by :cross_mark:; a reaction cannot approve it" in notice
        here.zulip.world.react(HAMLET, here.last, "check")
        await soon(lambda: "a reaction did not decide it: `" in here.notices[0])
        assert "it is decided on the review page" in here.notices[0]
        assert (await here.person.proposal(high)).state == "pending"
        here.zulip.world.react(HAMLET, here.last, "cross_mark")
        rejected = await here.state_of(high, "rejected")
        assert rejected.verdict is not None
        assert (rejected.verdict.by, rejected.verdict.channel) == ("King Hamlet (hamlet@zulip.com)", "zulip")
        await here.begins(0, "**Rejected**")


async def test_level_4_acts_wait_for_another_decision(tmp_path: Path) -> None:
    """It is announced, and an approving reaction to it doesn't count."""
    async with scene(tmp_path) as here:
        sent = await here.host.call("zulip_send_message", channel=CHANNEL, topic="x", text="HELLO there")
        high = str(sent["proposal"]["id"])
        (notice,) = await here.told()
        assert ":check: approves" not in notice
        assert f"call: `zulip_send_message` for `zulip:{CHANNEL}`" in notice
        assert "HELLO" not in notice
        here.zulip.world.react(HAMLET, here.last, "check")
        low = await here.propose()
        await here.told(2)
        here.zulip.world.react(HAMLET, here.last, "check")
        await here.state_of(low, "executed")
        assert (await here.person.proposal(high)).state == "pending"


async def test_a_reaction_to_a_copy_of_a_notice_decides_nothing(tmp_path: Path) -> None:
    """Only the recorded message counts, whatever another one says."""
    async with scene(tmp_path) as here:
        first = await here.propose("one", "notes/1.md")
        (notice,) = await here.told()
        copy = here.zulip.world.say(BOT, CHANNEL, TOPIC, notice)
        here.zulip.world.react(HAMLET, copy, "check")
        here.zulip.world.said[copy - 1].text = "**Waiting for approval**: something harmless"
        here.zulip.world.react(HAMLET, copy - 1, "check")
        second = await here.propose("two", "notes/2.md")
        await here.told(3)
        here.zulip.world.react(HAMLET, here.last, "check")
        await here.state_of(second, "executed")
        assert (await here.person.proposal(first)).state == "pending"


async def test_a_word_that_does_not_count_is_answered_in_the_notice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing is executed for a caller that was frozen meanwhile, and the person who approved learns why."""
    async with scene(tmp_path) as here:
        proposal_id = await here.propose()
        await here.told()
        principal = (await here.person.proposal(proposal_id)).principal
        tried: list[str] = []
        approve = here.person.app.approvals.approve

        async def counted(proposal_id: str, shown_hash: str, person: Approver, note: str = "") -> Proposal:
            tried.append(proposal_id)
            return await approve(proposal_id, shown_hash, person, note)

        monkeypatch.setattr(here.person.app.approvals, "approve", counted)
        await here.person.app.approvals.freeze(principal, Approver("ann", "page"), "looked odd")
        here.zulip.world.react(HAMLET, here.last, "check")
        await soon(lambda: "a reaction did not decide it" in here.notices[0])
        assert "is frozen" in here.notices[0]
        # It may be read and then also come as an event, which makes one more.
        await here.looked_at()
        times = len(tried)
        assert times in (1, 2)
        await here.looked_at()
        assert len(tried) == times
        assert (await here.person.proposal(proposal_id)).state == "pending"


async def test_reactions_are_received_again_after_zulip_forgot_the_queue(tmp_path: Path) -> None:
    """Register again, and process what happened meanwhile. Source: events_bad_queue_400.json."""
    async with scene(tmp_path, look_s=60.0) as here:
        proposal_id = await here.propose()
        await here.told()
        await soon(lambda: here.double.count("GET", "/events") >= 1)
        here.zulip.world.forget_queues()
        here.zulip.world.react(HAMLET, here.last, "check")
        await here.state_of(proposal_id, "executed")
        assert here.double.count("POST", "/register") >= 2


@pytest.mark.external
async def test_a_bot_that_is_not_subscribed_looks_for_reactions(tmp_path: Path) -> None:
    """The process gets no event for it."""
    async with scene(tmp_path) as here:
        room = here.zulip.world.room(CHANNEL)
        room.members.clear()
        here.zulip.world.user(BOT).subscribed.discard(room.id)
        proposal_id = await here.propose()
        await here.told()
        here.zulip.world.react(HAMLET, here.last, "check")
        await here.state_of(proposal_id, "executed")


async def test_without_a_list_reactions_are_not_even_listened_to(tmp_path: Path) -> None:
    """As installed, a reaction decides nothing."""
    async with scene(tmp_path, reviewers=()) as here:
        first = await here.propose("one", "notes/1.md")
        (notice,) = await here.told()
        assert "react" not in notice
        here.zulip.world.react(HAMLET, here.last, "check")
        await here.propose("two", "notes/2.md")
        await here.told(2)
        assert here.double.count("POST", "/register") == 0
        assert (await here.person.proposal(first)).state == "pending"


# --- crashes ----------------------------------------------------------------------------------------------------------

CHILD = """
import sys, anyio
from pathlib import Path
from dataclasses import replace
from mcp_server.app.composition import open_app
from mcp_server.app.settings.settings import Settings
from mcp_server.approvals.zulip.notices import Pace, run

async def main(kb, state, site, email, key):
    settings = Settings(kb=Path(kb), state_dir=Path(state), zulip_site=site, zulip_email=email, zulip_api_key=key)
    access = replace(settings.zulip, reviews=("kb-test", "reviews"), reviewers=("hamlet@zulip.com",))
    async with open_app(settings, indexing=False) as app:
        await run(app.services, app.approvals, access, pace=Pace(start=0, lease=1, renew=0.1, ask=0.02, retry=0.02))

anyio.run(main, *sys.argv[1:])
"""


@asynccontextmanager
async def killed_at(
    here: Scene, root: Path, moment: Callable[[str, str, int], bool], fault: Fault
) -> AsyncIterator[None]:
    """Run a server that announces, and kill it when Zulip has a request of that stage; yield once it is dead."""
    settings = configured(root, here.double.address, BOT, here.zulip)
    words = (settings.kb, settings.state_dir, settings.zulip_site, settings.zulip_email, settings.zulip_api_key)
    killed: list[int] = []

    def kill(method: str, path: str, number: int) -> Fault | None:
        if killed or not moment(method, path, number):
            return None
        killed.append(child.pid)
        os.kill(child.pid, signal.SIGKILL)
        return fault

    here.double.plan = kill
    child = subprocess.Popen([sys.executable, "-c", CHILD, *map(str, words)])  # noqa: ASYNC220 - it ends when it is killed
    try:
        await soon(lambda: child.poll() is not None)
        assert killed
        yield
    finally:
        child.kill()
        child.wait()


@pytest.mark.external
async def test_a_server_that_is_killed_over_a_notice_leaves_one_message(tmp_path: Path) -> None:
    """Killed when Zulip has the message and it is not yet recorded; the next server finds it."""
    async with scene(tmp_path, telling=False) as here:
        proposal_id = await here.propose()
        async with (
            killed_at(here, tmp_path, lambda *asked: asked[:2] == ("POST", MESSAGES), after()),
            anyio.create_task_group() as tasks,
        ):
            tasks.start_soon(told_by(here.person.app, here.access))
            here.zulip.world.react(HAMLET, here.last, "check")
            await here.state_of(proposal_id, "executed")
            tasks.cancel_scope.cancel()
        assert len(here.notices) == 1
        assert here.double.count("POST", MESSAGES) == 1


@pytest.mark.external
@pytest.mark.parametrize("fault", [before(), after()], ids=["before", "after"])
@pytest.mark.parametrize("number", [1, 4, *(pytest.param(n, marks=pytest.mark.slow) for n in (2, 3, 5, 6, 7, 8, 9))])
async def test_whenever_a_server_is_killed_there_is_one_notice_in_the_end(
    tmp_path: Path, number: int, fault: Fault
) -> None:
    """At each of its requests, whether or not Zulip acted on it."""
    async with scene(tmp_path, telling=False) as here:
        proposal_id = await here.propose()
        async with killed_at(here, tmp_path, lambda *asked: asked[2] == number, fault):
            base = here.person.app.base
            # If a message is not there when the next server looks, it counts as never sent: this Zulip delays nothing.
            dispatcher = OutboxDispatcher(
                base.state.outbox, base.outbox_locks, now=utc_now, sleep=_at_once, longest_in_flight=timedelta(0)
            )
            app = replace(
                here.person.app, services=replace(here.person.app.services, load_dispatcher=lambda: dispatcher)
            )
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(told_by(app, here.access))
                await here.told()
                await here.person.reject(proposal_id)
                await here.begins(0, "**Rejected**")
                tasks.cancel_scope.cancel()
        assert len(here.notices) == 1


async def test_a_notice_names_the_hosts_that_join_and_a_reaction_decides_for_all(tmp_path: Path) -> None:
    page, claim = "limits.md", "The timeout is 90 seconds.\n"
    async with (
        scene(tmp_path) as here,
        writing(configured(tmp_path, here.double.address, BOT, here.zulip), host="other", level=2) as other,
    ):
        write(here.host.root, {page: "# Limits\n\nThe timeout is 30 seconds.\n"})
        ids = set()
        for host, source in ((here.host, "plane:KB-1"), (other, "wiki:SECRET")):
            base = await host.revision(page)
            answer = await host.merge(page, claim, source=source, base_revision=base)
            ids.add(answer["proposal"]["id"])
            await here.told()
        (proposal_id,) = ids
        # The last notice: the registration of the second host may have been announced before.
        await soon(lambda: "also requested by" in here.notices[-1])
        assert "@other`, <time:" in here.notices[-1]
        assert "SECRET" not in here.notices[-1]
        here.zulip.world.react(HAMLET, here.last, "check")
        await here.state_of(proposal_id, "executed")
        await here.begins(-1, "**Approved and applied**")
        told = (await other.call("proposal_status", proposal_id=proposal_id))["proposal"]
        assert (told["state"], told["decision"]["channel"]) == ("executed", "zulip")


@pytest.mark.external
async def test_a_server_configured_to_announce_does_so_automatically(tmp_path: Path) -> None:
    """Nobody has to start anything."""
    zulip = zulip_of("double-newer")
    async with served(zulip) as double:
        settings = replace(
            configured(tmp_path, double.address, BOT, zulip), zulip_reviews=(CHANNEL, TOPIC), zulip_reviewers=LISTED
        )
        async with writing(settings, level=2) as host, reviewing(settings) as person:
            known = settings.zulip
            assert known is not None
            here = Scene(host, person, zulip, double, known)
            proposal_id = await here.propose()
            await here.told()
            zulip.world.react(HAMLET, here.last, "check")
            await here.state_of(proposal_id, "executed")
            await here.begins(0, "**Approved and applied**")
            assert len(here.notices) == 1


async def _at_once(_seconds: float) -> None:
    await anyio.lowlevel.checkpoint()
