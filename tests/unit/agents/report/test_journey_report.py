"""The cost of a journey and its description in words."""

from __future__ import annotations

import re
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agents.engine.agent import Agent
from agents.engine.events import (
    CheckpointReached,
    Decided,
    Event,
    FeedbackAdded,
    Forked,
    Logged,
    PhaseChanged,
    Step,
    StepUsage,
    ToolError,
    WorkRecorded,
)
from agents.engine.fold import fold
from agents.engine.graph import PhaseGraph
from agents.engine.progress.metrics import averages, bottleneck, costliest, lasting, slowest, table, waits
from agents.engine.progress.position import JourneyPosition
from agents.engine.state import get_state, restore_state
from agents.engine.work.markdown import work_lines
from agents.report.journey_report import full_report, report
from tests.support.agents.agent_harness import VARROA, WINTER
from tests.support.journeys.graphs import ADA, RESEARCH, Walk, begun, graphs, word
from tests.support.state.ledgers import MINUTE, NOW

QUESTION = "Is this the right tree?"
AGENT = Agent("research", "Research", "Finds out.", RESEARCH, {}, {}, {}, questions={"DECOMPOSE": QUESTION})
QUESTIONS = {
    "questions": [
        {"id": "q1", "text": "What do bees eat in winter?", "category": "food", "tags": ["june", "december"]},
        {"id": "q2", "text": "Why do they die?", "category": "illness", "sure": False, "empty": []},
    ]
}
ANSWERS = {"answers": [{"id": "q1", "text": "Honey.", "citations": [WINTER, VARROA]}], "note": "one\n# two\n\n- three"}
SECTIONS = [
    "## Result",
    "## Brief",
    "## Status",
    "## Steps",
    "## Decisions",
    "## Time and tokens",
    "## Problems",
    "## Recorded work",
]


def position(walk: Walk) -> JourneyPosition:
    return JourneyPosition("research-1", AGENT, walk.state)


def told(walk: Walk) -> str:
    return report(position(walk), walk.log, walk.now)


def note(walk: Walk, event: Event) -> None:
    """Record an event that moves nothing, or belongs to the previous step."""
    last = walk.log[-1]
    walk.log.append(Logged(last.seq + 1, last.version, last.at, ADA, event))


def later(walk: Walk, by: timedelta, steps: tuple[Step, ...]) -> None:
    """Record a step this long after the previous one."""
    last = walk.log[-1]
    walk.log += [Logged(last.seq + n, last.version + 1, last.at + by, ADA, step) for n, step in enumerate(steps, 1)]


def researched() -> Walk:
    """Return a journey that went forward, back and forward again, and waits for a person once more."""
    walk = Walk()
    walk.submit("tree_ready", content=QUESTIONS, usage=StepUsage(100, 20))
    walk.say("answer", "the ones on the roof")
    walk.say("approve", "a good tree")
    walk.submit(content=ANSWERS, usage=StepUsage(1_000, 500, counted=True))
    note(walk, FeedbackAdded("validation", "ANSWER", "not answered yet: q2"))
    note(walk, ToolError("c1", "kb_read", 12.0, "there is no page 'bees.md'"))
    walk.submit("new_category", content=ANSWERS, detail="illness needs questions")
    walk.submit("tree_ready", content=QUESTIONS)
    return walk


# --- time and tokens --------------------------------------------------------------------------------------------------


def test_a_visit_counts_until_now_while_it_lasts_and_not_after_its_end() -> None:
    walk = Walk()
    later(walk, MINUTE, (WorkRecorded("DECOMPOSE", 1, {}), PhaseChanged("DECOMPOSE", "ANSWER", "x", is_backward=False)))
    rows = {row.phase: row for row in table(walk.state, walk.log[-1].at + 5 * MINUTE)}
    assert (rows["DECOMPOSE"].seconds, rows["ANSWER"].seconds) == (60, 300)
    later(walk, 2 * MINUTE, (word("cancel"),))
    rows = {row.phase: row for row in table(walk.state, walk.log[-1].at + 500 * MINUTE)}
    assert (rows["DECOMPOSE"].seconds, rows["ANSWER"].seconds) == (60, 120)


def test_where_the_work_is_complete_no_time_passes() -> None:
    walk = researched()
    walk.say("approve")
    walk.submit("all_answered")
    walk.submit("always")
    assert walk.state.status == "complete"
    first, later_on = table(walk.state, walk.now), table(walk.state, walk.now + 100 * MINUTE)
    assert first == later_on


