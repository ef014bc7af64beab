"""Place the boxes and arrows of a directed graph on a sheet: in layers, with arrows back around the outside. Pure.

Each box lies in a layer behind all boxes with arrows to it. Arrows to the next layer run between the layers. All others, and
those that lead back, run in lanes beside the boxes, so that no arrow crosses a box.

Source: Sugiyama, Tagawa, Toda, "Methods for Visual Understanding of Hierarchical System Structures" (1981), for layers and
their order by barycenters. Where that method leads a long arrow through invisible boxes, this one leads it through a lane. With
invisible boxes (as in igraph's layered layout), an arrow covers the arrow that leads back, and labels cover boxes, because the
layout leaves no room for them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

Direction = Literal["across", "down"]
Side = Literal[-1, 1]
Point = tuple[float, float]

SPACE = 28.0
"""Between two boxes of one layer."""
CLEAR = 22.0
"""Length of an arrow before and after its label."""
PORT = 16.0
"""Between two arrows at one side of a box."""
TRACK = 14.0
"""Between two arrows beside each other in the gap between layers."""
LANE = 20.0
BESIDE = 6.0
"""Between a lane and its label."""
MARGIN = 12.0
SWEEPS = 6
SIDES: tuple[Side, Side] = (-1, 1)
PLACES = (0.5, 0.62, 0.38, 0.74, 0.26)
"""Parts of a curve at which its label can be, best first."""


@dataclass(frozen=True, slots=True)
class BoxSize:
    """The room that something takes."""

    width: float = 0.0
    height: float = 0.0


@dataclass(frozen=True, slots=True)
class Box:
    """A rectangle on the sheet; `x` and `y` are its upper left corner."""

    x: float
    y: float
    width: float
    height: float

    def overlaps(self, other: Box) -> bool:
        """Return whether the two share an area."""
        beside = self.x + self.width <= other.x or other.x + other.width <= self.x
        return not (beside or self.y + self.height <= other.y or other.y + other.height <= self.y)


@dataclass(frozen=True, slots=True)
class Arrow:
    """An arrow from box to box, by number. `back`: it leads to an earlier box."""

    source: int
    target: int
    label: BoxSize = BoxSize()
    back: bool = False


@dataclass(frozen=True, slots=True)
class ArrowRoute:
    """The points of an arrow, from box to box, and the middle of its label.

    `curved`: it has four points, with a curve between the second and the third. Else all corners are right angles.
    """

    points: tuple[Point, ...]
    label: Point
    curved: bool = False


@dataclass(frozen=True, slots=True)
class Sheet:
    """A whole drawing. `routes` has None for an arrow from a box to itself, which is not drawn."""

    width: float
    height: float
    direction: Direction
    boxes: tuple[Box, ...]
    routes: tuple[ArrowRoute | None, ...]


def laid_out(sizes: Sequence[BoxSize], arrows: Sequence[Arrow], direction: Direction, start: int = 0) -> Sheet:
    """Return the drawing, with the layers from left to right (`across`) or downwards (`down`), box `start` in the first."""
    plan = _Plan(sizes, arrows, direction, start)
    return _on_sheet(plan, _labelled(plan, [_route(plan, number) for number in range(len(arrows))]))


# --- layers -----------------------------------------------------------------------------------------------------------


def returning(count: int, arrows: Sequence[Arrow], start: int) -> set[int]:
    """Return the arrows that lead back: those marked so, and others that close a circle."""
    out: list[list[int]] = [[] for _ in range(count)]
    for number, arrow in enumerate(arrows):
        if not arrow.back:
            out[arrow.source].append(number)
    found = {number for number, arrow in enumerate(arrows) if arrow.back}
    # Depth first from `start`, with a stack of our own: an arrow to a box on the current path closes a circle.
    seen, open_ = set[int](), set[int]()
    # After `start` all others: a phase that the graph no longer has is not reached from it.
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
    """Return the layer of each box: one more than the highest layer with an arrow to it."""
    found = [0] * count
    ahead = [arrow for number, arrow in enumerate(arrows) if number not in back]
    # Without the arrows back there is no circle, so no path is longer than the number of boxes.
    for _ in range(count):
        before = list(found)
        for arrow in ahead:
            found[arrow.target] = max(found[arrow.target], found[arrow.source] + 1)
        if found == before:
            break
    return found


def _ordered(layer: Sequence[int], arrows: Sequence[Arrow]) -> list[list[int]]:
    """Return the boxes of each layer, sorted so that each is near the boxes that it has arrows to or from."""
    rows: list[list[int]] = [[] for _ in range(max(layer, default=-1) + 1)]
    for box, at in enumerate(layer):
        rows[at].append(box)
    joined: list[list[int]] = [[] for _ in layer]
    for arrow in arrows:
        joined[arrow.source].append(arrow.target)
        joined[arrow.target].append(arrow.source)
    for sweep in range(SWEEPS):
        for row in rows if sweep % 2 == 0 else reversed(rows):
            # As a share of the layer, so that layers with different numbers of boxes can be compared.
            place = {box: (n + 0.5) / len(there) for there in rows for n, box in enumerate(there)}
            # A box without arrows stays where it is.
            near = {box: [place[other] for other in joined[box]] or [place[box]] for box in row}
            row.sort(key=lambda box: sum(near[box]) / len(near[box]))
    return rows


# --- the plan: lanes, ports and gaps, in `along` (as the layers follow each other) and `beside` -------------------------


class _Plan:
    """The data from which a drawing's routes are computed, step by step.

    Its coordinates don't depend on the drawing's direction: `along` runs from layer to layer, `beside` runs within a layer.
    """

    def __init__(self, sizes: Sequence[BoxSize], arrows: Sequence[Arrow], direction: Direction, start: int) -> None:
        self.arrows, self.direction = arrows, direction
        back = returning(len(sizes), arrows, start)
        self.layer = layers(len(sizes), arrows, back)
        self.rows = _ordered(self.layer, arrows)
        self.drawn = [n for n, arrow in enumerate(arrows) if arrow.source != arrow.target]
        self.lanes = self._lanes(back)
        self._assign_ends()
        turned = [self.turned(size) for size in sizes]
        # How long each box is along, with room for its ports, and beside.
        self.extents = [
            (max(along, (self._ports_of(n) + 1) * PORT), beside) for n, (along, beside) in enumerate(turned)
        ]
        self.depths = [max(self.extents[box][0] for box in row) for row in self.rows]
        self.starts = self._starts()
        self.places = self._places()
        self.lane_at = self._lane_positions()
        self.faces = self._faces()

    def turned(self, size: BoxSize) -> tuple[float, float]:
        """Return the extent of something of this size in `along`, and in `beside`."""
        return (size.width, size.height) if self.direction == "across" else (size.height, size.width)

    def _lanes(self, back: set[int]) -> dict[int, tuple[Side, int]]:
        """Return the lane of each arrow that needs one: its side, and its level, counted from the boxes outwards."""
        spans: dict[int, tuple[int, int]] = {}
        for n in self.drawn:
            source, target = self.layer[self.arrows[n].source], self.layer[self.arrows[n].target]
            if n in back or target != source + 1:
                spans[n] = min(source, target), max(source, target)
        found: dict[int, tuple[Side, int]] = {}
        # Shorter arrows first, so that they lie inside of longer ones and do not cross them.
        for number in sorted(spans, key=lambda n: (spans[n][1] - spans[n][0], n)):
            side: Side = 1 if number in back else -1
            levels = [
                level
                for other, (there, level) in found.items()
                if there == side and _share_a_gap(spans[number], spans[other])
            ]
            found[number] = side, 1 + max(levels, default=-1)
        return found

    def end(self, number: int, box: int) -> tuple[bool, bool]:
        """Return two facts about the end of an arrow in a lane, at this box.

        The first is whether the arrow's other box is in the same layer or a higher one. The second is whether the arrow touches the
        box's side: it can if the box is outermost in its layer. At any other box it has to pass through the gap between layers.
        """
        arrow, (side, _) = self.arrows[number], self.lanes[number]
        other = arrow.target if box == arrow.source else arrow.source
        row = self.rows[self.layer[box]]
        return self.layer[other] >= self.layer[box], row[-1 if side == 1 else 0] == box

    def _assign_ends(self) -> None:
        """Give each end of an arrow in a lane a port at the side of its box, or a track in the gap beside its layer."""
        self.ports: dict[tuple[int, Side], list[int]] = {}
        self.tracks: dict[tuple[int, int], float] = {}
        self.gaps: dict[tuple[int, bool], int] = {}
        for number, (side, _) in self.lanes.items():
            for box in (self.arrows[number].source, self.arrows[number].target):
                ahead, outermost = self.end(number, box)
                if outermost:
                    self.ports.setdefault((box, side), []).append(number)
                else:
                    gap = self.layer[box], ahead
                    self.gaps[gap] = self.gaps.get(gap, 0) + 1
                    self.tracks[number, box] = self.gaps[gap] * TRACK
        for (box, _), there in self.ports.items():
            there.sort(key=lambda number: self._port_order(number, box))

    def _port_order(self, number: int, box: int) -> tuple[bool, int, int]:
        """Return the key by which ports are sorted along a side, so that their arrows do not cross there."""
        ahead, level = self.end(number, box)[0], self.lanes[number][1]
        return (ahead, -level if ahead else level, number)

    def _ports_of(self, box: int) -> int:
        return max(len(self.ports.get((box, side), ())) for side in SIDES)

    def _starts(self) -> list[float]:
        """Return each layer's start on the `along` axis."""

        def tracks(layer: int, *, ahead: bool) -> float:
            return self.gaps.get((layer, ahead), 0) * TRACK

        at, found = tracks(0, ahead=False), []
        for layer in range(len(self.rows)):
            found.append(at)
            labels = [
                self.turned(self.arrows[n].label)[0]
                for n in self.drawn
                if n not in self.lanes and self.layer[self.arrows[n].source] == layer
            ]
            gap = tracks(layer, ahead=True) + 2 * CLEAR + max(labels, default=0.0)
            at += self.depths[layer] + gap + tracks(layer + 1, ahead=False)
        return found

    def _places(self) -> list[Point]:
        """Return where each box begins. Each layer is centred on the sheet in `beside`, each box in its layer in `along`."""
        found = [(0.0, 0.0)] * len(self.extents)
        for layer, row in enumerate(self.rows):
            beside = -(sum(self.extents[box][1] for box in row) + SPACE * (len(row) - 1)) / 2
            for box in row:
                along, wide = self.extents[box]
                found[box] = (self.starts[layer] + (self.depths[layer] - along) / 2, beside)
                beside += wide + SPACE
        return found

    def _lane_positions(self) -> dict[tuple[Side, int], float]:
        """Return each lane's `beside` coordinate: outside of all boxes, and of the labels of the lanes further inside."""
        found: dict[tuple[Side, int], float] = {}
        for side in SIDES:
            reach = [
                beside + wide if side == 1 else -beside
                for (_, beside), (_, wide) in zip(self.places, self.extents, strict=True)
            ]
            at = max(reach, default=0.0) + LANE
            for level in sorted({level for there, level in self.lanes.values() if there == side}):
                found[side, level] = side * at
                here = [number for number, lane in self.lanes.items() if lane == (side, level)]
                widest = max(self.turned(self.arrows[number].label)[1] for number in here)
                at += LANE + (widest + BESIDE if widest else 0.0)
        return found

    def _faces(self) -> dict[tuple[int, int, bool], float]:
        """Return each arrow's `beside` coordinate at the front (`True`) or back of a box, by arrow and box."""
        centres = [beside + wide / 2 for (_, beside), (_, wide) in zip(self.places, self.extents, strict=True)]
        # By box and face: the arrows there. They are sorted by the place that each leads to, so that they do not cross.
        touching: dict[tuple[int, bool], list[tuple[float, int]]] = {}
        for number in self.drawn:
            arrow = self.arrows[number]
            if number not in self.lanes:
                touching.setdefault((arrow.source, True), []).append((centres[arrow.target], number))
                touching.setdefault((arrow.target, False), []).append((centres[arrow.source], number))
                continue
            for box in (arrow.source, arrow.target):
                ahead, outermost = self.end(number, box)
                if not outermost:
                    # An arrow that turns off to a lane lies outside of those that lead on to boxes.
                    towards = self.lanes[number][0] * float("inf")
                    touching.setdefault((box, ahead), []).append((towards, number))
        found: dict[tuple[int, int, bool], float] = {}
        for (box, front), there in touching.items():
            beside, wide = self.places[box][1], self.extents[box][1]
            for n, (_, number) in enumerate(sorted(there), 1):
                found[number, box, front] = beside + wide * n / (len(there) + 1)
        return found

    def face(self, box: int, *, front: bool) -> float:
        """Return the `along` coordinate of the front or back of the box."""
        return self.places[box][0] + (self.extents[box][0] if front else 0.0)

    def areas(self) -> list[Box]:
        """Return the areas of all boxes."""
        return [Box(*place, *extent) for place, extent in zip(self.places, self.extents, strict=True)]


