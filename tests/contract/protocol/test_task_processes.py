"""Task handles across real processes.

A handle stays valid in the next server after a kill, over stdio and over HTTP.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import httpx
import pytest
from mcp_types import ElicitRequestParams, ElicitResult, ErrorData

from mcp_server.app.composition import open_app
from mcp_server.app.settings.settings import Settings
from mcp_server.approvals.approvers import Approver
from tests.doubles.provider import KEY, Model
from tests.doubles.provider_turns import Call, Turn, said
from tests.doubles.serving import served
from tests.support.hosts.task_clients import PATIENCE_S, KnowsTasks, Wire, accepting, task_get, task_until, task_update
from tests.support.hosts.writers import let_in
from tests.support.journeys.hosts import Site, over_stdio, serving_http
from tests.support.knowledge_bases.folders import write

pytestmark = pytest.mark.external

NOTE = {"path": "new.md", "content": "# New\n\nOne.\n"}


async def forms(context: Any, params: ElicitRequestParams) -> ElicitResult | ErrorData:
    """Declare a client that shows forms; with these handles it shows none."""
    raise AssertionError(f"a form was shown: {params.message} ({context})")


async def site(folder: Path, level: float, **variables: str) -> tuple[Site, Settings]:
    """Return a knowledge base, as its servers' environment names it, whose host has that level."""
    kb, state_dir = write(folder / "kb"), folder / "state"
    settings = Settings(kb=kb, state_dir=state_dir, open_browser=False)
    settings = await let_in(settings, "desktop", level, forms=True)
    return Site(kb, state_dir, {"FORGE_ENROLMENT": settings.enrolment or "", **variables}), settings


async def test_a_run_that_asks_is_answered_by_its_handle_in_the_next_server(tmp_path: Path) -> None:
    model = Model()
    model.will("Sum up", Turn(calls=(Call("ask_user", {"question": "Which page?"}),)), said("Twenty."))
    async with served(model) as there:
        variables = {
            "FORGE_MODEL": "openai:some-model",
            "OPENAI_API_KEY": KEY,
            "OPENAI_BASE_URL": f"{there.address}/v1",
        }
        at, _ = await site(tmp_path, 3, **variables)
        knows = KnowsTasks(waits=False)
        more: Mapping[str, Any] = {"extensions": [knows], "elicitation_callback": forms}
        async with over_stdio(at, **more) as host:
            await host.client.call_tool("agent_run", {"goal": "Sum up a page."})
            task = knows.handles[0]["taskId"]
            asked = (await task_until(host.client.session, task, "input_required"))["inputRequests"]
            host.kill()
        async with over_stdio(at, **more) as host:
            session = host.client.session
            assert (await task_get(session, task))["inputRequests"] == asked
            await task_update(session, task, **dict.fromkeys(asked, accepting(answer="this one")))
            done = await task_until(session, task, "completed")
    assert done["result"]["structuredContent"]["text"] == "Twenty."


async def approved_elsewhere(settings: Settings, task: str) -> None:
    """Approve what the task waits for, as a person at the command line."""
    async with open_app(settings, announcing=False, indexing=False) as app:
        proposal = await app.services.state.trust.proposal(task)
        assert proposal is not None
        await app.approvals.approve(task, proposal.hash, Approver("ann", "terminal"))


async def test_a_decision_made_while_no_server_ran_is_reported_by_the_next_one_over_stdio(tmp_path: Path) -> None:
    at, settings = await site(tmp_path, 2)
    knows = KnowsTasks(waits=False)
    async with over_stdio(at, extensions=[knows]) as host:
        await host.client.call_tool("kb_merge", NOTE)
    task = knows.handles[0]["taskId"]
    await approved_elsewhere(settings, task)
    async with over_stdio(at, extensions=[knows]) as host:
        done = await task_until(host.client.session, task, "completed")
    assert done["result"]["structuredContent"]["status"] == "done"
    assert (settings.kb / NOTE["path"]).exists()


async def test_a_decision_made_while_no_server_ran_is_reported_by_the_next_one_over_http(tmp_path: Path) -> None:
    at, settings = await site(tmp_path, 2)
    async with (
        serving_http(at) as url,
        httpx.AsyncClient(base_url=url.removesuffix("/mcp"), timeout=PATIENCE_S) as http,
    ):
        task = (await Wire(http, settings.enrolment or "").tool("kb_merge", **NOTE))["taskId"]
    await approved_elsewhere(settings, task)
    async with (
        serving_http(at) as url,
        httpx.AsyncClient(base_url=url.removesuffix("/mcp"), timeout=PATIENCE_S) as http,
    ):
        done = await Wire(http, settings.enrolment or "").until(task, "completed")
    assert done["result"]["structuredContent"]["status"] == "done"
    assert (settings.kb / NOTE["path"]).exists()
