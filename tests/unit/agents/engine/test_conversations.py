"""Conversations: which context a phase continues in, named by its id, which is never used for another."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agents.engine.events import Forked, PhaseChanged, Started, StepUsage, WorkRecorded, canonical, event_of, event_text
from agents.engine.fold import fold
from agents.engine.graph import Transition
from agents.engine.runner import Submission
from agents.engine.state import JourneyState
from tests.support.agents.agent_harness import Led
from tests.support.agents.engine_agents import ASK, PLAN, begun, making, sent, with_phase, with_ways
from tests.support.agents.small_agents import noting
from tests.support.journeys.graphs import ADA, Walk, work

FORM = re.compile(r"(.+)_iter(\d+)_(\w+)")
GAP = {"steps": [" "]}


def speaker(conversation: str) -> tuple[str, int]:
    """Return whose conversation that is, and in which iteration it began."""
    found = FORM.fullmatch(conversation)
    assert found is not None, conversation
    return found.group(1), int(found.group(2))


async def judged(led: Led, score: int, why: str = "so") -> JourneyState:
    """Make and judge, from MAKE on."""
    await led.submit(text="a hive")
    return await led.submit(score=score, why=why)


async def test_each_speaker_has_its_own_conversation_with_its_name() -> None:
    led = await begun()
    told = [(await led.state()).conversation]
    told += [(await led.submit(**PLAN)).conversation, (await led.submit(text="a hive")).conversation]
    assert [speaker(one) for one in told] == [("planner", 1), ("maker", 1), ("judge", 1)]
    assert set((await led.state()).conversations) == {"making", "planner", "maker", "judge"}


async def test_a_retry_after_a_failed_check_continues_the_same_conversation() -> None:
    """The second of the five workflows: validation failure, replanning in the same conversation."""
    led = await begun()
    first = (await led.state()).conversation
    state = await led.submit(**GAP)
    assert (state.conversation, state.iteration) == (first, 2)


async def test_a_soft_failure_is_refined_in_the_same_conversation_and_judged_in_a_new_one() -> None:
    """The third workflow; the judge is not conversational: fresh each time."""
    led = await begun()
    maker = (await led.submit(**PLAN)).conversation
    judge = (await led.submit(text="a hive")).conversation
    state = await led.submit(score=70, why="thin")
    assert (state.phase, state.conversation) == ("MAKE", maker)
    again = (await led.submit(text="two hives")).conversation
    assert again != judge
    assert speaker(again) == ("judge", 2)


async def test_after_a_hard_failure_everyone_begins_a_new_conversation_with_the_feedback() -> None:
    """The fourth workflow: hard failure, a new conversation that carries the feedback."""
    led = await begun()
    old = {(await led.state()).conversation, (await led.submit(**PLAN)).conversation}
    state = await judged(led, 20, "wrong roof")
    assert (state.phase, speaker(state.conversation)) == ("PLAN", ("planner", 2))
    assert set(state.conversations) == {"planner"}
    assert "hard failure in JUDGE: wrong roof" in await led.told()
    maker = (await led.submit(**PLAN)).conversation
    assert speaker(maker) == ("maker", 2)
    assert not {state.conversation, maker} & old


async def test_after_a_restart_a_phase_without_a_speaker_begins_a_new_conversation_too() -> None:
    """Otherwise it would continue in the one that just failed."""
    led = await begun(with_phase(making(), "PLAN", speaker=""))
    await led.submit(**PLAN)
    before = (await led.state()).conversation
    state = await judged(led, 20)
    assert state.phase == "PLAN"
    assert speaker(state.conversation) == ("making", 2)
    assert state.conversation != before


async def test_a_transition_that_restarts_conversations_needs_no_speakers() -> None:
    led = await begun(
        with_ways(noting("none"), Transition("WRITE", "COLLECT", "note_lacking", is_backward=True, anew=True))
    )
    first = (await led.state()).conversation
    await led.submit(notes=[{"id": "1", "text": "a"}, {"id": "2", "text": "b"}])
    assert (await led.state()).conversation == first
    state = await led.submit(text="so", lacks="winter")
    assert (state.phase, speaker(state.conversation)) == ("COLLECT", ("noting", 2))


async def test_a_phase_without_a_speaker_continues_the_previous_ones_conversation() -> None:
    led = await begun(with_phase(making(), "MAKE", speaker=""))
    planner = (await led.state()).conversation
    assert (await led.submit(**PLAN)).conversation == planner


async def test_automatic_phases_take_no_conversation() -> None:
    led = await begun()
    planner = (await led.state()).conversation
    await led.submit(**PLAN)
    moves = [event for event in await led.events() if isinstance(event, PhaseChanged)]
    assert [(one.target, bool(one.conversation)) for one in moves] == [
        ("PLAN", True),
        ("CHECK", False),
        ("TALLY", False),
        ("MAKE", True),
    ]
    assert moves[0].conversation == planner


async def test_a_speaker_sent_back_by_a_person_continues_its_conversation() -> None:
    led = await begun()
    planner = (await led.state()).conversation
    await led.submit(**PLAN)
    state = await led.decide("revisit", "once more", changes={"phase": "PLAN"})
    assert (state.conversation, state.iteration) == (planner, 2)


async def test_a_rejection_without_a_way_back_changes_neither_conversation_nor_iteration() -> None:
    led = await begun()
    planner = (await led.state()).conversation
    await led.submit(**ASK)
    state = await led.decide("reject", "other questions")
    assert (state.conversation, state.iteration) == (planner, 1)


async def test_a_fork_has_its_own_conversations() -> None:
    """The other journey's conversation knows, or will know, what happens there."""
    led = await begun()
    await led.submit(**PLAN)
    known = set((await led.state()).conversations.values())
    fork = await led.runner.start("", "", {"fork_of": led.journey, "at_version": 1}, by=ADA)
    assert speaker(fork.state.conversation) == ("planner", 1)
    there = await sent(led.runner, fork.journey, fork.state.version, **PLAN)
    assert speaker(there.state.conversation) == ("maker", 1)
    assert not {fork.state.conversation, *there.state.conversations.values()} & known
    assert (await led.state()).conversation in known
    log = await led.runner.store.events(fork.journey)
    assert fold(log) == there.state


