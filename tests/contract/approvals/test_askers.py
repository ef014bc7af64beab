"""The same conflict from several hosts is one proposal: what each host sees and may do, and one decision for all."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

import anyio
import pytest
from mcp.client.subscriptions import ResourceUpdated
from mcp.shared.exceptions import MCPError
from mcp_types import TextResourceContents

from mcp_server.app.settings.settings import Settings
from mcp_server.approvals.proposals import hash_of
from mcp_server.gate.caller import Call
from mcp_server.gate.host_registration import TOKENLESS, Principal, os_user
from mcp_server.gate.trust.reconcile import unaccounted
from tests.support.hosts.reviewers import ANN, Reviewer, reviewing
from tests.support.hosts.writers import Refused, Writer, writing
from tests.support.knowledge_bases.folders import write
from tests.support.state.postgres import on_database
from tests.support.state.stores import bodies

pytestmark = pytest.mark.security

PAGE = "guides/deploy.md"
TEXT = (
    "# Deploying\n\nThe payment service is deployed with a canary first.\n\n"
    "## Limits\n\nThe timeout is 30 seconds.\n\n| name | port |\n|---|---|\n| api | 80 |\n"
)
CLAIM = "The timeout is 90 seconds.\n"
AGENT = """
title: Taking notes
summary: Writes down what is said.
initial: NOTE
complete: DONE
phases:
  - name: NOTE
    prompt: Write it down.
    tools: [kb_read, kb_merge]
    work:
      properties:
        text: {type: string}
  - name: DONE
transitions:
  - {from: NOTE, to: DONE}
