"""Orchestrate: its graph, and each path through it."""

from __future__ import annotations

import re
from collections.abc import Sequence

import pytest

from agents.catalogue import main_entries
from agents.engine.events import CheckpointReached, PhaseChanged, SourceFound, Thinking, WorkRecorded
from agents.engine.graph import checked
from agents.errors import BadStart, BadWork, NotToDecide
from agents.library.folder import agent
from agents.library.orchestrate.plan_rules.rules import TEAM_FILE
from agents.library.orchestrate.record import (
    BUDGET_EXHAUSTED,
    FAILED,
    IMPLEMENTING,
    JUDGING,
    PLANNING,
    SUCCEEDED,
    VALIDATING,
    of_state,
)
from agents.prompts.prompt import COMMON, placeholders
from tests.support.agents.agent_harness import PAGES, TOOLS, WINTER, Pages, leading, words_in
from tests.support.agents.orchestrate_works import (
    BRIEF,
    BROKEN,
    CANNOT,
    DONE,
    GOOD,
    HARD,
    PLAN,
    REASONS,
    REQUIREMENTS,
    SEEN,
    SOFT,
    VALID,
    Work,
    issue,
    judgement,
    read_by_judge,
    step,
)
from tests.support.journeys.graphs import Walk

AGENT = agent("orchestrate")

# --- the graph --------------------------------------------------------------------------------------------------------


def test_the_graph_can_be_used_and_is_the_one_that_the_catalogue_shows() -> None:
    assert checked(AGENT.graph, AGENT.known_conditions, TOOLS) is AGENT.graph
    entry = next(entry for entry in main_entries() if entry.name == "orchestrate")
    assert (AGENT.name, AGENT.title, AGENT.summary) == (entry.name, entry.title, entry.summary)
    properties = AGENT.inputs["properties"]
    assert {name: form["description"] for name, form in properties.items()} == entry.inputs
    automatic = {phase.name for phase in AGENT.graph.phases if phase.automatic}
    assert automatic == set(AGENT.provides) == {VALIDATING}
    assert set(AGENT.forms) == {phase.name for phase in AGENT.graph.phases} - set(AGENT.graph.complete) - automatic
    assert {t.condition for t in AGENT.graph.transitions} - {"always"} == set(AGENT.conditions)
    assert {phase.speaker for phase in AGENT.graph.phases} - {""} == set(AGENT.models)


def test_first_and_later_visits_have_their_own_text_with_the_phases_tools() -> None:
    known = COMMON | set(AGENT.values(Walk(AGENT.graph).state))
    for phase in AGENT.graph.phases:
        first, again = AGENT.texts.get(phase.prompt, ""), AGENT.texts.get(f"{phase.name}_again", "")
        assert bool(first) != phase.automatic
        assert words_in(first) <= 350
        assert words_in(again) <= 200
        assert bool(again) == (phase.name not in AGENT.graph.complete and not phase.automatic)
        assert placeholders(first + again) <= known
        assert set(re.findall(r"\b(?:kb|plane|zulip)_\w+", first + again)) <= set(phase.tools)
    named = {phase.prompt for phase in AGENT.graph.phases} | {phase.prompt_again for phase in AGENT.graph.phases}
    assert set(AGENT.texts) == named - {""}


# --- the way through --------------------------------------------------------------------------------------------------


def conversations(events: Sequence[object]) -> list[tuple[str, str]]:
    """Return the phases entered, each with its conversation."""
    return [(e.target, e.conversation) for e in events if isinstance(e, PhaseChanged)]


