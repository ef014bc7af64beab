"""The rules of scores: within floor and ceiling, never up by idling, at most a daily gain."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from knowledge.trust.ports import TrustChange, TrustRecord
from mcp_server.gate.trust.scores import (
    APPROVED,
    APPROVED_REASON,
    FIRST_CEILING,
    HALF_LIFE,
    MOST_A_DAY,
    REJECTED,
    UNENROLLED_CEILING,
    BadGrant,
    decayed,
    first_trust_record,
    frozen,
    granted,
    moved,
    thawed,
)

NOW = datetime(2026, 3, 1, tzinfo=UTC)
WHO = "ann@cursor"


@st.composite
def trust_records(draw: st.DrawFn) -> TrustRecord:
    floor, ceiling = sorted((draw(st.floats(0, 5)), draw(st.floats(0, 5))))
    score = draw(st.floats(floor, ceiling))
    return TrustRecord(WHO, score, floor, ceiling, draw(st.booleans()), NOW)


@given(trust_records(), st.integers(0, 4000))
def test_idle_scores_sink_towards_the_floor_and_never_rise(trust_record: TrustRecord, days: int) -> None:
    later = decayed(trust_record, now=NOW + timedelta(days=days)).score
    assert later == trust_record.score if trust_record.frozen else trust_record.floor <= later <= trust_record.score


def test_after_thirty_days_half_of_the_score_above_the_floor_is_left() -> None:
    trust_record = replace(first_trust_record(WHO, now=NOW), score=3.0)
    assert decayed(trust_record, now=NOW + HALF_LIFE).score == pytest.approx(2.5)


@given(trust_records(), st.lists(st.sampled_from([APPROVED, REJECTED]), max_size=30))
def test_no_row_of_decisions_leads_out_of_floor_and_ceiling(trust_record: TrustRecord, steps: list[float]) -> None:
    recent: list[TrustChange] = []
    for number, step in enumerate(steps):
        after = moved(WHO, step, now=NOW)(trust_record, recent)
        assert after.floor - 1e-6 <= after.score <= after.ceiling + 1e-6 or after.frozen
        if after.score > trust_record.score:
            reason = f"{APPROVED_REASON}: p-{number}"
            recent.insert(0, TrustChange(number, WHO, NOW, trust_record.score, after.score, reason, "ann"))
        trust_record = after
    raised = sum(change.score_after - change.score_before for change in recent)
    assert raised <= MOST_A_DAY + 1e-6


def test_frozen_means_nothing_until_it_is_lifted() -> None:
    known = replace(first_trust_record(WHO, now=NOW), score=3.5, ceiling=4.5)
    cold = frozen(WHO, now=NOW)(known, [])
    assert cold == replace(known, score=0.0, frozen=True)
    assert frozen(WHO, now=NOW)(None, []) == replace(first_trust_record(WHO, now=NOW), score=0.0, frozen=True)
    assert moved(WHO, APPROVED, now=NOW)(cold, []) == cold
    warm = thawed(WHO, now=NOW)(cold, [])
    assert (warm.score, warm.frozen) == (warm.floor, False)


def test_a_decision_that_moves_no_score_leaves_the_record_unchanged() -> None:
    """A newer time would keep an idle score from decaying."""
    known = replace(first_trust_record(WHO, now=NOW), score=3.0, ceiling=3.0)
    assert moved(WHO, APPROVED, now=NOW + timedelta(seconds=1e-3))(known, []) is known
    assert moved(WHO, REJECTED, now=NOW)(known, []).score < known.score


@pytest.mark.parametrize("who", ["ann@terminal", "ann@page"])
def test_a_person_is_at_level_3_which_only_a_grant_below_it_changes(who: str) -> None:
    first = first_trust_record(who, now=NOW)
    assert (first.floor, first.score, first.ceiling) == (3.0, 3.0, 3.0)
    for step in (APPROVED, REJECTED):
        assert moved(who, step, now=NOW)(first, []) == first
    lowered = granted(who, 2, now=NOW)(first, [])
    assert (lowered.score, lowered.ceiling) == (2.0, 3.0)
    with pytest.raises(BadGrant, match="approve each act above it"):
        granted(who, 4, now=NOW)


def test_a_new_caller_begins_at_the_floor_and_without_a_secret_has_a_lower_cap() -> None:
    first = moved(WHO, APPROVED, now=NOW)(None, [])
    assert first.score == first_trust_record(WHO, now=NOW).floor + APPROVED
    assert first_trust_record("ann@unenrolled", now=NOW).ceiling == UNENROLLED_CEILING
    assert first_trust_record(WHO, now=NOW).ceiling == FIRST_CEILING > UNENROLLED_CEILING
