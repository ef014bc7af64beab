"""Skills as data: a file's contents, its mistakes, and the skill made from it."""

from __future__ import annotations

import asyncio
import json
import re
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agents.catalogue import BuiltIn, CatalogueEntry, built_in, entries, inputs_in, main_entries, skill_entries
from agents.engine.agent import Agent
from agents.engine.state import JourneyState
from agents.library.cognitive.library import FOLLOWING, cognitive
from agents.library.cognitive.phases.memory_document import Expected, problems, section
from agents.library.skills.assembly import built
from agents.library.skills.library import led, workers
from agents.library.skills.library import read as read_own
from agents.prompts.prompt import questions_asked
from tests.support.agents.agent_harness import ALTERED, ANSWER_TOKENS, Led, Pages, cost, leading, walk
from tests.support.agents.small_agents import noting
from tests.support.agents.team_agents import HANDBOOK, OWN_TOOLS, agent
from tests.support.agents.team_agents import SMALL as SMALL_AGENT
from tests.support.agents.team_skills import FILE, SMALL, WORKERS, made, read, skill

MISTAKES = [
    json.loads(line)
    for line in (Path(__file__).parent / "skill_mistakes.jsonl").read_text(encoding="utf-8").splitlines()
]
"""A part of the small skill, its replacement, and the resulting message."""
TWO = {"notes": [{"id": "1", "text": "the hive hums"}, {"id": "2", "text": "the hive is warm"}]}
"""The work that the small agents require."""


# --- what stands in a file --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("case", MISTAKES, ids=[case["told"][:60] for case in MISTAKES])
def test_a_mistake_is_named_with_its_line(case: dict[str, str]) -> None:
    assert case["old"] in SMALL
    found = read(SMALL.replace(case["old"], case["new"], 1))
    assert found.skill is None
    told = [str(problem) for problem in found.problems]
    assert any(text.startswith(f"{FILE}:{case['told']}") for text in told), told


def test_all_mistakes_are_reported_together_in_the_order_of_lines() -> None:
    text = (
        SMALL.replace("title: Pair", "titel: Pair")
        .replace("agent: review", "agent: revue")
        .replace("name: good", "name: Good")
    )
    lines = [problem.line for problem in read(text).problems]
    assert lines == sorted(lines)
    assert {1, 13, 31} <= set(lines)


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("Pair", "a skill cannot be called 'Pair'"),
        ("continue", "this program already has a prompt 'continue'"),
        ("deliver", "this program already has an agent or a skill 'deliver'"),
        ("noting", "there is already an agent 'noting', and a skill is started like an agent"),
    ],
)
def test_a_skill_has_no_name_with_another_meaning(name: str, told: str) -> None:
    assert str(read(file=f"_skills/{name}.yaml").problems[0]).startswith(f"_skills/{name}.yaml:1: {told}")


@pytest.mark.parametrize(
    "raw", [b"", b"\xff", b"- a\n", b"phases: 7\n", b"phases:\n  - 7\n", b"ways: {a: b}\n", b"a: {b: {c: [{}]}}\n"]
)
def test_no_bytes_make_the_reader_raise(raw: bytes) -> None:
    found = read(raw)
    assert found.skill is None
    assert found.problems


WORDS = (
    "first",
    "second",
    "end",
    "all",
    "noting",
    "7",
    "true",
    "[]",
    "{}",
    "null",
    "JUDGE.verdict",
    "x: y",
    "- a",
    "''",
)
SLIPS = st.tuples(st.sampled_from(["gone", "twice", "other", "moved"]), st.integers(0, 60), st.integers(0, 60))


