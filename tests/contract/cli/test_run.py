"""`knowledge-forge run` as a person or a script uses it.

A real command line and a real model server with scripted answers.
"""

from __future__ import annotations

import io
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from knowledge.extras import install_command
from mcp_server.app.knowledge_base import open_state, utc_now
from mcp_server.cli.runs.decision import QUESTION
from mcp_server.gate.trust.scores import freeze
from tests.doubles.provider_turns import Script, said, uses
from tests.support.hosts.persons import ME, ROOT
from tests.support.hosts.terminals import TIMEOUT_S
from tests.support.hosts.writers import let_in
from tests.support.knowledge_bases.folders import write
from tests.support.runs.persons import MODEL, RunPerson, run_person

pytestmark = pytest.mark.skipif(os.name == "nt", reason="there are no pseudo-terminals")

ACHIEVED, COULD_NOT, WRONGLY_ASKED, WAITS, INTERRUPTED, NOBODY_READS = 0, 1, 2, 3, 130, 141
DEPLOY = "guides/deploy.md"
READ, MOVE = uses("kb_read", path=DEPLOY), uses("kb_move", path=DEPLOY, to="guides/release.md")
ANSWER = "It stands in the guide.\nThere is no other place."


@pytest.fixture
def ann(tmp_path: Path) -> Iterator[RunPerson]:
    write(tmp_path / "kb")
    with run_person(tmp_path) as person:
        yield person


def asks(question: str) -> Script:
    return uses("ask_user", question=question)


def told_last(body: Mapping[str, Any]) -> str:
    """Return the model's last request."""
    return str(body["messages"][-1]["content"])


# --- runs that end ----------------------------------------------------------------------------------------------------


def test_the_answer_alone_is_on_standard_output_and_every_step_beside_it(ann: RunPerson) -> None:
    ann.will("Where", READ, said(ANSWER))
    done = ann.here("run", "Where is the deployment told?")
    assert (done.returncode, done.stdout) == (ACHIEVED, f"{ANSWER}\n")
    there = ann.newest()
    steps = done.stderr.splitlines()
    assert steps[0] == f"run {there.id} of {ME}@unenrolled, with {MODEL}"
    assert any(f': kb_read with {{"path":"{DEPLOY}"}}' in line for line in steps)
    assert steps[-1].startswith(f"run {there.id} is done. Elapsed: 2 iterations")
    assert (there.header.principal, there.header.goal) == (f"{ME}@unenrolled", "Where is the deployment told?")
    assert (there.header.limits.iterations, there.header.limits.seconds) == (5, 60.0)


def test_with_json_each_recorded_step_is_a_line_and_the_answer_comes_last(ann: RunPerson) -> None:
    ann.will("Where", READ, said(ANSWER))
    done = ann.here("run", "Where is it?", "--json", "--iterations", "3", "--seconds", "30")
    *steps, answer = [json.loads(line) for line in done.stdout.splitlines()]
    assert (done.returncode, done.stderr) == (ACHIEVED, "")
    header, *frames = ann.here("runs", "show", answer["run_id"], "--frames").stdout.splitlines()
    assert steps == [json.loads(line) for line in frames]
    assert [step["type"] for step in steps] == ["plan", "tool_call", "tool_result", "plan", "response"]
    assert {"type": "answer", "status": "done", "text": ANSWER, "goal_achieved": True}.items() <= answer.items()
    assert json.loads(header)["limits"]["iterations"] == 3


def test_context_is_read_from_a_file_or_from_standard_input(ann: RunPerson, monkeypatch: pytest.MonkeyPatch) -> None:
    file = ann.folder / "known.txt"
    file.write_text("The hives are on the roof.", encoding="utf-8")
    ann.will("Say it", said("On the roof."), said("On the roof."))
    assert ann.here("run", "Say it", "--context", str(file)).returncode == ACHIEVED
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"The hives are in the cellar.")))
    assert ann.here("run", "Say it", "--context", "-").returncode == ACHIEVED
    assert ["on the roof." in json.dumps(body) for body in ann.model.asked] == [True, False]
    assert ["in the cellar." in json.dumps(body) for body in ann.model.asked] == [False, True]


def test_a_run_has_the_tools_of_the_toolsets_that_it_was_given(ann: RunPerson) -> None:
    ann.will("Say it", said("It is 20."))
    assert ann.here("run", "Say it", "--toolset", "trust").returncode == ACHIEVED
    offered = {tool["function"]["name"] for tool in ann.model.asked[0]["tools"]}
    assert "trust_status" in offered
    assert not {name for name in offered if name.startswith("kb_")}


