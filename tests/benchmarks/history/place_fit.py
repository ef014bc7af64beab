"""Fits the trees that score the sections of a directory: for a text without a heading, and for one that begins with a heading.

Boosting with a softmax over the sections that could be meant: each tree is fitted to what the ones before it leave unexplained. It
starts from the likelihood by the signs of page, section and form.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import NamedTuple

import anyio
import numpy as np
from numpy.typing import NDArray

from knowledge.index.embed.static import StaticEmbedder
from knowledge.merge.evidence.place.page_choice import UnplacedText, candidate_parents, candidate_places
from knowledge.merge.evidence.place.parent_signs import ParentSigns, signs_of_parents
from knowledge.merge.evidence.place.place_signs import PlaceCandidate, signs_of_places
from knowledge.merge.evidence.place.place_trees import DEPTH, Trees, added
from knowledge.merge.evidence.place.placement import LONGEST_COMPARED, MOST_OFFERED
from knowledge.merge.evidence.place.sister_pages import CandidatePage, SisterSearch, folders_of_sisters, sisters_among
from knowledge.merge.evidence.place.vectors import ranks_of
from knowledge.merge.model import section_name
from knowledge.writing.writer import MOST_SISTERS_READ
from mcp_server.app.factories.writer import Meaning
from tests.benchmarks.history.pieces import FEWEST_BESIDE, CutPiece, may_lose_piece
from tests.support.hosts.writers import Writer

TREES, RATE = 100, 0.08
MOST_PLACES = 50
"""Places of each text that are fitted on: those with the highest score."""
BINS = 32
SHRINK, LEAST_WEIGHT = 3.0, 2.0
OF_TEXTS, OF_SIGNS = 0.7, 0.5
"""The share of texts and of signs that each tree is fitted on."""
NEVER = 1e9
"""A threshold that no sign exceeds."""
SCORE = 0
"""The column of the score that the trees correct, the first of all signs."""
FEWEST_PAGES, MOST_PAGES = 1, 4
"""Limits of the number of other pages that are left where a text is also fitted on few of them."""


class SentText(NamedTuple):
    """The signs of the places for one text, and whether each is the right one.

    The trees are fitted on places where `may_be_right`: no piece is cut out of a short page or section, but a new text may well
    belong there.
    """

    rows: NDArray[np.float64]
    right: NDArray[np.bool_]
    may_be_right: NDArray[np.bool_] | None = None
    pages: NDArray[np.int64] | None = None
    """The number of the page of each place, for parents."""


async def sent_texts(writer: Writer, pages: dict[str, str], pieces: Sequence[CutPiece]) -> Sequence[SentText]:
    """Return the signs for each piece without a heading, as a merge with its topmost folder computes them."""
    told = []
    for piece in pieces:
        if piece.kind == "section":
            continue
        unplaced = await _unplaced(writer, pages, piece)
        places = await anyio.to_thread.run_sync(candidate_places, unplaced)
        rows = signs_of_places(piece.text[:LONGEST_COMPARED], places, unplaced.found)
        right = [(one.path, section_name(one.section.path)) == (piece.path, piece.section) for one in places]
        may_be_right = [
            (one.path == piece.path or may_lose_piece(pages[one.path])) and _may_lose_text(one) for one in places
        ]
        told.append(SentText(np.array(rows, dtype=np.float64), np.array(right), np.array(may_be_right)))
    return told


async def sent_sections(writer: Writer, pages: dict[str, str], pieces: Sequence[CutPiece]) -> Sequence[SentText]:
    """Return the same for each piece that begins with a heading."""
    told = []
    for piece in pieces:
        if piece.kind != "section":
            continue
        unplaced = await _unplaced(writer, pages, piece)
        search = SisterSearch(piece.text, unplaced.pages)
        known = {page.path for page in unplaced.pages}
        others = [
            CandidatePage(path, pages[path])
            for folder in folders_of_sisters(search)
            for path in sorted(pages)
            if path.startswith(f"{folder}/") and path not in known
        ]
        sisters = sisters_among(replace(search, others=others[:MOST_SISTERS_READ]))
        unplaced = replace(unplaced, pages=[*unplaced.pages, *sisters])
        parents = await anyio.to_thread.run_sync(candidate_parents, unplaced)
        rows = np.array(signs_of_parents(piece.text[:LONGEST_COMPARED], parents, unplaced.found), dtype=np.float64)
        right = [(one.page.path, section_name(one.parent.path)) == (piece.path, piece.section) for one in parents]
        may_be_right = [one.page.path == piece.path or may_lose_piece(one.page.text) for one in parents]
        numbers = {path: number for number, path in enumerate(dict.fromkeys(one.page.path for one in parents))}
        pages_of = np.array([numbers[one.page.path] for one in parents])
        told.append(SentText(rows, np.array(right), np.array(may_be_right), pages_of))
    return told


def among_few(text: SentText, chance: np.random.Generator) -> SentText:
    """Return the parents of the right page and of one to four others, with the signs that compare them: a directory may be small."""
    if text.pages is None or not text.right.any():
        return text
    right = int(text.pages[text.right][0])
    others = [number for number in np.unique(text.pages) if number != right]
    kept = chance.permutation(others)[: chance.integers(FEWEST_PAGES, MOST_PAGES, endpoint=True)]
    here = np.isin(text.pages, [right, *kept])
    rows, pages = text.rows[here].copy(), text.pages[here]
    column = {name: rows[:, at] for at, name in enumerate(ParentSigns._fields)}
    for name in ("score", "page_score"):
        column[name] -= column[name].max()
    for name in ("bm25", "cosine"):
        column[f"{name}_rank"][:] = ranks_of(list(column[name]))
    _, first, page_of = np.unique(pages, return_index=True, return_inverse=True)
    for name, rank in (
        ("page_score", "page_rank"),
        ("page_names", "page_names_rank"),
        ("page_words", "page_words_rank"),
        ("page_bm25", "page_bm25_rank"),
    ):
        column[rank][:] = np.array(ranks_of(list(column[name][first])))[page_of]
    may_be_right = None if text.may_be_right is None else text.may_be_right[here]
    return SentText(rows, text.right[here], may_be_right, pages)


def _may_lose_text(place: PlaceCandidate) -> bool:
    texts = [unit for unit in place.placer.units_in(place.section) if unit.kind in ("paragraph", "item")]
    return len(texts) >= FEWEST_BESIDE


async def _unplaced(writer: Writer, pages: dict[str, str], piece: CutPiece) -> UnplacedText:
    found = await writer.app.base.finder.sections_like(piece.text, piece.path.split("/")[0])
    paths = dict.fromkeys(path for path, _ in found)
    similarity = Meaning(cache(StaticEmbedder))
    return UnplacedText(piece.text, [CandidatePage(path, pages[path]) for path in paths], similarity, found)


def offered_right(texts: Sequence[SentText], trees: Trees | None = None) -> float:
    """Return the share of texts for which the right place is among the first three."""
    right = 0
    for text in texts:
        scores = text.rows[:, SCORE] + (added(trees, text.rows) if trees is not None else 0.0)
        right += bool(text.right[np.argsort(-scores, kind="stable")[:MOST_OFFERED]].any())
    return right / max(1, len(texts))


def fitted(texts: Sequence[SentText], seed: int = 1) -> Trees:
    """Return trees fitted on these texts."""
    chance = np.random.default_rng(seed)
    texts = [*texts, *(among_few(text, chance) for text in texts if text.pages is not None)]
    known = [_likeliest(text) for text in texts if text.right.any()]
    known = [text for text in known if text.right.any()]
    rows = np.vstack([text.rows for text in known])
    # The right place once, even if two sections of a page have the same name.
    wanted = np.concatenate([text.right / text.right.sum() for text in known])
    sizes = np.array([len(text.right) for text in known])
    starts, text_of = np.cumsum(sizes) - sizes, np.repeat(np.arange(len(sizes)), sizes)
    edges = [_edges(column) for column in rows.T]
    bins = np.stack([np.searchsorted(edge, column, side="left") for edge, column in zip(edges, rows.T, strict=True)])
    scores, grown = rows[:, SCORE].copy(), []
    for _ in range(TREES):
        likely = np.exp(scores - np.maximum.reduceat(scores, starts)[text_of])
        likely /= np.add.reduceat(likely, starts)[text_of]
        used = (chance.random(len(sizes)) < OF_TEXTS)[text_of]
        signs = np.flatnonzero(chance.random(rows.shape[1]) < OF_SIGNS)
        tree = _tree(bins[:, used], edges, (wanted - likely)[used], (likely * (1 - likely))[used], signs)
        grown.append(tree)
        scores += added(_together([tree]), rows)
    return _together(grown)


def left_out(texts: Mapping[str, Sequence[SentText]], folds: int = 4) -> str:
    """Return a table of how often the right place is offered, by trees that were fitted without the repository's quarter."""
    names = list(texts)
    lines = ["| repository | texts | without trees | with trees fitted on others |", "|---|---:|---:|---:|"]
    for fold in range(folds):
        held = names[fold::folds]
        trees = fitted([one for name in names if name not in held for one in texts[name]])
        for name in held:
            shares = (offered_right(texts[name]), offered_right(texts[name], trees))
            lines.append(f"| {name} | {len(texts[name])} | {' | '.join(f'{100 * share:.1f} %' for share in shares)} |")
    return "\n".join(lines)


