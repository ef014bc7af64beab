"""A cognitive agent is one folder of data.

It is read completely, and every mistake in it is named with file and line.
"""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from agents.catalogue import heading_of
from agents.library.cognitive import library
from agents.library.cognitive.shared import shared
from agents.library.cognitive.sources import Source, source_of
from agents.prompts.context import Budget
from tests.support.agents.cognitive.agents import AGENT, FOLDER, appraisal, read
from tests.support.agents.team_agents import HANDBOOK
from tests.support.agents.team_agents import OWN_TOOLS as TOOLS

INPUTS = shared().inputs["properties"]
FILE = f"{FOLDER}/agent.yaml"


def test_an_agent_is_read_whole() -> None:
    found = appraisal()
    assert (found.name, found.title, found.function) == ("appraisal", "Appraisal", "APPRAISAL")
    assert found.budget == Budget(1500, 800)
    assert (found.advice.model_class, found.advice.example) == ("balanced", "sonnet")
    assert found.advice.reason == "It weighs few things at a time."
    assert found.priority == ("subject", "limits")
    assert list(found.sections) == ["subject", "limits", "signs", "before"], "sections are told in this order"
    assert found.sections["limits"] == (Source("input", "constraints"), Source("johari", "blind"))
    assert (len(found.focus), len(found.terms), found.takes) == (3, 7, ("analysis",))
    assert found.own.graph.complete == ("DONE",)
    assert found.steps == ("LEARNING_INJECTION", "JOHARI_DISCOVERY", "LOOK", "JUDGE")
    assert found.marker == "APPRAISAL_COMPLETE"


def test_every_cognitive_agent_takes_the_shared_inputs_besides_its_own() -> None:
    properties = appraisal().own.inputs["properties"]
    assert set(properties) == {*INPUTS, "subject"}
    without = AGENT.replace(
        "inputs:\n  properties:\n    subject: {type: string, description: What is appraised.}\n", ""
    )
    without = without.replace('"input:subject", ', "").replace("{{ inputs.subject }}", "it")
    found = read(without, look="Look.")
    assert found.problems == ()
    assert found.cognitive is not None
    assert set(found.cognitive.own.inputs["properties"]) == set(INPUTS)


@pytest.mark.parametrize(
    "text",
    [
        *("brief", "task", "answers", "previous", "input:domain", "step:WEIGH.trade_offs", "earlier:ASSESS.goal"),
        *("memory:analysis", "memory:research-cognitive#Downstream Directives", "johari:unknown"),
        "work:generation.PRODUCE.made.text",
    ],
)
def test_a_source_is_shown_as_written(text: str) -> None:
    assert str(source_of(text)) == text


@pytest.mark.parametrize("text", ["", "brief:x", "input", "input:", "memory:#Heading", "journey:x", "step"])
def test_an_invalid_source_is_none(text: str) -> None:
    assert source_of(text) is None


def _line(text: str, words: str) -> int:
    return next(number for number, line in enumerate(text.splitlines(), 1) if words in line)


MISTAKES: Sequence[tuple[str, str, str, str]] = (
    ("function: APPRAISAL", "function: how much", "how much", "one word in capitals"),
    ("class: balanced", "class: ballanced", "class: ballanced", "did you mean 'balanced'"),
    ("input: 1500", "input: ten", "input: ten", "'input' must be a whole number"),
    ("input: 1500, output: 800", "input: 1500", "budget:", "lacks 'output'"),
    ("priority: [subject, limits]", "priority: [subject, limit]", "priority:", "did you mean 'limits'"),
    ('"input:subject", brief', '"input:subjekt", brief', "input:subjekt", "did you mean 'subject'"),
    ('"johari:blind"', '"johari:blond"', "johari:blond", "did you mean 'blind'"),
    ('"johari:blind"', '"wish:all"', "wish:all", "there is no source 'wish:all'; sources are brief"),
    ("#Downstream Directives", "#Directives", "#Directives", "no section of a memory document"),
    ("step:LOOK.signs", "step:LOOK.sign", "step:LOOK.sign", "did you mean 'signs'"),
    ("step:LOOK.signs", "step:LOOC.signs", "step:LOOC.signs", "did you mean 'LOOK'"),
    ("step:LOOK.signs", "step:LOOK", "step:LOOK", "write step:LOOK.field"),
    ("earlier:JUDGE.worth", "earlier:JUDGE.price", "earlier:JUDGE.price", "names no field of JUDGE"),
    ("earlier:JUDGE.worth", "work:analysis.DECOMPOSE", "work:analysis.DECOMPOSE", "write work:AGENT.STEP.field"),
    ("what wears out, what others paid", "what wears out", "focus:", "from 3 to 5 are needed"),
    ("market, demand]", "market]", "terms:", "has 6 different entries in 'terms', from 7 to 10"),
    ("takes: [analysis]", "take: [analysis]", "take: [analysis]", "unknown key 'take'; did you mean 'takes'"),
    ("subject: {type: string,", "domain: {type: string,", "domain: {type", "leave it out"),
    ("title: Appraisal\n", "# Ours\ntitle: Appraisal\n", "# Ours", "line 1 must be `title: ...`"),
    ("to: DONE, condition: judged", "to: DONE, condition: judgd", "judgd", "did you mean 'judged'"),
    ("prompt: look.md", "prompt: lok.md", "prompt: lok.md", "which does not exist; did you mean 'look.md'"),
    ("initial: LOOK", "initial: JUDGE", "initial: JUDGE", "the agent must begin in LOOK, its first step"),
)