@given(graphs(), st.lists(st.tuples(st.integers(0, 5), st.integers(0, 9)), max_size=25))
def test_the_times_of_all_phases_are_the_time_of_the_journey(graph: PhaseGraph, moves: list[tuple[int, int]]) -> None:
    walk = Walk(graph)
    conditions = [t.condition for t in graph.transitions]
    for number, tokens in moves:
        if walk.state.over:
            break
        if walk.state.status == "waiting":
            walk.say("approve" if number % 2 else "reject")
        else:
            met = conditions[number % len(conditions)]
            walk.submit(met, usage=StepUsage(tokens, number))
    state, now = walk.state, walk.now + 3 * MINUTE
    rows = table(state, now, waited=waits(walk.log, now))
    end = state.entered_at if state.status == "complete" else now
    assert sum(row.seconds for row in rows) == pytest.approx((end - state.started_at).total_seconds())
    assert sum(row.visits for row in rows) == state.transitions + 1
    works = [logged.event for logged in walk.log if isinstance(logged.event, WorkRecorded)]
    assert sum(row.submits for row in rows) == len(works)
    assert sum(row.tokens for row in rows) == sum(w.usage.tokens_in + w.usage.tokens_out for w in works)
    assert all(0 <= row.waited_s <= row.seconds for row in rows)


def test_only_a_blocking_question_is_waited_for_and_an_answer_does_not_end_the_wait() -> None:
    walk = Walk()
    walk.submit("tree_ready")  # asked at second 1
    walk.say("answer", "hm")
    assert waits(walk.log, walk.now)["DECOMPOSE"] == 2, "two seconds later it still waits"
    walk.say("approve")
    assert waits(walk.log, walk.now + MINUTE) == {"DECOMPOSE": 2}
    walk.submit("all_answered")  # an optional question
    assert walk.state.checkpoint is not None
    assert waits(walk.log, walk.now + MINUTE) == {"DECOMPOSE": 2}


def test_a_clock_that_goes_back_makes_no_time_negative() -> None:
    walk = Walk()
    later(walk, -MINUTE, (CheckpointReached("DECOMPOSE", "ANSWER", "x", "blocking"),))
    rows = table(walk.state, walk.state.started_at - MINUTE, waited=waits(walk.log, walk.log[-1].at - MINUTE))
    assert [(row.seconds, row.waited_s) for row in rows] == [(0, 0)]


def test_the_slowest_and_the_costliest_phase_are_found_with_their_averages() -> None:
    walk = researched()
    rows = table(walk.state, walk.now + MINUTE, order=[phase.name for phase in RESEARCH.phases])
    assert [row.phase for row in rows] == ["DECOMPOSE", "ANSWER"]
    slow, dear = slowest(rows), costliest(rows)
    assert slow is not None
    assert dear is not None
    assert (slow.phase, slow.visits, slow.seconds_per_visit) == ("DECOMPOSE", 2, slow.seconds / 2)
    assert (dear.phase, dear.tokens, dear.counted, dear.tokens_per_visit) == ("ANSWER", 1_500, 1_500, 1_500)
    nothing = table(Walk().state, Walk().state.started_at)
    assert (slowest(nothing), costliest(nothing)) == (None, None)


def test_averages_over_journeys_include_those_that_reached_the_phase() -> None:
    """One came back to DECOMPOSE; the other never left it."""
    walk, other = researched(), Walk()
    tables = [table(walk.state, walk.now), table(other.state, other.now + 9 * MINUTE)]
    found = {one.phase: one for one in averages(tables)}
    decompose = found["DECOMPOSE"]
    assert (decompose.journeys, decompose.visits, decompose.back, decompose.visits_per_journey) == (2, 3, 1, 1.5)
    assert (found["ANSWER"].journeys, found["ANSWER"].tokens_per_journey) == (1, 1_500)
    assert decompose.seconds_per_journey == pytest.approx(sum(rows[-1].seconds for rows in tables) / 2)
    slow = bottleneck(list(found.values()))
    assert slow is decompose
    assert bottleneck(averages([])) is None


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (0, "0 s"),
        (0.25, "0.2 s"),
        (42, "42 s"),
        (119, "119 s"),
        (720, "12 min"),
        (9_000, "2.5 h"),
        (400_000, "4.6 days"),
    ],
)
def test_a_duration_is_written_for_people(seconds: float, words: str) -> None:
    assert lasting(seconds) == words


# --- the report -------------------------------------------------------------------------------------------------------


def test_the_report_has_the_path_and_why_it_went_back() -> None:
    text = told(researched())
    assert [line for line in text.splitlines() if line.startswith("## ")] == ["## Result", "## Sources", *SECTIONS[1:]]
    assert text.startswith("# Research: Why is the sky blue?\n")
    assert "1. 2026-03-01 12:00 UTC, version 1: research started in DECOMPOSE." in text
    assert "version 4: Moved from DECOMPOSE to ANSWER: tree_ready." in text
    assert "version 6: Returned from ANSWER to DECOMPOSE: new_category. illness needs questions" in text