def write_trees(trees: Trees, path: Path, names: Sequence[str]) -> None:
    """Write the trees, which ask about the signs of these names, to the file that the server reads."""
    told = [
        {
            "signs": [names[sign] for sign in signs],
            "thresholds": [round(float(one), 4) for one in thresholds],
            "leaves": [round(float(one), 4) for one in leaves],
        }
        for signs, thresholds, leaves in zip(trees.signs, trees.thresholds, trees.leaves, strict=True)
    ]
    lines = ",\n".join(f"  {json.dumps(tree)}" for tree in told)
    made_by = json.dumps("python -m tests.benchmarks.history places")
    path.write_text(f'{{\n "made_by": {made_by},\n "trees": [\n{lines}\n ]\n}}\n', encoding="utf-8")


class _Tree(NamedTuple):
    signs: Sequence[int]
    thresholds: Sequence[float]
    leaves: Sequence[float]


def _edges(column: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return up to `BINS` - 1 thresholds, each half-way between two values, so that rounding one moves no row across it."""
    values = np.unique(column)
    between = (values[1:] + values[:-1]) / 2
    at = np.searchsorted(values, np.quantile(column, np.linspace(0, 1, BINS + 1)[1:-1]), side="right") - 1
    return between[np.unique(at[at < len(between)])]


def _likeliest(text: SentText) -> SentText:
    known = np.arange(len(text.right)) if text.may_be_right is None else np.flatnonzero(text.may_be_right)
    best = known[np.sort(np.argsort(-text.rows[known, SCORE], kind="stable")[:MOST_PLACES])]
    return SentText(text.rows[best], text.right[best])


def _together(trees: Sequence[_Tree]) -> Trees:
    return Trees(
        np.array([tree.signs for tree in trees]),
        np.array([tree.thresholds for tree in trees]),
        np.array([tree.leaves for tree in trees]),
    )


def _tree(
    bins: NDArray[np.int64],
    edges: Sequence[NDArray[np.float64]],
    slope: NDArray[np.float64],
    weight: NDArray[np.float64],
    allowed: NDArray[np.int64],
) -> _Tree:
    """Return the tree whose leaves take up most of `slope`, chosen level by level."""
    signs, thresholds = [0] * (2**DEPTH - 1), [NEVER] * (2**DEPTH - 1)
    node = np.zeros(bins.shape[1], dtype=np.int64)
    for level in range(DEPTH):
        count, first = 2**level, 2**level - 1
        gains, at_edge = np.zeros(count), np.full(count, -1)
        for sign in allowed:
            key, size = (node - first) * BINS + bins[sign], count * BINS
            below = [
                np.bincount(key, weights=part, minlength=size).reshape(count, BINS).cumsum(axis=1)
                for part in (slope, weight)
            ]
            gain = _gain(below[0], below[1])[:, : len(edges[sign])]
            if gain.shape[1] == 0:
                continue
            best = gain.argmax(axis=1)
            for here in np.flatnonzero(gain[np.arange(count), best] > gains):
                gains[here], at_edge[here], signs[first + here] = gain[here, best[here]], best[here], int(sign)
        for parent in range(count):
            if at_edge[parent] >= 0:
                thresholds[first + parent] = float(edges[signs[first + parent]][at_edge[parent]])
        chosen = np.array(signs)[node]
        over = bins[chosen, np.arange(bins.shape[1])] > at_edge[node - first]
        node = 2 * node + 1 + (over & (at_edge[node - first] >= 0))
    leaf = node - (2**DEPTH - 1)
    sums = [np.bincount(leaf, weights=part, minlength=2**DEPTH) for part in (slope, weight)]
    return _Tree(signs, thresholds, list(RATE * sums[0] / (sums[1] + SHRINK)))


def _gain(slope: NDArray[np.float64], weight: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return what a question after each bin takes up; 0 where a side would have too little weight."""
    all_slope, all_weight = slope[:, -1:], weight[:, -1:]
    gain = (
        slope**2 / (weight + SHRINK)
        + (all_slope - slope) ** 2 / (all_weight - weight + SHRINK)
        - all_slope**2 / (all_weight + SHRINK)
    )
    return np.where((weight >= LEAST_WEIGHT) & (all_weight - weight >= LEAST_WEIGHT), gain, 0.0)