async def test_the_happy_path_has_one_visit_of_each_phase() -> None:
    async with leading(AGENT, look=read_by_judge(), brief=BRIEF) as led:
        begun = await led.state()
        assert re.fullmatch(r"planner_iter1_\w+", begun.conversation)
        assert (await led.submit(**PLAN)).phase == IMPLEMENTING
        assert (await led.submit(**DONE)).phase == JUDGING
        state = await led.submit(**GOOD)
        assert (state.phase, state.status, state.iteration) == (SUCCEEDED, "complete", 1)
        assert {phase: took.visits for phase, took in state.metrics.items()} == dict.fromkeys(
            (PLANNING, VALIDATING, IMPLEMENTING, JUDGING, SUCCEEDED), 1
        )
        assert state.work[VALIDATING].automatic
        assert state.metrics[VALIDATING].submits == 0
        told, events = await led.told(), await led.events()
    assert "The work has succeeded: 100 of 100." in told
    assert [phase for phase, _ in conversations(events)] == [VALIDATING, IMPLEMENTING, JUDGING, SUCCEEDED]
    assert [e.source for e in events if isinstance(e, SourceFound)] == ["kb:notes/bees.md"]
    assert state.feedback == ()


async def test_an_invalid_plan_returns_to_the_same_planner_with_the_broken_rules() -> None:
    async with leading(AGENT, look=read_by_judge(), brief=BRIEF) as led:
        first = (await led.state()).conversation
        state = await led.submit(**BROKEN)
        assert (state.phase, state.visit, state.iteration, state.conversation) == (PLANNING, 2, 2, first)
        assert [(f.kind, f.phase, f.text) for f in state.feedback] == [
            ("validation", VALIDATING, "the plan breaks 1 rule: requirement-covered:r2")
        ]
        told = await led.told()
        assert "Why: plan_invalid\nDetail: the plan breaks 1 rule\n" in told
        assert "- requirement r2 (No mites) is covered by no step" in told
        assert "- validation failure in VALIDATING: the plan breaks 1 rule: requirement-covered:r2" in told
        state = await led.submit(steps=PLAN["steps"][1:])
        assert state.phase == IMPLEMENTING
        assert re.fullmatch(r"implementer_iter2_\w+", state.conversation)
        assert "validation failure" not in await led.told()
        thoughts = [e.text for e in await led.events() if isinstance(e, Thinking)]
    assert thoughts == ["returning to PLANNING, plan_invalid: the plan breaks 1 rule"]


async def test_a_rule_broken_in_several_ways_is_counted_and_named_once() -> None:
    async with leading(AGENT, look=read_by_judge(), brief=BRIEF) as led:
        state = await led.submit(
            goal="A living hive", requirements=REQUIREMENTS, steps=[{"id": "s1", "covers": ["r1", "r2"]}]
        )
        assert [one.text for one in state.feedback] == ["the plan breaks 1 rule: step-fields:s1"]
        told = await led.told()
    assert all(f"step s1 lacks {name}" in told for name in ("step", "done_when", "duration"))


async def test_the_same_failures_three_times_in_a_row_are_the_end() -> None:
    async with leading(AGENT, look=read_by_judge(), brief=BRIEF) as led:
        await led.submit(**BROKEN)
        state = await led.submit(goal="The hive lives.")
        assert state.backward_trigger_detail == "the plan breaks 1 rule, the same as before: 2 times in a row"
        state = await led.submit()
        assert (state.phase, state.status) == (FAILED, "complete")
        assert "broke the same rules 3 times in a row: requirement-covered:r2" in await led.told()
        state = await led.decide("revisit", "it is enough to weigh it", changes={"phase": PLANNING})
        assert (await led.submit(**PLAN)).phase == IMPLEMENTING, "who mends it goes on"


async def test_other_failures_between_them_give_another_chance() -> None:
    async with leading(AGENT, look=read_by_judge(), brief=BRIEF) as led:
        for number in range(2):
            await led.submit(**BROKEN)
            await led.submit(steps=[step("s1", "Weigh the hive", covers=["r1"], duration="soon")])
            assert (await led.state()).iteration == 3 + 2 * number
        assert (await led.submit(**PLAN)).phase == IMPLEMENTING