"""
ME = os_user()


@pytest.fixture(params=["sqlite", "postgres"])
def settings(request: pytest.FixtureRequest, tmp_path: Path) -> Settings:
    made = Settings(kb=write(tmp_path / "kb", {PAGE: TEXT}), state_dir=tmp_path / "s", open_browser=False)
    return on_database(made, request)


@dataclass(frozen=True)
class Scene:
    one: Writer
    two: Writer
    person: Reviewer

    async def claim(
        self, host: Writer, source: str = "plane:KB-1", content: str = CLAIM, **more: object
    ) -> dict[str, Any]:
        """Have the host claim that the page is wrong, and return the proposal in its answer."""
        base = await host.revision(PAGE)
        answer = await host.merge(PAGE, content, source=source, base_revision=base, **more)
        assert answer["proposal"] is not None, answer
        return dict(answer["proposal"])

    async def both(self) -> str:
        first = await self.claim(self.one, intent="PRIVATE-ONE")
        second = await self.claim(self.two, "zulip:ops/limits/3", intent="PRIVATE-TWO")
        assert first["id"] == second["id"]
        return str(first["id"])


@asynccontextmanager
async def scene(settings: Settings, one: float = 3, two: float = 3) -> AsyncIterator[Scene]:
    async with (
        writing(settings, host="one", level=one) as first,
        writing(settings, host="two", level=two) as second,
        reviewing(settings) as person,
    ):
        yield Scene(first, second, person)


async def status(host: Writer, id_: str, **more: object) -> dict[str, Any]:
    return dict((await host.call("proposal_status", proposal_id=id_, **more))["proposal"])


async def resource(host: Writer, id_: str) -> dict[str, Any]:
    content = (await host.client.read_resource(f"proposal://{id_}")).contents[0]
    assert isinstance(content, TextResourceContents)
    return dict(json.loads(content.text))


@pytest.mark.parametrize(("one", "two"), [(3, 3), (2, 2), (2, 3)])
async def test_two_hosts_with_the_same_conflict_wait_for_one_answer(settings: Settings, one: float, two: float) -> None:
    async with scene(settings, one, two) as here:
        before = await here.claim(here.one)
        hash_ = (await here.person.only()).hash
        after = await here.claim(here.two, "zulip:ops/limits/3")
        assert before["id"] == after["id"]
        waits = await here.person.only()
        assert (waits.principal, waits.hash, hash_of(waits)) == (f"{ME}@one", hash_, hash_)
        for host in (here.one, here.two):
            pending = (await host.call("trust_status"))["pending"]
            assert [p["id"] for p in pending] == [waits.id]
            assert [p["id"] for p in (await host.call("proposal_status"))["pending"]] == [waits.id]
            assert (await status(host, waits.id))["state"] == "pending"
            assert (await resource(host, waits.id))["state"] == "pending"
        done = await here.person.approve(waits.id, note="agreed")
        assert (done.state, done.error) == ("executed", None)
        assert "90 seconds" in here.one.text(PAGE)
        revision = await here.one.revision(PAGE)
        for host in (here.one, here.two):
            told = await status(host, waits.id, wait_seconds=5)
            assert (told["state"], told["decision"]["note"]) == ("executed", "agreed")
            assert (told["result"]["status"], told["result"]["revision"]) == ("done", revision)
            assert not (await host.call("kb_contradictions"))["contradictions"]
            assert not (await host.call("trust_status"))["pending"]


async def test_other_blocks_and_other_sources_in_the_call_do_not_make_it_another_question(settings: Settings) -> None:
    async with scene(settings) as here:
        first = await here.claim(here.one, content=f"## Limits\n\n{CLAIM}\n## Owners\n\nThe payments team owns it.\n")
        second = await here.claim(
            here.two, "zulip:ops/x/3", f"- {CLAIM}\nThe dashboards live in Grafana since spring.\n", section="Limits"
        )
        assert first["id"] == second["id"]
        other = await here.claim(here.two, "zulip:ops/x/3", "The timeout is 45 seconds.\n")
        assert other["id"] != first["id"]


async def test_a_host_that_joined_sees_its_own_call_and_nothing_of_the_first_one(settings: Settings) -> None:
    """Arguments, reason, journey and run belong to the host that gave them, also after the proposal has ended."""
    secrets_of_one = ("PRIVATE-ONE", "KB-1", "payments", "taking-notes", "@one")
    write(settings.kb, {"_agents/taking-notes.yaml": AGENT})
    async with scene(settings) as here:
        journey = (await here.one.call("journey_start", agent="taking-notes", brief="x"))["journey_id"]
        more = f"{CLAIM}\nThe payments team owns it.\n"
        first = await here.claim(here.one, content=more, intent="PRIVATE-ONE", journey_id=journey)
        second = await here.claim(here.two, "zulip:ops/limits/3", intent="PRIVATE-TWO")
        id_ = second["id"]
        assert first["id"] == id_
        assert (await here.person.only()).journey == journey
        views = [second, await status(here.two, id_), await resource(here.two, id_)]
        assert "-The timeout is 30 seconds.\n+The timeout is 90 seconds." in views[1]["preview"]
        assert "PRIVATE-TWO" in views[1]["preview"]
        await here.person.approve(id_)
        views += [await status(here.two, id_), await resource(here.two, id_)]
        assert views[-1]["state"] == "executed"
        for secret in (*secrets_of_one, journey):
            # The page itself has the first host's text there, and the new text has a line of it as context.
            shown = json.dumps(views).replace("The payments team owns it.", "")
            assert secret not in shown, secret
        assert "PRIVATE-ONE" in str(await status(here.one, id_))
        assert "PRIVATE-TWO" not in str(await status(here.one, id_))


async def test_nobody_else_reads_or_withdraws_it(settings: Settings) -> None:
    async with scene(settings) as here:
        id_ = await here.both()
        async with writing(settings, host="three", level=3) as other:
            for tool in ("proposal_status", "proposal_withdraw"):
                with pytest.raises(Refused, match="you made no proposal"):
                    await other.call(tool, proposal_id=id_)
            with pytest.raises(MCPError, match="you made no proposal"):
                await other.client.read_resource(f"proposal://{id_}")
            assert not (await other.call("trust_status"))["pending"]


async def test_a_joiner_withdraws_for_itself_and_the_first_host_only_when_alone(settings: Settings) -> None:
    async with scene(settings) as here:
        id_ = await here.both()
        refused = await here.one.refused("proposal_withdraw", proposal_id=id_)
        assert "another host asks for the same change" in refused
        assert "@two" not in refused
        assert (await here.person.only()).state == "pending"
        withdrawn = await here.two.call("proposal_withdraw", proposal_id=id_)
        assert (withdrawn["proposal"]["state"], withdrawn["pending"]) == ("withdrawn", [])
        assert (await here.person.only()).state == "pending"
        # It may ask again, and then has joined as before.
        assert (await here.claim(here.two, "zulip:ops/x/3"))["id"] == id_
        assert (await status(here.two, id_))["state"] == "pending"
        await here.two.call("proposal_withdraw", proposal_id=id_)
        assert (await here.one.call("proposal_withdraw", proposal_id=id_))["proposal"]["state"] == "withdrawn"
        assert not await here.person.waiting()


async def test_joining_and_leaving_are_on_the_audit_chain(settings: Settings) -> None:
    async with scene(settings) as here:
        id_ = await here.both()
        await here.two.call("proposal_withdraw", proposal_id=id_)
        state = here.person.app.base.state
        said = [(one["principal"], one["tool"]) for one in await bodies(state) if one["proposal"] == id_]
        assert said == [(f"{ME}@two", "proposal.join"), (f"{ME}@two", "proposal.withdraw")]
        await here.person.approve(id_)
        assert not await unaccounted(state)


async def test_harmful_freezes_every_asker_and_a_plain_rejection_none(settings: Settings) -> None:
    async with scene(settings) as here:
        state = here.person.app.base.state
        id_ = await here.both()
        rejected = await here.person.reject(id_, note="not so")
        assert rejected.state == "rejected"
        for host in (here.one, here.two):
            told = await status(host, id_)
            assert (told["state"], told["decision"]["note"]) == ("rejected", "not so")
            assert not (await host.call("kb_contradictions"))["contradictions"]
        write(settings.kb, {PAGE: TEXT.replace("30", "40")})
        third = await here.claim(here.one, content="The timeout is 95 seconds.\n")
        assert (await here.claim(here.two, "zulip:ops/x/3", "The timeout is 95 seconds.\n"))["id"] == third["id"]
        await here.person.reject(third["id"], harmful=True)
        for name in ("one", "two"):
            record = await state.trust_record(f"{ME}@{name}")
            assert record is not None
            assert (record.frozen, record.score) == (True, 0.0)


async def test_one_of_a_frozen_host_is_not_joined(settings: Settings) -> None:
    """Nobody could approve it, so the other host would wait for nothing."""
    async with scene(settings) as here:
        first = await here.claim(here.one)
        await here.person.app.approvals.freeze(f"{ME}@one", ANN, "odd")
        second = await here.claim(here.two, "zulip:ops/x/3")
        assert first["id"] != second["id"]
        assert (await here.person.approve(second["id"])).state == "executed"


async def test_one_that_has_been_decided_or_has_expired_is_not_joined(settings: Settings) -> None:
    async with scene(settings) as here:
        first = await here.claim(here.one)
        await here.person.reject(first["id"])
        # A rejected claim is not raised again, until a person reopens its contradiction.
        contradictions = here.person.app.services.contradictions
        (kept,) = (await contradictions.listed(None, limit=9, cursor=None, dismissed=True)).contradictions
        await contradictions.reopen(kept.id, by="ana")
        second = await here.claim(here.two, "zulip:ops/x/3")
        assert second["id"] != first["id"]
        trust = here.person.app.base.state.trust
        await trust.expire(now=here.person.app.services.now() + timedelta(days=8))
        assert (await here.claim(here.one))["id"] not in (first["id"], second["id"])


async def test_callers_without_a_token_join_nobody(settings: Settings) -> None:
    """They share one principal: if one of them withdrew it, it would be gone for all."""
    async with scene(settings) as here:
        first = await here.claim(here.one)
        nobody = Call(Principal(ME, TOKENLESS))
        base = await here.one.revision(PAGE)
        asked = {"path": PAGE, "content": CLAIM, "source": "zulip:ops/x/3", "base_revision": base}
        app = here.person.app
        for _ in range(2):
            assert first["id"] not in str(await app.gate.dispatch("kb_merge", asked, nobody))
        assert len(await here.person.waiting()) == 3
        assert await app.base.state.trust.asking([one.id for one in await here.person.waiting()]) == {}
        assert (await status(here.one, first["id"]))["state"] == "pending"


async def test_all_askers_journeys_get_the_outcome(settings: Settings) -> None:
    write(settings.kb, {"_agents/taking-notes.yaml": AGENT})
    async with scene(settings) as here:
        journeys = []
        for host in (here.one, here.two):
            started = await host.call("journey_start", agent="taking-notes", brief="x")
            journeys.append(started["journey_id"])
            proposal = await here.claim(host, journey_id=started["journey_id"])
        await here.person.approve(proposal["id"])
        for host, journey, other in zip((here.one, here.two), journeys, reversed(journeys), strict=True):
            events = json.dumps(await host.call("journey_status", journey_id=journey, view="events"))
            assert "approved, status done" in events
            assert other not in events


async def test_all_askers_learn_of_a_change_and_a_waiting_one_gets_the_outcome(settings: Settings) -> None:
    async with scene(settings) as here:
        first = await here.claim(here.one)
        uri = f"proposal://{first['id']}"
        told: list[dict[str, Any]] = []
        async with here.one.client.listen(resource_subscriptions=[uri]) as events, anyio.create_task_group() as tasks:
            await here.claim(here.two, "zulip:ops/x/3")
            with anyio.fail_after(60):
                async for event in events:  # the first host hears that somebody joined
                    assert isinstance(event, ResourceUpdated)
                    break

            async def wait() -> None:
                told.append(await status(here.two, first["id"], wait_seconds=20))

            tasks.start_soon(wait)
            await here.person.reject(first["id"], note="no")
        assert [(one["state"], one["decision"]["note"]) for one in told] == [("rejected", "no")]


async def test_after_a_page_change_all_askers_continue_together_if_they_still_agree(settings: Settings) -> None:
    async with scene(settings) as here:
        id_ = await here.both()
        moved = TEXT.replace("## Limits", "## Bounds")
        (settings.kb / PAGE).write_text(moved, encoding="utf-8")
        ended = await here.person.approve(id_)
        assert ended.state == "superseded"
        again = await here.person.only()
        assert again.id == ended.successor
        for host in (here.one, here.two):
            assert (await status(host, id_))["successor"] == again.id
            assert (await status(host, again.id))["state"] == "pending"
        assert "PRIVATE-ONE" not in str(await status(here.two, again.id))
        assert (await here.person.approve(again.id)).state == "executed"
        assert (await status(here.two, again.id))["state"] == "executed"


async def test_askers_that_no_longer_agree_each_get_a_proposal(settings: Settings) -> None:
    async with scene(settings) as here:
        text = TEXT + "\n## Retries\n\nThe client retries 4 times.\n"
        write(settings.kb, {PAGE: text})
        first = await here.claim(here.one, content=f"{CLAIM}\nThe client retries 4 times.\n")
        second = await here.claim(here.two, "zulip:ops/x/3")
        assert first["id"] == second["id"]
        # The first host's call now contradicts the page in one more place.
        changed = text.replace("4 times", "5 times").replace("## Limits", "## Bounds")
        (settings.kb / PAGE).write_text(changed, encoding="utf-8")
        ended = await here.person.approve(first["id"])
        assert ended.state == "superseded"
        ours, theirs = await here.person.waiting()
        assert [one.principal for one in (ours, theirs)] == [f"{ME}@one", f"{ME}@two"]
        assert (await status(here.one, first["id"]))["successor"] == ours.id
        assert (await status(here.two, first["id"]))["successor"] == theirs.id
        with pytest.raises(Refused, match="you made no proposal"):
            await here.two.call("proposal_status", proposal_id=ours.id)


async def test_hosts_with_the_same_claim_at_the_same_time_ask_once(settings: Settings) -> None:
    """Separate servers, as every host has one: the first one makes the proposal, the others join it."""
    async with scene(settings) as here:
        found: list[str] = []

        async def claim(host: Writer, source: str) -> None:
            found.append((await here.claim(host, source))["id"])

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(claim, here.one, "plane:KB-1")
            tasks.start_soon(claim, here.two, "zulip:ops/x/3")
    assert len(set(found)) == 1
