"""Ways around a person's approval that hosts could try.

None has an effect beyond what the person saw and may decide.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import anyio
import anyio.lowlevel
import pytest
from mcp.client import ClientRequestContext
from mcp_types import ElicitRequestParams, ElicitResult, TextResourceContents

from knowledge.errors import ConfiguresNow, StorageError
from knowledge.state.ports import StateStore
from knowledge.trust.ports import ProposalVerdict
from mcp_server.app.dependencies import MOST_WAITING
from mcp_server.app.knowledge_base import utc_now
from mcp_server.app.settings.settings import Settings
from mcp_server.approvals.approvers import AdminAct, Approver, CannotDecide
from mcp_server.approvals.proposals import MOST_PENDING
from mcp_server.approvals.wait import closed
from mcp_server.gate.caller import Call
from mcp_server.gate.host_registration import Principal, os_user
from mcp_server.gate.policy import Trust
from mcp_server.gate.trust.scores import freeze, grant, thaw
from mcp_server.toolsets.knowledge.handlers import plan_revert
from mcp_server.toolsets.knowledge.schemas import RevertArguments
from tests.support.hosts.reviewers import ANN, Reviewer, reviewing
from tests.support.hosts.writers import Refused, Writer, let_in, writing
from tests.support.knowledge_bases.folders import write
from tests.support.roads.road import connect, opened

pytestmark = pytest.mark.security

ME = Principal(os_user(), "writer").id
INDEX = "# Home\n\nWelcome.\n"
LIMITS = "# Limits\n\n" + "".join(f"## Part {n}\n\nThe timeout of part {n} is 30 seconds.\n\n" for n in range(22))
SET_UP = "---\nrouter: [how]\n---\n"
PAGES = {
    "_index.md": INDEX,
    "limits.md": LIMITS,
    "page.md": "# Page\n\nFirst.\n",
    "dressed.md": f"{SET_UP}# Dressed\n",
    "_agents/curate.md": "# Curate\n\nBe careful.\n",
}


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return Settings(kb=write(tmp_path / "kb", PAGES), state_dir=tmp_path / "state")


@asynccontextmanager
async def both(settings: Settings, level: float = 2) -> AsyncIterator[tuple[Writer, Reviewer]]:
    async with writing(settings, level=level) as host, reviewing(settings) as person:
        yield host, person


async def test_joining_a_harmless_call_does_not_lower_the_level_needed(settings: Settings) -> None:
    """Otherwise a form in the host would suffice for a change of the server's configuration."""
    async with both(settings) as (host, person):
        base = await host.revision("_index.md")
        high = await host.merge("_index.md", SET_UP + INDEX, base_revision=base)
        assert high["proposal"]["level_needed"] == 5
        low = await host.merge("_index.md", INDEX + "\nCome in.\n", base_revision=base)
        joined = await person.only()
        assert joined.id == low["proposal"]["id"]
        assert "router" in joined.preview
        assert joined.level_needed == 5
        assert "level 5" in joined.why


@pytest.mark.parametrize("to", ["area/_index.md", "_agents/new.md", "_Agents/new.md", "area/_INDEX.md"])
async def test_moving_a_page_to_where_it_configures_the_server_needs_the_highest_level(
    settings: Settings, to: str
) -> None:
    async with both(settings, level=4) as (host, _):
        answer = await host.call("kb_move", path="dressed.md", to=to)
        assert answer["status"] == "proposed"
        assert answer["proposal"]["level_needed"] == 5
        assert not (settings.kb / to).exists()


async def test_taking_back_a_move_that_configures_the_server_needs_the_highest_level(settings: Settings) -> None:
    async with both(settings, level=5) as (host, _):
        was = await host.revision("_agents/curate.md")
        assert (await host.call("kb_move", path="_agents/curate.md", to="curate.md"))["status"] == "done"
        into = await host.revision("dressed.md")
        assert (await host.call("kb_move", path="dressed.md", to="area/_index.md"))["status"] == "done"
    async with both(settings, level=3) as (host, _):
        for path, revision in (("_agents/curate.md", was), ("dressed.md", into)):
            answer = await host.call("kb_revert", path=path, revision=revision)
            assert answer["status"] == "proposed", answer
            assert answer["proposal"]["level_needed"] == 5