async def test_a_soft_failure_continues_the_implementers_conversation_with_a_fresh_judge() -> None:
    async with leading(AGENT, look=read_by_judge(), brief=BRIEF) as led:
        implementer = (await led.submit(**PLAN)).conversation
        judge_ = (await led.submit(**DONE)).conversation
        state = await led.submit(**SOFT)
        assert (state.phase, state.visit, state.conversation) == (IMPLEMENTING, 2, implementer)
        told = await led.told()
        assert "- i1 (major, about r2): nobody knows when" in told
        assert "- soft failure in JUDGING: 68 of 100: i1 (major, r2) nobody knows when. " + REASONS in told
        state = await led.submit(answers=[{"id": "i1", "step": "s2", "how": "the date is there"}])
        assert state.phase == JUDGING
        assert re.fullmatch(r"judge_iter2_\w+", state.conversation)
        assert state.conversation != judge_
        told = await led.told()
        assert "It was judged before" in told
        assert "soft failure in JUDGING: 68 of 100" in told
        assert "You come back" not in told
        assert (await led.submit()).phase == JUDGING, "nothing of the verdict before counts"
        assert "not judged yet: r1, r2; send the complete verdict" in await led.missing()
        assert (await led.submit(**GOOD)).phase == SUCCEEDED


async def test_a_hard_failure_plans_again_in_new_conversations_that_get_the_feedback() -> None:
    async with leading(AGENT, look=read_by_judge(), brief=BRIEF) as led:
        planner = (await led.state()).conversation
        implementer = (await led.submit(**PLAN)).conversation
        await led.submit(**DONE)
        state = await led.submit(**HARD)
        assert (state.phase, state.iteration) == (PLANNING, 2)
        assert re.fullmatch(r"planner_iter2_\w+", state.conversation)
        assert state.conversation != planner
        assert set(state.conversations) == {"planner"}
        told = await led.told()
        assert "Why: hard_failure\nDetail: 40 of 100: i2 (blocking, r2) too warm for acid" in told
        assert "- hard failure in JUDGING: 40 of 100" in told
        assert "- i2 (blocking, about r2): too warm for acid" in told
        await led.submit(drop=["s2"], answers=[{"id": "i2", "how": "in December"}])
        state = await led.submit(steps=[step("s3", "Treat it in December", covers=["r2"], depends_on=["s1"])])
        assert state.phase == IMPLEMENTING
        assert state.conversation not in (implementer, "")
        assert "s1 (for r1): 35 kilograms" in await led.told(), "what was done for a step that stays counts"
        await led.submit(drop=["s2"], done=[{"id": "s3", "result": "treated", **SEEN}])
        assert "hard failure in JUDGING: 40 of 100" in await led.told()
        good = {**GOOD, "judged": [judgement("r1"), judgement("r2", steps=["s3"])]}
        assert (await led.submit(**good)).phase == SUCCEEDED
        judges = [name for phase, name in conversations(await led.events()) if phase == JUDGING]
    assert len(judges) == len(set(judges)) == 2


async def test_a_step_that_was_done_may_not_become_another_one_under_its_id() -> None:
    async with leading(AGENT, look=read_by_judge(), brief=BRIEF) as led:
        await led.submit(**PLAN)
        await led.submit(**DONE)
        await led.submit(**HARD)
        answers = [{"id": "i2", "how": "in December"}]
        steps = [step("s2", "Burn the hive", covers=["r2"], depends_on=["s1"])]
        state = await led.submit(answers=answers, steps=steps)
        assert state.phase == PLANNING
        assert "step s2 was done already and now means something else" in await led.told()
        steps = [step("s2", "treat it!", covers=["r2"], depends_on=["s1"], duration="9 h")]
        assert (await led.submit(steps=steps)).phase == IMPLEMENTING, "another length is no other step"


async def test_giving_up_waits_for_a_person_who_may_know_better() -> None:
    async with leading(AGENT, look=read_by_judge(), brief=BRIEF) as led:
        state = await led.submit(**PLAN, cannot=CANNOT)
        assert (state.phase, state.status) == (PLANNING, "waiting")
        told = await led.told()
        assert AGENT.questions[PLANNING] in told
        assert "cannot be met: r2, acid is forbidden here" in told
        assert "shown by: notes/bees.md > Bees > Varroa; tried: nothing" in told
        state = await led.decide("reject", "use thymol")
        assert (state.phase, state.status) == (PLANNING, "active")
        assert "use thymol" in await led.told()
        await led.submit(cannot=CANNOT)
        state = await led.decide("modify", changes={"cannot": None})
        assert state.phase == IMPLEMENTING, "the person struck it out, and the plan is good"
    async with leading(AGENT, look=read_by_judge(), brief=BRIEF) as led:
        await led.submit(**PLAN, cannot=CANNOT)
        with pytest.raises(NotToDecide):
            await led.decide("answer", changes={"r2": "yes"})
        state = await led.decide("approve")
        assert (state.phase, state.status) == (FAILED, "complete")
        assert "The work has failed: r2 cannot be met, and a person agreed: acid is forbidden here." in await led.told()
        assert [e.kind for e in await led.events() if isinstance(e, CheckpointReached)] == ["blocking"]


