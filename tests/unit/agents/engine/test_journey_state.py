"""A journey's state is the fold of its events.

The effect of a submit or a decision follows from graph and state alone.
"""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agents.engine.decide import change_problems, merge_patch, step_key
from agents.engine.events import (
    CheckpointReached,
    Completed,
    FeedbackAdded,
    Forked,
    Logged,
    PhaseChanged,
    StepUsage,
    Thinking,
    ToolStart,
    canonical,
    event_of,
    event_text,
    logged_form,
    logged_of,
    newest_steps,
)
from agents.engine.fold import FEEDBACK_TOKENS, fold
from agents.engine.graph import Phase, PhaseGraph, Transition, checked
from agents.engine.state import TRANSITIONS_KEPT, content_events, get_state, restore_state
from agents.errors import (
    BadGraph,
    BadLog,
    BadState,
    JourneyOver,
    NeedsOwnHand,
    NotToDecide,
    UnknownEvent,
    WaitsForPerson,
)
from agents.store.codec import filled, state_of, state_text
from knowledge.tokens import count_tokens
from tests.support.journeys.graphs import ADA, CONDITIONS, ODD, RESEARCH, Walk, begun, graphs
from tests.support.state.ledgers import NOW

SECOND = timedelta(seconds=1)


def in_answer() -> Walk:
    """Return a journey whose question tree was approved."""
    walk = Walk()
    walk.submit("tree_ready", content={"questions": ["a", "b"]})
    walk.say("approve")
    return walk


def in_rise_above() -> Walk:
    walk = in_answer()
    walk.submit("all_answered", content={"answers": [1, 2]})
    return walk


# --- submitting -------------------------------------------------------------------------------------------------------


def test_a_journey_begins_in_the_graph_s_first_phase() -> None:
    state = Walk().state
    assert (state.version, state.phase, state.status, state.visit) == (1, "DECOMPOSE", "active", 1)
    assert state.phase_visits == {"DECOMPOSE": 1}


def test_work_that_meets_no_condition_is_kept_and_the_journey_stays() -> None:
    walk = Walk()
    state = walk.submit("all_answered", content={"questions": []}, usage=StepUsage(10, 5, "m"), conversation="c-1")
    assert (state.phase, state.version, state.transitions) == ("DECOMPOSE", 2, 0)
    kept = state.work["DECOMPOSE"]
    assert (kept.content, kept.visit, kept.version, kept.seq) == ({"questions": []}, 1, 2, 2)
    assert state.conversation == "c-1"
    assert (state.metrics["DECOMPOSE"].tokens_in, state.metrics["DECOMPOSE"].tokens_out) == (10, 5)
    assert walk.submit(content=2, usage=StepUsage(1, 1)).metrics["DECOMPOSE"].submits == 2
    assert walk.state.work["DECOMPOSE"].content == 2
    assert walk.state.metrics["DECOMPOSE"].tokens_in == 11


def test_at_a_blocking_checkpoint_the_journey_waits_and_accepts_no_work() -> None:
    walk = Walk()
    state = walk.submit("tree_ready")
    assert (state.phase, state.status) == ("DECOMPOSE", "waiting")
    assert state.checkpoint is not None
    assert (state.checkpoint.phase, state.checkpoint.target, state.checkpoint.kind) == (
        "DECOMPOSE",
        "ANSWER",
        "blocking",
    )
    with pytest.raises(WaitsForPerson, match="journey_decide"):
        walk.submit("tree_ready")


def test_an_optional_checkpoint_stays_open_while_work_continues_until_the_next_submit() -> None:
    walk = in_rise_above()
    state = walk.state
    assert (state.phase, state.status) == ("RISE_ABOVE", "active")
    assert state.checkpoint is not None
    assert (state.checkpoint.phase, state.checkpoint.kind) == ("ANSWER", "optional")
    assert walk.submit("gap").checkpoint is None
    with pytest.raises(NotToDecide, match="nothing was asked"):
        walk.say("approve")


