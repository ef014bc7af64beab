"""How well pages in scripts without spaces are found by keywords alone, for each way of cutting them.

    python -m tests.benchmarks.unspaced

The judged sets in `languages/` were written for this: 26 short pages and 18 questions a language, each answered by one
page. `long` puts six pages at random into each of eighty, because chunks of real pages have more than one subject.
"""

from __future__ import annotations

import math
import random
import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from knowledge.evaluate.metrics import mean, ndcg
from knowledge.search.query.analysis import analyzer

FOLDER = Path(__file__).parent / "languages"
LANGUAGES = ("zh", "ja", "ko", "th")
K1, B = 1.2, 0.75
LONG_PAGES, PARTS, SEEDS = 80, 6, 4

Cut = Callable[[str], Sequence[str]]
Judged = Sequence[tuple[str, frozenset[str]]]


def load(language: str) -> tuple[dict[str, str], dict[str, str]]:
    """Return the pages by name, and by each question the name of the page that answers it."""
    rows = [line.split("\t") for line in (FOLDER / f"{language}.txt").read_text(encoding="utf-8").splitlines()]
    return {row[0]: row[1] for row in rows if row[0] != "?"}, {row[1]: row[2] for row in rows if row[0] == "?"}


def short(language: str, cut: Cut) -> float:
    """Return nDCG@10 over the pages as they are."""
    pages, asked = load(language)
    return measured(pages, [(question, frozenset([page])) for question, page in asked.items()], cut)


def long(language: str, cut: Cut) -> float:
    """Return nDCG@10 over pages composed of six of them each, the mean of four drawings."""
    pages, asked = load(language)
    found = []
    for seed in range(SEEDS):
        draw = random.Random(seed)
        parts = {str(number): draw.sample(list(pages), PARTS) for number in range(LONG_PAGES)}
        joined = {name: "\n".join(pages[part] for part in held) for name, held in parts.items()}
        judged = [(q, frozenset(n for n, held in parts.items() if page in held)) for q, page in asked.items()]
        found.append(measured(joined, judged, cut))
    return mean(found)


def measured(pages: Mapping[str, str], judged: Judged, cut: Cut) -> float:
    """Return the mean nDCG@10 of `judged` questions, ranked by BM25 over the terms that `cut` makes of a text."""
    counts = {name: Counter(cut(text)) for name, text in pages.items()}
    lengths = {name: sum(found.values()) for name, found in counts.items()}
    average = mean([float(length) for length in lengths.values()])
    spread = Counter(term for found in counts.values() for term in found)

    def score(name: str, term: str) -> float:
        often = counts[name][term]
        rarity = math.log(1 + (len(pages) - spread[term] + 0.5) / (spread[term] + 0.5))
        return rarity * often * (K1 + 1) / (often + K1 * (1 - B + B * lengths[name] / average))

    def ranked(question: str) -> list[str]:
        terms = set(cut(question))
        scores = {name: sum(score(name, term) for term in terms & found.keys()) for name, found in counts.items()}
        return sorted((name for name in scores if scores[name]), key=lambda name: (-scores[name], name))

    return mean([ndcg(ranked(question), dict.fromkeys(answers, 1.0)) for question, answers in judged])


def ours(language: str) -> Cut:
    """Return how an index cuts a text of that language."""
    return analyzer(language).terms


def code_points(text: str) -> list[str]:
    """Return every character and every pair of them, marks counted as characters: the earlier way."""
    return [run[at : at + n] for run in re.findall(r"[^\s.,?0-9]+", text) for at in range(len(run)) for n in (1, 2)]


def main() -> None:
    """Print a table."""
    print("language  pages  ours   code points")
    for language in LANGUAGES:
        for kind, measure in (("short", short), ("long", long)):
            print(
                f"{language:8}  {kind:5}  {measure(language, ours(language)):.3f}  {measure(language, code_points):.3f}"
            )


if __name__ == "__main__":
    main()
