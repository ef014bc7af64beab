"""Proposals through a real client and the real server: what waits, what an approval does, and what it can't do."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import anyio
import pytest
from mcp.client.subscriptions import ResourceUpdated
from mcp.shared.exceptions import MCPError
from mcp_types import TextResourceContents

from mcp_server.app.settings.settings import Settings
from mcp_server.approvals.approvers import Approver, CannotDecide
from mcp_server.approvals.proposals import MOST_PENDING, hash_of
from mcp_server.workers.pool import MOST_WAITING
from tests.support.hosts.reviewers import ANN, Reviewer, reviewing
from tests.support.hosts.writers import Refused, Writer, allow_forms, writing
from tests.support.knowledge_bases.folders import write

pytestmark = pytest.mark.security

PAGE = "guides/deploy.md"
TEXT = (
    "# Deploying\n\nThe payment service is deployed with a canary first.\n\n"
    "## Rolling back\n\nTo roll back, switch the router.\n\n## Limits\n\nThe timeout is 30 seconds.\n"
)
ALL_FIELDS = {"path", "revision", "blocks", "diff", "conflicts", "verified", "status", "proposal"}


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return Settings(
        kb=write(tmp_path / "kb", {PAGE: TEXT, "other.md": "# Other\n\nNothing.\n"}), state_dir=tmp_path / "s"
    )


@asynccontextmanager
async def both(settings: Settings, level: float = 2) -> AsyncIterator[tuple[Writer, Reviewer]]:
    async with writing(settings, level=level) as host, reviewing(settings) as person:
        yield host, person


async def propose(host: Writer, old: str, new: str) -> dict[str, object]:
    base = await host.revision(PAGE)
    answer = await host.merge(PAGE, TEXT.replace(old, new), base_revision=base, intent="say it better")
    assert answer["status"] == "proposed"
    proposal = answer["proposal"]
    assert isinstance(proposal, dict)
    return proposal


async def test_approved_acts_on_large_texts_wait_for_a_worker_and_are_never_turned_away(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    """More of them than one caller may have in progress, and each text counts as large."""
    most = MOST_WAITING + 2
    async with both(settings) as (host, person):
        for number in range(most):
            await host.merge(f"new-{number}.md", f"# New {number}\n\nText {number}.\n", base_revision=None)
        monkeypatch.setattr(person.app.base.runner, "_inline", 0)
        async with anyio.create_task_group() as tasks:
            for waiting in await person.waiting():
                tasks.start_soon(person.approve, waiting.id)
        ended = await person.app.base.state.trust.proposals(states=("executed", "failed"))
        assert [(one.state, one.error) for one in ended if one.tool == "kb_merge"] == [("executed", None)] * most


async def test_a_call_below_the_level_waits_changes_nothing_and_is_done_once_after_a_yes(settings: Settings) -> None:
    async with both(settings) as (host, person):
        base = await host.revision(PAGE)
        answer = await host.merge(PAGE, TEXT.replace("canary", "blue-green step"), base_revision=base)
        assert set(answer) >= ALL_FIELDS
        assert answer["status"] == "proposed"
        assert "+The payment service is deployed with a blue-green step first." in answer["diff"]
        assert answer["verified"] is None
        assert answer["revision"] == base
        proposal = answer["proposal"]
        assert (proposal["tool"], proposal["state"]) == ("kb_merge", "pending")
        assert (proposal["level_needed"], proposal["level_held"]) == (3, 2)
        assert host.text(PAGE) == TEXT
        status = await host.call("trust_status")
        assert [one["id"] for one in status["pending"]] == [proposal["id"]]

        done = await person.approve(proposal["id"], note="fine")
        assert (done.state, done.error) == ("executed", None)
        assert "blue-green step" in host.text(PAGE)
        told = (await host.call("proposal_status", proposal_id=proposal["id"], wait_seconds=5))["proposal"]
        assert told["state"] == "executed"
        assert told["decision"]["by"] == "ann"
        assert told["decision"]["note"] == "fine"
        assert told["result"]["status"] == "done"
        assert told["result"]["revision"] == await host.revision(PAGE)
        (act,) = await person.acts(proposal["id"])
        assert act["principal"].endswith("@writer")
        assert act["decision"].startswith("approved by ann (page")
        history = await host.call("kb_history", path=PAGE)
        assert history["revisions"][0]["proposal"] == proposal["id"]
        with pytest.raises(CannotDecide, match="executed"):
            await person.approve(proposal["id"])


async def test_the_same_call_waits_once(settings: Settings) -> None:
    async with both(settings) as (host, person):
        first = await propose(host, "canary", "step")
        assert (await propose(host, "canary", "step"))["id"] == first["id"]
        assert len(await person.waiting()) == 1


async def test_bad_arguments_and_empty_changes_never_become_proposals(settings: Settings) -> None:
    async with both(settings) as (host, person):
        base = await host.revision(PAGE)
        with pytest.raises(Refused):
            await host.call("kb_delete", path="nowhere.md", base_revision="0" * 16)
        assert (await host.merge(PAGE, TEXT, base_revision=base))["status"] == "unchanged"
        assert (await host.merge(PAGE, "# Other text\n"))["status"] == "analysis"
        assert not await person.waiting()


async def test_a_newer_proposal_for_a_page_replaces_the_older_and_shows_both(settings: Settings) -> None:
    """The design, section 6."""
    async with both(settings) as (host, person):
        first = await propose(host, "canary", "blue-green step")
        second = await propose(host, "30 seconds", "45 seconds")
        older = await person.proposal(str(first["id"]))
        assert (older.state, older.successor) == ("superseded", second["id"])
        shown = json.loads((await person.only()).preview)["files"][0]["diff"]
        assert "+The payment service is deployed with a blue-green step first." in shown
        assert "+The timeout is 45 seconds." in shown
        assert (await person.approve(str(second["id"]))).state == "executed"
        assert "blue-green step" in host.text(PAGE)
        assert "45 seconds" in host.text(PAGE)
        assert len(await person.acts(str(second["id"]))) == 1


async def test_a_proposal_that_contests_the_older_one_replaces_it(settings: Settings) -> None:
    async with both(settings) as (host, person):
        await propose(host, "canary", "blue-green step")
        second = await propose(host, "canary", "feature flag")
        await person.approve(str(second["id"]))
        assert "feature flag" in host.text(PAGE)
        assert "blue-green" not in host.text(PAGE)


async def test_at_most_twenty_wait_for_one_caller(settings: Settings) -> None:
    async with both(settings) as (host, person):
        for number in range(MOST_PENDING):
            assert (await host.merge(f"new/{number}.md", f"# Page {number}\n"))["status"] == "proposed"
        with pytest.raises(Refused, match="20 pending proposals"):
            await host.merge("new/too-many.md", "# One more\n")
        waiting = await person.waiting()
        assert len(waiting) == MOST_PENDING
        taken = await host.call("proposal_withdraw", proposal_id=waiting[0].id)
        assert taken["proposal"]["state"] == "withdrawn"
        assert (await host.merge("new/too-many.md", "# One more\n"))["status"] == "proposed"
        with pytest.raises(CannotDecide, match="withdrawn"):
            await person.approve(waiting[0].id)


async def test_nobody_sees_or_withdraws_another_hosts_proposal(settings: Settings) -> None:
    async with both(settings) as (host, person):
        mine = await propose(host, "canary", "step")
        async with writing(settings, host="other", level=2) as other:
            for tool in ("proposal_status", "proposal_withdraw"):
                with pytest.raises(Refused, match="you made no proposal"):
                    await other.call(tool, proposal_id=mine["id"])
        assert (await person.only()).state == "pending"


async def test_a_change_elsewhere_in_the_file_does_not_block_it(settings: Settings) -> None:
    async with both(settings) as (host, person):
        waits = await propose(host, "canary", "step")
        (settings.kb / PAGE).write_text(host.text(PAGE) + "\n## New\n\nBy an editor.\n", encoding="utf-8")
        assert (await person.approve(str(waits["id"]))).state == "executed"
        assert "with a step first" in host.text(PAGE)
        assert "By an editor." in host.text(PAGE)


async def test_approving_a_changed_proposal_is_void(settings: Settings) -> None:
    async with both(settings) as (host, person):
        waits = await propose(host, "30 seconds", "45 seconds")
        changed = host.text(PAGE).replace(
            "## Limits\n\nThe timeout is 30 seconds.", "## Bounds\n\nThe timeout is 30 seconds."
        )
        (settings.kb / PAGE).write_text(changed, encoding="utf-8")
        ended = await person.approve(str(waits["id"]))
        assert ended.state == "superseded"
        assert host.text(PAGE) == changed
        anew = await person.only()
        assert (ended.successor, anew.origin) == (anew.id, ended.id)
        assert anew.hash != ended.hash
        assert (await person.approve(anew.id)).state == "executed"
        assert "45 seconds" in host.text(PAGE)


async def test_decisions_move_the_score_and_never_out_of_its_bounds(settings: Settings) -> None:
    """The design, section 6: +0.1 on the page or in the terminal, at most +0.3 a day; -0.1, never below the floor."""
    async with both(settings) as (host, person):
        who = str((await host.call("trust_status"))["principal"])
        for number, expected in enumerate((2.1, 2.2, 2.3, 2.3), 1):
            waits = await host.merge(f"new/{number}.md", f"# Page {number}\n")
            await person.approve(waits["proposal"]["id"])
            assert await person.score(who) == pytest.approx(expected, abs=0.001)
        for number, expected in enumerate((2.2, 2.1, 2.0, 2.0), 10):
            waits = await host.merge(f"new/{number}.md", f"# Page {number}\n")
            await person.reject(waits["proposal"]["id"], note="no")
            assert await person.score(who) == pytest.approx(expected, abs=0.001)
        await allow_forms(person.app.base.state, who.rpartition("@")[2])
        waits = await host.merge("new/20.md", "# Page\n")
        await person.approve(waits["proposal"]["id"], Approver(f"{who} (in the host)", "host"))
        assert await person.score(who) == pytest.approx(2.0, abs=0.001)
        history = await person.app.base.state.history(who, limit=20)
        assert all(change.reason for change in history)
        records = await person.app.base.state.ledger.records(limit=1000)
        moved = [body for record in records if (body := json.loads(record.body)).get("standing")]
        assert len(moved) == len(history)


async def test_harmful_removes_all_trust_until_a_person_restores_it(settings: Settings) -> None:
    async with both(settings) as (host, person):
        waits = await propose(host, "canary", "rm -rf /")
        await person.reject(str(waits["id"]), note="no", harmful=True)
        with pytest.raises(Refused, match="frozen"):
            await host.call("kb_read", path=PAGE)
        assert (await host.call("trust_status"))["frozen"] is True


async def test_an_undecided_proposal_expires(settings: Settings) -> None:
    async with both(settings) as (host, person):
        waits = await propose(host, "canary", "step")
        later = replace(person.app.services, now=lambda: person.app.services.now() + timedelta(days=8))
        person.app.approvals._executor.services = later
        with pytest.raises(CannotDecide, match="expired"):
            await person.approve(str(waits["id"]))
        await person.app.approvals._executor.resume()
        assert (await person.proposal(str(waits["id"]))).state == "expired"
        assert host.text(PAGE) == TEXT


async def test_an_edited_proposal_is_another_one_and_only_that_runs(settings: Settings) -> None:
    async with both(settings) as (host, person):
        waits = await propose(host, "canary", "step")
        old = await person.only()
        (call,) = json.loads(old.arguments)
        call["content"] = call["content"].replace("step", "careful step")
        new = await person.app.approvals.edit(old.id, [call], ANN)
        assert new.hash != old.hash
        assert new.origin == old.id
        with pytest.raises(CannotDecide):
            await person.approve(old.id)
        assert (await person.approve(new.id)).state == "executed"
        assert "careful step" in host.text(PAGE)
        told = (await host.call("proposal_status", proposal_id=waits["id"]))["proposal"]
        assert told["successor"] == new.id


async def test_claims_that_contradict_become_one_proposal_with_both_sides(settings: Settings) -> None:
    async with both(settings, level=3) as (host, person):
        base = await host.revision(PAGE)
        answer = await host.merge(
            PAGE,
            "## Limits\n\nThe timeout is 90 seconds.\n\n## Owners\n\nThe payments team owns it.\n",
            source="code:src/limits.py",
            base_revision=base,
        )
        assert answer["status"] == "partial"
        assert "payments team" in host.text(PAGE)
        proposal = answer["proposal"]
        waits = await person.only()
        assert (proposal["id"], waits.kind) == (waits.id, "flag")
        shown = json.loads(waits.preview)["files"][0]["diff"]
        assert "-The timeout is 30 seconds." in shown
        assert "+The timeout is 90 seconds." in shown
        assert (await host.call("kb_contradictions"))["contradictions"]
        done = await person.approve(waits.id)
        assert (done.state, done.error) == ("executed", None)
        assert "90 seconds" in host.text(PAGE)
        assert not (await host.call("kb_contradictions"))["contradictions"]


async def test_claims_of_a_host_that_may_only_propose_are_put_to_a_person_once(settings: Settings) -> None:
    async with both(settings, level=2) as (host, person):
        base = await host.revision(PAGE)
        for _ in range(3):
            claim = "The timeout is 90 seconds.\n"
            answer = await host.merge(PAGE, claim, source="code:src/limits.py", base_revision=base)
            assert answer["status"] == "conflict"
            assert answer["proposal"]["state"] == "pending"
        waits = await person.only()
        assert waits.kind == "flag"
        assert host.text(PAGE) == TEXT
        assert (await person.approve(waits.id)).state == "executed"
        assert "90 seconds" in host.text(PAGE)


async def test_a_claim_that_cannot_be_proposed_now_is_answered_with_what_contradicts_and_why_nobody_is_asked(
    settings: Settings,
) -> None:
    """The whole call failed, so the host did not learn what its text contradicts, and nothing was recorded."""
    page = "guides/limits.md"
    async with both(settings, level=3) as (host, person):
        await host.merge(
            page, "".join(f"## Zone {n}\n\nThe timeout is 30 seconds.\n\n" for n in range(MOST_PENDING + 1))
        )
        for number in range(MOST_PENDING + 1):
            claim = f"## Zone {number}\n\nThe timeout is 9{number} seconds.\n"
            base = await host.revision(page)
            answer = await host.merge(page, claim, source="code:src/limits.py", base_revision=base)
        assert len(await person.waiting()) == MOST_PENDING
        assert (answer["status"], answer.get("proposal")) == ("conflict", None)
        assert "30 seconds" in answer["blocks"][0]["reason"]
        assert "no person can be asked about the contradiction now" in answer["note"]
        assert "20 pending proposals" in answer["note"]
        found = (await host.call("kb_contradictions"))["contradictions"]
        assert any(f"9{MOST_PENDING} seconds" in one["reason"] for one in found)


async def test_a_rejected_claim_is_settled_for_the_existing_text(settings: Settings) -> None:
    async with both(settings, level=3) as (host, person):
        base = await host.revision(PAGE)
        await host.merge(PAGE, "The timeout is 90 seconds.\n", source="code:src/limits.py", base_revision=base)
        await person.reject((await person.only()).id)
        assert host.text(PAGE) == TEXT
        assert not (await host.call("kb_contradictions"))["contradictions"]


async def test_a_row_changed_after_the_approval_is_not_executed(settings: Settings) -> None:
    async with both(settings) as (host, person):
        await propose(host, "canary", "step")
        proposal = await person.only()
        for changed in (
            replace(proposal, arguments=proposal.arguments.replace("step", "stop")),
            replace(proposal, principal="eve@cursor"),
            replace(proposal, effect="0" * 64),
            replace(proposal, preview=proposal.preview.replace("step", "stop")),
            replace(proposal, level_needed=1),
            replace(proposal, tool="kb_delete"),
        ):
            assert hash_of(changed) != proposal.hash


async def test_a_proposal_is_a_resource_of_its_caller_only_with_change_notices(settings: Settings) -> None:
    async with both(settings) as (host, person):
        waits = await propose(host, "canary", "step")
        uri = f"proposal://{waits['id']}"
        shown = (await host.client.read_resource(uri)).contents[0]
        assert isinstance(shown, TextResourceContents)
        assert json.loads(shown.text)["state"] == "pending"
        async with writing(settings, host="other", level=2) as other:
            with pytest.raises(MCPError, match="you made no proposal"):
                await other.client.read_resource(uri)
        async with host.client.listen(resource_subscriptions=[uri]) as events:
            await person.reject(str(waits["id"]), note="not now")
            with anyio.fail_after(60):
                async for event in events:
                    assert isinstance(event, ResourceUpdated)
                    assert event.uri == uri
                    break
        shown = (await host.client.read_resource(uri)).contents[0]
        assert isinstance(shown, TextResourceContents)
        told = json.loads(shown.text)
        assert (told["state"], told["decision"]["note"]) == ("rejected", "not now")
