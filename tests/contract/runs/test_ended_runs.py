"""An ended run withdraws what it waits for, whatever became of that meanwhile: nobody approves an act of a dead run."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import anyio
import pytest

from agents.loop.record.frames import Header
from knowledge.trust.ports import Proposal
from mcp_server.app.knowledge_base import utc_now
from mcp_server.approvals.approvers import Approver
from mcp_server.approvals.proposals import calls_of, run_of
from mcp_server.gate.host_registration import os_user
from mcp_server.gate.trust.scores import grant
from mcp_server.runs.interventions import cancel
from tests.doubles.provider_turns import said, uses
from tests.support.runs.hosts import RunHost, run_host

ANN = Approver("ann", "page")
MOVE = {"path": "guides/deploy.md", "to": "guides/release.md"}


async def proposing(host: RunHost) -> tuple[str, str]:
    """Return a run that waits for a person, and the proposal."""
    host.will("Move", uses("kb_move", **MOVE), said("Twenty."))
    answer = await host.call("agent_run", goal="Move it.")
    assert answer["status"] == "proposed"
    return answer["run_id"], answer["proposal"]["id"]


@pytest.mark.parametrize("by", ["a host", "a person"])
async def test_an_edited_proposal_is_withdrawn_with_its_run(by: str, tmp_path: Path) -> None:
    async with run_host(tmp_path) as host:
        services, (run, proposal) = host.app.services, await proposing(host)
        edited = await host.app.approvals.edit(proposal, [{**MOVE, "to": "guides/new.md"}], ANN)
        assert run_of(edited)["id"] == run
        if by == "a host":
            await services.runs.cancel(run, "a test")
        else:
            await cancel(services.state, services.runs.store, run, "a test", now=utc_now)
        left = await services.state.trust.proposal(edited.id)
        assert left is not None
        assert left.state == "withdrawn"


@pytest.mark.parametrize("by", ["a person", "the request"])
async def test_a_proposal_made_while_the_run_ends_is_withdrawn(
    by: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with run_host(tmp_path) as host:
        state, runs = host.app.services.state, host.app.services.runs
        propose, request = state.trust.propose, anyio.CancelScope()

        async def meanwhile(proposal: Proposal, **more: Any) -> Proposal:
            kept = await propose(proposal, **more)
            if by == "a person":
                await cancel(state, runs.store, run_of(kept)["id"], "a test", now=utc_now)
            else:
                request.cancel()
            return kept

        monkeypatch.setattr(state.trust, "propose", meanwhile)
        host.will("Move", uses("kb_move", **MOVE), said("Twenty."))
        header = Header(
            id="r-1",
            goal="Move it.",
            principal=f"{os_user()}@desktop",
            begun_at=utc_now(),
            model=host.app.services.model.name,
        )
        with request:
            await runs.carry(header)
        assert (await runs.store.run("r-1")).state == "cancelled"
        (proposal,) = await state.trust.proposals(principal=header.principal)
        assert (run_of(proposal)["id"], proposal.state) == ("r-1", "withdrawn")


async def test_the_hosts_own_replacement_stays(tmp_path: Path) -> None:
    async with run_host(tmp_path) as host:
        run, proposal = await proposing(host)
        own = await host.call("kb_move", path=MOVE["path"], to="guides/mine.md")
        await host.app.services.runs.cancel(run, "a test")
        first, second = [await host.app.services.state.trust.proposal(one) for one in (proposal, own["proposal"]["id"])]
        assert first is not None
        assert second is not None
        assert (first.state, first.successor, second.state) == ("superseded", second.id, "pending")


async def test_a_replacement_of_a_runs_proposal_carries_its_hosts_reading(tmp_path: Path) -> None:
    """The run learns the outcome, perhaps hours later, when the host's taint is forgotten."""
    async with run_host(tmp_path) as host:
        run, _ = await proposing(host)
        taints = host.app.services.taints
        await taints.note(f"{os_user()}@desktop", "", ["zulip:general > lunch"])
        assert not await taints.of_journey(run)
        await host.call("kb_move", path=MOVE["path"], to="guides/mine.md")
        assert list(await taints.of_journey(run)) == ["zulip:general > lunch"]


async def test_the_hosts_own_earlier_equal_proposal_stays(tmp_path: Path) -> None:
    async with run_host(tmp_path) as host:
        own = (await host.call("kb_move", **MOVE))["proposal"]["id"]
        run, proposal = await proposing(host)
        assert proposal == own
        await host.app.services.runs.cancel(run, "a test")
        left = await host.app.services.state.trust.proposal(own)
        assert left is not None
        assert left.state == "pending"


async def test_a_hosts_addition_to_a_runs_proposal_counts_as_the_runs(tmp_path: Path) -> None:
    async with run_host(tmp_path) as host:
        on = {"path": MOVE["path"], "base_revision": await host.writer.revision(MOVE["path"])}
        adds = uses("kb_merge", **on, content="## Who may\n\nOnly Ann.\n")
        host.will("Write", uses("ask_user", question="?"), adds, said("Twenty."))
        run = (await host.call("agent_run", goal="Write it."))["run_id"]
        who = (await host.app.services.runs.store.run(run)).header.principal
        await grant(host.app.services.state, who, 2, by="ann", now=utc_now())
        assert (await host.app.services.runs.answer(run, "Yes.", "ann")).state == "suspended"
        more = await host.call("kb_merge", **on, content="## When not\n\nOn Fridays.\n")
        both = await host.app.services.state.trust.proposal(more["proposal"]["id"])
        assert both is not None
        assert len(calls_of(both)) == 2
        assert run_of(both)["id"] == run
        assert run in both.why