@settings(max_examples=50)
@given(st.lists(SLIPS, min_size=1, max_size=4))
def test_any_mangled_file_gives_a_skill_or_a_reason(slips: list[tuple[str, int, int]]) -> None:
    lines = SMALL.splitlines()
    for kind, where, what in slips:
        at = where % len(lines)
        if kind == "gone" and len(lines) > 1:
            del lines[at]
        elif kind == "twice":
            lines.insert(at, lines[what % len(lines)])
        elif kind == "other":
            lines[at] = lines[at].partition(": ")[0] + ": " + WORDS[what % len(WORDS)]
        else:
            lines[at] = " " * (what % 7) + lines[at].strip()
    found = read("\n".join(lines) + "\n")
    assert (found.skill is None) is bool(found.problems)
    if found.skill is not None:
        result = built(found.skill, WORKERS, None, OWN_TOOLS)
        assert (result.agent is None) is bool(result.problems)


def test_omitted_keys_have_their_defaults() -> None:
    found = read(SMALL.replace("without_memory: all\n", "").replace("domain: bees\n", "")).skill
    assert found is not None
    first, second, third = found.phases
    assert (first.context, second.context, third.context) == (("all",), ("first",), ("last",))
    assert [found.following(phase) for phase in found.phases] == ["second", "third", "end"]
    assert found.without_memory == frozenset()
    assert found.domain == ""
    assert found.agents == ("noting", "review")


# --- what only its agents show -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        (
            "first.WRITE",
            "first.WRIT",
            "23: a way leads to 'first.WRIT'; noting has no such phase; did you mean 'WRITE'?",
        ),
        ("first.WRITE", "first.DONE", "23: a way leads to 'first.DONE'; noting has no such phase"),
        (
            "JUDGE.verdict, value: bad",
            "JUDGE.verdikt, value: bad",
            "27: the way 'written_badly' looks at 'JUDGE.verdikt'",
        ),
        ("detail: JUDGE.verdict", "detail: JUDGE.why", "28: the way 'written_badly' looks at 'JUDGE.why'"),
        (
            "JUDGE.verdict, value: bad",
            "verdict, value: bad",
            "27: the way 'written_badly' looks at 'verdict'; when second is complete",
        ),
        (
            "JUDGE.verdict, value: bad",
            "DONE.verdict, value: bad",
            "27: the way 'written_badly' looks at 'DONE.verdict', but DONE",
        ),
        ("equals: {field: JUDGE.verdict, value: bad}", "given: JUDGE.verdict", "27: the way 'written_badly' looks at"),
        (
            "equals: {field: JUDGE.verdict, value: bad}",
            "equal: {a: b}",
            "27: condition 'written_badly' uses the unknown predicate",
        ),
        (
            "equals: {field: JUDGE.verdict, value: bad}",
            "signal: bad",
            "27: condition 'written_badly' can be met by a signal alone",
        ),
        (
            "{{ inputs.topic }}",
            "{{ inputs.topics }}",
            "10: 'instructions' of phase 'first' has the unknown placeholder",
        ),
        ("{{ brief }}", "{{ JUDGE.verdict }}", "17: 'instructions' of phase 'second' has the unknown placeholder"),
        ("Two notes.", "Two {{ notes }}.", "11: 'output' of phase 'first' has the unknown placeholder 'notes'"),
        (
            "Say that it is done.",
            "Say {{ JUDGE.verdict }}.",
            "34: 'closing' has the unknown placeholder 'JUDGE.verdict'; there",
        ),
        (
            "Say that it is done.",
            "|\n  {{ done }} of {{ brief }}:\n  {{ notes }}.",
            "36: 'closing' has the unknown placeholder",
        ),
    ],
)
def test_a_mismatch_with_its_agents_is_named_with_its_line(old: str, new: str, told: str) -> None:
    assert old in SMALL
    result = made(SMALL.replace(old, new, 1))
    assert result.agent is None
    assert str(result.problems[0]).startswith(f"{FILE}:{told}")


def test_agents_with_different_meanings_of_an_input_cannot_share_a_skill() -> None:
    other = agent(SMALL_AGENT.replace("topic: {type: string", "topic: {type: integer"))
    text = SMALL.replace("id: third\n    agent: noting", "id: third\n    agent: other")
    result = made(text, {**WORKERS, "other": other})
    assert "the input 'topic' of review is of another kind than that of" in str(result.problems[0])


