"""Several agents as one: each works as if it were alone, and the composed one is an agent like any other."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agents.engine.agent import Agent, ConditionFinding, Look, ModelAdvice, QuotedStatement, SubmitFacts
from agents.engine.decide import REJECTED
from agents.engine.events import Json, PhaseChanged, StepUsage, WorkRecorded
from agents.engine.fold import fold
from agents.engine.graph import Phase, Transition, checked
from agents.engine.progress.composition import AgentPart, PartLink, composed, state_for
from agents.engine.runner import Submission
from agents.engine.state import JourneyState, get_state, restore_state
from agents.errors import BadStart, BadWork, NotToDecide
from agents.prompts.context import PromptSection
from agents.prompts.prompt import questions_asked
from tests.support.agents.agent_harness import TOOLS, Led, judged, walk
from tests.support.agents.engine_agents import ASK, PLAN, begun, making, with_phase, with_ways
from tests.support.agents.small_agents import noting
from tests.support.journeys.graphs import ADA

END = Phase("COMPLETE", prompt="complete")
TWO = [{"id": "1", "text": "first"}, {"id": "2", "text": "second"}]
Works = Sequence[tuple[Mapping[str, Json], tuple[str, ...]]]


def chain(*parts: AgentPart, links: Sequence[PartLink] = ()) -> Agent:
    """Return the parts as one agent, which is valid."""
    agent = composed("chain", "Chain", "End to end.", parts, END, links=links, texts={"complete": "All is done."})
    checked(agent.graph, agent.known_conditions, TOOLS)
    return agent


def twice(agent: Agent | None = None, links: Sequence[PartLink] = ()) -> Agent:
    one = agent or noting("none")
    return chain(AgentPart("first.", one), AgentPart("second.", one), links=links)


def moves(events: Sequence[Any]) -> list[tuple[str, str]]:
    return [(one.source, one.target) for one in events if isinstance(one, PhaseChanged)]


async def through(led: Led) -> JourneyState:
    """Lead one `noting` to its end."""
    await led.submit(notes=TWO)
    return await led.submit(text="a report")


# --- one after the other ----------------------------------------------------------------------------------------------


async def test_agents_end_to_end_are_led_by_the_same_engine_in_one_journey() -> None:
    led = await begun(twice())
    state = await through(led)
    assert (state.phase, state.status) == ("second.COLLECT", "active")
    state = await through(led)
    assert (state.phase, state.status, state.version) == ("COMPLETE", "complete", 5)
    assert moves(await led.events()) == [
        ("first.COLLECT", "first.WRITE"),
        ("first.WRITE", "second.COLLECT"),
        ("second.COLLECT", "second.WRITE"),
        ("second.WRITE", "COMPLETE"),
    ]
    told = await led.told()
    assert "All is done." in told
    assert "first: note 1: first" in told
    assert "second: note 2: second" in told


async def test_an_automatic_next_part_begins_in_the_step_that_ends_the_previous_one() -> None:
    led = await begun(twice(making()))
    assert (await led.state()).phase == "first.PLAN"
    for work in (PLAN, {"text": "a hive"}):
        await led.submit(**work)
    state = await led.submit(score=90)
    assert (state.phase, state.version) == ("second.PLAN", 4)
    assert state.work["second.ROUTE"].content == {"mode": "discovery"}
    assert state.work["second.ROUTE"].version == 4
    for work in (PLAN, {"text": "a hive"}, {"score": 90}):
        state = await led.submit(**work)
    assert state.status == "complete"
    assert state.work["first.TALLY"].content == state.work["second.TALLY"].content == {"times": 1, "steps": 2}


async def test_ways_back_stay_within_their_part_and_mean_its_phases() -> None:
    led = await begun(twice())
    await through(led)
    await led.submit(notes=TWO)
    state = await led.submit(text="so", lacks="winter")
    assert (state.phase, state.visit, state.phase_visits["first.COLLECT"]) == ("second.COLLECT", 2, 1)
    assert (state.backward_trigger, state.backward_trigger_detail) == ("second.note_lacking", "winter")
    assert "Add the note that was lacking." in await led.told()


async def test_a_person_sends_the_whole_back_to_any_part_and_it_continues_from_there() -> None:
    led = await begun(twice())
    await through(led)
    await through(led)
    state = await led.decide("revisit", "again", changes={"phase": "first.WRITE"})
    assert state.phase == "first.WRITE"
    assert (await led.submit(text="a better report")).phase == "second.COLLECT"


async def test_a_rejection_goes_the_way_that_the_part_has_for_it() -> None:
    part = with_phase(noting("none"), "WRITE", checkpoint="blocking")
    part = with_ways(part, Transition("WRITE", "COLLECT", REJECTED, is_backward=True))
    led = await begun(twice(part))
    await led.submit(notes=TWO)
    assert (await led.submit(text="a report")).status == "waiting"
    assert (await led.decide("reject", "no")).phase == "first.COLLECT"


async def test_work_for_another_part_is_refused_with_the_name_of_its_phase() -> None:
    led = await begun(chain(AgentPart("first.", noting("none")), AgentPart("second.", making())))
    with pytest.raises(BadWork, match=r"it looks like work for second\.JUDGE, but the journey is in first\.COLLECT"):
        await led.submit(score=90)


# --- its own names ----------------------------------------------------------------------------------------------------


def watching(seen: list[SubmitFacts], condition: str, agent: Agent) -> Agent:
    """Return the agent with a condition that names what it was judged by."""

    async def watch(facts: SubmitFacts, look: Look) -> ConditionFinding:
        seen.append(facts)
        return await agent.conditions[condition](facts, look)

    return replace(agent, conditions={**agent.conditions, condition: watch})


async def test_a_part_is_judged_by_its_own_names_and_sees_others_by_theirs() -> None:
    seen: list[SubmitFacts] = []
    part = noting("none")
    led = await begun(chain(AgentPart("first.", part), AgentPart("second.", watching(seen, "report_written", part))))
    await through(led)
    await led.submit(notes=[{"id": "a", "text": "mine"}, {"id": "b", "text": "too"}])
    await led.submit(text="of the second")
    facts = seen[-1]
    assert facts.phase == "WRITE"
    assert facts.works["WRITE"] == facts.work == {"text": "of the second"}
    assert [note["id"] for note in facts.works["COLLECT"]["notes"]] == ["a", "b"]
    assert facts.works["first.WRITE"] == {"text": "a report"}
    assert set(facts.works) == {"WRITE", "COLLECT", "first.WRITE", "first.COLLECT"}, "its own by no other name"


async def test_another_parts_thing_of_the_same_name_is_shown_as_that_parts() -> None:
    seen: list[SubmitFacts] = []
    part = noting("none")
    led = await begun(chain(AgentPart("", part), AgentPart("memory.", watching(seen, "two_notes", part))))
    await through(led)
    await led.submit(notes=[{"id": "m", "text": "mine alone"}])
    facts = seen[-1]
    assert (facts.phase, facts.works["COLLECT"]["notes"][0]["id"]) == ("COLLECT", "m")
    assert facts.works[".COLLECT"]["notes"] == TWO
    assert facts.works[".WRITE"] == {"text": "a report"}
    assert "WRITE" not in facts.works, "it wrote nothing yet"


async def test_an_automatic_phase_of_a_part_works_on_the_part_s_own_plan() -> None:
    led = await begun(chain(AgentPart("", making()), AgentPart("again.", making())))
    for work in ({"steps": ["one", "two", "three"]}, {"text": "a hive"}, {"score": 90}):
        await led.submit(**work)
    state = await led.submit(steps=["only one"])
    assert (state.phase, state.work["again.TALLY"].content) == ("again.MAKE", {"times": 1, "steps": 1})
    assert state.work["TALLY"].content == {"times": 1, "steps": 3}


async def test_each_part_asks_and_is_answered_for_itself_though_ids_and_words_are_the_same() -> None:
    led = await begun(twice(making()))
    await led.submit(**ASK)
    await led.decide("answer", changes={"q1": "two", "q2": "Ada"})
    await led.submit(text="a hive")
    await led.submit(score=90)
    state = await led.submit(**ASK)
    assert (state.phase, state.status) == ("second.PLAN", "waiting")
    assert questions_asked(state) == {"q1": "How many hives?", "q2": "Who enters?"}
    with pytest.raises(NotToDecide, match="not answered yet: q2"):
        await led.decide("answer", changes={"q1": "five"})
    state = await led.decide("answer", changes={"q1": "five", "q2": "Ben"})
    assert state.phase == "second.MAKE"
    assert [state.answers[f"{part}.PLAN"]["q1"]["answer"] for part in ("first", "second")] == ["two", "five"]


async def test_a_parts_judge_sees_the_parts_own_answers() -> None:
    seen: list[SubmitFacts] = []
    agent = making()
    led = await begun(chain(AgentPart("", agent), AgentPart("again.", watching(seen, "made", agent))))
    for answer in ("two", "five"):
        await led.submit(**ASK)
        await led.decide("answer", answer)
        await led.submit(text="a hive")
        await led.submit(score=90)
    (facts,) = seen
    assert facts.answers["PLAN"]["q1"]["answer"] == "five"
    assert facts.answers[".PLAN"]["q1"]["answer"] == "two"


async def _visited_second() -> JourneyState:
    """Return the state of a journey of two `making` whose second was judged once."""
    led = await begun(chain(AgentPart("", making()), AgentPart("again.", making())))
    for work in (PLAN, {"text": "a hive"}, {"score": 70, "why": "first thin"}, {"text": "a hive"}, {"score": 90}):
        await led.submit(**work)
    await led.runner.submit(led.journey, 6, Submission(ASK, usage=StepUsage(70, 7)), by=ADA)
    await led.decide("answer", "two, and Ada")
    await led.submit(text="two hives")
    return await led.submit(score=75, why="second thin")


async def test_a_part_sees_all_of_a_state_in_its_own_names() -> None:
    state = await _visited_second()
    mine = state_for(AgentPart("again.", making()), state)
    assert (mine.phase, mine.visit) == ("MAKE", 2)
    assert mine.work["PLAN"].content["ask"][0]["id"] == "q1"
    assert "ask" not in mine.work[".PLAN"].content
    assert mine.answers["PLAN"]["q1"]["answer"] == "two, and Ada"
    assert (mine.metrics["PLAN"].tokens_in, mine.metrics[".PLAN"].visits) == (70, 1)
    assert [(one.phase, one.text) for one in mine.feedback] == [(".JUDGE", "first thin"), ("JUDGE", "second thin")]
    last = mine.transition_history[-1]
    assert (last.source, last.target) == ("JUDGE", "MAKE")
    assert mine.word is not None
    assert mine.word.phase == "PLAN"
    assert not [name for name in mine.phase_visits if name.startswith("again.")]
    assert state_for(AgentPart("", making()), state) is state


async def test_a_waiting_parts_question_has_its_own_name() -> None:
    led = await begun(twice(making()))
    state = await led.submit(**ASK)
    mine = state_for(AgentPart("first.", making()), state)
    assert mine.checkpoint is not None
    assert (mine.checkpoint.phase, mine.phase) == ("PLAN", "PLAN")


async def test_inputs_that_any_part_would_refuse_begin_nothing() -> None:
    """The error comes at the start, not when the work reaches that part."""
    picky = replace(noting("none"), refuses=lambda inputs: [f"topic: {inputs['topic']} is none"] if inputs else [])
    topic = {"type": "object", "properties": {"topic": {"type": "string"}}}
    whole = chain(
        AgentPart("first.", noting("none")),
        AgentPart("second.", replace(picky, inputs=topic)),
        AgentPart("third.", picky),
    )
    led = await begun(whole)
    assert (await led.state()).phase == "first.COLLECT"
    with pytest.raises(BadStart, match=r"no chain journey was started: input topic: rubbish is none$"):
        await led.runner.start("chain", "bees", {"topic": "rubbish"}, by=ADA)


async def test_values_sections_documents_and_notes_of_a_part_are_made_in_its_own_names() -> None:
    seen: list[tuple[str, set[str]]] = []

    def values(state: JourneyState) -> Mapping[str, str]:
        seen.append((state.phase, set(state.work)))
        return {"mine": state.phase}

    def sections(state: JourneyState, body: str) -> Sequence[PromptSection]:
        return [PromptSection("Task", f"{body} in {state.phase}")]

    def documents(state: JourneyState) -> Mapping[str, str]:
        return {"noting": str(state.work["WRITE"].content["text"])} if "WRITE" in state.work else {}

    base = noting("none")
    part = replace(
        base, values=values, sections=sections, documents=documents, texts={**base.texts, "write": "At {{ mine }}."}
    )
    agent = twice(part)
    led = await begun(agent)
    await led.submit(notes=TWO)
    assert "At WRITE. in WRITE" in await led.told()
    assert seen[-1] == ("WRITE", {"COLLECT"})
    assert agent.documents(await led.state()) == {}
    await led.submit(text="of the first")
    assert agent.documents(await led.state()) == {"noting": "of the first", "first": "of the first"}
    await led.submit(notes=TWO)
    await led.submit(text="of the second")
    assert agent.documents(await led.state()) == {
        "noting": "of the second",
        "first": "of the first",
        "second": "of the second",
    }


# --- links ------------------------------------------------------------------------------------------------------------


async def _thin(facts: SubmitFacts, _look: Look) -> ConditionFinding:
    return ConditionFinding("thin" in str(facts.works["WRITE"]["text"]), detail="the report is thin")


async def _enough(facts: SubmitFacts, _look: Look) -> ConditionFinding:
    return ConditionFinding("enough" in str(facts.works["WRITE"]["text"]))


BACK = PartLink("second.", "first.", "thin", _thin, is_backward=True)
SKIP = PartLink("first.", "COMPLETE", "enough", _enough)


async def test_a_link_leads_elsewhere_from_a_parts_end_if_its_record_says_so() -> None:
    led = await begun(twice(links=[BACK, SKIP]))
    await through(led)
    await led.submit(notes=TWO)
    state = await led.submit(text="a thin one")
    assert (state.phase, state.visit, state.backward_trigger) == ("first.COLLECT", 2, "second.thin")
    assert state.backward_trigger_detail == "the report is thin"
    await led.submit(notes=TWO)
    assert (await led.submit(text="this is enough")).status == "complete"


async def test_a_link_passes_on_the_texts_that_the_end_of_its_part_compared() -> None:
    said, more = QuotedStatement("e1", "A text.", ("A quote.",)), QuotedStatement("e2", "Another.", ("Another quote.",))

    async def written(_facts: SubmitFacts, _look: Look) -> ConditionFinding:
        return ConditionFinding(met=True, statements=(said,))

    async def linked(_facts: SubmitFacts, _look: Look) -> ConditionFinding:
        return ConditionFinding(met=True, detail="enough", statements=(more,))

    one = noting("none")
    (end,) = (way for way in one.graph.transitions if way.target in one.graph.complete)
    judging = replace(one, conditions={**one.conditions, end.condition: written})
    agent = twice(judging, [replace(SKIP, condition=linked)])
    found = await judged(agent, "first.enough", "first.WRITE", {"text": "any"})
    assert (found.detail, found.statements) == ("enough", (said, more))


async def test_a_link_to_a_single_phase_of_a_part_leads_there() -> None:
    led = await begun(twice(links=[replace(BACK, target="first.WRITE")]))
    await through(led)
    await led.submit(notes=TWO)
    assert (await led.submit(text="a thin one")).phase == "first.WRITE"


async def test_a_link_does_not_bypass_the_parts_own_conditions() -> None:
    led = await begun(twice(links=[SKIP]))
    await led.submit(notes=TWO)
    state = await led.submit(text="enough", lacks="winter")
    assert (state.phase, state.backward_trigger) == ("first.COLLECT", "first.note_lacking")


async def test_a_link_waits_for_the_person_asked_before_the_parts_end() -> None:
    led = await begun(twice(with_phase(noting("none"), "WRITE", checkpoint="blocking"), links=[SKIP]))
    await led.submit(notes=TWO)
    state = await led.submit(text="this is enough")
    assert state.status == "waiting"
    assert state.checkpoint is not None
    assert state.checkpoint.target == "COMPLETE"
    assert (await led.decide("approve")).status == "complete"


async def test_a_parts_earlier_forward_transition_precedes_a_link() -> None:
    """Otherwise the part would end in a chain where it continues alone."""

    async def more(facts: SubmitFacts, _look: Look) -> ConditionFinding:
        return ConditionFinding("more" in str(facts.work.get("text", "")))

    base = noting("none")
    part = with_phase(base, "COLLECT")
    part = replace(
        base,
        conditions={**base.conditions, "more": more},
        forms={**base.forms, "MORE": base.forms["WRITE"]},
        graph=replace(
            base.graph,
            phases=(*base.graph.phases[:-1], Phase("MORE"), base.graph.phases[-1]),
            transitions=(
                *base.graph.transitions,
                Transition("WRITE", "MORE", "more", priority=1),
                Transition("MORE", "DONE"),
            ),
        ),
    )
    led = await begun(twice(part, links=[SKIP]))
    await led.submit(notes=TWO)
    assert (await led.submit(text="enough, and more")).phase == "first.MORE"
    assert (await led.submit(text="so")).status == "complete", "the link looks at what WRITE recorded"


async def test_a_link_may_look_at_another_part_than_the_one_it_leaves() -> None:
    skip = PartLink("memory.", "COMPLETE", "enough", _enough, looks="")
    part = noting("none")
    led = await begun(chain(AgentPart("", part), AgentPart("memory.", part), AgentPart("last.", part), links=[skip]))
    await led.submit(notes=TWO)
    await led.submit(text="this is enough")
    await led.submit(notes=TWO)
    assert (await led.submit(text="nothing to add")).status == "complete"


async def test_links_of_one_name_that_leave_different_parts_are_judged_each_by_its_own_condition() -> None:
    """Both refer to the first part: one condition for both would send the work to the wrong place."""

    async def never(_facts: SubmitFacts, _look: Look) -> ConditionFinding:
        return ConditionFinding(met=False)

    part = noting("none")
    links = [
        PartLink("memory.", "COMPLETE", "enough", _enough, looks=""),
        PartLink("last.", "", "enough", never, is_backward=True, looks=""),
    ]
    agent = chain(AgentPart("", part), AgentPart("memory.", part), AgentPart("last.", part), links=links)
    names = [way.condition for way in agent.graph.transitions if way.condition.endswith("enough")]
    assert names == ["enough", "last.enough"]
    led = await begun(agent)
    await led.submit(notes=TWO)
    await led.submit(text="this is enough")
    assert (await through(led)).status == "complete"


async def test_a_link_with_the_name_of_a_part_s_own_condition_does_not_take_its_place() -> None:
    name = next(way.condition for way in noting("none").graph.transitions if way.source == "COLLECT")
    led = await begun(twice(links=[replace(BACK, name=name)]))
    await through(led)
    assert (await led.submit(notes=TWO)).phase == "second.WRITE", "the part's own condition is judged"
    state = await led.submit(text="a thin one")
    assert (state.phase, state.backward_trigger) == ("first.COLLECT", f"second.second.{name}")


async def test_a_link_is_gone_from_each_of_two_phases_that_end_a_part_on_one_condition() -> None:
    base = noting("none")
    short = Transition("COLLECT", "DONE", "over", priority=5)

    async def over(facts: SubmitFacts, _look: Look) -> ConditionFinding:
        return ConditionFinding("over" in facts.signals)

    ways = tuple(way for way in base.graph.transitions if way.source != "WRITE" or way.is_backward)
    part = replace(
        base,
        conditions={**base.conditions, "over": over},
        graph=replace(base.graph, transitions=(*ways, short, Transition("WRITE", "DONE", "over"))),
    )

    async def always(_facts: SubmitFacts, _look: Look) -> ConditionFinding:
        return ConditionFinding(met=True)

    agent = twice(part, links=[PartLink("first.", "COMPLETE", "out", always)])
    led = await begun(agent)
    assert (await led.submit("over", notes=TWO)).status == "complete"
    led = await begun(agent)
    await led.submit(notes=TWO)
    assert (await led.submit("over", text="a report")).status == "complete"


async def test_a_part_may_be_followed_by_another_than_the_next() -> None:
    part = noting("none")
    led = await begun(
        chain(AgentPart("a.", part, "c."), AgentPart("b.", part, "COMPLETE"), AgentPart("c.", part, "b."))
    )
    order = [(await through(led)).phase for _ in range(3)]
    assert order == ["c.COLLECT", "b.COLLECT", "COMPLETE"]


# --- the whole --------------------------------------------------------------------------------------------------------


def test_the_whole_has_the_parts_features_under_their_names() -> None:
    inner = replace(
        making(),
        inputs={"properties": {"domain": {"type": "string"}, "depth": {"type": "integer"}}, "required": ["depth"]},
        models={"": ModelAdvice("balanced", "most is planning"), "judge": ModelAdvice("largest", "a verdict")},
    )
    other = replace(noting(), inputs={"properties": {"domain": {"type": "number"}, "tone": {}}, "required": ["tone"]})
    agent = chain(AgentPart("make.", inner), AgentPart("note.", other))
    assert agent.inputs["properties"] == {"domain": {"type": "string"}, "depth": {"type": "integer"}, "tone": {}}
    assert agent.inputs["required"] == ["depth", "tone"]
    assert set(agent.forms) == {"make.PLAN", "make.MAKE", "make.JUDGE", "note.COLLECT", "note.WRITE"}
    assert set(agent.budgets) == {"make.MAKE"}
    assert set(agent.provides) == {"make.ROUTE", "make.CHECK", "make.TALLY"}
    assert agent.questions == {"note.COLLECT": "Are these the notes that matter?"}
    assert agent.models["make"].model_class == "balanced"
    assert agent.models["make.judge"].model_class == "largest"
    assert [part["agent"] for part in agent.profile["parts"]] == ["making", "noting"]
    assert chain(AgentPart("", noting())).inputs == {}


async def test_an_agent_used_as_two_parts_has_separate_conversations_until_all_restart() -> None:
    """Each part has its own conversations: a planner doesn't work in the context of another part's plan."""
    led = await begun(twice(making()))
    first = (await led.state()).conversation
    assert re.fullmatch(r"first\.planner_iter1_\w+", first)
    for work in (PLAN, {"text": "a hive"}, {"score": 90}):
        await led.submit(**work)
    second = (await led.state()).conversation
    assert re.fullmatch(r"second\.planner_iter1_\w+", second)
    back = await led.decide("revisit", changes={"phase": "first.PLAN"})
    assert back.conversation == first, "whoever is sent back goes on where that part left off"
    for work in (PLAN, {"text": "a hive"}, {"score": 90}):
        await led.submit(**work)
    assert (await led.state()).conversation == second
    for work in (PLAN, {"text": "a hive"}, {"score": 10, "why": "wrong"}):
        await led.submit(**work)
    state = await led.state()
    assert (state.phase, state.visit) == ("second.PLAN", 3)
    assert state.conversation.startswith("second.planner_iter3_")


async def test_an_agent_that_speaks_as_itself_is_called_as_its_part_as_its_model_is() -> None:
    base = making()
    phases = tuple(
        replace(p, speaker=p.speaker and ("making" if p.speaker == "planner" else p.speaker)) for p in base.graph.phases
    )
    agent = chain(AgentPart("", base), AgentPart("again.", replace(base, graph=replace(base.graph, phases=phases))))
    speakers = {phase.name: phase.speaker for phase in agent.graph.phases}
    assert (speakers["PLAN"], speakers["again.PLAN"], speakers["again.JUDGE"]) == ("planner", "again", "again.judge")


async def test_a_composed_agent_is_a_part_like_any_other() -> None:
    inner = composed(
        "pair", "Pair", "", [AgentPart("", noting("none")), AgentPart("memory.", noting("none"))], END, texts={}
    )
    seen: list[SubmitFacts] = []
    watched = watching(seen, "memory.two_notes", inner)
    led = await begun(chain(AgentPart("x.", watched), AgentPart("y.", watched)))
    for _ in range(4):
        await through(led)
    assert (await led.state()).status == "complete"
    assert moves(await led.events())[1::2] == [
        ("x.WRITE", "x.memory.COLLECT"),
        ("x.memory.WRITE", "y.COLLECT"),
        ("y.WRITE", "y.memory.COLLECT"),
        ("y.memory.WRITE", "COMPLETE"),
    ]
    assert {"memory.COLLECT", "COLLECT", "WRITE", "x.COLLECT", "x.memory.WRITE"} <= set(seen[-1].works)


def works(state: JourneyState) -> Works:
    """Return what may be submitted in the journey's present state, good and bad."""
    phase = state.phase.rpartition(".")[2]
    if phase == "COLLECT":
        return [({"notes": TWO}, ()), ({"notes": []}, ()), ({"drop": ["1"]}, ("two_notes",))]
    if phase == "WRITE":
        return [({"text": "a report"}, ()), ({"text": "a thin one"}, ()), ({"text": "so", "lacks": "winter"}, ())]
    return [({"text": "enough"}, ()), ({"steps": ["one"]}, ())]


