"""`knowledge-forge runs`: a person lists, follows, answers, resumes and ends runs of any host."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import anyio
import pytest

from agents.loop.record.frames import Control, PersonAnswered
from agents.loop.store.ports import Hold
from mcp_server.app.composition import open_app
from mcp_server.app.knowledge_base import utc_now
from mcp_server.runs.locations import runs_in
from tests.contract.cli.test_run import ACHIEVED, ANSWER, COULD_NOT, DEPLOY, MOVE, READ, WAITS, WRONGLY_ASKED, asks
from tests.doubles.provider_turns import said
from tests.support.hosts.persons import ME
from tests.support.hosts.terminals import TIMEOUT_S
from tests.support.hosts.writers import let_in
from tests.support.knowledge_bases.folders import write
from tests.support.runs.hosts import asking
from tests.support.runs.persons import MODEL, RunPerson, run_person
from tests.support.state.postgres import PostgresServer

pytestmark = pytest.mark.skipif(os.name == "nt", reason="there are no pseudo-terminals")


@pytest.fixture
def ann(tmp_path: Path) -> Iterator[RunPerson]:
    write(tmp_path / "kb")
    with run_person(tmp_path) as person:
        yield person


def begun(ann: RunPerson, goal: str = "Where is it?", code: int = ACHIEVED) -> str:
    """Return the id of a run that was led until it needed a person."""
    assert ann.here("run", goal).returncode == code
    return ann.newest().id


# --- looking ----------------------------------------------------------------------------------------------------------


def test_an_empty_list_of_runs_says_so(ann: RunPerson) -> None:
    done = ann.modelless.here("runs")
    assert (done.returncode, done.stdout, done.stderr) == (COULD_NOT, "no runs\n", "")
    assert json.loads(ann.modelless.here("runs", "list", "--json").stdout) == []


def test_runs_are_listed_newest_first_and_filtered_by_state_without_any_model(ann: RunPerson) -> None:
    ann.will("Where", READ, said(ANSWER))
    ann.will("Tidy", asks("Which page?"))
    ann.will("Move", MOVE)
    done, asked, proposed = begun(ann), begun(ann, "Tidy up.", WAITS), begun(ann, "Move it.", WAITS)
    person = ann.modelless
    lines = person.here("runs").stdout.splitlines()
    assert [line.split()[0] for line in lines] == [proposed, asked, done]
    assert ["waits for a person's" in line for line in lines] == [True, True, False]
    assert f"{ME}@unenrolled  {MODEL}  Tidy up." in lines[1]
    for state, run_id in (("done", done), ("asking", asked), ("proposed", proposed)):
        (found,) = json.loads(person.here("runs", "list", "--state", state, "--json").stdout)
        assert (found["run_id"], found["status"], found["principal"]) == (run_id, state, f"{ME}@unenrolled")
    assert person.here("runs", "list", "--state", "failed").returncode == COULD_NOT
    assert person.here("runs", "list", "--limit", "1").stdout.splitlines() == lines[:1]


def test_a_run_is_explained_step_by_step_with_its_full_answer_and_how_to_continue(ann: RunPerson) -> None:
    long = "".join(f"Line {number} of the answer.\n" for number in range(60))
    ann.will("Where", READ, said(long))
    ann.will("Tidy", asks("Which page?\nSay its path."))
    run_id, asked = begun(ann), begun(ann, "Tidy up.", WAITS)
    shown = ann.modelless.here("runs", "show", run_id).stdout
    assert shown.startswith(f"Run {run_id} of {ME}@unenrolled, started ")
    assert f': kb_read with {{"path":"{DEPLOY}"}}' in shown
    assert shown.endswith("Its answer:\n" + long.strip() + "\n")
    waits = ann.modelless.here("runs", "show", asked).stdout.splitlines()
    assert waits[-5:] == [
        "It asks:",
        "> Which page?",
        "> Say its path.",
        "",
        f'answer it: knowledge-forge runs answer {asked} "..."',
    ]
    fields = json.loads(ann.modelless.here("runs", "show", asked, "--json").stdout)
    assert (fields["status"], fields["question"], fields["iterations"]) == ("asking", "Which page?\nSay its path.", 1)


def test_an_unknown_run_gets_one_sentence(ann: RunPerson) -> None:
    for words in (("show", "r-0"), ("follow", "r-0"), ("answer", "r-0", "x"), ("resume", "r-0"), ("cancel", "r-0")):
        done = ann.here("runs", *words)
        assert (done.returncode, done.stdout) == (COULD_NOT, "")
        assert done.stderr == "knowledge-forge: there is no run 'r-0'\n"


def test_a_run_can_be_followed_afterwards_and_the_exit_code_is_its_state(ann: RunPerson) -> None:
    ann.will("Where", READ, said(ANSWER))
    ann.will("Tidy", asks("Which page?"))
    done, asked = begun(ann), begun(ann, "Tidy up.", WAITS)
    followed = ann.modelless.here("runs", "follow", done)
    assert followed.returncode == ACHIEVED
    assert followed.stdout.endswith(f"{ANSWER}\n")
    assert "1. The model decided to call tools" in followed.stdout
    assert followed.stderr.startswith(f"run {done} of {ME}@unenrolled, with {MODEL}\n")
    lines = ann.modelless.here("runs", "follow", asked, "--json")
    assert lines.returncode == WAITS
    assert [json.loads(line)["type"] for line in lines.stdout.splitlines()] == ["plan", "ask_user", "answer"]


def test_whatever_ends_with_an_answer_in_json_ends_with_the_same(ann: RunPerson) -> None:
    """A scheduled job that begins runs and one that watches them read the same format."""
    ann.will("Where", READ, said(ANSWER))
    ann.will("Move", MOVE)
    for goal, code in (("Where is it?", ACHIEVED), ("Move it.", WAITS)):
        answer = ann.told("run", goal, code=code)
        assert ann.told("runs", "follow", answer["run_id"], code=code) == answer
    done = ann.told("runs", "resume", ann.told("run", "Where", code=COULD_NOT)["run_id"], code=COULD_NOT)
    assert (done["type"], done["status"]) == ("answer", "failed")


@pytest.mark.external
def test_a_run_is_followed_while_another_process_leads_it(ann: RunPerson) -> None:
    ann.will("Tidy", asks("Which page?"), READ, said(ANSWER))
    run_id = begun(ann, "Tidy up.", WAITS)
    ann.here("runs", "answer", run_id, "this", "--leave")
    with ann.background("runs", "follow", run_id) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        while "answered: this" not in process.stdout.readline():
            pass
        assert f"run {run_id} of" in process.stderr.readline()
        assert "no process is running it" in process.stderr.readline()
        assert ann.here("runs", "resume", run_id).returncode == ACHIEVED
        out, _ = process.communicate(timeout=TIMEOUT_S)
    assert process.returncode == ACHIEVED
    assert out.endswith(f"{ANSWER}\n")


def test_a_run_that_asks_is_listed_with_all_that_waits_for_a_person(ann: RunPerson) -> None:
    ann.will("Tidy", asks("Which page?"))
    ann.will("Move", MOVE)
    asked, proposed = begun(ann, "Tidy up.", WAITS), begun(ann, "Move it.", WAITS)
    done = ann.modelless.here("review", "--list")
    assert f"{asked}  run  {ME}@unenrolled  asks: Tidy up. (knowledge-forge runs show {asked})" in done.stdout
    items = json.loads(ann.modelless.here("review", "--list", "--json").stdout)
    assert [item["kind"] for item in items] == ["call", "run"]
    card = ann.modelless.here("review", "--show", items[0]["id"]).stdout
    assert f"Run\ngoal: Move it.\nto see its steps: knowledge-forge runs show {proposed}" in card
    assert "  run: {" not in card


def test_the_doctor_says_which_runs_wait_and_which_nobody_leads(ann: RunPerson) -> None:
    ann.will("Tidy", asks("Which page?"), asks("Which page?"))
    ann.will("Move", MOVE)
    assert "runs" not in {one["what"] for one in json.loads(ann.modelless.here("doctor", "--json").stdout)}
    left, _, _ = begun(ann, "Tidy up.", WAITS), begun(ann, "Move it.", WAITS), begun(ann, "Tidy up.", WAITS)
    assert ann.modelless.here("runs", "answer", left, "all", "--leave").returncode == ACHIEVED
    (runs,) = [one for one in json.loads(ann.modelless.here("doctor", "--json").stdout) if one["what"] == "runs"]
    assert runs["health"] == "note"
    assert (
        runs["found"]
        == "1 asks a person, 1 waits for a decision, 1 running, 1 of them without a process that works on them"
    )


# --- going on ---------------------------------------------------------------------------------------------------------


def test_a_person_answers_for_the_run_of_any_host(ann: RunPerson) -> None:
    ann.will("Tidy", asks("Which page?"), said("Twenty."))
    allowed = asyncio.run(let_in(ann.settings, "nightly", 3))
    assert allowed.enrolment
    run_id = begun(replace(ann, more={"FORGE_ENROLMENT": allowed.enrolment}), "Tidy up.", WAITS)
    done = ann.here("runs", "answer", run_id, "all of them")
    assert (done.returncode, done.stdout) == (ACHIEVED, "Twenty.\n")
    there = ann.record(run_id)
    (answered,) = [frame for frame in there.frames if isinstance(frame, PersonAnswered)]
    assert (answered.by, answered.text) == (ME, "all of them")
    assert there.header.principal == f"{ME}@nightly"
    again = ann.here("runs", "answer", run_id, "none of them")
    assert (again.returncode, again.stdout) == (COULD_NOT, "")
    assert "is done, so it cannot be answered" in again.stderr


def test_an_answer_is_as_long_as_one_by_a_host_at_most(ann: RunPerson) -> None:
    ann.will("Tidy", asks("Which page?"))
    run_id = begun(ann, "Tidy up.", WAITS)
    for more in ((), ("--leave",)):
        refused = ann.here("runs", "answer", run_id, "x" * 8_001, *more)
        assert (refused.returncode, refused.stdout) == (WRONGLY_ASKED, "")
        assert "8,001 characters" in refused.stderr
    assert ann.record(run_id).state == "asking"


def test_an_answer_is_left_to_a_server_that_has_the_model(ann: RunPerson) -> None:
    ann.will("Tidy", asks("Which page?"), said("Twenty."))
    run_id = begun(ann, "Tidy up.", WAITS)
    assert ann.modelless.here("runs", "answer", run_id, "all").returncode == WRONGLY_ASKED
    left = ann.modelless.here("runs", "answer", run_id, "all", "--leave")
    assert (left.returncode, left.stdout) == (
        0,
        f"your answer was recorded; a server with {MODEL} continues the run\n",
    )
    assert (ann.record(run_id).state, len(ann.model.asked)) == ("running", 1)

    async def serve() -> str:
        settings = replace(asking(ann.settings, ann.served), open_browser=False)
        async with open_app(settings, indexing=False) as app:
            with anyio.fail_after(TIMEOUT_S):
                async for there, _ in app.services.runs.followed(run_id):
                    if there.over:
                        return there.state
        raise AssertionError("it was not gone on with")

    assert asyncio.run(serve()) == "done"


def test_a_run_continues_with_its_first_model(ann: RunPerson) -> None:
    ann.will("Tidy", asks("Which page?"), said("Twenty."))
    run_id = begun(ann, "Tidy up.", WAITS)
    done = ann.here("runs", "answer", run_id, "all", "--provider", "openai:another")
    assert done.returncode == WRONGLY_ASKED
    assert f"was started with {MODEL}" in done.stderr
    other = replace(ann, more={"FORGE_MODEL": "openai:another"})
    assert other.here("runs", "answer", run_id, "all", "--provider", MODEL).returncode == ACHIEVED


def test_resuming_a_finished_run_says_how_it_ended(ann: RunPerson) -> None:
    ann.will("Where", READ, said(ANSWER))
    run_id = begun(ann)
    for person in (ann, ann.modelless):
        done = person.here("runs", "resume", run_id)
        assert (done.returncode, done.stdout) == (ACHIEVED, f"{ANSWER}\n")
    assert len(ann.model.asked) == 2


def test_an_orphaned_run_is_resumed(ann: RunPerson) -> None:
    """`runs answer --leave` leaves a run as a killed process does: without a leader."""
    ann.will("Tidy", asks("Which page?"), READ, said(ANSWER))
    run_id = begun(ann, "Tidy up.", WAITS)
    ann.modelless.here("runs", "answer", run_id, "all", "--leave")
    done = ann.here("runs", "resume", run_id)
    assert (done.returncode, done.stdout) == (ACHIEVED, f"{ANSWER}\n")
    assert "Another process took it up" in done.stderr


def test_resuming_a_run_that_another_process_may_lead_says_what_to_wait_for(ann: RunPerson) -> None:
    ann.will("Tidy", asks("Which page?"))
    run_id = begun(ann, "Tidy up.", WAITS)
    ann.modelless.here("runs", "answer", run_id, "all", "--leave")
    now = utc_now()
    ann.asked(lambda state: runs_in(state).claim(run_id, Hold("other", now, now + timedelta(minutes=1))))
    with ann.background("runs", "resume", run_id) as resuming:
        assert resuming.stderr is not None
        assert "another process is running it" in resuming.stderr.readline()
        assert f"runs follow {run_id}" in resuming.stderr.readline()
        assert ann.modelless.here("runs", "cancel", run_id).returncode == 0
        resuming.communicate(timeout=TIMEOUT_S)
    assert resuming.returncode == COULD_NOT


# --- ending -----------------------------------------------------------------------------------------------------------


def test_a_run_is_cancelled_once_without_any_model_and_its_proposal_withdrawn(ann: RunPerson) -> None:
    ann.will("Move", MOVE)
    run_id = begun(ann, "Move it.", WAITS)
    proposal = ann.record(run_id).proposal
    done = ann.modelless.here("runs", "cancel", run_id, "--why", "not today")
    assert done.returncode == 0
    assert done.stdout.startswith(f"run {run_id} was cancelled: by {ME} on the command line: not today.")
    last = ann.record(run_id).frames[-1]
    assert isinstance(last, Control)
    assert last.signal == "cancelled"
    assert ann.proposal(proposal).state == "withdrawn"
    again = ann.modelless.here("runs", "cancel", run_id)
    assert (again.returncode, again.stdout) == (COULD_NOT, "")
    assert "nothing was cancelled" in again.stderr


@pytest.mark.external
def test_runs_in_a_shared_database_are_led_answered_and_ended_the_same_way(
    ann: RunPerson, postgres: PostgresServer, schema: str
) -> None:
    more = {"FORGE_DATABASE_URL": postgres.url(), "FORGE_DATABASE_SCHEMA": schema}
    person = replace(ann, more=more)
    person.will("Tidy", asks("Which page?"), said("Tidied: two hives left."))
    person.will("Move", MOVE)
    asked, waits = person.told("run", "Tidy up.", code=WAITS), person.told("run", "Move it.", code=WAITS)
    listed = json.loads(person.here("runs", "--json").stdout)
    assert [one["run_id"] for one in listed] == [waits["run_id"], asked["run_id"]]
    done = person.here("runs", "answer", asked["run_id"], "all of them")
    assert (done.returncode, done.stdout) == (ACHIEVED, "Tidied: two hives left.\n")
    assert person.here("runs", "cancel", waits["run_id"]).returncode == 0
    shown = json.loads(person.here("review", "--show", waits["proposal"]["id"], "--json").stdout)
    assert shown["state"] == "withdrawn"
