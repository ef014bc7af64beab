"""Task handles: who gets them, who owns them, and who is notified without asking."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import anyio
import pytest
from mcp.shared.exceptions import MCPError
from mcp_types import (
    ElicitRequestParams,
    ElicitResult,
    ErrorData,
    SubscriptionFilter,
    SubscriptionsAcknowledgedNotification,
    SubscriptionsListenRequest,
    SubscriptionsListenRequestParams,
    SubscriptionsListenResult,
    TextContent,
)

from mcp_server.app.settings.settings import Settings
from mcp_server.gate.host_registration import Principal, os_user
from mcp_server.gate.trust.scores import freeze
from tests.doubles.provider_turns import said, uses
from tests.support.hosts.task_clients import (
    IDENTIFIER,
    KnowsTasks,
    accepting,
    fitting,
    task_get,
)
from tests.support.hosts.task_servers import MISSING, MOVE, NO_METHOD, NOTE, OTHER_NAME, UNKNOWN, Place, place
from tests.support.hosts.writers import let_in
from tests.support.knowledge_bases.folders import write
from tests.support.roads.road import connect, opened
from tests.support.runs.hosts import run_host

pytestmark = pytest.mark.security


async def test_a_run_handles_result_is_what_a_waiting_call_returns(tmp_path: Path) -> None:
    knows = KnowsTasks()
    async with run_host(tmp_path) as host, connect(host.app, extensions=[knows]) as client:
        for words in ("one waits", "nobody waits"):
            host.will(words, uses("kb_read", path="guides/deploy.md"), said("In guides/deploy.md."))
        waited = await host.writer.client.call_tool("agent_run", {"goal": "Here one waits."})
        result = await client.call_tool("agent_run", {"goal": "Here nobody waits."})
    assert result.structured_content is not None
    assert waited.structured_content is not None
    assert result.structured_content["status"] == "done"
    run = result.structured_content["run_id"]
    assert [handle["taskId"] for handle in knows.handles] == [run]
    assert knows.handles[0]["status"] == "working"
    other = waited.structured_content["run_id"]
    told, waits = (
        one.model_dump_json(exclude={"meta"}) for one in (result, waited)
    )  # the envelope is the answer's own
    assert told.replace(run, "") == waits.replace(other, "")


async def test_a_task_belongs_to_its_caller_and_others_learn_nothing(tmp_path: Path) -> None:
    async with place(tmp_path, level=2) as at:
        task = (await at.wire.tool("kb_move", **MOVE))["taskId"]
        other = await let_in(at.host.settings, "laptop", 3)
        stranger = replace(at.wire, secret=other.enrolment or "", forms=True)
        for method, more in (
            ("get", {}),
            ("update", {"inputResponses": {task: accepting(decision="approve")}}),
            ("cancel", {}),
        ):
            foreign = await stranger.error(f"tasks/{method}", taskId=task, **more)
            unknown = await stranger.error(f"tasks/{method}", taskId="p-" + "0" * 20, **more)
            assert foreign["code"] == unknown["code"] == UNKNOWN
            assert foreign["message"].replace(task, "") == unknown["message"].replace("p-" + "0" * 20, "")
        assert (await at.proposal(task)).state == "pending"


async def test_an_invalid_id_is_no_task(tmp_path: Path) -> None:
    odd_ones = ("", "r-", "p-", "\N{REPLACEMENT CHARACTER}", "x" * 10_000, "p-' or 1=1 --", "r-\0")
    async with run_host(tmp_path) as host, connect(host.app, extensions=[KnowsTasks()]) as client:
        for odd in odd_ones:
            with pytest.raises(MCPError) as refused:
                await task_get(client.session, odd)
            assert refused.value.error.code == UNKNOWN
            assert len(refused.value.error.message) < 300


async def test_a_request_that_does_not_say_that_its_client_knows_tasks_gets_none(tmp_path: Path) -> None:
    async with place(tmp_path, level=2) as at:
        plain = replace(at.wire, tasks=False)
        answer = await plain.tool("kb_move", **MOVE)
        assert answer["resultType"] == "complete"
        task = answer["structuredContent"]["proposal"]["id"]
        listening = {"notifications": {"taskIds": [task]}}
        for method, params in (
            ("tasks/get", {"taskId": task}),
            ("tasks/update", {"taskId": task, "inputResponses": {}}),
            ("tasks/cancel", {"taskId": task}),
            ("subscriptions/listen", listening),
        ):
            error = await plain.error(method, **params)
            assert error["code"] == MISSING
            assert error["data"] == {"requiredCapabilities": {"extensions": {IDENTIFIER: {}}}}
        assert (await at.wire.ask("tasks/get", taskId=task))["status"] == "working"  # the same caller, the next request


async def test_clients_of_the_older_protocol_know_no_tasks_whatever_they_say(tmp_path: Path) -> None:
    async with (
        run_host(tmp_path, level=2, mode="legacy") as host,
        connect(host.app, mode="legacy", extensions=[KnowsTasks()]) as client,
    ):
        answer = await client.call_tool("kb_move", MOVE)
        assert (answer.structured_content or {})["status"] == "proposed"
        with pytest.raises(MCPError) as refused:
            await task_get(client.session, (answer.structured_content or {})["proposal"]["id"])
        assert refused.value.error.code == NO_METHOD


async def test_the_extension_is_advertised_with_and_without_a_model(tmp_path: Path) -> None:
    plain = await let_in(Settings(kb=write(tmp_path / "plain"), state_dir=tmp_path / "state"))
    async with (
        run_host(tmp_path / "with") as host,
        opened(plain, announcing=False, indexing=False) as app,
        connect(app) as client,
    ):
        for one in (host.writer.client, client):
            assert (one.server_capabilities.extensions or {})[IDENTIFIER] == {}


async def test_a_caller_frozen_meanwhile_learns_nothing_and_decides_nothing(tmp_path: Path) -> None:
    async with place(tmp_path, level=2) as at:
        task = (await at.wire.tool("kb_move", **MOVE))["taskId"]
        state, who = at.host.app.services.state, Principal(os_user(), "desktop")
        await freeze(state, who.id, by="ann", now=at.host.app.services.now(), reason="a test")
        answers = {task: accepting(decision="approve")}
        for method, more in (("get", {}), ("update", {"inputResponses": answers}), ("cancel", {})):
            error = await at.forms.error(f"tasks/{method}", taskId=task, **more)
            assert "frozen" in error["message"]
        assert (await at.proposal(task)).state == "pending"


async def test_a_header_that_names_another_task_or_none_is_refused(tmp_path: Path) -> None:
    """The extension's section on routing headers; the SDK checks those of the protocol's own methods."""
    async with place(tmp_path, level=2) as at:
        task = (await at.wire.tool("kb_move", **MOVE))["taskId"]
        for named in ("p-another", ""):
            told = await at.wire.post("tasks/get", {"taskId": task}, named=named)
            assert told["error"]["code"] == OTHER_NAME


async def test_calls_that_finish_immediately_get_no_handle(tmp_path: Path) -> None:
    async with run_host(tmp_path) as host, connect(host.app, extensions=[KnowsTasks()]) as client:
        answer = await client.call_tool("kb_read", {"path": "guides/deploy.md"})
        assert answer.structured_content
        refused = await client.call_tool("kb_read", {"path": "guides/none.md"})
        assert refused.is_error
        assert isinstance(refused.content[0], TextContent)


async def test_a_caller_that_gets_a_runs_answer_counts_as_having_read_what_the_run_read(tmp_path: Path) -> None:
    async with place(tmp_path) as at:
        (at.host.settings.kb / "mail.md").write_text("---\nuntrusted: true\n---\n# Mail\n", encoding="utf-8")
        at.host.will("Where is", uses("kb_read", path="mail.md"), said("On the roof."))
        task = (await at.wire.tool("agent_run", goal="Where is it?"))["taskId"]
        await at.wire.until(task, "completed")
        services, who = at.host.app.services, f"{os_user()}@desktop"
        assert await services.taints.of_journey(task)
        assert await services.taints.of(who, "")


@asynccontextmanager
async def listening(at: Place, *tasks: str, **more: Any) -> AsyncIterator[tuple[dict[str, Any], KnowsTasks]]:
    """Yield the acknowledgement of a subscription to these tasks, and where notifications arrive."""
    knows = KnowsTasks()
    acknowledged: list[dict[str, Any]] = []
    there = anyio.Event()

    async def hear(message: Any) -> None:
        if isinstance(message, SubscriptionsAcknowledgedNotification):
            acknowledged.append(message.params.notifications.model_dump(by_alias=True, exclude_none=True))
            there.set()

    async with (
        connect(at.host.app, extensions=[knows], message_handler=hear, elicitation_callback=_dismissing) as client,
        anyio.create_task_group() as group,
    ):
        wanted = SubscriptionFilter.model_validate({"taskIds": list(tasks), **more})
        request = SubscriptionsListenRequest(params=SubscriptionsListenRequestParams(notifications=wanted))
        group.start_soon(client.session.send_request, request, SubscriptionsListenResult)
        with anyio.fail_after(60):
            await there.wait()
        yield acknowledged[0], knows
        group.cancel_scope.cancel()


async def _dismissing(context: Any, params: ElicitRequestParams) -> ElicitResult | ErrorData:
    del context, params
    return ElicitResult(action="cancel")


async def heard(knows: KnowsTasks, status: str) -> dict[str, Any]:
    """Return the newest notification once it has this status."""
    with anyio.fail_after(60):
        while not knows.noted or knows.noted[-1]["status"] != status:
            await knows.told()
    return knows.noted[-1]


async def test_a_task_listener_gets_every_change_that_tasks_get_would_show(tmp_path: Path) -> None:
    async with place(tmp_path, level=2) as at:
        task = (await at.wire.tool("kb_merge", **NOTE))["taskId"]
        async with listening(at, task, "p-unknown", resourceSubscriptions=["kb:new.md"]) as (acknowledged, knows):
            assert acknowledged == {"taskIds": [task], "resourceSubscriptions": ["kb:new.md"]}
            assert (await heard(knows, "input_required"))["taskId"] == task
            await at.forms.ask("tasks/update", taskId=task, inputResponses={task: {"action": "cancel"}})
            assert "inputRequests" not in await heard(knows, "working")
            await at.decide(task)
            told = await heard(knows, "completed")
            fitting("TaskStatusNotification", {"jsonrpc": "2.0", "method": "notifications/tasks", "params": told})
            got = await at.wire.ask("tasks/get", taskId=task)
            assert {**told, "_meta": 0, "resultType": 0} == {**got, "_meta": 0, "resultType": 0}
            assert len({str(one) for one in knows.noted}) == len(knows.noted)


async def test_a_listener_whose_secret_was_replaced_gets_nothing_more(tmp_path: Path) -> None:
    async with place(tmp_path, level=2) as at:
        task = (await at.wire.tool("kb_merge", **NOTE))["taskId"]
        async with listening(at, task) as (_, knows):
            await heard(knows, "input_required")
            now = await let_in(at.host.settings, "desktop", 2, forms=True)
            async with (
                opened(now, indexing=False, announcing=False) as app,
                listening(replace(at, host=replace(at.host, writer=replace(at.host.writer, app=app))), task) as (
                    _,
                    new,
                ),
            ):
                await heard(new, "input_required")
                await at.decide(task)
                await heard(new, "completed")
                await replace(at.wire, secret=now.enrolment or "").until(task, "completed")
            assert [told["status"] for told in knows.noted] == ["input_required"]


async def test_clients_without_task_listening_are_served_normally_and_odd_ids_refused(tmp_path: Path) -> None:
    async with place(tmp_path, level=2) as at:
        for odd in ("p-1", [1], {"a": 1}, ["p"] * 101):
            error = await at.wire.error("subscriptions/listen", notifications={"taskIds": odd})
            assert error["code"] == UNKNOWN
        async with connect(at.host.app) as client, client.listen(resource_subscriptions=["kb:new.md"]):
            pass
