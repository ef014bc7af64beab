"""The handbook's two agents with the real runner and a real database: each path forward and back, each decision, each near miss."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agents.engine.agent import Agent, Called, Fate
from agents.engine.graph import mermaid
from agents.engine.state import JourneyState, get_state, restore_state
from agents.errors import BadWork, NeedsOwnHand, WaitsForPerson
from agents.prompts.prompt import DETAIL_TOKENS
from tests.support.agents.agent_harness import (
    ALTERED,
    ANSWER_TOKENS,
    FLOWERS,
    WINTER,
    Led,
    Pages,
    cost,
    judged,
    leading,
    walk,
)
from tests.support.agents.team_agents import handbook_agent

DECIDE, REVIEW = handbook_agent("decide"), handbook_agent("incident-review")
PAGE = "plans/honey.md"

# --- decide -----------------------------------------------------------------------------------------------------------

FRAMED: Mapping[str, Any] = {
    "question": "How do we treat mites?",
    "criteria": [{"id": "c1", "text": "no brood is harmed"}, {"id": "c2", "text": "one person can do it"}],
    "options": [{"id": "o1", "text": "Oxalic acid in December"}, {"id": "o2", "text": "Change nothing"}],
}
WEIGHED: Mapping[str, Any] = {
    "weighed": [
        {"id": "w1", "option": "o1", "for": "works", "against": "cold hands", "evidence": [WINTER]},
        {"id": "w2", "option": "o2", "for": "no work", "against": "colonies die"},
    ],
    "choice": {"option": "o1", "reason": "c1 and c2 hold"},
}
MISSING_OPTION = {"missing_option": {"id": "o3", "text": "Formic acid", "why": "it works in summer, too"}}
SAYS = {"path": PAGE, "section": "Honey", "quote": "Honey is harvested in the last week of July."}
WRITTEN = {"page": PAGE, "summary": "Oxalic acid in December.", "says": SAYS}


def merged(status: str = "done", path: str = PAGE, **more: str) -> Called:
    return Called("kb_merge", "WRITE", {"status": status, "path": path, **more})


async def weighing(led: Led) -> None:
    assert (await led.submit(**FRAMED)).phase == "WEIGH"


async def writing(led: Led) -> None:
    await weighing(led)
    assert (await led.submit(**WEIGHED)).status == "waiting"
    assert (await led.decide("approve")).phase == "WRITE"


async def test_a_decision_is_led_from_options_to_a_page() -> None:
    async with leading(DECIDE, brief="Mites.", page=PAGE) as led:
        assert "Put the question of the brief so that it can be decided." in await led.told()
        state = await led.submit(**FRAMED)
        assert (state.phase, state.checkpoint is not None and state.checkpoint.kind) == ("WEIGH", "optional")
        told = await led.told()
        assert "Question: How do we treat mites?" in told
        assert "- o1: Oxalic acid in December" in told
        assert (await led.submit(**WEIGHED)).status == "waiting"
        assert "Is this the decision?" in await led.told()
        with pytest.raises(WaitsForPerson):
            await led.submit(**WEIGHED)
        assert (await led.decide("approve", channel="relayed")).phase == "WRITE"
        told = await led.told()
        assert f"Write the decision to {PAGE} with kb_merge" in told
        assert "option: o1" in told
        assert (await led.submit(**WRITTEN)).phase == "WRITE", "the model's word that it wrote is nothing"
        (missing,) = await led.missing()
        assert missing.startswith(
            "one of these is needed: call kb_merge about page with the journey_id of this journey"
        )
        assert missing.endswith("or kb_merge proposed nothing in this phase")
        led.look.called.append(merged())
        state = await led.submit(**WRITTEN)
        assert (state.phase, state.status) == ("COMPLETE", "complete")
        assert restore_state(get_state(state)) == state
        assert [(move.source, move.reason) for move in state.transition_history] == [
            ("FRAME", "options_differ"),
            ("WEIGH", "every_option_weighed"),
            ("WRITE", "page_written"),
        ]


async def test_an_option_that_nobody_named_leads_back_to_be_added() -> None:
    async with leading(DECIDE, page=PAGE) as led:
        await weighing(led)
        state = await led.submit(**MISSING_OPTION)
        assert (state.phase, state.backward_trigger) == ("FRAME", "option_missing")
        assert state.backward_trigger_detail == "it works in summer, too"
        told = await led.told()
        assert "You come back to FRAME, visit 2.\nWhy: option_missing\nDetail: it works in summer, too" in told
        assert "- FRAME options: o1: Oxalic acid in December" in told
        assert "Add the option or criterion that was missing" in told
        assert "Put the question of the brief" not in told
        state = await led.submit(options=[{"id": "o3", "text": "Formic acid"}])
        assert state.phase == "WEIGH"
        assert [option["id"] for option in state.work["FRAME"].content["options"]] == ["o1", "o2", "o3"]
        state = await led.submit(**WEIGHED)
        assert state.phase == "WEIGH"
        assert await led.missing() == ["weighed.option has nothing for o3 of FRAME.options"]
        assert "missing_option" not in state.work["WEIGH"].content, "it belonged to one submit only"


async def test_a_rejected_frame_is_made_again_and_a_changed_one_continues() -> None:
    async with leading(DECIDE, page=PAGE) as led:
        await weighing(led)
        await led.submit(**WEIGHED)
        state = await led.decide("reject", "you forgot the neighbours")
        assert (state.phase, state.backward_trigger) == ("FRAME", "human_rejected")
        assert "Detail: you forgot the neighbours" in await led.told()
        await led.submit(criteria=[{"id": "c3", "text": "the neighbours agree"}])
        assert (await led.submit(**WEIGHED)).status == "waiting"
        state = await led.decide("modify", changes={"choice": {"reason": "all three hold"}})
        assert state.phase == "WRITE"
        assert state.work["WEIGH"].content["choice"] == {"option": "o1", "reason": "all three hold"}


async def test_a_page_that_a_person_refuses_leads_back_to_the_weighing() -> None:
    async with leading(DECIDE, page=PAGE) as led:
        await writing(led)
        led.look.called.append(merged("proposed", proposal="p-1"))
        led.look.fates["p-1"] = Fate("kb_merge", "pending")
        assert (await led.submit(**WRITTEN)).phase == "WRITE"
        assert "proposal p-1 waits for a person" in (await led.missing())[0]
        led.look.fates["p-1"] = Fate("kb_merge", "rejected", "too long")
        state = await led.submit(**WRITTEN)
        assert (state.phase, state.backward_trigger, state.backward_trigger_detail) == (
            "WEIGH",
            "page_refused",
            "too long",
        )
        assert (await led.submit(**WEIGHED)).status == "waiting"
        await led.decide("approve")
        led.look.fates["p-1"] = Fate("kb_merge", "done", path=PAGE)
        assert (await led.submit(**WRITTEN)).status == "complete"


def without(work: Mapping[str, Any], **changes: Any) -> dict[str, Any]:
    return {**work, **changes}


DECIDE_MISSES: list[tuple[str, str, Mapping[str, Any], str]] = [
    ("options_differ", "FRAME", without(FRAMED, question=" "), "question is empty"),
    ("options_differ", "FRAME", without(FRAMED, options=FRAMED["options"][:1]), "options has 1, at least 2"),
    ("options_differ", "FRAME", without(FRAMED, criteria=FRAMED["criteria"][:1]), "criteria has 1, at least 2"),
    (
        "options_differ",
        "FRAME",
        without(FRAMED, options=[{"id": "o1", "text": "Acid"}, {"id": "o2", "text": " acid"}]),
        "options[o2].text says the same as options[o1].text",
    ),
    ("every_option_weighed", "WEIGH", without(WEIGHED, weighed=WEIGHED["weighed"][:1]), "has nothing for o2"),
    (
        "every_option_weighed",
        "WEIGH",
        without(WEIGHED, weighed=[{**WEIGHED["weighed"][0], "evidence": [ALTERED]}, WEIGHED["weighed"][1]]),
        "weighed[w1].evidence[0]: the quote is not in",
    ),
    (
        "every_option_weighed",
        "WEIGH",
        without(WEIGHED, weighed=[WEIGHED["weighed"][0], {**WEIGHED["weighed"][1], "against": " "}]),
        "weighed[w2] lacks 'against'",
    ),
    (
        "every_option_weighed",
        "WEIGH",
        without(WEIGHED, choice={"option": "o9", "reason": "x"}),
        "choice.option names o9",
    ),
    ("every_option_weighed", "WEIGH", {"weighed": WEIGHED["weighed"]}, "choice.reason is empty"),
    ("option_missing", "WEIGH", WEIGHED, "missing_option is not in this submit"),
    ("option_missing", "WEIGH", {"missing_option": {"id": "O1", "text": "x", "why": "y"}}, "names nothing that"),
    ("page_written", "WRITE", without(WRITTEN, page="plans/other.md"), "'plans/other.md' is nothing, not a page"),
    ("page_written", "WRITE", WRITTEN, "call kb_merge about page"),
    (
        "page_written",
        "WRITE",
        {**WRITTEN, "says": {**SAYS, "quote": "Honey is harvested in the last week of May."}},
        "is not in",
    ),
    ("page_refused", "WRITE", WRITTEN, "no proposal of kb_merge was rejected"),
]
DECIDE_WORKS = {"FRAME": FRAMED, "WEIGH": WEIGHED}


@pytest.mark.parametrize(("condition", "phase", "work", "told"), DECIDE_MISSES)
async def test_near_misses_hold_up_a_decision(condition: str, phase: str, work: Mapping[str, Any], told: str) -> None:
    found = await judged(DECIDE, condition, phase, work, works={"FRAME": FRAMED} if phase != "FRAME" else {})
    assert not found.met
    assert any(told in text for text in found.missing), found.missing


# --- incident-review --------------------------------------------------------------------------------------------------

EVENTS: list[dict[str, Any]] = [
    {"id": "e1", "at": "2026-05-30 14:02 UTC", "what": "The hive was opened", "evidence": [FLOWERS]},
    {"id": "e2", "at": "14:10 UTC", "what": "The swarm left"},
    {"id": "e3", "at": "16:00 UTC", "what": "It was back in a box"},
]
COLLECTED: Mapping[str, Any] = {"impact": "No honey for a week.", "events": EVENTS}
EXPLAINED: Mapping[str, Any] = {
    "causes": [
        {"id": "c1", "event": "e2", "what": "No empty box stood ready", "evidence": [WINTER]},
        {"id": "c2", "event": "e1", "what": "Nobody looks for queen cells in May"},
    ]
}
AGREED: Mapping[str, Any] = {
    "actions": [
        {"id": "a1", "cause": "c1", "what": "Keep a box on the roof", "owner": "Ada", "due": "2026-06-15"},
        {"id": "a2", "cause": "c2", "what": "Look every Sunday in May", "owner": "Bo", "due": "2027-05-01"},
    ]
}
GAP = {"gap": {"after": "e2", "what": "Who saw it leave?"}}


async def agreeing(led: Led) -> None:
    assert (await led.submit(**COLLECTED)).phase == "EXPLAIN"
    assert (await led.submit(**EXPLAINED)).phase == "AGREE"


async def test_an_incident_is_led_from_a_timeline_to_actions_that_a_person_accepts_themselves() -> None:
    async with leading(REVIEW, brief="The swarm of 30 May.", system="hive 2") as led:
        assert "Collect what happened, in order." in await led.told()
        await led.submit(**COLLECTED)
        assert "- e1: The hive was opened; at: 2026-05-30 14:02 UTC" in await led.told()
        await led.submit(**EXPLAINED)
        assert "- c1: No empty box stood ready; event: e2" in await led.told()
        assert (await led.submit(**AGREED)).status == "waiting"
        told = await led.told()
        assert "Do the people who are named accept these actions?" in told
        assert "The person must decide this personally" in told
        with pytest.raises(NeedsOwnHand):
            await led.decide("approve", channel="relayed")
        state = await led.decide("approve", channel="terminal")
        assert (state.phase, state.status) == ("COMPLETE", "complete")
        assert "Show the person the actions" in await led.told()
        assert restore_state(get_state(state)) == state


async def test_a_gap_in_the_timeline_leads_back_to_collecting() -> None:
    async with leading(REVIEW) as led:
        await led.submit(**COLLECTED)
        state = await led.submit(**GAP)
        assert (state.phase, state.backward_trigger, state.backward_trigger_detail) == (
            "COLLECT",
            "timeline_has_gap",
            "Who saw it leave?",
        )
        told = await led.told()
        assert "Detail: Who saw it leave?" in told
        assert "The timeline has a gap." in told
        assert "Collect what happened, in order." not in told
        state = await led.submit(events=[{"id": "e4", "at": "14:11 UTC", "what": "The neighbour saw it leave"}])
        assert state.phase == "EXPLAIN"
        assert "- e4: The neighbour saw it leave" in await led.told()


async def test_an_action_for_a_cause_that_nobody_explained_leads_back_to_explaining() -> None:
    async with leading(REVIEW) as led:
        await agreeing(led)
        strange = {"id": "a3", "cause": "c3", "what": "Move the hive", "owner": "Ada", "due": "2026-07-01"}
        state = await led.submit(actions=[*AGREED["actions"], strange])
        assert (state.phase, state.backward_trigger) == ("EXPLAIN", "cause_missing")
        assert state.backward_trigger_detail == "EXPLAIN.causes does not have c3"
        state = await led.submit(causes=[{"id": "c3", "event": "e1", "what": "It stood in the sun"}])
        assert state.phase == "AGREE"
        assert (await led.submit(actions=AGREED["actions"])).status == "waiting", "what was recorded is joined"


async def test_actions_that_a_person_rejects_lead_back_to_the_causes() -> None:
    async with leading(REVIEW) as led:
        await agreeing(led)
        await led.submit(**AGREED)
        state = await led.decide("reject", "these are not the causes")
        assert (state.phase, state.backward_trigger) == ("EXPLAIN", "human_rejected")
        assert "Detail: these are not the causes" in await led.told()
        state = await led.decide("revisit", "begin with the night before", changes={"phase": "COLLECT"})
        assert (state.phase, state.backward_trigger) == ("COLLECT", "revisit")


async def test_the_optional_checkpoint_lets_a_person_send_the_causes_back() -> None:
    async with leading(REVIEW) as led:
        await agreeing(led)
        state = await led.decide("modify", "say why nobody was there")
        assert (state.phase, state.backward_trigger) == ("EXPLAIN", "modify")


REVIEW_MISSES: list[tuple[str, str, Mapping[str, Any], str]] = [
    ("timeline_stands", "COLLECT", without(COLLECTED, events=EVENTS[:2]), "events has 2, at least 3"),
    ("timeline_stands", "COLLECT", without(COLLECTED, impact=""), "impact is empty"),
    (
        "timeline_stands",
        "COLLECT",
        without(COLLECTED, events=[*EVENTS[:2], {**EVENTS[2], "what": "the swarm  left"}]),
        "events[e3].what says the same as events[e2].what",
    ),
    (
        "timeline_stands",
        "COLLECT",
        without(COLLECTED, events=[*EVENTS[1:], {**EVENTS[1], "id": "e9", "what": "x"}]),
        "rests on 0",
    ),
    (
        "timeline_stands",
        "COLLECT",
        without(COLLECTED, events=[{**EVENTS[0], "evidence": [ALTERED]}, *EVENTS[1:]]),
        "events[e1].evidence[0]: the quote is not in",
    ),
    ("causes_explained", "EXPLAIN", {"causes": EXPLAINED["causes"][:1]}, "name at least two causes: what set it off"),
    (
        "causes_explained",
        "EXPLAIN",
        {"causes": [EXPLAINED["causes"][0], {**EXPLAINED["causes"][1], "event": "e7"}]},
        "causes.event names e7, which COLLECT.events does not have",
    ),
    (
        "causes_explained",
        "EXPLAIN",
        {"causes": [{**EXPLAINED["causes"][0], "evidence": []}, EXPLAINED["causes"][1]]},
        "causes rests on 0 different quotes",
    ),
    ("timeline_has_gap", "EXPLAIN", EXPLAINED, "gap is not in this submit"),
    ("timeline_has_gap", "EXPLAIN", {"gap": {"after": "e9", "what": "who"}}, "gap.after names e9"),
    ("actions_agreed", "AGREE", {"actions": AGREED["actions"][:1]}, "actions.cause has nothing for c2"),
    (
        "actions_agreed",
        "AGREE",
        {"actions": [AGREED["actions"][0], {k: v for k, v in AGREED["actions"][1].items() if k != "owner"}]},
        "actions[a2] lacks 'owner'",
    ),
    ("cause_missing", "AGREE", AGREED, "actions.cause names nothing that EXPLAIN.causes does not have already"),
]


@pytest.mark.parametrize(("condition", "phase", "work", "told"), REVIEW_MISSES)
async def test_near_misses_hold_up_a_review(condition: str, phase: str, work: Mapping[str, Any], told: str) -> None:
    before = {"COLLECT": COLLECTED, "EXPLAIN": EXPLAINED}
    works = {name: kept for name, kept in before.items() if name != phase and (name, phase) != ("EXPLAIN", "COLLECT")}
    found = await judged(REVIEW, condition, phase, work, works=works)
    assert not found.met
    assert any(told in text for text in found.missing), found.missing


# --- both -------------------------------------------------------------------------------------------------------------


async def test_a_bad_submit_names_each_wrong_field_and_changes_nothing() -> None:
    async with leading(REVIEW) as led:
        before = await led.state()
        with pytest.raises(BadWork) as refused:
            await led.submit(events=[{"id": "e1", "at": 5, "wat": "x"}], impct="y")
        assert sorted(refused.value.problems) == [
            "'events[e1].at' must be text, not a number",
            "'events[e1].what' is missing",
            "there is no field 'events[e1].wat'; did you mean 'what'?",
            "there is no field 'impct'; did you mean 'impact'?",
        ]
        assert await led.state() == before


@pytest.mark.parametrize(
    ("agent", "works"), [(DECIDE, [FRAMED, WEIGHED]), (REVIEW, [COLLECTED, EXPLAINED])], ids=["decide", "review"]
)
async def test_resuming_costs_at_most_the_allowed_tokens(agent: Agent, works: Sequence[Mapping[str, Any]]) -> None:
    """2,500 tokens; with a brief and texts of the greatest length."""
    inputs: dict[str, Any] = {"page": PAGE} if agent is DECIDE else {}
    async with leading(agent, brief="Why? " * DETAIL_TOKENS * 4, **inputs) as led:
        for work in works:
            assert cost(await led.position()) <= ANSWER_TOKENS
            await led.submit(**work)
            if (await led.state()).status == "waiting":
                await led.decide("approve")
        assert cost(await led.position()) <= ANSWER_TOKENS


def test_their_diagrams_show_each_way() -> None:
    for agent in (DECIDE, REVIEW):
        drawn = mermaid(agent.graph)
        assert all(f'|"{t.condition}' in drawn for t in agent.graph.transitions)


GOOD: Mapping[str, Mapping[str, Any]] = {
    "FRAME": FRAMED,
    "WEIGH": WEIGHED,
    "WRITE": WRITTEN,
    "COLLECT": COLLECTED,
    "EXPLAIN": EXPLAINED,
    "AGREE": AGREED,
}
OTHER: Mapping[str, Sequence[Mapping[str, Any]]] = {
    "FRAME": [{"options": [{"id": "o3", "text": "Formic acid"}]}, {"question": " "}],
    "WEIGH": [MISSING_OPTION, {"choice": {"option": "o9", "reason": "x"}}],
    "WRITE": [{**WRITTEN, "page": "plans/none.md"}],
    "COLLECT": [{"impact": " "}, {"events": [{"id": "e9", "at": "now", "what": "Rain"}]}],
    "EXPLAIN": [GAP, {"drop": ["c1"]}],
    "AGREE": [{"actions": [{"id": "a9", "cause": "c9", "what": "x", "owner": "y", "due": "z"}]}],
}


def good(state: JourneyState) -> Sequence[tuple[Mapping[str, Any], tuple[str, ...]]]:
    """Return work that leads on from any state of a walk: everything framed or explained meanwhile is covered."""
    work = dict(GOOD[state.phase])
    if state.phase == "WEIGH":
        options = state.work["FRAME"].content["options"]
        work["weighed"] = [
            {
                "id": f"w-{o['id']}",
                "option": o["id"],
                "for": "it is cheap",
                "against": "winter is long",
                "evidence": [WINTER],
            }
            for o in options
        ]
    if state.phase == "AGREE":
        causes = [cause["id"] for cause in state.work["EXPLAIN"].content["causes"]]
        work["actions"] = [
            {"id": f"a-{cause}", "cause": cause, "what": "check the valve", "owner": "Ada", "due": "Friday"}
            for cause in causes
        ]
        work["drop"] = ["a9"]
    return [(work, ())]


def any_work(state: JourneyState) -> Sequence[tuple[Mapping[str, Any], tuple[str, ...]]]:
    return [*good(state), *((work, ()) for work in OTHER[state.phase])]


WALKED = pytest.mark.parametrize("agent", [replace(DECIDE, inputs={}), REVIEW], ids=["decide", "review"])
CHOICES = st.lists(st.integers(0, 1_000), max_size=25)


def walked(agent: Agent, choices: Sequence[int]) -> Collection[str]:
    return asyncio.run(walk(agent, choices, any_work, good, look=Pages(called=[merged()])))


@WALKED
@given(choices=CHOICES)
@settings(max_examples=15)
def test_no_walk_leaves_the_table_or_is_stuck(agent: Agent, choices: list[int]) -> None:
    assert agent.graph.transitions[0].condition in walked(agent, choices)


@pytest.mark.slow
@WALKED
@given(choices=CHOICES)
@settings(max_examples=10_000)
def test_none_of_ten_thousand_walks_leaves_the_table_or_is_stuck(agent: Agent, choices: list[int]) -> None:
    assert agent.graph.transitions[0].condition in walked(agent, choices)