def test_one_way_may_ask_a_person_where_the_others_of_its_phase_ask_nobody() -> None:
    graph = PhaseGraph(
        "gives_up",
        (Phase("PLAN"), Phase("DONE"), Phase("FAILED")),
        (Transition("PLAN", "DONE", "tree_ready"), Transition("PLAN", "FAILED", "gap", checkpoint="blocking")),
        "PLAN",
        ("DONE", "FAILED"),
    )
    assert Walk(graph).submit("tree_ready").status == "complete"
    walk = Walk(graph)
    state = walk.submit("gap")
    assert (state.status, state.phase) == ("waiting", "PLAN")
    assert walk.say("reject", "try harder").status == "active"
    walk.submit("gap")
    state = walk.say("approve")
    assert (state.status, state.phase) == ("complete", "FAILED")
    asked = replace(graph, phases=(Phase("PLAN", automatic=True), *graph.phases[1:]))
    with pytest.raises(BadGraph, match="nobody can be asked there"):
        checked(asked, CONDITIONS, ())


def test_an_informational_checkpoint_is_announced_and_asks_nobody() -> None:
    walk = in_rise_above()
    state = walk.submit()
    told = [entry.event for entry in walk.log[-4:]]
    assert isinstance(told[1], CheckpointReached)
    assert told[1].kind == "informational"
    assert isinstance(told[3], Completed)
    assert (state.phase, state.status, state.checkpoint) == ("COMPLETE", "complete", None)


def test_going_back_remembers_why_and_going_forward_forgets_it() -> None:
    """The pattern: backward trigger and detail are available for the re-entry prompt."""
    walk = in_answer()
    state = walk.submit("new_category", detail="energy use was missing")
    assert (state.phase, state.visit) == ("DECOMPOSE", 2)
    assert (state.backward_trigger, state.backward_trigger_detail) == ("new_category", "energy use was missing")
    assert state.work["DECOMPOSE"].content == {"questions": ["a", "b"]}
    assert walk.submit().backward_trigger == "new_category"
    walk.submit("tree_ready")
    state = walk.say("approve")
    assert (state.phase, state.visit, state.backward_trigger, state.backward_trigger_detail) == (
        "ANSWER",
        2,
        None,
        None,
    )
    moves = [(r.source, r.target, r.reason, r.is_backward) for r in state.transition_history]
    assert moves == [
        ("DECOMPOSE", "ANSWER", "tree_ready", False),
        ("ANSWER", "DECOMPOSE", "new_category", True),
        ("DECOMPOSE", "ANSWER", "tree_ready", False),
    ]
    assert state.transition_history[1].timestamp == NOW + 3 * SECOND


def test_a_finished_journey_accepts_no_work() -> None:
    walk = in_rise_above()
    walk.submit()
    with pytest.raises(JourneyOver, match="complete; a person may send it back"):
        walk.submit()
    other = Walk()
    other.say("cancel", "no time")
    assert other.state.status == "cancelled"
    with pytest.raises(JourneyOver, match="cancelled; fork it"):
        other.submit("tree_ready")
    with pytest.raises(JourneyOver):
        other.say("revisit", target="DECOMPOSE")


def test_the_same_submit_has_the_same_key_and_another_has_another() -> None:
    one = step_key("j-1", 3, "ann", {"work": {"b": 1, "a": ODD}})
    assert one == step_key("j-1", 3, "ann", {"work": {"a": ODD, "b": 1}})
    given = [
        ("j-1", 3, "ann", 1),
        ("j-2", 3, "ann", 1),
        ("j-1", 4, "ann", 1),
        ("j-1", 3, "ben", 1),
        ("j-1", 3, "ann", 2),
    ]
    assert len({one, *(step_key(journey, version, by, {"work": work}) for journey, version, by, work in given)}) == 6


# --- a person's word --------------------------------------------------------------------------------------------------


