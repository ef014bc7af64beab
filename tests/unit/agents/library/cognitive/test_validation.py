"""Validation: its own steps, forward to the end and back, and for each condition the near misses that it rejects."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import product
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agents.engine.agent import Called, SubmitFacts
from agents.engine.graph import Phase
from agents.engine.progress.composition import AgentPart, composed
from agents.engine.state import JourneyState
from agents.library.cognitive.agent import as_agent
from agents.library.cognitive.library import cognitive, described
from agents.library.cognitive.setting import PhaseSetting, Predecessor
from agents.prompts.prompt import prompt
from tests.support.agents.agent_harness import ALTERED, VARROA, Pages, change, leading, walk
from tests.support.agents.cognitive.scripts import Scene, generation, shared
from tests.support.agents.cognitive.scripts.validation import CRITERIA, EVIDENCE, acts, failing, verdicts
from tests.support.agents.cognitive.steps import Back, dearest, follow, go_back, judge, own, perform, settle
from tests.support.agents.cognitive.steps import before as works_before
from tests.support.agents.team_agents import OWN_TOOLS

VALIDATION = own("validation")
SCENE = Scene("j-1", "")
HELD: Mapping[str, Any] = {"criteria": CRITERIA}
EXAMINED: Mapping[str, Any] = {"evidence": [{k: v for k, v in one.items() if k != "tool"} for one in EVIDENCE]}
JUDGED: Mapping[str, Any] = {"verdicts": verdicts(SCENE)}
PASSED: Mapping[str, Any] = {"verdict": "pass", "summary": "All of it holds."}
WORKS = {"CRITERIA": HELD, "EXAMINE": EXAMINED, "JUDGE": JUDGED, "CONCLUDE": PASSED}
UNTESTABLE = {"untestable": {"criterion": "k2", "why": "nobody saw them drink"}}
STRANGE: Mapping[str, Any] = {"evidence": [{**EXAMINED["evidence"][0], "id": "v9", "criterion": "k9"}]}
DOUBT = {"doubt": {"criterion": "k1", "why": "the page is of last year"}}


before = partial(works_before, WORKS)


def test_it_is_read_without_a_mistake_and_has_the_numbers_of_the_table() -> None:
    """The table of the agents' protocol: six steps, 2,500 and 1,500 tokens, its priority sections, the balanced class."""
    assert described("validation", OWN_TOOLS).problems == ()
    agent = cognitive("validation")
    assert agent.steps[2:] == tuple(WORKS)
    assert (agent.function, len(agent.steps)) == ("VALIDATION", 6)
    assert (agent.budget.tokens_in, agent.budget.tokens_out) == (2_500, 1_500)
    assert agent.priority == ("artifact", "criteria", "constraints")
    assert (agent.advice.model_class, agent.advice.example) == ("balanced", "sonnet")


@pytest.mark.parametrize(("script", "verdict"), [(acts, "pass"), (failing, "fail")])
async def test_the_script_leads_it_step_by_step_to_its_verdict(script: Any, verdict: str) -> None:
    inputs: dict[str, Any] = {"criteria": ["Polite", "Names no person."], "constraints": ["Not longer than a page."]}
    async with leading(VALIDATION, **inputs) as led:
        assert await follow(led, script, **inputs) == list(WORKS)
        assert (await led.state()).work["CONCLUDE"].content["verdict"] == verdict


async def test_no_criterion_or_constraint_that_was_given_can_be_left_out() -> None:
    async with leading(VALIDATION, criteria=["Polite", "Names no person."], constraints=["Short"]) as led:
        assert (await led.submit(**HELD)).phase == "CRITERIA"
        assert await led.missing() == [
            "no item of criteria covers number 1, 2 of inputs.criteria: copy its words",
            "no item of criteria covers number 1 of inputs.constraints: copy its words",
        ]


BACKS: list[Back] = [
    ("EXAMINE", UNTESTABLE, "CRITERIA", "criterion_untestable", "nobody saw them drink"),
    ("EXAMINE", STRANGE, "CRITERIA", "criterion_missing", "CRITERIA.criteria does not have k9"),
    ("JUDGE", DOUBT, "EXAMINE", "evidence_lacking", "the page is of last year"),
    ("CONCLUDE", DOUBT, "EXAMINE", "evidence_lacking", "the page is of last year"),
]


@pytest.mark.parametrize("back", BACKS)
async def test_missing_work_of_an_earlier_step_leads_back_and_forward_again(back: Back) -> None:
    async with leading(VALIDATION) as led:
        await settle(led, WORKS, back[0])
        await go_back(led, back, {**WORKS, "EXAMINE": {**WORKS["EXAMINE"], "drop": ["v9"]}})