def test_an_old_fork_continues_as_before() -> None:
    told = canonical({"type": "journey.forked", "of": "j-1", "at_version": 1, "principal": ADA})
    walk = Walk()
    walk.submit(conversation="c-1")
    forked = event_of(told)
    assert isinstance(forked, Forked)
    assert event_text(forked) == told
    assert walk.step([forked]).conversation == "c-1"


async def test_a_host_s_own_name_for_a_conversation_is_kept_with_the_work_and_renames_no_speaker_s() -> None:
    led = await begun()
    planner = (await led.state()).conversation
    here = await led.runner.submit(led.journey, 1, Submission({"steps": []}, conversation="chat 7"), by=ADA)
    assert (here.state.phase, here.state.conversation) == ("PLAN", planner)
    assert here.state.work["PLAN"].conversation == "chat 7"


async def test_where_nobody_speaks_in_particular_the_host_s_own_name_is_the_hint() -> None:
    led = await begun(noting())
    one = Submission({"notes": [{"id": "1", "text": "a"}]}, conversation="chat 7")
    assert (await led.runner.submit(led.journey, 1, one, by=ADA)).state.conversation == "chat 7"


@pytest.mark.parametrize("name", ["_iter", "re_iter", "my_iter_2", "a.b", "x_iter1_00ff"])
async def test_a_speaker_with_any_name_continues_its_conversation(name: str) -> None:
    led = await begun(with_phase(making(), "PLAN", speaker=name))
    first = (await led.state()).conversation
    assert first.startswith(f"{name}_iter1_")
    assert (await led.submit(**GAP)).conversation == first


async def test_no_id_is_used_twice_even_where_chance_says_the_same_twice() -> None:
    led = await begun()
    names = iter(["same", "same", "same", "other"])
    led.runner._automatic.chance = lambda: next(names)
    await led.submit(**PLAN)
    first = (await led.submit(text="a hive")).conversation
    await led.submit(score=90, why="")
    assert first == "judge_iter1_same"
    await led.decide("revisit", "once more", changes={"phase": "JUDGE"})
    second = (await led.state()).conversation
    assert speaker(second)[0] == "judge"
    assert second != first


MOVES = ("good", "gap", "soft", "hard", "revisit", "reject")


@given(st.lists(st.sampled_from(MOVES), max_size=20))
@settings(max_examples=40)
async def test_on_any_walk_an_id_belongs_to_one_speaker_and_one_stretch(moves: Sequence[str]) -> None:
    led = await begun()
    for move in moves:
        state = await led.state()
        if state.status == "complete" or move == "revisit":
            been = sorted(phase for phase in state.phase_visits if phase not in (state.phase, "DONE"))
            await led.decide("revisit", "so", changes={"phase": been[-1]})
        else:
            score = {"soft": 70, "hard": 20}.get(move, 90)
            plan = PLAN if move != "gap" else GAP
            made = {"PLAN": plan, "MAKE": {"text": f"{move} it"}, "JUDGE": {"score": score, "why": move}}
            await led.submit(**made[state.phase])
    speaking = {phase.name: phase.speaker for phase in making().graph.phases if phase.speaker}
    used: dict[str, int] = {}
    anew = back = 0
    for event in await led.events():
        if isinstance(event, PhaseChanged):
            anew, back = anew + event.anew, back + event.is_backward
            if event.target in speaking:
                assert speaker(event.conversation)[0] == speaking[event.target]
                assert speaker(event.conversation)[1] <= back + 1
                assert used.setdefault(event.conversation, anew) == anew, "it began before all began anew"
                assert event.target != "JUDGE" or list(used).count(event.conversation) == 1
    judges = [e.conversation for e in await led.events() if isinstance(e, PhaseChanged) and e.target == "JUDGE"]
    assert len(set(judges)) == len(judges)
    state = await led.state()
    assert state.iteration == back + 1


async def test_an_iteration_is_counted_for_each_way_back_and_none_forward() -> None:
    led = await begun()
    seen = [(await led.submit(**one)).iteration for one in (GAP, GAP, PLAN)]
    seen += [(await judged(led, 70)).iteration, (await judged(led, 20)).iteration]
    assert seen == [2, 3, 3, 4, 5]


def test_a_log_without_conversations_has_none() -> None:
    """A log from before there were conversations."""
    old = event_of(canonical({"type": "journey.started", "agent": "a", "brief": "b", "phase": "P", "principal": ADA}))
    assert isinstance(old, Started)
    walk = Walk()
    assert (walk.state.conversation, walk.state.conversations) == ("", {})
    moved = {"type": "phase.changed", "source": "A", "target": "B", "reason": "x", "is_backward": False}
    change = event_of(canonical(moved))
    assert isinstance(change, PhaseChanged)
    assert (change.conversation, change.anew) == ("", False)
    recorded = event_of(canonical({"type": "work.recorded", "phase": "A", "visit": 1, "work": {}}))
    assert recorded == WorkRecorded("A", 1, {}, usage=StepUsage())
    assert event_text(recorded) == event_text(replace(work({}), phase="A", visit=1))
