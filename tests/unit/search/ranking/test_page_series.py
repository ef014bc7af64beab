from __future__ import annotations

import pytest

from knowledge.search.ranking.page_series import newest_of
from tests.support.knowledge_bases.folders import write
from tests.unit.search.test_finder import Base

PAGES = {
    **{
        f"minutes/{day[:4]}/{day}.md": f"# Board meeting of {day}\n\nThe board meeting of the members decided about the {what}.\n"
        for day, what in (
            ("2025-11-04", "fee"),
            ("2026-02-03", "roof"),
            ("2026-05-12", "heating"),
            ("2026-09-08", "garden"),
        )
    },
    **{
        f"changelog/{version}.md": f"# Release {version}\n\nThis release changes the {what} of the program.\n"
        for version, what in (("4.9.3", "cache"), ("5.9.0", "log"), ("5.10.0", "index"))
    },
    **{f"daily/2026-10-{day}.md": f"Rain on day {day}. Wrote letters.\n" for day in (11, 12, 13)},
    **{
        f"lab/2026-0{month}-01-{what.split()[0]}.md": f"# {what}\n\nMeasured at 80 °C.\n"
        for month, what in enumerate(
            ("polarisation curve", "leak", "polarisation curve", "ageing", "polarisation curve", "ageing"), 1
        )
    },
    "notes/06-aid-organisations.md": "# Aid organisations\n\nThe Red Cross helps people in the world.\n",
    "notes/07-lamps.md": "# Lamps\n\nThe bulbs of the lamps are in the cellar.\n",
    "notes/08-first-aid.md": "# First aid\n\nFirst aid is what you do until the doctor is there.\n",
    "support.md": "# Support\n\nThe second last release gets fixes only. The first release had no index.\n",
    "how we file.md": "# How we file\n\nA daily note for the day, and notes for what lasts. Wrote no more.\n",
    "committees/social.md": "# Social committee\n\nIt comes together for a meeting on the last Sunday of September.\n",
    "postgres.md": "# Postgres\n\nThe latest Postgres version that the program supports is 17.\n",
}


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Base:
    return Base(write(tmp_path_factory.mktemp("newest"), PAGES))


@pytest.mark.parametrize(
    ("query", "path"),
    [
        ("latest board meeting", "minutes/2026/2026-09-08.md"),
        ("the last board meeting", "minutes/2026/2026-09-08.md"),
        ("most recent board meeting", "minutes/2026/2026-09-08.md"),
        ("what is the latest release", "changelog/5.10.0.md"),
        ("last daily note", "daily/2026-10-13.md"),
        ("newest minutes", "minutes/2026/2026-09-08.md"),
        ("latest polarisation curve", "lab/2026-05-01-polarisation.md"),
        ("last board meeting of 2025", "minutes/2025/2025-11-04.md"),
        ("last board meeting in May", "minutes/2026/2026-05-12.md"),
    ],
)
async def test_a_question_for_the_newest_page_finds_it_by_the_date_or_version_in_its_name(
    base: Base, query: str, path: str
) -> None:
    await base.index_all()
    answer = await base.finder.search(query)
    assert (answer.hits[0].path, answer.scent.level) == (path, "partial"), answer.scent.reason
    assert "newest such page" in answer.scent.reason


@pytest.mark.parametrize(
    "query",
    [
        "latest Postgres version",
        "last page of the minutes",
        "last note of the day",
        "last Sunday of September",
        "latest board meeting about the roof",
        "last board meeting before the fee",
        "at last a board meeting",
        "lastBoardMeeting",
    ],
)
async def test_a_question_that_says_more_is_not_answered_by_a_name(base: Base, query: str) -> None:
    await base.index_all()
    assert "newest such page" not in (await base.finder.search(query)).scent.reason