async def test_giving_up_after_unsuccessful_planning_shows_ones_own_reason() -> None:
    async with leading(AGENT, look=read_by_judge(), brief=BRIEF) as led:
        for _ in range(3):
            await led.submit(**BROKEN)
        assert "broke the same rules 3 times in a row" in await led.told()
        assert "the plan breaks requirement-covered:r2" in AGENT.done(await led.state())
        await led.decide("revisit", "try once more", changes={"phase": PLANNING})
        assert (
            await led.submit(cannot={"requirement": "r2", "why": "no acid", "tried": ["asked"]})
        ).status == "waiting"
        await led.decide("approve")
        assert "The work has failed: r2 cannot be met, and a person agreed: no acid." in await led.told()
        assert "cannot be met: r2, no acid" in AGENT.done(await led.state()), "a memory document has it, too"


@pytest.mark.parametrize(
    ("budget", "works", "visited", "gone"),
    [
        ({"tokens": 1}, [PLAN], [BUDGET_EXHAUSTED], " of 1 tokens"),
        ({"seconds": 1}, [PLAN], [BUDGET_EXHAUSTED], " of 1.00 seconds"),
        ({"iterations": 1}, [BROKEN], [VALIDATING, BUDGET_EXHAUSTED], "1 of 1 iterations"),
        ({"iterations": 2}, [BROKEN, {}], [VALIDATING, PLANNING, VALIDATING, BUDGET_EXHAUSTED], "2 of 2 iterations"),
        ({"iterations": 1}, [PLAN, DONE, SOFT], [VALIDATING, IMPLEMENTING, JUDGING, BUDGET_EXHAUSTED], "1 of 1 iter"),
        ({"iterations": 1}, [PLAN, DONE, HARD], [VALIDATING, IMPLEMENTING, JUDGING, BUDGET_EXHAUSTED], "1 of 1 iter"),
        ({"iterations": 1}, [PLAN, DONE, GOOD], [VALIDATING, IMPLEMENTING, JUDGING, SUCCEEDED], ""),
        (
            {"tokens": 900},
            [PLAN, {"done": DONE["done"][:1]}],
            [VALIDATING, IMPLEMENTING, BUDGET_EXHAUSTED],
            "900 tokens",
        ),
        ({"tokens": 900}, [PLAN, DONE, GOOD], [VALIDATING, IMPLEMENTING, JUDGING, SUCCEEDED], ""),
    ],
)
async def test_a_budget_that_is_used_up_ends_the_work_unless_it_passes(
    budget: Work, works: list[Work], visited: list[str], gone: str
) -> None:
    async with leading(AGENT, look=read_by_judge(), brief=BRIEF, budget=budget) as led:
        for work in works:
            state = await led.submit(**work)
        assert [e.target for e in await led.events() if isinstance(e, PhaseChanged)] == visited
        assert state.status == "complete"
        told = await led.told()
        if gone:
            assert f"{gone}" in told
            assert state.feedback[-1].text.startswith("the budget is used up")
            assert "The budget ended before the work was good enough" in told


