"""The laws of fusion, and what counts as a near-duplicate."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from knowledge.index.ports import Scored
from knowledge.search.ranking.fusion import BEST, collapse, fuse, spread

Lists = list[list[int]]
LISTS = st.lists(st.lists(st.integers(1, 30), unique=True, max_size=20), min_size=1, max_size=4)


def scored(lists: Lists, scale: float = 1.0) -> list[list[Scored]]:
    return [[Scored(seq, seq // 3, scale / (place + 1)) for place, seq in enumerate(seqs)] for seqs in lists]


@given(LISTS, st.floats(1e-6, 1e6))
def test_the_scale_of_scores_is_ignored(lists: Lists, scale: float) -> None:
    assert fuse(scored(lists)) == fuse(scored(lists, scale))


@given(LISTS)
def test_the_order_of_lists_does_not_matter(lists: Lists) -> None:
    forth, back = fuse(scored(lists)), fuse(scored(lists[::-1]))
    assert [(hit.seq, hit.score) for hit in forth] == [(hit.seq, hit.score) for hit in back]
    assert [hit.ranks for hit in forth] == [hit.ranks[::-1] for hit in back]


@given(LISTS)
def test_first_in_all_lists_is_first(lists: Lists) -> None:
    assert fuse(scored([[99, *seqs] for seqs in lists]))[0].seq == 99


@given(LISTS)
def test_every_chunk_is_there_once_best_first(lists: Lists) -> None:
    fused = fuse(scored(lists))
    assert sorted(hit.seq for hit in fused) == sorted({seq for seqs in lists for seq in seqs})
    assert fused == sorted(fused, key=lambda hit: (-hit.score, hit.seq))


def test_ranks_say_where_a_chunk_stood() -> None:
    hit = next(hit for hit in fuse(scored([[5, 7], [], [7]])) if hit.seq == 7)
    assert hit.ranks == (2, None, 1)
    assert hit.score == 1 / 61 + 1 / 62


def test_a_near_duplicate_of_one_document_collapses_into_its_better() -> None:
    text = " ".join(f"word{i}" for i in range(20))
    ranked = [(3, 1, text), (2, 1, text.upper() + "\n"), (1, 1, text + " more"), (4, 2, text), (5, 1, "other")]
    assert collapse(ranked) == [3, 4, 5]


def test_an_extract_is_no_duplicate() -> None:
    assert collapse([(1, 1, "a b c d e f"), (2, 1, "a b c"), (3, 1, ""), (4, 1, " ")]) == [1, 2, 3]


def test_one_page_does_not_fill_an_answer() -> None:
    ranked = [(1, 1), (2, 1), (3, 1), (4, 1), (5, 2), (6, 2), (7, 3)]
    assert spread(ranked, window=4) == [1, 2, 5, 7, 3, 4, 6]
    assert spread(ranked[:4], window=3) == [1, 2, 3, 4]


@given(st.lists(st.integers(1, 6), max_size=60), st.integers(1, 9))
def test_spreading_loses_nothing_and_each_part_has_as_many_pages_as_there_are(docs: list[int], window: int) -> None:
    ranked = list(enumerate(docs))
    order = spread(ranked, window=window)
    assert sorted(order) == [seq for seq, _ in ranked]
    assert order[:1] == [seq for seq, _ in ranked[:1]]
    for start in range(0, len(order), window):
        left = [docs[seq] for seq in sorted(order[start:])]
        shown = [docs[seq] for seq in order[start : start + window]]
        assert len(set(shown)) >= min(len(set(left)), len(shown) - BEST + 1)