def test_an_approval_continues_the_work_and_records_how_it_was_given() -> None:
    walk = Walk()
    walk.submit("tree_ready")
    state = walk.say("approve", "fine", channel="relayed")
    assert (state.phase, state.status, state.checkpoint) == ("ANSWER", "active", None)
    assert state.word is not None
    assert (state.word.decision, state.word.channel, state.word.phase, state.word.note) == (
        "approve",
        "relayed",
        "DECOMPOSE",
        "fine",
    )


def test_changes_are_made_in_the_work_which_continues_if_it_still_may() -> None:
    walk = Walk()
    walk.submit("tree_ready", content={"questions": {"a": "one", "b": "two"}, "kept": 1})
    other = Walk(log=[*walk.log])
    state = walk.say("modify", "b is out", "tree_ready", changes={"questions": {"b": None, "c": "three"}})
    assert state.work["DECOMPOSE"].content == {"questions": {"a": "one", "c": "three"}, "kept": 1}
    assert (state.phase, state.status) == ("ANSWER", "active")
    state = other.say("modify", "none is any good", changes={"questions": None})
    assert state.work["DECOMPOSE"].content == {"kept": 1}
    assert (state.phase, state.status, state.visit) == ("DECOMPOSE", "active", 1)
    assert (state.backward_trigger, state.backward_trigger_detail) == ("modify", "none is any good")


def test_changes_asked_for_in_words_are_left_to_the_phase() -> None:
    walk = Walk()
    walk.submit("tree_ready", content={"questions": ["a"]})
    state = walk.say("modify", "add one on cost", "tree_ready")
    assert (state.phase, state.status, state.backward_trigger) == ("DECOMPOSE", "active", "modify")
    assert state.work["DECOMPOSE"].content == {"questions": ["a"]}


def test_a_rejection_takes_its_way_back_in_the_graph_or_repeats_the_phase() -> None:
    walk = Walk()
    walk.submit("tree_ready")
    state = walk.say("reject", "too broad")
    assert (state.phase, state.status, state.visit) == ("DECOMPOSE", "active", 1)
    assert (state.backward_trigger, state.backward_trigger_detail) == ("reject", "too broad")
    act = PhaseGraph(
        "curate",
        (Phase("REASON"), Phase("ACT", checkpoint="blocking"), Phase("COMPLETE")),
        (
            replace(RESEARCH.transitions[0], source="REASON", target="ACT"),
            replace(RESEARCH.transitions[0], source="ACT", target="COMPLETE"),
            replace(RESEARCH.transitions[2], source="ACT", target="REASON", condition="human_rejected"),
        ),
        "REASON",
        ("COMPLETE",),
    )
    walk = Walk(act)
    walk.submit("tree_ready")
    walk.submit("tree_ready")
    state = walk.say("reject", "wrong project")
    assert (state.phase, state.visit) == ("REASON", 2)
    assert (state.backward_trigger, state.backward_trigger_detail) == ("human_rejected", "wrong project")


def test_work_past_an_optional_checkpoint_returns_when_it_is_rejected_or_changed() -> None:
    walk = in_rise_above()
    other, third = Walk(log=[*walk.log]), Walk(log=[*walk.log])
    state = walk.say("reject", "no source for b")
    assert (state.phase, state.visit, state.backward_trigger) == ("ANSWER", 2, "reject")
    state = other.say("modify", "", "all_answered", changes={"answers": [1, 3]})
    assert (state.phase, state.work["ANSWER"].content, state.work["ANSWER"].visit) == (
        "RISE_ABOVE",
        {"answers": [1, 3]},
        2,
    )
    state = third.say("approve")
    assert (state.phase, state.transitions, state.checkpoint) == ("RISE_ABOVE", 2, None)


def test_a_person_sends_a_journey_back_to_an_earlier_phase_from_anywhere() -> None:
    walk = in_rise_above()
    walk.submit()
    state = walk.say("revisit", "one more thing", target="DECOMPOSE", channel="relayed")
    assert (state.phase, state.status, state.visit) == ("DECOMPOSE", "active", 2)
    assert (state.backward_trigger, state.backward_trigger_detail) == ("revisit", "one more thing")
    for nowhere in ("DECOMPOSE", "EXPAND", "", "COMPLETE"):
        with pytest.raises(NotToDecide, match=r"changes.phase: ANSWER, RISE_ABOVE$"):
            walk.say("revisit", target=nowhere)