async def test_a_return_to_examine_brings_new_evidence_and_judges_it() -> None:
    async with leading(VALIDATION) as led:
        await settle(led, WORKS, "JUDGE")
        await led.submit(**DOUBT)
        assert (await led.submit()).phase == "EXAMINE"
        assert await led.missing() == ["evidence is not in this submit"]
        fails = {**EXAMINED["evidence"][0], "id": "v3", "shows": "fails", "text": "another page says cold"}
        assert (await led.submit(evidence=[fails])).phase == "JUDGE"
        assert (await led.submit()).phase == "JUDGE"
        assert (await led.submit(**JUDGED)).phase == "JUDGE", "one piece of evidence is against it now"
        assert await led.missing() == ["a criterion for which evidence fails or is absent is partly met or not met"]
        partly = {**JUDGED["verdicts"][0], "verdict": "partly", "rests_on": ["v1", "v3"]}
        assert (await led.submit(verdicts=[partly])).phase == "CONCLUDE"
        assert (await led.submit(**PASSED)).phase == "CONCLUDE"
        todo = [{"id": "d1", "criterion": "k1", "what": "settle which page is right"}]
        assert (await led.submit(verdict="pass_with_conditions", to_do=todo)).status == "complete"


def judgement(must: str, should: str) -> dict[str, Mapping[str, Any]]:
    """Return works before CONCLUDE in which the must and the should have these verdicts."""
    told = change(change(JUDGED, "verdicts", 0, verdict=must), "verdicts", 1, verdict=should)
    return before("CONCLUDE", JUDGE=told)


@pytest.mark.parametrize(("must", "should"), list(product(["met", "partly", "not_met"], repeat=2)))
async def test_exactly_one_verdict_follows_from_the_criteria(must: str, should: str) -> None:
    """Pass if everything is met, fail if a must is not, otherwise with conditions: whatever the model would prefer."""
    open_ = [id_ for id_, verdict in (("k1", must), ("k2", should)) if verdict != "met"]
    follows = "pass" if not open_ else "fail" if must == "not_met" else "pass_with_conditions"
    to_do = [{"id": f"d{id_}", "criterion": id_, "what": "mend it"} for id_ in open_]
    for verdict in ("pass", "pass_with_conditions", "fail"):
        work = {"verdict": verdict, "summary": "Everything was looked at.", "to_do": to_do}
        found = await judge(VALIDATION, "verdict_follows", "CONCLUDE", work, works=judgement(must, should))
        assert found.met is (verdict == follows), (verdict, found.missing)


MISSES: list[tuple[str, str, Mapping[str, Any], str]] = [
    ("criteria_testable", "CRITERIA", {"criteria": CRITERIA[1:]}, "at least one criterion is a must"),
    (
        "criteria_testable",
        "CRITERIA",
        change(HELD, "criteria", 1, text="names the cause of losses."),
        "criteria[k2].text says the same as criteria[k1].text",
    ),
    ("criteria_testable", "CRITERIA", change(HELD, "criteria", 0, evidence=[]), "criteria[k1] rests on nothing"),
    ("criteria_testable", "CRITERIA", change(HELD, "criteria", 0, evidence=[ALTERED]), "the quote is not in"),
    ("criteria_testable", "CRITERIA", change(HELD, "criteria", 0, words="It shall be nice"), "[k1].words are not in"),
    ("evidence_for_each", "EXAMINE", {"evidence": EXAMINED["evidence"][:1]}, "evidence.criterion has nothing for k2"),
    ("evidence_for_each", "EXAMINE", STRANGE, "evidence.criterion names k9"),
    ("evidence_for_each", "EXAMINE", change(EXAMINED, "evidence", 0, quotes=[]), "evidence[v1] rests on nothing"),
    ("evidence_for_each", "EXAMINE", change(EXAMINED, "evidence", 0, quotes=[ALTERED]), "evidence[v1]: the quote"),
    (
        "evidence_for_each",
        "EXAMINE",
        change(EXAMINED, "evidence", 0, words="Keep bees on the roof"),
        "evidence[v1].words are not in inputs.artifact, others.PRODUCE.made or the person's answers",
    ),
    (
        "evidence_for_each",
        "EXAMINE",
        change(EXAMINED, "evidence", 0, tool="kb_contradictions"),
        "evidence[v1].tool: no call of 'kb_contradictions'",
    ),
    (
        "criterion_untestable",
        "EXAMINE",
        {"untestable": {"criterion": "v1", "why": "x"}},
        "untestable.criterion names v1",
    ),
    ("criterion_untestable", "EXAMINE", EXAMINED, "untestable is not in this submit"),
    ("criterion_missing", "EXAMINE", change(EXAMINED, "evidence", 0, criterion="K1"), "names nothing that CRITERIA"),
    ("verdicts_shown", "JUDGE", {"verdicts": JUDGED["verdicts"][:1]}, "verdicts has nothing for k2"),
    ("verdicts_shown", "JUDGE", change(JUDGED, "verdicts", 0, id="k9"), "verdicts names k9"),
    ("verdicts_shown", "JUDGE", change(JUDGED, "verdicts", 0, rests_on=[]), "verdicts[k1] lacks 'rests_on'"),
    ("verdicts_shown", "JUDGE", change(JUDGED, "verdicts", 0, rests_on=["v9"]), "verdicts.rests_on names v9"),
    ("evidence_lacking", "JUDGE", JUDGED, "doubt is not in this submit"),
    ("evidence_lacking", "CONCLUDE", {"doubt": {"criterion": "v1", "why": "x"}}, "doubt.criterion names v1"),
    ("verdict_follows", "CONCLUDE", {**PASSED, "summary": " "}, "summary is empty"),
    ("verdict_follows", "CONCLUDE", {**PASSED, "verdict": "fail"}, "the verdict follows from the criteria"),
    (
        "verdict_follows",
        "CONCLUDE",
        {**PASSED, "to_do": [{"id": "d1", "criterion": "k1", "what": "polish it"}]},
        "to_do is about criteria that are not met",
    ),
]


