"""Draw the pages with the most links as a small SVG: the graph of a browser without scripts. Pure.

The lists beside it have the links to the pages, so the picture is one image.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from markupsafe import Markup

from mcp_server.web.graph.short_text import in_lines, plain, px
from mcp_server.web.link_graph.overview import DrawnPage, GraphOverview

WIDTH, HEIGHT, MARGIN = 960.0, 560.0, 40.0
MOST_LABELS, LABEL_CHARS = 28, 26
SMALLEST, LARGEST = 2.5, 11.0
CHARACTER, LINE = 6.6, 15.0
_SVG = Markup(
    '<svg class="whole" xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {0} {1}" role="img" aria-label="{2}">{3}</svg>'
)
_LINES = Markup('<path class="way" d="{0}"/>')
_DOT = Markup('<circle class="c{0}" cx="{1}" cy="{2}" r="{3}"><title>{4}</title></circle>')
_NAME = Markup('<text x="{0}" y="{1}" text-anchor="middle">{2}</text>')


def overview_picture(overview: GraphOverview) -> Markup:
    """Return the picture of the largest pages."""
    drawn = overview.drawn
    left, right = min(page.x for page in drawn), max(page.x for page in drawn)
    top, bottom = min(page.y for page in drawn), max(page.y for page in drawn)
    scale = min((WIDTH - 2 * MARGIN) / max(right - left, 1.0), (HEIGHT - 2 * MARGIN) / max(bottom - top, 1.0))
    across, down = (WIDTH - (right + left) * scale) / 2, (HEIGHT - (bottom + top) * scale) / 2
    spots = [(page.x * scale + across, page.y * scale + down) for page in drawn]
    most = max(page.links for page in drawn) or 1
    lines = "".join(
        f"M{px(spots[a][0])} {px(spots[a][1])}L{px(spots[b][0])} {px(spots[b][1])}" for a, b in overview.lines
    )
    parts = [_LINES.format(lines)]
    for page, (x, y) in reversed(list(zip(drawn, spots, strict=True))):
        parts.append(
            _DOT.format(page.colour, px(x), px(y), px(_size(page, most)), f"{plain(page.title)} ({plain(page.path)})")
        )
    parts += _names(drawn, spots, most)
    about = f"The {len(drawn)} pages with the most links, of {overview.pages}, as dots with lines between them."
    return _SVG.format(px(WIDTH), px(HEIGHT), about, Markup("").join(parts))


def _size(page: DrawnPage, most: int) -> float:
    return SMALLEST + (LARGEST - SMALLEST) * math.sqrt(page.links / most)


def _names(drawn: Sequence[DrawnPage], spots: list[tuple[float, float]], most: int) -> list[Markup]:
    """Return the names of the largest pages, except where two would lie on each other."""
    found: list[Markup] = []
    taken: list[tuple[float, float, float, float]] = []
    for page, (x, y) in zip(drawn, spots, strict=True):
        text = next(iter(in_lines(page.title or page.path, LABEL_CHARS, 1)), "")
        half, base = len(text) * CHARACTER / 2, y - _size(page, most) - 4
        box = (x - half, base - LINE, x + half, base)
        if any(box[0] < b[2] and b[0] < box[2] and box[1] < b[3] and b[1] < box[3] for b in taken):
            continue
        taken.append(box)
        middle = min(max(x, half + 4), WIDTH - half - 4)
        found.append(_NAME.format(px(middle), px(max(base, LINE)), text.encode("utf-8", "replace").decode()))
        if len(found) == MOST_LABELS:
            break
    return found
