"""How often the router is right, beside the trivial rule, and whether its confidence is calibrated."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from knowledge.index.embed.static import StaticEmbedder
from knowledge.search.answers import QuestionRoute, RouteMode
from knowledge.search.route.router import Router
from knowledge.search.route.second_opinion import UNSURE
from tests.benchmarks.routing.questions import Half, Labelled, questions
from tests.support.state.memory.index import MemoryIndexStore

_TRIVIAL = re.compile(r"\S/\S|^\s*(?:where|list|show|open|what's in)\b", re.IGNORECASE)
_BANDS = ((0.5, 0.7), (0.7, 0.85), (0.85, 0.95), (0.95, 1.01))


@dataclass(frozen=True, slots=True)
class Judged:
    """A labelled question, the router's route, and the trivial rule's."""

    asked: Labelled
    taken: QuestionRoute
    trivial: RouteMode

    @property
    def right(self) -> bool:
        """Return whether the router chose the person's route."""
        return self.taken.mode == self.asked.label


def trivial(query: str) -> RouteMode:
    """Return navigation for a path or for where, list, show, open, what's in at the beginning, else discovery."""
    return "navigation" if _TRIVIAL.search(query) else "discovery"


async def judged(half: Half) -> Sequence[Judged]:
    """Return every question of one half with its route, in a knowledge base without any place names."""
    embedder = StaticEmbedder()
    router = Router(MemoryIndexStore())
    await router.prepare(embedder)
    found: list[Judged] = []
    for asked in questions(half):
        vector = (await embedder.embed([asked.query]))[0]
        taken = await router.route(asked.query, "auto", named=(), vector=vector)
        found.append(Judged(asked, taken, trivial(asked.query)))
    return found


def accuracy(of: Iterable[bool]) -> float:
    """Return the share of True, 0 for nothing."""
    all_of = list(of)
    return sum(all_of) / len(all_of) if all_of else 0.0


async def report() -> str:
    """Return the tables of both halves as Markdown. The test half is shown in sums only, never by question."""
    tune, test = await judged("tune"), await judged("test")
    parts = [_by_group(tune, test), _confusion(test), _calibration([*tune, *test]), _second_opinion(tune, test)]
    errors, before = sum(not each.right for each in test), sum(each.trivial != each.asked.label for each in test)
    parts.append(f"Of the trivial rule's {before} errors on the test half {before - errors} are gone.")
    return "\n\n".join(parts)


def _by_group(tune: Sequence[Judged], test: Sequence[Judged]) -> str:
    groups: list[tuple[str, Callable[[Judged], bool]]] = [("all", lambda _: True)]
    groups += [(name, _is_in(name)) for name in ("en", "de", "es")]
    groups += [(name, _is_labelled(name)) for name in ("navigation", "discovery")]
    rows = ["| questions | tune | router | trivial | test | router | trivial |", "|---|---:|---:|---:|---:|---:|---:|"]
    for name, admits in groups:
        cells: list[str] = []
        for half in (tune, test):
            some = [each for each in half if admits(each)]
            cells.append(str(len(some)))
            cells.append(f"{accuracy(each.right for each in some):.3f}")
            cells.append(f"{accuracy(each.trivial == each.asked.label for each in some):.3f}")
        rows.append(f"| {name} | {' | '.join(cells)} |")
    return "\n".join(rows)


def _is_in(language: str) -> Callable[[Judged], bool]:
    return lambda each: each.asked.language == language


def _is_labelled(label: str) -> Callable[[Judged], bool]:
    return lambda each: each.asked.label == label


def _confusion(test: Sequence[Judged]) -> str:
    counts = Counter((each.asked.label, each.taken.mode) for each in test)
    rows = ["| test half | taken for navigation | taken for discovery |", "|---|---:|---:|"]
    rows += [
        f"| is {label} | {counts[label, 'navigation']} | {counts[label, 'discovery']} |"
        for label in ("navigation", "discovery")
    ]
    return "\n".join(rows)


def _calibration(both: Sequence[Judged]) -> str:
    rows = ["| confidence | questions | said | right |", "|---|---:|---:|---:|"]
    for low, high in _BANDS:
        band = [each for each in both if low <= each.taken.confidence < high]
        said = sum(each.taken.confidence for each in band) / max(len(band), 1)
        rows.append(
            f"| {low:.2f} to {min(high, 1.0):.2f} | {len(band)} | {said:.2f} | {accuracy(e.right for e in band):.2f} |"
        )
    return "\n".join(rows)


def _second_opinion(tune: Sequence[Judged], test: Sequence[Judged]) -> str:
    """Return how often a second opinion is asked for, and the gain from one with this accuracy."""
    rows = [
        "| second opinion | questions | asked about | right without it | all right, if it is right in 70 % | 85 % | always |",
        "|---|---:|---:|---:|---:|---:|---:|",
    ]
    for name, half in (("tune", tune), ("test", test)):
        unsure = [each for each in half if each.taken.confidence < UNSURE]
        own = sum(each.right for each in unsure)
        sure = sum(each.right for each in half) - own
        cells = [f"{(sure + share * len(unsure)) / len(half):.3f}" for share in (0.7, 0.85, 1.0)]
        rows.append(f"| {name} | {len(half)} | {len(unsure)} | {own} | {' | '.join(cells)} |")
    return "\n".join(rows)
