"""The memory agent: its own steps, forward to the end and back, and for each condition the near misses that it rejects."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agents.engine.agent import Called
from agents.engine.events import canonical
from agents.engine.state import JourneyState
from agents.library.cognitive.agent import alone, as_agent
from agents.library.cognitive.library import cognitive, described
from agents.library.cognitive.setting import PhaseSetting, Predecessor
from knowledge.tokens import count_tokens
from tests.support.agents.agent_harness import Led, Pages, change, leading, walk
from tests.support.agents.cognitive.cast import Cast
from tests.support.agents.cognitive.scripts import Scene
from tests.support.agents.cognitive.scripts.memory import WORKS as LATER
from tests.support.agents.cognitive.scripts.memory import acts
from tests.support.agents.cognitive.steps import before, judge, own, play
from tests.support.agents.team_agents import OWN_TOOLS

MEMORY = own("memory")
PAGE = "_learnings/all/general.md"
DOCUMENTS = {"analysis": "# Analysis Agent Output: bees\n\nMites decide about the winter. Nobody feels responsible."}
WORKS: Mapping[str, Mapping[str, Any]] = {
    "OUTPUT": {
        "agent": "analysis",
        "summary": "Mites decide.",
        "says": [{"id": "s1", "words": "Mites decide about the winter"}],
    },
    "GOAL": LATER["GOAL"],
    "LEARN": LATER["LEARN"],
    "PROPOSE": {"page": PAGE, "kept": ["l1"]},
    "GAPS": LATER["GAPS"],
    "NEXT": LATER["NEXT"],
}
OUTPUT, GOAL, LEARN, PROPOSE, GAPS, NEXT = WORKS.values()
MISSED = {"missed": {"id": "s2", "words": "Nobody feels responsible"}}
FORGOTTEN = {"forgotten": {"id": "o2", "text": "who pays"}}
MERGED = Called("kb_merge", "PROPOSE", {"status": "done", "path": PAGE})


def test_it_is_read_without_a_mistake_and_has_the_numbers_of_the_table() -> None:
    """The table of the agents' protocol: eight steps, 1,500 and 800 tokens, its priority sections, the fastest class."""
    assert described("memory", OWN_TOOLS).problems == ()
    agent = cognitive("memory")
    assert agent.steps[2:] == tuple(WORKS)
    assert (agent.function, len(agent.steps)) == ("METACOGNITION", 8)
    assert (agent.budget.tokens_in, agent.budget.tokens_out) == (1_500, 800)
    assert agent.priority == ("agent_output_summary", "previous_goal_state")
    assert (agent.advice.model_class, agent.advice.example) == ("fastest", "haiku")


def test_each_step_leaves_most_of_its_small_budget_to_the_material() -> None:
    for phase, form in MEMORY.forms.items():
        prompts = [
            MEMORY.texts[name] for name in (MEMORY.graph.phase(phase).prompt, MEMORY.graph.phase(phase).prompt_again)
        ]
        size = count_tokens(canonical(dict(form.schema))) + max(map(count_tokens, prompts))
        assert size <= 300, (phase, size)
        assert count_tokens(canonical(dict(WORKS[phase]))) <= 200, "a few lines of work"


async def test_the_script_leads_it_step_by_step_to_the_end() -> None:
    """Started alone, it looks back on the brief."""
    async with leading(MEMORY, brief="We have put two hives of bees on the roof.") as led:
        led.look.called.append(MERGED)
        script = {"OUTPUT": {**OUTPUT, "says": [{"id": "s1", "words": "two hives of bees"}]}}
        went = []
        while (state := await led.state()).status != "complete":
            went.append(state.phase)
            assert len(went) <= len(WORKS), await led.missing()
            await led.submit(**{**WORKS, **script}[state.phase])
        assert went == list(WORKS)


async def upto(led: Led, phase: str) -> None:
    """Submit good work up to that phase. The brief of the journey contains the text that the output is taken from."""
    led.look.called.append(MERGED)
    for name in before(WORKS, phase):
        await led.submit(**WORKS[name])
    assert (await led.state()).phase == phase


