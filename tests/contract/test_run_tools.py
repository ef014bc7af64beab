"""`agent_run` and `agent_trace` through a real client, with a model on a real socket."""

from __future__ import annotations

from pathlib import Path

import anyio
import pytest

from tests.doubles.provider_turns import said, uses
from tests.run_hosts import run_host

pytestmark = pytest.mark.parametrize("mode", ["auto", "legacy"])


async def test_a_run_answers_from_the_knowledge_base(tmp_path: Path, mode: str) -> None:
    async with run_host(tmp_path, mode=mode) as host:
        host.will("Where is", uses("kb_read", path="guides/deploy.md"), said("It stands in guides/deploy.md."))
        answer = await host.call("agent_run", goal="Where is the deployment told?")
        trace = await host.call("agent_trace", run_id=answer["run_id"])
    assert answer["status"] == "done"
    assert answer["tools_called"] == ["kb_read"]
    assert "kb_read" in trace["text"]


async def test_a_run_goes_on_when_a_person_has_decided(tmp_path: Path, mode: str) -> None:
    async with run_host(tmp_path, mode=mode) as host:
        host.will(
            "Move it",
            uses("kb_move", path="guides/deploy.md", to="guides/release.md"),
            said("It lies at guides/release.md."),
        )
        answer = await host.call("agent_run", goal="Move it.")
        assert answer["status"] == "proposed"
        waiting = await host.app.services.state.trust.proposal(answer["proposal"]["id"])
        assert waiting is not None
        from mcp_server.gate.deciding import Person

        await host.app.desk.approve(waiting.id, waiting.hash, Person("ann", "page"))
        with anyio.fail_after(20):
            async for _ in host.app.services.runs.followed(answer["run_id"], 0):
                pass
            trace = await host.call("agent_trace", run_id=answer["run_id"])
    assert "release" in trace["text"]