def test_the_skills_own_input_wins_and_joins_its_agents_inputs() -> None:
    own = "inputs: {properties: {topic: {type: string, description: Ours.}, more: {type: string}}, required: [topic]}\n"
    found = skill(SMALL.replace("phases:\n", own + "phases:\n", 1)).inputs
    assert set(found["properties"]) == {"topic", "more"}
    assert found["properties"]["topic"]["description"] == "Ours."
    assert found["required"] == ["topic"]
    assert found["type"] == "object"


# --- agents that know nothing of skills ----------------------------------------------------------------------------------


async def _second(led: Led) -> None:
    """Lead the first agent to its end, as it runs alone."""
    await led.submit(**TWO)
    await led.decide("approve")
    await led.submit(text="Bees are fine.")


async def test_the_task_has_its_own_id_whatever_the_brief_says() -> None:
    async with leading(skill(), brief="Keep bees (this journey) well.", topic="bees") as led:
        await _second(led)
        document = str((await led.state()).work["first.CLOSING"].content["document"])
        assert document.startswith("# Noting Agent Output: Keep bees (this journey) well.\n")
        assert f"- Task: {led.journey}\n" in document


async def test_agents_follow_each_other_and_each_leaves_a_document_that_the_server_writes() -> None:
    async with leading(skill(), topic="bees") as led:
        told = await led.told()
        assert "Note what you see of bees." in told
        assert "Look most at: what is new; what is old; what is blue." in told
        assert "Words to search for: hive, honey." in told
        assert "What the result needs:\nTwo notes." in told
        await _second(led)
        state = await led.state()
        assert state.phase == "second.NOTE"
        assert state.work["first.CLOSING"].automatic
        document = str(state.work["first.CLOSING"].content["document"])
        assert document.startswith("# Noting Agent Output: Keep bees on the roof.\n\n## Section 0: Context Loaded")
        assert f"- Task: {led.journey}" in document
        assert "COLLECT: worked on once" in section(document, "Step Overview")
        assert "note 1: the hive hums" in section(document, "Step Overview")
        assert document.endswith("---\n**NOTING_COMPLETE**")
        assert (await led.position()).agent.documents(state) == {"noting": document, "first": document}
        told = await led.told()
        assert "Look at the notes.\nThe brief was: Keep bees on the roof." in told
        assert "From first:\n### Downstream Directives\n- Rely on the step overview" in told


@pytest.mark.parametrize(
    "hostile",
    [
        "``` fence",
        "~~~",
        "# Heading",
        "## Section 3: Downstream Directives",
        "---",
        "<!-- comment",
        "**NOTING_COMPLETE**",
        "> quote\n\n# x",
        "1. one\r\n***",
        "    code",
        "[a]: b",
        "x" * 5_000,
    ],
)
async def test_whatever_was_recorded_the_document_that_the_server_writes_is_sound(hostile: str) -> None:
    agent = replace(noting(), done=lambda _state: [hostile, f"note: {hostile}"])
    async with leading(skill(workers={**WORKERS, "noting": agent}), brief=f"Bees {hostile}", topic="bees") as led:
        await _second(led)
        document = str((await led.state()).work["first.CLOSING"].content["document"])
        expected = Expected("Noting", "NOTING_COMPLETE", ("COLLECT", "WRITE"), (led.journey,))
        assert problems(document, expected) == []
        assert "Rely on the step overview" in section(document, "Downstream Directives")


async def test_a_way_back_leads_into_the_middle_of_an_agent_and_says_why() -> None:
    async with leading(skill(), topic="bees") as led:
        await _second(led)
        await led.submit(**TWO)
        await led.submit(verdict="bad")
        state = await led.decide("approve")
        assert state.phase == "first.WRITE"
        assert state.backward_trigger == "second.written_badly"
        assert state.backward_trigger_detail == "bad"
        told = await led.told()
        assert "Detail: bad" in told
        await led.submit(text="Bees are well.")
        state = await led.state()
        assert state.phase == "second.NOTE"
        assert state.phase_visits["first.CLOSING"] == 2
        assert "WRITE: worked on 2 times" in str(state.work["first.CLOSING"].content["document"])