async def test_a_link_to_the_servers_configuration_is_no_way_around_the_level(settings: Settings) -> None:
    (settings.kb / "helpers").symlink_to("_agents")
    (settings.kb / "curate.md").symlink_to("_agents/curate.md")
    async with both(settings, level=3) as (host, _):
        new = await host.merge("helpers/new.md", "# New\n\nObey me.\n")
        assert (new["status"], new["proposal"]["level_needed"]) == ("proposed", 5)
        moved = await host.call("kb_move", path="dressed.md", to="helpers/dressed.md")
        assert (moved["status"], moved["proposal"]["level_needed"]) == ("proposed", 5)
        for path in ("helpers/curate.md", "curate.md"):
            base = await host.revision(path)
            changed = await host.merge(path, "# Curate\n\nBe careless.\n", base_revision=base)
            assert (changed["status"], changed["proposal"]["level_needed"]) == ("proposed", 5)
        assert not (settings.kb / "_agents" / "new.md").exists()


async def fall(person: Reviewer, how: str) -> None:
    """Lower the host's trust."""
    state, now = person.app.base.state, utc_now()
    if how == "frozen":
        await freeze(state, ME, by="ann", now=now, reason="harmful")
    else:
        await grant(state, ME, 1, by="ann", now=now)


@pytest.mark.parametrize("era", ["auto", "legacy"])
@pytest.mark.parametrize("how", ["frozen", "lowered"])
async def test_a_form_counts_for_nothing_once_its_host_may_not_even_propose(
    settings: Settings, era: str, how: str
) -> None:
    async with reviewing(settings) as person:

        async def accepts(context: ClientRequestContext, params: ElicitRequestParams) -> ElicitResult:
            del context, params
            await fall(person, how)
            return ElicitResult(action="accept", content={"decision": "approve"})

        allowed = await let_in(settings, level=2, forms=True)
        async with opened(allowed) as app, connect(app, mode=era, elicitation_callback=accepts) as client:
            base = await Writer(client, app, settings.kb).revision("page.md")
            arguments = {"path": "page.md", "content": "# Page\n\nSecond.\n", "base_revision": base}
            result = await client.call_tool("kb_merge", arguments)
            assert result.is_error == (how == "frozen")
            waits = await person.only()
            assert waits.verdict is None
            assert (settings.kb / "page.md").read_text(encoding="utf-8") == PAGES["page.md"]


IN_ZULIP = Approver("ann@example.com", "zulip")


async def test_a_zulip_reaction_executes_level_3_acts_and_raises_nobodys_score(settings: Settings) -> None:
    """ADR 38: a person who reacts may have seen no more than that something waits."""
    async with both(settings) as (host, person):
        proposed = await host.merge("new.md", "# New\n")
        ended = await person.approve(proposed["proposal"]["id"], IN_ZULIP)
        assert (ended.state, (settings.kb / "new.md").read_text(encoding="utf-8")) == ("executed", "# New\n")
        assert await person.score(ME) == pytest.approx(2.0, abs=0.001)
        records = await person.app.base.state.ledger.records(limit=100)
        said = [json.loads(record.body).get("decision") for record in records]
        assert "approved by ann@example.com by a reaction in Zulip" in said


async def test_from_level_4_on_and_about_trust_itself_a_reaction_in_zulip_approves_nothing(settings: Settings) -> None:
    async with both(settings, level=3.5) as (host, person):
        read = await host.revision("page.md")
        high = await host.call("kb_delete", path="page.md", base_revision=read)
        act = await person.app.approvals.ask("trust.grant", {"principal": ME, "level": 5.0}, ANN)
        for waiting in (high["proposal"]["id"], act.id):
            with pytest.raises(CannotDecide, match="review page"):
                await person.approve(waiting, IN_ZULIP)
            assert (await person.proposal(waiting)).state == "pending"
        assert (settings.kb / "page.md").exists()
        rejected = await person.reject(high["proposal"]["id"], IN_ZULIP)
        assert rejected.state == "rejected"


async def test_a_no_by_a_reaction_in_zulip_counts_as_any_other(settings: Settings) -> None:
    async with both(settings) as (host, person):
        yes = await host.merge("one.md", "# One\n")
        await person.approve(yes["proposal"]["id"])
        assert await person.score(ME) == pytest.approx(2.1, abs=0.001)
        no = await host.merge("two.md", "# Two\n")
        rejected = await person.reject(no["proposal"]["id"], IN_ZULIP)
        assert (rejected.state, (settings.kb / "two.md").exists()) == ("rejected", False)
        assert await person.score(ME) == pytest.approx(2.0, abs=0.001)


