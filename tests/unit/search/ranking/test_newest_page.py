from __future__ import annotations

import pytest

from knowledge.search.ranking.newest_page import newest_of, words_behind_newest
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
        ("what did the last board meeting decide", "minutes/2026/2026-09-08.md"),
        ("most recent board meeting", "minutes/2026/2026-09-08.md"),
        ("latest release of the program", "changelog/5.10.0.md"),
    ],
)
async def test_a_question_for_the_newest_page_finds_it_by_the_date_or_version_in_its_name(
    base: Base, query: str, path: str
) -> None:
    await base.index_all()
    answer = await base.finder.search(query)
    assert (answer.hits[0].path, answer.scent.level) == (path, "partial"), answer.scent.reason
    assert "asks for the newest page" in answer.scent.reason


@pytest.mark.parametrize("query", ["latest Postgres version", "last Sunday of September"])
async def test_the_newest_of_something_else_is_no_dated_page(base: Base, query: str) -> None:
    await base.index_all()
    answer = await base.finder.search(query)
    assert not answer.hits[0].path.startswith(("minutes/", "changelog/"))


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
        (["9.md", "10.md", "11.md"], ""),
        (["guide 1.md", "how to.md", "faq.md", "setup.md"], ""),
        ([], ""),
    ],
)
def test_the_newest_page_has_the_latest_date_version_or_number(paths: list[str], newest: str) -> None:
    assert newest_of(paths) == newest


@pytest.mark.parametrize(
    ("query", "behind"),
    [
        ("latest board meeting of May", {"board", "meeting"}),
        ("what was the most recent release?", {"release"}),
        ("Die neueste Version?", {"version"}),
        ("dernière réunion", {"réunion"}),
        ("lastRegisteredEmail of the account", set()),
        ("at last", set()),
        ("at least one blast radius", set()),
        ("release", set()),
    ],
)
def test_a_question_says_of_what_it_asks_for_the_newest(query: str, behind: set[str]) -> None:
    assert words_behind_newest(query) == behind