@pytest.mark.parametrize(("condition", "phase", "work", "told"), MISSES)
async def test_near_misses_hold_it_up(condition: str, phase: str, work: Mapping[str, Any], told: str) -> None:
    found = await judge(VALIDATION, condition, phase, work, works=before(phase))
    assert not found.met
    assert any(told in text for text in found.missing), found.missing


def test_each_condition_has_near_misses() -> None:
    assert {condition for condition, *_ in MISSES} == set(VALIDATION.conditions)


@pytest.mark.parametrize("shows", ["fails", "absent"])
async def test_nothing_is_met_that_its_evidence_is_against(shows: str) -> None:
    against = before("JUDGE", EXAMINE=change(EXAMINED, "evidence", 0, shows=shows))
    found = await judge(VALIDATION, "verdicts_shown", "JUDGE", JUDGED, works=against)
    assert found.missing == (
        "a verdict of met rests only on evidence that shows that it holds",
        "a criterion for which evidence fails or is absent is partly met or not met",
    )
    not_met = change(JUDGED, "verdicts", 0, verdict="not_met")
    assert (await judge(VALIDATION, "verdicts_shown", "JUDGE", not_met, works=against)).met


async def test_an_open_point_needs_an_owner() -> None:
    work = {"verdict": "fail", "summary": "Two points are open."}
    found = await judge(VALIDATION, "verdict_follows", "CONCLUDE", work, works=judgement("not_met", "partly"))
    assert found.missing == ("to_do.criterion has nothing for k1, k2 of JUDGE.verdicts.verdict!=met",)


async def test_evidence_comes_from_the_artefact_and_not_from_the_request() -> None:
    """Words of the artefact, a page, a called tool, or the person's answer; never the brief or its criteria."""
    condition = VALIDATION.conditions["evidence_for_each"]
    look = Pages(called=[Called("kb_search", "EXAMINE", {})])

    async def shown(**said: Any) -> bool:
        work = {"evidence": [{"id": "v1", "criterion": "k1", "shows": "holds", "text": "mites are named", **said}]}
        works = {
            "CRITERIA": {"criteria": CRITERIA[:1]},
            "EXAMINE": work,
            "generate.PRODUCE": {"made": [{"id": "m1", "text": "Mites kill most of the colonies."}]},
            "generate.SPECIFY": {"items": [{"id": "s1", "text": "The cause of losses is named."}]},
        }
        inputs = {"artifact": "Cold kills them, too.", "specification": "The page names a cause."}
        answers = {"JOHARI_DISCOVERY": {"q1": {"question": "Is it read?", "answer": "My neighbour read it."}}}
        brief = "Check the page about losses."
        facts = SubmitFacts("EXAMINE", 1, brief, inputs, work, work, works, answers=answers)
        return (await condition(facts, look)).met

    assert await shown(words="Mites kill most")
    assert await shown(words="Cold kills them")
    assert await shown(words="My neighbour read it")
    assert await shown(tool="kb_search")
    assert await shown(quotes=[VARROA])
    assert not await shown(words="names a cause")
    assert not await shown(words="The cause of losses is named")
    assert not await shown(words="the page about losses")
    assert not await shown(tool="kb_read")
    assert await shown(shows="absent"), "that something is not there can be looked for, not quoted"