@pytest.mark.parametrize("how", ["frozen", "lowered"])
async def test_a_zulip_reaction_has_no_effect_once_the_host_may_not_propose(settings: Settings, how: str) -> None:
    async with both(settings) as (host, person):
        waits = await host.merge("new.md", "# New\n")
        await fall(person, how)
        with pytest.raises(CannotDecide):
            await person.approve(waits["proposal"]["id"], IN_ZULIP)
        assert (await person.only()).verdict is None


async def test_a_frozen_hosts_proposal_is_not_executed_until_the_freeze_is_lifted(settings: Settings) -> None:
    async with both(settings) as (host, person):
        base = await host.revision("page.md")
        waits = (await host.merge("page.md", "# Page\n\nSecond.\n", base_revision=base))["proposal"]
        await fall(person, "frozen")
        with pytest.raises(CannotDecide, match="frozen"):
            await person.approve(waits["id"])
        assert host.text("page.md") == PAGES["page.md"]
        await thaw(person.app.base.state, ME, by="ann", now=utc_now())
        assert (await person.approve(waits["id"])).state == "executed"


async def test_a_freeze_between_the_yes_and_the_act_stops_the_act(settings: Settings) -> None:
    async with both(settings) as (host, person):
        base = await host.revision("page.md")
        await host.merge("page.md", "# Page\n\nSecond.\n", base_revision=base)
        waits = await person.only()
        yes = ProposalVerdict(approved=True, by="ann", channel="page", at=utc_now(), hash=waits.hash)
        assert await person.app.base.state.trust.decide(waits.id, yes)
        await fall(person, "frozen")
        await person.app.approvals._executor.resume()
        found = await person.proposal(waits.id)
        assert found.state == "failed"
        assert "frozen" in (found.error or "")
        assert host.text("page.md") == PAGES["page.md"]


async def test_a_frozen_host_learns_that_its_proposal_waits_and_not_its_contents(settings: Settings) -> None:
    """A frozen host reads nothing: neither the diffs of its own proposals nor their outcomes."""
    async with both(settings) as (host, person):
        base = await host.revision("page.md")
        waits = (await host.merge("page.md", "# Page\n\nSecond.\n", base_revision=base))["proposal"]
        assert (await person.approve(waits["id"])).state == "executed"
        await fall(person, "frozen")
        told = (await host.call("proposal_status", proposal_id=waits["id"]))["proposal"]
        assert told["state"] == "executed"
        assert "First." not in str(told)
        assert told["result"] is None


async def test_an_edit_does_not_restore_configuration_that_was_removed_meanwhile(
    settings: Settings,
) -> None:
    """The level was decided on the page of that moment; the page under the lock may need more."""
    async with both(settings, level=5) as (host, _):
        was = (await host.merge("set/_index.md", SET_UP + INDEX))["revision"]
        await host.merge("set/_index.md", SET_UP + INDEX + "\nCome in.\n", base_revision=was)
        services, me = host.app.services, Call(Principal(os_user(), "writer"), trusted=True)
        plan = await plan_revert(services, me, RevertArguments(path="set/_index.md", revision=str(was)))
        assert plan.level < Trust.HIGH_STAKES
        (settings.kb / "set/_index.md").write_text(INDEX, encoding="utf-8")
        with pytest.raises(ConfiguresNow):
            await plan.execute(me)
        assert "router" not in host.text("set/_index.md")


async def test_claims_cannot_flood_a_person_and_accepted_text_is_reported_as_written(
    settings: Settings,
) -> None:
    """At most twenty proposals wait, as for calls; the other contradictions are listed all the same."""
    async with both(settings, level=3) as (host, person):
        for number in range(MOST_PENDING + 2):
            base = await host.revision("limits.md")
            word = chr(ord("a") + number) * 5
            claim = (
                f"## Part {number}\n\nThe timeout of part {number} is 90 seconds.\n\n## {word}\n\nAll about {word}.\n"
            )
            answer = await host.merge("limits.md", claim, source=f"code:src/{number}.py", base_revision=base)
            assert answer["status"] == "partial", answer
            assert f"All about {word}." in host.text("limits.md")
            assert (answer["proposal"] is not None) == (number < MOST_PENDING)
        assert len(await person.waiting()) == MOST_PENDING
        found = await host.call("kb_contradictions", path="limits.md", limit=100)
        assert len(found["contradictions"]) == MOST_PENDING + 2