@pytest.mark.parametrize(
    ("query", "path", "which"),
    [
        ("first board meeting", "minutes/2025/2025-11-04.md", "first"),
        ("second board meeting of 2026", "minutes/2026/2026-05-12.md", "second"),
        ("third polarisation curve", "lab/2026-05-01-polarisation.md", "third"),
        ("erstes Board Meeting 2026", "minutes/2026/2026-02-03.md", "first"),
        ("first release", "changelog/4.9.3.md", "first"),
    ],
)
async def test_a_question_for_a_place_in_a_series_finds_that_page(
    base: Base, query: str, path: str, which: str
) -> None:
    await base.index_all()
    answer = await base.finder.search(query)
    assert answer.hits[0].path == path
    assert f"the {which} such page" in answer.scent.reason
    assert repr(query.split(maxsplit=1)[0]) not in answer.scent.reason, "it is not missing"


@pytest.mark.parametrize(
    "query",
    [
        "fourth polarisation curve",
        "first aid",
        "second hand leak",
        "what is first aid",
        "second last release",
        "first and last release",
        "why the first release",
    ],
)
async def test_a_place_that_no_series_has_is_only_words(base: Base, query: str) -> None:
    await base.index_all()
    assert "such page" not in (await base.finder.search(query)).scent.reason


async def test_a_newest_page_that_no_engine_ranked_is_explained(base: Base) -> None:
    await base.index_all()
    answer = await base.finder.search("latest board meeting", explain=True)
    assert answer.explanation is not None
    assert "page of a series" in str(answer.explanation)


async def test_a_continued_answer_neither_repeats_nor_skips_the_newest_page(base: Base) -> None:
    await base.index_all()
    shown, cursor = [], None
    while True:
        answer = await base.finder.search("latest board meeting", limit=2, cursor=cursor)
        shown += [(hit.path, hit.line_start) for hit in answer.hits]
        cursor = answer.next_cursor
        if cursor is None:
            break
    assert len(shown) == len(set(shown)) >= 4
    assert shown[0][0] == "minutes/2026/2026-09-08.md"


async def test_filters_leave_the_newest_page_out(base: Base) -> None:
    await base.index_all()
    answer = await base.finder.search("latest board meeting", path="minutes/2025")
    assert {hit.path for hit in answer.hits} == {"minutes/2025/2025-11-04.md"}


@pytest.mark.parametrize(
    ("paths", "newest"),
    [
        (["a/2026-02.md", "a/2026-10-01.md", "a/2025-12-31.md"], "a/2026-10-01.md"),
        (["v1.9.md", "v1.10.md", "v1.2.3.md"], "v1.10.md"),
        (["adr-0009-a.md", "adr-0010-b.md", "adr-0001-c.md", "template.md"], "adr-0010-b.md"),
        (["0009 a.md", "0010 b.md"], ""),
        (["INV-2026-8.md", "INV-2026-9.md", "INV-2026-10.md"], "INV-2026-10.md"),
        (["2026-W8.md", "2026-W9.md", "2026-W10.md"], "2026-W10.md"),
        (["Bill 05.01.2026.md", "Bill 03.03.2026.md", "Bill 31.12.2025.md"], "Bill 03.03.2026.md"),
        (["0001-a.md", "0002-b.md", "0003-c.md", "9999-template.md"], "0003-c.md"),
        (["2025/12-15.md", "2026/03-02.md", "2026/02-02.md"], ""),
        (["2026-03 phone.md", "2026-03 rent.md", "2026-02 rent.md"], ""),
        (["9.md", "10.md", "11.md"], ""),
        (["guide 1.md", "how to.md", "faq.md", "setup.md"], ""),
        (["2026-01-05 a.md", "2026-02-05 b.md"], "2026-02-05 b.md"),
        (["v1.0.md", "v1.1.md"], ""),
        ([], ""),
    ],
)
def test_the_newest_page_has_the_latest_date_version_or_number(paths: list[str], newest: str) -> None:
    assert newest_of(paths) == newest