def test_a_run_belongs_to_the_host_whose_secret_is_given(ann: RunPerson) -> None:
    import asyncio

    allowed = asyncio.run(let_in(ann.settings, "nightly", 3))
    assert allowed.enrolment
    ann.will(
        "Write", uses("kb_merge", path="guides/bees.md", content="# Bees\n\nThere are two hives."), said("Written.")
    )
    person = replace(ann, more={"FORGE_ENROLMENT": allowed.enrolment})
    assert person.here("run", "Write it down").returncode == ACHIEVED
    assert ann.newest().header.principal == f"{ME}@nightly"
    assert "two hives" in (ann.kb / "guides/bees.md").read_text(encoding="utf-8")


def test_with_a_secret_that_is_not_known_here_no_run_begins(ann: RunPerson) -> None:
    done = replace(ann, more={"FORGE_ENROLMENT": "of another folder"}).here("run", "Write it down")
    assert (done.returncode, done.stdout) == (COULD_NOT, "")
    assert "belongs to no registered host" in done.stderr
    assert "of another folder" not in done.stderr
    assert "run r-" not in done.stderr


# --- runs that give up or cannot begin --------------------------------------------------------------------------------


def test_a_run_that_gives_up_says_why_and_has_not_achieved_its_goal(ann: RunPerson) -> None:
    ann.will("Where", uses("give_up", reason="Nobody wrote it down."))
    done = ann.here("run", "Where is it?")
    assert (done.returncode, done.stdout) == (COULD_NOT, "Nobody wrote it down.\n")
    assert "gave up" in done.stderr


def test_a_run_that_reaches_a_limit_has_no_answer(ann: RunPerson) -> None:
    ann.will("Where", READ, READ)
    done = ann.here("run", "Where is it?", "--iterations", "1")
    assert (done.returncode, done.stdout) == (COULD_NOT, "")
    assert f"run {ann.newest().id} failed: " in done.stderr


def test_without_a_model_the_variables_that_name_one_are_named(ann: RunPerson) -> None:
    done = ann.modelless.here("run", "Where is it?")
    assert done.returncode == WRONGLY_ASKED
    for name in ("FORGE_MODEL", "--provider", "ANTHROPIC_API_KEY", "OPENAI_API_KEY"):
        assert name in done.stderr
    keyless = replace(ann, more={"OPENAI_API_KEY": "", "OPENAI_BASE_URL": ""})
    done = keyless.here("run", "Where is it?")
    assert done.returncode == WRONGLY_ASKED
    assert "OPENAI_API_KEY" in done.stderr
    assert "OPENAI_BASE_URL" in done.stderr
    assert "ANTHROPIC" not in done.stderr
    assert ann.here("run", "Where is it?", "--provider", "nobody:small").returncode == WRONGLY_ASKED
    assert "no runs" in ann.here("runs").stdout


def test_a_missing_package_is_reported_before_anything_is_recorded(ann: RunPerson) -> None:
    (ann.folder / "without").mkdir()
    (ann.folder / "without/openai.py").write_text("raise ImportError", encoding="utf-8")
    path = os.pathsep.join([str(ann.folder / "without"), str(ROOT)])
    done = replace(ann, more={"PYTHONPATH": path}).run("run", "Where is it?")
    assert (done.returncode, done.stdout) == (WRONGLY_ASKED, "")
    assert install_command("openai") in done.stderr
    assert ann.here("runs").stdout == "no runs\n"


def test_the_model_named_in_the_command_is_asked(ann: RunPerson) -> None:
    ann.will("Say it", said("It is 20."))
    assert ann.here("run", "Say it", "--provider", "openai:another").returncode == ACHIEVED
    assert ann.model.asked[0]["model"] == "another"
    assert ann.newest().header.model == "openai:another"


@pytest.mark.parametrize(
    "words",
    [
        (" ",),
        ("Say it", "--iterations", "0"),
        ("Say it", "--seconds", "4000"),
        ("Say it", "--toolset", "no"),
        ("Say it", "--context", "nowhere.md"),
    ],
)
def test_invalid_options_are_reported_before_anything_is_recorded(ann: RunPerson, words: tuple[str, ...]) -> None:
    done = ann.here("run", *words)
    assert done.returncode == WRONGLY_ASKED
    assert done.stderr.count("\n") == 1
    assert (ann.model.asked, ann.here("runs").stdout) == ([], "no runs\n")


def test_a_host_that_is_frozen_runs_nothing(ann: RunPerson) -> None:
    async def frozen() -> None:
        async with open_state(ann.settings) as state:
            await freeze(state, f"{ME}@unenrolled", by="ann", reason="no", now=utc_now())

    import asyncio

    asyncio.run(frozen())
    done = ann.here("run", "Where is it?")
    assert (done.returncode, done.stdout, ann.model.asked) == (COULD_NOT, "", [])
    assert "frozen" in done.stderr
    assert ann.here("runs").stdout == "no runs\n"


