"""The promises of every store of map lines: one suite for all engines."""

from __future__ import annotations

from dataclasses import replace

import pytest

from knowledge.search.summaries.ports import ModelLine, Summaries, SummariesSpent
from knowledge.state.ports import StateStore
from tests.support.state.decisions import ODD
from tests.support.state.engines import summaries_in
from tests.support.state.ledgers import MINUTE, NOW

LINE = ModelLine("p:1", "How hives are opened.", "openai:small", 120, NOW)


@pytest.fixture
def lines(store: StateStore) -> Summaries:
    """Return the lines of every engine."""
    return summaries_in(store)


async def test_a_content_has_one_line_for_ever(lines: Summaries) -> None:
    await lines.keep(LINE)
    await lines.keep(replace(LINE, text="Something else.", tokens=7))
    assert await lines.lines(["p:1", "p:2"]) == {"p:1": "How hives are opened."}
    assert await lines.spent(NOW) == SummariesSpent(1, 120)


async def test_a_line_without_text_is_known_and_not_counted(lines: Summaries) -> None:
    await lines.keep(replace(LINE, key="p:2", text=""))
    assert await lines.lines(["p:2"]) == {"p:2": ""}
    assert await lines.count() == 0
    assert await lines.lines([]) == {}


async def test_what_was_made_since_then_is_summed_up(lines: Summaries) -> None:
    for minute in range(4):
        await lines.keep(replace(LINE, key=f"p:{minute}", tokens=minute, at=NOW + minute * MINUTE))
    assert await lines.spent(NOW + 2 * MINUTE) == SummariesSpent(2, 5)
    assert await lines.spent(NOW + 9 * MINUTE) == SummariesSpent(0, 0)
    assert await lines.count() == 4


async def test_the_oldest_are_forgotten(lines: Summaries) -> None:
    for number in range(5):
        await lines.keep(replace(LINE, key=f"p:{number}"))
    await lines.trim(9)
    assert await lines.count() == 5
    await lines.trim(2)
    assert set(await lines.lines([f"p:{number}" for number in range(5)])) == {"p:3", "p:4"}


async def test_whatever_a_model_says_is_kept(lines: Summaries) -> None:
    await lines.keep(replace(LINE, text=ODD, model=ODD))
    kept = (await lines.lines(["p:1"]))["p:1"]
    assert "Ünïcode 日本 🗺" in kept
    assert "\x00" not in kept
