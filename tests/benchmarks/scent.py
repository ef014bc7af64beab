"""Fit and measure scent on labelled questions.

    python -m tests.benchmarks.scent kb=kb docs=FOLDER [--fit] [--write-doc]

An answer is right if a shown chunk holds the quote. With `--fit` the weights are fitted on the calibrating half, and
the constants for `knowledge/search/scent/verdict.py` are printed; without it the present constants are measured. The
other half is only ever measured.
"""

from __future__ import annotations

import argparse
import math
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import Any

import anyio
import numpy as np
from numpy.typing import NDArray

from knowledge.search import finder as search
from knowledge.search.answers import Scent, ScentLevel
from knowledge.search.scent.signs import ScentSigns
from knowledge.search.scent.verdict import WEIGHTS, level_of, strengths
from tests.benchmarks.handbook import write_section
from tests.benchmarks.question_set import Half, Labelled, load
from tests.benchmarks.served import Served, served

PENALTY = 2.0
WRONG_COSTS = 9
"""One wrong answer among those judged sufficient needs nine right ones to keep the promise."""
CHANCES = tuple(n / 100 for n in range(60, 96))
MOST_LOST = 0.08
"""The greatest share of right answers that may be called lost."""
COLUMNS = (
    "with answer",
    "answer in the hits",
    "then in a snippet",
    "judged sufficient",
    "of them right",
    "found ones judged sufficient",
    "found ones judged lost",
    "without answer",
    "of them judged lost or partial",
)
INTRODUCTION = """## Scent

How often the level of an answer is right (`python -m tests.benchmarks.scent kb=kb docs=FOLDER --write-doc`;
corpora and questions as under [Tokens](#tokens), and as many questions without an answer: from unrelated fields,
from the same field, and near misses). An answer is right if a shown passage contains the phrase. The constants
were fitted on the calibration half, chosen by a hash of the question's id, and on other manuals and collections
([decision 17](../decisions/0017-how-scent-is-judged.md)); the other half was only measured.
""".splitlines()
Numbers = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Judged:
    """A question, its answer's signs, and whether a shown chunk, and a shown snippet, contains the quote."""

    asked: Labelled
    signs: ScentSigns
    right: bool
    in_snippet: bool


@contextmanager
def noted() -> Iterator[list[ScentSigns]]:
    """Collect the signs of every answer that the server judges meanwhile."""
    kept: list[ScentSigns] = []
    judge: Callable[..., Scent] = vars(search)["judge"]

    def noting(signs: ScentSigns, *arguments: Any, **named: Any) -> Scent:
        kept.append(signs)
        return judge(signs, *arguments, **named)

    vars(search)["judge"] = noting  # no answer shows the signs, and the measured search must be the server's own
    try:
        yield kept
    finally:
        vars(search)["judge"] = judge


async def collect(corpora: dict[str, Path], state: Path | None = None) -> list[Judged]:
    """Return all labelled questions on `corpora` with their results; `state` as in `served`."""
    judged = []
    with noted() as kept:
        for corpus, folder in corpora.items():
            async with served(folder, state) as server:
                for asked in load(corpus):
                    hits = (await server.call("kb_search", query=asked.question)).said["hits"]
                    right = any(asked.answered_by(hit["path"], _lines(server, hit)) for hit in hits)
                    shown = any(asked.answered_by(hit["path"], hit["snippet"]) for hit in hits)
                    judged.append(Judged(asked, kept[-1], right, shown))
    return judged


def _lines(server: Served, hit: dict[str, Any]) -> str:
    text = (server.folder / hit["path"]).read_text(encoding="utf-8", errors="replace")
    return "\n".join(text.splitlines()[hit["line_start"] - 1 : hit["line_end"]])


def level(judged: Judged) -> ScentLevel:
    """Return an answer's level by the present constants."""
    return level_of(judged.signs)


def fit(judged: Sequence[Judged]) -> list[str]:
    """Return the constants that fit `judged` best, as lines of Python."""
    signs = np.array([tuple(strengths(j.signs).values()) for j in judged])
    right = np.array([j.right for j in judged], dtype=float)
    bias, *weights = logistic(signs, right, np.ones(len(right)))
    chances: Numbers = 1 / (1 + np.exp(-(bias + signs @ np.array(weights))))
    enough = max(CHANCES, key=lambda least: (_worth(right[chances >= least]), -least))
    lost = np.quantile(chances[right > 0], MOST_LOST)
    return [
        f"BIAS = {bias:.2f}",
        f"WEIGHTS = {dict(zip(WEIGHTS, (round(float(weight), 2) for weight in weights), strict=True))}",
        f"SUFFICIENT_FROM = {enough:.2f}",
        f"LOST_BELOW = {lost:.2f}",
    ]