@pytest.mark.parametrize(
    ("right", "wrong", "at", "says"), MISTAKES, ids=[wrong.strip()[:40] for _, wrong, _, _ in MISTAKES]
)
def test_a_mistake_is_named_with_its_line(right: str, wrong: str, at: str, says: str) -> None:
    text = AGENT.replace(right, wrong)
    assert text != AGENT
    found = read(text)
    assert found.cognitive is None
    told = [(problem.file, problem.line, problem.text) for problem in found.problems]
    assert any(file == FILE and line == _line(text, at) and says in what for file, line, what in told), told


def test_all_mistakes_are_reported_together() -> None:
    text = (
        AGENT.replace("class: balanced", "class: best").replace("kb_search, kb_read", "kb_serch").replace("price,", "")
    )
    told = " / ".join(str(problem) for problem in read(text).problems)
    assert all(words in told for words in ("best", "kb_serch", "has 6 different entries in 'terms'"))


def test_no_way_passes_a_step_by() -> None:
    """Skipping a step is impossible, and the file is where that would begin."""
    text = AGENT.replace(
        "  - {from: JUDGE, to: DONE, condition: judged}",
        "  - {from: JUDGE, to: DONE, condition: judged}\n  - {from: LOOK, to: DONE, condition: looked}",
    )
    (problem,) = read(text).problems
    assert "LOOK -> DONE skips steps: forward, LOOK leads only to JUDGE" in problem.text
    assert problem.line == _line(text, "from: LOOK, to: DONE")


def test_names_of_shared_phases_and_conditions_are_taken() -> None:
    told = [
        problem.text for problem in read(AGENT.replace("JUDGE", "CLOSING").replace("judged", "document_sound")).problems
    ]
    assert "every cognitive agent has a phase 'CLOSING': give this another name" in told
    assert "every cognitive agent has a condition 'document_sound': give this another name" in told


def test_a_prompt_that_leaves_no_room_for_the_context_is_a_mistake() -> None:
    (problem,) = read(look="word " * 800).problems
    assert problem.line == _line(AGENT, "name: LOOK")
    assert "at most 800 of its input budget of 1,500 are for them: shorten them" in problem.text


def test_a_file_without_the_block_and_a_folder_without_the_file_are_reported() -> None:
    start, end = AGENT.index("cognitive:"), AGENT.index("inputs:")
    assert "lacks 'cognitive'" in read(AGENT[:start] + AGENT[end:]).problems[0].text
    from agents.library.cognitive.definition import described_in

    assert described_in("x/empty", {}, TOOLS).problems[0].text == "the folder has no agent.yaml"


@pytest.mark.parametrize(
    "raw", ["", "- 1", "title", "title: [", "cognitive: 7\ntitle: x", "\ud7ff: &a 1", "inputs:\ntitle: 5"]
)
def test_any_file_is_reported_and_never_raises(raw: str) -> None:
    assert read(raw).problems


def test_lists_read_title_and_summary_from_the_first_two_lines() -> None:
    assert heading_of(AGENT) == ("Appraisal", "Says what a thing is worth, and why.")
    assert heading_of("title: 'A: b'\r\nsummary: \"c\"\r\n") == ("A: b", "c")
    assert heading_of("summary: x") == ("", "")


@pytest.mark.parametrize("name", library.names())
def test_the_agents_of_this_program_are_sound(name: str) -> None:
    assert [str(problem) for problem in library.described(name, TOOLS).problems] == []


def test_the_block_that_the_handbook_shows_is_sound() -> None:
    text = (HANDBOOK / "guides" / "for-contributors.md").read_text(encoding="utf-8")
    block = text.partition("```yaml\ncognitive:\n")[2].partition("```")[0]
    start, end = AGENT.index("cognitive:"), AGENT.index("inputs:")
    found = read(f"{AGENT[:start]}cognitive:\n{block}{AGENT[end:]}")
    assert found.problems == ()
    assert found.cognitive is not None
    assert list(found.cognitive.sections) == ["subject", "limits", "signs"]
