"""Attacks on approval by reaction.

A moved, edited or forged card, an old approval, a borrowed address, an emoji named check.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import anyio
import pytest

from mcp_server.app.composition import App, open_app
from mcp_server.app.settings.values import reviewers as listed
from mcp_server.approvals.approvers import Approver
from mcp_server.gate.trust.scores import thaw
from tests.doubles.serving import served
from tests.support.zulip.hosts import chatting
from tests.support.zulip.reviews import (
    HAMLET,
    IAGO,
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

OTHER = "lunch"
ELSEWHERE = "https://forge.example.com"


@asynccontextmanager
async def serving(
    here: Scene, *reviewers: str, app: App | None = None, look_s: float = 0.05, page: str | None = None
) -> AsyncIterator[None]:
    """Run a process that posts cards and weighs reactions, as one that has just started does.

    These addresses decide. `page` is the review page's public address, to which cards link.
    """
    access = replace(here.access, reviewers=reviewers or here.access.reviewers, review_page=page)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(told_by(app or here.person.app, access, replace(QUICK, look=look_s)))
        yield
        tasks.cancel_scope.cancel()


async def an_honest_yes_counts(here: Scene, who: str = HAMLET, topic: str = TOPIC) -> None:
    """Propose something else and approve it by a reaction: anything earlier has been processed by then."""
    cards = len(here.zulip.world.texts(CHANNEL, topic))
    proposal_id = await here.propose("rolling step", f"notes/honest-{cards}.md")
    await soon(lambda: len(here.zulip.world.texts(CHANNEL, topic)) > cards)
    await here.looked_at()
    here.zulip.world.react(who, here.last, "check")
    await here.state_of(proposal_id, "executed")


async def is_pending(here: Scene, proposal_id: str) -> bool:
    return (await here.person.proposal(proposal_id)).state == "pending"


# --- the card ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [pytest.param("double-247", marks=pytest.mark.external), "double-newer"])
@pytest.mark.parametrize("where", ["another topic", "another channel", "there and back"])
async def test_a_reaction_to_a_card_that_was_moved_decides_nothing(tmp_path: Path, where: str, kind: str) -> None:
    """Members may move messages by default: among messages about lunch a tick means something else."""
    async with scene(tmp_path, kind=kind) as here:
        world = here.zulip.world
        world.channel("social events", BOT, HAMLET)
        proposal_id = await here.propose()
        await here.told()
        card = here.last
        if where == "another channel":
            world.move(card, channel="social events", topic=OTHER)
        else:
            world.move(card, topic=OTHER)
        if where == "there and back":
            world.move(card, topic=TOPIC)
        world.react(HAMLET, card, "check")
        await an_honest_yes_counts(here)
        assert await is_pending(here, proposal_id)
        await soon(lambda: "no longer decide" in world.said[card].text)
        assert here.host.text(PAGE) == TEXT


@pytest.mark.parametrize("kind", ["double-247", "double-newer"])
async def test_a_card_in_a_topic_that_was_resolved_says_whether_it_still_decides(tmp_path: Path, kind: str) -> None:
    """Zulip resolves a topic by renaming it.

    Newer servers distinguish that from a move; older ones don't, so there it counts as one.
    """
    async with scene(tmp_path, kind=kind) as here:
        world = here.zulip.world
        proposal_id = await here.propose()
        await here.told()
        card = here.last
        world.move(card, topic=f"✔ {TOPIC}")
        world.react(HAMLET, card, "check")
        if kind == "double-newer":
            await here.state_of(proposal_id, "executed")
        else:
            await soon(lambda: "no longer decide" in world.said[card].text)
            assert await is_pending(here, proposal_id)


@pytest.mark.parametrize("restored", [False, True], ids=["edited", "edited and put back"])
async def test_a_reaction_to_a_card_that_someone_edited_decides_nothing(tmp_path: Path, *, restored: bool) -> None:
    """Another program with the bot's key can edit it.

    Then people reacted to text that we did not post, whatever the card shows later.
    """
    async with scene(tmp_path) as here:
        world = here.zulip.world
        proposal_id = await here.propose()
        (text,) = await here.told()
        card = here.last
        await here.looked_at()
        with_key = world.user(BOT)
        world.edited(with_key, world.said[card], "Who comes to lunch? :check: yes, :cross_mark: no")
        if restored:
            world.edited(with_key, world.said[card], text)
        world.react(HAMLET, card, "check")
        await an_honest_yes_counts(here)
        assert await is_pending(here, proposal_id)
        await soon(lambda: "no longer decide" in world.said[card].text)


async def test_a_reaction_to_an_edited_card_does_not_count_once_the_server_writes_it_again(tmp_path: Path) -> None:
    """Measured: after a restart the address of the review page differed, the card got its text back, and the reaction decided."""
    async with scene(tmp_path, telling=False) as here:
        world = here.zulip.world
        proposal_id = await here.propose()
        async with serving(here):
            await here.told()
        card = here.last
        world.edited(world.user(BOT), world.said[card], "Who comes to lunch? :check: yes, :cross_mark: no")
        world.react(HAMLET, card, "check")

        async with serving(here, page=ELSEWHERE):
            await soon(lambda: ELSEWHERE in world.said[card].text)
            await an_honest_yes_counts(here)
            assert await is_pending(here, proposal_id)


async def test_a_card_whose_edit_was_interrupted_still_decides(tmp_path: Path) -> None:
    """Killed between Zulip's edit and our record of it: the text is the one that we recorded before the edit, so it is ours."""
    async with scene(tmp_path, telling=False) as here:
        world = here.zulip.world
        proposal_id = await here.propose()
        async with serving(here):
            await here.told()
        outbox = here.person.app.base.state.outbox
        mark = outbox.mark

        with pytest.MonkeyPatch.context() as patch:

            async def killed(entry_id: str, marks: dict[str, str]) -> None:
                if ELSEWHERE in world.said[here.last].text:
                    await anyio.sleep_forever()
                await mark(entry_id, marks)

            patch.setattr(outbox, "mark", killed)
            async with serving(here, page=ELSEWHERE):
                await soon(lambda: ELSEWHERE in world.said[here.last].text)
        world.react(HAMLET, here.last, "check")
        async with serving(here, page=ELSEWHERE):
            await here.state_of(proposal_id, "executed")


