"""Task handles: the Tasks extension (SEP-2663) for runs and for calls that wait for a person, through the SDK's client and by hand."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import anyio
import apsw
import pytest
from mcp_types import (
    ElicitRequestParams,
    ElicitResult,
    ErrorData,
)

from agents.loop.record.frames import PersonAnswered
from mcp_server.app.composition import open_app
from mcp_server.gate.host_registration import os_user
from tests.doubles.plane import ADA, WORKSPACE, plane_served
from tests.doubles.provider_turns import Turn, said, uses
from tests.support.hosts.task_clients import (
    KnowsTasks,
    accepting,
    fitting,
    task_cancel,
    task_get,
    task_until,
    wired,
)
from tests.support.hosts.task_servers import MOVE, NOTE, UNKNOWN, asks, place
from tests.support.plane.hosts import named
from tests.support.roads.road import connect


async def test_every_message_about_tasks_fits_the_schema_of_the_extension(tmp_path: Path) -> None:
    async with place(tmp_path) as at:
        at.host.will("Sum up", asks("Which page?"), said("Twenty."))
        handle = await at.wire.tool("agent_run", goal="Sum up a page.")
        fitting("CreateTaskResult", handle)
        assert not {"inputRequests", "result", "error", "task"} & set(handle)
        asking = await at.forms.until(handle["taskId"], "input_required")
        ((key, _),) = asking["inputRequests"].items()
        answers = {key: accepting(answer="this one")}
        updated = await at.forms.ask("tasks/update", taskId=handle["taskId"], inputResponses=answers)
        fitting("UpdateTaskResult", updated)
        done = await at.forms.until(handle["taskId"], "completed")
        assert "pollIntervalMs" not in done
        cancelled = await at.forms.ask("tasks/cancel", taskId=handle["taskId"])
        fitting("CancelTaskResult", cancelled)
        assert set(updated) == set(cancelled) == {"resultType", "_meta"}
        assert (await at.forms.ask("tasks/get", taskId=handle["taskId"])) == done


@pytest.mark.security
async def test_each_question_of_a_run_has_its_own_key_and_an_old_one_answers_nothing(tmp_path: Path) -> None:
    heard: list[str] = []

    def notes(asked: Mapping[str, Any]) -> Turn:
        heard.append(str(asked))
        return asks("And which section?")

    async with place(tmp_path) as at:
        at.host.will("Sum up", asks("Which page?"), notes, said("Twenty."))
        task = (await at.wire.tool("agent_run", goal="Sum up a page."))["taskId"]
        first = (await at.forms.until(task, "input_required"))["inputRequests"]
        assert (await at.forms.ask("tasks/get", taskId=task))["inputRequests"] == first
        ((key, request),) = first.items()
        assert "Which page?" in request["params"]["message"]
        await at.forms.ask("tasks/update", taskId=task, inputResponses={"nothing": accepting(answer="no")})
        await at.forms.ask("tasks/update", taskId=task, inputResponses={key: accepting(answer="the first")})
        with anyio.fail_after(60):
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
    answers = [(frame.text, frame.by) for frame in frames if isinstance(frame, PersonAnswered)]
    by = f"{os_user()}@desktop (in the host)"
    assert answers == [("the first", by), ("two", by)]


async def test_a_host_without_forms_gets_the_question_as_answer_and_answers_with_another_call(
    tmp_path: Path,
) -> None:
    async with place(tmp_path) as at:
        at.host.will("Sum up", asks("Which page?"), asks("And which section?"), said("Twenty."))
        task = (await at.wire.tool("agent_run", goal="Sum up a page."))["taskId"]
        first = await at.wire.until(task, "completed")
        told = first["result"]["structuredContent"]
        assert (told["status"], told["question"], told["run_id"]) == ("asking", "Which page?", task)
        assert "agent_run with run_id" in told["note"]
        ((key, _),) = (await at.forms.ask("tasks/get", taskId=task))["inputRequests"].items()
        await at.wire.ask("tasks/update", taskId=task, inputResponses={key: accepting(answer="by no form")})
        assert (await at.forms.ask("tasks/get", taskId=task))["status"] == "input_required"
        second = (await at.wire.tool("agent_run", run_id=task, answer="this one"))["taskId"]
        told = (await at.wire.until(second, "completed"))["result"]["structuredContent"]
        assert (told["status"], told["question"]) == ("asking", "And which section?")
        third = (await at.wire.tool("agent_run", run_id=task, answer="the first"))["taskId"]
        told = (await at.wire.until(third, "completed"))["result"]["structuredContent"]
        assert (told["status"], told["text"]) == ("done", "Twenty.")
        assert len({task, second, third}) == 3
        assert await at.wire.ask("tasks/get", taskId=task) == first, "what is over stays as it is"
        for wrong in (f"{task}.3", f"{task}.0", f"{task}.01", f"{task}.", f"{task}.x"):
            assert (await at.wire.error("tasks/get", taskId=wrong))["code"] == UNKNOWN


async def test_an_approved_start_ends_with_the_runs_question_for_a_host_without_forms(
    tmp_path: Path,
) -> None:
    async with place(tmp_path, level=2) as at:
        at.host.will("Sum up", asks("Which page?"), said("Twenty."))
        task = (await at.wire.tool("agent_run", goal="Sum up a page."))["taskId"]
        await at.decide(task)
        first = await at.wire.until(task, "completed")
        run = first["result"]["structuredContent"]["run_id"]
        answer = (await at.wire.tool("agent_run", run_id=run, answer="this one"))["taskId"]
        await at.decide(answer)
        told = (await at.wire.until(answer, "completed"))["result"]["structuredContent"]
        assert (told["status"], told["text"]) == ("done", "Twenty.")
        assert await at.wire.ask("tasks/get", taskId=task) == first


@pytest.mark.security
async def test_a_models_text_neither_acts_nor_hides_in_what_a_host_shows_of_a_task(tmp_path: Path) -> None:
    async with place(tmp_path) as at:
        at.host.will("Sum up", asks("Which \x1b[31mpage\u202e?"))
        task = (await at.wire.tool("agent_run", goal="Sum up a page."))["taskId"]
        await at.forms.until(task, "input_required")
        told = (await at.forms.ask("tasks/get", taskId=task))["statusMessage"]
        assert "Which ⟦U+001B⟧[31mpage⟦U+202E⟧?" in told


@pytest.mark.parametrize("dismissal", [{"action": "cancel"}, {"action": "decline"}, accepting(answer="  ")])
async def test_a_form_that_was_dismissed_is_not_shown_again_and_the_run_still_waits(
    tmp_path: Path, dismissal: dict[str, Any]
) -> None:
    async with place(tmp_path) as at:
        at.host.will("Sum up", asks("Which page?"), said("Twenty."))
        task = (await at.wire.tool("agent_run", goal="Sum up a page."))["taskId"]
        ((key, _),) = (await at.forms.until(task, "input_required"))["inputRequests"].items()
        await at.forms.ask("tasks/update", taskId=task, inputResponses={key: dismissal})
        told = await at.forms.ask("tasks/get", taskId=task)
        assert (told["status"], "inputRequests" in told) == ("working", False)
        assert (await at.host.call("agent_run", run_id=task, answer="this one"))["status"] == "done"
        await at.forms.until(task, "completed")


@pytest.mark.security
async def test_an_invalid_form_answer_is_refused_and_decides_nothing(tmp_path: Path) -> None:
    async with place(tmp_path) as at:
        at.host.will("Sum up", asks("Which page?"), said("Twenty."))
        task = (await at.wire.tool("agent_run", goal="Sum up a page."))["taskId"]
        ((key, _),) = (await at.forms.until(task, "input_required"))["inputRequests"].items()
        error = await at.forms.error("tasks/update", taskId=task, inputResponses={key: {"action": "agree"}})
        assert error["code"] == UNKNOWN
        assert (await at.forms.ask("tasks/get", taskId=task))["status"] == "input_required"


async def test_an_answer_that_cannot_be_recorded_is_reported_and_requested_again(tmp_path: Path) -> None:
    async with place(tmp_path) as at:
        disk = apsw.Connection(str(at.host.app.base.state_dir / "state.db"))
        disk.set_busy_timeout(5000)  # the server may be writing at this moment
        at.host.will("Sum up", asks("Which page?"), said("Twenty."))
        task = (await at.wire.tool("agent_run", goal="Sum up a page."))["taskId"]
        first = (await at.forms.until(task, "input_required"))["inputRequests"]
        disk.execute("CREATE TRIGGER full BEFORE INSERT ON run_frame BEGIN SELECT RAISE(ABORT, 'full'); END")
        answers = dict.fromkeys(first, accepting(answer="this one"))
        await at.forms.error("tasks/update", taskId=task, inputResponses=answers)
        disk.execute("DROP TRIGGER full")
        assert (await at.forms.ask("tasks/get", taskId=task))["inputRequests"] == first
        await at.forms.ask("tasks/update", taskId=task, inputResponses=answers)
        await at.wire.until(task, "completed")


async def test_a_decision_that_cannot_be_recorded_is_reported_and_requested_again(tmp_path: Path) -> None:
    async with place(tmp_path, level=2) as at:
        disk = apsw.Connection(str(at.host.app.base.state_dir / "state.db"))
        disk.set_busy_timeout(5000)  # the server may be writing at this moment
        task = (await at.wire.tool("kb_merge", **NOTE))["taskId"]
        await at.forms.until(task, "input_required")
        disk.execute("CREATE TRIGGER full BEFORE UPDATE ON proposal BEGIN SELECT RAISE(ABORT, 'full'); END")
        answers = {task: accepting(decision="reject")}
        await at.forms.error("tasks/update", taskId=task, inputResponses=answers)
        disk.execute("DROP TRIGGER full")
        await at.forms.ask("tasks/update", taskId=task, inputResponses=answers)
        await at.wire.until(task, "completed")


@pytest.mark.parametrize("decision", ["approve", "reject"])
async def test_one_tasks_forms_decide_a_run_and_its_proposals(tmp_path: Path, decision: str) -> None:
    async with place(tmp_path, level=2) as at:
        at.host.will("Write", uses("kb_merge", **NOTE), said("The note is written."))
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


async def test_a_call_that_waits_for_a_person_is_a_handle_and_completes_with_its_result(tmp_path: Path) -> None:
    async with place(tmp_path, level=2) as at:
        handle = await at.wire.tool("kb_move", **MOVE)
        fitting("CreateTaskResult", handle)
        task = handle["taskId"]
        assert handle["status"] == "working"
        lasts = (await at.proposal(task)).expires_at - (await at.proposal(task)).created_at
        assert handle["ttlMs"] == lasts.total_seconds() * 1000
        assert handle["statusMessage"].startswith("a person decides at ")  # before any word of who asks
        await at.decide(task)
        done = await at.wire.until(task, "completed")
        assert at.moved()
        assert done["ttlMs"] is None
        content = done["result"]["structuredContent"]
        assert (content["status"], content["proposal"]["state"]) == ("done", "executed")
        kept = await at.host.call("proposal_status", proposal_id=task)
        assert {**kept["proposal"]["result"], "proposal": None} == {**content, "proposal": None}


async def test_a_rejected_call_completes_as_having_done_nothing_and_says_why(tmp_path: Path) -> None:
    async with place(tmp_path, level=2) as at:
        task = (await at.wire.tool("kb_move", **MOVE))["taskId"]
        await at.decide(task, approve=False, note="It is linked from outside.")
        content = (await at.wire.until(task, "completed"))["result"]["structuredContent"]
        assert (content["status"], content["proposal"]["state"]) == ("proposed", "rejected")
        assert content["proposal"]["decision"]["note"] == "It is linked from outside."


async def test_an_approved_call_that_failed_completes_as_a_tool_error(tmp_path: Path) -> None:
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
async def test_a_form_comes_before_the_handle_and_a_dismissed_one_is_not_shown_again(
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
        connect(at.host.app, extensions=[knows], elicitation_callback=elicit) as client,
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


@pytest.mark.security
async def test_decisions_that_need_more_than_a_form_are_not_asked_in_the_host(tmp_path: Path) -> None:
    async with place(tmp_path, level=2) as at:
        proposal = await at.proposal((await at.wire.tool("kb_move", **MOVE))["taskId"])
        high = replace(proposal, id="p-high", level_needed=4, hash="", documents=())
        await at.host.app.services.state.trust.propose(high, most_pending=20)
        told = await at.forms.ask("tasks/get", taskId="p-high")
        assert (told["status"], "inputRequests" in told) == ("working", False)
        answers = {"p-high": accepting(decision="approve")}
        await at.forms.ask("tasks/update", taskId="p-high", inputResponses=answers)
        assert (await at.proposal("p-high")).state == "pending"


async def test_cancelling_ends_a_run_and_withdraws_a_proposal(tmp_path: Path) -> None:
    async with place(tmp_path) as at:
        at.host.will("Sum up", asks("Which page?"), said("Twenty."))
        run = (await at.wire.tool("agent_run", goal="Sum up a page."))["taskId"]
        await at.forms.until(run, "input_required")
        await at.wire.ask("tasks/cancel", taskId=run)
        told = await at.forms.until(run, "cancelled")
        assert "the client cancelled the task" in told["statusMessage"]
        await at.wire.ask("tasks/cancel", taskId=run)
    async with place(tmp_path / "lower", level=2) as at:
        task = (await at.wire.tool("kb_move", **MOVE))["taskId"]
        await at.wire.ask("tasks/cancel", taskId=task)
        assert (await at.wire.until(task, "cancelled"))["taskId"] == task
        assert (await at.proposal(task)).state == "withdrawn"


async def test_a_handle_holds_in_another_server_of_the_same_knowledge_base(tmp_path: Path) -> None:
    async with place(tmp_path) as at:
        at.host.will("Sum up", asks("Which page?"), said("Twenty."))
        run = (await at.wire.tool("agent_run", goal="Sum up a page."))["taskId"]
        first = (await at.forms.until(run, "input_required"))["inputRequests"]
        secret = at.host.settings.enrolment or ""
        async with open_app(at.host.settings, indexing=False) as app, wired(app, secret) as there:
            other = replace(there, forms=True)
            assert (await other.ask("tasks/get", taskId=run))["inputRequests"] == first
            answers = dict.fromkeys(first, accepting(answer="this one"))
            await other.ask("tasks/update", taskId=run, inputResponses=answers)
            done = await other.until(run, "completed")
        assert await at.forms.ask("tasks/get", taskId=run) == done


async def test_a_server_without_agent_run_still_reports_its_handles_and_leads_no_run(tmp_path: Path) -> None:
    async with place(tmp_path) as at:
        at.host.will("Sum up", asks("Which page?"), said("Twenty."))
        run = (await at.wire.tool("agent_run", goal="Sum up a page."))["taskId"]
        first = (await at.forms.until(run, "input_required"))["inputRequests"]
        reading = replace(at.host.settings, read_only=True)
        async with open_app(reading, indexing=False) as app, wired(app, reading.enrolment or "") as there:
            answers = dict.fromkeys(first, accepting(answer="this one"))
            other = replace(there, forms=True)
            await other.ask("tasks/update", taskId=run, inputResponses=answers)
            assert not app.services.runs.aside
            done = await other.until(run, "completed")  # led by the other one
        assert await at.forms.ask("tasks/get", taskId=run) == done


async def test_a_run_waiting_for_the_daily_limit_says_so_by_its_handle(tmp_path: Path) -> None:
    async with place(tmp_path, run_day_tokens=100) as at:
        at.host.will("Sum up", asks("Which page?"))
        run = (await at.wire.tool("agent_run", goal="Sum up a page."))["taskId"]
        first = (await at.forms.until(run, "input_required"))["inputRequests"]
        answers = dict.fromkeys(first, accepting(answer="this one"))
        await at.forms.ask("tasks/update", taskId=run, inputResponses=answers)
        told = await at.forms.ask("tasks/get", taskId=run)
        assert told["status"] == "working"
        assert told["statusMessage"].startswith("it waits until a limit allows more: all runs together used 120 tokens")


async def test_a_call_that_answers_a_run_is_its_own_task_and_both_end_the_same(tmp_path: Path) -> None:
    async with place(tmp_path) as at:
        at.host.will("Sum up", asks("Which page?"), said("Twenty."))
        first = await at.forms.tool("agent_run", goal="Sum up a page.")
        asked = await at.forms.until(first["taskId"], "input_required")
        again = await at.forms.tool("agent_run", run_id=first["taskId"], answer="half of a letter: \N{SNOWMAN}")
        assert again["taskId"] == f"{first['taskId']}.1"
        late = dict.fromkeys(asked["inputRequests"], accepting(answer="too late"))
        await at.forms.ask("tasks/update", taskId=first["taskId"], inputResponses=late)
        ends = [(await at.forms.until(task["taskId"], "completed"))["result"] for task in (first, again)]
        assert [end["structuredContent"]["text"] for end in ends] == ["Twenty.", "Twenty."]


async def test_a_tool_in_another_service_is_a_handle_and_its_form_is_not_shown_in_the_host(tmp_path: Path) -> None:
    async with plane_served() as (there, plane):
        told = {"plane_base_url": there.address, "plane_api_key": ADA.key, "plane_workspace": WORKSPACE}
        async with place(tmp_path, **told) as at:
            project = (await at.host.call("plane_list_projects"))["projects"][0]["key"]
            handle = await at.forms.tool("plane_create_task", project=project, name="Rotate the keys")
            assert handle["resultType"] == "task"
            assert (await at.forms.ask("tasks/get", taskId=handle["taskId"]))["status"] == "working"
            await at.decide(handle["taskId"])
            done = await at.wire.until(handle["taskId"], "completed")
            assert done["result"]["structuredContent"]["status"] == "done"
            assert len(named(plane, "Rotate the keys")) == 1