def test_text_of_a_model_or_a_page_moves_no_cursor(ann: RunPerson) -> None:
    (ann.kb / "evil.md").write_text("# Evil\n\n\x1b[2J\u202egnp.exe\n", encoding="utf-8")
    ann.will("Read", uses("kb_read", path="evil.md"), said("\x1b[2Jdone\u202e"))
    done = ann.here("run", "Read \x1b[31mevil.md")
    assert done.returncode == ACHIEVED
    for stream in (done.stdout, done.stderr, ann.here("runs").stdout, ann.here("runs", "show", ann.newest().id).stdout):
        assert "\x1b" not in stream
        assert "\u202e" not in stream
    assert "⟦U+001B⟧" in done.stdout


# --- questions to a person --------------------------------------------------------------------------------------------


def test_a_program_that_was_started_without_standard_input_asks_nobody(ann: RunPerson) -> None:
    """`knowledge-forge run GOAL <&-`, as some schedulers start programs."""
    ann.will("Look", asks("Which?"))
    program = [sys.executable, "-m", "mcp_server", *ann.words("run", "Look")]
    closed = ["/bin/sh", "-c", 'exec "$@" <&-', "sh", *program]
    done = subprocess.run(
        closed, env=ann.env, cwd=ann.folder, capture_output=True, encoding="utf-8", timeout=TIMEOUT_S, check=False
    )
    assert done.returncode == WAITS, done.stderr
    assert "Traceback" not in done.stderr


def test_without_a_terminal_a_question_ends_the_command_and_says_how_to_continue(ann: RunPerson) -> None:
    ann.will("Move", asks("Which page?"), said("The roof then."))
    done = ann.here("run", "Move it")
    run_id = ann.newest().id
    assert (done.returncode, done.stdout) == (WAITS, "")
    assert f'knowledge-forge runs answer {run_id} "..."' in done.stderr
    answered = ann.here("runs", "answer", run_id, "guides/deploy.md")
    assert (answered.returncode, answered.stdout) == (ACHIEVED, "The roof then.\n")
    assert "Which page?" not in answered.stderr  # it was shown before
    assert "guides/deploy.md" in told_last(ann.model.asked[-1])


def test_without_a_terminal_a_proposal_ends_the_command_and_a_decision_lets_it_be_resumed(ann: RunPerson) -> None:
    ann.will("Move", MOVE, said("It stays on the roof."))
    waits = ann.told("run", "Move it", code=WAITS)
    assert (waits["status"], waits["proposal"]["level_needed"]) == ("proposed", 4)
    still = ann.here("runs", "resume", waits["run_id"])
    assert (still.returncode, still.stdout) == (WAITS, "")
    assert f"review --show {waits['proposal']['id']}" in still.stderr
    ann.declines(waits["proposal"]["id"])
    done = ann.here("runs", "resume", waits["run_id"])
    assert (done.returncode, done.stdout) == (ACHIEVED, "It stays on the roof.\n")
    assert "A person decided: " in done.stderr
    assert (ann.kb / DEPLOY).exists()


def test_at_a_terminal_a_person_answers_decides_and_reads_the_answer_in_one_sitting(ann: RunPerson) -> None:
    ann.will("Move", asks("Which page?"), MOVE, said("It lies at guides/release.md."))
    with ann.at("run", "Move it", size=(100, 120)) as screen:
        screen.until("> Which page?", "your answer")
        screen.type("guides/deploy.md\n")
        screen.until("Exact call", "not protected by a passkey", QUESTION)
        assert (ann.kb / DEPLOY).exists()
        proposal = ann.proposal(ann.newest().proposal)
        screen.type("a\n")
        screen.until(f"to approve type {proposal.hash[:6]}:")
        screen.type("nothing\n")
        screen.until("nothing was decided", QUESTION)
        screen.type("a\n")
        screen.until(f"to approve type {proposal.hash[:6]}:")
        screen.type(f"{proposal.hash[:6]}\n")
        screen.until("approved, and carried out", "It lies at guides/release.md.", "is done. Elapsed:")
        assert screen.left() == ACHIEVED
    assert not (ann.kb / DEPLOY).exists()
    verdict = ann.proposal(proposal.id).verdict
    assert verdict is not None
    assert (verdict.by, verdict.channel, verdict.advisory) == (ME, "terminal", True)


