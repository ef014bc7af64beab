"""What a language model as judge adds to the rules, with models of known opinion, or with the configured one.

    python -m tests.benchmarks.judged              models that are perfect, silent, noisy, contrary, or flag everything
    python -m tests.benchmarks.judged --model      the model named by FORGE_MODEL and its key; costs a few cents

Each labelled pair is merged into a page with other statements around it: `existing` is on the page, `new` comes from
another source. A pair that is not retrieved, and so not put to the judge, counts as missed. Two sets: the pairs that
the rules are measured with, and `tests/unit/merge/claims/contradictions_in_meaning.jsonl`, whose contradictions no rule
can see.
"""

from __future__ import annotations

import json
import os
import random
import sys
import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import cache, partial
from pathlib import Path

import anyio

from agents.loop.model.ports import Provider
from knowledge.index.embed.static import StaticEmbedder
from knowledge.merge.document.unit_origins import PageFacts
from knowledge.merge.document.units import cut, units
from knowledge.merge.evidence.confidence import DEFAULT_RULES
from knowledge.merge.evidence.merge import weigh
from knowledge.merge.evidence.undecided import Pair as Asked
from knowledge.merge.evidence.undecided import undecided
from knowledge.merge.model import Doubt, IncomingEvidence, MergePlan
from knowledge.merge.setting import MergeSetting
from mcp_server.app.factories.writer import Meaning
from mcp_server.app.settings.loader import load as settings_of
from mcp_server.models.contradiction_judge import ModelJudge
from mcp_server.models.language_model import ConfiguredModel
from mcp_server.models.questions import BoundedQuestions
from tests.benchmarks.contradictions import Figures, Pair, load
from tests.support.runs.judges import Opinion, Opinionated

IN_MEANING = Path(__file__).parents[1] / "unit" / "merge" / "claims" / "contradictions_in_meaning.jsonl"
NOW = datetime(2026, 11, 22, tzinfo=UTC)
AROUND = 30
"""Other statements on the page."""
ERRORS = 0.1
"""How often the noisy model is wrong."""
PATIENCE_S = 60.0
"""A measurement's limit for one answer, longer than a merge's."""


@dataclass(frozen=True, slots=True)
class Case:
    """A labelled pair on a page, and the judge's input when it is merged."""

    pair: Pair
    page: str
    asked: tuple[Asked, ...]


@dataclass(frozen=True, slots=True)
class Row:
    """A row of the table: what the rules and the judge flag, what the rules flag, and how much of that still is."""

    name: str
    both: Figures
    rules: Figures
    kept: float


words = cache(StaticEmbedder)


@cache
def in_meaning() -> tuple[Pair, ...]:
    """Return the pairs whose contradictions are in the meaning, all of them written for this."""
    rows = map(json.loads, IN_MEANING.read_text(encoding="utf-8").splitlines())
    return tuple(
        Pair(**row, kind="", domain="team", source=f"written {at}", origin="written") for at, row in enumerate(rows)
    )


@cache
def labelled() -> tuple[Pair, ...]:
    """Return the pairs for measuring the rules; without table rows, which are never put to a model."""
    return tuple(pair for pair in load() if not pair.existing.lstrip().startswith("|"))


@cache
def cases(pairs: tuple[Pair, ...]) -> tuple[Case, ...]:
    """Return a page for each pair, with statements of the mined ones around it."""
    chance = random.Random(9)
    return tuple(_case(pair, chance, labelled()) for pair in pairs)


def _case(pair: Pair, chance: random.Random, pairs: Sequence[Pair]) -> Case:
    others = [one.existing for one in pairs if one.language == pair.language and one.source != pair.source]
    around = chance.sample(others, AROUND)
    around.insert(chance.randrange(AROUND), pair.existing)
    page = "# Page\n\n" + "\n\n".join(around) + "\n"
    asked = undecided(
        cut(page),
        cut(pair.new),
        IncomingEvidence("code:src/a.py", NOW),
        replace(_setting(page), similarity=Meaning(words)),
    )
    return Case(pair, page, asked)


def merged(case: Case, doubts: Sequence[Doubt] = ()) -> MergePlan:
    """Return the plan for merging the new statement into the page."""
    return weigh(
        cut(case.page),
        cut(case.pair.new),
        IncomingEvidence("code:src/a.py", NOW, doubts=tuple(doubts)),
        _setting(case.page),
    )


