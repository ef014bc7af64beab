"""The measured effect of a judge: more is found, and findings of the rules stay found whatever it says."""

from __future__ import annotations

import pytest

from agents.loop.model.ports import Provider
from tests.benchmarks.contradictions import Pair
from tests.benchmarks.judged import Row, in_meaning, labelled, measured, models
from tests.support.runs.judges import Opinionated


async def row(name: str, pairs: tuple[Pair, ...]) -> Row:
    provider = Opinionated(dict(models())[name])

    async def asked() -> Provider:
        return provider

    return await measured(name, asked, pairs)


async def test_a_judge_that_is_right_finds_what_no_rule_can_see() -> None:
    """It adds. A contradiction that was not retrieved, and so not put to it, counts as missed."""
    found = await row("perfect", in_meaning())
    assert found.rules.recall == 0.0
    assert found.both.recall >= 0.9
    assert found.both.precision == 1.0


@pytest.mark.external
@pytest.mark.parametrize("name", [name for name, _ in models()])
async def test_whatever_a_judge_says_what_the_rules_find_is_found(name: str) -> None:
    """It never overrules. A correct judge makes nothing worse."""
    found = await row(name, labelled())
    assert found.kept == 1.0
    assert found.both.recall >= found.rules.recall
    if name in ("perfect", "silent"):
        assert found.both.precision >= found.rules.precision
