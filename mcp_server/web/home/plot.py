"""Lines over time as SVG: steps from one value to the next. Pure.

The picture has no text, so that it can be stretched to any width; axes and legend are HTML beside it, and its label says the
numbers in words.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from markupsafe import Markup

WIDTH, HEIGHT = 1000, 200
MARGIN = 4
"""Room above and below, so that a line at the edge is not cut in half."""
MOST_SERIES = 6
"""The number of colours, and of dashes for those who don't see them, in `home.css`."""

_SVG = Markup(
    '<svg class="plot" xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {0} {1}" preserveAspectRatio="none" role="img" '
    'aria-label="{2}">{3}{4}</svg>'
)
_GRID = Markup('<path class="grid" d="M0 {0}H{1}"/>')
_LINE = Markup('<path class="series series-{0}" d="{1}"/>')
_AREA = Markup('<path class="area" d="{0}"/>')
_SWATCH = Markup(
    '<svg class="swatch" xmlns="http://www.w3.org/2000/svg" viewBox="0 0 28 4" width="28" height="4" aria-hidden="true">'
    '<path class="series series-{0}" d="M0 2H28"/></svg>'
)

Point = tuple[datetime, float]


@dataclass(frozen=True, slots=True)
class PlotSpan:
    """The range of a plot: times from `start` to `end`, and values from 0 to `top`. Grid lines divide the values into `parts`."""

    start: datetime
    end: datetime
    top: float
    parts: int = 4

    def x(self, at: datetime) -> float:
        """Return where a time is, from left to right."""
        whole = (self.end - self.start).total_seconds()
        return WIDTH * (at - self.start).total_seconds() / whole if whole > 0 else float(WIDTH)

    def y(self, value: float) -> float:
        """Return where a value is, from the top."""
        share = min(1.0, max(0.0, value / self.top)) if self.top > 0 else 0.0
        return MARGIN + (HEIGHT - 2 * MARGIN) * (1 - share)


def plot(series: Sequence[Sequence[Point]], span: PlotSpan, label: str, *, area: bool = False) -> Markup:
    """Return the picture of the series, each a list of points, oldest first. With `area` the space below the first is filled."""
    grid = Markup("").join(
        _GRID.format(_px(span.y(span.top * part / span.parts)), WIDTH) for part in range(span.parts + 1)
    )
    lines = [_LINE.format(number % MOST_SERIES, _steps(points, span)) for number, points in enumerate(series) if points]
    if area and series and series[0]:
        floor = _px(span.y(0))
        lines.insert(0, _AREA.format(f"{_steps(series[0], span)}V{floor}H{_px(span.x(series[0][0][0]))}Z"))
    return _SVG.format(WIDTH, HEIGHT, label, grid, Markup("").join(lines))


def swatch(number: int) -> Markup:
    """Return a piece of the line of that series, for the legend."""
    return _SWATCH.format(number % MOST_SERIES)


def _steps(points: Sequence[Point], span: PlotSpan) -> str:
    (at, value), *rest = points
    path = [f"M{_px(span.x(at))} {_px(span.y(value))}"]
    path += [f"H{_px(span.x(at))}V{_px(span.y(value))}" for at, value in rest]
    # The last value lasts until the end.
    return "".join([*path, f"H{WIDTH}"])


def _px(number: float) -> str:
    return f"{round(number, 1):g}"
