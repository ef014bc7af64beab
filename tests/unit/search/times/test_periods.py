"""The times that questions name, and the times that pages are of."""

from __future__ import annotations

from datetime import date

import pytest
from hypothesis import given
from hypothesis import strategies as st

from knowledge.search.query.analysis import words
from knowledge.search.times.days import days_in
from knowledge.search.times.page_period import period_of_page
from knowledge.search.times.periods import AskedPeriod, periods_in

MONDAY = date(2026, 11, 30)


def named(query: str, *languages: str) -> list[tuple[str, str]]:
    """Return each time as it is written, and as its first and last day, those of the year 2026 if it has no year."""
    found = periods_in(query, words(query), days_in(query), MONDAY, languages or ("en",))
    return [(one.written, _shown(one)) for one in found]


def _shown(one: AskedPeriod) -> str:
    period = next((its for its in one.periods if its.first.startswith("2026")), one.periods[0])
    return " to ".join(dict.fromkeys(period))


@pytest.mark.parametrize(
    ("query", "written", "days"),
    [
        ("what happened in week 47", "week 47", "2026-11-16 to 2026-11-22"),
        ("KW 47", "KW 47", "2026-11-16 to 2026-11-22"),
        ("weekly review W47", "W47", "2026-11-16 to 2026-11-22"),
        ("2025-W01", "2025-W01", "2024-12-30 to 2025-01-05"),
        ("semaine 2 de 2025", "semaine 2 de 2025", "2025-01-06 to 2025-01-12"),
        ("Q3 goals", "Q3", "2026-07-01 to 2026-09-30"),
        ("goals of the third quarter of 2025", "third quarter of 2025", "2025-07-01 to 2025-09-30"),
        ("Ziele 1. Quartal 2025", "1. Quartal 2025", "2025-01-01 to 2025-03-31"),
        ("goals for October", "October", "2026-10-01 to 2026-10-31"),
        ("invoices of 2025-11", "2025-11", "2025-11-01 to 2025-11-30"),
        ("im März", "März", "2026-03-01 to 2026-03-31"),
        ("spent in may", "may", "2026-05-01 to 2026-05-31"),
        ("end of October", "end of October", "2026-10-21 to 2026-10-31"),
        ("early November 2025", "early November 2025", "2025-11-01 to 2025-11-10"),
        ("mid-February", "mid-February", "2026-02-11 to 2026-02-20"),
        ("first week of November", "first week of November", "2026-11-01 to 2026-11-07"),
        ("last week of March 2025", "last week of March 2025", "2025-03-25 to 2025-03-31"),
        ("from 3 to 7 November 2025", "from 3 to 7 November 2025", "2025-11-03 to 2025-11-07"),
        ("3-7 November", "3-7 November", "2026-11-03 to 2026-11-07"),
        ("March 3-7, 2025", "March 3-7, 2025", "2025-03-03 to 2025-03-07"),
        ("between 3 and 7 November", "between 3 and 7 November", "2026-11-03 to 2026-11-07"),
        ("zwischen 28. Oktober und 3. November", "zwischen 28. Oktober und 3. November", "2026-10-28 to 2026-11-03"),
        ("from 2025-12-30 to 2026-01-02", "from 2025-12-30 to 2026-01-02", "2025-12-30 to 2026-01-02"),
        (
            "from the first week of March to the end of April 2025",
            "from the first week of March to the end of April 2025",
            "2025-03-01 to 2025-04-30",
        ),
        ("from October to December 2025", "from October to December 2025", "2025-10-01 to 2025-12-31"),
        ("from 30 December to 2 January 2027", "from 30 December to 2 January 2027", "2026-12-30 to 2027-01-02"),
        ("between 30 December and 2 January", "between 30 December and 2 January", "2026-12-30 to 2027-01-02"),
        ("March 5 - 9 am", "March 5", "2026-03-05"),
        ("what did I do yesterday", "yesterday", "2026-11-29"),
        ("today's notes", "today", "2026-11-30"),
        ("what we said last week", "last week", "2026-11-23 to 2026-11-29"),
        ("letztes Wochenende", "letztes Wochenende", "2026-11-28 to 2026-11-29"),
        ("la semaine dernière", "semaine dernière", "2026-11-23 to 2026-11-29"),
        ("this month", "this month", "2026-11-01 to 2026-11-30"),
        ("last quarter", "last quarter", "2026-07-01 to 2026-09-30"),
        ("last Monday", "last Monday", "2026-11-23"),
        ("on Monday", "on Monday", "2026-11-30"),
        ("next Friday", "next Friday", "2026-12-04"),
        ("this Friday", "this Friday", "2026-12-04"),
        ("two weeks ago", "two weeks ago", "2026-11-16 to 2026-11-22"),
        ("vor drei Tagen", "vor drei Tagen", "2026-11-27"),
        ("the last 10 days", "last 10 days", "2026-11-20 to 2026-11-30"),
        ("3 derniers jours", "3 derniers jours", "2026-11-27 to 2026-11-30"),
    ],
)
def test_a_question_names_a_time(query: str, written: str, days: str) -> None:
    assert named(query) == [(written, days)]