def _setting(page: str) -> MergeSetting:
    facts = PageFacts("page.md", "user", NOW, tracked=True)
    return MergeSetting(facts, [None for _ in units(cut(page))], DEFAULT_RULES, NOW, None, "")


def truth() -> Opinion:
    """Return the opinion of a model that knows the labels."""
    known = [(pair.existing, pair.new) for pair in (*load(), *in_meaning()) if pair.label == "contradict"]
    return lambda page, new: 1.0 if any(page in old and new in said for old, said in known) else 0.0


def models() -> Iterator[tuple[str, Opinion]]:
    """Yield models by name."""
    right = truth()
    chance = random.Random(5)
    yield "perfect", right
    yield "silent", lambda *_: 0.0
    yield f"wrong in {ERRORS:.0%}", lambda *both: 1.0 - right(*both) if chance.random() < ERRORS else right(*both)
    yield "contrary", lambda *both: 1.0 - right(*both)
    yield "flags everything", lambda *_: 1.0


async def measured(name: str, provider: Callable[[], Awaitable[Provider]], pairs: tuple[Pair, ...]) -> Row:
    """Return the results with this model as judge.

    Raises:
        RuntimeError: it gives no answer.
    """
    judge = ModelJudge(
        BoundedQuestions(
            provider,
            name,
            "judge",
            "contradictions",
            clock=time.monotonic,
            longest_s=PATIENCE_S,
            most_questions=len(pairs),
        )
    )
    rules: list[tuple[bool, bool]] = []
    both: list[tuple[bool, bool]] = []
    kept: list[bool] = []
    for case in cases(pairs):
        judgement = await judge.judged(case.asked)
        if judgement.note:
            raise RuntimeError(f"{name} cannot be measured: {judgement.note}")
        there = case.pair.label == "contradict"
        alone, plan = merged(case), merged(case, judgement.doubts)
        found = [one for one in alone.contradictions if one.kind != "model"]
        rules.append((there, bool(found)))
        both.append((there, bool(plan.contradictions)))
        kept += [any(one.existing.text == now.existing.text for now in plan.contradictions) for one in found]
    return Row(name, _figures(both), _figures(rules), sum(kept) / len(kept) if kept else 1.0)


def _figures(judged: Sequence[tuple[bool, bool]]) -> Figures:
    right = sum(there and called for there, called in judged)
    called, there = sum(called for _, called in judged), sum(there for there, _ in judged)
    return Figures(len(judged), right / called if called else 1.0, right / there)


async def rows(pairs: tuple[Pair, ...], *, configured: bool = False) -> list[Row]:
    """Return the lines of the table."""
    if configured:
        access = settings_of({}, os.environ).provider
        if access is None:
            raise SystemExit("set FORGE_MODEL and its key")
        model = ConfiguredModel(access, now=lambda: datetime.now(UTC), sleep=anyio.sleep)
        try:
            return [await measured(model.name, model.provider, pairs)]
        finally:
            await model.aclose()
    found = []
    for name, opinion in models():
        provider = Opinionated(opinion)

        async def asked(provider: Opinionated = provider) -> Provider:
            return provider

        found.append(await measured(name, asked, pairs))
    return found


def near(pairs: tuple[Pair, ...]) -> tuple[int, int]:
    """Return how many contradictions no rule finds, and how many of those are put to the judge."""
    right = truth()
    missed = [case for case in cases(pairs) if case.pair.label == "contradict" and not merged(case).contradictions]
    return len(missed), sum(any(right(one.existing, one.new) for one in case.asked) for case in missed)


def main() -> int:
    """Print the tables."""
    for title, pairs in (("As rules see it", labelled()), ("In meaning only", in_meaning())):
        print(
            f"\n| {title}: judge | pairs | precision | recall | rules alone: precision | recall | of their flags kept |"
        )
        print("|---|---|---|---|---|---|---|")
        for row in anyio.run(partial(rows, pairs, configured="--model" in sys.argv)):
            print(
                f"| {row.name} | {row.both.pairs} | {row.both.precision:.3f} | {row.both.recall:.3f} "
                f"| {row.rules.precision:.3f} | {row.rules.recall:.3f} | {row.kept:.0%} |"
            )
        missed, asked = near(pairs)
        print(f"\nContradictions that no rule finds: {missed}; the judge is asked about {asked} of them")
    return 0


if __name__ == "__main__":
    sys.exit(main())
