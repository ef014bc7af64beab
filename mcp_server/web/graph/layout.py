"""Where the boxes and arrows of a directed graph go on a sheet: in layers, with ways back around the outside. Pure.

Boxes stand in layers, each behind all that lead to it. Arrows to the next layer run between the layers; all others, and
those that lead back, run in lanes beside the boxes, so that no arrow crosses a box.

Source: Sugiyama, Tagawa, Toda, "Methods for Visual Understanding of Hierarchical System Structures" (1981), for layers and
their order by barycenters; the lanes take the place of the invisible boxes there.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

Direction = Literal["across", "down"]
Side = Literal[-1, 1]
Point = tuple[float, float]

SPACE = 28.0
"""Between boxes of one layer."""
CLEAR = 22.0
"""Of an arrow, before and after its label."""
PORT = 16.0
"""Between arrows that touch one side of a box."""
TRACK = 14.0
"""Between arrows that run beside each other in the gap of two layers."""
LANE = 20.0
BESIDE = 6.0
"""Between a lane and its label."""
MARGIN = 12.0
SWEEPS = 6
PLACES = (0.5, 0.62, 0.38, 0.74, 0.26)
"""Where on a curve its label may stand, best first."""


@dataclass(frozen=True, slots=True)
class BoxSize:
    """How much room something takes."""

    width: float = 0.0
    height: float = 0.0


@dataclass(frozen=True, slots=True)
class Box:
    """A rectangle on the sheet, by its upper left corner."""

    x: float
    y: float
    width: float
    height: float

    def overlaps(self, other: Box) -> bool:
        """Return whether the two have an area in common."""
        beside = self.x + self.width <= other.x or other.x + other.width <= self.x
        return not (beside or self.y + self.height <= other.y or other.y + other.height <= self.y)


@dataclass(frozen=True, slots=True)
class Arrow:
    """An arrow from box to box, by their numbers. `back`: it leads back."""

    source: int
    target: int
    label: BoxSize = BoxSize()
    back: bool = False


@dataclass(frozen=True, slots=True)
class ArrowRoute:
    """How an arrow runs, from box to box, and the middle of its label.

    `curved`: between its second and its third point, of four, it is one curve; else all corners are right angles.
    """

    points: tuple[Point, ...]
    label: Point
    curved: bool = False


@dataclass(frozen=True, slots=True)
class Sheet:
    """The whole drawing. `routes` has None for an arrow from a box to itself, which is not drawn."""

    width: float
    height: float
    direction: Direction
    boxes: tuple[Box, ...]
    routes: tuple[ArrowRoute | None, ...]


def laid_out(sizes: Sequence[BoxSize], arrows: Sequence[Arrow], direction: Direction, start: int = 0) -> Sheet:
    """Return where everything goes if the layers follow each other from left to right (`across`) or downwards (`down`)."""
    plan = _Plan(sizes, arrows, direction, start)
    routes = [_route(plan, number) for number in range(len(arrows))]
    placed = _labelled(plan, routes)
    return _on_sheet(plan, placed)


# --- layers -----------------------------------------------------------------------------------------------------------


def returning(count: int, arrows: Sequence[Arrow], start: int) -> set[int]:
    """Return which arrows lead back: those that say so, and of the rest those that close a circle."""
    out: list[list[int]] = [[] for _ in range(count)]
    for number, arrow in enumerate(arrows):
        if not arrow.back:
            out[arrow.source].append(number)
    found = {number for number, arrow in enumerate(arrows) if arrow.back}
    seen, open_ = set[int](), set[int]()
    for root in (start, *range(count)):
        if root in seen or root >= count:
            continue
        seen.add(root)
        open_.add(root)
        path = [(root, iter(out[root]))]
        while path:
            here, rest = path[-1]
            following = next(rest, None)
            if following is None:
                open_.discard(here)
                path.pop()
            elif (target := arrows[following].target) in open_:
                found.add(following)
            elif target not in seen:
                seen.add(target)
                open_.add(target)
                path.append((target, iter(out[target])))
    return found


def layers(count: int, arrows: Sequence[Arrow], back: set[int]) -> list[int]:
    """Return the layer of each box: one more than the highest of those that lead to it."""
    found = [0] * count
    ahead = [arrow for number, arrow in enumerate(arrows) if number not in back]
    # Without the arrows that lead back there is no circle, so no way is longer than there are boxes.
    for _ in range(count):
        before = list(found)
        for arrow in ahead:
            found[arrow.target] = max(found[arrow.target], found[arrow.source] + 1)
        if found == before:
            break
    return found


def _ordered(layer: Sequence[int], arrows: Sequence[Arrow]) -> list[list[int]]:
    """Return the boxes of each layer, next to those that they are joined with."""
    rows: list[list[int]] = [[] for _ in range(max(layer, default=-1) + 1)]
    for box, at in enumerate(layer):
        rows[at].append(box)
    joined: list[list[int]] = [[] for _ in layer]
    for arrow in arrows:
        joined[arrow.source].append(arrow.target)
        joined[arrow.target].append(arrow.source)
    for sweep in range(SWEEPS):
        for row in rows if sweep % 2 == 0 else reversed(rows):
            place = {box: (n + 0.5) / len(there) for there in rows for n, box in enumerate(there)}
            row.sort(key=lambda box: _middle([place[other] for other in joined[box] if other not in row], place[box]))
    return rows


def _middle(places: Sequence[float], otherwise: float) -> float:
    return sum(places) / len(places) if places else otherwise


# --- the plan: lanes, ports and gaps, in `along` (as the layers follow each other) and `beside` -------------------------


@dataclass(frozen=True, slots=True)
class _End:
    """Where an arrow in a lane touches a box: at its side, or, where other boxes are in the way, at a face and through the gap.

    `ahead` says whether the lane leads on from there, to higher layers. `track` counts the arrows that run in one gap.
    """

    box: int
    side: Side
    ahead: bool
    outermost: bool


class _Plan:
    """What is decided step by step, each step once."""

    def __init__(self, sizes: Sequence[BoxSize], arrows: Sequence[Arrow], direction: Direction, start: int) -> None:
        self.sizes, self.arrows, self.direction = sizes, arrows, direction
        self.back = returning(len(sizes), arrows, start)
        self.layer = layers(len(sizes), arrows, self.back)
        self.rows = _ordered(self.layer, arrows)

    def turned(self, size: BoxSize) -> tuple[float, float]:
        """Return how long something is along the layers, and beside."""
        return (size.width, size.height) if self.direction == "across" else (size.height, size.width)

    def in_lane(self, number: int) -> bool:
        """Return whether the arrow runs beside the boxes and not between two layers."""
        arrow = self.arrows[number]
        return number in self.back or self.layer[arrow.target] != self.layer[arrow.source] + 1

    @cached_property
    def lanes(self) -> Mapping[int, tuple[Side, int]]:
        """Return the lane of each arrow that runs in one: on which side, and how far outside. Shorter ones are further inside."""
        found: dict[int, tuple[Side, int]] = {}
        for number in sorted(self._drawn_in_lanes(), key=lambda n: (self._span(n)[1] - self._span(n)[0], n)):
            side: Side = 1 if number in self.back else -1
            beside = [other for other, (there, _) in found.items() if there == side and self._meet(number, other)]
            found[number] = (side, 1 + max((found[other][1] for other in beside), default=-1))
        return found

    def _drawn_in_lanes(self) -> list[int]:
        return [n for n, arrow in enumerate(self.arrows) if arrow.source != arrow.target and self.in_lane(n)]

    def _span(self, number: int) -> tuple[int, int]:
        ends = (self.layer[self.arrows[number].source], self.layer[self.arrows[number].target])
        return min(ends), max(ends)

    def _meet(self, one: int, other: int) -> bool:
        (a, b), (c, d) = self._span(one), self._span(other)
        return (a <= d and c <= b) if a == b or c == d else (a < d and c < b)

    def end(self, number: int, box: int) -> _End:
        """Return where the arrow, which runs in a lane, touches the box."""
        arrow, (side, _) = self.arrows[number], self.lanes[number]
        other = arrow.target if box == arrow.source else arrow.source
        row = self.rows[self.layer[box]]
        outermost = row[-1 if side == 1 else 0] == box
        return _End(box, side, self.layer[other] >= self.layer[box], outermost)

    @cached_property
    def ports(self) -> Mapping[tuple[int, Side], list[int]]:
        """Return the arrows that touch each side of each box, in their order along, so that they do not cross there."""
        found: dict[tuple[int, Side], list[int]] = {}
        for number in self.lanes:
            for box in (self.arrows[number].source, self.arrows[number].target):
                end = self.end(number, box)
                if end.outermost:
                    found.setdefault((box, end.side), []).append(number)
        for (box, _), there in found.items():
            there.sort(key=lambda number: self._port_order(number, box))
        return found

    def _port_order(self, number: int, box: int) -> tuple[bool, int, int]:
        ahead, level = self.end(number, box).ahead, self.lanes[number][1]
        return (ahead, -level if ahead else level, number)

    @cached_property
    def extents(self) -> Sequence[tuple[float, float]]:
        """Return how long each box is along and beside, with room for its ports."""
        most = [
            max((len(there) for (box, _), there in self.ports.items() if box == one), default=0)
            for one in range(len(self.sizes))
        ]
        turned = [self.turned(size) for size in self.sizes]
        return [(max(along, (n + 1) * PORT), beside) for (along, beside), n in zip(turned, most, strict=True)]

    @cached_property
    def tracks(self) -> Mapping[tuple[int, int], float]:
        """Return for arrow and box how far from the box's layer the arrow runs in the gap, where it has to."""
        found: dict[tuple[int, int], float] = {}
        used: dict[tuple[int, bool], int] = {}
        for number in self.lanes:
            for box in (self.arrows[number].source, self.arrows[number].target):
                end = self.end(number, box)
                if not end.outermost:
                    gap = (self.layer[box], end.ahead)
                    used[gap] = used.get(gap, 0) + 1
                    found[number, box] = used[gap] * TRACK
        return found

    @cached_property
    def starts(self) -> Sequence[float]:
        """Return where each layer begins along."""
        at, found = self._room(0, ahead=False), []
        for layer in range(len(self.rows)):
            found.append(at)
            labels = [
                self.turned(arrow.label)[0]
                for number, arrow in enumerate(self.arrows)
                if arrow.source != arrow.target and not self.in_lane(number) and self.layer[arrow.source] == layer
            ]
            gap = self._room(layer, ahead=True) + 2 * CLEAR + max(labels, default=0.0)
            at += self.depths[layer] + gap + self._room(layer + 1, ahead=False)
        return found

    @cached_property
    def depths(self) -> Sequence[float]:
        """Return how long each layer is along."""
        return [max(self.extents[box][0] for box in row) for row in self.rows]

    def _room(self, layer: int, *, ahead: bool) -> float:
        """Return what the arrows take that run in the gap on that side of the layer."""
        near = [
            far
            for (number, box), far in self.tracks.items()
            if self.layer[box] == layer and self.end(number, box).ahead == ahead
        ]
        return max(near, default=0.0)

    @cached_property
    def places(self) -> Sequence[tuple[float, float]]:
        """Return where each box begins, along and beside. Layers are in the middle of the sheet, boxes in that of their layer."""
        found = [(0.0, 0.0)] * len(self.sizes)
        for layer, row in enumerate(self.rows):
            beside = -(sum(self.extents[box][1] for box in row) + SPACE * (len(row) - 1)) / 2
            for box in row:
                along, wide = self.extents[box]
                found[box] = (self.starts[layer] + (self.depths[layer] - along) / 2, beside)
                beside += wide + SPACE
        return found

    @cached_property
    def lane_at(self) -> Mapping[tuple[Side, int], float]:
        """Return where each lane is beside: outside of all boxes, and of the labels of the lanes further inside."""
        found: dict[tuple[Side, int], float] = {}
        sides: tuple[Side, Side] = (-1, 1)
        for side in sides:
            at = max((self._reach(box, side) for box in range(len(self.sizes))), default=0.0) + LANE
            levels = sorted({level for there, level in self.lanes.values() if there == side})
            for level in levels:
                found[side, level] = side * at
                here = [number for number, lane in self.lanes.items() if lane == (side, level)]
                widest = max(self.turned(self.arrows[number].label)[1] for number in here)
                at += LANE + (widest + BESIDE if widest else 0.0)
        return found

    def _reach(self, box: int, side: Side) -> float:
        beside, wide = self.places[box][1], self.extents[box][1]
        return beside + wide if side == 1 else -beside

    @cached_property
    def faces(self) -> Mapping[tuple[int, int, bool], float]:
        """Return where beside each arrow touches the front (`True`) or back of a box, by arrow and box."""
        at: dict[tuple[int, bool], list[tuple[float, int]]] = {}
        for number, box, front, towards in self._touching():
            at.setdefault((box, front), []).append((towards, number))
        found: dict[tuple[int, int, bool], float] = {}
        for (box, front), there in at.items():
            beside, wide = self.places[box][1], self.extents[box][1]
            for n, (_, number) in enumerate(sorted(there), 1):
                found[number, box, front] = beside + wide * n / (len(there) + 1)
        return found

    def _touching(self) -> Iterator[tuple[int, int, bool, float]]:
        for number, arrow in enumerate(self.arrows):
            if arrow.source == arrow.target:
                continue
            if not self.in_lane(number):
                yield number, arrow.source, True, self._centre(arrow.target)
                yield number, arrow.target, False, self._centre(arrow.source)
                continue
            for box in (arrow.source, arrow.target):
                end = self.end(number, box)
                if not end.outermost:
                    yield number, box, end.ahead, end.side * float("inf")

    def _centre(self, box: int) -> float:
        return self.places[box][1] + self.extents[box][1] / 2


