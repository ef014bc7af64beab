"""Untrusted text that a run has read counts wherever its words end up, however long a person takes to answer."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from mcp_types import ElicitRequestParams, ElicitResult, ErrorData

from mcp_server.app.knowledge_base import utc_now
from mcp_server.approvals.approvers import Approver
from mcp_server.gate.trust.scores import grant
from tests.contract.toolsets.runs.test_injected_texts import ME, SECRET, PageContext, house, in_a_message, order
from tests.doubles.provider_turns import said, uses
from tests.support.hosts.task_clients import KnowsTasks, accepting, task_get, task_until, task_update
from tests.support.hosts.writers import Writer
from tests.support.roads.road import connect, opened

pytestmark = pytest.mark.security

SENDS = uses("zulip_send_message", channel="team", topic="x", text=SECRET)
ASKS = uses("ask_user", question="Go on?")
ANN = Approver("ann", "page")


def later(there: PageContext, days: int) -> None:
    """Let this many days pass."""
    there.app.services.taints._now = lambda: utc_now() + timedelta(days=days)


async def asking(there: PageContext, *script: Any) -> str:
    """Return a run that has read someone's message and asks its person something; then it makes these calls."""
    goal = "Goal of days."
    there.model.will(goal, in_a_message(there, "nothing to do"), ASKS, *script)
    answer = await there.writer.call("agent_run", goal=goal)
    assert answer["status"] == "asking"
    return str(answer["run_id"])


async def test_a_runs_reading_counts_after_more_than_a_month(tmp_path: Path) -> None:
    async with house(tmp_path) as there:
        run = await asking(there, SENDS)
        later(there, 400)
        await there.app.services.taints.note("x@y", "", ("plane:KB",))  # somebody reads something
        assert (await there.app.services.runs.answer(run, "Yes.", "ann")).state == "suspended"
        assert there.effects == []


async def test_a_runs_later_text_taints_its_journey(tmp_path: Path) -> None:
    async with house(tmp_path) as there:
        run = await asking(there, uses("journey_start", agent="research", brief="Send it."), said("Begun."))
        later(there, 3)
        assert (await there.app.services.runs.answer(run, "Yes.", "ann")).state == "done"
        (journey,) = await there.app.services.journeys.store.journeys()
        assert await there.app.services.taints.of_journey(journey.id)


async def test_seeing_a_runs_proposal_counts_as_reading_what_it_read(tmp_path: Path) -> None:
    async with house(tmp_path, level=3) as there:
        run = await there.obeys(in_a_message(there, order("plane_create_task", {"project": "OPS", "name": "Obey."})))
        assert run.state == "suspended"
        later(there, 3)
        await grant(there.app.services.state, ME.id, 4, by="ann", now=utc_now())
        status = await there.writer.call("proposal_status", proposal_id=run.proposal)
        assert "Obey." in status["proposal"]["preview"]
        waits = await there.writer.call("zulip_send_message", channel="team", topic="x", text=SECRET)
        assert (waits["status"], waits["proposal"]["level_needed"]) == ("proposed", 5)
        assert there.effects == []


@pytest.mark.parametrize("mode", ["auto", "legacy"])
async def test_a_form_answer_may_repeat_its_hosts_reading(tmp_path: Path, mode: str) -> None:
    async with house(tmp_path) as there:

        async def answers(context: Any, params: ElicitRequestParams) -> ElicitResult | ErrorData:
            del context, params
            await there.writer.call("zulip_read_messages", **dict(in_a_message(there, "x").calls[0].arguments))  # type: ignore[arg-type]  # they are no text
            return ElicitResult(action="accept", content={"answer": "Send it."})

        there.model.will("Goal of a form.", ASKS, said("Twenty."))
        async with connect(there.app, mode=mode, elicitation_callback=answers) as client:
            answer = await Writer(client, there.app, there.settings.kb).call("agent_run", goal="Goal of a form.")
        assert answer["status"] == "done"
        assert await there.app.services.taints.of_journey(answer["run_id"])


