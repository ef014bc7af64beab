"""The plots of Home are right for an empty history, one of a day and one of a year, and say their numbers in words."""

from __future__ import annotations

import re
from datetime import UTC, date, datetime, timedelta
from xml.etree import ElementTree as ET

import pytest

from knowledge.history.timeline.growth import GrowthDay
from knowledge.trust.ports import TrustChange
from mcp_server.web.home.growth_plot import growth_plot
from mcp_server.web.home.plot import HEIGHT, MARGIN, MOST_SERIES, WIDTH, PlotSpan, plot
from mcp_server.web.home.trust_plot import trust_plot

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)


def numbers(path: str) -> list[float]:
    return [float(one) for one in re.findall(r"-?\d+(?:\.\d+)?", path)]


def lines(svg: str, kind: str = "series") -> list[str]:
    """Return the paths of that class; also a check that the picture is well-formed."""
    root = ET.fromstring(svg)  # noqa: S314 - our own output
    return [str(one.get("d")) for one in root.iter() if str(one.get("class", "")).split()[:1] == [kind]]


def moved(days_ago: float, before: float, after: float, *, host: str = "ada@laptop", number: int = 1) -> TrustChange:
    return TrustChange(number, host, NOW - timedelta(days=days_ago), before, after, "approved", "ada (page)")


def test_a_line_keeps_its_value_until_the_next_point_and_then_to_the_end() -> None:
    start, end = NOW - timedelta(days=10), NOW
    svg = plot([[(start, 1.0), (start + timedelta(days=5), 4.0)]], PlotSpan(start, end, 4.0), "label")
    bottom = MARGIN + (HEIGHT - 2 * MARGIN) * 0.75
    assert lines(svg) == [f"M0 {bottom:g}H{WIDTH // 2}V{MARGIN}H{WIDTH}"]


@pytest.mark.parametrize("values", [[0.0], [0.0, 0.0], [7.0], [-3.0, 99.0]])
@pytest.mark.parametrize("length", [timedelta(0), timedelta(seconds=1), timedelta(days=365)])
def test_no_line_leaves_the_picture(values: list[float], length: timedelta) -> None:
    start = NOW - length
    points = [(start + length * number / len(values), value) for number, value in enumerate(values)]
    svg = plot([points], PlotSpan(start, NOW, 5.0), "label", area=True)
    for path in [*lines(svg), *lines(svg, "area")]:
        assert all(0 <= one <= max(WIDTH, HEIGHT) for one in numbers(path))
    assert lines(plot([points], PlotSpan(start, NOW, 0.0), "label"))


def test_without_a_history_there_is_no_plot() -> None:
    assert trust_plot({}, NOW) is None
    assert trust_plot({"ada@laptop": []}, NOW) is None
    assert growth_plot([]) is None


def test_trust_is_told_in_words_and_as_rows_for_each_host() -> None:
    drawn = trust_plot(
        {
            "ada@laptop": [moved(300, 1.0, 1.1), moved(20, 1.1, 2.4, number=2)],
            "ada@desktop": [moved(2, 2.0, 1.5, host="ada@desktop", number=3)],
            "ada@quiet": [],
        },
        NOW,
    )
    assert drawn is not None
    assert [(one.principal, one.sentence) for one in drawn.hosts] == [
        ("ada@desktop", "fell from 2.00 to 1.50 in one change"),
        ("ada@laptop", "rose from 1.00 to 2.40 in 2 changes"),
    ]
    assert len(lines(drawn.svg)) == 2
    assert len(lines(drawn.svg, "grid")) == 6, "a line for each level"
    assert "ada@laptop: rose from 1.00 to 2.40" in drawn.svg
    assert [row.id for row in drawn.rows] == [3, 2, 1]
    assert (drawn.start, drawn.more_hosts, drawn.more_rows) == (NOW - timedelta(days=300), 0, 0)


def test_many_hosts_are_counted_and_those_that_changed_last_are_drawn() -> None:
    histories = {f"ada@h{n}": [moved(n + 1, 1.0, 2.0, host=f"ada@h{n}", number=n)] for n in range(MOST_SERIES + 3)}
    drawn = trust_plot(histories, NOW)
    assert drawn is not None
    assert [one.principal for one in drawn.hosts] == [f"ada@h{n}" for n in range(MOST_SERIES)]
    assert drawn.more_hosts == 3
    assert len(set(re.findall(r"series-\d", drawn.svg))) == MOST_SERIES


def test_a_hostile_name_is_text_in_the_picture() -> None:
    name = '"><script>alert(1)</script>\u202e@x'
    drawn = trust_plot({name: [moved(1, 0.0, 1.0, host=name)]}, NOW)
    assert drawn is not None
    assert len(lines(drawn.svg)) == 1
    assert "<script>" not in drawn.svg
    assert "\u202e" not in drawn.svg


def test_growth_of_one_day_and_of_a_year_is_told_in_words() -> None:
    one = growth_plot([GrowthDay(date(2026, 2, 28), 0, 0), GrowthDay(date(2026, 3, 1), 3, 1_500)])
    assert one is not None
    assert one.sentence == "Since 2026-02-28: pages up from 0 to 3."
    assert one.size_sentence == "Since 2026-02-28: size up from 0 bytes to 1.5 kB."
    days = [GrowthDay(date(2025, 3, 1) + timedelta(days=n), 400 - n, 9_000) for n in range(366)]
    year = growth_plot(days)
    assert year is not None
    assert year.sentence == "Since 2025-03-01: pages down from 400 to 35."
    assert year.size_sentence == "Since 2025-03-01: size 9.0 kB, as before."
    assert (year.most_pages, year.most_size) == (400, "9.0 kB")
    assert (year.rows[0], len(year.rows), year.more_rows) == (days[-1], 60, 306)
    assert "pages down from 400 to 35" in year.pages
