"""A terminal's view of an agent: its purpose, its budgets, and which model should do which part."""

from __future__ import annotations

from dataclasses import replace

from agents.engine.agent import Agent, ModelAdvice
from agents.prompts.context import Budget
from mcp_server.cli.agents.view import shown
from mcp_server.toolsets.journeys.offers.resource_texts import definition, phase_definition
from tests.support.agents.inquiry_agent import chained, inquiry


def lines_of(agent: Agent) -> list[str]:
    phases = [phase_definition(agent, phase, ["kb_read"]) for phase in agent.graph.phases]
    return shown(agent, definition(agent)["diagram"], phases)


def test_purpose_steps_budget_priority_and_models_come_before_the_phases() -> None:
    """Budgets, priority sections, a recommended class of model and its reason."""
    told = lines_of(inquiry())
    assert told[: told.index("")] == [
        "Inquiry (inquiry, built in)",
        "Asks, writes, is judged.",
        "input pages:",
        "input domain:",
        "function: INQUIRY",
        "steps: 4: LOOK, ASK, WRITE, JUDGE",
        "budget: 2,000 tokens in, 500 tokens out",
        "priority: question, constraints (trimmed last, in this order)",
        "model: balanced, such as sonnet: most of it is asking",
        "model of judge: largest, such as opus: a verdict decides",
    ]


def test_a_phase_shows_its_model_and_what_each_transition_needs() -> None:
    told = lines_of(inquiry())
    for line in (
        "LOOK (starts here): what is there",
        "  automatic: run by the server",
        "  conversation: planner",
        "  moves to WRITE on open_questions, once a person has answered the questions in `ask`",
        "  budget: 2,000 tokens in, 500 tokens out",
        "  conversation: judge, a new one with each visit",
        "  returns to WRITE on soft",
        "  returns to ASK on hard, and every conversation starts over",
    ):
        assert line in told, line


def test_a_budget_that_is_the_usual_one_is_no_budget_of_nothing() -> None:
    one_sided = replace(inquiry(), budgets={"WRITE": Budget(tokens_in=2_150), "JUDGE": Budget(tokens_out=90)})
    told = lines_of(one_sided)
    assert [line for line in told if line.startswith("  budget")] == [
        "  budget: 2,150 tokens in",
        "  budget: 90 tokens out",
    ]
    write = phase_definition(one_sided, one_sided.graph.phase("WRITE"), [])
    assert write["budget"] == {"input": 2_150, "output": None}


def test_a_transition_shows_what_a_person_is_asked_first() -> None:
    """A phase may ask a person on only one of its transitions: lists, pictures and the resource say so."""
    plain = inquiry()
    ways = tuple(
        replace(way, checkpoint="blocking") if (way.source, way.target) == ("JUDGE", "DONE") else way
        for way in plain.graph.transitions
    )
    asking = replace(
        plain, graph=replace(plain.graph, transitions=ways), questions={"JUDGE": "Is this what you wanted?"}
    )
    told = lines_of(asking)
    assert "  moves to DONE on passed, checkpoint: blocking" in told
    assert "  a person is asked: Is this what you wanted?" in told
    assert '    p3 -->|"passed, a person decides"| p4' in told
    assert {way["condition"]: way["checkpoint"] for way in definition(asking)["transitions"]} == {
        "always": None,
        "open_questions": None,
        "all_known": None,
        "written": None,
        "soft": None,
        "hard": None,
        "passed": "blocking",
    }


def test_each_part_of_a_larger_agent_is_a_line() -> None:
    told = lines_of(chained("first", "second"))
    assert told[4:6] == [
        f"part {name}: inquiry (INQUIRY, 4 steps, 2,000 tokens in, 500 tokens out)" for name in ("first", "second")
    ]
    assert "model of first: balanced, such as sonnet: most of it is asking" in told
    assert "model of second.judge: largest, such as opus: a verdict decides" in told


def test_nothing_that_an_agent_says_of_itself_moves_the_cursor() -> None:
    odd = replace(
        inquiry(),
        profile={"function": "A\x1b[2J", "steps": 3, "more\x07": {"a": "\u202e"}},
        models={"x\u200b": ModelAdvice("largest", "so\nit \x1b]0;is")},
    )
    text = "\n".join(lines_of(odd))
    assert not set(text) & set("\x1b\x07\u202e\u200b")
    assert "steps: 3" in text