async def test_a_statement_that_was_missed_leads_back_to_take_it_in() -> None:
    async with leading(MEMORY, brief=DOCUMENTS["analysis"]) as led:
        await upto(led, "GOAL")
        state = await led.submit(**MISSED)
        assert (state.phase, state.backward_trigger, state.backward_trigger_detail) == (
            "OUTPUT",
            "output_missed",
            "Nobody feels responsible",
        )
        assert (await led.submit()).phase == "OUTPUT"
        assert await led.missing() == ["says has nothing for s2 of GOAL.missed"]
        assert (await led.submit(says=[MISSED["missed"]])).phase == "GOAL"


async def test_forgotten_open_points_lead_back_to_the_goal() -> None:
    async with leading(MEMORY, brief=DOCUMENTS["analysis"]) as led:
        await upto(led, "NEXT")
        state = await led.submit(**FORGOTTEN)
        assert (state.phase, state.backward_trigger, state.backward_trigger_detail) == (
            "GOAL",
            "open_forgotten",
            "who pays",
        )
        assert (await led.submit()).phase == "GOAL"
        assert await led.missing() == ["open has nothing for o2 of NEXT.forgotten"]
        assert (await led.submit(open=[FORGOTTEN["forgotten"]])).phase == "LEARN"


MISSES: list[tuple[str, str, Mapping[str, Any], str]] = [
    ("output_read", "OUTPUT", {**OUTPUT, "says": []}, "says has 0"),
    ("output_read", "OUTPUT", {**OUTPUT, "summary": " "}, "summary is empty"),
    ("output_read", "OUTPUT", {**OUTPUT, "agent": ""}, "agent is empty"),
    ("output_read", "OUTPUT", change(OUTPUT, "says", 0, words="Mites decide nothing"), "says[s1].words are not in"),
    ("goal_compared", "GOAL", {**GOAL, "now": " "}, "now is empty"),
    ("goal_compared", "GOAL", {**GOAL, "before": ""}, "before is empty"),
    ("goal_compared", "GOAL", {name: value for name, value in GOAL.items() if name != "nearer"}, "nearer is empty"),
    ("goal_compared", "GOAL", {**GOAL, "because": []}, "because names nothing of OUTPUT.says"),
    ("goal_compared", "GOAL", {**GOAL, "because": ["s1", "s9"]}, "because names s9"),
    ("goal_compared", "GOAL", change(GOAL, "open", 0, text=" "), "open[o1]: text is empty"),
    ("output_missed", "GOAL", {"missed": {"id": "s1", "words": "Nobody feels responsible"}}, "missed.id names nothing that"),
    ("output_missed", "GOAL", {"missed": {"id": "s2", "words": "Everybody feels responsible"}}, "missed.words are not in"),
    ("output_missed", "GOAL", GOAL, "missed is not in this submit"),
    ("learned_or_not", "LEARN", {}, "learned is empty: fill it in; or none_because is empty"),
    ("learned_or_not", "LEARN", change(LEARN, "learned", 0, text=" "), "learned[l1] lacks 'text'"),
    ("learned_or_not", "LEARN", change(LEARN, "learned", 0, **{"from": ["s9"]}), "learned[l1]: from names s9"),
    ("learned_or_not", "LEARN", {"learned": [*LEARN["learned"], {**LEARN["learned"][0], "id": "l2"}]}, "learned[l2].text says"),
    ("learned_or_not", "LEARN", {"learned": [], "none_because": " "}, "none_because is empty"),
    ("kept_or_not", "PROPOSE", {}, "kept names nothing of LEARN.learned"),
    ("kept_or_not", "PROPOSE", {**PROPOSE, "kept": ["l1", "l9"]}, "kept names l9"),
    ("kept_or_not", "PROPOSE", {**PROPOSE, "page": "notes/bees.md"}, "agents are given _learnings/AGENT/DOMAIN.md"),
    ("kept_or_not", "PROPOSE", {**PROPOSE, "page": "_learnings/clarify/bees.md"}, "no agent 'clarify' reads learnings"),
    ("kept_or_not", "PROPOSE", {**PROPOSE, "page": "_learnings/memory/bees.md"}, "call kb_merge about page"),
    ("kept_or_not", "PROPOSE", {**PROPOSE, "page": "", "none_because": "nothing new"}, "kept must be empty"),
    ("gaps_seen", "GAPS", {"gaps": [], "risks": []}, "none_because is empty"),
    ("gaps_seen", "GAPS", change(GAPS, "gaps", 0, text=" "), "gaps[g1]: text is empty"),
    ("gaps_seen", "GAPS", change(GAPS, "risks", 0, answer=" "), "risks[r1]: answer is empty"),
    ("gaps_seen", "GAPS", change({**GAPS, "none_because": "all seen"}, "risks", 0, answer=" "), "risks must be empty"),
    ("next_known", "NEXT", {**NEXT, "next": " "}, "next is empty"),
    ("next_known", "NEXT", {**NEXT, "who": ""}, "who is empty"),
    ("next_known", "NEXT", {**NEXT, "serves": []}, "serves names nothing of GOAL.open, GAPS.gaps or GAPS.risks"),
    ("next_known", "NEXT", {**NEXT, "serves": ["o9"]}, "serves names o9"),
    ("next_known", "NEXT", {"goal_reached": True}, "GOAL.open must be empty"),
    ("open_forgotten", "NEXT", {"forgotten": {"id": "o1", "text": "who pays"}}, "forgotten.id names nothing that"),
    ("open_forgotten", "NEXT", NEXT, "forgotten is not in this submit"),
]  # fmt: skip


