"""Generation: its own steps, forward to the end and back, and for each condition the near misses that it rejects."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agents.engine.agent import Called, Fate
from agents.engine.state import JourneyState
from agents.library.cognitive.library import cognitive, described
from tests.support.agents.agent_harness import ALTERED, VARROA, WINTER, Pages, change, leading, walk
from tests.support.agents.cognitive.scripts import Act, Scene
from tests.support.agents.cognitive.scripts.generation import (
    FAILED,
    ITEMS,
    MET,
    NOTES,
    PLAN,
    STORES,
    TREATMENT,
    VAGUE,
    acts,
)
from tests.support.agents.cognitive.steps import Back, dearest, follow, go_back, judge, own, settle
from tests.support.agents.cognitive.steps import before as works_before
from tests.support.agents.team_agents import OWN_TOOLS

GENERATION = own("generation")
SCENE = Scene("j-1", "")
SPECIFIED: Mapping[str, Any] = {"items": ITEMS}
PLANNED: Mapping[str, Any] = {"parts": PLAN}
MADE: Mapping[str, Any] = {"made": [TREATMENT, STORES]}
REVIEWED: Mapping[str, Any] = {"reviews": MET}
DELIVERED: Mapping[str, Any] = {"summary": "A calendar.", "notes": NOTES, "limits": ["One roof only."]}
WORKS = {"SPECIFY": SPECIFIED, "PLAN": PLANNED, "PRODUCE": MADE, "REVIEW": REVIEWED, "DELIVER": DELIVERED}
PAGE = "plans/honey.md"
ON_PAGE: Mapping[str, Any] = {"parts": [PLAN[0], {**PLAN[1], "as": "page", "page": PAGE}]}
SAYS = {"path": PAGE, "section": "Honey", "quote": "Honey is harvested in the last week of July."}
MADE_PAGE: Mapping[str, Any] = {"made": [TREATMENT, {"id": "m2", "as": "page", "says": SAYS}]}
UNCLEAR = {"unclear": {"item": "s2", "why": "kilograms a colony or a hive?"}}
UNPLANNED = {"unplanned": {"id": "m3", "why": "a list of tools is needed"}}
DEFECT = {"defect": {"item": "s1", "why": "it does not say which acid"}}


before = partial(works_before, WORKS)


def test_it_is_read_without_a_mistake_and_has_the_numbers_of_the_table() -> None:
    """The table of the agents' protocol: seven steps, 4,000 and 8,000 tokens, its priority sections, the balanced class."""
    assert described("generation", OWN_TOOLS).problems == ()
    agent = cognitive("generation")
    assert agent.steps[2:] == tuple(WORKS)
    assert (agent.function, len(agent.steps)) == ("GENERATION", 7)
    assert (agent.budget.tokens_in, agent.budget.tokens_out) == (4_000, 8_000)
    assert agent.priority == ("specification", "design", "constraints")
    assert (agent.advice.model_class, agent.advice.example) == ("balanced", "sonnet")


async def test_the_script_leads_it_to_the_end_and_fixes_the_first_reviews_findings() -> None:
    given = ["Not longer than a page.", "Cheap"]
    async with leading(GENERATION, constraints=given) as led:
        went = await follow(led, acts, constraints=given)
        assert went == ["SPECIFY", "PLAN", "PRODUCE", "REVIEW", "PRODUCE", "REVIEW", "DELIVER"]
        state = await led.state()
        assert state.work["PRODUCE"].content["made"] == [TREATMENT, STORES]
        assert [(move.reason, move.detail) for move in state.transition_history if move.is_backward] == [
            ("item_failed", "no weight is named")
        ]


async def test_a_given_constraint_is_an_item_of_the_specification() -> None:
    async with leading(GENERATION, constraints=["Not longer than a page."]) as led:
        assert (await led.submit(**SPECIFIED)).phase == "SPECIFY"
        assert await led.missing() == ["no item of items covers number 1 of inputs.constraints: copy its words"]


BACKS: list[Back] = [
    ("PLAN", UNCLEAR, "SPECIFY", "item_unclear", "kilograms a colony or a hive?"),
    ("PRODUCE", UNPLANNED, "PLAN", "part_missing", "a list of tools is needed"),
    ("REVIEW", {"reviews": FAILED}, "PRODUCE", "item_failed", "no weight is named"),
    ("DELIVER", DEFECT, "PRODUCE", "defect_found", "it does not say which acid"),
]