async def test_a_forward_transition_skips_what_is_not_needed() -> None:
    async with leading(skill(), topic="bees") as led:
        await _second(led)
        await led.submit(**TWO)
        await led.submit(verdict="good")
        state = await led.decide("approve")
        assert state.status == "complete"
        assert "third.COLLECT" not in state.phase_visits
        assert "Say that it is done." in await led.told()


async def test_later_agents_get_the_documents_that_the_pattern_names() -> None:
    async with leading(skill(), topic="bees") as led:
        await _second(led)
        await led.submit(**TWO)
        await led.submit(verdict="so so")
        state = await led.decide("approve")
        assert state.phase == "third.COLLECT"
        told = await led.told()
        assert "From second:" in told
        assert "From first:" not in told, "`last` is the newest alone"


async def test_a_returning_phase_gets_the_documents_of_later_ones() -> None:
    """With `all`, an agent re-entered from a later one sees that one's document."""
    async with leading(skill(), topic="bees") as led:
        await _second(led)
        await led.submit(**TWO)
        await led.submit(verdict="bad")
        await led.decide("approve")
        assert "From second:" in await led.told()


async def test_a_skill_lets_nobody_skip_its_agents_checkpoints() -> None:
    async with leading(skill(), topic="bees") as led:
        await led.submit(**TWO)
        assert (await led.state()).status == "waiting"
        await led.decide("approve")
        await led.submit(text="Bees are fine.")
        await led.submit(**TWO)
        state = await led.submit(verdict="good")
        assert (state.status, state.phase) == ("waiting", "second.JUDGE")
        assert state.checkpoint is not None
        assert state.checkpoint.own_hand


TWO_ENDS = """\
title: Try
summary: It works, or it does not.
initial: TRY
complete: [WORKED, FAILED]
phases:
  - name: TRY
    prompt: Try it.
    work:
      properties: {worked: {type: boolean}}
  - name: WORKED
  - name: FAILED
transitions:
  - {from: TRY, to: WORKED, condition: it_worked}
  - {from: TRY, to: FAILED, condition: it_failed}
conditions:
  it_worked: {equals: {field: worked, value: true}}
  it_failed: {equals: {field: worked, value: false}}
"""
TRYING = """\
title: Trying
summary: Tries until it works.
without_memory: all
phases:
  - {id: once, agent: try}
ways:
  - from: once
    to: once
    name: once_more
    is_backward: true
    when: {equals: {field: CLOSING.ended_in, value: FAILED}}
"""


async def test_a_way_may_look_at_the_end_in_which_an_agent_ended() -> None:
    agents = {"try": agent(TWO_ENDS)}
    async with leading(skill(TRYING, agents)) as led:
        state = await led.submit(worked=False)
        assert (state.phase, state.backward_trigger) == ("once.TRY", "once.once_more")
        assert state.work["once.CLOSING"].content["ended_in"] == "FAILED"
        state = await led.submit(worked=True)
        assert state.status == "complete"
        assert "- Ended in: WORKED" in str(state.work["once.CLOSING"].content["document"])
    wrong = made(
        TRYING.replace("value: FAILED", "value: LOST").replace("field: CLOSING.ended_in", "field: CLOSING.ended"),
        agents,
    )
    assert "the work of CLOSING has no 'ended' there; did you mean 'ended_in'?" in str(wrong.problems[0])


def test_an_agent_with_a_phase_of_the_name_that_every_place_has_is_refused() -> None:
    closing = agent(TWO_ENDS.replace("TRY", "CLOSING"))
    (problem,) = made(TRYING, {"try": closing}).problems
    assert str(problem).startswith(f"{FILE}:5: phase 'once' uses the agent 'try', which has a phase CLOSING")


