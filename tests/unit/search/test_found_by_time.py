"""Pages are found by the time that they are of, below those that fit the rest of the question better."""

from __future__ import annotations

import asyncio
from datetime import date, timedelta
from pathlib import Path

import pytest

from knowledge.search.answers import SearchAnswer
from knowledge.search.finder import Finder
from knowledge.search.query.mentions import MOST_MENTIONED
from tests.support.knowledge_bases.folders import write
from tests.unit.search.test_finder import Base, correct

TODAY = date(2026, 11, 30)
JOBS = [
    "Repaired the roof.",
    "Paid for coal.",
    "Rang Jonas.",
    "Baked bread.",
    "Painted the door.",
    "Swept the yard.",
    "Read.",
]
DAYS = [date(2026, 9, 1) + timedelta(days) for days in range(91)]
PAGES = {
    **{f"daily/{day}.md": f"# {day:%A}\n\n{JOBS[day.toordinal() % 6]} Rain at {day.day + 1}.\n" for day in DAYS},
    "weekly/2026-W47.md": "# Review\n\nWe slept well and sang.\n",
    "weekly/2026-W46.md": "# Review\n\nWe slept badly.\n",
    "monthly/2026-10.md": "# Goals\n\nLearn to juggle.\n",
    "monthly/2026-09.md": "# Goals\n\nLearn to swim.\n",
    "goals/2025-Q4.md": "# Goals\n\nSell the boat.\n",
    "house/roof.md": "# Roof\n\nThe roof is repaired by Sam, who also rang today's baker.\n",
    "meetings/boiler.md": "---\ndate: 2026-08-12\n---\n# Boiler\n\nIt leaks, so a plumber comes.\n",
}


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Base:
    made = Base(write(tmp_path_factory.mktemp("times"), PAGES))
    made.finder = Finder(made.index, made.engines, correct, answer_tokens=1500, today=lambda: TODAY)
    asyncio.run(made.index_all())
    return made


async def searched(base: Base, query: str, *, path: str = "") -> SearchAnswer:
    return await base.finder.search(query, path=path)


async def first(base: Base, query: str, most: int = 1) -> list[str]:
    return [hit.path for hit in (await searched(base, query)).hits][:most]


@pytest.mark.parametrize(
    ("query", "path"),
    [
        ("what happened yesterday", "daily/2026-11-29.md"),
        ("note of last Friday", "daily/2026-11-27.md"),
        ("week 47", "weekly/2026-W47.md"),
        ("how did we sleep in KW 46", "weekly/2026-W46.md"),
        ("goals for October", "monthly/2026-10.md"),
        ("goals of the fourth quarter", "goals/2025-Q4.md"),
        ("what happened on 12 August", "meetings/boiler.md"),
    ],
)
async def test_the_page_of_the_named_time_comes_first(base: Base, query: str, path: str) -> None:
    answer = await searched(base, query)
    assert answer.hits[0].path == path
    assert answer.scent.level != "lost"


async def test_if_nothing_but_the_time_is_asked_the_longest_page_is_followed_by_the_days_in_order(base: Base) -> None:
    week = [f"daily/2026-11-{day}.md" for day in range(16, 23)]
    assert await first(base, "what happened in week 47", 8) == ["weekly/2026-W47.md", *week]
    assert await first(base, "from 3 to 7 November", 5) == [f"daily/2026-11-0{day}.md" for day in range(3, 8)]


async def test_of_the_many_pages_of_a_time_those_with_the_other_words_come_first(base: Base) -> None:
    paid = {f"daily/{day}.md" for day in DAYS if day.month == 10 and "coal" in PAGES[f"daily/{day}.md"]}
    assert len(paid) > MOST_MENTIONED
    assert set(await first(base, "coal in October", len(paid))) == paid


async def test_a_page_that_fits_the_other_words_much_better_stays_first(base: Base) -> None:
    assert await first(base, "Sam and the baker today") == ["house/roof.md"]