async def test_work_ended_by_its_budget_may_be_sent_back_refined_and_judged_once_more() -> None:
    async with leading(AGENT, look=read_by_judge(), brief=BRIEF, budget={"tokens": 1_500}) as led:
        await led.submit(**PLAN)
        await led.submit(**DONE)
        assert (await led.submit(**SOFT)).phase == BUDGET_EXHAUSTED
        assert "issue i1 (major, about r2): nobody knows when" in await led.told()
        await led.decide("revisit", "it is worth it", channel="relayed", changes={"phase": IMPLEMENTING})
        assert (await led.submit()).phase == BUDGET_EXHAUSTED, "what is not whole ends again: the budget stays used up"
        await led.decide("revisit", "it is worth it", channel="relayed", changes={"phase": IMPLEMENTING})
        answer = {"id": "i1", "step": "s2", "how": "the date is there"}
        assert (await led.submit(answers=[answer])).phase == JUDGING
        state = await led.submit(**GOOD)
    assert (state.phase, state.status) == (SUCCEEDED, "complete")


async def test_a_teams_rules_apply_and_its_broken_file_is_reported() -> None:
    rule = "{id: owner, kind: required, of: steps, fields: [details.owner], message: 'who does {{ about }}?'}"
    texts = {**PAGES, TEAM_FILE: f"rules:\n  - {rule}\n  - {{id: x, kind: usefull, message: m}}\n"}
    async with leading(AGENT, look=Pages(texts=texts), brief=BRIEF) as led:
        state = await led.submit(**PLAN)
        assert state.phase == PLANNING
        told = await led.told()
        assert "- who does s1?" in told
        assert "- who does s2?" in told
        assert f"these rules could not be read, and do not apply until somebody fixes them: {TEAM_FILE}:3:" in told
        owned = [{**one, "details": {"owner": "ann"}} for one in PLAN["steps"]]
        state = await led.submit(steps=owned)
        assert state.phase == IMPLEMENTING
        assert f"- {TEAM_FILE}:3: there is no kind of rule 'usefull'" in await led.told()
        assert any("could not be read" in f.text for f in state.feedback if f.version == state.version)


async def test_a_team_that_does_without_requirements_has_its_work_judged_all_the_same() -> None:
    look = Pages()
    off = [f"  - {{id: {id_}, kind: useful, severity: 'off'}}\n" for id_ in ("some-requirement", "useful")]
    look.texts[TEAM_FILE] = "rules:\n" + "".join(off)
    async with leading(AGENT, look=look, brief="Weigh the hive.") as led:
        assert (await led.submit(goal="We know.", steps=[step("s1", "Weigh it")])).phase == IMPLEMENTING
        await led.submit(done=[{"id": "s1", "result": "35 kilograms", "shown_by": [WINTER]}])
        await led.submit(judged=[], issues=[issue("i1", "s1")], score=100, reasons=REASONS)
        assert "no requirements earn 100, issues take off" in (await led.missing())[0]
        assert (await led.submit(judged=[], issues=[], score=100, reasons=REASONS)).phase == SUCCEEDED


async def test_the_judge_sees_what_the_planner_left_out() -> None:
    async with leading(AGENT, look=read_by_judge(), brief=BRIEF) as led:
        out = [{"id": "l1", "words": "Mites have to be treated", "why": "nobody wants it"}]
        await led.submit(goal="A living hive", requirements=REQUIREMENTS[:1], left_out=out, steps=PLAN["steps"][:1])
        await led.submit(done=DONE["done"][:1])
        told = await led.told()
    assert (
        "- r1: Enough honey\nLeft out of the brief by the planner, and why:\n- 'Mites have to be treated': nobody"
        in told
    )


async def test_where_a_team_lets_a_step_be_called_as_its_requirement_the_work_can_still_be_judged() -> None:
    look = read_by_judge()
    look.texts[TEAM_FILE] = "rules:\n  - {id: distinct, kind: useful, severity: 'off'}\n"
    async with leading(AGENT, look=look, brief="Weigh the hive today.") as led:
        needed = [{"id": "r1", "text": "Weigh it", "words": "Weigh the hive today."}]
        await led.submit(goal="We know.", requirements=needed, steps=[step("r1", "Weigh it", covers=["r1"])])
        await led.submit(done=[{"id": "r1", "result": "35 kilograms", "shown_by": [WINTER]}])
        judged = [judgement("r1", steps=["r1"])]
        await led.submit(judged=judged, issues=[issue("r1", "r1", "minor")], score=97, reasons=REASONS)
        assert "these ids are already used for something else: r1" in (await led.missing())[0]
        state = await led.submit(judged=judged, issues=[issue("i1", "r1", "minor")], score=97, reasons=REASONS)
        assert state.phase == SUCCEEDED