@pytest.mark.parametrize("by", [IAGO, BOT], ids=["somebody", "the bot itself"])
@pytest.mark.parametrize("form", ["copy", "quote", "forged"])
async def test_a_reaction_to_a_fake_card_decides_nothing(tmp_path: Path, by: str, form: str) -> None:
    async with scene(tmp_path) as here:
        world = here.zulip.world
        proposal_id = await here.propose()
        (card,) = await here.told()
        text = {
            "copy": card,
            "quote": f"@_**Zulip Default Bot|28** said:\n```quote\n{card}\n```",
            "forged": f"**Waiting for approval** (`{proposal_id}`)\n* call: `kb_merge` for `lunch.md`",
        }[form]
        forged = world.say(by, CHANNEL, TOPIC, text)
        world.react(HAMLET, forged, "check")
        await here.looked_at()
        assert await is_pending(here, proposal_id)
        world.react(HAMLET, forged - 1, "check")
        await here.state_of(proposal_id, "executed")


async def test_a_card_that_was_deleted_decides_nothing_and_the_proposal_still_waits(tmp_path: Path) -> None:
    async with scene(tmp_path) as here:
        proposal_id = await here.propose()
        await here.told()
        here.zulip.world.react(IAGO, here.last, "check")
        del here.zulip.world.said[here.last]
        second = await here.propose("one", "notes/1.md")
        await here.told()
        here.zulip.world.react(HAMLET, here.last, "check")
        await here.state_of(second, "executed")
        assert await is_pending(here, proposal_id)