def test_an_answer_is_known_from_then_on_and_moves_nothing() -> None:
    walk = Walk()
    walk.submit("tree_ready")
    state = walk.say("answer", "the northern site")
    assert (state.status, state.version) == ("waiting", 3)
    assert state.checkpoint is not None
    assert state.word is not None
    assert state.word.note == "the northern site"


def test_a_relayed_decision_does_not_count_if_a_direct_one_is_required() -> None:
    """Design, section 7: an agent that needs the person's own edit."""
    graph = replace(RESEARCH, phases=(replace(RESEARCH.phases[0], own_hand=True), *RESEARCH.phases[1:]))
    walk = Walk(graph)
    walk.submit("tree_ready")
    for decision in ("approve", "modify", "reject"):
        with pytest.raises(NeedsOwnHand, match="cannot be relayed"):
            walk.say(decision, channel="relayed")
    assert walk.say("approve", channel="host").phase == "ANSWER"


@pytest.mark.parametrize(
    ("work", "changes", "result"),
    [
        ({"a": "b"}, {"a": "c"}, {"a": "c"}),
        ({"a": "b", "b": "c"}, {"a": None}, {"b": "c"}),
        ({"a": ["b"]}, {"a": "c"}, {"a": "c"}),
        ({"a": {"b": "c"}}, {"a": {"b": "d", "c": None}}, {"a": {"b": "d"}}),
        ({"a": [{"b": "c"}]}, {"a": [1]}, {"a": [1]}),
        (["a", "b"], ["c", "d"], ["c", "d"]),
        ({"e": None}, {"a": 1}, {"e": None, "a": 1}),
        ([1, 2], {"a": "b", "c": None}, {"a": "b"}),
        ({}, {"a": {"bb": {"ccc": None}}}, {"a": {"bb": {}}}),
    ],
)
def test_changes_are_merged_as_the_standard_says(work: object, changes: object, result: object) -> None:
    """RFC 7396, appendix A, for all but lists of items with ids."""
    assert merge_patch(work, changes) == result


OPTIONS: dict[str, Any] = {
    "options": [{"id": "a", "text": "one", "pro": "x"}, {"id": "b", "text": "two"}],
    "tags": ["p", "q"],
}


@pytest.mark.parametrize(
    ("changes", "result"),
    [
        (
            {"options": [{"id": "b", "text": "zwei"}]},
            [{"id": "a", "text": "one", "pro": "x"}, {"id": "b", "text": "zwei"}],
        ),
        ({"options": [{"id": "a", "text": "1"}]}, [{"id": "a", "text": "1", "pro": "x"}, {"id": "b", "text": "two"}]),
        ({"options": [{"id": "a", "pro": None}]}, [{"id": "a", "text": "one"}, {"id": "b", "text": "two"}]),
        ({"options": [{"id": "c", "text": "three", "pro": None}]}, [*OPTIONS["options"], {"id": "c", "text": "three"}]),
        ({"drop": ["a"]}, [{"id": "b", "text": "two"}]),
        ({"drop": ["a"], "options": [{"id": "c"}]}, [{"id": "b", "text": "two"}, {"id": "c"}]),
        ({"tags": ["p"]}, OPTIONS["options"]),
    ],
)
def test_items_of_a_list_are_changed_by_id_and_removed_only_by_name(changes: object, result: object) -> None:
    """Decision 77: a person who corrects one of twenty options must not delete the other nineteen."""
    assert change_problems(OPTIONS, changes) == []
    assert merge_patch(OPTIONS, changes) == {"options": result, "tags": ["p"] if "tags" in str(changes) else ["p", "q"]}