def _share_a_gap(one: tuple[int, int], other: tuple[int, int]) -> bool:
    """Return whether two arrows in lanes run past the same place, so that they need different levels.

    Each is given by its lowest and highest layer. An arrow within one layer runs only past that layer.
    """
    (a, b), (c, d) = one, other
    return (a <= d and c <= b) if a == b or c == d else (a < d and c < b)


# --- routes -----------------------------------------------------------------------------------------------------------


def _route(plan: _Plan, number: int) -> ArrowRoute | None:
    """Return the arrow's points, in `along` and `beside`."""
    arrow = plan.arrows[number]
    if arrow.source == arrow.target:
        return None
    if number not in plan.lanes:
        return _between(plan, number, arrow)
    side, _ = plan.lanes[number]
    lane = plan.lane_at[plan.lanes[number]]
    out, into = _way_out(plan, number, arrow.source), _way_out(plan, number, arrow.target)
    points = (*out, (out[-1][0], lane), (into[-1][0], lane), *reversed(into))
    wide = plan.turned(arrow.label)[1]
    return ArrowRoute(points, ((out[-1][0] + into[-1][0]) / 2, lane + side * (BESIDE + wide / 2)))


def _between(plan: _Plan, number: int, arrow: Arrow) -> ArrowRoute:
    """Return the curve to the next layer. It runs straight until it has passed the deepest box of its layer."""
    out, into = plan.faces[number, arrow.source, True], plan.faces[number, arrow.target, False]
    layer = plan.layer[arrow.source]
    first, last = (plan.starts[layer] + plan.depths[layer], out), (plan.starts[layer + 1], into)
    ends = (plan.face(arrow.source, front=True), out), (plan.face(arrow.target, front=False), into)
    return ArrowRoute((ends[0], first, last, ends[1]), on_curve(first, last, 0.5), curved=True)