def _worth(right: Numbers) -> float:
    """Return the right answers, less the cost of the wrong ones."""
    return float(right.sum() - WRONG_COSTS * (1 - right).sum())


def logistic(signs: Numbers, right: Numbers, count: Numbers) -> Numbers:
    """Return bias and weights by Newton's method with a ridge on standardised signs, converted to raw signs.

    `count` says how much each row counts.
    """
    middle, spread = signs.mean(axis=0), signs.std(axis=0) + 1e-9
    x = np.column_stack([np.ones(len(signs)), (signs - middle) / spread])
    ridge = PENALTY * np.diag([1e-9] + [1.0] * signs.shape[1])
    weights = np.zeros(x.shape[1])
    for _ in range(50):
        likely = 1 / (1 + np.exp(-x @ weights))
        slope = x.T @ (count * (right - likely)) - ridge @ weights
        weights = weights + np.linalg.solve((x.T * (count * likely * (1 - likely))) @ x + ridge, slope)
    plain = weights[1:] / spread
    return np.concatenate([[weights[0] - plain @ middle], plain])


def table(judged: Sequence[Judged]) -> list[str]:
    """Return a Markdown table: scent's results on each half of each corpus."""
    lines = [f"| half | corpus | {' | '.join(COLUMNS)} |", "| --- | --- |" + " ---: |" * len(COLUMNS)]
    halves: tuple[Half, ...] = ("calibrate", "test")
    corpora = list(dict.fromkeys(j.asked.corpus for j in judged))
    for half in halves:
        for corpus in [*corpora, "all"]:
            these = [j for j in judged if j.asked.half == half and corpus in (j.asked.corpus, "all")]
            lines.append(f"| {half} | {corpus} | " + " | ".join(_cells(these)) + " |")
    return lines


def _cells(judged: Sequence[Judged]) -> list[str]:
    answerable = [j for j in judged if j.asked.answerable]
    found = [j for j in answerable if j.right]
    without = [j for j in judged if not j.asked.answerable]
    enough = [j for j in judged if level(j) == "sufficient"]
    return [
        str(len(answerable)),
        _share(j.right for j in answerable),
        _share(j.in_snippet for j in found),
        str(len(enough)),
        _share(j.right for j in enough),
        _share(level(j) == "sufficient" for j in found),
        _share(level(j) == "lost" for j in found),
        str(len(without)),
        _share(level(j) != "sufficient" for j in without),
    ]


def _share(values: Iterator[bool]) -> str:
    known = list(values)
    return f"{fmean(known):.0%}" if known else "-"


def main() -> int:
    """Print constants or numbers; 1 if a promise is broken on the held-out half."""
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks.scent", description=__doc__)
    parser.add_argument("corpora", nargs="+", metavar="CORPUS=FOLDER")
    parser.add_argument("--fit", action="store_true", help="print the constants that suit the calibrating half")
    parser.add_argument("--write-doc", action="store_true", help="write the section of the handbook")
    args = parser.parse_args()
    corpora = {name: Path(folder).absolute() for name, _, folder in (given.partition("=") for given in args.corpora)}
    judged = anyio.run(collect, corpora)
    if args.fit:
        print("\n".join(fit([j for j in judged if j.asked.half == "calibrate"])))
    lines = table(judged)
    print("\n".join(lines))
    if args.write_doc:
        write_section("scent", [*INTRODUCTION, "", *lines])
    kept_apart = [j for j in judged if j.asked.half == "test"]
    enough = [j for j in kept_apart if level(j) == "sufficient"]
    without = [j for j in kept_apart if not j.asked.answerable]
    right = math.fsum(j.right for j in enough) >= 0.9 * len(enough)
    doubted = math.fsum(level(j) != "sufficient" for j in without) >= 0.8 * len(without)
    return 0 if right and doubted else 1


if __name__ == "__main__":
    sys.exit(main())
