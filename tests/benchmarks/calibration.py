"""Fit and measure the scores of hits: of the pages that a search says answer with probability p, the share p should answer.

    python -m tests.benchmarks.calibration COLLECTION... [--fit] [--write-doc]

Collections as in `tests.benchmarks.collections_read`. Of half of the questions the pages that answer are taken out, so that none
answers; a file `unanswerable.jsonl` adds questions of other fields. With `--fit` the weights of later pages are fitted, and the
constants for `knowledge/search/scent/verdict.py` are printed. Every collection is measured with weights fitted on the others.
"""

from __future__ import annotations

import argparse
import json
import math
import random
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import anyio
import numpy as np
from numpy.typing import NDArray

from knowledge.index.embed.static import StaticEmbedder
from knowledge.index.engines.fts5 import Fts5KeywordIndex
from knowledge.search import finder as search
from knowledge.search.finder import Finder
from knowledge.search.query.corrections import Vocabularies
from knowledge.search.ranking.ranker import Engines, Ranking
from knowledge.search.scent.signs import ScentSigns
from knowledge.search.scent.verdict import DIGITS, LATER, LATER_BIAS, later_signs
from mcp_server.app.factories.keywords import indexed_terms, name_terms
from mcp_server.app.freshness.index_update import bring_up_to_date, held_lease
from mcp_server.app.knowledge_base import KnowledgeBase, open_base
from mcp_server.app.settings.settings import Settings
from tests.benchmarks.collections_read import Collection, read
from tests.benchmarks.handbook import write_section
from tests.benchmarks.scent import logistic

MOST_ASKED, MOST_FOREIGN = 100, 100
"""Questions asked of a collection, and questions of other fields."""
LIMIT = 10
TOKENS = 4_000
"""Room for ten hits, so that the same pages are measured whatever their titles are."""
SEED = 3
ENGINES = ("tantivy", "SQLite FTS5", "ranks joined, as of a server")
INTRODUCTION = """## Scores

Whether the score of a hit is the share of pages that answer (`python -m tests.benchmarks.calibration COLLECTION... --fit
--write-doc`): 23 public collections in 10 languages, from documentation and FAQ to encyclopedias and abstracts. About half of the
questions have no answer.
A page is right if people judged it relevant. *Before* is the share of the best score, which was shown until then.
*Brier* is the mean squared error, 0 is best; *ECE* is the mean distance between said and right over ten bins.
The weights of later pages that judge a collection were fitted on all others; those of the first page are the verdict's.
""".splitlines()
Numbers = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class PageSaid:
    """A shown page: its score before and now, and whether it is right. `place` counts pages from 1."""

    collection: str
    engine: str
    question: int
    place: int
    before: float
    now: float
    signs: Mapping[str, float]
    right: bool


@contextmanager
def noted() -> Iterator[list[Ranking]]:
    """Keep the ranking of every answer meanwhile."""
    kept: list[Ranking] = []
    scores: Callable[..., dict[int, float]] = vars(search)["page_scores"]

    def noting(signs: ScentSigns, ranking: Ranking) -> dict[int, float]:
        kept.append(ranking)
        return scores(signs, ranking)

    vars(search)["page_scores"] = noting  # measures the same search that the server uses
    try:
        yield kept
    finally:
        vars(search)["page_scores"] = scores


async def said_of(path: Path) -> list[PageSaid]:
    """Return all pages that are shown for questions about the collection at `path`, by every engine."""
    collection = read(path)
    chance = random.Random(SEED)
    asked, gone = _halved(collection, chance)
    with tempfile.TemporaryDirectory() as folder:
        names = {f"{number:06}.md": page for number, page in enumerate(p for p in collection.pages if p not in gone)}
        kb = Path(folder) / "kb"
        kb.mkdir()
        for name, page in names.items():
            (kb / name).write_text(collection.pages[page].markdown, encoding="utf-8", errors="replace")
        async with open_base(replace(Settings(kb=kb), state_dir=Path(folder) / "state")) as base:
            async with held_lease(base) as lease:
                if lease is None:
                    raise RuntimeError("somebody else indexes this folder")
                await bring_up_to_date(base, lease)
                # Again, because on a busy machine the first run may have left vectors for later.
                await bring_up_to_date(base, lease)
            questions = [*asked, *_foreign(path, chance)]
            found: list[PageSaid] = []
            for engine, finder in (await _finders(base, Path(folder))).items():
                found += await _asked(collection, engine, finder, questions, names)
            return found


