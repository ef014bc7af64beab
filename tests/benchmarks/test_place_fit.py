"""Trees for the places of a directory learn what the score of a place leaves out."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from knowledge.merge.evidence.place.parent_signs import ParentSigns
from knowledge.merge.evidence.place.place_signs import PlaceSigns
from knowledge.merge.evidence.place.place_trees import added, read_trees
from tests.benchmarks.history.place_fit import TREES, SentText, among_few, fitted, left_out, offered_right, write_trees

AT = PlaceSigns._fields.index("numbered")


def sent(count: int, seed: int) -> list[SentText]:
    """Return texts whose right place is the only numbered one of eight, while their scores say nothing."""
    chance = np.random.default_rng(seed)
    told = []
    for _ in range(count):
        rows = chance.random((8, len(PlaceSigns._fields)))
        right = np.arange(8) == chance.integers(8)
        rows[:, AT] = right
        told.append(SentText(rows, right))
    return told


def test_trees_find_the_sign_of_the_right_place(tmp_path: Path) -> None:
    trees = fitted(sent(60, 1))
    new = sent(60, 2)
    assert offered_right(new) < 0.8
    assert offered_right(new, trees) == 1
    write_trees(trees, tmp_path / "trees.json", PlaceSigns._fields)
    read = read_trees((tmp_path / "trees.json").read_text(encoding="utf-8"), PlaceSigns._fields)
    assert read.signs.shape[0] == TREES
    assert np.allclose(added(read, new[0].rows), added(trees, new[0].rows), atol=0.01)


def test_trees_learn_nothing_from_places_that_no_piece_is_cut_out_of() -> None:
    at = PlaceSigns._fields.index("length")
    biased = [
        text._replace(rows=np.where(np.arange(text.rows.shape[1]) == at, text.right[:, None], text.rows))
        for text in sent(60, 1)
    ]
    blind = [text._replace(rows=np.where(np.arange(text.rows.shape[1]) == AT, 0, text.rows)) for text in biased]
    alone = [text._replace(may_be_right=text.right) for text in blind]
    assert offered_right(blind, fitted(blind)) == 1
    assert offered_right(blind, fitted(alone)) == offered_right(blind)


def test_parents_are_also_fitted_on_few_pages_compared_with_each_other() -> None:
    chance = np.random.default_rng(1)
    rows = chance.random((12, len(ParentSigns._fields)))
    text = SentText(rows, np.arange(12) == 7, None, np.arange(12) // 2)
    few = among_few(text, chance)
    assert few.right.sum() == 1
    assert few.pages is not None
    assert 2 <= len(set(few.pages)) <= 5
    told = dict(zip(ParentSigns._fields, few.rows.T, strict=True))
    assert told["score"].max() == told["page_score"].max() == 0
    assert sorted(told["bm25_rank"]) == list(range(len(few.right)))
    assert set(told["page_rank"]) == set(range(len(set(few.pages))))
    assert np.array_equal(text.rows, rows)


def test_each_repository_is_judged_by_trees_of_others() -> None:
    told = left_out({"a": sent(40, 1), "b": sent(40, 2)}, folds=2)
    assert told.splitlines()[-1].endswith("| 100.0 % |")