def test_the_report_has_a_persons_decisions_and_present_questions() -> None:
    text = told(researched())
    assert (
        f"version 3, {ADA}: Response from a person: answer, in DECOMPOSE, on the review page. the ones on the roof"
        in text
    )
    assert f"version 4, {ADA}: Response from a person: approve, in DECOMPOSE, on the review page. a good tree" in text
    assert "Waiting for a person, in DECOMPOSE, visit 2, version 7" in text
    assert QUESTION in text
    assert "call `journey_status` with `journey_id` `research-1`" in text


def test_the_report_has_slow_and_costly_phases_and_failures() -> None:
    walk = researched()
    text = report(position(walk), walk.log, walk.now + 24 * MINUTE)
    assert (
        "Most time went into DECOMPOSE: 24 min, including 24 min waiting for a person; 2 visits, 12 min on average."
        in text
    )
    assert "Most tokens went into ANSWER: 1,500 (estimated by the server); 1 visit, 1,500 on average." in text
    assert "| ANSWER | 1 | 2 | 2.0 s | 0 s | 1,000 | 500 | 1,500 |" in text
    assert "version 5: ANSWER: not answered yet: q2" in text
    assert "the tool kb_read: there is no page 'bees.md'" in text


def test_the_work_is_shown_with_every_id_and_quote_newest_first() -> None:
    text = told(researched())
    assert text.index("### DECOMPOSE (visit 2, version 7)") < text.index("### ANSWER (visit 1, version 6)")
    assert (
        "- questions:\n  - `q1` What do bees eat in winter?\n    - category: food\n    - tags: june, december\n" in text
    )
    assert "    - sure: no\n" in text
    assert "empty" not in text
    for cited in (WINTER, VARROA):
        assert f"      - {cited['path']}, section '{cited['section']}': \"{cited['quote']}\"\n" in text
    assert "- note:\n\n  > one\n  > # two\n  >\n  > - three\n" in text


def test_missing_work_is_shown_where_it_belongs() -> None:
    walk = Walk()
    walk.submit(content={})
    note(walk, FeedbackAdded("validation", "DECOMPOSE", "there is no category yet"))
    trust_record = told(walk).partition("## Steps")[0]
    assert "Still missing:\n\n- there is no category yet" in trust_record
    walk.submit(content=QUESTIONS)
    assert "there is no category yet" not in told(walk).partition("## Steps")[0]


def test_a_fork_a_cancelled_and_a_complete_journey_say_that_they_are() -> None:
    walk = researched()
    later(walk, MINUTE, (Forked("research-0", 7, "ben@cursor"),))
    text = told(walk)
    assert "Forked from `research-0` at version 7." in text
    assert "Forked from research-0 at version 7." in text
    assert "Time and tokens before the fork were spent in `research-0`" in text
    walk.say("cancel", "enough")
    text = told(walk)
    assert "A person cancelled it in DECOMPOSE" in text
    assert "journey_status" not in text
    done = researched()
    done.say("approve")
    done.submit("all_answered")
    done.submit("always")
    assert "Complete, version 10" in told(done)


def test_a_journey_without_its_agent_is_still_reported() -> None:
    walk = researched()
    text = full_report("research-1", None, walk.state, walk.log, walk.now)
    assert "Its agent `research` is not available" in text
    assert "`q1` What do bees eat in winter?" in text
    assert QUESTION not in text


def test_the_same_journey_has_the_same_report_wherever_its_state_comes_from() -> None:
    walk = researched()
    here = position(walk)
    again = JourneyPosition(here.journey, here.agent, restore_state(get_state(here.state)))
    assert report(here, walk.log, walk.now) == report(again, walk.log, walk.now)


HOSTILE = st.text(st.sampled_from(list("#>-*=`~|<\n\r\x0b\u2028 ab1.[]()")), max_size=60) | st.text(max_size=40)
JSONS = st.recursive(
    st.none() | st.booleans() | st.integers() | HOSTILE,
    lambda inside: st.lists(inside, max_size=3) | st.dictionaries(HOSTILE, inside, max_size=3),
    max_leaves=12,
)


OWN = re.compile(
    "(Waiting for a person, in|Question before it continues|To continue, call|Journey `research-1`|Most time went|Most tokens"
    r"|None.$|None yet.$|Missing \(validation failures\):$)"
)
HELD = re.compile(r" *(- (?!#{1,6}(\s|$)|>|\||<|```|~~~|[-+*](\s|$)|[=-]+\s*$)|>( |$))")
"""People's text is inside an item that it did not begin, or in a quotation."""


