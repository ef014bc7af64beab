"""The rules of scores: within floor and ceiling, never up by idling, at most so much a day."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from knowledge.trust.ports import StandingChange, TrustRecord
from mcp_server.gate.trust.scores import (
    APPROVED,
    APPROVED_REASON,
    HALF_LIFE,
    MOST_A_DAY,
    REJECTED,
    first_standing,
    frozen,
    moved,
    sunk,
    thawed,
)

NOW = datetime(2026, 3, 1, tzinfo=UTC)
WHO = "ann@cursor"


@st.composite
def standings(draw: st.DrawFn) -> TrustRecord:
    floor, ceiling = sorted((draw(st.floats(0, 5)), draw(st.floats(0, 5))))
    score = draw(st.floats(floor, ceiling))
    return TrustRecord(WHO, score, floor, ceiling, draw(st.booleans()), NOW)


@given(standings(), st.integers(0, 4000))
def test_idle_scores_sink_towards_the_floor_and_never_rise(standing: TrustRecord, days: int) -> None:
    later = sunk(standing, now=NOW + timedelta(days=days)).score
    assert standing.floor <= later <= standing.score or standing.frozen


def test_half_of_what_lies_above_the_floor_is_left_after_thirty_days() -> None:
    standing = replace(first_standing(WHO, now=NOW), score=3.0)
    assert sunk(standing, now=NOW + HALF_LIFE).score == pytest.approx(2.5)


@given(standings(), st.lists(st.sampled_from([APPROVED, REJECTED]), max_size=30))
def test_no_row_of_decisions_leads_out_of_floor_and_ceiling(standing: TrustRecord, steps: list[float]) -> None:
    recent: list[StandingChange] = []
    for number, step in enumerate(steps):
        after = moved(WHO, step, now=NOW)(standing, recent)
        assert after.floor - 1e-6 <= after.score <= after.ceiling + 1e-6 or after.frozen
        if after.score > standing.score:
            reason = f"{APPROVED_REASON}: p-{number}"
            recent.insert(0, StandingChange(number, WHO, NOW, standing.score, after.score, reason, "ann"))
        standing = after
    raised = sum(change.score_after - change.score_before for change in recent)
    assert raised <= MOST_A_DAY + 1e-6


def test_frozen_means_nothing_until_it_is_lifted() -> None:
    cold = frozen(WHO, now=NOW)(replace(first_standing(WHO, now=NOW), score=3.5), [])
    assert (cold.score, cold.frozen) == (0.0, True)
    assert moved(WHO, APPROVED, now=NOW)(cold, []) == cold
    warm = thawed(WHO, now=NOW)(cold, [])
    assert (warm.score, warm.frozen) == (warm.floor, False)