async def test_after_generation_it_is_shown_the_artefact_itself() -> None:
    """Its conversation is not the maker's: it sees only what it is given."""
    maker = as_agent(cognitive("generation"), PhaseSetting(skill="check", phase="make", agent_mode=True))
    before_it = (Predecessor("generation", "make", "make.CLOSING"),)
    checker = as_agent(
        cognitive("validation"), PhaseSetting("check", phase="check", predecessors=before_it, agent_mode=True)
    )
    parts = [AgentPart("make.", maker), AgentPart("check.", checker)]
    chain = composed("check", "Check", "Makes and checks.", parts, Phase("COMPLETE"))
    async with leading(chain) as led:
        while (state := await led.state()).phase != "check.CRITERIA":
            _, _, phase = state.phase.partition(".")
            scene = Scene(led.journey, await led.told(), state.visit)
            await perform(
                led, shared.acts("", phase, scene) if phase in shared.PHASES else generation.acts(phase, scene)
            )
        told_now = await led.told()
        assert "## Artifact\n- In December the hives are treated with oxalic acid.\n- Each colony has 15" in told_now
        assert state.conversations["check"] != state.conversations["make"]
        assert "## Pages made" not in told_now
        # Part of it may be a page, which is shown by what stands there.
        made = state.work["make.PRODUCE"]
        page = {"id": "m9", "as": "page", "says": VARROA}
        both = replace(made, content={"made": [*made.content["made"], page]})
        told_then = prompt(chain, replace(state, work={**state.work, "make.PRODUCE": both}))
        assert "## Artifact\n- In December the hives" in told_then
        assert f'## Pages made\n{VARROA["path"]} "{VARROA["quote"]}"' in told_then


async def test_no_steps_input_exceeds_its_budget() -> None:
    """For any input: the table, 2,500 tokens."""
    inputs: dict[str, Any] = {
        "criteria": ["".join(f"{n}.{m}: names no person. " for m in range(9)) for n in range(4)],
        "artifact": "A page about bees. " * 700,
    }
    most = await dearest("validation", acts, **inputs)
    assert 2_000 < most <= 2_500


OTHER: Mapping[str, Sequence[Mapping[str, Any]]] = {
    "CRITERIA": [{"criteria": [{**CRITERIA[1], "id": "k9", "text": "Is short on bees."}]}],
    "EXAMINE": [UNTESTABLE, STRANGE, {"drop": ["v1"]}],
    "JUDGE": [DOUBT, {"verdicts": [{**JUDGED["verdicts"][0], "verdict": "not_met"}]}],
    "CONCLUDE": [DOUBT, {"verdict": "fail"}],
}


def good(state: JourneyState) -> Sequence[tuple[Mapping[str, Any], tuple[str, ...]]]:
    """Return work that leads on from any state of a walk."""
    more = "k9" in ids_in(state, "CRITERIA")
    evidence = [*EXAMINED["evidence"], *([{**EXAMINED["evidence"][1], "id": "v9", "criterion": "k9"}] if more else [])]
    judged = [*JUDGED["verdicts"], *([{**JUDGED["verdicts"][1], "id": "k9"}] if more else [])]
    works: dict[str, Mapping[str, Any]] = {
        "CRITERIA": HELD,
        "EXAMINE": {"evidence": evidence, "drop": [] if more else ["v9"]},
        # A person may have sent it here without evidence: then it asks for that first.
        "JUDGE": {"verdicts": judged, "drop": [] if more else ["k9"]} if "v1" in ids_in(state, "EXAMINE") else DOUBT,
        # A person may have sent it here before all was judged: it goes back and comes again.
        "CONCLUDE": PASSED if all_met(state) else DOUBT,
    }
    return [(works[state.phase], ())]


def ids_in(state: JourneyState, phase: str) -> set[str]:
    name = {"CRITERIA": "criteria", "EXAMINE": "evidence"}[phase]
    return {item["id"] for item in state.work[phase].content.get(name, [])} if phase in state.work else set()


def all_met(state: JourneyState) -> bool:
    work = state.work.get("JUDGE")
    judged = work.content.get("verdicts", []) if work else []
    return ids_in(state, "CRITERIA") == {one["id"] for one in judged if one["verdict"] == "met"}


def any_work(state: JourneyState) -> Sequence[tuple[Mapping[str, Any], tuple[str, ...]]]:
    return [*good(state), *((work, ()) for work in OTHER[state.phase])]


@given(choices=st.lists(st.integers(0, 1_000), max_size=25))
@settings(max_examples=12)
def test_no_walk_leaves_the_table_or_is_stuck(choices: list[int]) -> None:
    assert "verdict_follows" in asyncio.run(walk(VALIDATION, choices, any_work, good))
