"""An agent's result: the recorded fields that its file names, with clear errors for a wrong declaration."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest

from agents.catalogue import built_in, entries
from agents.engine.events import Logged, PhaseChanged, Started, WorkRecorded
from agents.engine.fold import fold
from agents.engine.state import JourneyState
from agents.engine.work.result import part_lines
from agents.prompts.prompt import prompt, recorded_result
from agents.report.journey_report import full_report
from agents.report.result import result_fields
from agents.spec.definition import Definition, defined
from agents.spec.yaml.field_path import says_something

NOW = datetime(2026, 11, 1, tzinfo=UTC)
FILE = "_agents/judge.yaml"
TEXT = """\
title: Judge
summary: Looks and judges.
initial: LOOK
complete: DONE
phases:
  - name: LOOK
    prompt: Look.
    work:
      properties:
        findings:
          type: array
          items:
            type: object
            properties:
              id: {type: string}
              text: {type: string}
              kind: {enum: [good, bad]}
              quotes: {type: array, items: {$ref: "#/$defs/quoted"}}
            required: [id, text]
        unsure: {type: array, items: {type: string}}
  - name: JUDGE
    prompt: Judge.
    work:
      properties:
        verdict: {enum: ["yes", "no"]}
        reason: {type: string}
        question: {type: string}
      x-asks: [question]
  - name: DONE
    prompt: Say it.
transitions:
  - {from: LOOK, to: JUDGE, condition: looked}
  - {from: JUDGE, to: DONE, condition: judged}
conditions:
  looked: {filled: findings}
  judged: {filled: verdict}