async def test_a_journey_s_own_rules_and_scores_hold() -> None:
    rules = [{"id": "few", "kind": "count", "of": "steps", "most": 1, "message": "{{ count }} steps, {{ wanted }}"}]
    async with leading(AGENT, look=read_by_judge(), brief=BRIEF, rules=rules, pass_score=60, soft_score=30) as led:
        assert (await led.submit(**PLAN)).phase == PLANNING
        assert "- 2 steps, at most 1" in await led.told()
        await led.submit(drop=["s2"], steps=[step("s1", "Weigh and treat it", covers=["r1", "r2"])])
        await led.submit(done=DONE["done"][:1])
        one = {**SOFT, "judged": [judgement("r1"), judgement("r2", "partly")]}
        assert (await led.submit(**one)).phase == SUCCEEDED


@pytest.mark.parametrize(
    ("inputs", "said"),
    [
        ({"budget": {"tokens": 0}}, "budget"),
        ({"budget": {"euros": 5}}, "euros"),
        ({"budget": 5}, "budget"),
        ({"pass_score": 101}, "pass_score"),
        ({"soft_score": "60"}, "soft_score"),
        ({"requirements": []}, "requirements"),
        ({"requirements": [{"id": "r1"}]}, "text"),
        ({"limit": 3}, "limit"),
        ({"rules": {}}, "rules"),
        ({"rules": [{"id": f"x{n}", "kind": "useful", "message": "m"} for n in range(21)]}, "at most 20"),
        ({"budget": {"seconds": 10**400}}, "budget.seconds"),
        ({"requirements": [{"id": "r1", "text": "a"}, {"id": "r1", "text": "b"}]}, "two have the id r1"),
        ({"requirements": [{"id": "r1", "text": " "}]}, r"requirements\[0\]: text must say something"),
        ({"limit": "soon"}, "limit: 'soon' is not a duration: write a number"),
        (
            {"rules": [{"id": "x", "kind": "usefull", "message": "m"}]},
            r"rules\[0\]: there is no kind of rule 'usefull'",
        ),
        ({"deadline": "soon"}, "deadline"),
    ],
)
async def test_inputs_of_another_form_begin_nothing(inputs: Work, said: str) -> None:
    with pytest.raises(BadStart, match=said):
        async with leading(AGENT, look=read_by_judge(), brief=BRIEF, **inputs):
            pass


async def test_work_of_another_form_is_refused_and_nothing_is_recorded() -> None:
    async with leading(AGENT, look=read_by_judge(), brief=BRIEF) as led:
        with pytest.raises(BadWork, match="two items have the id s1"):
            await led.submit(steps=[step("s1", "a"), step("s1", "b")])
        with pytest.raises(BadWork, match="no phase can be skipped"):
            await led.submit(**DONE)
        with pytest.raises(BadWork, match="details"):
            await led.submit(steps=[step("s1", "a", details={"x": "y" * 2_000})])
        assert (await led.state()).version == 1
        await led.submit(**PLAN)
        with pytest.raises(BadWork, match="errors"):
            await led.submit(**VALID)


async def test_a_version_has_every_work_in_full_with_its_feedback() -> None:
    """Complete responses, and the feedback, are part of every checkpoint."""
    async with leading(AGENT, look=read_by_judge(), brief=BRIEF) as led:
        await led.submit(**BROKEN)
        await led.submit(**PLAN)
        versions = [(await led.runner.position(led.journey, version=n)).state for n in (1, 2, 3)]
        recorded = [e for e in await led.events() if isinstance(e, WorkRecorded)]
    assert [sorted(state.work) for state in versions] == [[], [PLANNING, VALIDATING], [PLANNING, VALIDATING]]
    assert [len(of_state(state).errors) for state in versions] == [0, 1, 0]
    assert [len(state.feedback) for state in versions] == [0, 1, 1]
    assert [one.automatic for one in recorded] == [False, True, False, True]
    assert versions[1].work[PLANNING].content == BROKEN