def _way_out(plan: _Plan, number: int, box: int) -> list[Point]:
    """Return the points from the box to where the arrow turns towards its lane."""
    ahead, outermost = plan.end(number, box)
    if outermost:
        side = plan.lanes[number][0]
        there = plan.ports[box, side]
        (along, beside), (deep, wide) = plan.places[box], plan.extents[box]
        at = along + deep * (there.index(number) + 1) / (len(there) + 1)
        return [(at, beside + (wide if side == 1 else 0.0))]
    layer, beside, track = plan.layer[box], plan.faces[number, box, ahead], plan.tracks[number, box]
    start = plan.starts[layer]
    turn = start + plan.depths[layer] + track if ahead else start - track
    return [(plan.face(box, front=ahead), beside), (turn, beside)]


def on_curve(first: Point, last: Point, part: float) -> Point:
    """Return the point at that share of the curve, which begins and ends in the `along` direction.

    Source: Bézier's cubic, with both control points half way along.
    """
    (a, b), (c, d), rest = first, last, 1 - part
    half = (a + c) / 2
    along = rest**3 * a + 3 * rest**2 * part * half + 3 * rest * part**2 * half + part**3 * c
    return along, b * (rest**3 + 3 * rest**2 * part) + d * (part**3 + 3 * rest * part**2)


