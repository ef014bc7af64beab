"""Measures whether use can replace judgements, on the labelled questions about this handbook.

    python -m tests.benchmarks.use

Readers are simulated: they ask questions with known answers, look at a hit with a probability that falls with its rank,
and read it with one that depends on whether it answers. Their events become labels by the rules of `eval --from-use`.
Measured is how well the labels order ranking variants, compared with the judgements, and the effect of fitting: with
good weights in use, with bad ones, and with readers who read at random.
"""

from __future__ import annotations

import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import anyio
import numpy as np
from numpy.typing import NDArray

from knowledge.evaluate.metrics import ndcg
from knowledge.evaluate.queries import read_queries
from knowledge.evaluate.use.fit import candidates, fit
from knowledge.evaluate.use.labels import UseLabel, labels
from knowledge.evaluate.use.measure import DEPTH, DEPTH_NDCG
from knowledge.search.ranking.weights import DEFAULT_WEIGHTS, RankingWeights
from knowledge.search.use.events import AskedQuestion, PageUse, SearchedFor, UsingSession
from mcp_server.app.freshness.index_update import bring_up_to_date, held_lease
from mcp_server.app.knowledge_base import open_base
from mcp_server.app.settings.settings import Settings
from tests.benchmarks.handbook import write_section
from tests.benchmarks.processes import ROOT
from tests.benchmarks.question_set import load

SHOWN = 8
SEEDS, SEEDS_AT_RANDOM = 20, 50
TIMES = 4
VISITS = 400
BEGAN = datetime(2026, 1, 1, tzinfo=UTC)
WORDS_ONLY = RankingWeights(cosine=0.0, coverage=0.0)
NAMES_FIRST = RankingWeights(names=1.5)
MEANING_FIRST = RankingWeights(cosine=6.0, coverage=0.0)
IN_USE = {
    "the usual weights": DEFAULT_WEIGHTS,
    "words only": WORDS_ONLY,
    "names first": NAMES_FIRST,
    "meaning first": MEANING_FIRST,
}


@dataclass(frozen=True)
class Truth:
    """Questions with the true grade of each page, and the pages that each variant of ranking returns for each question."""

    questions: Sequence[str]
    grades: Sequence[Mapping[str, float]]
    variants: Sequence[RankingWeights]
    pages: Sequence[Sequence[Sequence[str]]]
    """By question and variant."""

    def repeated(self, times: int) -> Truth:
        """Return this many times as many questions of the same kind, each about pages of its own."""

        def named(number: int, pages: Sequence[str]) -> list[str]:
            return [f"{number}/{page}" for page in pages]

        return Truth(
            [f"{question} {number}" for number in range(times) for question in self.questions],
            [
                dict(zip(named(number, list(grades)), grades.values(), strict=True))
                for number in range(times)
                for grades in self.grades
            ],
            self.variants,
            [[named(number, pages) for pages in found] for number in range(times) for found in self.pages],
        )

    @property
    def quality(self) -> NDArray[np.float64]:
        """True nDCG@10 by question and variant."""
        return np.array(
            [[ndcg(p, g, DEPTH_NDCG) for p in pages] for g, pages in zip(self.grades, self.pages, strict=True)]
        )


@dataclass(frozen=True)
class Readers:
    """How readers behave: the probability of looking at rank r is r ** -`bias`.

    The other two are those of reading an answer and a non-answer.

    One who has found no answer finds it by other means with the probability `persistence`.
    """

    bias: float = 1.0
    reads_answer: float = 0.8
    reads_other: float = 0.1
    persistence: float = 0.3


AT_RANDOM = Readers(reads_answer=0.3, reads_other=0.3, persistence=0.0)


def questions() -> tuple[list[str], list[Mapping[str, float]]]:
    """Return the answerable questions about the handbook, and the grade of each page that answers."""
    found: dict[str, Mapping[str, float]] = {}
    for asked in load("kb"):
        if asked.answers:
            found[asked.question] = {page: 1.0 for page, _ in asked.answers}
    file = Path(__file__).parent / "handbook_queries.jsonl"
    for query in read_queries(file.read_text(encoding="utf-8"), file.name):
        grades: dict[str, float] = {}
        for place in query.relevant:
            path = place.path if place.path.endswith(".md") else f"{place.path}.md"
            grades[path] = max(place.grade, grades.get(path, 0.0))
        if grades:
            found[query.query] = grades
    return list(found), list(found.values())