# --- routes -----------------------------------------------------------------------------------------------------------


def _route(plan: _Plan, number: int) -> ArrowRoute | None:
    """Return how the arrow runs, in points of `along` and `beside`."""
    arrow = plan.arrows[number]
    if arrow.source == arrow.target:
        return None
    if not plan.in_lane(number):
        return _between(plan, number, arrow)
    side, level = plan.lanes[number]
    lane = plan.lane_at[side, level]
    out, into = _way_out(plan, number, arrow.source), _way_out(plan, number, arrow.target)
    points = (*out, (out[-1][0], lane), (into[-1][0], lane), *reversed(into))
    wide = plan.turned(arrow.label)[1]
    return ArrowRoute(points, ((out[-1][0] + into[-1][0]) / 2, lane + side * (BESIDE + wide / 2)))


def _between(plan: _Plan, number: int, arrow: Arrow) -> ArrowRoute:
    """Return the curve to the next layer. It goes straight until it has passed the deepest box of its layer."""
    out, into = plan.faces[number, arrow.source, True], plan.faces[number, arrow.target, False]
    layer = plan.layer[arrow.source]
    first, last = (plan.starts[layer] + plan.depths[layer], out), (plan.starts[layer + 1], into)
    ends = (_face(plan, arrow.source, front=True), out), (_face(plan, arrow.target, front=False), into)
    return ArrowRoute((ends[0], first, last, ends[1]), on_curve(first, last, 0.5), curved=True)


