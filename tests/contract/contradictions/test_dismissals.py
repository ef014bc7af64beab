"""A person dismisses a contradiction: with the reason recorded, it is not raised again for the same two statements."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from mcp_types import TextResourceContents

from knowledge.history.audit.chain import fields_of
from mcp_server.app.settings.settings import Settings
from mcp_server.approvals.approvers import Approver
from mcp_server.approvals.contradictions.settle import ContradictionDecisions
from tests.support.hosts.writers import Refused, Writer, writing
from tests.support.knowledge_bases.folders import write

LIMITS = "limits.md"
TEXT = "# Limits\n\nThe upload service accepts files of up to 64 MiB.\n\nAsk Ada about quotas.\n"
CLAIM = "The upload service accepts files of up to 32 MiB."
ANA = Approver("ana", "page")


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return Settings(kb=write(tmp_path / "kb", {LIMITS: TEXT}), state_dir=tmp_path / "state")


async def claim(host: Writer, content: str = CLAIM, source: str = "wiki:limits") -> dict[str, Any]:
    base = await host.revision(LIMITS)
    return await host.merge(LIMITS, content, section="Limits", source=source, base_revision=base)


async def contradictions(host: Writer, **arguments: Any) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = (await host.call("kb_contradictions", **arguments))["contradictions"]
    return found


async def approved(host: Writer, proposal_id: str) -> str:
    state = host.app.base.state
    proposal = await state.trust.proposal(proposal_id)
    assert proposal is not None
    return (await host.app.approvals.approve(proposal.id, proposal.hash, ANA)).state


async def audit(host: Writer) -> list[dict[str, Any]]:
    (content,) = (await host.client.read_resource("audit://recent")).contents
    assert isinstance(content, TextResourceContents)
    found: list[dict[str, Any]] = json.loads(content.text)
    return found


async def test_a_host_may_propose_a_dismissal_and_only_a_person_makes_it(settings: Settings) -> None:
    async with writing(settings, level=5) as host:
        assert (await claim(host))["status"] == "conflict"
        (found,) = await contradictions(host)
        rehearsed = await host.call("kb_dismiss", contradiction_id=found["id"], reason="two services", dry_run=True)
        assert (rehearsed["status"], rehearsed["contradiction_id"]) == ("analysis", found["id"])
        assert rehearsed["claims"] == [f"{LIMITS}: {found[side]['text']}" for side in ("existing", "new")]
        waits = await host.call("kb_dismiss", contradiction_id=found["id"], reason="two  services”")
        assert waits["status"] == "proposed"
        assert "a person's decision" in waits["proposal"]["why"]
        assert await contradictions(host) == [found]
        again = await host.call("kb_dismiss", contradiction_id=found["id"], reason="two  services”")
        assert again["proposal"]["id"] == waits["proposal"]["id"]
        assert await approved(host, waits["proposal"]["id"]) == "executed"
        assert await contradictions(host) == []
        (kept,) = await contradictions(host, dismissed=True)
        assert kept["dismissed"] == {
            **kept["dismissed"], "ruling": "both", "by": "ana (page, by word)", "reason": "two services”"
        }  # fmt: skip
        closed, newest = (await audit(host))[:2]
        assert closed["outcome"] == "rejected"
        assert (newest["tool"], newest["outcome"]) == ("kb_dismiss", "dismissed")
        records = await host.app.base.state.ledger.records()
        (body,) = [one for one in map(fields_of, records) if one["outcome"] == "dismissed"]
        assert (body["proposal"], body["intent"]) == (waits["proposal"]["id"], "two services”")


async def test_a_dismissal_counts_for_a_page_that_somebody_moved_in_a_file_manager(settings: Settings) -> None:
    async with writing(settings) as host:
        await claim(host)
        (found,) = await contradictions(host)
        await host.app.services.contradictions.dismiss(found["id"], "existing", by="ana", reason="it is 64")
        (settings.kb / LIMITS).rename(settings.kb / "quotas.md")
        sent = {"section": "Limits", "source": "wiki:limits", "base_revision": await host.revision("quotas.md")}
        answer = await host.merge("quotas.md", CLAIM, **sent)
        assert [block["verdict"] for block in answer["blocks"]] == ["retain"]
        assert "ana kept the existing text" in answer["blocks"][0]["reason"]
        other = await host.merge("quotas.md", CLAIM.replace("32", "16"), **sent)
        assert [block["verdict"] for block in other["blocks"]] == ["flag"]
        # While the page is there as well, nobody has decided about its copy.
        (settings.kb / LIMITS).write_text(TEXT, encoding="utf-8")
        assert [block["verdict"] for block in (await host.merge("quotas.md", CLAIM, **sent))["blocks"]] == ["flag"]


async def test_a_claim_that_a_person_let_stand_beside_another_is_written_and_not_flagged_again(
    settings: Settings,
) -> None:
    async with writing(settings) as host:
        await claim(host)
        (found,) = await contradictions(host)
        await host.app.services.contradictions.dismiss(found["id"], "both", by="ana", reason="two regions")
        answer = await claim(host)
        assert (answer["status"], [block["verdict"] for block in answer["blocks"]]) == ("done", ["integrate"])
        text = host.text(LIMITS)
        assert "up to 64 MiB" in text
        assert "up to 32 MiB" in text
        # Another value is another pair of statements.
        other = await claim(host, CLAIM.replace("32", "16"), source="wiki:more")
        assert [block["verdict"] for block in other["blocks"]] == ["flag"]
        assert await contradictions(host, dismissed=True) != []


@pytest.mark.parametrize("asked", [False, True])
async def test_the_proposal_of_a_claim_is_closed_if_both_statements_hold(settings: Settings, *, asked: bool) -> None:
    """It kept waiting, and approving it wrote the new statement in place of the one that holds."""
    async with writing(settings, level=5) as host:
        flagged = (await claim(host))["proposal"]
        (found,) = await contradictions(host)
        if asked:
            waits = await host.call("kb_dismiss", contradiction_id=found["id"], reason="two regions")
            assert await approved(host, waits["proposal"]["id"]) == "executed"
        else:
            decisions = ContradictionDecisions(host.app.services, host.app.approvals, ANA)
            done = await decisions.dismiss(found["id"], "both", "two regions")
            assert done.closed == [flagged["id"]]
        told = (await host.call("proposal_status", proposal_id=flagged["id"]))["proposal"]
        assert told["state"] == "rejected"
        assert "both statements hold (two regions); repeat the call" in told["decision"]["note"]
        assert (await host.call("trust_status"))["pending"] == []
        assert (await claim(host))["status"] == "done"
        for limit in ("64 MiB", "32 MiB"):
            assert limit in host.text(LIMITS)


async def test_a_rejected_claim_stays_rejected_with_the_reason_and_is_no_new_proposal(settings: Settings) -> None:
    async with writing(settings) as host:
        flagged = (await claim(host))["proposal"]
        proposal = await host.app.base.state.trust.proposal(flagged["id"])
        assert proposal is not None
        await host.app.approvals.reject(proposal.id, proposal.hash, ANA, "the limit was raised in May")
        assert await contradictions(host) == []
        answer = await claim(host, source="zulip:ops/limits/3")
        (block,) = answer["blocks"]
        assert (answer["status"], block["verdict"], answer["proposal"]) == ("unchanged", "retain", None)
        assert "ana (page) kept the existing text" in block["reason"]
        assert "the limit was raised in May" in block["reason"]
        assert host.text(LIMITS) == TEXT
        (kept,) = await contradictions(host, dismissed=True)
        await host.app.services.contradictions.reopen(kept["id"], by="ana")
        assert (await claim(host))["status"] == "conflict"


async def test_a_dismissal_needs_an_open_contradiction_and_a_reason(settings: Settings) -> None:
    async with writing(settings, level=5) as host:
        await claim(host)
        (found,) = await contradictions(host)
        with pytest.raises(Refused, match="there is no contradiction 4711"):
            await host.call("kb_dismiss", contradiction_id=4711, reason="x")
        with pytest.raises(Refused, match="reason"):
            await host.call("kb_dismiss", contradiction_id=found["id"], reason="")
        waits = await host.call("kb_dismiss", contradiction_id=found["id"], reason="  ")
        assert waits["status"] == "proposed"
        assert await approved(host, waits["proposal"]["id"]) == "failed"
        assert await contradictions(host) == [found]
        first = await host.call("kb_dismiss", contradiction_id=found["id"], reason="one")
        second = await host.call("kb_dismiss", contradiction_id=found["id"], reason="another")
        assert await approved(host, first["proposal"]["id"]) == "executed"
        assert await approved(host, second["proposal"]["id"]) == "failed"
        (kept,) = await contradictions(host, dismissed=True)
        assert kept["dismissed"]["reason"] == "one"


async def test_a_dismissal_follows_a_page_that_moves(settings: Settings) -> None:
    async with writing(settings) as host:
        await claim(host)
        (found,) = await contradictions(host)
        await host.app.services.contradictions.dismiss(found["id"], "existing", by="ana", reason="checked")
        await host.call("kb_move", path=LIMITS, to="guides/limits.md")
        base = await host.revision("guides/limits.md")
        answer = await host.merge("guides/limits.md", CLAIM, section="Limits", source="wiki:limits", base_revision=base)
        assert [block["verdict"] for block in answer["blocks"]] == ["retain"]