@given(HOSTILE, HOSTILE, JSONS)
def test_nobodys_text_becomes_a_part_of_the_report(brief: str, said: str, work: Any) -> None:
    walk = Walk()
    walk.log[0] = replace(walk.log[0], event=begun(brief))
    walk.submit("tree_ready", content=work)
    walk.say("reject", said)
    note(walk, FeedbackAdded("validation", "DECOMPOSE", said))
    walk.submit("tree_ready", content={"note": said, "work": work, said: brief})
    lines = told(walk).split("\n")
    heads = [lines[0], *SECTIONS, "### DECOMPOSE (visit 1, version 4)"]
    assert [line for line in lines if line.startswith("#")] == heads
    rest = [line for line in lines if line and line not in heads and not HELD.match(line)]
    assert [line for line in rest if not OWN.match(line)] == [
        "1. 2026-03-01 12:00 UTC, version 1: research started in DECOMPOSE.",
        *(line for line in rest if line.startswith(("| Phase", "|---", "| DECOMPOSE"))),
    ]


def test_names_from_a_record_that_was_made_elsewhere_stay_in_their_lines() -> None:
    """An imported log may name phases, people and tools as it likes."""
    bad = "X\n# Decided\u2028## By me |"
    log = [Logged(1, 1, NOW, bad, begun(agent=bad, phase=bad, principal=bad))]
    log.append(Logged(2, 1, NOW, bad, ToolError("c", bad, 1.0, bad)))
    log.append(Logged(3, 2, NOW, bad, PhaseChanged(bad, bad + "2", bad, is_backward=True, detail=bad)))
    log.append(Logged(4, 3, NOW, bad, Decided("answer", "relayed", bad, bad, {bad: bad})))
    log.append(Logged(5, 4, NOW, bad, WorkRecorded(bad + "2", 1, {bad: {bad: bad}})))
    text = full_report("research-1", None, fold(log), log, NOW)
    heads = [line for line in text.split("\n") if line.startswith("#")]
    assert [head for head in heads if not head.startswith("### X")] == [heads[0], *SECTIONS]
    assert len(heads) == len(SECTIONS) + 2
    assert "\u2028" not in text
    (row,) = [
        line for line in text.split("\n") if line.startswith("| X") and line.endswith("| 0 |") and "By me /2" in line
    ]
    assert row.count("|") == 9


def leaves(value: Any) -> list[str]:
    if isinstance(value, dict):
        return [leaf for inside in value.values() for leaf in leaves(inside)]
    if isinstance(value, list):
        return [leaf for inside in value for leaf in leaves(inside)]
    return [value] if isinstance(value, str) else []


@given(st.dictionaries(st.text("abc_", min_size=1, max_size=8), JSONS, max_size=4))
def test_every_word_of_the_work_is_in_the_report(work: dict[str, Any]) -> None:
    text = "\n".join(work_lines(work, 1_000_000))
    for leaf in leaves(work):
        for line in leaf.strip().splitlines():
            for one in line.split():
                assert one in text


def test_a_long_journey_has_a_report_that_ends() -> None:
    """Sections are bounded; the number of omitted items is given."""
    walk = Walk()
    for _ in range(60):
        walk.submit("tree_ready", content=QUESTIONS)
        walk.say("approve", "go " * 500)
        walk.submit("new_category", content={"answers": [{"id": f"q{n}", "text": "x" * 90} for n in range(1_000)]})
        note(walk, FeedbackAdded("validation", "ANSWER", f"not answered yet: q{walk.state.version}"))
    text = told(walk)
    assert "(61 more in the events)" in text
    assert "(30 more in the events)" in text
    assert "more lines are left out here; the journey's state has them)" in text
    assert text.count("\n1. ") == 1
    assert "121. 2026-03-01" in text, "the newest moves are told"
    assert len(text) < 120_000


def test_an_artefact_and_a_journeys_inputs_are_shown_in_full() -> None:
    """A trimmed prompt says that the report has everything; a reviewer of an artefact must not see how it was made."""
    walk = Walk()
    artefact = "\n".join(f"line {number} of what was made" for number in range(900))
    walk.submit("tree_ready", content={**QUESTIONS, "made": artefact})
    state = replace(walk.state, inputs={"artifact": artefact[:18_000]})
    text = full_report("j", None, state, walk.log, NOW)
    assert text.count("line 600 of what was made") == 2
    assert "line 899 of what was made" in text
    assert "more characters" not in text


def test_repeated_text_is_shown_once_with_its_count() -> None:
    walk = Walk()
    for _ in range(3):
        walk.submit(content={})
        note(walk, FeedbackAdded("validation", "DECOMPOSE", "there is no category yet"))
    wrong = told(walk).partition("## Problems")[2].partition("## Recorded work")[0]
    assert wrong.count("there is no category yet (3 times)") == 1