def _halved(collection: Collection, chance: random.Random) -> tuple[list[tuple[str, Mapping[str, float]]], set[str]]:
    """Return questions with the grades of their pages, and the pages that are taken out so that half have no answer."""
    judged = sorted(query for query in collection.queries if collection.grades.get(query))
    without = {query for query in judged if chance.random() < 0.5}
    kept = {page for query in judged if query not in without for page in collection.grades[query]}
    gone = {page for query in without for page in collection.grades[query]} - kept
    chance.shuffle(judged)
    return [(collection.queries[query], collection.grades[query]) for query in judged[:MOST_ASKED]], gone


def _foreign(path: Path, chance: random.Random) -> list[tuple[str, Mapping[str, float]]]:
    file = path / "unanswerable.jsonl"
    rows = (
        [json.loads(line) for line in file.read_text(encoding="utf-8").split("\n") if line.strip()]
        if file.is_file()
        else []
    )
    chance.shuffle(rows)
    return [(row["text"], {}) for row in rows[:MOST_FOREIGN]]


async def _finders(base: KnowledgeBase, folder: Path) -> dict[str, Finder]:
    """Return a finder for each of `ENGINES`."""
    sqlite = Fts5KeywordIndex(folder / "words.fts5.db", indexed_terms, name_terms)
    await sqlite.catch_up(base.index)
    near = Vocabularies(StaticEmbedder().is_usual_word).near

    async def by_sqlite() -> Engines:
        return replace(await base.engines(), keyword=sqlite)

    async def by_ranks() -> Engines:
        return replace(await base.engines(), ours=False)

    return {
        name: Finder(base.index, engines, near, answer_tokens=TOKENS)
        for name, engines in zip(ENGINES, (base.engines, by_sqlite, by_ranks), strict=True)
    }


async def _asked(
    collection: Collection,
    engine: str,
    finder: Finder,
    questions: Sequence[tuple[str, Mapping[str, float]]],
    names: Mapping[str, str],
) -> list[PageSaid]:
    found = []
    with noted() as kept:
        for number, (query, grades) in enumerate(questions):
            answer = await finder.search(query, mode="discovery", limit=LIMIT)
            if not answer.hits:
                continue
            ranking = kept[-1]
            now = {hit.path: hit.score for hit in answer.hits}
            for place, (_, seq, values) in enumerate(later_signs(ranking), 1):
                path = ranking.rows[seq].path
                if path in now:
                    right = grades.get(names[path], 0) > 0
                    before = ranking.scores[seq]
                    found.append(PageSaid(collection.name, engine, number, place, before, now[path], values, right))
    return found


# --- fitting ----------------------------------------------------------------------------------------------------------


def fitted(said: Sequence[PageSaid]) -> Numbers:
    """Return bias and weights, as in `LATER`, for the pages after the first; every collection counts by the root of its pages."""
    later = [one for one in said if one.place > 1]
    signs = np.array([[one.signs[name] for name in LATER] for one in later])
    right = np.array([one.right for one in later], dtype=float)
    return logistic(signs, right, _weights(later))


def judged_by(said: Sequence[PageSaid], weights: Numbers) -> list[PageSaid]:
    """Return `said` with the scores that later pages get by these weights; no page is above one before it."""
    found: list[PageSaid] = []
    least = 1.0
    for one in said:
        likely = one.now
        if one.place > 1:
            sum_ = weights[0] + sum(w * one.signs[name] for w, name in zip(weights[1:], LATER, strict=True))
            likely = min(least, round(1 / (1 + math.exp(-float(sum_))), DIGITS))
        least = likely
        found.append(replace(one, now=likely))
    return found


def apart(said: Sequence[PageSaid]) -> list[PageSaid]:
    """Return `said` with every collection judged by weights fitted on the others."""
    found: list[PageSaid] = []
    for name in dict.fromkeys(one.collection for one in said):
        weights = fitted([one for one in said if one.collection != name])
        found += judged_by([one for one in said if one.collection == name], weights)
    return found