async def test_the_card_of_one_organisation_is_no_message_of_another(tmp_path: Path) -> None:
    """Another server numbers messages and users from the start.

    After ZULIP_SITE was changed, an unrelated message was overwritten.
    """
    async with scene(tmp_path, telling=False) as here:
        proposal_id = await here.propose()
        async with serving(here):
            await here.told()
        card = here.last
        other = zulip_of("double-newer", heartbeat_s=0.5)
        while (said := other.world.say(BOT, CHANNEL, OTHER, "Lunch is at noon")) < card:
            pass
        assert said == card
        other.world.react(HAMLET, card, "check")
        async with served(other) as double:
            settings = replace(
                configured(tmp_path, double.address, BOT, other),
                zulip_reviews=(CHANNEL, TOPIC),
                zulip_reviewers=("x@y",),
            )
            async with open_app(settings, indexing=False, announcing=False) as app:
                known = settings.zulip
                assert known is not None
                async with anyio.create_task_group() as tasks:
                    tasks.start_soon(told_by(app, replace(known, reviewers=here.access.reviewers)))
                    await soon(lambda: len(other.world.texts(CHANNEL, TOPIC)) == 1)
                    assert other.world.said[card].text == "Lunch is at noon"
                    assert await is_pending(here, proposal_id)
                    mine = max(other.world.said)
                    other.world.react(HAMLET, mine, "check")
                    await here.state_of(proposal_id, "executed")
                    tasks.cancel_scope.cancel()
        assert other.world.said[card].text == "Lunch is at noon"


# --- old reactions ----------------------------------------------------------------------------------------------------


async def refused_yes(here: Scene) -> tuple[str, str]:
    """Have a reviewer approve while the host is frozen; return the proposal and its principal, unfrozen again."""
    proposal_id = await here.propose()
    await here.told()
    principal = (await here.person.proposal(proposal_id)).principal
    await here.person.app.approvals.freeze(principal, Approver("ann", "page"), "looked odd")
    here.zulip.world.react(HAMLET, here.last, "check")
    await soon(lambda: "a reaction did not decide it" in here.notices[0])
    await thaw(here.person.app.base.state, principal, by="ann", now=here.person.app.services.now())
    return proposal_id, principal


async def test_a_yes_that_did_not_count_does_not_count_after_a_restart(tmp_path: Path) -> None:
    """Measured: the next process executed it, days after the card had said that it decided nothing."""
    async with scene(tmp_path, telling=False) as here:
        async with serving(here):
            proposal_id, _ = await refused_yes(here)
            card = here.last
            await here.looked_at()
        async with serving(here):
            await an_honest_yes_counts(here)
            assert await is_pending(here, proposal_id)
            here.zulip.world.unreact(HAMLET, card, "check")
            await here.looked_at()
            here.zulip.world.react(HAMLET, card, "check")
            await here.state_of(proposal_id, "executed")


async def test_an_approval_that_did_not_count_is_not_raised_by_someone_elses_reaction(tmp_path: Path) -> None:
    """Measured: any reaction by anyone had all reactions on the card weighed again."""
    async with scene(tmp_path) as here:
        proposal_id, _ = await refused_yes(here)
        here.zulip.world.react(IAGO, here.last, "+1")
        await an_honest_yes_counts(here)
        assert await is_pending(here, proposal_id)


async def test_removing_and_repeating_an_approval_counts_immediately(tmp_path: Path) -> None:
    """They arrive as two events, with no look between them."""
    async with scene(tmp_path, look_s=60.0) as here:
        proposal_id, _ = await refused_yes(here)
        here.zulip.world.unreact(HAMLET, here.last, "check")
        here.zulip.world.react(HAMLET, here.last, "check")
        await here.state_of(proposal_id, "executed")


async def test_a_replayed_old_event_changes_nothing(tmp_path: Path) -> None:
    """An event only says where to look: a reaction no longer on the card doesn't count."""
    async with scene(tmp_path) as here:
        world = here.zulip.world
        first = await here.propose()
        await here.told()
        card = here.last
        await soon(lambda: any("reaction" in queue.kinds for queue in world.queues.values()))
        event = {"type": "reaction", "op": "add", "message_id": card}
        told = event | world.reaction_of(world.user(HAMLET).id, "check", event=True)
        for queue in list(world.queues.values()):
            for _ in range(3):
                queue.push(told)
        await an_honest_yes_counts(here)
        assert await is_pending(here, first)