def test_a_nested_list_is_changed_by_id_too_and_null_removes_a_whole_list() -> None:
    plan = {"plan": {"steps": [{"id": "s1", "do": "x"}, {"id": "s2", "do": "y"}]}}
    assert merge_patch(plan, {"plan": {"drop": ["s1"]}}) == {"plan": {"steps": [{"id": "s2", "do": "y"}]}}
    assert merge_patch(plan, {"plan": {"steps": None}}) == {"plan": {}}
    assert change_problems(plan, {"plan": {"steps": None}}) == []


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        (
            {"options": [{"text": "zwei"}]},
            "options is a list of items with ids: give a list of only the changed and new items",
        ),
        ({"options": []}, "to remove items, name their ids in `drop`, as in {'drop': ['a']}"),
        ({"drop": ["z", "a"]}, "drop: nothing has the id z; there are a, b"),
    ],
)
def test_changes_that_would_remove_what_they_do_not_name_are_refused(changes: object, told: str) -> None:
    assert [told in problem for problem in change_problems(OPTIONS, changes)] == [True]


# --- the fold ---------------------------------------------------------------------------------------------------------


def test_seconds_are_those_between_coming_and_leaving_and_never_negative() -> None:
    walk = in_answer()
    assert walk.state.metrics["DECOMPOSE"].seconds == 2.0
    early = Logged(
        len(walk.log) + 1, 4, NOW - SECOND, ADA, PhaseChanged("ANSWER", "RISE_ABOVE", "x", is_backward=False)
    )
    assert fold([*walk.log, early]).metrics["ANSWER"].seconds == 0.0


def test_notes_move_nothing() -> None:
    walk = in_answer()
    before = walk.state
    walk.log.append(Logged(before.seq + 1, before.version, NOW, ADA, Thinking("hm")))
    walk.log.append(Logged(before.seq + 2, before.version, NOW, ADA, ToolStart("c-1", "kb_search", "ab" * 32)))
    assert walk.state == replace(before, seq=before.seq + 2)


def test_feedback_is_kept_newest_last_to_a_budget_and_at_least_the_newest() -> None:
    """Design, section 7: first-in-first-out to a token budget."""
    walk = Walk()
    for n in range(40):
        walk.step([FeedbackAdded("validation", "DECOMPOSE", f"{n} " + "field is missing " * 20)])
    kept = walk.state.feedback
    assert kept[-1].text.startswith("39 ")
    assert [one.version for one in kept] == list(range(42 - len(kept), 42))
    assert sum(count_tokens(one.text) for one in kept) <= FEEDBACK_TOKENS
    assert 1 < len(kept) < 40
    small = len(kept)
    walk.step([FeedbackAdded("soft_failure", "DECOMPOSE", "a judge said so")])
    long = walk.step([FeedbackAdded("hard_failure", "DECOMPOSE", "word " * 9_000)]).feedback
    assert [one.kind for one in long] == ["validation"] * small + ["soft_failure", "hard_failure"]
    assert len(walk.step([FeedbackAdded("hard_failure", "DECOMPOSE", "another")]).feedback) == len(long)


def test_the_state_does_not_grow_with_the_journey_and_counts_all_moves() -> None:
    """Bytes per step and resume time do not grow."""
    sizes = []
    walk = in_answer()
    for _ in range(60):
        walk.submit("new_category", detail="x" * 50)
        walk.submit("tree_ready")
        walk.say("approve")
        sizes.append(len(canonical(get_state(walk.state))))
    assert walk.state.transitions == 121
    assert len(walk.state.transition_history) == TRANSITIONS_KEPT
    assert sizes[-1] <= sizes[20] * 1.02


