"""A model, or someone answering in its place, that sends what no model should.

The run continues or ends in words, and stays readable.
"""

from __future__ import annotations

from pathlib import Path

import anyio
import pytest

from agents.loop.decision import MOST_ARGUMENTS_CHARS, MOST_CALLS, MOST_NOTED, MOST_SAID_CHARS
from agents.loop.record.frames import Header, PlanFrame, ToolCallFrame, ToolResult
from agents.loop.store.ports import Hold
from mcp_server.app.knowledge_base import utc_now
from mcp_server.gate.caller import Call as InnerCall
from mcp_server.gate.dispatch import CallAnswered, CallFailed
from mcp_server.gate.host_registration import Principal, os_user
from mcp_server.runs.supervisor import MOST_ASIDE, MOST_UNDER_WAY
from tests.doubles.provider_turns import Call, Turn, said, uses
from tests.support.runs.hosts import RunHost, run_host

pytestmark = pytest.mark.security

VENDORS = pytest.mark.parametrize("vendor", ["openai", "openai-responses"])


async def frames(host: RunHost, run: str, kind: type) -> list[object]:
    return [frame for frame in (await host.app.services.runs.store.run(run)).frames if isinstance(frame, kind)]


@VENDORS
async def test_a_lone_surrogate_in_a_models_answer_question_or_call_ends_no_run(vendor: str, tmp_path: Path) -> None:
    """Models split characters at the end of a cut answer, and such halves can't be sent to anyone."""
    half = '"a\\ud800b\\u0000"'
    searches, asks = (
        Turn("", (Call("kb_search", f'{{"query":{half}}}'),)),
        Call("ask_user", f'{{"question":{half}}}'),
    )
    async with run_host(tmp_path, vendor=vendor) as host:
        host.will("Half", searches, Turn("", (asks,)), said("Twenty."))
        asking = await host.call("agent_run", goal="Half of it.")
        assert (asking["status"], asking["question"]) == ("asking", "a\N{REPLACEMENT CHARACTER}b\0")
        done = await host.call("agent_run", run_id=asking["run_id"], answer="Go on.")
        assert (done["status"], done["text"]) == ("done", "Twenty.")
        assert (await host.call("agent_trace", run_id=done["run_id"]))["status"] == "done"


async def test_of_one_answer_so_many_calls_are_made_and_so_many_are_on_record(tmp_path: Path) -> None:
    async with run_host(tmp_path) as host:
        host.will("Many", Turn(calls=tuple(Call("proposal_status", {}) for _ in range(500))), said("Twenty."))
        done = await host.call("agent_run", goal="Many of them.", timeout_seconds=600)
        results = await frames(host, done["run_id"], ToolResult)
    assert done["status"] == "done"
    assert [result.called for result in results] == [True] * MOST_CALLS + [False] * (MOST_NOTED - MOST_CALLS)  # type: ignore[attr-defined]
    assert "one answer may call" in results[-1].error  # type: ignore[attr-defined]


async def test_answers_of_megabytes_are_not_kept(tmp_path: Path) -> None:
    long = "y" * (MOST_ARGUMENTS_CHARS + 1)
    async with run_host(tmp_path) as host:
        host.will(
            "Long",
            uses("kb_read", path=long),
            uses("kb_map"),
            uses("x" * 300_000),
            uses("kb_map"),
            said(long),
            said("Twenty."),
        )
        done = await host.call("agent_run", goal="Long words.", max_iterations=9)
        calls, plans = await frames(host, done["run_id"], ToolCallFrame), await frames(host, done["run_id"], PlanFrame)
    assert done["status"] == "done"
    assert max(len(plan.reasoning) for plan in plans) <= MOST_SAID_CHARS  # type: ignore[attr-defined]
    assert all(len(str(call)) < 10_000 for call in calls)


async def test_a_host_may_have_a_limited_number_of_runs_and_an_approved_one_begins(tmp_path: Path) -> None:
    who = f"{os_user()}@desktop"
    async with run_host(tmp_path) as host:
        runs = host.app.services.runs
        host.will("Much", *[said("Twenty.")] * 200)
        adrift = [
            Header(id=f"r-{n:020}", goal="x", principal=who, begun_at=utc_now(), model="other:model")
            for n in range(MOST_UNDER_WAY - 2)
        ]
        for header in adrift:
            await runs.store.begin(header, Hold("dead", utc_now(), utc_now()))
        outcomes: list[CallAnswered | CallFailed] = []

        async def begin() -> None:
            call = InnerCall(Principal(os_user(), "desktop"), detached=True)
            outcomes.append(await host.app.gate.dispatch("agent_run", {"goal": "Much of it."}, call))

        async with anyio.create_task_group() as group:
            for _ in range(50):
                group.start_soon(begin)
        refused = [one.why for one in outcomes if isinstance(one, CallFailed)]
        assert len(await runs.store.runs(limit=1_000)) == len(adrift) + 50 - len(refused)
        assert len(refused) >= 50 - 2 * MOST_ASIDE
        assert all("runs in progress" in why for why in refused)
        for header in adrift:
            await runs.cancel(header.id, "a test")
        assert (await host.call("agent_run", goal="Much more."))["status"] == "done"