@pytest.mark.parametrize("back", BACKS)
async def test_missing_work_of_an_earlier_step_leads_back_and_forward_again(back: Back) -> None:
    async with leading(GENERATION) as led:
        await settle(led, WORKS, back[0])
        await go_back(led, back, WORKS)


async def test_a_failed_artefact_must_change_and_is_reviewed_again() -> None:
    async with leading(GENERATION) as led:
        await settle(led, WORKS, "REVIEW", PRODUCE={"made": [TREATMENT, VAGUE]})
        await led.submit(reviews=FAILED)
        assert (await led.submit()).phase == "PRODUCE"
        assert await led.missing() == ["made is not in this submit"]
        assert (await led.submit(made=[STORES])).phase == "REVIEW"
        assert (await led.submit()).phase == "REVIEW", "what was reviewed before was another artefact"
        still = {**FAILED[1], "why": "still no weight"}
        assert (await led.submit(reviews=[still])).phase == "PRODUCE", "one that failed is enough to go back"
        told = (await led.told()).partition("Feedback so far:")[2]
        assert [line for line in told.splitlines() if "weight" in line] == [
            "- soft failure in REVIEW: no weight is named",
            "- soft failure in REVIEW: still no weight",
        ]
        await led.submit(made=[STORES])
        assert (await led.submit(reviews=MET)).phase == "DELIVER"


async def test_the_artefact_may_come_part_by_part() -> None:
    async with leading(GENERATION) as led:
        await settle(led, WORKS, "PRODUCE")
        assert (await led.submit(made=[TREATMENT])).phase == "PRODUCE"
        assert await led.missing() == ["made.as=text has nothing for m2 of PLAN.parts.as=text"]
        assert (await led.submit(made=[STORES])).phase == "REVIEW"


def merged(status: str = "done", path: str = PAGE, **more: str) -> Called:
    return Called("kb_merge", "PRODUCE", {"status": status, "path": path, **more})


async def test_a_page_counts_if_it_was_written_and_contains_the_quote() -> None:
    async with leading(GENERATION) as led:
        await settle(led, WORKS, "PRODUCE", PLAN=ON_PAGE)
        assert (await led.submit(**MADE_PAGE)).phase == "PRODUCE", "the model's word that it wrote is nothing"
        assert await led.missing() == [
            "write each page with kb_merge and this journey's journey_id; a proposal counts when a person has approved it"
        ]
        led.look.called.append(merged("proposed", proposal="p-1"))
        led.look.fates["p-1"] = Fate("kb_merge", "pending", path=PAGE)
        assert (await led.submit(**MADE_PAGE)).phase == "PRODUCE"
        led.look.fates["p-1"] = Fate("kb_merge", "done", path=PAGE)
        assert (await led.submit(**MADE_PAGE)).phase == "REVIEW"
        shown = [MET[0], {"id": "s2", "result": "met", "why": "it says so", "evidence": [WINTER]}]
        assert (await led.submit(reviews=shown)).phase == "REVIEW"
        assert await led.missing() == ["quote the artefact's own pages, those of the plan, and no others"]
        assert (await led.submit(reviews=[MET[0], {**shown[1], "evidence": [SAYS]}])).phase == "DELIVER"


async def test_a_page_that_a_person_rejects_is_planned_again() -> None:
    async with leading(GENERATION) as led:
        await settle(led, WORKS, "PRODUCE", PLAN=ON_PAGE)
        led.look.called.append(merged("proposed", proposal="p-1"))
        led.look.fates["p-1"] = Fate("kb_merge", "rejected", "not on that page", path=PAGE)
        state = await led.submit(**MADE_PAGE)
        assert (state.phase, state.backward_trigger, state.backward_trigger_detail) == (
            "PLAN",
            "page_refused",
            "not on that page",
        )


