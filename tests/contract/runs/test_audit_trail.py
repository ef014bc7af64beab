"""A run's id finds its acts in the audit chain: those it did by itself, and those a person approved."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from knowledge.history.audit.chain import fields_of
from knowledge.history.audit.inspection import inspect
from knowledge.history.codec import packed_intent, unpacked_intent
from knowledge.history.ports import Actor, HistoryEntry, Intent
from mcp_server.approvals.approvers import Approver
from mcp_server.gate.trust.reconcile import unaccounted
from tests.contract.toolsets.runs.test_injected_texts import PageContext, house, in_a_message
from tests.doubles.provider_turns import said, uses
from tests.support.state.ledgers import NOW


async def records(there: PageContext) -> list[dict[str, Any]]:
    ledger = there.app.services.state.ledger
    end, _ = await ledger.chain_end()
    return [fields_of(record) for record in await ledger.records(after=0, limit=end)]


async def test_all_acts_of_a_run_are_found_by_its_id_and_those_of_its_host_are_not(tmp_path: Path) -> None:
    async with house(tmp_path, level=4) as there:
        there.model.will(
            "Everything",
            uses("kb_merge", path="new.md", content="# New\n\nOne.\n"),
            uses("zulip_send_message", channel="team", topic="x", text="One."),
            uses("plane_create_task", project="OPS", name="One."),
            in_a_message(there, "x"),
            uses("zulip_send_message", channel="team", topic="x", text="Two."),
            said("Twenty."),
        )
        await there.writer.call("kb_merge", path="own.md", content="# Own\n\nMine.\n")
        answer = await there.writer.call("agent_run", goal="Everything.", max_iterations=9)
        waits = await there.app.services.state.trust.proposal(answer["proposal"]["id"])
        assert waits is not None
        assert (await there.app.approvals.approve(waits.id, waits.hash, Approver("ann", "page"))).state == "executed"
        run = await there.app.services.runs.store.run(answer["run_id"])
        keys = {call.tool: call.key for call in run.calls[:3]}
        acts = [(one["tool"], one["call"]) for one in await records(there) if one.get("call")]
        assert acts == [*keys.items(), ("zulip_send_message", run.id)]
        state = there.app.services.state
        assert (await inspect(state.ledger)).broken == ()
        assert list(await unaccounted(state)) == []


def test_an_act_in_progress_keeps_its_run() -> None:
    for call in ("", "r-1/f-1"):
        intent = Intent("i-1", NOW, HistoryEntry(NOW, Actor("ada@desktop", "kb_merge", "ab" * 32, call)))
        assert unpacked_intent(packed_intent(intent)) == intent