async def truth(folder: Path) -> Truth:
    """Return every variant's results for every question about the handbook."""
    texts, grades = questions()
    variants = list(dict.fromkeys([*candidates(DEFAULT_WEIGHTS), *IN_USE.values()]))
    settings = Settings(kb=ROOT / "kb", state_dir=folder)
    pages: list[list[list[str]]] = [[] for _ in texts]
    async with open_base(settings) as base:
        async with held_lease(base, wait_s=30.0) as lease:
            assert lease is not None
            await bring_up_to_date(base, lease)
        for variant in variants:
            for text, found in zip(texts, pages, strict=True):
                found.append(await base.finder.ranked_pages(text, most=DEPTH, weights=variant))
    return Truth(texts, grades, variants, pages)


def used(known: Truth, in_use: int, readers: Readers, seed: int, visits: int = VISITS) -> list[UseLabel]:
    """Return the labels from this many questions that simulated readers ask while the variant `in_use` answers."""
    draw = np.random.default_rng(seed)
    asked: list[AskedQuestion] = []
    uses: list[PageUse] = []
    for visit in range(visits):
        at = BEGAN + timedelta(hours=visit)
        session = UsingSession("reader", "", str(visit))
        number = int(draw.integers(len(known.questions)))
        grades, shown = known.grades[number], known.pages[number][in_use][:SHOWN]
        asked.append(AskedQuestion(at, session, SearchedFor(known.questions[number]), "discovery", tuple(shown)))
        satisfied = False
        for rank, page in enumerate(shown, 1):
            if satisfied or draw.random() > rank**-readers.bias:
                continue
            share = grades.get(page, 0.0) / max(grades.values())
            if draw.random() < readers.reads_other + (readers.reads_answer - readers.reads_other) * share:
                at += timedelta(seconds=20)
                uses.append(PageUse(at, session, page))
                satisfied = share > 0 and draw.random() < share
        if not satisfied and draw.random() < readers.persistence:
            best = max(grades, key=lambda path: (grades[path], path))
            uses.append(PageUse(at + timedelta(seconds=20), session, best))
    return labels(asked, uses)


def label_quality(known: Truth, found: Sequence[UseLabel]) -> NDArray[np.float64]:
    """Return nDCG@10 by label and variant, with the labels as judgements."""
    number = {text: at for at, text in enumerate(known.questions)}
    return np.array(
        [
            [ndcg(pages, label.grades, DEPTH_NDCG) for pages in known.pages[number[label.asked_for.query]]]
            for label in found
        ]
    )


def uncorrected(found: Sequence[UseLabel]) -> list[UseLabel]:
    """Return the labels with every use counted once, whatever its rank."""
    return [replace(label, grades=dict.fromkeys(label.grades, 1.0)) for label in found]


def tau(one: NDArray[np.float64], other: NDArray[np.float64]) -> float:
    """Return Kendall's tau-b of two scorings of the same variants: 1 if they agree on every pair, 0 by chance."""
    pairs = np.triu_indices(len(one), 1)
    a, b = (np.sign(np.round(np.subtract.outer(x, x)[pairs], 9)) for x in (one, other))
    return float((a * b).sum() / np.sqrt((a != 0).sum() * (b != 0).sum()))


def agreement(known: Truth, in_use: int, readers: Readers, visits: int) -> tuple[float, float, float]:
    """Return tau with the judgements (corrected and uncorrected labels), and the number of labels, as means over seeds."""
    true = known.quality.mean(axis=0)
    found = []
    for seed in range(SEEDS):
        made = used(known, in_use, readers, seed, visits)
        taus = []
        for chosen in (made, uncorrected(made)):
            weights = np.array([label.weight for label in chosen])
            taus.append(tau(weights @ label_quality(known, chosen) / weights.sum(), true))
        found.append((*taus, float(len(made))))
    first, second, count = np.mean(found, axis=0)
    return float(first), float(second), float(count)