def _face(plan: _Plan, box: int, *, front: bool) -> float:
    return plan.places[box][0] + (plan.extents[box][0] if front else 0.0)


def _way_out(plan: _Plan, number: int, box: int) -> list[Point]:
    """Return the points from the box to where the arrow turns towards its lane."""
    end = plan.end(number, box)
    if end.outermost:
        there = plan.ports[box, end.side]
        (along, beside), (deep, wide) = plan.places[box], plan.extents[box]
        at = along + deep * (there.index(number) + 1) / (len(there) + 1)
        return [(at, beside + (wide if end.side == 1 else 0.0))]
    layer, beside = plan.layer[box], plan.faces[number, box, end.ahead]
    start = plan.starts[layer]
    track = start + plan.depths[layer] + plan.tracks[number, box] if end.ahead else start - plan.tracks[number, box]
    return [(_face(plan, box, front=end.ahead), beside), (track, beside)]


def on_curve(first: Point, last: Point, part: float) -> Point:
    """Return the point at that part of the curve that leaves and arrives along.

    Source: Bézier's cubic, with both control points half way along.
    """
    (a, b), (c, d), rest = first, last, 1 - part
    half = (a + c) / 2
    along = rest**3 * a + 3 * rest**2 * part * half + 3 * rest * part**2 * half + part**3 * c
    return along, b * (rest**3 + 3 * rest**2 * part) + d * (part**3 + 3 * rest * part**2)