@pytest.mark.parametrize(("condition", "phase", "work", "told"), MISSES)
async def test_near_misses_hold_it_up(condition: str, phase: str, work: Mapping[str, Any], told: str) -> None:
    look = Pages(called=[MERGED])
    found = await judge(MEMORY, condition, phase, work, works=before(WORKS, phase), look=look, documents=DOCUMENTS)
    assert not found.met
    assert any(told in text for text in found.missing), found.missing


def test_each_condition_has_near_misses() -> None:
    assert {condition for condition, *_ in MISSES} == set(MEMORY.conditions)


@pytest.mark.parametrize(
    ("status", "met"),
    [("done", True), ("proposed", True), ("unchanged", True), ("conflict", False), ("analysis", False)],
)
async def test_a_learning_counts_when_it_was_merged_or_proposed(status: str, *, met: bool) -> None:
    look = Pages(called=[Called("kb_merge", "PROPOSE", {"status": status, "path": PAGE})])
    assert (
        await judge(MEMORY, "kept_or_not", "PROPOSE", PROPOSE, works=before(WORKS, "PROPOSE"), look=look)
    ).met is met


@pytest.mark.parametrize(
    ("condition", "phase", "work"),
    [
        ("learned_or_not", "LEARN", {"learned": [], "none_because": "everybody knows it"}),
        ("kept_or_not", "PROPOSE", {"none_because": "it is said there already"}),
        ("gaps_seen", "GAPS", {"gaps": [], "risks": [], "none_because": "two people looked"}),
    ],
)
async def test_an_empty_section_says_why(condition: str, phase: str, work: Mapping[str, Any]) -> None:
    assert (await judge(MEMORY, condition, phase, work, works=before(WORKS, phase))).met


async def test_the_goal_is_reached_when_nothing_is_open_and_no_gap_is_left() -> None:
    works = {**before(WORKS, "NEXT"), "GOAL": {**GOAL, "open": []}, "GAPS": {**GAPS, "gaps": []}}
    assert (await judge(MEMORY, "next_known", "NEXT", {"goal_reached": True}, works=works)).met
    assert not (await judge(MEMORY, "next_known", "NEXT", {"goal_reached": False}, works=works)).met


def test_the_script_copies_the_prompts_text() -> None:
    told = "## Brief\nKeep bees.\n\n## Agent output summary\nStep Overview:\n- READ: the request names one point.\n\n## Steps\nx"
    (act,) = acts("OUTPUT", Scene("j", told))
    assert act.content["says"] == [{"id": "s1", "words": "READ: the request names one point."}]


OTHER: Mapping[str, Sequence[Mapping[str, Any]]] = {
    "OUTPUT": [{"summary": "Other."}],
    "GOAL": [{"missed": {"id": "s2", "words": "Keep bees"}}, {**GOAL, "open": []}],
    "LEARN": [{"none_because": "all known"}, {"drop": ["l1"]}],
    "PROPOSE": [{"none_because": "all known"}, {}],
    "GAPS": [{"gaps": [], "risks": [], "none_because": "all seen"}, {"gaps": [], "risks": []}],
    "NEXT": [FORGOTTEN, {"goal_reached": True}],
}