async def test_a_reaction_from_before_its_author_was_on_the_list_decides_nothing(tmp_path: Path) -> None:
    """Measured: without a list a thumb meant "seen"; once ZULIP_REVIEWERS was set, each of them approved its proposal."""
    async with scene(tmp_path, telling=False, reviewers=()) as here:
        world = here.zulip.world
        async with serving(here):
            proposal_id = await here.propose()
            await here.told()
            card = here.last
            world.react(HAMLET, card, "+1")
        async with serving(here, "hamlet@zulip.com"):
            await soon(lambda: ":check: approves" in world.said[card].text)
            await an_honest_yes_counts(here)
            assert await is_pending(here, proposal_id)
            world.react(IAGO, card, "check")
        async with serving(here, "hamlet@zulip.com", "iago@zulip.com"):
            await an_honest_yes_counts(here, IAGO)
            assert await is_pending(here, proposal_id)
            world.unreact(IAGO, card, "check")
            await here.looked_at()
            world.react(IAGO, card, "check")
            await here.state_of(proposal_id, "executed")


async def test_a_reviewer_removed_while_no_process_ran_decides_nothing(tmp_path: Path) -> None:
    async with scene(tmp_path, telling=False) as here:
        async with serving(here):
            proposal_id = await here.propose()
            await here.told()
        here.zulip.world.react(HAMLET, here.last, "check")
        async with serving(here, "iago@zulip.com"):
            await an_honest_yes_counts(here, IAGO)
            assert await is_pending(here, proposal_id)


async def test_a_reaction_while_no_process_ran_has_decided(tmp_path: Path) -> None:
    """The other side of the same rule: people listed when the card was posted need not react twice."""
    async with scene(tmp_path, telling=False) as here:
        async with serving(here):
            proposal_id = await here.propose()
            await here.told()
        here.zulip.world.react(HAMLET, here.last, "check")
        async with serving(here):
            await here.state_of(proposal_id, "executed")


async def test_approving_a_replaced_expired_or_changed_proposal_writes_nothing(tmp_path: Path) -> None:
    async with scene(tmp_path, telling=False) as here:
        world, trust = here.zulip.world, here.person.app.base.state.trust
        async with serving(here):
            replaced = await here.propose("word")
            await here.told()
            old = here.last
            stale = await here.propose("one", "notes/stale.md")
            await here.told(2)
            late = here.last
        newer = await here.propose("another word")
        world.react(HAMLET, old, "check")
        (here.host.root / "notes").mkdir(exist_ok=True)
        (here.host.root / "notes/stale.md").write_text("# Somebody else was faster\n", encoding="utf-8")
        world.react(HAMLET, late, "check")
        async with serving(here):
            assert (await here.state_of(stale, "superseded", "failed", "executed")).state != "executed"
            assert (await here.state_of(replaced, "superseded")).verdict is None
            await an_honest_yes_counts(here)
            assert await is_pending(here, newer)
            expired = await here.propose("three", "notes/expired.md")
            await soon(lambda: any(expired in text for text in here.notices))
            await trust.expire(now=here.person.app.services.now() + timedelta(days=8))
            world.react(HAMLET, here.last, "check")
            await soon(lambda: here.notices[-1].startswith("**Expired: nobody decided in time**"))
            assert (await here.person.proposal(expired)).state == "expired"
        assert here.host.text(PAGE) == TEXT
        assert here.host.text("notes/stale.md") == "# Somebody else was faster\n"
        assert not (here.host.root / "notes/expired.md").exists()


# --- accounts and reactions -------------------------------------------------------------------------------------------


async def test_an_address_that_two_accounts_bear_decides_for_neither(tmp_path: Path) -> None:
    """If addresses are hidden, Zulip shows an invented one, and another account may really have it."""
    async with scene(tmp_path, reviewers=("user10@zulip.example", "iago@zulip.com")) as here:
        world = here.zulip.world
        world.user(HAMLET).record |= {"email": "user10@zulip.example", "delivery_email": None}
        imposter = world.person("Eve", "eve@zulip.com")
        imposter.record |= {"email": "user99@zulip.example", "delivery_email": "user10@zulip.example"}
        proposal_id = await here.propose()
        await here.told()
        world.react("Eve", here.last, "check")
        world.react(HAMLET, here.last, "+1")
        await an_honest_yes_counts(here, IAGO)
        assert await is_pending(here, proposal_id)


async def test_an_address_that_differs_only_in_case_is_another_address(tmp_path: Path) -> None:
    """The Kelvin sign lower-cases to k, and Zulip's check of addresses accepts it. Source: CVE-2019-19844."""
    async with scene(tmp_path, reviewers=listed("Karl@zulip.com, iago@zulip.com")) as here:
        world = here.zulip.world
        world.person("Karl", "\N{KELVIN SIGN}arl@zulip.com")
        world.person("karl@zulip.com", "eve@zulip.com")
        proposal_id = await here.propose()
        await here.told()
        world.react("Karl", here.last, "check")
        world.react("karl@zulip.com", here.last, "+1")
        await an_honest_yes_counts(here, IAGO)
        assert await is_pending(here, proposal_id)