def _labelled(plan: _Plan, routes: Sequence[ArrowRoute | None]) -> list[ArrowRoute | None]:
    """Return the routes with the labels of curves where they meet neither each other nor a box, if there is such a place."""
    taken = [_area((a + deep / 2, b + wide / 2), (deep, wide)) for (a, b), (deep, wide) in _occupied(plan)]
    found: list[ArrowRoute | None] = list(routes)
    for number, route in enumerate(routes):
        if route is None or not route.curved or not plan.arrows[number].label.width:
            continue
        size = plan.turned(plan.arrows[number].label)
        places = [on_curve(route.points[1], route.points[2], part) for part in PLACES]
        best = min(places, key=lambda place: sum(_area(place, size).overlaps(other) for other in taken))
        taken.append(_area(best, size))
        found[number] = ArrowRoute(route.points, best, curved=True)
    return found


def _occupied(plan: _Plan) -> Iterator[tuple[Point, Point]]:
    yield from zip(plan.places, plan.extents, strict=True)


def _area(middle: Point, size: Point) -> Box:
    return Box(middle[0] - size[0] / 2, middle[1] - size[1] / 2, size[0], size[1])


# --- on the sheet -----------------------------------------------------------------------------------------------------


def _on_sheet(plan: _Plan, routes: Sequence[ArrowRoute | None]) -> Sheet:
    """Return the drawing in x and y, with a margin around all that is on it."""
    areas = [_area((a + deep / 2, b + wide / 2), (deep, wide)) for (a, b), (deep, wide) in _occupied(plan)]
    areas += [_area(point, (0.0, 0.0)) for route in routes if route for point in route.points]
    areas += [
        _area(route.label, plan.turned(plan.arrows[number].label)) for number, route in enumerate(routes) if route
    ]
    low = [min((area.x for area in areas), default=0.0) - MARGIN, min((area.y for area in areas), default=0.0) - MARGIN]
    high = [
        max((area.x + area.width for area in areas), default=0.0) + MARGIN,
        max((area.y + area.height for area in areas), default=0.0) + MARGIN,
    ]
    across = plan.direction == "across"

    def shown(point: Point) -> Point:
        along, beside = round(point[0] - low[0], 1), round(point[1] - low[1], 1)
        return (along, beside) if across else (beside, along)

    boxes = [
        Box(*shown(place), *(extent if across else extent[::-1]))
        for place, extent in zip(plan.places, plan.extents, strict=True)
    ]
    drawn = [r and ArrowRoute(tuple(shown(point) for point in r.points), shown(r.label), r.curved) for r in routes]
    width, height = shown((high[0], high[1]))
    return Sheet(width, height, plan.direction, tuple(boxes), tuple(drawn))
