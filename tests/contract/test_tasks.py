"""Task handles: the Tasks extension (SEP-2663) for runs and for calls that wait for a person, through the SDK's client and by hand."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import anyio
import pytest
from mcp import Client
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

from agents.loop.frames import Answered
from knowledge.trust.ports import Proposal
from mcp_server.app import open_app
from mcp_server.gate.deciding import Person
from mcp_server.gate.enrolment import Principal, os_user
from mcp_server.gate.scores import freeze
from tests.doubles.provider_turns import Call, Turn, said, uses
from tests.run_hosts import RunHost, run_host
from tests.task_clients import (
    IDENTIFIER,
    KnowsTasks,
    Wire,
    accepting,
    fitting,
    task_cancel,
    task_get,
    task_until,
    wired,
)
from tests.writers import let_in

NOTE = {"path": "new.md", "content": "# New\n\nOne.\n"}
MOVE = {"path": "guides/deploy.md", "to": "guides/release.md"}
ANN = Person("ann", "page")
UNKNOWN, MISSING, OTHER_NAME, NO_METHOD = -32602, -32021, -32020, -32601


@dataclass(frozen=True)
class Place:
    """One server: `host` is a client that knows no tasks, `wire` speaks by hand; both are the same principal."""

    host: RunHost
    wire: Wire

    @property
    def forms(self) -> Wire:
        """Return the same, by somebody who shows forms."""
        return replace(self.wire, forms=True)

    async def proposal(self, proposal_id: str) -> Proposal:
        found = await self.host.app.services.state.trust.proposal(proposal_id)
        assert found is not None
        return found

    async def decide(self, proposal_id: str, *, approve: bool = True, note: str = "") -> None:
        """Decide as a person on the page."""
        proposal = await self.proposal(proposal_id)
        desk = self.host.app.desk
        await (desk.approve if approve else desk.reject)(proposal.id, proposal.hash, ANN, note)

    def written(self) -> bool:
        return (self.host.settings.kb / NOTE["path"]).exists()

    def moved(self) -> bool:
        return (self.host.settings.kb / MOVE["to"]).exists()


@asynccontextmanager
async def place(folder: Path, **more: Any) -> AsyncIterator[Place]:
    async with run_host(folder, **more) as host, wired(host.app, host.settings.enrolment or "") as wire:
        yield Place(host, wire)


def asks(question: str) -> Turn:
    return Turn(calls=(Call("ask_user", {"question": question}),))


async def test_the_result_of_a_run_by_handle_is_what_the_call_returns_to_whoever_waits(tmp_path: Path) -> None:
    knows = KnowsTasks()
    async with run_host(tmp_path) as host, Client(host.app.server, extensions=[knows]) as client:
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


async def test_every_message_about_tasks_fits_the_schema_of_the_extension(tmp_path: Path) -> None:
    async with place(tmp_path) as at:
        at.host.will("Sum up", asks("Which page?"), said("Done."))
        handle = await at.wire.tool("agent_run", goal="Sum up a page.")
        fitting("CreateTaskResult", handle)
        assert not {"inputRequests", "result", "error", "task"} & set(handle)
        asking = await at.forms.until(handle["taskId"], "input_required")
        ((key, _),) = asking["inputRequests"].items()
        answers = {key: accepting(answer="this one")}
        updated = await at.forms.ask("tasks/update", taskId=handle["taskId"], inputResponses=answers)
        fitting("UpdateTaskResult", updated)
        done = await at.wire.until(handle["taskId"], "completed")
        assert "pollIntervalMs" not in done
        cancelled = await at.wire.ask("tasks/cancel", taskId=handle["taskId"])
        fitting("CancelTaskResult", cancelled)
        assert set(updated) == set(cancelled) == {"resultType", "_meta"}
        assert (await at.wire.ask("tasks/get", taskId=handle["taskId"])) == done


async def test_each_question_of_a_run_has_its_own_key_and_an_old_one_answers_nothing(tmp_path: Path) -> None:
    heard: list[str] = []

    def notes(asked: Mapping[str, Any]) -> Turn:
        heard.append(str(asked))
        return asks("And which section?")

    async with place(tmp_path) as at:
        at.host.will("Sum up", asks("Which page?"), notes, said("Done."))
        task = (await at.wire.tool("agent_run", goal="Sum up a page."))["taskId"]
        first = (await at.forms.until(task, "input_required"))["inputRequests"]
        assert (await at.forms.ask("tasks/get", taskId=task))["inputRequests"] == first
        ((key, request),) = first.items()
        assert "Which page?" in request["params"]["message"]
        await at.forms.ask("tasks/update", taskId=task, inputResponses={"nothing": accepting(answer="no")})
        await at.forms.ask("tasks/update", taskId=task, inputResponses={key: accepting(answer="the first")})
        with anyio.fail_after(20):
            while (second := (await at.forms.until(task, "input_required"))["inputRequests"]) == first:
                pass
        assert set(second).isdisjoint(first)
        await at.forms.ask("tasks/update", taskId=task, inputResponses={key: accepting(answer="too late")})
        assert (await at.forms.ask("tasks/get", taskId=task))["inputRequests"] == second
        await at.forms.ask(
            "tasks/update",
            taskId=task,
            inputResponses={key: accepting(answer="old")} | dict.fromkeys(second, accepting(answer="two")),
        )
        done = await at.forms.until(task, "completed")
        assert done["result"]["structuredContent"]["status"] == "done"
        frames = (await at.host.app.services.runs.store.run(task)).frames
    assert "the first" in heard[0]
    answers = [(frame.text, frame.by) for frame in frames if isinstance(frame, Answered)]
    by = f"{os_user()}@desktop (in the host)"
    assert answers == [("the first", by), ("two", by)]


async def test_a_question_is_put_to_clients_that_show_forms_only_and_others_are_told_of_it(tmp_path: Path) -> None:
    async with place(tmp_path) as at:
        at.host.will("Sum up", asks("Which page?"), said("Done."))
        task = (await at.wire.tool("agent_run", goal="Sum up a page."))["taskId"]
        ((key, _),) = (await at.forms.until(task, "input_required"))["inputRequests"].items()
        told = await at.wire.ask("tasks/get", taskId=task)
        assert (told["status"], "inputRequests" in told) == ("working", False)
        assert "Which page?" in told["statusMessage"]
        await at.wire.ask("tasks/update", taskId=task, inputResponses={key: accepting(answer="by no form")})
        assert (await at.forms.ask("tasks/get", taskId=task))["status"] == "input_required"
        answered = await at.host.call("agent_run", run_id=task, answer="this one")
        assert answered["status"] == "done"
        assert (await at.wire.until(task, "completed"))["result"]["structuredContent"]["text"] == "Done."


@pytest.mark.parametrize("dismissal", [{"action": "cancel"}, {"action": "decline"}, accepting(answer="  ")])
async def test_a_form_that_was_dismissed_is_not_shown_again_and_the_run_still_waits(
    tmp_path: Path, dismissal: dict[str, Any]
) -> None:
    async with place(tmp_path) as at:
        at.host.will("Sum up", asks("Which page?"), said("Done."))
        task = (await at.wire.tool("agent_run", goal="Sum up a page."))["taskId"]
        ((key, _),) = (await at.forms.until(task, "input_required"))["inputRequests"].items()
        await at.forms.ask("tasks/update", taskId=task, inputResponses={key: dismissal})
        told = await at.forms.ask("tasks/get", taskId=task)
        assert (told["status"], "inputRequests" in told) == ("working", False)
        assert (await at.host.call("agent_run", run_id=task, answer="this one"))["status"] == "done"
        await at.forms.until(task, "completed")


async def test_what_is_no_answer_to_a_form_is_refused_and_decides_nothing(tmp_path: Path) -> None:
    async with place(tmp_path) as at:
        at.host.will("Sum up", asks("Which page?"), said("Done."))
        task = (await at.wire.tool("agent_run", goal="Sum up a page."))["taskId"]
        ((key, _),) = (await at.forms.until(task, "input_required"))["inputRequests"].items()
        error = await at.forms.error("tasks/update", taskId=task, inputResponses={key: {"action": "agree"}})
        assert error["code"] == UNKNOWN
        assert (await at.forms.ask("tasks/get", taskId=task))["status"] == "input_required"


@pytest.mark.parametrize("decision", ["approve", "reject"])
async def test_a_run_and_what_it_proposes_are_decided_by_forms_of_one_task(tmp_path: Path, decision: str) -> None:
    async with place(tmp_path, level=2) as at:
        at.host.will("Write", uses("kb_merge", **NOTE), said("That is that."))
        task = (await at.wire.tool("agent_run", goal="Write it."))["taskId"]
        start = await at.forms.until(task, "input_required")
        assert set(start["inputRequests"]) == {task}
        await at.forms.ask("tasks/update", taskId=task, inputResponses={task: accepting(decision="approve")})
        ((key, request),) = (await at.forms.until(task, "input_required"))["inputRequests"].items()
        assert key != task
        assert NOTE["path"] in request["params"]["message"]
        assert (await at.wire.ask("tasks/get", taskId=task))["status"] == "working"
        await at.forms.ask("tasks/update", taskId=task, inputResponses={key: accepting(decision=decision)})
        done = await at.forms.until(task, "completed")
        assert done["result"]["structuredContent"]["status"] == "done"
        verdict = (await at.proposal(key)).verdict
        assert verdict is not None
        assert (verdict.channel, verdict.by) == ("host", f"{os_user()}@desktop (in the host)")
        assert at.written() == (decision == "approve")


async def test_a_call_that_waits_for_a_person_is_a_handle_and_completes_with_what_it_did(tmp_path: Path) -> None:
    async with place(tmp_path, level=2) as at:
        handle = await at.wire.tool("kb_move", **MOVE)
        fitting("CreateTaskResult", handle)
        task = handle["taskId"]
        assert handle["status"] == "working"
        lasts = (await at.proposal(task)).expires_at - (await at.proposal(task)).created_at
        assert handle["ttlMs"] == lasts.total_seconds() * 1000
        assert "a person decides" in handle["statusMessage"]
        await at.decide(task)
        done = await at.wire.until(task, "completed")
        assert at.moved()
        assert done["ttlMs"] is None
        content = done["result"]["structuredContent"]
        assert (content["status"], content["proposal"]["state"]) == ("done", "executed")
        kept = await at.host.call("proposal_status", proposal_id=task)
        assert {**kept["proposal"]["result"], "proposal": None} == {**content, "proposal": None}


async def test_what_was_rejected_completes_as_a_call_that_did_nothing_and_says_why(tmp_path: Path) -> None:
    async with place(tmp_path, level=2) as at:
        task = (await at.wire.tool("kb_move", **MOVE))["taskId"]
        await at.decide(task, approve=False, note="It is linked from outside.")
        content = (await at.wire.until(task, "completed"))["result"]["structuredContent"]
        assert (content["status"], content["proposal"]["state"]) == ("proposed", "rejected")
        assert content["proposal"]["decision"]["note"] == "It is linked from outside."


async def test_what_was_approved_and_failed_completes_as_an_error_of_the_tool(tmp_path: Path) -> None:
    async with place(tmp_path, level=2) as at:
        task = (await at.wire.tool("kb_move", **MOVE))["taskId"]
        (at.host.settings.kb / MOVE["path"]).unlink()
        await at.decide(task)
        done = await at.wire.until(task, "completed")
        assert done["result"]["isError"] is True
        assert "approved, but not done" in done["result"]["content"][0]["text"]


async def test_a_newer_proposal_in_the_place_of_one_is_followed_by_its_handle(tmp_path: Path) -> None:
    async with place(tmp_path, level=2) as at:
        first = (await at.wire.tool("kb_merge", **NOTE))["taskId"]
        second = (await at.wire.tool("kb_merge", path="new.md", content="# New\n\nOne.\n\nTwo.\n"))["taskId"]
        assert first != second
        asking = await at.forms.ask("tasks/get", taskId=first)
        assert set(asking["inputRequests"]) == {second}
        await at.decide(second)
        for task in (first, second):
            assert (await at.wire.until(task, "completed"))["result"]["structuredContent"]["status"] == "done"


async def test_a_run_that_a_person_has_to_agree_to_is_one_task_from_the_proposal_to_its_end(tmp_path: Path) -> None:
    async with place(tmp_path, level=2) as at:
        at.host.will("Where is", uses("kb_read", path="guides/deploy.md"), said("In guides/deploy.md."))
        handle = await at.wire.tool("agent_run", goal="Where is it?")
        assert handle["taskId"].startswith("p-")
        await at.decide(handle["taskId"])
        done = await at.wire.until(handle["taskId"], "completed")
        assert done["createdAt"] == handle["createdAt"]
        assert done["result"]["structuredContent"]["text"] == "In guides/deploy.md."


@pytest.mark.parametrize("answer", ["approve", "cancel"])
async def test_a_form_comes_before_the_handle_and_what_it_was_dismissed_for_is_not_asked_again(
    tmp_path: Path, answer: str
) -> None:
    shown: list[str] = []

    async def elicit(context: Any, params: ElicitRequestParams) -> ElicitResult | ErrorData:
        del context
        shown.append(params.message)
        if answer == "cancel":
            return ElicitResult(action="cancel")
        return ElicitResult(action="accept", content={"decision": answer})

    knows = KnowsTasks(waits=False)
    async with (
        place(tmp_path, level=2) as at,
        Client(at.host.app.server, extensions=[knows], elicitation_callback=elicit) as client,
    ):
        if answer == "approve":
            result = await client.call_tool("kb_merge", NOTE)
            assert (result.structured_content or {})["status"] == "done"
            assert knows.handles == []
        else:
            await client.call_tool("kb_merge", NOTE)
            task = knows.handles[0]["taskId"]
            assert (await task_get(client.session, task))["status"] == "working"
            await task_cancel(client.session, task)
            await task_until(client.session, task, "cancelled")
        assert len(shown) == 1
        assert at.written() == (answer == "approve")


async def test_what_needs_more_than_a_word_in_the_host_is_not_asked_there(tmp_path: Path) -> None:
    async with place(tmp_path, level=2) as at:
        proposal = await at.proposal((await at.wire.tool("kb_move", **MOVE))["taskId"])
        high = replace(proposal, id="p-high", level_needed=4, hash="", documents=())
        await at.host.app.services.state.trust.propose(high, most_pending=20)
        told = await at.forms.ask("tasks/get", taskId="p-high")
        assert (told["status"], "inputRequests" in told) == ("working", False)
        answers = {"p-high": accepting(decision="approve")}
        await at.forms.ask("tasks/update", taskId="p-high", inputResponses=answers)
        assert (await at.proposal("p-high")).state == "pending"


async def test_cancelling_ends_a_run_and_takes_a_proposal_back(tmp_path: Path) -> None:
    async with place(tmp_path) as at:
        at.host.will("Sum up", asks("Which page?"), said("Done."))
        run = (await at.wire.tool("agent_run", goal="Sum up a page."))["taskId"]
        await at.forms.until(run, "input_required")
        await at.wire.ask("tasks/cancel", taskId=run)
        told = await at.wire.until(run, "cancelled")
        assert "the client cancelled the task" in told["statusMessage"]
        await at.wire.ask("tasks/cancel", taskId=run)
    async with place(tmp_path / "lower", level=2) as at:
        task = (await at.wire.tool("kb_move", **MOVE))["taskId"]
        await at.wire.ask("tasks/cancel", taskId=task)
        assert (await at.wire.until(task, "cancelled"))["taskId"] == task
        assert (await at.proposal(task)).state == "withdrawn"


async def test_a_task_is_its_callers_alone_and_of_others_nothing_is_told(tmp_path: Path) -> None:
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
        for odd in ("", "r-", "\ud83d", "x" * 10_000, "p-' or 1=1 --"):
            assert (await at.wire.error("tasks/get", taskId=odd.encode("utf-8", "replace").decode()))["code"] == UNKNOWN


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
        Client(host.app.server, mode="legacy", extensions=[KnowsTasks()]) as client,
    ):
        answer = await client.call_tool("kb_move", MOVE)
        assert (answer.structured_content or {})["status"] == "proposed"
        with pytest.raises(MCPError) as refused:
            await task_get(client.session, (answer.structured_content or {})["proposal"]["id"])
        assert refused.value.error.code == NO_METHOD


async def test_the_extension_is_advertised_with_and_without_a_model(tmp_path: Path) -> None:
    async with run_host(tmp_path) as host:
        assert IDENTIFIER in (host.writer.client.server_capabilities.extensions or {})


async def test_whoever_was_frozen_meanwhile_is_told_nothing_and_decides_nothing(tmp_path: Path) -> None:
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
    """The extension's section on routing headers; the protocol's own methods are held to theirs by the SDK."""
    async with place(tmp_path, level=2) as at:
        task = (await at.wire.tool("kb_move", **MOVE))["taskId"]
        for named in ("p-another", ""):
            told = await at.wire.post("tasks/get", {"taskId": task}, named=named)
            assert told["error"]["code"] == OTHER_NAME


async def test_calls_that_are_over_at_once_are_answered_as_ever(tmp_path: Path) -> None:
    async with run_host(tmp_path) as host, Client(host.app.server, extensions=[KnowsTasks()]) as client:
        answer = await client.call_tool("kb_read", {"path": "guides/deploy.md"})
        assert answer.structured_content
        refused = await client.call_tool("kb_read", {"path": "guides/none.md"})
        assert refused.is_error
        assert isinstance(refused.content[0], TextContent)


async def test_who_is_told_the_answer_of_a_run_has_read_what_the_run_read(tmp_path: Path) -> None:
    async with place(tmp_path) as at:
        (at.host.settings.kb / "mail.md").write_text("---\nuntrusted: true\n---\n# Mail\n", encoding="utf-8")
        at.host.will("Where is", uses("kb_read", path="mail.md"), said("There."))
        task = (await at.wire.tool("agent_run", goal="Where is it?"))["taskId"]
        await at.wire.until(task, "completed")
        services, who = at.host.app.services, f"{os_user()}@desktop"
        assert await services.taints.of_journey(task)
        assert await services.taints.of(who, "")


@asynccontextmanager
async def listening(at: Place, *tasks: str, **more: Any) -> AsyncIterator[tuple[dict[str, Any], KnowsTasks]]:
    """Yield what was acknowledged to somebody who listens to these tasks, and where notifications arrive."""
    knows = KnowsTasks()
    acknowledged: list[dict[str, Any]] = []
    there = anyio.Event()

    async def hear(message: Any) -> None:
        if isinstance(message, SubscriptionsAcknowledgedNotification):
            acknowledged.append(message.params.notifications.model_dump(by_alias=True, exclude_none=True))
            there.set()

    async with (
        Client(at.host.app.server, extensions=[knows], message_handler=hear) as client,
        anyio.create_task_group() as group,
    ):
        wanted = SubscriptionFilter.model_validate({"taskIds": list(tasks), **more})
        request = SubscriptionsListenRequest(params=SubscriptionsListenRequestParams(notifications=wanted))
        group.start_soon(client.session.send_request, request, SubscriptionsListenResult)
        with anyio.fail_after(20):
            await there.wait()
        yield acknowledged[0], knows
        group.cancel_scope.cancel()


async def heard(knows: KnowsTasks, status: str) -> dict[str, Any]:
    """Return the newest that was told once that is of this status."""
    with anyio.fail_after(20):
        while not knows.noted or knows.noted[-1]["status"] != status:
            await knows.told()
    return knows.noted[-1]


async def test_who_listens_to_a_task_is_told_what_tasks_get_would_say_whenever_that_changes(tmp_path: Path) -> None:
    async with place(tmp_path, level=2) as at:
        task = (await at.wire.tool("kb_merge", **NOTE))["taskId"]
        async with listening(at, task, "p-unknown", resourceSubscriptions=["kb:new.md"]) as (acknowledged, knows):
            assert acknowledged == {"taskIds": [task], "resourceSubscriptions": ["kb:new.md"]}
            assert (await heard(knows, "working"))["taskId"] == task
            await at.decide(task)
            told = await heard(knows, "completed")
            fitting("TaskStatusNotification", {"jsonrpc": "2.0", "method": "notifications/tasks", "params": told})
            got = await at.wire.ask("tasks/get", taskId=task)
            assert {**told, "_meta": 0, "resultType": 0} == {**got, "_meta": 0, "resultType": 0}
            assert len({str(one) for one in knows.noted}) == len(knows.noted)


async def test_who_listens_to_nothing_of_tasks_is_served_as_ever_and_odd_ids_are_refused(tmp_path: Path) -> None:
    async with place(tmp_path, level=2) as at:
        for odd in ("p-1", [1], {"a": 1}, ["p"] * 101):
            error = await at.wire.error("subscriptions/listen", notifications={"taskIds": odd})
            assert error["code"] == UNKNOWN
        async with Client(at.host.app.server) as client, client.listen(resource_subscriptions=["kb:new.md"]):
            pass


async def test_a_handle_holds_in_another_server_of_the_same_knowledge_base(tmp_path: Path) -> None:
    async with place(tmp_path) as at:
        at.host.will("Sum up", asks("Which page?"), said("Done."))
        run = (await at.wire.tool("agent_run", goal="Sum up a page."))["taskId"]
        first = (await at.forms.until(run, "input_required"))["inputRequests"]
        secret = at.host.settings.enrolment or ""
        async with open_app(at.host.settings, indexing=False) as app, wired(app, secret) as there:
            other = replace(there, forms=True)
            assert (await other.ask("tasks/get", taskId=run))["inputRequests"] == first
            answers = dict.fromkeys(first, accepting(answer="this one"))
            await other.ask("tasks/update", taskId=run, inputResponses=answers)
            done = await other.until(run, "completed")
        assert await at.wire.ask("tasks/get", taskId=run) == done
