"""The trust of each host over time, as a plot, as sentences and as a table. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from markupsafe import Markup

from knowledge.trust.ports import TrustChange
from mcp_server.web.home.plot import MOST_SERIES, PlotSpan, plot, swatch
from mcp_server.web.text.sanitize import spelled_out

MOST_ROWS = 60
HIGHEST = 5
"""The highest score. A host's level is its score without the part after the point, so each line of the grid is a level."""


@dataclass(frozen=True, slots=True)
class HostTrust:
    """One host in the plot: its line in the legend, and in words how its score changed."""

    principal: str
    swatch: Markup
    sentence: str


@dataclass(frozen=True, slots=True)
class TrustPlot:
    """The picture, its hosts, the changes of scores as rows, newest first, and how many of hosts and rows are left out."""

    svg: Markup
    start: datetime
    end: datetime
    hosts: Sequence[HostTrust]
    rows: Sequence[TrustChange]
    more_hosts: int
    more_rows: int


def trust_plot(histories: Mapping[str, Sequence[TrustChange]], now: datetime) -> TrustPlot | None:
    """Return the plot of these histories, the hosts that changed last first; None if no score ever changed."""
    changed = {
        name: sorted(changes, key=lambda one: (one.at, one.id)) for name, changes in histories.items() if changes
    }
    if not changed:
        return None
    names = sorted(changed, key=lambda name: changed[name][-1].at, reverse=True)
    shown = names[:MOST_SERIES]
    start = min(changed[name][0].at for name in shown)
    span = PlotSpan(start, max(now, start), HIGHEST, parts=HIGHEST)
    series = [[(changed[name][0].at, changed[name][0].score_before), *_points(changed[name])] for name in shown]
    sentences = [_sentence(changed[name]) for name in shown]
    told = "; ".join(f"{spelled_out(name)}: {sentence}" for name, sentence in zip(shown, sentences, strict=True))
    rows = sorted(
        (change for name in shown for change in changed[name]), key=lambda one: (one.at, one.id), reverse=True
    )
    return TrustPlot(
        plot(series, span, f"Trust of hosts since {start:%Y-%m-%d}, from 0 to {HIGHEST}. {told}"),
        start,
        span.end,
        [HostTrust(name, swatch(number), sentences[number]) for number, name in enumerate(shown)],
        rows[:MOST_ROWS],
        len(names) - len(shown),
        max(0, len(rows) - MOST_ROWS),
    )


def _points(changes: Sequence[TrustChange]) -> list[tuple[datetime, float]]:
    return [(change.at, change.score_after) for change in changes]


def _sentence(changes: Sequence[TrustChange]) -> str:
    first, last = changes[0].score_before, changes[-1].score_after
    times = f"in {len(changes)} changes" if len(changes) > 1 else "in one change"
    if round(first, 2) == round(last, 2):
        return f"{last:.2f}, as on {changes[0].at:%Y-%m-%d}, {times}"
    return f"{'rose' if last > first else 'fell'} from {first:.2f} to {last:.2f} {times}"