FIRST = {"id": "first", "agent": "noting"}


@pytest.mark.parametrize("name", [entry.name for entry in main_entries()])
async def test_the_first_agent_of_a_skill_gets_no_more_than_fits(name: str) -> None:
    """Instructions as long as a skill may give them, and a long document from the previous agent."""
    long = "word " * 119
    focus, terms = [f"{n} {long[:110]}" for n in range(5)], [f"{n} {long[:50]}" for n in range(10)]
    said = {"id": "second", "agent": name, "instructions": long, "output": long, "focus": focus, "terms": terms}
    text = json.dumps({"title": "Long", "summary": "Long.", "without_memory": "all", "phases": [FIRST, said]})
    talking = replace(noting(), done=lambda _state: [f"{n} {long}" for n in range(99)])
    async with leading(skill(text, {"noting": talking, name: built_in(name)}), brief=long * 9) as led:
        await _second(led)
        state = await led.state()
        assert state.phase.startswith("second.")
        told = await led.told()
        assert "This is phase second of the skill Long." in told
        assert "From first:" in told
        assert cost(await led.position()) <= ANSWER_TOKENS


def test_the_same_agent_may_work_twice_and_each_keeps_to_its_own() -> None:
    graph = skill().graph
    assert [phase.name for phase in graph.phases] == [
        *("first.COLLECT", "first.WRITE", "first.CLOSING"),
        *("second.NOTE", "second.JUDGE", "second.CLOSING"),
        *("third.COLLECT", "third.WRITE", "third.CLOSING"),
        "COMPLETE",
    ]


ID = re.compile(r"(.+)_iter(\d+)_(\w+)")


async def test_one_agent_has_separate_conversations_in_each_of_its_positions() -> None:
    """No agent continues in the context of the previous one, nor in that of its own other position."""
    async with leading(skill(), topic="bees") as led:
        spoken = [(await led.state()).conversation]
        while (state := await led.state()).status != "complete":
            if state.status == "waiting":
                await led.decide("approve")
            else:
                ((work, _),) = good(state)
                await led.submit(**({"verdict": "so so"} if state.phase == "second.JUDGE" else work))
            spoken.append((await led.state()).conversation)
        told = [found for one in dict.fromkeys(spoken) if (found := ID.fullmatch(one))]
        assert [found.group(1) for found in told] == ["first", "second", "third"]
        assert len({found.group(3) for found in told}) == 3
        back = await led.decide("revisit", changes={"phase": "first.WRITE"})
        assert back.conversation == spoken[0], "and back where it was when it is sent back"


def test_each_pass_of_the_memory_agent_in_a_skill_has_its_own_speaker() -> None:
    graph = built_in("deliver").graph
    silent = {phase.name for phase in graph.phases if not phase.speaker}
    assert silent == {phase.name for phase in graph.phases if phase.automatic} | set(graph.complete)
    for phase in graph.phases:
        assert phase.speaker in ("", phase.name.rpartition(".")[0])
    assert all(phase.fresh for phase in graph.phases if phase.name.endswith("JOHARI_DISCOVERY"))


# --- whatever way it is led ---------------------------------------------------------------------------------------------

Work = tuple[Mapping[str, Any], tuple[str, ...]]


def good(state: JourneyState) -> Sequence[Work]:
    """Return work that leads on, whichever part it is in."""
    phase = state.phase.rpartition(".")[2]
    works: dict[str, dict[str, Any]] = {"WRITE": {"text": "Bees are fine."}, "JUDGE": {"verdict": "good"}}
    return [(works.get(phase, TWO), ())]


def any_work(state: JourneyState) -> Sequence[Work]:
    """Return work that leads on, work that leads back, and work that is not enough."""
    phase = state.phase.rpartition(".")[2]
    more: dict[str, list[dict[str, Any]]] = {
        "WRITE": [{"text": "x", "lacks": "the third"}],
        "JUDGE": [{"verdict": "bad"}, {"verdict": "so so"}],
    }
    return [*good(state), *((work, ()) for work in more.get(phase, [{"notes": [{"id": "1", "text": "one"}]}]))]


