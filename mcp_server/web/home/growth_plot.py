"""The growth of the knowledge base as a plot, as a sentence and as a table. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, time

from markupsafe import Markup

from knowledge.errors import size_in_words
from knowledge.history.timeline.growth import GrowthDay
from mcp_server.web.home.plot import PlotSpan, plot

MOST_ROWS = 60


@dataclass(frozen=True, slots=True)
class GrowthPlot:
    """The growth of the number of pages and of their size, each as a picture and in a sentence.

    `rows` are the last days, newest first.
    """

    pages: Markup
    size: Markup
    sentence: str
    size_sentence: str
    first: GrowthDay
    last: GrowthDay
    most_pages: int
    most_size: str
    rows: Sequence[GrowthDay]
    more_rows: int


def growth_plot(days: Sequence[GrowthDay]) -> GrowthPlot | None:
    """Return the plots of these days, oldest first; None without any."""
    if not days:
        return None
    first, last = days[0], days[-1]
    most_pages, most_size = max(day.pages for day in days), max(day.size for day in days)
    start, end = _end_of(first), _end_of(last)
    changed = [
        _change("pages", first.pages, last.pages, f"{first.pages:,}", f"{last.pages:,}"),
        _change("size", first.size, last.size, size_in_words(first.size), size_in_words(last.size)),
    ]
    since = f"Since {first.day}: "
    return GrowthPlot(
        plot(
            [[(_end_of(day), day.pages) for day in days]],
            PlotSpan(start, end, most_pages),
            since + changed[0],
            area=True,
        ),
        plot(
            [[(_end_of(day), day.size) for day in days]], PlotSpan(start, end, most_size), since + changed[1], area=True
        ),
        f"{since}{changed[0]}.",
        f"{since}{changed[1]}.",
        first,
        last,
        most_pages,
        size_in_words(most_size),
        days[: -MOST_ROWS - 1 : -1],
        max(0, len(days) - MOST_ROWS),
    )


def _end_of(day: GrowthDay) -> datetime:
    return datetime.combine(day.day, time.max, UTC)


def _change(what: str, before: int, after: int, first: str, last: str) -> str:
    if before == after:
        return f"{what} {last}, as before"
    return f"{what} {'up' if after > before else 'down'} from {first} to {last}"
