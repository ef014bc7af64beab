"""A model leads an agent through an MCP client and is scored: `python -m tests.bench journeys`, against a scripted local server."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.bench.__main__ import main
from tests.bench.journeys.labels import LabelledQuestion
from tests.doubles.provider import Model
from tests.doubles.provider_turns import Trouble, said, uses
from tests.doubles.serving import serving
from tests.support.knowledge_bases.folders import write

QUESTIONS: list[dict[str, Any]] = [
    {"id": "deploy", "question": "How is a release deployed?", "answers": [{"page": "guides/deploy.md"}]},
    {"id": "wifi", "question": "What is the password of the wireless network?", "answerable": False},
]
DONE = "guides/deploy.md says how a release is deployed: run the script."


@pytest.mark.external  # over two seconds: a server is started and indexes
def test_a_scripted_model_is_scored_with_an_agent_and_with_the_search_tools_alone(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Issue 25: the harness scores answers, citations, calls, tokens and refusals, and runs with a local server."""
    folder, questions, found = write(tmp_path / "kb"), tmp_path / "questions.jsonl", tmp_path / "found.json"
    questions.write_text("\n".join(map(json.dumps, QUESTIONS)), encoding="utf-8")
    model = Model(key=None)
    begin = uses("journey_start", agent="research", brief="How is a release deployed?")
    no_such = uses("journey_submit", journey_id="research-none", version=1, work={})
    read = '<tool_call>{"name": "kb_read", "arguments": {"path": "guides/deploy.md",}}</tool_call>'
    with serving(model) as place:
        model.will(QUESTIONS[0]["question"] + "\n\nLead", begin, no_such, said(DONE))
        model.will(
            QUESTIONS[0]["question"] + "\n\nUse",
            Trouble(400, "api_error", "it does not support tools"),
            said(read),
            said(DONE),
        )
        model.will(QUESTIONS[1]["question"] + "\n\nLead", said("I do not know."))
        model.will(QUESTIONS[1]["question"] + "\n\nUse", said("The password is tulip4711."))
        arguments = [
            "--model",
            "tiny",
            "--base-url",
            f"{place.address}/v1",
            "--kb",
            str(folder),
            "--questions",
            str(questions),
        ]
        assert main(["journeys", *arguments, "--json", str(found)]) == 0
    led, alone, unknown, invented = json.loads(found.read_text(encoding="utf-8"))
    assert (led["way"], led["answered"], led["right"], led["cited"], led["complete"], led["calls"]) == (
        ("research", True, True, True, False, 2)
    )
    (refusal,) = led["refusals"]
    assert refusal.startswith("journey_submit: ")
    assert (alone["right"], alone["complete"], alone["calls"], alone["tokens_in"]) == (True, None, 1, 200)
    assert [(one["answered"], one["right"]) for one in (unknown, invented)] == [(False, True), (True, False)]
    table = capsys.readouterr().out
    assert "| research | 2 | 1 | 2 | 1 | 0 |" in table
    assert "| search tools alone | 2 | 2 | 1 | 1 |  |" in table


def test_a_label_is_a_string_or_a_page() -> None:
    by_text = LabelledQuestion("1", "Which port?", ("guides/http.md",), ("8443", "port  443"))
    assert by_text.is_right("Port\n443 is used.", achieved=True)
    assert not by_text.is_right("See guides/http.md.", achieved=True)
    assert by_text.cites("It is in `guides/http`.")
    assert not by_text.is_right("8443", achieved=False)


def test_a_model_that_cannot_be_asked_is_an_error_that_names_the_option(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "questions.jsonl").write_text('{"question": "Which?"}\n', encoding="utf-8")
    arguments = [
        "--model",
        "tiny",
        "--base-url",
        "localhost:1",
        "--kb",
        str(tmp_path),
        "--questions",
        str(tmp_path / "questions.jsonl"),
    ]
    assert main(["journeys", *arguments]) == 1
    assert "--base-url" in capsys.readouterr().err