async def test_a_name_or_id_that_two_accounts_have_decides_for_neither(tmp_path: Path) -> None:
    """Any account may take another's name, and even be called like another's id or address."""
    async with scene(tmp_path, reviewers=listed(f"{HAMLET}, 28|29, iago@zulip.com, 26")) as here:
        world = here.zulip.world
        twins = (HAMLET, HAMLET.upper(), "26", "iago@zulip.com", f"{HAMLET}|26")
        for number, name in enumerate(twins[1:]):
            world.person(name, f"eve{number}@zulip.com")
        proposal_id = await here.propose()
        (notice,) = await here.told()
        assert "* 2 listed reviewers cannot decide it here: `knowledge-forge doctor` says why" in notice
        for name in twins:
            world.react(name, here.last, "check")
        await an_honest_yes_counts(here, IAGO)
        assert await is_pending(here, proposal_id)


async def test_an_account_that_took_the_name_of_a_reviewer_and_one_that_changed_its_address_decide_nothing(
    tmp_path: Path,
) -> None:
    async with scene(tmp_path, reviewers=("hamlet@zulip.com", "iago@zulip.com")) as here:
        world = here.zulip.world
        world.person(HAMLET, "eve@zulip.com")
        twin = max(world.users)
        proposal_id = await here.propose()
        await here.told()
        world.reacted(world.users[twin], world.said[here.last], "check")
        first = next(user for user in world.users.values() if user.name == HAMLET)
        first.record |= {"email": "hamlet@new.example", "delivery_email": "hamlet@new.example"}
        world.reacted(first, world.said[here.last], "+1")
        await an_honest_yes_counts(here, IAGO)
        assert await is_pending(here, proposal_id)


@pytest.mark.parametrize(
    "told",
    [
        {"emoji_name": "check", "emoji_code": "2705", "reaction_type": "realm_emoji"},
        {"emoji_name": "check", "emoji_code": "2705", "reaction_type": "zulip_extra_emoji"},
        {"emoji_name": "check", "emoji_code": "2705"},
        {"emoji_name": "check", "emoji_code": "1f419", "reaction_type": "unicode_emoji"},
        {"emoji_name": "+1", "emoji_code": "1f44d-1f3fb", "reaction_type": "unicode_emoji"},
        {"emoji_name": "+1", "emoji_code": " 1f44d", "reaction_type": "unicode_emoji"},
        {"emoji_name": "check", "emoji_code": ["2705"], "reaction_type": "unicode_emoji"},
    ],
    ids=lambda told: " ".join(map(str, told.values())),
)
async def test_an_emoji_that_is_not_the_very_one_decides_nothing(
    tmp_path: Path, told: dict[str, object], monkeypatch: pytest.MonkeyPatch
) -> None:
    """An organisation's own emoji of that name or number, the name without the code point, a skin tone."""
    async with scene(tmp_path) as here:
        world = here.zulip.world
        proposal_id = await here.propose()
        await here.told()
        card, shown = here.last, world.reaction_of
        odd = {**told, "user_id": world.user(HAMLET).id}
        monkeypatch.setattr(
            world, "reaction_of", lambda user, emoji, **more: odd if emoji == "octopus" else shown(user, emoji, **more)
        )
        world.react(HAMLET, card, "octopus")
        await an_honest_yes_counts(here)
        assert await is_pending(here, proposal_id)


# --- a flood, and a service that does not behave ----------------------------------------------------------------------


async def until_quiet(here: Scene) -> None:
    """Return once the server has asked nothing for a while."""
    before, quiet = len(here.double.seen), 0
    while quiet < 5:
        await anyio.sleep(0.1)
        now = len(here.double.seen)
        quiet = quiet + 1 if now == before else 0
        before = now


