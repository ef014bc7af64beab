"""Draw a neighbourhood as SVG: on the left, the pages that link to the page; on the right, those that it links to. Pure.

In a narrow window the pages that link to it are above, and the others below. Titles are hostile text: they are cut, and
every character in them is visible. Each page is a link, which the keyboard reaches.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from markupsafe import Markup

from knowledge.search.maps.neighbourhood import NearPage, Neighbourhood, Side
from mcp_server.web.graph.short_text import in_lines, plain, px
from mcp_server.web.text.site_addresses import page_address

Address = Callable[[str], str]
"""Returns the address of a page, by its path."""
ROW = 24.0
MARGIN = 16.0
DOT = 5.0
MOST_ROWS, MOST_NARROW_ROWS = 36, 12
"""Pages in one column of the picture, and on one side of the narrow one. The lists below it have the others."""
MOST_LINES = 600
CHARACTER = 6.9
"""Estimated width of a character."""
WIDE, NARROW = 1040.0, 290.0
INDENT = 26.0

_SVG = Markup(
    '<svg class="near near-{0}" xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {1} {2}" width="{1}" height="{2}" '
    'role="group" aria-label="{3}">{4}</svg>'
)
_LINE = Markup('<path class="{0}" d="{1}"/>')
_PAGE = Markup(
    '<a class="{0}" href="{1}"><title>{2}</title><circle cx="{3}" cy="{4}" r="{5}"/>'
    '<text x="{6}" y="{7}" text-anchor="{8}">{9}</text></a>'
)
_MIDDLE = Markup(
    '<a class="middle" href="{0}"><title>{1}</title><rect x="{2}" y="{3}" width="{4}" height="{5}" rx="8"/>{6}</a>'
)
_TEXT = Markup('<text x="{0}" y="{1}" text-anchor="middle">{2}</text>')


@dataclass(frozen=True, slots=True)
class NeighbourhoodPicture:
    """The picture for wide and for narrow windows. `left_out` pages of the neighbourhood are not in the wide one."""

    wide: Markup
    narrow: Markup
    left_out: int


@dataclass(frozen=True, slots=True)
class _Spot:
    """Where a page is drawn: its dot, where its text begins or ends, and the room for the text."""

    x: float
    y: float
    text: float
    anchor: str
    characters: int


def picture(around: Neighbourhood, colours: Mapping[str, int], address: Address = page_address) -> NeighbourhoodPicture:
    """Return the picture of the neighbourhood. `colours` has the number of each page's colour, `address` where it is."""
    columns = {
        (side, steps): [page for page in around.near if _drawn_on(page.side) == side and page.steps == steps][
            :MOST_ROWS
        ]
        for side in ("in", "out")
        for steps in (1, 2)
    }
    shown = sum(map(len, columns.values()))
    return NeighbourhoodPicture(
        _wide(around, columns, colours, address), _narrow(around, columns, colours, address), len(around.near) - shown
    )


_Columns = Mapping[tuple[str, int], Sequence[NearPage]]


def _drawn_on(side: Side) -> str:
    return "in" if side == "in" else "out"


# --- wide: columns from left to right ---------------------------------------------------------------------------------


def _wide(around: Neighbourhood, columns: _Columns, colours: Mapping[str, int], address: Address) -> Markup:
    two = any(columns[side, 2] for side in ("in", "out"))
    middle, half = WIDE / 2, 84.0
    near, far = (160.0, 340.0) if two else (190.0, 0.0)
    rows = max(3, *map(len, columns.values()))
    height = rows * ROW + 2 * MARGIN
    spots: dict[str, _Spot] = {}
    for (side, steps), pages in columns.items():
        towards = -1 if side == "in" else 1
        away = near if steps == 1 else far
        room = (WIDE / 2 - away if steps == 2 or not two else far - near) - 2 * DOT - MARGIN
        x = middle + towards * away
        first = (height - (len(pages) - 1) * ROW) / 2
        ordered = pages if steps == 1 else _beside(pages, around, spots)
        for row, page in enumerate(ordered):
            text = x + towards * (DOT + 5)
            anchor = "end" if towards < 0 else "start"
            spots[page.path] = _Spot(x, first + row * ROW, text, anchor, int(room / CHARACTER))
    lines = [_wide_line(edge, spots, around.path, (middle, height / 2, half)) for edge in _edges(around, spots)]
    title = in_lines(around.title or around.path, 20)
    box = max(1, len(title)) * 17.0 + 18.0
    first_line = height / 2 - (len(title) - 1) * 8.5 + 4.5
    words = Markup("").join(
        _TEXT.format(px(middle), px(first_line + n * 17), _safe(line)) for n, line in enumerate(title)
    )
    rectangle = px(middle - half), px(height / 2 - box / 2), px(2 * half), px(box)
    centre = _MIDDLE.format(address(around.path), plain(around.path), *rectangle, words)
    parts = [*lines, centre, *(_page(page, spots, colours, address) for page in _in_reading_order(columns))]
    return _SVG.format("wide", px(WIDE), px(height), _described(around), Markup("").join(parts))