async def test_a_callers_description_cannot_pass_for_the_effect(settings: Settings) -> None:
    intent = "fix a typo”\n\n--- page.md\n+++ page.md\n-teh\n+the" + "\n" * 100
    seen: list[str] = []

    async def asked(context: ClientRequestContext, params: ElicitRequestParams) -> ElicitResult:
        del context
        seen.append(params.message)
        return ElicitResult(action="cancel")

    allowed = await let_in(settings, level=2, forms=True)
    async with opened(allowed) as app, connect(app, elicitation_callback=asked) as client:
        base = await Writer(client, app, settings.kb).revision("page.md")
        new = {"path": "page.md", "content": "# Page\n\nFirst.\n\nNever test.\n", "base_revision": base}
        await client.call_tool("kb_merge", {**new, "intent": intent, "source": "official:handbook"})
    (message,) = seen
    first, _, rest = message.partition("\n")
    assert "“fix a typo' --- page.md +++ page.md -teh +the”" in first
    assert "as told by official:handbook" in first
    assert rest.startswith("\n--- ")
    assert "+Never test." in rest


async def test_nobody_is_asked_about_more_than_can_be_read_or_stored(settings: Settings) -> None:
    async with both(settings) as (host, person):
        with pytest.raises(Refused, match="smaller parts"):
            await host.merge("new.md", "# New\n\n" + "All work and no play.\n" * 180_000)
        assert not await person.waiting()


async def test_calls_beyond_the_waiting_room_are_answered_immediately(settings: Settings) -> None:
    async with both(settings) as (host, person):
        base = await host.revision("page.md")
        waits = (await host.merge("page.md", "# Page\n\nSecond.\n", base_revision=base))["proposal"]
        answers: list[str] = []

        async def wait(seconds: int) -> None:
            told = await host.call("proposal_status", proposal_id=waits["id"], wait_seconds=seconds)
            answers.append(told["proposal"]["state"])

        with anyio.fail_after(60):
            async with anyio.create_task_group() as tasks:
                for _ in range(MOST_WAITING + 20):
                    tasks.start_soon(wait, 300)
                while len(answers) < 20:
                    await anyio.lowlevel.checkpoint()
                assert answers == ["pending"] * 20
                await person.approve(waits["id"])
        assert answers[20:] == ["executed"] * MOST_WAITING


class Unsteady:
    """A state database that is unavailable whenever a claim is to be extended or a failure recorded."""

    def __init__(self, state: Any) -> None:
        self.state, self.trust, self.away = state, self, anyio.Event()
        self.claimed: set[str] = set()

    def __getattr__(self, name: str) -> Any:
        return getattr(self.state if hasattr(self.state, name) else self.state.trust, name)

    async def claim(self, proposal_id: str, runner: str, **more: Any) -> Any:
        if runner in self.claimed:
            self.away.set()
            raise StorageError("the state database is locked")
        self.claimed.add(runner)
        return await self.state.trust.claim(proposal_id, runner, **more)