async def test_reactions_of_strangers_cost_no_questions(tmp_path: Path) -> None:
    """A bot may make 200 requests a minute. Measured: each reaction by anyone cost three of them."""
    async with scene(tmp_path, look_s=60.0) as here:
        world = here.zulip.world
        await here.propose()
        await here.told()
        world.react(IAGO, here.last, "+1")
        await soon(lambda: here.double.count("GET", "/events") >= 1 and here.double.count("GET", "/users") >= 1)
        await until_quiet(here)
        asked, listened = len(here.double.seen), here.double.count("GET", "/events")
        for _ in range(10):
            world.react(IAGO, here.last, "check")
            await anyio.sleep(0.02)
            world.unreact(IAGO, here.last, "check")
            await anyio.sleep(0.02)
        more = len(here.double.seen) - asked - (here.double.count("GET", "/events") - listened)
        assert more == 0
        assert len(here.notices) == 1


@pytest.mark.parametrize("misbehaving", ["answers at once", "forgets every queue"])
async def test_a_service_that_never_makes_us_wait_is_polled_at_our_pace(tmp_path: Path, misbehaving: str) -> None:
    calm = replace(QUICK, look=60.0, rest=0.5, retry=0.5, longest_retry=2.0)
    """Measured: a server that answered each poll at once, or forgot each queue, got hundreds of requests a second."""
    async with scene(tmp_path, pace=calm) as here:
        world = here.zulip.world
        here.zulip.heartbeat_s = 0.0
        await here.propose()
        await here.told()
        if misbehaving == "forgets every queue":
            monkey = world.queue

            def forgotten(*args: object, **more: object) -> object:
                made = monkey(*args, **more)  # type: ignore[arg-type]  # handed on as it came
                world.queues.pop(made.id)
                return made

            world.queue = forgotten  # type: ignore[method-assign, assignment]  # a server that is out of memory
            world.forget_queues()
        await soon(lambda: here.double.count("GET", "/events") >= 1)
        asked, began = len(here.double.seen), anyio.current_time()
        await anyio.sleep(1.0)
        assert len(here.double.seen) - asked <= 24 * (anyio.current_time() - began)


# --- messages in the server's name ------------------------------------------------------------------------------------


@pytest.mark.parametrize("topic", [TOPIC, TOPIC.upper(), f"✔ {TOPIC}"])
async def test_a_host_that_writes_among_the_cards_needs_the_highest_level(tmp_path: Path, topic: str) -> None:
    """The bot's name there is the server's. Measured: a host of level 4 posted its own card, and ticked real ones."""
    async with chatting(tmp_path, level=4, zulip_reviews=("Team", TOPIC)) as here:
        forged = "**Approved and applied** (`p-1`)\n* call: `kb_merge` for `lunch.md`"
        sent = await here.call("zulip_send_message", channel="team", topic=topic, text=forged)
        assert (sent["status"], sent["proposal"]["level_needed"]) == ("proposed", 5)
        card = here.said("a card", channel="team", topic=topic, by=BOT)
        ticked = await here.call("zulip_react", message_id=card, emoji="check")
        assert (ticked["status"], ticked["proposal"]["level_needed"]) == ("proposed", 5)
        assert here.sent == 0
        elsewhere = await here.call("zulip_send_message", channel="team", topic="lunch", text="At noon")
        assert elsewhere["status"] == "done"
        read = await here.call("zulip_read_messages", channel="team", topic=here.world.said[card].topic)
        assert [message["text"] for message in read["messages"]] == ["a card"]


async def test_an_approval_for_one_level_does_not_execute_an_act_that_now_needs_a_higher_one(tmp_path: Path) -> None:
    """The same message, approved at level 4 before the topic became the one for reviews."""
    async with chatting(tmp_path, level=2) as here:
        sent = await here.call("zulip_send_message", channel="team", topic=TOPIC, text="At noon")
        assert sent["proposal"]["level_needed"] == 4
        later = replace(here.settings, zulip_reviews=("team", TOPIC))
        async with open_app(later, indexing=False, announcing=False) as app:
            proposal = await app.base.state.trust.proposal(sent["proposal"]["id"])
            assert proposal is not None
            ended = await app.approvals.approve(proposal.id, proposal.hash, Approver("ann", "page"))
            assert ended.state == "superseded"
            newer = await app.base.state.trust.proposal(ended.successor or "")
            assert newer is not None
            assert (newer.state, newer.level_needed) == ("pending", 5)
        assert here.sent == 0