def _weights(said: Sequence[PageSaid]) -> Numbers:
    count: dict[str, int] = {}
    for one in said:
        count[one.collection] = count.get(one.collection, 0) + 1
    weights: Numbers = np.array([count[one.collection] ** -0.5 for one in said])
    weights /= weights.mean()
    return weights


# --- measuring --------------------------------------------------------------------------------------------------------


def brier(said: Numbers, right: Numbers, weights: Numbers) -> float:
    """Return the mean squared difference."""
    return float(np.average((said - right) ** 2, weights=weights))


def bins(said: Numbers, right: Numbers, weights: Numbers) -> list[tuple[float, float, float]]:
    """Return for each tenth from 0 to 1 that something was said in: its share of all, what was said, and how much was right."""
    tenth = np.minimum((said * 10).astype(int), 9)
    found = []
    for at in range(10):
        these = tenth == at
        if these.any():
            of = weights[these]
            mean = (float(np.average(values[these], weights=of)) for values in (said, right))
            found.append((float(of.sum() / weights.sum()), *mean))
    return [(share, first, second) for share, first, second in found]


def distance(said: Numbers, right: Numbers, weights: Numbers) -> float:
    """Return the expected calibration error: the mean distance of said and right over the tenths."""
    return sum(share * abs(first - second) for share, first, second in bins(said, right, weights))


def table(said: Sequence[PageSaid]) -> list[str]:
    """Return two Markdown tables: the errors before and now, and the tenths of what is said now."""
    lines = [
        "| engine | pages | shown | right | Brier before | now | ECE before | now |",
        "| --- | --- | ---: | ---: | ---: | ---: | ---: | ---: |",
    ]
    for engine in ENGINES:
        for which, these in (
            ("first", [one for one in said if one.engine == engine and one.place == 1]),
            ("all", [one for one in said if one.engine == engine]),
        ):
            before, now, right, weights = _columns(these)
            errors = [f(values, right, weights) for f in (brier, distance) for values in (before, now)]
            share = np.average(right, weights=weights)
            lines.append(
                f"| {engine} | {which} | {len(these):,} | {share:.0%} | {' | '.join(f'{e:.3f}' for e in errors)} |"
            )
    lines += ["", "| said now | " + " | ".join(f".{at}-" for at in range(10)) + " |", "| --- |" + " ---: |" * 10]
    for engine in ENGINES:
        for which, these in (
            ("first", [one for one in said if one.engine == engine and one.place == 1]),
            ("all", [one for one in said if one.engine == engine]),
        ):
            _, now, right, weights = _columns(these)
            cells = {int(min(first, 0.999) * 10): f"{second:.2f}" for _, first, second in bins(now, right, weights)}
            lines.append(f"| {engine}, {which}: right | " + " | ".join(cells.get(at, "-") for at in range(10)) + " |")
    return lines


def _columns(said: Sequence[PageSaid]) -> tuple[Numbers, Numbers, Numbers, Numbers]:
    before, now, right = (
        np.array([float(value) for value in values])
        for values in ([one.before for one in said], [one.now for one in said], [one.right for one in said])
    )
    return before, now, right, _weights(said)


async def _all(paths: Sequence[Path]) -> list[PageSaid]:
    found: list[PageSaid] = []
    for path in paths:
        found += await said_of(path)
        print(f"{path.name}: {len(found):,} pages so far", file=sys.stderr, flush=True)
    return found


def main() -> int:
    """Print tables, and constants with `--fit`."""
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks.calibration", description=__doc__)
    parser.add_argument("collections", nargs="+", type=Path, metavar="COLLECTION")
    parser.add_argument("--fit", action="store_true", help="fit the weights of later pages and print them")
    parser.add_argument("--write-doc", action="store_true", help="write the section of the handbook")
    args = parser.parse_args()
    said: list[PageSaid] = anyio.run(_all, args.collections)
    if args.fit:
        bias, *weights = (round(float(one), 2) for one in fitted(said))
        print(f"LATER_BIAS = {bias}\nLATER = {dict(zip(LATER, weights, strict=True))}")
        said = apart(said)
    else:
        print(f"measured with LATER_BIAS = {LATER_BIAS}, LATER = {LATER}")
    lines = table(said)
    print("\n".join(lines))
    if args.write_doc:
        write_section("scores", [*INTRODUCTION, "", *lines])
    return 0


if __name__ == "__main__":
    sys.exit(main())