@settings(max_examples=12)
@given(st.lists(st.integers(0, 40), max_size=25))
def test_from_wherever_a_walk_leads_good_work_comes_to_the_end(choices: list[int]) -> None:
    reasons = asyncio.run(walk(PAIR, choices, any_work, good))
    assert set(reasons) <= {*PAIR.conditions, "always", "revisit", "modify", "reject"}


PAIR = skill()


# --- the agent that runs after every other -----------------------------------------------------------------------------------


def _prefixes(found: Agent) -> list[str]:
    return list(dict.fromkeys(phase.name.rpartition(".")[0] for phase in found.graph.phases))


@pytest.mark.parametrize(
    ("without", "parts"),
    [
        ("", ["first", "first.memory", "second", "second.memory", "third", "third.memory", ""]),
        ("without_memory: all\n", ["first", "second", "third", ""]),
        ("without_memory: [first, third]\n", ["first", "second", "second.memory", "third", ""]),
        ("without_memory: second\n", ["first", "first.memory", "second", "third", "third.memory", ""]),
    ],
)
def test_the_memory_agent_runs_after_every_other_that_did_not_opt_out(without: str, parts: list[str]) -> None:
    text = SMALL.replace("without_memory: all\n", without)
    assert _prefixes(skill(text, following=cognitive(FOLLOWING))) == parts


def test_the_memory_agent_never_runs_after_itself() -> None:
    text = SMALL.replace("without_memory: all\n", "").replace(
        "id: third\n    agent: noting", "id: third\n    agent: memory"
    )
    memory = cognitive(FOLLOWING)
    found = skill(text, {**WORKERS, FOLLOWING: memory}, memory)
    assert _prefixes(found) == ["first", "first.memory", "second", "second.memory", "third", ""]


def test_a_transition_follows_the_memory_agent_and_checks_its_own_agents_record() -> None:
    text = SMALL.replace("without_memory: all\n", "")
    found = skill(text, following=cognitive(FOLLOWING))
    ways = {
        (t.source, t.target, t.condition)
        for t in found.graph.transitions
        if not t.source.startswith(("first", "third"))
    }
    assert ("second.memory.CLOSING", "first.WRITE", "second.written_badly") in ways
    assert ("second.memory.CLOSING", "COMPLETE", "second.good_enough") in ways
    assert ("second.CLOSING", "second.memory.LEARNING_INJECTION", "always") in ways
    assert "second.written_badly" in found.conditions


# --- ours -----------------------------------------------------------------------------------------------------------------


OURS = [entry.name for entry in skill_entries()]


def test_there_are_skills_to_test() -> None:
    assert {"deliver", "decide-well", "assess"} <= set(OURS)


@pytest.mark.parametrize("name", OURS)
def test_our_skills_are_sound_and_listed_by_their_first_two_lines(name: str) -> None:
    found = led(name, OWN_TOOLS)
    assert found.problems == ()
    assert found.agent is not None
    entry = next(entry for entry in skill_entries() if entry.name == name)
    assert (entry.title, entry.summary) == (found.agent.title, found.agent.summary)
    assert entry.title
    assert entry.summary
    assert found.agent.name == name
    assert set(read_own(name).skill.agents) <= set(workers())  # type: ignore[union-attr]  # it is sound