def good(state: JourneyState) -> Works:
    return [({"notes": TWO}, ()) if state.phase.endswith("COLLECT") else ({"text": "a report"}, ())]


@given(st.lists(st.integers(0, 30), max_size=18), st.sampled_from(["none", "blocking", "optional"]))
@settings(max_examples=30)
async def test_no_walk_through_a_chain_leaves_its_table_or_is_stuck(choices: list[int], kind: Any) -> None:
    part = noting(kind)
    agent = chain(
        AgentPart("a.", part),
        AgentPart("a.memory.", part),
        AgentPart("b.", part),
        links=[replace(BACK, source="b.", target="a.")],
    )
    await walk(agent, choices, works, good)


MAKING: Mapping[str, Sequence[Mapping[str, Json]]] = {
    "PLAN": (PLAN, {"steps": [" "]}, ASK),
    "MAKE": ({"text": "a hive"}, {"text": "a"}),
    "JUDGE": ({"score": 90}, {"score": 70, "why": "thin"}, {"score": 10, "why": "wrong"}),
}


@given(st.lists(st.integers(0, 2), max_size=16))
@settings(max_examples=40)
async def test_a_part_of_a_chain_records_what_it_records_alone(choices: list[int]) -> None:
    """No part knows whether it belongs to a chain."""
    alone, chained = await begun(making()), await begun(chain(AgentPart("only.", making())))
    for choice in choices:
        state = await alone.state()
        if state.status == "complete":
            break
        for led in (alone, chained):
            if state.status == "waiting":
                await led.decide("answer", "two")
            else:
                possible = MAKING[state.phase]
                await led.submit(**possible[choice % len(possible)])
    one, other = await alone.state(), await chained.state()
    mine = state_for(AgentPart("only.", making()), other)
    assert {name: kept.content for name, kept in mine.work.items()} == {n: kept.content for n, kept in one.work.items()}
    assert (mine.answers, mine.returns, mine.status) == (one.answers, one.returns, one.status)
    assert [(f.kind, f.phase, f.text, f.version) for f in mine.feedback] == [
        (f.kind, f.phase, f.text, f.version) for f in one.feedback
    ]
    if one.status != "complete":
        assert (mine.phase, mine.phase_visits) == (one.phase, one.phase_visits)
    log = await chained.runner.store.events(chained.journey)
    assert fold(log) == other == restore_state(get_state(other))
    recorded = [e.event.phase for e in log if isinstance(e.event, WorkRecorded)]
    assert all(phase.startswith("only.") for phase in recorded)
