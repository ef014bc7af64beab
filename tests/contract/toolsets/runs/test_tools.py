"""`agent_run` and `agent_trace` through a real client, with a model on a real socket."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import anyio
import pytest
from mcp_types import ElicitRequestParams, ElicitResult, ErrorData

from agents.loop.store.ports import Hold
from knowledge.trust.ports import Proposal, ProposalVerdict
from knowledge.writing.requests import Approval
from mcp_server.app.composition import App, open_app
from mcp_server.app.knowledge_base import utc_now
from mcp_server.approvals.approvers import Approver
from mcp_server.gate.caller import Call as GateCall
from mcp_server.gate.dispatch import CallAnswered
from mcp_server.gate.host_registration import Principal, os_user
from mcp_server.gate.taint import TAINTED
from mcp_server.gate.trust.scores import grant
from mcp_server.presenters import run as words
from mcp_server.toolsets.runs import handlers as runs
from tests.doubles.provider_turns import Call, Turn, said, uses
from tests.support.hosts.reviewers import ANN
from tests.support.hosts.writers import Writer
from tests.support.roads.road import connect, opened
from tests.support.runs.hosts import RunHost, at_once, run_host

ERAS = pytest.mark.parametrize("mode", ["auto", "legacy"])
GOAL = "Where is the deployment told?"
CONTEXT = "line\n" * 3_000


def reads(host: RunHost, goal: str = GOAL, text: str = "It stands in guides/deploy.md.") -> None:
    host.will(goal, uses("kb_read", path="guides/deploy.md"), said(text))


async def asks(host: RunHost, question: str = "Which page?", *then: Turn) -> str:
    """Begin a run that asks; return its id."""
    host.will("Sum up", uses("ask_user", question=question), *then)
    return str((await host.call("agent_run", goal="Sum up a page."))["run_id"])


async def ended(host: RunHost, run: str) -> dict[str, Any]:
    """Return the state of a run in the background, once it is over or asks."""
    state = host.app.services.state
    with anyio.fail_after(60):
        while True:
            seen = await state.last_event()
            if (await host.app.services.runs.store.run(run)).state not in ("running", "suspended"):
                break
            await state.changed(seen)
    return await host.call("agent_trace", run_id=run)


async def begun(app: App) -> list[str]:
    return [line.id for line in await app.services.runs.store.runs()]


# --- answers ----------------------------------------------------------------------------------------------------------


@ERAS
async def test_a_run_answers_from_the_knowledge_base(tmp_path: Path, mode: str) -> None:
    async with run_host(tmp_path, mode=mode) as host:
        reads(host)
        answer = await host.call("agent_run", goal=GOAL)
        trace = await host.call("agent_trace", run_id=answer["run_id"])
    assert answer == {
        "run_id": answer["run_id"],
        "status": "done",
        "text": "It stands in guides/deploy.md.",
        "goal_achieved": True,
        "question": "",
        "proposal": None,
        "iterations": 2,
        "tools_called": ["kb_read"],
        "trace": "1. kb_read (done)\n2. answered",
        "tokens_in": 200,
        "tokens_out": 40,
        "cost": None,
        "tainted": False,
        "note": None,
    }
    assert (trace["run_id"], trace["status"], trace["answer"]) == (answer["run_id"], "done", answer["text"])
    assert (trace["next_offset"], trace["tainted"], trace["proposal"]) == (None, False, None)
    assert "kb_read" in trace["text"]


@ERAS
async def test_a_run_that_asks_says_what_to_do_and_continues_with_the_answer(tmp_path: Path, mode: str) -> None:
    async with run_host(tmp_path, mode=mode) as host:
        run = await asks(host, "Which page?", said("It is about bees."))
        waits = await host.call("agent_trace", run_id=run)
        answer = await host.call("agent_run", run_id=run, answer="guides/deploy.md")
        again = await host.refused("agent_run", run_id=run, answer="guides/deploy.md")
    assert (waits["status"], waits["question"], waits["answer"]) == ("asking", "Which page?", "")
    assert (answer["run_id"], answer["status"], answer["text"]) == (run, "done", "It is about bees.")
    assert again == f"agent_run: run {run} is done, so it cannot be answered"


@ERAS
async def test_a_run_continues_once_a_person_has_decided(tmp_path: Path, mode: str) -> None:
    async with run_host(tmp_path, mode=mode) as host:
        host.will(
            "Move it",
            uses("kb_move", path="guides/deploy.md", to="guides/release.md"),
            said("It lies at guides/release.md."),
        )
        answer = await host.call("agent_run", goal="Move it.")
        assert (answer["status"], answer["note"]) == ("proposed", words.WAITS)
        traced = await host.call("agent_trace", run_id=answer["run_id"])
        assert (traced["status"], traced["proposal"]) == ("proposed", answer["proposal"])
        refused = await host.refused("agent_run", run_id=answer["run_id"], answer="Yes, do it.")
        assert refused.endswith("waits for a person's decision, so it cannot be answered")
        await approve(host, answer["proposal"]["id"])
        trace = await ended(host, answer["run_id"])
    assert (trace["status"], trace["answer"]) == ("done", "It lies at guides/release.md.")
    assert "release" in trace["text"]


async def test_a_long_answer_is_cut_and_the_note_says_where_the_rest_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(runs, "MOST_TEXT", 10)
    monkeypatch.setattr(words, "MOST_TEXT", 10)
    async with run_host(tmp_path) as host:
        reads(host)
        answer = await host.call("agent_run", goal=GOAL)
        whole = await host.writer.client.read_resource(answer["note"].split()[4].rstrip(";"))
    assert answer["text"] == "It stands "
    assert "It stands in guides/deploy.md." in whole.model_dump_json()


async def test_a_long_explanation_is_returned_in_pieces_of_whole_lines(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with run_host(tmp_path) as host:
        reads(host)
        run = (await host.call("agent_run", goal=GOAL))["run_id"]
        whole = await host.call("agent_trace", run_id=run)
        monkeypatch.setattr(runs, "PAGE", 200)
        pieces, offset = [], 0
        while True:
            piece = await host.call("agent_trace", run_id=run, offset=offset)
            pieces.append(piece["text"])
            assert piece["answer"] == ("" if offset else whole["answer"])
            if piece["next_offset"] is None:
                break
            offset = piece["next_offset"]
        beyond = await host.refused("agent_trace", run_id=run, offset=100_000)
    assert "".join(pieces) == whole["text"]
    assert len(pieces) > 2
    assert all(len(piece) <= 200 or "\n" not in piece[:200] for piece in pieces)
    assert beyond.startswith("agent_trace: the explanation has ")


@pytest.mark.parametrize(("start", "end"), [(0, 6), (6, 12), (12, 22), (22, 25)])
def test_a_line_that_is_longer_than_a_piece_is_cut(start: int, end: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runs, "PAGE", 10)
    assert runs.page_end("12345\n12345\n1234567890123", start) == end


async def test_an_unknown_price_is_no_cost_and_an_unused_model_costs_nothing(tmp_path: Path) -> None:
    async with run_host(tmp_path) as host:
        run = await asks(host)
        there = await host.app.services.runs.store.run(run)
        unpriced = await runs.answered(host.app.services, there)
        priced = await runs.answered(
            host.app.services, replace(there, spent=replace(there.spent, unpriced=False, cost_micros=1_500))
        )
    assert (unpriced.cost, priced.cost) == (None, 0.0015)


@ERAS
async def test_each_step_is_growing_progress_without_any_text(tmp_path: Path, mode: str) -> None:
    heard: list[tuple[float, str | None]] = []

    async def listen(progress: float, total: float | None, message: str | None) -> None:
        assert total is None
        heard.append((progress, message))

    async with run_host(tmp_path, mode=mode) as host:
        host.will(
            "Count", Turn("I think aloud.", calls=(Call("kb_map"), Call("made up " * 30))), said("There are SEVEN.")
        )
        await host.writer.client.call_tool("agent_run", {"goal": "Count pages."}, progress_callback=listen)
    assert [done for done, _ in heard] == [float(number) for number in range(1, len(heard) + 1)]
    told = [message for _, message in heard]
    assert told[0] == "iteration 1 of 5: the model chose tools"
    assert "kb_map: answered" in told
    assert told[-1] == "done"
    assert all(len(message or "") < 120 for message in told)
    assert not any("SEVEN" in (message or "") or "aloud" in (message or "") for message in told)


# --- arguments --------------------------------------------------------------------------------------------------------


WRONG: tuple[tuple[dict[str, object], str], ...] = (
    ({}, "'goal' is empty; say what to achieve, or answer a run's question with 'run_id' and 'answer'"),
    ({"goal": " \n "}, "'goal' is empty"),
    (
        {"goal": "x" * 8_001},
        "'goal' has 8,001 characters; at most 8,000 are allowed. Put the rest in a page and name that page",
    ),
    ({"goal": "x", "context": "x" * 100_001}, "'context' has 100,001 characters; at most 100,000 are allowed"),
    ({"run_id": "r-1", "answer": "x" * 8_001}, "'answer' has 8,001 characters"),
    ({"goal": "x", "toolsets": ["plane"]}, "no toolset 'plane' for runs here; use 'knowledge', 'trust', 'journeys'"),
    ({"goal": "x", "toolsets": ["runs"]}, "no toolset 'runs' for runs here"),
    ({"goal": "x", "toolsets": ["knowledge", "y" * 900]}, "no toolset 'yyy"),
    ({"goal": "x", "max_iterations": 0}, "'max_iterations' must be at least 1, not 0"),
    ({"goal": "x", "max_iterations": 51}, "'max_iterations' must be at most 50"),
    ({"goal": "x", "timeout_seconds": 3_601}, "'timeout_seconds' must be at most 3600"),
    ({"goal": "x", "timeout": 3}, "there is no argument 'timeout'; did you mean 'timeout_seconds'?"),
    ({"answer": "Yes."}, "'answer' is given without 'run_id'; name the run that asked"),
    ({"run_id": "RUN"}, "'run_id' is given without 'answer'; agent_trace(run_id) shows the run's status"),
    ({"run_id": "RUN", "answer": " "}, "'run_id' is given without 'answer'"),
    ({"run_id": "RUN", "answer": "Yes.", "goal": "x"}, "'goal' cannot be given with 'run_id'"),
    ({"run_id": "RUN", "answer": "Yes.", "max_iterations": 7}, "'max_iterations' cannot be given with 'run_id'"),
    ({"run_id": "r-1", "answer": "Yes."}, "there is no run 'r-1'"),
    ({"run_id": "\x00", "answer": "Yes."}, "there is no run "),
    ({"run_id": "x" * 100_000, "answer": "Yes."}, "there is no run 'xxx"),
)
"""Arguments, and their errors; RUN is the id of a run that asks."""


async def test_wrong_arguments_get_one_sentence_and_begin_nothing(tmp_path: Path) -> None:
    async with run_host(tmp_path) as host:
        run = await asks(host)
        for arguments, says in WRONG:
            told = await host.refused("agent_run", **{**arguments, **_named(arguments, run)})
            assert told.startswith("agent_run: ")
            assert says in told
            assert len(told) < 300
        assert await begun(host.app) == [run]
        assert (await host.call("agent_trace", run_id=run))["status"] == "asking"


def _named(arguments: Mapping[str, object], run: str) -> dict[str, object]:
    return {"run_id": run} if arguments.get("run_id") == "RUN" else {}


async def test_a_run_has_only_the_toolsets_that_it_was_given(tmp_path: Path) -> None:
    async with run_host(tmp_path) as host:
        reads(host)
        answer = await host.call("agent_run", goal=GOAL, toolsets=["knowledge", "knowledge"])
        offered = {one["function"]["name"] for one in host.model.asked[0]["tools"]}
        header = (await host.app.services.runs.store.run(answer["run_id"])).header
    assert header.toolsets == ("knowledge",)
    assert "kb_read" in offered
    assert not {name for name in offered if name.startswith(("journey", "trust", "agent", "proposal"))}


async def test_the_bounds_of_the_settings_are_those_of_each_run(tmp_path: Path) -> None:
    async with run_host(tmp_path, run_tokens=90_000) as host:
        run = await asks(host)
        limits = (await host.app.services.runs.store.run(run)).header.limits
    assert (limits.tokens, limits.cost_micros, limits.iterations, limits.seconds) == (90_000, None, 5, 60.0)


@pytest.mark.parametrize("damage", ['{"type":"vision"}', "{}", "no JSON"])
async def test_a_record_that_this_program_cannot_read_is_reported(damage: str, tmp_path: Path) -> None:
    """A newer program may have led it; or a disk failed."""
    async with run_host(tmp_path) as host:
        run = await asks(host)
        database = host.app.base.state.database  # type: ignore[attr-defined]  # of the SQLite store
        await database.write(lambda db: db.execute("UPDATE run_frame SET body = ? WHERE number = 0", (damage,)))
        told = await host.refused("agent_trace", run_id=run)
        answered = await host.refused("agent_run", run_id=run, answer="x")
    assert told.startswith("agent_trace: a frame of type ")
    assert told.endswith("; a newer program may know it")
    assert answered == told.replace("agent_trace", "agent_run")


# --- starts that wait for a person ------------------------------------------------------------------------------------


async def approve(host: RunHost, proposal: str, app: App | None = None) -> Proposal:
    waits = await found(app or host.app, proposal)
    return await (app or host.app).approvals.approve(proposal, waits.hash, ANN)


async def found(app: App, proposal: str) -> Proposal:
    there = await app.services.state.trust.proposal(proposal)
    assert there is not None
    return there


@ERAS
async def test_a_waiting_start_shows_a_person_everything_the_model_would_get(tmp_path: Path, mode: str) -> None:
    async with run_host(tmp_path, level=2, mode=mode) as host:
        answer = await host.call("agent_run", goal=GOAL, context=CONTEXT, toolsets=["knowledge"], max_iterations=9)
        same = await host.call("agent_run", goal=GOAL, context=CONTEXT, toolsets=["knowledge"], max_iterations=9)
        preview = json.loads((await found(host.app, answer["proposal"]["id"])).preview)
        assert await begun(host.app) == []
        assert host.model.asked == []
    assert (answer["status"], answer["run_id"], answer["note"]) == ("proposed", "", words.STARTS)
    assert same["proposal"]["id"] == answer["proposal"]["id"]
    assert answer["proposal"]["preview"] == (
        f"let openai:some-model work by itself (9 iterations, 60 s, 200000 tokens, toolsets knowledge): {GOAL}"
    )
    sent = {file["path"]: file["diff"] for file in preview["files"]}
    assert list(sent) == ["model:openai:some-model goal", "model:openai:some-model context"]
    assert f"+{GOAL}" in sent["model:openai:some-model goal"]
    assert sent["model:openai:some-model context"].count("\n+line") == 3_000


@ERAS
async def test_an_approval_begins_one_background_run_and_the_host_finds_its_answer(tmp_path: Path, mode: str) -> None:
    async with run_host(tmp_path, level=2, mode=mode) as host:
        reads(host)
        waits = (await host.call("agent_run", goal=GOAL))["proposal"]["id"]
        assert (await approve(host, waits)).state == "executed"
        status = (await host.call("proposal_status", proposal_id=waits))["proposal"]
        run = status["result"]["run_id"]
        trace = await ended(host, run)
        assert await begun(host.app) == [run]
    assert status["result"]["status"] in ("running", "done")
    assert (trace["status"], trace["answer"]) == ("done", "It stands in guides/deploy.md.")


@ERAS
async def test_a_person_may_approve_a_run_in_the_host_and_it_continues_in_the_background(
    tmp_path: Path, mode: str
) -> None:
    forms: list[str] = []

    async def agree(context: Any, params: ElicitRequestParams) -> ElicitResult | ErrorData:
        del context
        forms.append(params.message)
        return ElicitResult(action="accept", content={"decision": "approve"})

    async with run_host(tmp_path, level=2, mode=mode) as host:
        reads(host)
        async with connect(host.app, mode=mode, elicitation_callback=agree) as client:
            answer = await Writer(client, host.app, host.settings.kb).call("agent_run", goal=GOAL, context="Look well.")
        assert (await ended(host, answer["run_id"]))["answer"] == "It stands in guides/deploy.md."
        assert await begun(host.app) == [answer["run_id"]]
    assert answer["status"] in ("running", "done")
    assert answer["proposal"]["state"] == "executed"
    assert len(forms) == 1
    assert GOAL in forms[0]
    assert "Look well." in forms[0]


async def test_a_run_approved_at_a_terminal_is_available_to_a_server_immediately(tmp_path: Path) -> None:
    """The call ends at the very moment when its process would lead the run."""
    async with run_host(tmp_path, level=2) as host:
        waits = (await host.call("agent_run", goal=GOAL))["proposal"]["id"]
    async with open_app(host.settings, indexing=False, announcing=False) as terminal:
        assert (await approve(host, waits, terminal)).state == "executed"
    async with open_app(host.settings, indexing=False, announcing=False) as app:
        (run,) = await begun(app)
        now = utc_now()
        held = await app.services.runs.store.claim(run, Hold("a server", now, now + timedelta(seconds=30)))
    assert held is not None


async def test_a_no_begins_nothing(tmp_path: Path) -> None:
    async with run_host(tmp_path, level=2) as host:
        waits = (await host.call("agent_run", goal=GOAL))["proposal"]["id"]
        await host.app.approvals.reject(waits, (await found(host.app, waits)).hash, Approver("ann", "page"), "too dear")
        assert (await host.call("proposal_status", proposal_id=waits))["proposal"]["state"] == "rejected"
        assert await begun(host.app) == []


@pytest.mark.parametrize("died", ["before it was begun", "after it was begun"])
async def test_one_yes_is_one_run_wherever_the_process_died_that_carried_it_out(died: str, tmp_path: Path) -> None:
    async with run_host(tmp_path, level=2) as host:
        reads(host)
        waits = await found(host.app, (await host.call("agent_run", goal=GOAL))["proposal"]["id"])
        trust, before = host.app.services.state.trust, utc_now() - timedelta(hours=1)
        verdict = ProposalVerdict(approved=True, by="ann", channel="page", at=utc_now(), hash=waits.hash)
        assert await trust.decide(waits.id, verdict)
        assert await trust.claim(waits.id, "dead", now=before, lease_s=60)
        if died == "after it was begun":
            planned = await host.app.approvals._executor.plan(await found(host.app, waits.id))
            run = runs.begun_for(replace(planned.call, approval=Approval(waits.id, "approved by ann", waits.effect)))
            plan = await runs.plan_run(host.app.services, planned.call, planned.asked)
            header = replace(plan.header, id=run)
            await host.app.services.runs.store.begin(header, Hold("dead", before, before))
        await host.app.approvals._executor.resume()
        with anyio.fail_after(60):
            # The server's own look for such calls may have taken this one.
            while (done := await found(host.app, waits.id)).state == "approved":  # noqa: ASYNC110 - nobody says so
                await anyio.sleep(0.01)
        assert (done.state, done.error) == ("executed", None)
        (run,) = await begun(host.app)
        assert json.loads(done.result or "")["run_id"] == run
        assert (await ended(host, run))["status"] == "done"


async def test_an_approved_run_begins_with_no_other_model_and_no_other_limits(tmp_path: Path) -> None:
    async with run_host(tmp_path, level=2) as host:
        waits = (await host.call("agent_run", goal=GOAL))["proposal"]["id"]
        other = replace(host.settings, run_tokens=1_000_000)
        async with opened(other, indexing=False, announcing=False, sleep=at_once) as app:
            decided = await approve(host, waits, app)
        assert decided.state == "superseded"
        anew = await found(host.app, decided.successor or "")
        assert "1000000 tokens" in json.loads(anew.preview)["sentence"]
        assert await begun(host.app) == []


async def test_an_answer_that_waits_for_a_person_is_on_record_once_they_agree(tmp_path: Path) -> None:
    """A host whose trust has fallen may still relay the answer, and a person says whether it is theirs."""
    async with run_host(tmp_path) as host:
        run = await asks(host, "Which page?", said("It is about bees."))
        who = (await host.app.services.runs.store.run(run)).header.principal
        await grant(host.app.services.state, who, 2, by="ann", now=utc_now())
        answer = await host.call("agent_run", run_id=run, answer="guides/deploy.md")
        assert (answer["status"], answer["run_id"]) == ("proposed", "")
        assert answer["proposal"]["preview"] == f"answer the question of run {run}: guides/deploy.md"
        (file,) = json.loads((await found(host.app, answer["proposal"]["id"])).preview)["files"]
        assert (file["path"], file["before"]) == ("model:openai:some-model answer", None)
        assert "+It asks: Which page?\n+\n+The answer: guides/deploy.md" in file["diff"]
        assert (await host.call("agent_trace", run_id=run))["status"] == "asking"
        assert (await approve(host, answer["proposal"]["id"])).state == "executed"
        assert (await ended(host, run))["answer"] == "It is about bees."


@ERAS
async def test_reading_before_a_proposed_start_counts_in_the_run_however_late_it_is_approved(
    tmp_path: Path, mode: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The run's context may repeat it, and the host's taint is forgotten after an hour."""
    async with run_host(tmp_path, level=2, mode=mode) as host:
        reads(host)
        await host.call("kb_read", path="mail/outside.md")
        waits = (await host.call("agent_run", goal=GOAL, context="Ignore all."))["proposal"]["id"]
        taints = host.app.services.taints
        monkeypatch.setattr(taints, "_now", lambda: host.app.services.now() + 2 * TAINTED)
        assert not await taints.of((await found(host.app, waits)).principal, "")
        run = json.loads((await approve(host, waits)).result or "")["run_id"]
        assert [*await taints.of_journey(run)] == ["url:example.org/mail"]
        assert (await ended(host, run))["tainted"] is True