def _beside(pages: Sequence[NearPage], around: Neighbourhood, spots: Mapping[str, _Spot]) -> Sequence[NearPage]:
    """Return the pages of an outer column, each near the pages that it is connected with, so that fewer lines cross."""
    heights: dict[str, list[float]] = {page.path: [] for page in pages}
    for source, target in around.edges:
        for one, other in ((source, target), (target, source)):
            if one in heights and other in spots:
                heights[one].append(spots[other].y)
    return sorted(pages, key=lambda page: (sum(heights[page.path]) / max(1, len(heights[page.path])), page.path))


def _wide_line(
    edge: tuple[str, str], spots: Mapping[str, _Spot], middle: str, box: tuple[float, float, float]
) -> Markup:
    """Return the line of a link; it leaves and arrives horizontally."""
    source, target = edge
    x, y, half = box
    if middle in edge:
        other = spots[target if source == middle else source]
        towards = 1 if other.x > x else -1
        at = (x + towards * half, y)
        start, end = (at, (other.x, other.y)) if source == middle else ((other.x, other.y), at)
        return _curve("way", start, end, bulge=0.0)
    start, end = (spots[source].x, spots[source].y), (spots[target].x, spots[target].y)
    # Two pages of one column are joined by an arc on the side of the middle.
    bulge = 0.0 if start[0] != end[0] else 34.0 * (1 if start[0] < x else -1)
    return _curve("way among", start, end, bulge=bulge)


def _curve(kind: str, start: tuple[float, float], end: tuple[float, float], *, bulge: float) -> Markup:
    (a, b), (c, d) = start, end
    direction = (1 if bulge > 0 else -1) if bulge else (1 if c > a else -1)
    leaving = a + direction * (DOT if kind == "way among" or bulge else 0)
    arriving = c - (direction if not bulge else -direction) * (DOT + 1)
    one, two = (a + bulge, c + bulge) if bulge else ((leaving + arriving) / 2,) * 2
    line = f"M{px(leaving)} {px(b)}C{px(one)} {px(b)} {px(two)} {px(d)} {px(arriving)} {px(d)}"
    back = -7 * direction if not bulge else 7 * direction
    tip = f"M{px(arriving)} {px(d)}l{px(back)} -3.5v7z"
    return _LINE.format(kind, line) + _LINE.format("tip" if kind == "way" else "tip among", tip)


# --- narrow: rows from top to bottom ----------------------------------------------------------------------------------