MISSES: list[tuple[str, str, Mapping[str, Any], str]] = [
    ("specification_taken_apart", "SPECIFY", {"items": ITEMS[:1]}, "items has 1, at least 2"),
    (
        "specification_taken_apart",
        "SPECIFY",
        change(SPECIFIED, "items", 1, text="says WHEN mites are treated."),
        "items[s2].text says the same as items[s1].text",
    ),
    (
        "specification_taken_apart",
        "SPECIFY",
        change(SPECIFIED, "items", 0, evidence=[]),
        "items[s1] rests on nothing: give 'words' copied from the brief",
    ),
    (
        "specification_taken_apart",
        "SPECIFY",
        change(SPECIFIED, "items", 0, evidence=[ALTERED]),
        "items[s1]: the quote is not in",
    ),
    (
        "specification_taken_apart",
        "SPECIFY",
        change(SPECIFIED, "items", 0, words="nobody asked for this"),
        "items[s1].words are not in the brief",
    ),
    ("every_item_planned", "PLAN", {"parts": PLAN[:1]}, "parts.items has nothing for s2 of SPECIFY.items"),
    ("every_item_planned", "PLAN", change(PLANNED, "parts", 0, items=["s1", "s9"]), "parts.items names s9"),
    (
        "every_item_planned",
        "PLAN",
        {"parts": [*PLAN, {"id": "m3", "what": "An afterword", "items": [], "as": "text"}]},
        "parts[m3] lacks 'items'",
    ),
    ("every_item_planned", "PLAN", change(PLANNED, "parts", 0, **{"as": "page"}), "parts[m1] lacks 'page'"),
    ("every_item_planned", "PLAN", change(PLANNED, "parts", 0, what="the stores"), "parts[m2].what says the same"),
    ("item_unclear", "PLAN", {"unclear": {"item": "m1", "why": "x"}}, "unclear.item names m1"),
    ("item_unclear", "PLAN", PLANNED, "unclear is not in this submit"),
    ("every_part_made", "PRODUCE", {}, "made is not in this submit"),
    ("every_part_made", "PRODUCE", {"made": [TREATMENT]}, "has nothing for m2 of PLAN.parts.as=text"),
    ("every_part_made", "PRODUCE", {"made": [TREATMENT, STORES, {**STORES, "id": "m9"}]}, "made names m9"),
    ("every_part_made", "PRODUCE", change(MADE, "made", 1, text=" "), "made[m2] lacks 'text'"),
    ("every_part_made", "PRODUCE", MADE_PAGE, "made.as=text has nothing for m2"),
    ("part_missing", "PRODUCE", {"unplanned": {"id": "M2", "why": "x"}}, "names nothing that PLAN.parts"),
    ("page_refused", "PRODUCE", MADE, "no proposal of kb_merge was rejected"),
    ("every_item_met", "REVIEW", {"reviews": MET[:1]}, "reviews has nothing for s2 of SPECIFY.items"),
    ("every_item_met", "REVIEW", change(REVIEWED, "reviews", 1, id="s9"), "reviews names s9"),
    ("every_item_met", "REVIEW", change(REVIEWED, "reviews", 1, result="failed"), "reviews[s2].result is not 'met'"),
    (
        "every_item_met",
        "REVIEW",
        change(REVIEWED, "reviews", 1, words="15 kilograms of stored honey"),
        "reviews[s2].words are not in PRODUCE.made",
    ),
    ("every_item_met", "REVIEW", change(REVIEWED, "reviews", 1, words=""), "reviews[s2] rests on nothing"),
    (
        "every_item_met",
        "REVIEW",
        change(REVIEWED, "reviews", 1, evidence=[VARROA]),
        "quote the artefact's own pages",
    ),
    ("item_failed", "REVIEW", REVIEWED, "reviews.result=failed is not in this submit"),
    ("item_failed", "REVIEW", {"reviews": [{**FAILED[1], "id": "s9"}]}, "reviews.result=failed names s9"),
    ("delivered", "DELIVER", {**DELIVERED, "summary": ""}, "summary is empty"),
    ("delivered", "DELIVER", {**DELIVERED, "limits": []}, "limits is empty"),
    ("delivered", "DELIVER", {**DELIVERED, "notes": NOTES[:1]}, "notes.part has nothing for m2"),
    ("delivered", "DELIVER", change(DELIVERED, "notes", 0, part="s1"), "notes.part names s1"),
    ("defect_found", "DELIVER", {"defect": {"item": "m1", "why": "x"}}, "defect.item names m1"),
]


@pytest.mark.parametrize(("condition", "phase", "work", "told"), MISSES)
async def test_near_misses_hold_it_up(condition: str, phase: str, work: Mapping[str, Any], told: str) -> None:
    found = await judge(GENERATION, condition, phase, work, works=before(phase))
    assert not found.met
    assert any(told in text for text in found.missing), found.missing


