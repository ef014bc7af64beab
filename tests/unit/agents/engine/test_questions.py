"""Questions to a person: a journey waits until each is answered, and only a person can answer them."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import pytest

from agents.engine.agent import ConditionFinding, Look, SubmitFacts
from agents.engine.decide import REJECTED
from agents.engine.events import Channel, CheckpointReached, Decided, canonical, event_of, event_text
from agents.engine.fold import fold
from agents.engine.graph import Transition
from agents.engine.runner import JourneyDecision, Submission
from agents.engine.state import get_state, restore_state
from agents.engine.work.answers import unanswered, unanswered_in
from agents.errors import BadWork, NeedsOwnHand, NotToDecide, StaleJourney, UnknownEvent, WaitsForPerson
from agents.prompts.prompt import question, questions_asked
from agents.store.export_file import exported, imported
from tests.support.agents.agent_harness import Led, Pages, Remembering, cost, runner_of
from tests.support.agents.engine_agents import ASK, PLAN, begun, making, sent, with_phase, with_ways
from tests.support.journeys.graphs import ADA, ODD

ANSWERS = {"q1": "two", "q2": "only Ada"}
ASKS = Transition("PLAN", "CHECK", "asking", priority=1, asks="ask")


async def _nobody(_topic: str, _keys: object) -> None:
    """Notify nobody of changes."""


async def asked(**changes: Any) -> Led:
    """Return a journey that waits for answers to two questions."""
    led = await begun(with_phase(making(), "PLAN", **changes) if changes else making())
    await led.submit(**ASK)
    return led


# --- waiting ----------------------------------------------------------------------------------------------------------


async def test_with_open_questions_a_journey_accepts_neither_work_nor_approval() -> None:
    led = await asked()
    here = await led.position()
    state = here.state
    assert (state.phase, state.status) == ("PLAN", "waiting")
    assert state.checkpoint is not None
    assert (state.checkpoint.kind, state.checkpoint.asks, state.checkpoint.target) == ("blocking", "ask", "CHECK")
    assert questions_asked(state) == {"q1": "How many hives?", "q2": "Who enters?"}
    told = await led.told()
    assert all(text in told for text in ("- q1: How many hives?", "- q2: Who enters?", "decision `answer`"))
    assert question(here.agent, state).startswith("A person must answer these questions before the work continues:")
    with pytest.raises(WaitsForPerson):
        await led.submit(**PLAN)
    with pytest.raises(NotToDecide, match="PLAN asks questions: answer them with `answer`"):
        await led.decide("approve")


async def test_answers_by_id_are_stored_with_their_questions_and_the_work_continues() -> None:
    led = await asked()
    state = await led.decide("answer", changes=ANSWERS)
    assert (state.phase, state.status, state.checkpoint) == ("MAKE", "active", None)
    assert state.answers == {
        "PLAN": {
            "q1": {"question": "How many hives?", "answer": "two"},
            "q2": {"question": "Who enters?", "answer": "only Ada"},
        }
    }
    said = [event for event in await led.events() if isinstance(event, Decided)]
    assert [(one.answers, one.changes, one.note) for one in said] == [(state.answers["PLAN"], None, "")]
    assert questions_asked(state) == {}


async def test_one_note_answers_all_questions_and_those_that_no_answer_names() -> None:
    led = await asked()
    state = await led.decide("answer", "two, and only Ada enters")
    assert {id_: one["answer"] for id_, one in state.answers["PLAN"].items()} == {
        "q1": "two, and only Ada enters",
        "q2": "(see the answer to q1)",
    }
    assert state.word is not None
    assert state.word.note == "two, and only Ada enters"
    led = await asked()
    state = await led.decide("answer", "the keeper", changes={"q1": "two"})
    assert {id_: one["answer"] for id_, one in state.answers["PLAN"].items()} == {"q1": "two", "q2": "the keeper"}


@pytest.mark.parametrize(
    ("changes", "note", "why"),
    [
        ({}, "", r"not answered yet: q1: How many hives\?; q2: Who enters\?; ask the person"),
        ({"q1": "two"}, "", r"not answered yet: q2: Who enters\?"),
        ({"q1": "two"}, "   ", r"not answered yet: q2"),
        ({"q1": "two", "q2": "Ada", "q3": "x"}, "", r"there is no question 'q3'; the open ones are q1, q2"),
        ({"q1": 2, "q2": "Ada"}, "", r"the answer to q1 is not text"),
        ({"q1": " ", "q2": None}, "", r"the answer to q1, q2 is not text"),
        ({"q1": {"question": "How many hives?", "answer": "two"}, "q2": "a"}, "", r"the answer to q1 is not text"),
    ],
)
async def test_an_answer_to_no_question_or_an_incomplete_one_is_refused_with_what_to_ask(
    changes: dict[str, Any], note: str, why: str
) -> None:
    led = await asked()
    before = await led.state()
    with pytest.raises(NotToDecide, match=why):
        await led.decide("answer", note, changes=changes)
    assert await led.state() == before


async def test_ids_of_any_characters_name_questions_and_come_back_unchanged() -> None:
    ids = [ODD.replace("\ud800", ""), "note", "__proto__", "a.b[0]", "{{ brief }}", "-", "0"]
    led = await begun()
    await led.submit(**{**PLAN, "ask": [{"id": id_, "question": f"{id_}?"} for id_ in ids]})
    state = await led.decide("answer", changes={id_: f"answer to {id_}" for id_ in ids})
    assert {id_: one["answer"] for id_, one in state.answers["PLAN"].items()} == {
        id_: f"answer to {id_}" for id_ in ids
    }
    log = await led.runner.store.events(led.journey)
    assert fold(log) == state == restore_state(get_state(state))


class AnyWork:
    """A form that accepts everything, as a team may write one."""

    schema: Mapping[str, Any] = {"type": "object"}
    asks: frozenset[str] = frozenset()

    def problems(self, _work: Any) -> Sequence[str]:
        return ()


@pytest.mark.parametrize(
    ("ask", "why"),
    [
        ([{"question": "How many?"}], r"ask\[0\] has no `id`"),
        (
            [{"id": "q1", "question": "A?"}, {"question": "B?"}, {"question": "C?"}],
            r"ask\[1\] has no `id`.*ask\[2\] has no",
        ),
        ([{"id": " ", "question": "A?"}], r"ask\[0\] has no `id`"),
        ([{"id": 1, "question": "A?"}, {"id": "1", "question": "B?"}], r"ask\[0\] has no `id`"),
        ([{"id": "q1", "question": "A?"}, {"id": "q1", "question": "B?"}], "two .* id"),
        ([{"id": "q1", "question": "A?"}, {"id": "q2"}], r"ask\[q2\] has no `question`"),
        ([{"id": "q1", "question": "A?"}, {"id": "q2", "question": " "}], r"ask\[q2\] has no `question`"),
        ([{"id": "q1", "question": "A?"}, "How many?"], r"ask\[1\] has no `id`"),
    ],
)
async def test_an_unanswerable_question_is_not_asked(ask: list[Any], why: str) -> None:
    """If two questions had one id, or none, a person would see only one."""
    agent = making()
    led = await begun(replace(agent, forms={**agent.forms, "PLAN": AnyWork()}))
    with pytest.raises(BadWork, match=why):
        await led.submit(**{**PLAN, "ask": ask})


@pytest.mark.parametrize(
    ("ask", "why"),
    [({"id": " ", "question": "A?"}, r"ask\[2\] has no `id`"), ({"id": "q3"}, r"ask\[q3\] has no `question`")],
)
async def test_a_person_cannot_add_an_unanswerable_question(ask: Any, why: str) -> None:
    agent = making()
    led = await begun(replace(agent, forms={**agent.forms, "PLAN": AnyWork()}))
    await led.submit(**{**PLAN, **ASK})
    before = await led.state()
    with pytest.raises(BadWork, match=why):
        await led.decide("modify", changes={"ask": [ask]})
    assert await led.state() == before


async def test_a_question_is_no_template_and_its_answer_none_either() -> None:
    led = await begun()
    await led.submit(**{**PLAN, "ask": [{"id": "q1", "question": "Is {{ brief }} the brief?"}]})
    assert "- q1: Is {{ brief }} the brief?" in await led.told()
    state = await led.decide("answer", "{{ phase }}")
    assert "The person said: {{ phase }}" in await led.told()
    assert state.answers["PLAN"]["q1"]["answer"] == "{{ phase }}"


async def test_resuming_stays_within_its_tokens_however_many_questions_there_are() -> None:
    led = await begun()
    many = [{"id": f"q{n}", "question": f"{n}? " + "why " * 1_500} for n in range(60)]
    await led.submit(**{**PLAN, "ask": many})
    assert cost(await led.position()) <= 2_500
    with pytest.raises(NotToDecide) as refused:
        await led.decide("answer", changes={"q1": "so"})
    assert len(str(refused.value)) < 2_000


# --- who may answer ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("channel", ["relayed", "host", "page", "terminal"])
async def test_every_channel_can_answer_and_is_recorded(channel: Channel) -> None:
    led = await asked()
    state = await led.decide("answer", channel=channel, changes=ANSWERS)
    said = [event for event in await led.events() if isinstance(event, Decided)]
    assert (state.phase, said[-1].channel) == ("MAKE", channel)


async def test_a_relayed_answer_does_not_count_if_a_direct_one_is_required() -> None:
    led = await asked(own_hand=True)
    assert "The person must decide this personally" in await led.told()
    with pytest.raises(NeedsOwnHand):
        await led.decide("answer", channel="relayed", changes=ANSWERS)
    assert (await led.state()).status == "waiting"
    assert (await led.decide("answer", channel="host", changes=ANSWERS)).phase == "MAKE"


async def test_no_submit_answers_a_question() -> None:
    """Decision 35: answers are stored beside the works, out of reach of submits."""
    led = await begun()
    forged = {**ASK, "answers": ANSWERS}
    with pytest.raises(Exception, match="'answers'"):
        await led.submit(**forged)
    state = (
        await led.runner.submit(
            led.journey, 1, Submission(ASK, ("planned", "asking"), reasoning="they said two"), by=ADA
        )
    ).state
    assert (state.status, state.answers) == ("waiting", {})


async def test_an_answer_to_an_unasked_question_does_not_answer_a_later_one() -> None:
    led = await begun()
    with pytest.raises(NotToDecide, match="there is no question 'q1'; nothing is asked here"):
        await led.decide("answer", changes={"q1": "two"})
    state = await led.decide("answer", "two hives, only Ada")
    assert (state.phase, state.answers) == ("PLAN", {})
    assert (await led.submit(**ASK)).status == "waiting"
    assert questions_asked(await led.state()) == {"q1": "How many hives?", "q2": "Who enters?"}


async def test_of_two_concurrent_answers_one_counts_and_the_other_learns_of_it() -> None:
    led = await asked()
    version = (await led.state()).version
    said = [JourneyDecision("answer", "page", changes={"q1": n, "q2": n}) for n in ("one", "two", "three")]
    done = await asyncio.gather(
        *(led.runner.decide(led.journey, version, one, by=ADA) for one in said), return_exceptions=True
    )
    won = [one for one in done if not isinstance(one, BaseException)]
    assert (len(won), [type(one) for one in done if isinstance(one, BaseException)]) == (1, [StaleJourney] * 2)
    state = await led.state()
    assert state == won[0].state
    assert state.answers["PLAN"]["q1"]["answer"] == state.answers["PLAN"]["q2"]["answer"]
    assert len([event for event in await led.events() if isinstance(event, Decided)]) == 1


async def test_the_same_answer_again_is_answered_the_same() -> None:
    led = await asked()
    version = (await led.state()).version
    said = JourneyDecision("answer", "relayed", changes=ANSWERS)
    first = await led.runner.decide(led.journey, version, said, by=ADA)
    await led.submit(text="a hive")
    again = await led.runner.decide(led.journey, version, said, by=ADA)
    assert again.state == first.state
    with pytest.raises(StaleJourney):
        await led.runner.decide(led.journey, version, said, by="another")


# --- asking again -----------------------------------------------------------------------------------------------------


async def test_an_answered_question_is_not_asked_again_but_a_reworded_one_is() -> None:
    led = await asked()
    await led.decide("answer", changes=ANSWERS)
    await led.decide("revisit", "once more", changes={"phase": "PLAN"})
    state = await led.submit(ask=[{"id": "q2", "question": "Who enters in winter?"}])
    assert state.status == "waiting"
    assert questions_asked(state) == {"q2": "Who enters in winter?"}
    with pytest.raises(NotToDecide, match="there is no question 'q1'; the open ones are q2"):
        await led.decide("answer", changes=ANSWERS)
    state = await led.decide("answer", changes={"q2": "nobody"})
    assert state.phase == "MAKE"
    assert {id_: one["answer"] for id_, one in state.answers["PLAN"].items()} == {"q1": "two", "q2": "nobody"}
    await led.decide("revisit", "as it was", changes={"phase": "PLAN"})
    assert (await led.submit(steps=["one"])).phase == "MAKE", "nobody waits for what is answered"


async def test_a_transition_that_asks_waits_for_nobody_without_questions() -> None:
    agent = making()
    ways = tuple(way for way in agent.graph.transitions if way.source != "PLAN")
    always = Transition("PLAN", "CHECK", asks="ask")
    led = await begun(replace(agent, graph=replace(agent.graph, transitions=(*ways, always))))
    assert (await led.submit(**PLAN)).phase == "MAKE"
    await led.decide("revisit", "x", changes={"phase": "PLAN"})
    assert (await led.submit(**ASK)).status == "waiting"
    assert (await led.decide("answer", changes=ANSWERS)).phase == "MAKE"


async def test_a_person_may_remove_questions_and_the_rest_is_asked() -> None:
    led = await asked()
    state = await led.decide("modify", changes={"drop": ["q1"]})
    assert (state.status, questions_asked(state)) == ("waiting", {"q2": "Who enters?"})
    state = await led.decide("modify", changes={"ask": None})
    assert (state.phase, state.status, state.answers) == ("MAKE", "active", {})


async def test_a_person_may_put_a_question_in_other_words_and_answers_those() -> None:
    led = await asked()
    state = await led.decide("modify", changes={"ask": [{"id": "q1", "question": "How many hives in June?"}]})
    assert questions_asked(state) == {"q1": "How many hives in June?", "q2": "Who enters?"}
    state = await led.decide("answer", changes={"q1": "three", "q2": "Ada"})
    assert state.answers["PLAN"]["q1"] == {"question": "How many hives in June?", "answer": "three"}


async def test_words_of_a_change_without_changes_leave_the_questions_to_the_phase() -> None:
    led = await asked()
    state = await led.decide("modify", "ask for the season instead")
    assert (state.phase, state.status, state.backward_trigger) == ("PLAN", "active", "modify")
    assert "ask for the season instead" in await led.told()


async def test_questions_that_a_person_rejects_are_worked_on_again_and_asked_again_only_if_submitted_again() -> None:
    led = await asked()
    state = await led.decide("reject", "ask the keeper, not me")
    assert (state.phase, state.status, state.answers) == ("PLAN", "active", {})
    assert "ask the keeper, not me" in await led.told()
    assert (await led.submit(drop=["q1"])).status == "waiting"
    assert questions_asked(await led.state()) == {"q2": "Who enters?"}
    await led.decide("reject", "nor that")
    assert (await led.submit(drop=["q2"])).phase == "MAKE"


async def test_rejected_questions_are_not_asked_again_unchanged() -> None:
    led = await asked()
    await led.decide("reject", "ask the keeper, not me")
    before = await led.state()
    again = [{**one, "question": f" {one['question'].upper()}"} for one in ASK["ask"]]
    for same in (ASK, {"ask": again}, {"ask": [*ASK["ask"], {"id": "q3", "question": "When?"}]}):
        with pytest.raises(BadWork, match=r"rejected q1, q2 as worded \(ask the keeper, not me\): reword them"):
            await led.submit(**same)
    assert await led.state() == before, "nothing is recorded"
    state = await led.submit(ask=[ASK["ask"][0], {"id": "q2", "question": "Which of you may enter?"}])
    assert state.status == "waiting", "what the person did not want is for the model to find out: something changed"
    await led.decide("reject", "still not me")
    for gone in (ASK["ask"], [ASK["ask"][0], {"id": "q2", "question": "which of you  may enter?"}]):
        with pytest.raises(BadWork, match="reword them"):
            await led.submit(ask=gone)
    fork = await led.runner.start("", "", {"fork_of": led.journey}, by=ADA)
    with pytest.raises(BadWork, match="still not me"):
        await sent(led.runner, fork.journey, fork.state.version, ask=[])
    assert (await led.submit(drop=["q1", "q2"])).phase == "MAKE"


async def test_a_rejection_counts_after_work_that_was_not_enough_and_after_a_way_further_back() -> None:
    back = Transition("PLAN", "ROUTE", REJECTED, is_backward=True)
    base = with_phase(with_ways(making(), back), "ROUTE", automatic=False, prompt="plan")
    led = await begun(replace(base, provides={}, forms={**base.forms, "ROUTE": base.forms["PLAN"]}))
    await led.submit(**PLAN)
    await led.submit(**ASK)
    assert (await led.decide("reject", "that is for the town")).phase == "ROUTE"
    assert "that is for the town" in await led.told()
    await led.submit(**PLAN)
    told = await led.told()
    assert (await led.state()).phase == "PLAN"
    assert "The person rejected the work submitted in this phase: that is for the town" in told
    assert (await led.submit(steps=[], drop=["q1", "q2"])).phase == "PLAN", "recorded, but not enough"
    with pytest.raises(BadWork, match="that is for the town"):
        await led.submit(**ASK)


async def test_a_journey_that_is_sent_back_or_cancelled_waits_for_no_answer() -> None:
    led = await asked()
    await led.decide("answer", changes=ANSWERS)
    await led.submit(text="a hive")
    await led.decide("revisit", "x", changes={"phase": "PLAN"})
    await led.submit(ask=[{"id": "q9", "question": "And now?"}])
    state = await led.decide("revisit", "never mind", changes={"phase": "MAKE"})
    assert (state.phase, state.status, state.checkpoint) == ("MAKE", "active", None)
    other = await asked()
    assert (await other.decide("cancel", "no time")).status == "cancelled"


async def test_the_way_that_was_asked_about_is_gone_as_the_table_has_it() -> None:
    agent = with_ways(making(), replace(ASKS, anew=True))
    led = await begun(agent)
    await led.submit(**ASK)
    before = (await led.state()).conversations
    state = await led.decide("answer", changes=ANSWERS)
    assert not set(state.conversations.values()) & set(before.values())
    assert set(state.conversations) == {"making", "maker"}


async def test_a_way_back_that_asks_is_a_way_back_once_it_is_answered() -> None:
    async def unclear(facts: SubmitFacts, _look: Look) -> ConditionFinding:
        return ConditionFinding(
            bool(unanswered_in(facts.work, "ask", facts.answers.get("JUDGE", {}))), detail="it is unclear"
        )

    agent = making()
    agent = replace(
        agent,
        forms={**agent.forms, "JUDGE": agent.forms["PLAN"]},
        conditions={**agent.conditions, "unclear": unclear},
    )
    back = Transition("JUDGE", "PLAN", "unclear", is_backward=True, priority=9, asks="ask")
    led = await begun(with_ways(agent, back))
    await led.submit(**PLAN)
    await led.submit(text="a hive")
    assert (await led.submit(**ASK)).status == "waiting"
    state = await led.decide("answer", changes=ANSWERS)
    assert (state.phase, state.visit, state.backward_trigger, state.returns) == ("PLAN", 2, "unclear", 1)
    assert state.answers["JUDGE"]["q1"]["answer"] == "two"


async def test_later_judges_see_the_answers() -> None:
    seen: list[Any] = []

    async def made(facts: SubmitFacts, _look: Look) -> ConditionFinding:
        seen.append(facts.answers)
        return ConditionFinding(met=True)

    agent = replace(making(), conditions={**making().conditions, "made": made})
    led = await begun(agent)
    await led.submit(**ASK)
    await led.decide("answer", changes=ANSWERS)
    await led.submit(text="a hive")
    assert seen == [
        {
            "PLAN": {
                "q1": {"question": "How many hives?", "answer": "two"},
                "q2": {"question": "Who enters?", "answer": "only Ada"},
            }
        }
    ]


# --- elsewhere --------------------------------------------------------------------------------------------------------


async def test_a_fork_of_a_journey_that_waits_waits_for_the_same_answers_and_its_note_is_none() -> None:
    led = await asked()
    fork = await led.runner.start("", "two, and Ada", {"fork_of": led.journey}, by=ADA)
    assert (fork.state.status, questions_asked(fork.state)) == (
        "waiting",
        {"q1": "How many hives?", "q2": "Who enters?"},
    )
    assert fork.state.answers == {}
    done = await led.runner.decide(
        fork.journey, fork.state.version, JourneyDecision("answer", "page", changes=ANSWERS), by=ADA
    )
    assert done.state.phase == "MAKE"
    assert (await led.state()).status == "waiting"


async def test_a_journey_that_was_answered_leaves_as_a_file_and_is_the_same_elsewhere() -> None:
    led = await asked()
    await led.decide("answer", changes=ANSWERS)
    text = "".join(exported(led.journey, await led.runner.store.events(led.journey)))
    id_, log = imported(text)
    elsewhere = runner_of(making(), Remembering(_nobody), Pages())
    await elsewhere.adopt(id_, log)
    here = await elsewhere.position(id_)
    assert here.state == await led.state()
    assert (await sent(elsewhere, id_, here.state.version, text="a hive")).state.phase == "JUDGE"


@pytest.mark.parametrize("answers", ["two", ["two"], {"q1": "two"}, {"q1": {"answer": 2}}])
def test_answers_of_another_form_are_no_event_of_ours(answers: Any) -> None:
    told = {"type": "journey.decided", "decision": "answer", "channel": "page", "phase": "PLAN", "answers": answers}
    with pytest.raises(UnknownEvent, match="its answers has the wrong type"):
        event_of(canonical(told))


def test_a_decision_from_before_there_were_answers_is_read_and_written_unchanged() -> None:
    told = canonical({"type": "journey.decided", "decision": "answer", "channel": "page", "phase": "A", "note": "so"})
    said = event_of(told)
    assert isinstance(said, Decided)
    assert (said.answers, event_text(said)) == ({}, told)
    asks = event_of(
        canonical({"type": "phase.checkpoint", "phase": "A", "target": "B", "condition": "c", "kind": "blocking"})
    )
    assert isinstance(asks, CheckpointReached)
    assert asks.asks == ""


@pytest.mark.parametrize(
    ("questions", "answers", "left"),
    [
        ([], {}, {}),
        ([{"id": "a", "question": "A?"}], {}, {"a": "A?"}),
        ([{"id": "a", "question": "A?"}], {"a": {"question": "A?", "answer": ""}}, {}),
        ([{"id": "a", "question": "A?"}], {"a": {"question": "a?", "answer": "x"}}, {"a": "A?"}),
        ([{"id": "a", "question": "A?"}], {"b": {"question": "A?", "answer": "x"}}, {"a": "A?"}),
        ([{"question": "A?"}], {}, {"": "A?"}),
    ],
)
def test_a_question_is_open_until_its_very_words_are_answered(
    questions: list[dict[str, str]], answers: dict[str, dict[str, str]], left: dict[str, str]
) -> None:
    assert unanswered(questions, answers) == left


@pytest.mark.parametrize("work", [None, [], "ask", {"ask": "what?"}, {"ask": ["what?", 3]}, {"ask": None}])
def test_work_without_a_list_of_questions_asks_nothing(work: Any) -> None:
    assert unanswered_in(work, "ask", {}) == {}