@pytest.mark.parametrize(
    "query",
    [
        "march on", "May I go", "April Ludgate", "the last 3 releases", "between 3 and 7 apples", "python 3.11", "route 66", "week 99",
        "W5 engine",
        "last week of the course", "quarter pounder", "last name", "this method", "morning routine", "2 months", "hier wird gebaut",
        "step 3 to 7",
    ],
)  # fmt: skip
def test_other_words_and_numbers_are_no_time(query: str) -> None:
    assert named(query) == []


def test_a_french_word_is_one_in_a_french_question_only() -> None:
    assert named("hier", "fr") == [("hier", "2026-11-29")]
    assert named("hier", "de") == []


def test_times_are_named_in_the_order_of_the_question() -> None:
    assert named("compare week 47 with last month and 9 March 2025") == [
        ("week 47", "2026-11-16 to 2026-11-22"),
        ("last month", "2026-10-01 to 2026-10-31"),
        ("9 March 2025", "2025-03-09"),
    ]


@pytest.mark.parametrize(
    "query",
    ["11 June and 1 June", "2026-12-30 to 2026-01-02", "from 3 March to 5 April 1999", "5 April 2060 to 3 March"],
)
def test_two_dates_that_make_no_range_stay_two(query: str) -> None:
    assert len(named(query)) == 2


def test_without_a_year_the_latest_comes_first() -> None:
    (october,) = periods_in("October", ["october"], {}, MONDAY, ["en"])
    assert [one.first for one in october.periods[:2]] == ["2049-10-01", "2048-10-01"]


@pytest.mark.parametrize(
    ("path", "title", "said", "days"),
    [
        ("daily/2026-11-29.md", "Sunday", None, "2026-11-29"),
        ("journals/2026_11_29.md", "", None, "2026-11-29"),
        ("log/2026/11/29.md", "", None, "2026-11-29"),
        ("20261129 Roof.md", "", None, "2026-11-29"),
        ("12.05.2026 Roof.md", "", None, "2026-05-12"),
        ("weekly/2026-W47.md", "", None, "2026-11-16 to 2026-11-22"),
        ("weekly/2026/KW 47.md", "", None, "2026-11-16 to 2026-11-22"),
        ("weekly/KW47 2026.md", "", None, "2026-11-16 to 2026-11-22"),
        ("goals/2026-Q3.md", "", None, "2026-07-01 to 2026-09-30"),
        ("goals/2026/Q3.md", "", None, "2026-07-01 to 2026-09-30"),
        ("monthly/2026-11.md", "", None, "2026-11-01 to 2026-11-30"),
        ("2026-11/standup.md", "", None, "2026-11-01 to 2026-11-30"),
        ("off/2026-11-03 to 2026-11-07 offsite.md", "", None, "2026-11-03 to 2026-11-07"),
        ("off/2025-01-03 to 2026-11-07.md", "", None, "2025-01-03"),
        ("2026-11-23 follow-up to 2026-11-02.md", "", None, "2026-11-23"),
        ("meetings/2026-03-09/notes.md", "Budget for October 2026", None, "2026-03-09"),
        ("meetings/roof.md", "Roof, 12 May 2026", None, "2026-05-12"),
        ("meetings/roof.md", "Roof", "2026-05-12", "2026-05-12"),
        ("meetings/roof.md", "Roof", "2026-05-12T10:00:00Z", "2026-05-12"),
        ("2026-11-29.md", "Roof, 12 May 2026", "2026-05-13", "2026-11-29"),
        ("kb/0014-queues.md", "Decision 14", None, None),
        ("zettel/202611291530.md", "", None, None),
        ("2026-02-30 to 2026-02-31.md", "", None, None),
    ],
)
def test_a_page_is_of_a_time(path: str, title: str, said: object, days: str | None) -> None:
    period = period_of_page(path, title, said)
    assert (" to ".join(dict.fromkeys(period)) if period else None) == days


_PIECES = st.sampled_from([
    *("from", "to", "between", "and", "the", "of", "in", "on", "last", "next", "first", "end", "early", "-", ",", " "),
    *("0", "3", "31", "99", "999", "1999", "2026", "2060", "2026-11-03", "2026_02_30", "20261131", "12.05.2026", "3/4/2026"),
    *("week", "53", "2026-W53", "w53", "q3", "Q5", "month", "months", "days", "ago", "March", "February", "hier", "Monday"),
])  # fmt: skip


@given(st.lists(_PIECES, max_size=9), st.dates(date(1990, 1, 1), date(2090, 1, 1)))
def test_whatever_is_asked_times_are_days_in_order_and_parts_of_the_question(pieces: list[str], today: date) -> None:
    query = " ".join(pieces)
    for one in periods_in(query, words(query), days_in(query), today, ["en"]):
        assert one.periods
        assert one.written in query
    if period := period_of_page(f"{query.replace('/', ' ')}.md", query, query):
        assert date.fromisoformat(period.first) <= date.fromisoformat(period.last)