@pytest.mark.parametrize("entry", entries(), ids=lambda entry: entry.name)
def test_lists_have_all_inputs_of_an_agent_without_loading_it(entry: CatalogueEntry) -> None:
    found = built_in(entry.name).inputs.get("properties", {})
    assert {name: str(form.get("description", "")) for name, form in found.items()} == entry.inputs


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("title: x\n", {}),
        ("inputs: {properties: {a: {description: A.}}}\ntitle: x\n", {"a": "A."}),
        (
            "a: 1\ninputs:\n  properties:\n    b: {type: string}\n\n# why\n    c:\n      description: 'C: c'\nz: 1\n",
            {"b": "", "c": "C: c"},
        ),
        ("inputs: [broken\n", {}),
        ("inputs: 7\n", {}),
        ("inputs: {properties: [a]}\n", {}),
        ("text: |\n  inputs:\n    properties: {d: {}}\n", {}),
    ],
)
def test_the_inputs_of_a_file_are_read_without_the_rest(text: str, told: dict[str, str]) -> None:
    assert inputs_in(text) == told


async def test_a_skill_is_an_agent_like_any_other() -> None:
    catalogue = BuiltIn()
    assert (await catalogue.agent("deliver")).name == "deliver"
    assert await catalogue.agent("deliver") is built_in("deliver"), "it is made once"
    assert [found.name for found in await catalogue.agents()] == [entry.name for entry in entries()]


def test_deliver_is_the_chain_of_six_with_the_memory_agent_after_each() -> None:
    found = built_in("deliver")
    chain = ["clarify", "research", "analyse", "synthesise", "generate", "validate"]
    assert _prefixes(found) == [name for part in chain for name in (part, f"{part}.memory")] + [""]
    agents = {part["part"]: part["agent"] for part in found.profile["parts"]}
    assert [agents[part] for part in chain] == [
        *("clarification", "research-cognitive", "analysis", "synthesis", "generation", "validation")
    ]
    assert {agents[f"{part}.memory"] for part in chain} == {FOLLOWING}


def test_inside_a_skill_nothing_is_routed() -> None:
    """Agent mode."""
    assert not [phase.name for phase in built_in("deliver").graph.phases if "ROUTING" in phase.name]
    assert built_in("analysis").graph.initial == "ROUTING"


async def test_a_skill_begins_automatically_and_asks_first() -> None:
    pages = Pages()
    async with leading(built_in("deliver"), look=pages, brief="A page on how we keep bees in winter.") as led:
        state = await led.state()
        assert state.phase == "clarify.JOHARI_DISCOVERY"
        assert state.work["clarify.LEARNING_INJECTION"].automatic
        told = await led.told()
        assert "skill deliver, phase clarify" in told
        assert "what the person will do with the result" in told
        assert "Requirements that a stranger could check" in told
        assert cost(await led.position()) <= 2_500
        asked = {"share": ["bees winter"], "acknowledge": [], "explore": []}
        state = await led.submit(
            **asked, ask=[{"id": "q1", "question": "For whom?", "why": "It decides how much to explain."}]
        )
        assert state.status == "waiting"
        assert questions_asked(state) == {"q1": "For whom?"}


async def test_a_quote_must_still_be_at_its_stated_place() -> None:
    """The agents of a skill see the same facts for their conditions as agents alone."""
    async with leading(skill(), topic="bees") as led:
        state = await led.submit(**TWO, quotes=[ALTERED])
        assert (state.status, state.phase) == ("active", "first.COLLECT")
        assert any("bees.md" in text for text in await led.missing())


def test_a_list_makes_no_agent_of_a_skill() -> None:
    """A host asks for lists while it starts: names, titles and summaries cost no more than reading them."""
    script = """
import sys, anyio
from pathlib import Path
from agents.catalogue import entries
from knowledge.pages.vault import Vault
from mcp_server.app.factories.team_files import team_catalogue
names = [entry.name for entry in entries()] + [one.name for one in anyio.run(team_catalogue(Vault.open(Path(sys.argv[1]))).team)]
print("deliver" in names, "incident-to-runbook" in names)
unread = ("agents.library.skills.assembly", "agents.library.skills.library", "agents.library.cognitive.agent")
print([name for name in sys.modules if name in unread])
"""
    told = subprocess.run([sys.executable, "-c", script, str(HANDBOOK)], capture_output=True, text=True, check=True)
    assert told.stdout.splitlines() == ["True True", "[]"]
