"""Ranking weights in the state folder: read live, reversible, and never a reason for a search to fail."""

from __future__ import annotations

import json
import stat
from pathlib import Path

import pytest

from knowledge.search.ranking.weights import DEFAULT_WEIGHTS, RankingWeights
from knowledge.search.use.stored_weights import (
    MOST_EARLIER,
    WEIGHTS_FILE,
    StoredWeights,
    WeightsRecord,
    reset,
    store,
    stored_record,
)

OTHER = RankingWeights(cosine=1.5, coverage=0.4, names=0.25)


def record(weights: RankingWeights = OTHER, reason: str = "a gain") -> WeightsRecord:
    return WeightsRecord(weights, "2026-03-01T12:00:00+00:00", "ada", reason)


async def test_a_running_server_uses_stored_weights_from_the_next_search_on(tmp_path: Path) -> None:
    weights = StoredWeights(tmp_path)
    assert await weights.now() == DEFAULT_WEIGHTS
    store(tmp_path, record())
    assert await weights.now() == OTHER
    store(tmp_path, record(RankingWeights(cosine=2.5)))
    assert await weights.now() == RankingWeights(cosine=2.5)
    assert reset(tmp_path, at="2026-03-02T00:00:00+00:00", by="ada")
    assert await weights.now() == DEFAULT_WEIGHTS
    (tmp_path / WEIGHTS_FILE).unlink()
    assert await weights.now() == DEFAULT_WEIGHTS


def test_who_stored_them_when_and_why_is_kept_with_those_before(tmp_path: Path) -> None:
    store(tmp_path, record(reason="first"))
    store(tmp_path, record(RankingWeights(), reason="second"))
    found = stored_record(tmp_path)
    assert found is not None
    assert (found.by, found.reason, found.weights) == ("ada", "second", RankingWeights())
    assert [one["reason"] for one in found.earlier] == ["first"]
    for number in range(MOST_EARLIER + 5):
        store(tmp_path, record(reason=str(number)))
    assert len((stored_record(tmp_path) or record()).earlier) == MOST_EARLIER
    assert stat.S_IMODE((tmp_path / WEIGHTS_FILE).stat().st_mode) == 0o600


def test_resetting_what_is_not_set_changes_nothing(tmp_path: Path) -> None:
    assert not reset(tmp_path, at="now", by="ada")
    assert not (tmp_path / WEIGHTS_FILE).exists()
    store(tmp_path, record())
    assert reset(tmp_path, at="now", by="ada")
    assert not reset(tmp_path, at="now", by="ada")
    assert stored_record(tmp_path) is None


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        "{}",
        "null",
        '{"weights": {"cosine": -1}, "at": "", "by": "", "reason": ""}',
        '{"weights": {"cosine": 1e9}, "at": "", "by": "", "reason": ""}',
        '{"weights": {"cosine": NaN}, "at": "", "by": "", "reason": ""}',
        '{"weights": {"cosine": true}, "at": "", "by": "", "reason": ""}',
        '{"weights": {"cosine": "2"}, "at": "", "by": "", "reason": ""}',
        "[" * 100_000,
    ],
)
async def test_a_damaged_file_means_the_usual_weights_and_a_warning(
    tmp_path: Path, text: str, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / WEIGHTS_FILE).write_text(text, encoding="utf-8")
    weights = StoredWeights(tmp_path)
    assert await weights.now() == DEFAULT_WEIGHTS
    assert await weights.now() == DEFAULT_WEIGHTS
    assert len(caplog.records) == 1
    store(tmp_path, record())
    assert await weights.now() == OTHER


async def test_a_file_with_other_fields_is_read_as_far_as_it_is_known(tmp_path: Path) -> None:
    """Another version may have more weights, or fewer."""
    values = {"weights": {"cosine": 2, "moon": 3}, "at": "", "by": "", "reason": "", "earlier": [1, {"weights": None}]}
    (tmp_path / WEIGHTS_FILE).write_text(json.dumps(values), encoding="utf-8")
    assert await StoredWeights(tmp_path).now() == RankingWeights(cosine=2.0)