@pytest.mark.external
def test_at_a_terminal_an_undecided_proposal_keeps_waiting(ann: RunPerson) -> None:
    ann.will("Move", MOVE)
    with ann.at("run", "Move it", size=(100, 120)) as screen:
        screen.until(QUESTION)
        screen.type("\n")
        screen.until("runs resume")
        assert screen.left() == WAITS
    assert ann.newest().state == "suspended"
    assert ann.proposal(ann.newest().proposal).state == "pending"


@pytest.mark.external
def test_with_a_passkey_it_is_signed_on_the_page_and_continues_automatically(ann: RunPerson) -> None:
    ann.enrol_passkey()
    ann.will("Move", MOVE, said("It lies at guides/release.md."))
    with ann.at("run", "Move it", size=(100, 120)) as screen:
        screen.until("approving needs a passkey", "/proposals/")
        ann.signs(ann.newest().proposal)
        screen.until("It lies at guides/release.md.")
        assert screen.left() == ACHIEVED
    assert (ann.kb / "guides/release.md").exists()


# --- interrupted ------------------------------------------------------------------------------------------------------


def test_interrupted_at_a_terminal_the_run_is_on_record_as_cancelled(ann: RunPerson) -> None:
    ann.will("Where", READ, said(ANSWER))
    ann.served.plan = _slow_from(2)
    with ann.at("run", "Where is it?") as screen:
        screen.until("Result of")
        screen.process.send_signal(signal.SIGINT)
        screen.until("was cancelled: Ctrl-C stopped the command that ran it")
        assert screen.left() == INTERRUPTED
        assert screen.echoes
    there = ann.newest()
    assert (there.state, there.open_calls) == ("cancelled", ())


def test_interrupted_while_reading_its_input_it_ends_immediately(ann: RunPerson) -> None:
    command = [sys.executable, "-m", "mcp_server", *ann.words("run", "Where is it?", "--context", "-")]
    with subprocess.Popen(command, bufsize=0, stdin=subprocess.PIPE, env=ann.env) as process:
        assert process.stdin is not None
        process.stdin.write(b"x" * 500_000)  # more than a pipe holds: it reads
        process.send_signal(signal.SIGINT)
        assert process.wait(TIMEOUT_S) == INTERRUPTED


@pytest.mark.external
def test_interrupted_at_a_question_the_run_keeps_waiting(ann: RunPerson) -> None:
    ann.will("Move", asks("Which page?"))
    with ann.at("run", "Move it") as screen:
        screen.until("your answer")
        screen.process.send_signal(signal.SIGINT)
        screen.until("runs answer")
        assert screen.left() == INTERRUPTED
    assert ann.newest().state == "asking"


@pytest.mark.external
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_signal_that_ends_programs_ends_the_run_too(ann: RunPerson, number: signal.Signals) -> None:
    ann.will("Where", READ, said(ANSWER))
    ann.served.plan = _slow_from(2)
    with ann.background("run", "Where is it?", "--json") as process:
        assert process.stdout is not None
        while "tool_result" not in process.stdout.readline():
            pass
        process.send_signal(number)
        _, err = process.communicate(timeout=TIMEOUT_S)
    assert process.returncode == 128 + number, err
    assert "Traceback" not in err
    there = ann.newest()
    assert (there.state, there.why) == ("cancelled", f"{number.name} stopped the command that ran it")


def test_a_command_in_the_background_of_a_script_is_ended_by_a_signal_as_well(ann: RunPerson) -> None:
    ann.will("Where", READ, said(ANSWER))
    ann.served.plan = _slow_from(1)
    usual = signal.signal(signal.SIGINT, signal.SIG_IGN)  # as a shell sets it for `command &`
    try:
        process = ann.background("run", "Where is it?")
    finally:
        signal.signal(signal.SIGINT, usual)
    with process:
        while not ann.served.count("POST"):
            time.sleep(0.02)
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=TIMEOUT_S)
    assert process.returncode == 128 + signal.SIGTERM
    there = ann.newest()
    assert (there.state, there.why) == ("cancelled", "SIGTERM stopped the command that ran it")


@pytest.mark.external
def test_a_run_whose_output_nobody_reads_is_cancelled(ann: RunPerson) -> None:
    ann.will("Where", READ, said(ANSWER))
    ann.served.plan = _slow_from(2)
    with ann.background("run", "Where is it?", "--json") as process:
        assert process.stdout is not None
        process.stdout.readline()
        process.stdout.close()
        ann.served.plan = _slow_from(99)
        assert process.wait(TIMEOUT_S) == NOBODY_READS
    there = ann.newest()
    assert (there.state, there.why) == ("cancelled", "nobody was reading its steps")


def _slow_from(first: int) -> Any:
    """Return a plan that answers requests from that one on much too late."""
    from tests.doubles.serving import delayed

    return lambda _method, _path, number: delayed(TIMEOUT_S) if number >= first else None