def _labelled(plan: _Plan, routes: Sequence[ArrowRoute | None]) -> list[ArrowRoute | None]:
    """Return the routes with the labels of curves where they overlap the least: neither each other nor a box, if possible."""
    taken, found = plan.areas(), list(routes)
    for number, route in enumerate(routes):
        if route is None or not route.curved or not plan.arrows[number].label.width:
            continue
        size = plan.turned(plan.arrows[number].label)
        places = [on_curve(route.points[1], route.points[2], part) for part in PLACES]
        best = min(places, key=lambda place: sum(_area(place, size).overlaps(other) for other in taken))
        taken.append(_area(best, size))
        found[number] = ArrowRoute(route.points, best, curved=True)
    return found


def _area(middle: Point, size: Point) -> Box:
    return Box(middle[0] - size[0] / 2, middle[1] - size[1] / 2, size[0], size[1])


# --- on the sheet -----------------------------------------------------------------------------------------------------


def _on_sheet(plan: _Plan, routes: Sequence[ArrowRoute | None]) -> Sheet:
    """Return the drawing in x and y, with a margin around everything."""
    areas = plan.areas()
    for number, route in enumerate(routes):
        if route:
            areas += [_area(point, (0.0, 0.0)) for point in route.points]
            areas.append(_area(route.label, plan.turned(plan.arrows[number].label)))
    low = [min((area.x for area in areas), default=0.0) - MARGIN, min((area.y for area in areas), default=0.0) - MARGIN]
    high = (
        max((area.x + area.width for area in areas), default=0.0) + MARGIN,
        max((area.y + area.height for area in areas), default=0.0) + MARGIN,
    )
    across = plan.direction == "across"

    def shown(point: Point) -> Point:
        along, beside = round(point[0] - low[0], 1), round(point[1] - low[1], 1)
        return (along, beside) if across else (beside, along)

    boxes = [
        Box(*shown(place), *(extent if across else extent[::-1]))
        for place, extent in zip(plan.places, plan.extents, strict=True)
    ]
    drawn = [r and ArrowRoute(tuple(shown(point) for point in r.points), shown(r.label), r.curved) for r in routes]
    width, height = shown(high)
    return Sheet(width, height, plan.direction, tuple(boxes), tuple(drawn))
