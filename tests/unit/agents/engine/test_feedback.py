"""Feedback: typed, newest first within a budget for each kind, shown to those who can act on it, part of every state."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agents.engine.events import FeedbackAdded, canonical
from agents.engine.fold import FEEDBACK_TOKENS, fold
from agents.engine.graph import FEEDBACK_KINDS, FeedbackKind
from agents.engine.progress.feedback import KINDS, LEAST_CHARS, feedback_list, newest_within
from agents.engine.state import Feedback, get_state, restore_state
from agents.prompts.prompt import incomplete
from knowledge.tokens import count_tokens
from tests.support.agents.engine_agents import PLAN, begun, making, with_phase
from tests.support.journeys.graphs import Walk

CHECKS: tuple[FeedbackKind, ...] = ("validation",)
JUDGED: tuple[FeedbackKind, ...] = ("soft_failure",)
HEADER = count_tokens("- (100 older left out: they are too long to show here; the events have them)\n")


def some(*kinds: FeedbackKind, words: int = 5) -> list[Feedback]:
    return [Feedback(kind, "JUDGE", f"{n} " + "honey " * words, n) for n, kind in enumerate(kinds, 1)]


# --- what is kept -----------------------------------------------------------------------------------------------------


def added(walk: Walk, *feedback: tuple[FeedbackKind, str]) -> Sequence[Feedback]:
    for kind, text in feedback:
        walk.step([FeedbackAdded(kind, "DECOMPOSE", text)])
    return walk.state.feedback


def test_each_kind_has_its_own_budget_so_that_many_small_entries_displace_no_verdict() -> None:
    walk = Walk()
    added(walk, ("hard_failure", "wrong roof"), ("soft_failure", "too thin"))
    kept = added(walk, *[("validation", f"{n} " + "x" * 390) for n in range(40)])
    assert [(one.kind, one.text) for one in kept[:2]] == [("hard_failure", "wrong roof"), ("soft_failure", "too thin")]
    rest = [one for one in kept if one.kind == "validation"]
    assert len(rest) == 10
    assert rest[-1].text.startswith("39 ")
    assert rest[0].text.startswith("30 ")


def test_the_first_that_came_is_the_first_to_go_and_the_order_stays() -> None:
    walk = Walk()
    text = "x" * 4 * (FEEDBACK_TOKENS // 2)
    kept = added(walk, ("validation", "1" + text[1:]), ("soft_failure", "between"), ("validation", "2" + text[1:]))
    assert [one.text[0] for one in kept] == ["1", "b", "2"]
    kept = added(walk, ("validation", "3" + text[1:]))
    assert [one.text[0] for one in kept] == ["b", "2", "3"]
    kept = added(walk, ("validation", "4" * 9_000))
    assert [one.text[0] for one in kept] == ["b", "4"], "the newest is kept however long it is"
    kept = added(walk, ("validation", "5"))
    assert [one.text[0] for one in kept] == ["b", "5"]
    assert walk.state.feedback_dropped == {"validation/DECOMPOSE": 4}


kinds = st.sampled_from(FEEDBACK_KINDS)


@given(st.lists(st.tuples(kinds, st.integers(1, 3_000)), max_size=30))
def test_whatever_comes_each_kind_keeps_its_newest_that_fit_and_every_state_goes_to_json_and_back(
    came: list[tuple[FeedbackKind, int]],
) -> None:
    walk = Walk()
    kept = added(walk, *[(kind, f"{n} ".ljust(size, "x")) for n, (kind, size) in enumerate(came)])
    state = walk.state
    for kind in FEEDBACK_KINDS:
        all_ = [n for n, (one, _) in enumerate(came) if one == kind]
        mine = [one for one in kept if one.kind == kind]
        assert [int(one.text.split()[0]) for one in mine] == all_[len(all_) - len(mine) :]
        tokens = sum(count_tokens(one.text) for one in mine)
        assert tokens <= FEEDBACK_TOKENS or len(mine) == 1
        if 0 < len(mine) < len(all_):
            size = max(came[all_[-len(mine) - 1]][1], 2)
            assert tokens + count_tokens("x" * size) > FEEDBACK_TOKENS, "nothing goes that still fits"
    assert restore_state(json.loads(canonical(get_state(state)))) == state
    assert [one["kind"] for one in get_state(state)["feedback"]] == [one.kind for one in kept]
    for version in range(1, state.version + 1):
        then = fold(logged for logged in walk.log if logged.version <= version)
        assert then.feedback == fold(walk.log[:version]).feedback


# --- what is told -----------------------------------------------------------------------------------------------------


def test_only_the_requested_kinds_are_shown_oldest_first() -> None:
    feedback = some("validation", "soft_failure", "hard_failure", "validation")
    lines = feedback_list(feedback, ("validation", "hard_failure"), 1_000).splitlines()
    assert [line.split(":")[0] for line in lines] == [
        "- validation failure in JUDGE",
        "- hard failure in JUDGE",
        "- validation failure in JUDGE",
    ]
    assert feedback_list(feedback, (), 1_000) == ""
    assert feedback_list([], FEEDBACK_KINDS, 1_000) == ""


def test_feedback_that_does_not_fit_is_dropped_oldest_first_and_counted() -> None:
    feedback = some(*JUDGED * 20, words=20)
    lines = feedback_list(feedback, JUDGED, 200).splitlines()
    assert lines[0] == f"- ({20 - len(lines) + 1} older left out: they are too long to show here; the events have them)"
    assert lines[-1].startswith("- soft failure in JUDGE: 20 honey")
    assert len(lines) > 2
    one = feedback_list(some("soft_failure", "soft_failure", words=40), JUDGED, 90)
    assert one.startswith("- (1 older left out: it is too long to show here; the events have it)\n")


def test_the_newest_is_shown_even_if_it_alone_is_too_long_and_then_cut() -> None:
    feedback = [*some("validation", "validation"), Feedback("validation", "CHECK", "mites " * 3_000, 9)]
    text = feedback_list(feedback, CHECKS, 100)
    assert text.splitlines()[0].startswith("- (2 older left out")
    assert text.splitlines()[1].startswith("- validation failure in CHECK: mites mites")
    assert text.endswith(" [...]")
    assert count_tokens(text) <= 100


def test_a_short_newest_entry_is_complete_however_little_room_there_is() -> None:
    assert feedback_list(some("validation", words=3), CHECKS, 0) == "- validation failure in JUDGE: 1 honey honey honey"


def test_feedback_of_several_lines_is_one_line_of_the_list() -> None:
    text = feedback_list([Feedback("validation", "CHECK", "one\n- two\n\n# three", 1)], CHECKS, 100)
    assert text == "- validation failure in CHECK: one - two # three"


@given(st.lists(st.tuples(kinds, st.integers(1, 1_200)), max_size=20), st.sets(kinds), st.integers(0, 900))
@settings(max_examples=100)
def test_feedback_never_exceeds_its_room(
    came: list[tuple[FeedbackKind, int]], asked: set[FeedbackKind], tokens: int
) -> None:
    feedback = [Feedback(kind, "JUDGE", f"{n} ".ljust(size, "x"), n) for n, (kind, size) in enumerate(came)]
    text = feedback_list(feedback, asked, tokens)
    assert count_tokens(text) <= max(tokens, LEAST_CHARS // 4 + HEADER + 3)
    mine = [one for one in feedback if one.kind in asked]
    assert bool(mine) == bool(text)
    if mine:
        assert f": {mine[-1].text.split()[0]}" in text.splitlines()[-1]
        left = 0 if "older left out" not in text else int(text.split("(")[1].split()[0])
        assert left + sum(line.startswith("- ") for line in text.splitlines()) - bool(left) == len(mine)


def test_newest_within_is_the_longest_end_that_fits() -> None:
    feedback = some("validation", "validation", "validation")
    size = count_tokens(feedback[0].text)
    assert [len(newest_within(feedback, n)) for n in (-1, 0, size - 1, size, 2 * size, 99 * size)] == [0, 0, 0, 1, 2, 3]


def test_every_kind_has_a_name_in_front_of_people() -> None:
    assert set(KINDS) == set(FEEDBACK_KINDS)


# --- whom it is told --------------------------------------------------------------------------------------------------


async def test_each_phase_gets_the_kinds_it_can_act_on_and_no_others() -> None:
    led = await begun()
    await led.submit(**PLAN)
    await led.submit(text="a hive")
    await led.submit(score=70, why="no floor")
    told_ = await led.told()
    assert "soft failure in JUDGE: no floor" in told_
    await led.submit(text="a hive with a floor")
    await led.submit(score=10, why="no bees")
    told_ = await led.told()
    assert "hard failure in JUDGE: no bees" in told_
    assert "no floor" not in told_
    state = await led.submit(**PLAN)
    assert state.phase == "MAKE"
    told_ = await led.told()
    assert "Why: the work went back to PLAN: hard\n" in told_, "not why it went forward since"
    assert "soft failure in JUDGE: no floor" in told_
    assert "no bees" not in told_
    assert [(one.kind, one.text) for one in state.feedback] == [
        ("soft_failure", "no floor"),
        ("hard_failure", "no bees"),
    ]


async def test_feedback_that_fell_out_of_the_record_is_counted_in_the_prompt() -> None:
    """The next attempt learns that there was more: the founding documents trim feedback first-in-first-out."""
    led = await begun()
    await led.submit(**PLAN)
    for number in range(12):
        await led.submit(text=f"a hive, {number}")
        await led.submit(score=70, why=f"{number} " + "no floor " * 90)
    state = await led.state()
    assert state.phase == "MAKE"
    told = await led.told()
    shown = told.count("soft failure in JUDGE")
    assert sum(state.feedback_dropped.values()) > 0
    assert f"- ({12 - shown} older left out: they are too long to show here; the events have them)" in told


async def test_gaps_that_do_not_fit_are_counted() -> None:
    led = await begun()
    state = await led.submit(steps=[])
    gaps = [
        Feedback("validation", state.phase, f"gap {n}: " + "the plan has no steps " * 5, state.version)
        for n in range(30)
    ]
    told = incomplete(replace(state, feedback=tuple(gaps)))
    shown = [gap for gap in gaps if gap.text in told]
    assert 1 < len(shown) < 30
    assert told.endswith(f"({30 - len(shown)} more: journey_status(view='events') has them)")
    assert "gap 29" not in told


async def test_a_submits_gaps_are_shown_once_and_where_they_belong() -> None:
    led = await begun(with_phase(making(), "MAKE", feedback=FEEDBACK_KINDS))
    state = await led.submit(steps=[])
    assert [one.text for one in state.feedback] == ["the plan has no steps"]
    assert (await led.told()).count("the plan has no steps") == 1
    await led.submit(**PLAN)
    assert "the plan has no steps" not in await led.told()


@pytest.mark.parametrize("score", [70, 10])
async def test_feedback_is_in_every_version_from_its_own_on(score: int) -> None:
    led = await begun()
    await led.submit(**PLAN)
    await led.submit(text="a hive")
    await led.submit(score=score, why="no floor")
    seen = [
        len((await led.runner.position(led.journey, version=version)).state.feedback)
        for version in range(1, (await led.state()).version + 1)
    ]
    assert seen == [0, 0, 0, 1]
    fork = await led.runner.start("", "", {"fork_of": led.journey, "at_version": 4}, by="another")
    assert fork.state.feedback == (await led.state()).feedback