def fitted(
    known: Truth, in_use: int, readers: Readers, visits: int, seeds: int = SEEDS
) -> tuple[float, float, float, float]:
    """Return how often weights were offered, their true gain (mean, worst), and the reported gain."""
    true = known.quality.mean(axis=0)
    tried = candidates(known.variants[in_use])
    columns = [known.variants.index(one) for one in tried]
    gains, reported = [], []
    for seed in range(seeds):
        made = used(known, in_use, readers, seed, visits)
        done = fit(made, tried, label_quality(known, made)[:, columns])
        if not done.refused and done.gain is not None:
            gains.append(float(true[known.variants.index(done.best)] - true[in_use]))
            reported.append(done.gain.mean)
    if not gains:
        return 0.0, 0.0, 0.0, 0.0
    return len(gains) / seeds, float(np.mean(gains)), min(gains), float(np.mean(reported))


def main() -> None:
    """Measure, and write the section of the handbook."""
    with tempfile.TemporaryDirectory() as folder:
        known = anyio.run(truth, Path(folder))
    true = known.quality.mean(axis=0)
    many = known.repeated(TIMES)
    lines = [
        "## Learning from use",
        "",
        (
            "Whether [use](../guides/measure-search.md#measure-with-your-own-use) can stand in for judgements "
            f"(`python -m tests.benchmarks.use`). {len(known.questions)} questions about this handbook whose answers are known, asked "
            f"{VISITS} times by simulated readers. {len(known.variants)} ranking variants, whose true nDCG@10 is {true.min():.3f} to "
            f"{true.max():.3f}. Means of {SEEDS} repetitions."
        ),
        "",
        "How well labels order the variants, as Kendall's tau with the order by the judgements (1: the same, 0: chance):",
        "",
        "| weights in use | true nDCG@10 | chance that rank r is looked at | labels | tau | tau, each use counted once |",
        "| --- | ---: | --- | ---: | ---: | ---: |",
    ]
    for name, weights in IN_USE.items():
        at = known.variants.index(weights)
        for bias in (0.5, 1.0):
            corrected, once, count = agreement(known, at, Readers(bias=bias), VISITS)
            lines.append(f"| {name} | {true[at]:.3f} | r^-{bias:g} | {count:.0f} | {corrected:.2f} | {once:.2f} |")
            print(lines[-1], flush=True)
    lines += [
        "",
        (
            f"What fitting does. *{TIMES} times*: as many questions of the same kind, each about pages of its own, asked "
            f"{TIMES} times as often; new questions would differ more. *At random*: readers read a hit that they look at "
            "with a chance of 0.3, whatever it says."
        ),
        "",
        "| weights in use | readers | weights offered | their true gain: mean, worst | gain reported |",
        "| --- | --- | ---: | --- | ---: |",
    ]
    for name, weights in IN_USE.items():
        at = known.variants.index(weights)
        cases = (
            ("r^-0.5", known, Readers(bias=0.5), VISITS, SEEDS),
            ("r^-1", known, Readers(bias=1.0), VISITS, SEEDS),
            (f"r^-0.5, {TIMES} times", many, Readers(bias=0.5), VISITS * TIMES, SEEDS),
            (f"r^-1, {TIMES} times", many, Readers(bias=1.0), VISITS * TIMES, SEEDS),
            ("at random", known, AT_RANDOM, VISITS, SEEDS_AT_RANDOM),
            (f"at random, {TIMES} times", many, AT_RANDOM, VISITS * TIMES, SEEDS_AT_RANDOM),
        )
        for who, base, readers, visits, seeds in cases:
            offered, mean, worst, reported = fitted(base, at, readers, visits, seeds)
            gains = f"{mean:+.3f}, {worst:+.3f} | {reported:+.3f}" if offered else "|"
            lines.append(f"| {name} | {who} | {offered:.1%} | {gains} |")
            print(lines[-1], flush=True)
    write_section("use", lines)


if __name__ == "__main__":
    main()