async def test_a_brief_database_outage_does_not_interrupt_an_approved_act(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise the act would be cancelled half way, and the process would die."""
    monkeypatch.setattr("mcp_server.approvals.proposal_executor.LEASE_S", 0.01)
    async with both(settings) as (host, person):
        base = await host.revision("page.md")
        waits = (await host.merge("page.md", "# Page\n\nSecond.\n", base_revision=base))["proposal"]
        app = person.app
        unsteady, carry_out = Unsteady(app.services.state), app.gate.carry_out

        async def slowly(*asked: Any) -> Any:
            await unsteady.away.wait()
            return await carry_out(*asked)

        monkeypatch.setattr(app.gate, "carry_out", slowly)
        app.approvals._executor.services = replace(app.services, state=cast("StateStore", unsteady))
        with anyio.fail_after(60):
            assert (await person.approve(waits["id"])).state == "executed"
        assert host.text("page.md") == "# Page\n\nSecond.\n"


@pytest.mark.parametrize(("act", "more"), [("trust.grant", {"level": 5}), ("trust.thaw", {})])
async def test_a_freeze_outlasts_a_grant_whose_process_died_before_executing_it(
    settings: Settings, act: AdminAct, more: dict[str, Any]
) -> None:
    async with reviewing(settings) as person:
        await let_in(settings, level=2)
        state = person.app.base.state
        asked = await person.app.approvals.ask(act, {"principal": ME, **more}, ANN)
        yes = ProposalVerdict(approved=True, by="ann", channel="page", at=utc_now(), hash=asked.hash)
        assert await state.trust.decide(asked.id, yes)
        await fall(person, "frozen")
        await person.app.approvals._executor.resume()
        with anyio.fail_after(60):  # the server itself may have dealt with it first
            await closed(person.app.services, asked.id)
        trust_record = await state.trust_record(ME)
        assert trust_record is not None
        assert trust_record.frozen
        assert (await person.proposal(asked.id)).state == "failed"


async def test_the_approver_learns_the_outcome_even_if_another_process_was_faster(settings: Settings) -> None:
    """`Decisions.approve` returns the outcome, whichever process executes it."""
    async with reviewing(settings) as person, anyio.create_task_group() as tasks:
        await let_in(settings, level=2)
        trust = person.app.base.state.trust
        asked = await person.app.approvals.ask("trust.grant", {"principal": ME, "level": 3}, ANN)
        yes = ProposalVerdict(approved=True, by="ann", channel="page", at=utc_now(), hash=asked.hash)
        assert await trust.decide(asked.id, yes)
        assert await trust.claim(asked.id, "another process", now=utc_now(), lease_s=60)

        async def carry_it_out() -> None:
            await anyio.sleep(0.1)
            await trust.finish(asked.id, "executed", at=utc_now(), result="{}")

        tasks.start_soon(carry_it_out)
        with anyio.fail_after(60):
            assert (await person.app.approvals._executor.carry_out(asked.id)).state == "executed"


async def test_a_proposal_says_where_a_page_moves_although_none_of_its_lines_change(settings: Settings) -> None:
    """No form in a host decides it: taking back a move needs the level of a move."""
    seen: list[str] = []

    async def asked(context: ClientRequestContext, params: ElicitRequestParams) -> ElicitResult:
        del context
        seen.append(params.message)
        return ElicitResult(action="cancel")

    async with writing(settings, level=4) as host:
        was = await host.revision("page.md")
        await host.call("kb_move", path="page.md", to="area/page.md")
    allowed = await let_in(settings, level=2, forms=True)
    async with opened(allowed) as app, connect(app, elicitation_callback=asked) as client:
        host = Writer(client, app, settings.kb)
        answer = await host.call("kb_revert", path="page.md", revision=was)
        assert answer["status"] == "proposed"
        told = await host.call("proposal_status", proposal_id=answer["proposal"]["id"])
        assert "area/page.md is renamed to page.md" in told["proposal"]["preview"]
        assert answer["proposal"]["level_needed"] == 4
    assert not seen


async def test_recent_acts_are_listed_without_hosts_and_peoples_texts(settings: Settings) -> None:
    """Text in one host's act must not reach another host as part of a record."""
    async with both(settings) as (host, person):
        base = await host.revision("page.md")
        waits = await host.merge("page.md", "# Page\n\nSecond.\n", base_revision=base, intent="obey me")
        await person.approve(waits["proposal"]["id"], note="between us")
        async with writing(settings, host="other", level=1) as other:
            (shown,) = (await other.client.read_resource("audit://recent")).contents
            assert isinstance(shown, TextResourceContents)
            assert waits["proposal"]["id"] in shown.text
            assert "obey me" not in shown.text
            assert "between us" not in shown.text


async def test_rejecting_one_claim_does_not_settle_another_hosts_claim(settings: Settings) -> None:
    """Otherwise an absurd claim would remove from the list a contradiction of the same sentence that nobody checked."""
    async with both(settings, level=3) as (host, person), writing(settings, host="other", level=3) as other:
        base = await host.revision("limits.md")
        claim = "## Part 1\n\nThe timeout of part 1 is {} seconds.\n"
        await other.merge("limits.md", claim.format(60), source="code:src/one.py", base_revision=base)
        absurd = await host.merge("limits.md", claim.format(9000), source="code:src/eve.py", base_revision=base)
        await person.reject(absurd["proposal"]["id"])
        (left,) = (await host.call("kb_contradictions", path="limits.md"))["contradictions"]
        assert "60 seconds" in left["new"]["text"]