PAGE_MISSES: list[tuple[Mapping[str, Any], str]] = [
    (
        change(MADE_PAGE, "made", 1, says={**SAYS, "quote": "Honey is harvested in the first week of May."}),
        "is not in",
    ),
    (change(MADE_PAGE, "made", 1, says=VARROA), "made.as=page.says.path has nothing for plans/honey.md"),
    ({"made": [TREATMENT, {"id": "m2", "as": "page"}]}, "made[m2] lacks 'says'"),
    ({"made": [TREATMENT, STORES]}, "made.as=page has nothing for m2 of PLAN.parts.as=page"),
]


@pytest.mark.parametrize(("work", "told"), PAGE_MISSES)
async def test_near_misses_of_pages_hold_it_up(work: Mapping[str, Any], told: str) -> None:
    works, look = before("PRODUCE", PLAN=ON_PAGE), Pages(called=[merged()])
    assert (await judge(GENERATION, "every_part_made", "PRODUCE", MADE_PAGE, works=works, look=look)).met
    found = await judge(GENERATION, "every_part_made", "PRODUCE", work, works=works, look=look)
    assert not found.met
    assert any(told in text for text in found.missing), found.missing


async def test_another_page_that_was_written_is_not_the_artefact() -> None:
    works, look = before("PRODUCE", PLAN=ON_PAGE), Pages(called=[merged(path="notes/bees.md")])
    found = await judge(GENERATION, "every_part_made", "PRODUCE", MADE_PAGE, works=works, look=look)
    assert [text.partition(" with")[0] for text in found.missing] == ["write each page"]


def test_each_condition_has_near_misses() -> None:
    assert {condition for condition, *_ in MISSES} == set(GENERATION.conditions)


async def test_no_steps_input_exceeds_its_budget() -> None:
    """For any input: the table, 4,000 tokens."""
    given = ["".join(f"{n}.{m}: not longer than a page. " for m in range(9)) for n in range(4)]
    much = "A calendar of the whole year. " * 300
    most = await dearest("generation", mended, constraints=given, specification=much, findings=much)
    assert 3_400 < most <= 4_000


def mended(phase: str, scene: Scene) -> list[Act]:
    """Return the script's last work."""
    return [Act("submit", MADE)] if phase == "PRODUCE" else acts(phase, scene)


OTHER: Mapping[str, Sequence[Mapping[str, Any]]] = {
    "SPECIFY": [{"items": [{"id": "s9", "text": "Is short.", "check": "count", "evidence": [WINTER]}]}],
    "PLAN": [UNCLEAR, {"drop": ["m2"]}],
    "PRODUCE": [UNPLANNED, {"made": [VAGUE]}],
    "REVIEW": [{"reviews": FAILED}, {}],
    "DELIVER": [DEFECT, {"drop": ["n1"]}],
}


def good(state: JourneyState) -> Sequence[tuple[Mapping[str, Any], tuple[str, ...]]]:
    """Return work that leads on from any state of a walk: new specifications are planned and reviewed, too."""
    work = dict(WORKS[state.phase])
    recorded = state.work.get("SPECIFY")
    ids = [item["id"] for item in recorded.content["items"]] if recorded else []
    if state.phase == "PLAN":
        work["parts"] = [PLAN[0], {**PLAN[1], "items": ids}]
    if state.phase == "REVIEW":
        whole = {part["text"] for part in state.work["PRODUCE"].content["made"]} == {TREATMENT["text"], STORES["text"]}
        work["reviews"] = [{**MET[1], "id": id_} for id_ in ids] if whole else FAILED
    if state.phase == "PRODUCE" and {part["id"] for part in state.work["PLAN"].content["parts"]} != {"m1", "m2"}:
        # A person sent it here before the plan was whole: it goes back and comes again.
        work = dict(UNPLANNED)
    if state.phase == "DELIVER":
        parts = [part["id"] for part in state.work["PLAN"].content["parts"]]
        work["notes"], work["drop"] = [note for note in NOTES if note["part"] in parts], ["n1", "n2"]
    if state.phase == "SPECIFY":
        work["drop"] = ["s9"]
    return [(work, ())]


def any_work(state: JourneyState) -> Sequence[tuple[Mapping[str, Any], tuple[str, ...]]]:
    return [*good(state), *((work, ()) for work in OTHER[state.phase])]


@given(choices=st.lists(st.integers(0, 1_000), max_size=25))
@settings(max_examples=12)
def test_no_walk_leaves_the_table_or_is_stuck(choices: list[int]) -> None:
    assert "delivered" in asyncio.run(walk(GENERATION, choices, any_work, good))