"""
LOOKED = {
    "findings": [
        {
            "id": "f1",
            "text": "It hums.",
            "kind": "good",
            "quotes": [{"path": "bees.md", "section": "Sound", "quote": "they hum"}],
        },
        {"id": "f2", "text": "It is cold.", "kind": "bad"},
    ],
    "unsure": ["How old is the queen?"],
}
JUDGED = {"verdict": "yes", "reason": "It hums,\nso it lives.", "question": "Why?"}


def read(result: str = "") -> Definition:
    return defined(FILE, {FILE: (TEXT + result).encode()}, ["kb_read"])


def state_of(**works: Any) -> JourneyState:
    log = [Logged(1, 1, NOW, "ada", Started("judge", "Does the hive live?", "LOOK", "ada"))]
    for phase, work in works.items():
        version, target = log[-1].version + 1, {"LOOK": "JUDGE", "JUDGE": "DONE"}[phase]
        steps: tuple[WorkRecorded | PhaseChanged, ...] = (
            WorkRecorded(phase, 1, work),
            PhaseChanged(phase, target, "done", is_backward=False),
        )
        log += [Logged(len(log) + n, version, NOW, "ada", step) for n, step in enumerate(steps, 1)]
    return fold(log)


@pytest.mark.parametrize(
    ("declared", "fields", "kind"),
    [
        ("", ["JUDGE.verdict", "JUDGE.reason"], "answer"),
        ("result: JUDGE.reason\n", ["JUDGE.reason"], "answer"),
        ("result: [JUDGE.verdict, LOOK.findings]\n", ["JUDGE.verdict", "LOOK.findings"], "answer"),
        (
            "result: {kind: map, fields: LOOK.findings.kind=bad.text, open: [LOOK.unsure]}\n",
            ["LOOK.findings.kind=bad.text"],
            "map",
        ),
    ],
)
def test_a_result_is_declared_or_the_last_works_fields(declared: str, fields: list[str], kind: str) -> None:
    """Without a declaration, as in files of earlier versions, the fields of the phases that lead to the end."""
    agent = read(declared).agent
    assert agent is not None
    assert agent.result is not None
    assert (agent.result.fields, agent.result.of(state_of()).kind) == (fields, kind)


@pytest.mark.parametrize(
    ("declared", "told"),
    [
        ("result: JUDG.reason\n", "'result' names 'JUDG', which is not a phase; did you mean 'JUDGE'?"),
        ("result: JUDGE\n", "'result' names 'JUDGE', which is not a field: write PHASE.field"),
        ("result: JUDGE.raeson\n", "the work of JUDGE has no 'raeson' there; did you mean 'reason'?"),
        ("result: DONE.reason\n", "'result' names 'DONE.reason', but DONE takes no work"),
        ("result: [JUDGE.reason, LOOK.findings.txt]\n", "the work of LOOK has no 'txt' there; did you mean 'text'?"),
        ("result: 3\n", "'result' must be a field, a list of fields or a mapping"),
        ("result: []\n", "'result' must be a field, a list of fields or a mapping"),
        (
            "result: {kind: anwser, fields: JUDGE.reason}\n",
            "'result' has the unknown kind 'anwser'; did you mean 'answer'?",
        ),
        ("result: {kind: map}\n", "'fields'"),
        (
            "result: {fields: JUDGE.reason, open: LOOK.unsur}\n",
            "the work of LOOK has no 'unsur' there; did you mean 'unsure'?",
        ),
        ("result: {fields: JUDGE.reason, opne: LOOK.unsure}\n", "'opne'"),
    ],
)
def test_a_wrong_result_is_reported_with_its_line(declared: str, told: str) -> None:
    definition = read(declared)
    assert definition.agent is None
    line = TEXT.count("\n") + 1
    assert any(told in problem.text and problem.line == line for problem in definition.problems), definition.problems


def test_what_is_recorded_of_the_result_keeps_its_order_and_leaves_out_empty_parts() -> None:
    agent = read(
        "result: {kind: map, fields: [JUDGE.verdict, LOOK.findings.text, JUDGE.reason], open: LOOK.unsure}\n"
    ).agent
    found = recorded_result(agent, state_of(LOOK=LOOKED, JUDGE={"verdict": "yes", "reason": " "}))
    assert [(part.source, part.name, part.value) for part in found.parts] == [
        ("JUDGE.verdict", "Verdict", "yes"),
        ("LOOK.findings.text", "Text", ["It hums.", "It is cold."]),
    ]
    assert [part.value for part in found.left_open] == [["How old is the queen?"]]
    assert part_lines(found.parts, 1_000) == ["- Verdict: yes", "- Text: It hums., It is cold."]


def test_the_result_comes_first_with_open_questions_and_sources_before_the_path() -> None:
    agent = read("result: {kind: decision, fields: [JUDGE.verdict, JUDGE.reason], open: LOOK.unsure}\n").agent
    assert agent is not None
    state = replace(state_of(LOOK=LOOKED, JUDGE=JUDGED), status="complete")
    text = full_report("judge-1", agent, state, [], NOW)
    heads = [line for line in text.splitlines() if line.startswith("## ")]
    assert heads[:5] == ["## Result", "## Open questions", "## Sources", "## Brief", "## Status"]
    assert "Decision:\n\n- Verdict: yes\n- Reason:\n\n  > It hums,\n  > so it lives.\n" in text
    assert "- bees.md > Sound\n" in text
    assert text.index("How old is the queen?") < text.index("## Sources")
    told = prompt(agent, state)
    assert told.startswith("Judge is complete.\n\nDecision:\n- Verdict: yes\n")
    assert told.index("Open questions:") < told.index("Work done:") < told.index("Say it.")
    fields = result_fields(recorded_result(agent, state), state)
    assert fields == {
        "kind": "decision",
        "complete": True,
        "parts": {"JUDGE.verdict": "yes", "JUDGE.reason": "It hums,\nso it lives."},
        "open": {"LOOK.unsure": ["How old is the queen?"]},
        "sources": [{"path": "bees.md", "section": "Sound"}],
    }


def test_before_the_end_a_report_shows_what_is_recorded_so_far() -> None:
    agent = read("result: [JUDGE.reason, LOOK.findings]\n").agent
    assert "## Result\n\nNone yet.\n" in full_report("judge-1", agent, state_of(), [], NOW)
    so_far = full_report("judge-1", agent, state_of(LOOK=LOOKED), [], NOW)
    assert "## Result\n\nThe work is not complete. Recorded so far:\n\n- Findings:\n" in so_far


def test_work_that_another_version_recorded_is_no_error() -> None:
    agent = read("result: LOOK.findings.text\n").agent
    state = state_of(LOOK={"findings": "none"})
    assert recorded_result(agent, state).parts == ()
    assert recorded_result(None, state).parts == ()


@pytest.mark.parametrize("name", [entry.name for entry in entries()])
def test_every_agent_declares_fields_that_its_work_has(name: str) -> None:
    agent = built_in(name)
    assert agent.result is not None
    assert agent.result.fields
    for field in agent.result.fields:
        phase = max((one for one in agent.forms if field.startswith(f"{one}.")), key=len)
        assert says_something(
            agent.forms[phase].schema["properties"][field.removeprefix(f"{phase}.").partition(".")[0]]
        )