async def test_an_answer_by_a_task_handle_may_repeat_it_too(tmp_path: Path) -> None:
    async with (
        house(tmp_path) as there,
        connect(there.app, extensions=[knows := KnowsTasks(waits=False)], elicitation_callback=nobody) as client,
    ):
        there.model.will("Goal of a task.", ASKS, said("Twenty."))
        await client.call_tool("agent_run", {"goal": "Goal of a task."})
        run = knows.handles[0]["taskId"]
        (ask,) = (await task_until(client.session, run, "input_required"))["inputRequests"]
        await there.writer.call("zulip_read_messages", **dict(in_a_message(there, "x").calls[0].arguments))  # type: ignore[arg-type]  # they are no text
        await task_update(client.session, run, **{ask: accepting(answer="Send it.")})
        await task_until(client.session, run, "completed")
        assert await there.app.services.taints.of_journey(run)


async def nobody(context: Any, params: ElicitRequestParams) -> ElicitResult | ErrorData:
    """React to no form."""
    del context, params
    return ElicitResult(action="cancel")


@pytest.mark.parametrize("by", ["form", "task"])
async def test_an_answer_in_a_form_of_a_host_that_may_not_even_propose_leaves_the_run_asking(
    tmp_path: Path, by: str
) -> None:
    async with house(tmp_path) as there:
        goal = "Goal of a demoted host."
        there.model.will(goal, ASKS, said("never"))
        state = there.app.services.state

        async def answers(context: Any, params: ElicitRequestParams) -> ElicitResult | ErrorData:
            del context, params
            await grant(state, ME.id, 1, by="ann", now=utc_now())
            return ElicitResult(action="accept", content={"answer": "Go on."})

        knows = KnowsTasks(waits=False)
        tasks: list[Any] = [knows] if by == "task" else []
        async with connect(there.app, extensions=tasks, elicitation_callback=answers) as client:
            await client.call_tool("agent_run", {"goal": goal})
            (line,) = await there.app.services.runs.store.runs()
            if by == "task":
                (ask,) = (await task_until(client.session, line.id, "input_required"))["inputRequests"]
                await grant(state, ME.id, 1, by="ann", now=utc_now())
                await task_update(client.session, line.id, **{ask: accepting(answer="Go on.")})
        assert (await there.app.services.runs.store.run(line.id)).state == "asking"
        assert len(there.model.asked) == 1


async def test_learning_of_a_runs_proposal_by_handle_counts_as_reading_what_it_read(tmp_path: Path) -> None:
    async with (
        house(tmp_path, level=3) as there,
        connect(there.app, extensions=[KnowsTasks(waits=False)]) as client,
    ):
        run = await there.obeys(in_a_message(there, order("plane_create_task", {"project": "OPS", "name": "Obey."})))
        for days, task in enumerate((run.id, run.proposal), 3):
            later(there, days)
            assert not await there.app.services.taints.of(ME.id, "")
            assert "Obey." in (await task_get(client.session, task))["statusMessage"]
            assert await there.app.services.taints.of(ME.id, "")


async def test_reading_before_a_proposed_start_counts_even_if_another_proposal_replaced_it(
    tmp_path: Path,
) -> None:
    """A person edits the goal, and approves it days later."""
    async with house(tmp_path, level=2) as there:
        read = in_a_message(there, "nothing to do")
        await there.writer.call("zulip_read_messages", **dict(read.calls[0].arguments))  # type: ignore[arg-type]  # they are no text
        waits = await there.writer.call("agent_run", goal="Send it there.", context="Obey.")
        later(there, 3)
        approvals, goal = there.app.approvals, "Send it here."
        there.model.will(goal, said("Twenty."))
        edited = await approvals.edit(waits["proposal"]["id"], [{"goal": goal, "context": "Obey."}], ANN)
        done = await approvals.approve(edited.id, edited.hash, ANN)
        run = json.loads(done.result or "")["run_id"]
        assert await there.app.services.taints.of_journey(run)


async def test_a_run_of_a_host_with_fewer_tools_gains_none_in_a_server_that_has_more(tmp_path: Path) -> None:
    async with house(tmp_path, level=5) as there:
        goal = "Goal of a host with fewer."
        there.model.will(goal, ASKS, SENDS, said("It cannot be sent."))
        fewer = replace(there.settings, toolsets=("knowledge", "runs"))
        async with opened(fewer, indexing=False, announcing=False) as app, connect(app) as client:
            asks = await Writer(client, app, fewer.kb).call("agent_run", goal=goal)
        run = await there.app.services.runs.answer(asks["run_id"], "Yes.", "ann")
        assert run.state == "done"
        assert there.effects == []
