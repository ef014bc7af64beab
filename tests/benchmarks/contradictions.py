"""How well contradictions are distinguished from agreement and from other subjects, beside a trivial baseline.

    python -m tests.benchmarks.contradictions

The labelled pairs are in `tests/unit/merge/claims/contradictions.jsonl`; half of their source repositories were only
used for testing. The baseline calls it a contradiction if half of the words are the same and the figures are not.
"""

from __future__ import annotations

import json
import re
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from statistics import median

from knowledge.merge.claims.claim import claim, unread_statements
from knowledge.merge.claims.contradiction import compare, contradictions
from knowledge.merge.document.units import cut, units
from tests.benchmarks.processes import ROOT

PAIRS = Path(__file__).parents[1] / "unit" / "merge" / "claims" / "contradictions.jsonl"

HELD_OUT = frozenset(
    (
        "nginx/nginx.org",
        "caddyserver/website",
        "apache/couchdb-documentation",
        "python/peps",
        "18F/handbook",
        "etcd-io/website",
        "bundestag/gesetze",
        "evcc-io/docs",
    )
)
"""Repositories whose pairs were not looked at while words and limits were chosen."""

OVERLAP = 0.5
PAGE_LINES, NEW_UNITS, ROUNDS = 2_000, 20, 9


@dataclass(frozen=True, slots=True)
class Pair:
    """Two statements and a person's label for the pair.

    `source` is repository, path and commit; `origin` says whether both sides existed there (`revisions`), in successive
    revisions or beside each other, or one was written from the other (`written`).
    """

    existing: str
    new: str
    label: str
    kind: str
    domain: str
    language: str
    source: str
    origin: str

    @property
    def is_held_out(self) -> bool:
        """Return whether it comes from a repository that was only used for testing."""
        return self.source.split()[0] in HELD_OUT


@dataclass(frozen=True, slots=True)
class Figures:
    """Precision, the share of pairs called contradictions that are, and recall, the share of contradictions found."""

    pairs: int
    precision: float
    recall: float

    @property
    def f1(self) -> float:
        """Return the harmonic mean of both."""
        both = self.precision + self.recall
        return 2 * self.precision * self.recall / both if both else 0.0


@cache
def load() -> tuple[Pair, ...]:
    """Return the labelled pairs, in the order of the file."""
    return tuple(Pair(**json.loads(line)) for line in PAIRS.read_text(encoding="utf-8").splitlines())


@cache
def verdict(pair: Pair) -> tuple[str, str]:
    """Return the server's label for the two, and what differs."""
    found = compare(pair.existing, pair.new)
    return found.relation, found.kind


def ours(pair: Pair) -> bool:
    """Return whether the server calls it a contradiction."""
    return verdict(pair)[0] == "contradict"


def baseline(pair: Pair) -> bool:
    """Return whether half of the words are the same and the figures are not."""
    left, right = (frozenset(re.findall(r"[^\W\d_]+", text.casefold())) for text in (pair.existing, pair.new))
    figures = [re.findall(r"\d+", text) for text in (pair.existing, pair.new)]
    return len(left & right) >= OVERLAP * len(left | right) and figures[0] != figures[1]


def figures(pairs: Iterable[Pair], judge: Callable[[Pair], bool]) -> Figures:
    """Return precision and recall of `judge` for contradictions."""
    judged = [(pair.label == "contradict", judge(pair)) for pair in pairs]
    right = sum(is_one and called for is_one, called in judged)
    called, there = sum(called for _, called in judged), sum(is_one for is_one, _ in judged)
    return Figures(len(judged), right / called if called else 1.0, right / there if there else 1.0)


def of_kind(kind: str) -> Figures:
    """Return precision and recall for contradictions of that kind."""
    called = [pair.label == "contradict" for pair in load() if verdict(pair) == ("contradict", kind)]
    there = [ours(pair) for pair in load() if pair.kind == kind]
    return Figures(len(there), sum(called) / len(called) if called else 1.0, sum(there) / len(there))


def rows() -> list[tuple[str, Figures, Figures]]:
    """Return the table's lines: the set, our figures, and the baseline's."""
    pairs = load()
    groups: list[tuple[str, Sequence[Pair]]] = [
        ("all", pairs),
        ("tuned on", [pair for pair in pairs if not pair.is_held_out]),
        ("only tested on", [pair for pair in pairs if pair.is_held_out]),
        ("both sides from the source", [pair for pair in pairs if pair.origin == "revisions"]),
    ]
    groups += [(name, [pair for pair in pairs if pair.language == name]) for name in ("en", "de")]
    return [(name, figures(group, ours), figures(group, baseline)) for name, group in groups]


def kinds() -> list[tuple[str, Figures]]:
    """Return the second table's lines: the kind of difference, and how well it is found."""
    return [(name, of_kind(name)) for name in sorted({pair.kind for pair in load() if pair.kind})]


def forget() -> None:
    """Forget all parsed texts."""
    unread_statements.cache_clear()
    claim.cache_clear()


def compare_ms() -> float:
    """Return the CPU milliseconds of comparing two new statements, the median over the pairs."""
    spent = []
    for pair in load():
        forget()
        begin = time.process_time()
        compare(pair.existing, pair.new)
        spent.append(time.process_time() - begin)
    return 1000 * median(spent)


def page_ms() -> tuple[float, float]:
    """Return the CPU milliseconds of 20 units against a page of 2,000 lines.

    With claims to parse, and with known ones.
    """
    pages = [path.read_text(encoding="utf-8") for path in sorted((ROOT / "kb").rglob("*.md"))]
    page = units(cut("\n".join("\n\n".join(pages).splitlines()[:PAGE_LINES])))
    said = [unit for unit in page if unit.kind in ("paragraph", "item")]
    new = [unit._replace(text=re.sub(r"\d+", "77", unit.text)) for unit in said[:: len(said) // NEW_UNITS][:NEW_UNITS]]
    forget()
    spent = []
    for _ in range(ROUNDS):
        begin = time.process_time()
        contradictions(page, new)
        spent.append(time.process_time() - begin)
    return 1000 * spent[0], 1000 * median(spent[1:])


def main() -> int:
    """Print the tables."""
    print("| pairs | | precision | recall | F1 | baseline: precision | recall |")
    print("|---|---|---|---|---|---|---|")
    for name, mine, trivial in rows():
        print(
            f"| {name} | {mine.pairs} | {mine.precision:.3f} | {mine.recall:.3f} | {mine.f1:.3f} "
            f"| {trivial.precision:.3f} | {trivial.recall:.3f} |"
        )
    print("\n| what differs | contradictions | precision | recall | F1 |")
    print("|---|---|---|---|---|")
    for name, mine in kinds():
        print(f"| {name} | {mine.pairs} | {mine.precision:.2f} | {mine.recall:.2f} | {mine.f1:.2f} |")
    first, again = page_ms()
    print(f"\nCPU: {compare_ms():.2f} ms for two statements; {NEW_UNITS} units against {PAGE_LINES:,} lines", end=" ")
    print(f"{again:.0f} ms, {first:.0f} ms when the page is read first")
    return 0


if __name__ == "__main__":
    sys.exit(main())