@pytest.mark.parametrize(
    ("event", "reason"),
    [
        (Logged(9, 4, NOW, ADA, Completed("ANSWER")), "event 6 comes next"),
        (Logged(6, 5, NOW, ADA, Completed("ANSWER")), "says version 5 after version 3"),
        (Logged(6, 2, NOW, ADA, Completed("ANSWER")), "says version 2 after version 3"),
        (Logged(6, 4, NOW, ADA, Thinking("")), "says version 4 after version 3"),
        (Logged(6, 4, NOW, ADA, begun()), "comes once"),
        (Logged(6, 4, NOW, ADA, PhaseChanged("DECOMPOSE", "ANSWER", "x", is_backward=False)), "leaves DECOMPOSE"),
    ],
)
def test_events_that_cannot_follow_are_refused(event: Logged, reason: str) -> None:
    with pytest.raises(BadLog, match=reason):
        fold([*in_answer().log, event])


def test_a_log_begins_with_its_beginning() -> None:
    with pytest.raises(BadLog, match="begins with"):
        fold([Logged(1, 1, NOW, ADA, Completed("X"))])
    with pytest.raises(BadLog, match="no events"):
        fold([])


# --- to JSON and back -------------------------------------------------------------------------------------------------


def test_a_state_s_form_names_moves_as_the_pattern_does() -> None:
    form = get_state(in_answer().state)
    assert form["transition_history"] == [
        {
            "from": "DECOMPOSE",
            "to": "ANSWER",
            "reason": "tree_ready",
            "is_backward": False,
            "timestamp": "2026-03-01T12:00:02.123456+00:00",
            "detail": "",
        }
    ]
    assert form["phase_visits"] == {"DECOMPOSE": 1, "ANSWER": 1}


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"form": 2}, "format is 2"),
        ({"phase": ...}, "lacks|wrong type"),
        ({"work": 3}, "wrong type"),
        ({"new": 1}, "unknown field .new."),
    ],
)
def test_another_form_is_no_state(change: dict[str, object], reason: str) -> None:
    form = {name: value for name, value in {**get_state(in_answer().state), **change}.items() if value is not ...}
    with pytest.raises(BadState, match=reason):
        restore_state(form)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("[]", "type ''"),
        ("no", "not a JSON object"),
        ('{"type":"phase.sung"}', "'phase.sung' cannot be read: there is no such type"),
        ('{"type":"agent.thinking"}', "text"),
        ('{"type":"agent.thinking","text":"a","mood":"b"}', "mood"),
        ('{"type":"agent.thinking","text":7}', "its text has the wrong type"),
        (
            '{"type":"journey.decided","decision":"shout","channel":"page","phase":"A"}',
            "its decision has the wrong type",
        ),
        (
            '{"type":"journey.decided","decision":"cancel","channel":"air","phase":"A"}',
            "its channel has the wrong type",
        ),
        ('{"type":"feedback.added","kind":"gossip","phase":"A","text":"b"}', "its kind has the wrong type"),
        (
            '{"type":"phase.checkpoint","phase":"A","target":"B","condition":"c","kind":"rude"}',
            "its kind has the wrong type",
        ),
        (
            '{"type":"journey.started","agent":"a","brief":"b","phase":"A","principal":"p","inputs":[]}',
            "its inputs has",
        ),
        (
            '{"type":"work.recorded","phase":"A","visit":1,"work":1,"usage":{"tokens_in":"9"}}',
            r"its usage\.tokens_in has",
        ),
        ('{"type":"work.recorded","phase":"A","visit":1,"work":1,"usage":9}', "cannot be read"),
        ('{"type":"work.recorded","phase":"A","visit":1,"work":1,"signals":[1]}', "its signals has the wrong type"),
        (
            '{"type":"work.recorded","phase":"A","visit":1,"work":1,"confidence":"9"}',
            "its confidence has the wrong type",
        ),
    ],
)
def test_an_unknown_event_is_reported(text: str, reason: str) -> None:
    with pytest.raises(UnknownEvent, match=reason):
        event_of(text)


def test_changes_are_described_in_words_without_the_work() -> None:
    walk = in_answer()
    walk.submit("new_category", content="SECRET")
    told = newest_steps(walk.log)
    assert told[-2:] == (
        f"version 4: work on ANSWER was recorded by {ADA}",
        f"version 4: went back from ANSWER to DECOMPOSE (new_category) by {ADA}",
    )
    assert len(told) == 6


