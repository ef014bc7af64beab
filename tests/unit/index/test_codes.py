"""Codes preserve angles, and the table behind them follows its store."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from knowledge.index.engines.codes import _candidates, _distances, _empty, _furthest, _moved, _single, encode
from knowledge.state.ports import CodeRow, IndexPosition


@pytest.mark.parametrize("dimensions", [64, 256, 384, 1024])
def test_a_code_is_32_bytes_and_its_negative_is_its_complement(dimensions: int) -> None:
    vectors = np.random.default_rng(1).standard_normal((5, dimensions)).astype(np.float32)
    codes = encode(vectors)
    assert codes.shape == (5, 32)
    assert codes.dtype == np.uint8
    assert np.array_equal(~codes, encode(-vectors))
    assert np.array_equal(codes, encode(vectors * 7))


def test_close_vectors_have_close_codes() -> None:
    vectors = np.random.default_rng(2).standard_normal((1, 384)).astype(np.float32)
    near, far = encode(vectors + 0.1), encode(np.roll(vectors, 7))
    base = encode(vectors)
    assert np.bitwise_count(base ^ near).sum() < np.bitwise_count(base ^ far).sum() / 2


def test_distances_count_bits() -> None:
    rows = np.random.default_rng(3).integers(0, 256, (20_000, 32), np.uint8)
    counted = np.bitwise_count(rows ^ rows[0]).sum(axis=1)
    lanes = np.ascontiguousarray(rows.view("<u8").T)
    assert np.array_equal(_distances(lanes, lanes[:, 0]), counted)


@given(st.lists(st.tuples(st.integers(0, 8), st.lists(st.integers(1, 80), max_size=12)), max_size=12))
def test_the_table_holds_what_was_added_and_not_removed(steps: list[tuple[int, list[int]]]) -> None:
    table, seq, expected = _empty(IndexPosition("g", 0), 2), 0, set[int]()
    for added, removed in steps:
        rows = [CodeRow(seq + i + 1, seq + i + 1, bytes(32)) for i in range(added)]
        seq += added
        expected = (expected | {row.seq for row in rows}) - set(removed)
        table = _moved(table, rows, removed, IndexPosition("g", seq))
    rows_left = _candidates(table, np.ones(256, np.float32), 1_000, None)
    assert table.seqs[rows_left].tolist() == sorted(expected)
    assert table.dead <= 0.25 * max(table.size, 1)


def test_every_finite_half_becomes_the_same_number_in_single_precision() -> None:
    halves = np.arange(1 << 16, dtype=np.uint16).view(np.float16)
    finite = np.isfinite(halves)
    found, expected = _single(halves)[finite], halves.astype(np.float32)[finite]
    assert (found.view(np.uint32) == expected.view(np.uint32)).all()


@pytest.mark.parametrize("spread", [1, 4, 257])
def test_the_least_distance_that_holds_enough_rows_is_found_whatever_the_sample_says(spread: int) -> None:
    generator = np.random.default_rng(spread)
    # The sampled rows are further off than the others, or nearer.
    for shift in (-40, 0, 40):
        drawn = generator.integers(40, 40 + spread, 5_000)
        drawn[::32] += shift
        distances = np.clip(drawn, 0, 257).astype(np.uint16)
        for wanted in (1, 64, 2_500, 4_999):
            within = np.cumsum(np.bincount(distances, minlength=258))
            assert _furthest(distances, wanted) == int(np.searchsorted(within, wanted))
