"""Texts made to be slow to merge cost about as much as they are long (kb/decisions/0047).

Calls of Python functions are counted, which other work on the machine doesn't change. Four times the text may cost at
most eight times the calls; pairwise comparison would cost sixteen. Whole sizes and all tools: `python -m
tests.benchmarks.hostile`.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from types import FrameType
from typing import SupportsIndex

import pytest

from knowledge.merge.document.dated_log import without_dates
from knowledge.merge.document.unit_origins import PageFacts
from knowledge.merge.document.units import cut, units
from knowledge.merge.document_form import TakenContent
from knowledge.merge.evidence.confidence import DEFAULT_RULES
from knowledge.merge.model import IncomingEvidence
from knowledge.merge.plan import merge
from knowledge.merge.setting import MergeSetting
from knowledge.merge.splice import Insertion, PageSplicer
from knowledge.merge.unified_diff import unified_diff
from knowledge.pages.document import parse
from tests.support.knowledge_bases.hostile_markdown import FAMILIES, changed

NOW = datetime(2026, 11, 21, 12, tzinfo=UTC)
SMALL, LARGE = 600, 2_400
MOST_GROWTH = 8
ALWAYS = 20_000
"""Calls that any merge may cost."""
MOST_CALLS_A_CHARACTER = 1_000


def edit(text: str) -> None:
    """Join two edits of a page."""
    base, current, incoming = text, changed(text, 7, "ours"), changed(text, 11, "theirs")
    plan = merge(cut(base), cut(current), TakenContent("document", incoming, ""), told_by("user"), setting(current))
    unified_diff(current, plan.text, "a.md")


def evidence(text: str) -> None:
    """Weigh a text that says nearly the same as the page."""
    page = f"# Page\n\n{text}"
    merge(cut(page), cut(page), TakenContent("snippet", changed(text), ""), told_by("code:a.py"), setting(page))


def reading(text: str) -> None:
    """Read a page."""
    parse("a.md", text.encode())


def told_by(source: str) -> IncomingEvidence:
    return IncomingEvidence(source=source, observed_at=NOW)


def setting(page: str) -> MergeSetting:
    facts = PageFacts("a.md", "user", NOW - timedelta(days=9), tracked=False)
    return MergeSetting(facts, [None] * len(units(cut(page))), DEFAULT_RULES, NOW, "r", "p")


@pytest.fixture(scope="module", autouse=True)
def _warm() -> None:
    """Make everything that is made at first use, such as tables of words."""
    for family in ("paragraphs nearly equal", "key lines", "footnotes", "headings ever deeper", "task items"):
        evidence(FAMILIES[family](SMALL))


def forget() -> None:
    """Forget every parsed text; tables made once for all texts stay."""
    for name, module in list(sys.modules.items()):
        if name.startswith("knowledge."):
            for known in vars(module).values():
                if hasattr(known, "cache_parameters") and known.cache_parameters()["maxsize"] is not None:
                    known.cache_clear()


class TooMany(Exception):
    """The limit on calls was exceeded."""


def calls(work: Callable[[str], None], text: str, most: int) -> int:
    """Return how many functions are called; give up at far too many."""
    count = 0

    def counted(_frame: FrameType, event: str, _what: object) -> None:
        nonlocal count
        if event in ("call", "c_call"):
            count += 1
            if count > most:
                raise TooMany

    forget()
    before = sys.getprofile()
    sys.setprofile(counted)
    try:
        work(text)
    finally:
        sys.setprofile(before)
    return count


@pytest.mark.parametrize("work", [edit, evidence, reading], ids=lambda work: work.__name__)
@pytest.mark.parametrize("family", FAMILIES)
def test_four_times_the_text_costs_no_more_than_eight_times_the_work(family: str, work: Callable[[str], None]) -> None:
    """4,000 equal rows took 58 s, 4,000 keys 26 s, 900 levels of a list 15 s."""
    many = calls(work, FAMILIES[family](LARGE), MOST_CALLS_A_CHARACTER * LARGE + ALWAYS)
    if many > MOST_GROWTH * ALWAYS:
        # A short text may cost more than a long one, of which fewer statements are compared.
        few = calls(work, FAMILIES[family](SMALL), MOST_CALLS_A_CHARACTER * SMALL + ALWAYS)
        assert many <= MOST_GROWTH * few


class Copied(str):  # noqa: SLOT000  (the count is the class's)
    """A page that counts how many of its characters are copied."""

    characters = 0

    def __getitem__(self, key: SupportsIndex | slice) -> str:
        part = super().__getitem__(key)
        Copied.characters += len(part)
        return part


def test_a_thousand_blocks_are_put_into_a_page_without_copying_it_for_each() -> None:
    """Evidence of 256 kB of code blocks took 13 s: the page was copied twice for each block."""
    page = cut("Text.\n\n" * 1_000)
    ground = PageSplicer(replace(page, text=Copied(page.text)))
    Copied.characters = 0
    ground.written([Insertion(2 * number, "```\ncode\n```", block=True) for number in range(1_000)], [])
    assert Copied.characters <= 3 * len(page.text)


class Folded(list[str]):
    """Headings that may be iterated over, and not searched once for each heading."""

    def __contains__(self, key: object) -> bool:
        raise AssertionError(f"all headings are searched for {key!r}")


def test_headings_of_evidence_are_not_each_looked_for_among_all_headings_of_the_page() -> None:
    """Evidence of 1 MB of underlined headings did not end within its 20 s."""
    assert without_dates(cut("## 2026-11-21: Rollback\n\nFaster.\n"), known=Folded(["rollback"])).hint == ""