def good(state: JourneyState) -> Sequence[tuple[Mapping[str, Any], tuple[str, ...]]]:
    """Return work that leads on from any state of a walk."""
    says = [{"id": id_, "words": "bees on the roof"} for id_ in ("s1", "s2")]
    kept = {name: work.content for name, work in state.work.items()}
    left = [*kept.get("GOAL", {}).get("open", []), *kept.get("GAPS", {}).get("gaps", [])]
    learned = [one["id"] for one in kept.get("LEARN", {}).get("learned", [])]
    found: dict[str, Mapping[str, Any]] = {
        **WORKS,
        "PROPOSE": {"page": PAGE, "kept": learned, **({} if learned else {"none_because": "all known"})},
        "OUTPUT": {**OUTPUT, "says": says},
        "GOAL": {**GOAL, "open": [*GOAL["open"], FORGOTTEN["forgotten"]]},
        "NEXT": {**NEXT, "serves": [one["id"] for one in left]} if left else {"goal_reached": True},
    }
    return [(found[state.phase], ())]


def any_work(state: JourneyState) -> Sequence[tuple[Mapping[str, Any], tuple[str, ...]]]:
    return [*good(state), *((work, ()) for work in OTHER[state.phase])]


@given(choices=st.lists(st.integers(0, 1_000), max_size=25))
@settings(max_examples=12)
def test_no_walk_leaves_the_table_or_is_stuck(choices: list[int]) -> None:
    assert "next_known" in asyncio.run(walk(MEMORY, choices, any_work, good, look=Pages(called=[MERGED])))


async def test_in_a_skill_it_uses_only_its_direct_predecessors_document() -> None:
    before_it = Predecessor("analysis", "weigh", "weigh.CLOSING")
    agent = as_agent(
        cognitive("memory"), PhaseSetting("s", phase="weigh.memory", predecessors=(before_it,), pattern="last")
    )
    written = (
        "# Output\n\n## Section 0: Context Loaded\n\n- Request: {request}\n\n## Section 1: Step Overview\n\n- {done}\n"
    )
    works: dict[str, Mapping[str, Any]] = {
        "weigh.CLOSING": {"document": written.format(request="Keep bees in town.", done="The roof bears two hives.")},
        "ask.CLOSING": {"document": written.format(request="Keep bees in town.", done="The town allows three hives.")},
    }
    documents = {name: str(work["document"]) for name, work in works.items()}

    async def read(words: str) -> bool:
        work = {**OUTPUT, "says": [{"id": "s1", "words": words}]}
        found = await judge(
            agent, "output_read", "OUTPUT", work, works=works, brief="Keep bees in town.", documents=documents
        )
        return found.met

    assert await read("The roof bears two hives")
    assert not await read("The town allows three hives"), "another agent left that"
    assert not await read("Keep bees in town"), "the person asked for that, and the server wrote it into the document"


BRIEF = "We want bees on the roof of the school before May."


# --- after the other agents -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["clarification", "research-cognitive", "analysis"])
async def test_it_looks_back_on_each_agents_real_document(name: str) -> None:
    """The memory agent runs after every other agent's completion, and keeps to its budget."""
    agent, cast = alone(cognitive(name), cognitive("memory")), Cast.alone(name)
    inputs: dict[str, Any] = {"domain": "bees", "constraints": ["Nobody is stung on the roof."]}
    went = []
    async with leading(agent, brief=BRIEF, **inputs) as led:
        while (state := await led.state()).status != "complete":
            went.append(state.phase)
            assert len(went) <= 30, await led.missing()
            told = await led.told()
            if state.phase == "memory.GOAL":
                assert f"## Agent output summary\nLeft by {name}:" in told
            budget = agent.budgets[state.phase].tokens_in
            assert count_tokens(told) + count_tokens(canonical(dict(agent.forms[state.phase].schema))) <= budget
            await play(led, cast, **inputs)
        assert went[-6:] == [f"memory.{step}" for step in ("GOAL", "LEARN", "PROPOSE", "GAPS", "NEXT", "CLOSING")]
        output, left = state.work["memory.OUTPUT"], agent.documents(state)[name]
        assert output.automatic
        assert output.content["agent"] == name
        assert len(output.content["says"]) > 2
        assert all(one["words"] in left and one["words"] not in BRIEF for one in output.content["says"])
        assert state.work["memory.PROPOSE"].content["page"] == "_learnings/all/bees.md"
        assert set(agent.documents(state)) == {name, "memory"}