TOPICS = {
    "marathon.md": "# Marathon plan\n\nIn week 12 the long run is 30 km, in week 10 it is 25 km.\n",
    "daily/2026-03-19.md": "# Thursday\n\nLong run of 10 km, plan for the marathon.\n",
    "daily/2026-03-20.md": "# Friday\n\nRest.\n",
    "passport.md": "# Renew the passport\n\nTo renew the passport, bring two photos.\n",
    "release.md": "# Release process\n\nA release is made on Tuesday, after the login was tested.\n",
    "daily/2026-11-24.md": "# Tuesday\n\nMeeting about the release, then lunch.\n",
    "daily/2026-11-30.md": "# Monday\n\nNeed to renew the passport soon.\n",
    "june.md": "# June Carter\n\nJune is a singer. A gift for June: a guitar.\n",
    "daily/2026-06-20.md": "# Saturday\n\nBought a gift for the kids.\n",
}


@pytest.mark.parametrize(
    ("query", "path"),
    [
        ("marathon plan week 12", "marathon.md"),
        ("long run in week 12", "marathon.md"),
        ("how do I renew the passport today", "passport.md"),
        ("gift for June", "june.md"),
        ("what happened in week 12", "daily/2026-03-19.md"),
    ],
)
async def test_a_page_with_all_words_and_the_time_comes_before_a_page_of_that_time(
    tmp_path: Path, query: str, path: str
) -> None:
    base = Base(write(tmp_path, TOPICS))
    base.finder = Finder(base.index, base.engines, correct, answer_tokens=1500, today=lambda: TODAY)
    await base.index_all()
    assert await first(base, query) == [path]


async def test_a_time_that_depends_on_today_is_read_out(base: Base) -> None:
    assert (await searched(base, "what happened last week")).note == '"last week" was read as 2026-11-23 to 2026-11-29'
    assert (await searched(base, "what happened in week 47")).note is None
    assert (await searched(base, "boat next month")).note is None, "no page is of that time"
    assert (await searched(base, "yesterday", path="house")).note is None, "no such page is shown"


async def test_filters_hold_for_the_pages_of_a_time(base: Base) -> None:
    found = await searched(base, "what happened in week 47", path="weekly")
    assert {hit.path for hit in found.hits} == {"weekly/2026-W47.md", "weekly/2026-W46.md"}
    assert found.hits[0].path == "weekly/2026-W47.md"


async def test_the_words_of_a_named_time_are_not_missing_from_its_page(base: Base) -> None:
    reason = (await searched(base, "how did we sleep in week 47")).scent.reason
    assert "47" not in reason
    assert "week" not in reason


async def test_a_day_without_a_page_leads_to_the_week_around_it(tmp_path: Path) -> None:
    base = Base(write(tmp_path, {"2026-W47.md": "# Review\n\nWe sang.\n", "other.md": "# Other\n\nWe sang, too.\n"}))
    await base.index_all()
    assert await first(base, "what happened on 18 November 2026") == ["2026-W47.md"]


async def test_a_word_that_adds_nothing_to_a_time_hides_none_of_its_pages(tmp_path: Path) -> None:
    days = {f"daily/2026-11-{day}.md": f"# Day\n\nRain and tea {day}.\n" for day in range(10, 31)}
    days["daily/2026-11-19.md"] = "# Day\n\nAn accident happened.\n"
    others = {"weekly/2026-W47.md": "# Review\n\nTea.\n", "other.md": "# Other\n\nThings happened.\n"}
    base = Base(write(tmp_path, {**days, **others}))
    base.finder = Finder(base.index, base.engines, correct, answer_tokens=1500, today=lambda: TODAY)
    await base.index_all()
    week = ["weekly/2026-W47.md", *(f"daily/2026-11-{day}.md" for day in range(16, 23))]
    for query in ("what happened in week 47", "notes of week 47", "week 47"):
        found = await first(base, query, 8)
        assert found == week[: len(found)]
        assert len(found) > 2, "a question for a place shows fewer passages"
        assert "no hit has" not in (await searched(base, query)).scent.reason
    answer = await searched(base, "what happened on Monday")
    assert (answer.hits[0].path, answer.scent.level) == ("daily/2026-11-30.md", "partial")