def _narrow(around: Neighbourhood, columns: _Columns, colours: Mapping[str, int], address: Address) -> Markup:
    above = [*columns["in", 2][: MOST_NARROW_ROWS // 2], *columns["in", 1][:MOST_NARROW_ROWS]]
    below = [*columns["out", 1][:MOST_NARROW_ROWS], *columns["out", 2][: MOST_NARROW_ROWS // 2]]
    rail = 18.0
    spots: dict[str, _Spot] = {}
    y = MARGIN
    for page in (*above, None, *below):
        if page is None:
            middle = y + 6
            y += ROW + 12
            continue
        x = rail + INDENT * page.steps
        spots[page.path] = _Spot(x, y, x + DOT + 5, "start", int((NARROW - x - 2 * DOT) / CHARACTER))
        y += ROW
    lines = [_narrow_line(edge, spots, around.path, (rail, middle)) for edge in _edges(around, spots)]
    title = next(iter(in_lines(around.title or around.path, int((NARROW - 24) / 8), 1)), "")
    words = Markup('<text x="{0}" y="{1}">{2}</text>').format(px(rail), px(middle + 4.5), _safe(title))
    rectangle = px(4.0), px(middle - 14), px(NARROW - 8), px(28.0)
    centre = _MIDDLE.format(address(around.path), plain(around.path), *rectangle, words)
    parts = [*lines, *(_page(page, spots, colours, address) for page in above), centre]
    parts += [_page(page, spots, colours, address) for page in below]
    return _SVG.format("narrow", px(NARROW), px(y), _described(around), Markup("").join(parts))


def _narrow_line(edge: tuple[str, str], spots: Mapping[str, _Spot], middle: str, centre: tuple[float, float]) -> Markup:
    """Return the line of a link: it runs down or up in the free strip at the left."""
    source, target = ((None if path == middle else spots[path]) for path in edge)
    if source and target:
        a, b, c, d = source.x, source.y, target.x, target.y
        rail = min(a, c) - INDENT / 2
        line = f"M{px(a - DOT)} {px(b)}C{px(rail)} {px(b)} {px(rail)} {px(d)} {px(c - DOT - 1)} {px(d)}"
        return _LINE.format("way among", line) + _LINE.format("tip among", f"M{px(c - DOT - 1)} {px(d)}l-7 -3.5v7z")
    (x, y), other = centre, source or target
    if other is None:
        return Markup("")
    above = other.y < y
    ends, turns = y + (-14 if above else 14), other.y + (8 if above else -8)
    down, corner = f"M{px(x)} {px(ends)}V{px(turns)}", f"Q{px(x)} {px(other.y)} {px(x + 8)} {px(other.y)}"
    line = f"{down}{corner}H{px(other.x - DOT - 1)}"
    at_middle = f"M{px(x)} {px(ends)}l-3.5 {-7 if above else 7}h7z"
    at_page = f"M{px(other.x - DOT - 1)} {px(other.y)}l-7 -3.5v7z"
    return _LINE.format("way", line) + _LINE.format("tip", at_middle if source else at_page)


# --- both -------------------------------------------------------------------------------------------------------------


def _in_reading_order(columns: _Columns) -> list[NearPage]:
    """Return the pages from left to right, which is the order of the keyboard."""
    order = (("in", 2), ("in", 1), ("out", 1), ("out", 2))
    return [page for column in order for page in columns[column]]


def _edges(around: Neighbourhood, spots: Mapping[str, _Spot]) -> list[tuple[str, str]]:
    """Return the links that are drawn, those of the page in the middle last, so that they lie on top.

    With pages two links away, only the links that lead outwards from the middle are drawn; all others would hide them.
    """
    drawn = {around.path, *spots}
    steps = {around.path: 0} | {page.path: page.steps for page in around.near}
    edges = [edge for edge in around.edges if drawn.issuperset(edge)]
    if max(steps.values()) > 1:
        side = {page.path: _drawn_on(page.side) for page in around.near}
        edges = [
            (source, target)
            for source, target in edges
            if abs(steps[source] - steps[target]) == 1
            and (around.path in (source, target) or side[source] == side[target])
        ]
    return sorted(edges, key=lambda edge: around.path in edge)[-MOST_LINES:]


def _page(page: NearPage, spots: Mapping[str, _Spot], colours: Mapping[str, int], address: Address) -> Markup:
    spot = spots.get(page.path)
    if spot is None:
        return Markup("")
    title = next(iter(in_lines(page.title or page.path, spot.characters, 1)), page.path)
    classes = f"page c{colours.get(page.path, 0)}" + (" two" if page.steps == 2 else "")
    dot = px(spot.x), px(spot.y), px(DOT if page.steps == 1 else DOT - 1)
    place = px(spot.text), px(spot.y + 4.5), spot.anchor
    return _PAGE.format(classes, address(page.path), _hint(page), *dot, *place, _safe(title))


def _hint(page: NearPage) -> str:
    how = {"in": "links here", "out": "linked from here", "both": "links here and is linked from here"}[page.side]
    return f"{plain(page.title)} ({plain(page.path)}), " + (how if page.steps == 1 else "two links away")


def _described(around: Neighbourhood) -> str:
    return (
        f"Links of {plain(around.title or around.path)}: {around.backlinks.number} pages link to it, "
        f"it links to {around.links.number}. The lists below have the same pages."
    )


def _safe(text: str) -> str:
    # Half of a surrogate pair cannot be encoded.
    return text.encode("utf-8", "replace").decode()