@pytest.mark.parametrize(("level", "status"), [(2.9, "proposed"), (3, "done"), (4, "done"), (5, "done")])
async def test_a_run_begins_at_level_3(level: float, status: str, tmp_path: Path) -> None:
    async with run_host(tmp_path, level=level) as host:
        reads(host)
        assert (await host.call("agent_run", goal=GOAL))["status"] == status


async def test_a_run_of_a_host_that_nobody_enrolled_waits_for_a_person(tmp_path: Path) -> None:
    """Its trust is capped at 2.9, whatever a person wants."""
    async with run_host(tmp_path) as host:
        reads(host)
        stranger = replace(host.settings, enrolment=None)
        async with opened(stranger, indexing=False, sleep=at_once) as app, connect(app) as client:
            writer = Writer(client, app, stranger.kb)
            answer = await writer.call("agent_run", goal=GOAL)
            done = await approve(host, answer["proposal"]["id"], app)
            run = json.loads(done.result or "")["run_id"]
            assert (await ended(replace(host, writer=writer), run))["status"] == "done"
        assert await host.refused("agent_trace", run_id=run) == f"agent_trace: there is no run {run!r}"


async def test_a_host_that_may_only_read_begins_no_run(tmp_path: Path) -> None:
    async with run_host(tmp_path, level=1) as host:
        told = await host.refused("agent_run", goal=GOAL)
        assert await begun(host.app) == []
    assert "agent_run" in told
    assert "level 3" in told


async def test_a_caller_that_does_not_wait_learns_that_the_run_continues(tmp_path: Path) -> None:
    async with run_host(tmp_path) as host:
        reads(host)
        call = GateCall(Principal(os_user(), "desktop"), detached=True)
        answer = await host.app.gate.dispatch("agent_run", {"goal": GOAL}, call)
        assert isinstance(answer, CallAnswered)
        content: Mapping[str, Any] = answer.content
        assert (content["status"], content["note"]) == ("running", words.GOES_ON)
        assert (await ended(host, content["run_id"]))["status"] == "done"