words = st.sampled_from(["approve", "modify", "reject", "revisit", "answer", "cancel"])
acts = st.tuples(
    st.sampled_from(["submit", "submit", "submit", "say"]),
    st.sets(st.sampled_from(CONDITIONS)),
    words,
    st.integers(0, 5),
)


@given(graphs(), st.lists(acts, max_size=40), st.data())
@settings(max_examples=100)
def test_whatever_is_done_a_walk_never_leaves_the_table_and_is_never_stuck(
    graph: PhaseGraph, todo: list[tuple[str, set[str], str, int]], data: st.DataObject
) -> None:
    """Random walks never leave the table, never stuck without an allowed move; every prefix is a state."""
    walk = Walk(graph)
    states = {1: walk.state}
    table = {(t.source, t.target, t.condition, t.is_backward) for t in graph.transitions}
    for act, met, said, where in todo:
        try:
            if act == "submit":
                walk.submit(*met, content={"n": where, ODD: [None, 1.5]}, detail=ODD)
            else:
                target = graph.phases[where % len(graph.phases)].name
                walk.say(said, ODD, *met, target=target, changes={"n": where} if where else None)  # type: ignore[arg-type]  # drawn
        except (JourneyOver, WaitsForPerson, NotToDecide):
            assert walk.state == states[walk.state.version]
        states[walk.state.version] = walk.state
    state = walk.state
    by_person = {"revisit", "modify", "reject"}
    moves = [entry.event for entry in walk.log if isinstance(entry.event, PhaseChanged)]
    assert all((m.source, m.target, m.reason, m.is_backward) in table or m.reason in by_person for m in moves)
    assert state.transitions == len(moves)
    assert sum(state.phase_visits.values()) == len(moves) + 1
    assert (state.status == "complete") == (state.phase in graph.complete and state.status != "cancelled")
    assert state.status != "waiting" or state.checkpoint is not None
    assert list(states) == list(range(1, state.version + 1))
    # Every prefix folds to the state at its version, also from JSON and from any state on the way.
    for version, then in states.items():
        assert fold(entry for entry in walk.log if entry.version <= version) == then
    middle = states[data.draw(st.sampled_from(sorted(states)))]
    again = restore_state(json.loads(canonical(get_state(middle))))
    assert again == middle
    assert fold((entry for entry in walk.log if entry.seq > middle.seq), again) == state
    assert [logged_of(json.loads(canonical(logged_form(entry)))) for entry in walk.log] == walk.log
    assert all(event_of(event_text(entry.event)) == entry.event for entry in walk.log)
    if not state.over:
        moved = walk.say("approve") if state.status == "waiting" else walk.submit(*CONDITIONS[:-1])
        assert moved.version == state.version + 1


def test_the_state_beside_the_log_repeats_nothing_of_the_log_word_for_word() -> None:
    """Otherwise each step would write all works of the journey again."""
    walk = Walk(log=[Logged(1, 1, NOW, ADA, begun("BRIEF " * 9_000, inputs={"a": "INPUT " * 9_000}))])
    walk.submit("tree_ready", content="WORK " * 9_000)
    walk.say("approve")
    walk.submit("all_answered", content={"answers": "WORK " * 9_000})
    text = state_text(walk.state)
    assert len(text) < 4_000
    assert not [word for word in ("BRIEF", "INPUT", "WORK") if word in text]
    kept = state_of(text)
    assert content_events(kept) == (1, 2, 6)
    assert filled(kept, {entry.seq: entry.event for entry in walk.log}) == walk.state
    with pytest.raises(UnknownEvent, match="the state says that it records work"):
        filled(kept, {**{entry.seq: entry.event for entry in walk.log}, 6: Thinking("hm")})


def test_a_fork_is_known_as_one() -> None:
    walk = in_answer()
    state = walk.step([Forked("j-0", 3, "bob@cursor")])
    assert (state.forked_from, state.forked_at, state.principal, state.phase) == ("j-0", 3, "bob@cursor", "ANSWER")
