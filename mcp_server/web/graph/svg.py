"""A phase graph as a picture: SVG drawn here, coloured by the style sheet, and the same in words. Pure.

Names may be of any length and of anybody's choice: they are shown inert, in a few lines, and in full where one points at them.

Source: W3C SVG 2, sections 5.8 (`title`, `desc`) and 9.3 (path data); WAI-ARIA Graphics.
"""

from __future__ import annotations

import math
import re
import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

from markupsafe import Markup

from agents.engine.graph import ALWAYS, ANSWERS_LABEL, CHECKPOINT_LABELS, Phase, PhaseGraph, Transition, own_label
from mcp_server.web.graph.layout import Arrow, ArrowRoute, Box, BoxSize, Direction, Point, Sheet, laid_out
from mcp_server.web.text.sanitize import TIMES, sanitize_line, spelled_out

Labels = Literal["words", "numbers"]

WIDE, NARROW = 800.0, 294.0
"""Pixels that a drawing may take: beside the list of its ways, and on a telephone. What takes more is scrolled in its frame."""
NAME_CHARS, LABEL_CHARS, MOST_LINES = 16, 18, 3
MOST_CHARS = 500
"""Of a name or condition, where it is told in full."""
NAME_PX, LABEL_PX, LINE_PX, NOTE_PX = 8.9, 6.5, 15.0, 14.0
LEAST_WIDTH, PADDING = 84.0, 14.0
NUMBER = BoxSize(20.0, 20.0)
BEND, TIP_LONG, TIP_WIDE, BADGE = 12.0, 9.0, 4.5, 10.0
HERE: Mapping[str, str] = {"active": "here", "waiting": "waits", "complete": "done", "cancelled": "ended"}
BY_ITSELF = "by itself"
_BREAK = re.compile(r"[^_\-\s./:]*[_\-\s./:]*")
_BLANKS = re.compile(r"[ \t\n\r]+")
_WIDE = ("W", "F")


@dataclass(frozen=True, slots=True)
class Move:
    """A way that a journey took: `reason` is the condition that was met, or the decision of a person that sent it."""

    source: str
    target: str
    reason: str
    is_backward: bool = False


@dataclass(frozen=True, slots=True)
class Travelled:
    """What of a graph a journey has seen, and how often. `status` is the journey's."""

    phase: str = ""
    status: str = ""
    visits: Mapping[str, int] = field(default_factory=dict)
    moves: Mapping[Move, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class DrawnTransition:
    """A transition in words, with its number in the picture."""

    number: int
    source: Markup
    target: Markup
    condition: Markup
    is_backward: bool
    taken: int


@dataclass(frozen=True, slots=True)
class Drawing:
    """The graph as a picture for wide screens and one for narrow ones, and in words."""

    wide: Markup
    narrow: Markup
    ways: Sequence[DrawnTransition]


@dataclass(frozen=True, slots=True)
class _Scene:
    """What is drawn: the graph with what the journey added to it, and what stands below the names of phases."""

    graph: PhaseGraph
    ways: Sequence[Transition]
    seen: Travelled
    gone: frozenset[str]
    notes: Mapping[str, str]

    def taken(self, way: Transition) -> int:
        """Return how often the journey went this way."""
        return self.seen.moves.get(Move(way.source, way.target, way.condition, way.is_backward), 0)


def drawing(
    graph: PhaseGraph, seen: Travelled, notes: Mapping[str, str] | None = None, *, place: str = "graph"
) -> Drawing:
    """Return the graph as it is shown, with phases that the journey was in and that the graph does not have any more.

    `notes` are told below the names of phases. `place` names the picture where a page has several.
    """
    scene = _scene(graph, seen, notes or {})
    wide = _first_that_fits(scene, WIDE, (("across", "words"), ("down", "words"), ("down", "numbers")))
    narrow = _first_that_fits(scene, NARROW, (("down", "words"), ("down", "numbers")))
    ways = [
        DrawnTransition(
            n,
            sanitize_line(_cut(way.source)),
            sanitize_line(_cut(way.target)),
            sanitize_line(_cut(_said(way))),
            way.is_backward,
            scene.taken(way),
        )
        for n, way in enumerate(scene.ways, 1)
    ]
    return Drawing(_svg(scene, *wide, "wide", place), _svg(scene, *narrow, "narrow", place), ways)


def _scene(graph: PhaseGraph, seen: Travelled, notes: Mapping[str, str]) -> _Scene:
    known = {phase.name for phase in graph.phases}
    used = dict.fromkeys([*seen.visits, *(name for m in seen.moves for name in (m.source, m.target)), seen.phase])
    gone = [name for name in used if name and name not in known]
    there = {Move(way.source, way.target, way.condition, way.is_backward) for way in graph.transitions}
    added = [Transition(m.source, m.target, m.reason, m.is_backward) for m in seen.moves if m not in there]
    whole = replace(graph, phases=(*graph.phases, *map(Phase, gone)))
    return _Scene(whole, (*graph.transitions, *added), seen, frozenset(gone), notes)


Shape = tuple[Sheet, Labels]


def _first_that_fits(scene: _Scene, room: float, ways: Sequence[tuple[Direction, Labels]]) -> Shape:
    """Return the first of these drawings that is not wider than that, else the narrowest."""
    sheets = []
    for direction, labels in ways:
        sheet = _sheet(scene, direction, labels)
        if sheet.width <= room:
            return sheet, labels
        sheets.append((sheet, labels))
    return min(sheets, key=lambda drawn: drawn[0].width)


def _sheet(scene: _Scene, direction: Direction, labels: Labels) -> Sheet:
    number = {phase.name: n for n, phase in enumerate(scene.graph.phases)}
    arrows = [
        Arrow(number[way.source], number[way.target], _label_size(way, labels), back=way.is_backward)
        for way in scene.ways
    ]
    sizes = [_box_size(scene, phase) for phase in scene.graph.phases]
    return laid_out(sizes, arrows, direction, number.get(scene.graph.initial, 0))


# --- text that fits ---------------------------------------------------------------------------------------------------


def in_lines(text: str, most_chars: int, most_lines: int = MOST_LINES) -> list[str]:
    """Return the text in lines of at most so many columns, broken where words end; what is left out ends in an ellipsis.

    Every character in it is seen: what hides or turns the line round is named.
    """
    # Of a huge name only its beginning can be seen, so only that is looked at, before and after it is spelled out.
    room = most_chars * (most_lines + 2)
    spelled = spelled_out(_BLANKS.sub(" ", text[:room]))[:room]
    lines = [""]
    for part in filter(None, _BREAK.findall(spelled)):
        rest = part
        if lines[-1] and _columns(lines[-1] + rest.rstrip()) > most_chars:
            lines.append("")
        while _columns(rest.rstrip()) > most_chars:
            cut = next(n for n in range(most_chars, 0, -1) if _columns(rest[:n]) <= most_chars or n == 1)
            lines[-1], rest = rest[:cut], rest[cut:]
            lines.append("")
        lines[-1] += rest
    shown = [line.strip() for line in lines if line.strip()]
    if len(shown) <= most_lines:
        return shown
    last = shown[most_lines - 1]
    return [*shown[: most_lines - 1], last[: max(1, most_chars - 1)].rstrip() + "…"]


def _columns(text: str) -> int:
    return sum(2 if unicodedata.east_asian_width(character) in _WIDE else 1 for character in text)


def _widest(lines: Sequence[str], px: float) -> float:
    return max((_columns(line) for line in lines), default=0) * px


def _said(way: Transition) -> str:
    told = "any work" if way.condition == ALWAYS else way.condition
    mark = own_label(way)
    return f"{told} ({mark})" if mark else told


def _label_size(way: Transition, labels: Labels) -> BoxSize:
    if labels == "numbers":
        return NUMBER
    lines = in_lines(_said(way), LABEL_CHARS)
    return BoxSize(math.ceil(_widest(lines, LABEL_PX)) + 6, len(lines) * LINE_PX)


def _box_size(scene: _Scene, phase: Phase) -> BoxSize:
    lines, note = in_lines(phase.name, NAME_CHARS), _note(scene, phase)
    wide = max(_widest(lines, NAME_PX), _widest([note], LABEL_PX), LEAST_WIDTH - 2 * PADDING)
    return BoxSize(math.ceil(wide) + 2 * PADDING, len(lines) * (LINE_PX + 1) + (NOTE_PX if note else 0) + 2 * PADDING)


def _note(scene: _Scene, phase: Phase) -> str:
    if phase.name in scene.gone:
        return "no longer defined"
    if phase.automatic:
        return BY_ITSELF
    if phase.checkpoint not in CHECKPOINT_LABELS and any(way.asks for way in scene.ways if way.source == phase.name):
        return ANSWERS_LABEL
    return scene.notes.get(phase.name, "") or CHECKPOINT_LABELS.get(phase.checkpoint, "")


# --- SVG --------------------------------------------------------------------------------------------------------------

_SVG = Markup(
    '<svg class="graph graph-{0}" xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {1} {2}" width="{1}" height="{2}" '
    'role="img" aria-labelledby="{6}-{0}-title" aria-describedby="{6}-{0}-desc">'
    '<title id="{6}-{0}-title">{3}</title><desc id="{6}-{0}-desc">{4}</desc>{5}</svg>'
)
_WAY = Markup('<g class="{0}"><title>{1}</title><path class="line" d="{2}"/><path class="tip" d="{3}"/></g>')
_LABEL = Markup('<g class="{0}">{1}</g>')
_NODE = Markup('<g class="{0}"><title>{1}</title>{2}</g>')
_RECT = Markup('<rect x="{0}" y="{1}" width="{2}" height="{3}" rx="{4}"/>')
_TEXT = Markup('<text class="{0}" x="{1}" y="{2}" text-anchor="middle">{3}</text>')
_CIRCLE = Markup('<circle cx="{0}" cy="{1}" r="{2}"/>')


def _svg(scene: _Scene, sheet: Sheet, labels: Labels, kind: str, place: str) -> Markup:
    ways = list(zip(scene.ways, sheet.routes, strict=True))
    # What the journey took lies above what it did not, and labels above all lines.
    lines = sorted(((scene.taken(way), way, route) for way, route in ways if route), key=lambda one: one[0] > 0)
    parts = [_line(scene, way, route, sheet) for _, way, route in lines]
    parts += [_label(scene, n, way, route, labels) for n, (way, route) in enumerate(ways, 1) if route]
    parts += [_node(scene, phase, box) for phase, box in zip(scene.graph.phases, sheet.boxes, strict=True)]
    title = _plain(f"The phases of {scene.graph.name}")
    drawn = Markup("").join(parts)
    return _SVG.format(kind, _px(sheet.width), _px(sheet.height), title, _described(scene), drawn, place)


def _described(scene: _Scene) -> str:
    """Return in a sentence or two what the picture shows; all ways are told beside it."""
    seen = scene.seen
    told = f"{len(scene.graph.phases)} phases from {scene.graph.initial} to {', '.join(scene.graph.complete)}."
    if seen.phase:
        visits = ", ".join(f"{name} {count}" for name, count in seen.visits.items())
        told += f" The journey is in {seen.phase} ({HERE.get(seen.status, 'here')}). Visits: {visits}."
    return _plain(told) + " The list below has each transition with its condition."


def _line(scene: _Scene, way: Transition, route: ArrowRoute, sheet: Sheet) -> Markup:
    across = sheet.direction == "across"
    path = _curve(route, across=across) if route.curved else _bent(route.points)
    taken = scene.taken(way)
    times = f", taken {taken} times" if taken > 1 else ", taken once" if taken else ""
    said = _plain(f"{way.source} to {way.target}: {_said(way)}{' (back)' if way.is_backward else ''}{times}")
    return _WAY.format(_classes("way", back=way.is_backward, taken=taken > 0), said, path, _tip(route, across=across))


def _curve(route: ArrowRoute, *, across: bool) -> str:
    start, (a, b), (c, d), end = route.points
    one, two = (((a + c) / 2, b), ((a + c) / 2, d)) if across else ((a, (b + d) / 2), (c, (b + d) / 2))
    return f"M{_at(start)}L{_at((a, b))}C{_at(one)} {_at(two)} {_at((c, d))}L{_at(end)}"


def _bent(points: Sequence[Point]) -> str:
    """Return a path through the points with round corners."""
    path = [f"M{_at(points[0])}"]
    for before, here, after in zip(points, points[1:], points[2:], strict=False):
        near = min(BEND, math.dist(before, here) / 2, math.dist(here, after) / 2)
        path.append(f"L{_at(_towards(here, before, near))}Q{_at(here)} {_at(_towards(here, after, near))}")
    return "".join([*path, f"L{_at(points[-1])}"])


def _towards(start: Point, end: Point, far: float) -> Point:
    whole = math.dist(start, end)
    part = far / whole if whole else 0.0
    return start[0] + (end[0] - start[0]) * part, start[1] + (end[1] - start[1]) * part


def _tip(route: ArrowRoute, *, across: bool) -> str:
    """Return the arrow's head. A curve arrives in the direction in which it left."""
    x, y = route.points[-1]
    if route.curved:
        first = route.points[0]
        dx, dy = (math.copysign(1, x - first[0]), 0.0) if across else (0.0, math.copysign(1, y - first[1]))
    else:
        before = route.points[-2]
        whole = math.dist(before, (x, y)) or 1.0
        dx, dy = (x - before[0]) / whole, (y - before[1]) / whole
    left = (x - dx * TIP_LONG - dy * TIP_WIDE, y - dy * TIP_LONG + dx * TIP_WIDE)
    right = (x - dx * TIP_LONG + dy * TIP_WIDE, y - dy * TIP_LONG - dx * TIP_WIDE)
    return f"M{_at((x, y))}L{_at(left)}L{_at(right)}Z"


def _label(scene: _Scene, number: int, way: Transition, route: ArrowRoute, labels: Labels) -> Markup:
    x, y = route.label
    classes = _classes("label", back=way.is_backward, taken=scene.taken(way) > 0)
    if labels == "numbers":
        circle = _CIRCLE.format(_px(x), _px(y), _px(NUMBER.width / 2 - 1))
        return _LABEL.format(classes, circle + _TEXT.format("number", _px(x), _px(y + 4), number))
    return _LABEL.format(classes, _lines("condition", in_lines(_said(way), LABEL_CHARS), x, y, LINE_PX))


def _lines(kind: str, lines: Sequence[str], x: float, y: float, high: float) -> Markup:
    """Return the lines of text around a middle."""
    first = y - (len(lines) - 1) * high / 2 + 4
    return Markup("").join(
        _TEXT.format(kind, _px(x), _px(first + n * high), line.encode("utf-8", "replace").decode())
        for n, line in enumerate(lines)
    )


def _node(scene: _Scene, phase: Phase, box: Box) -> Markup:
    seen, visits = scene.seen, scene.seen.visits.get(phase.name, 0)
    here, final = phase.name == seen.phase, phase.name in scene.graph.complete
    note, lines = _note(scene, phase), in_lines(phase.name, NAME_CHARS)
    x, middle = box.x + box.width / 2, box.y + box.height / 2 - (NOTE_PX / 2 if note else 0)
    rect = (_px(number) for number in (box.x, box.y, box.width, box.height))
    parts = [
        _RECT.format(*rect, _px(min(box.height / 2, 22.0) if final else 8)),
        _lines("name", lines, x, middle, LINE_PX + 1),
    ]
    if note:
        parts.append(_TEXT.format("note", _px(x), _px(middle + len(lines) * (LINE_PX + 1) / 2 + NOTE_PX - 1), note))
    if visits:
        parts.append(_badge(box, visits))
    if here:
        parts.append(_here(box, HERE.get(seen.status, "here")))
    classes = _classes("node", here=here, visited=visits > 0, final=final, gone=phase.name in scene.gone)
    return _NODE.format(classes, _node_title(phase, visits), Markup("").join(parts))


def _node_title(phase: Phase, visits: int) -> str:
    purpose = f": {phase.purpose}" if phase.purpose else ""
    return _plain(f"{phase.name}{purpose}") + (f" ({visits} visit{'s' if visits > 1 else ''})" if visits else "")


def _badge(box: Box, visits: int) -> Markup:
    """Return how often the journey was there, on the corner of the box."""
    said = f"{visits}{TIMES}" if visits < 1000 else "999+"
    wide = 12 + 7 * len(said)
    x = box.x + box.width - wide / 2 - 4
    rect = _RECT.format(*map(_px, (x - wide / 2, box.y - BADGE, wide, 2 * BADGE)), _px(BADGE))
    return _LABEL.format("badge", rect + _TEXT.format("count", _px(x), _px(box.y + 4), said))


def _here(box: Box, said: str) -> Markup:
    wide = 14 + 7 * len(said)
    x = box.x + 4
    rect = _RECT.format(*map(_px, (x, box.y - BADGE, wide, 2 * BADGE)), _px(BADGE))
    return _LABEL.format("pill", rect + _TEXT.format("count", _px(x + wide / 2), _px(box.y + 4), said))


def _classes(kind: str, **marks: bool) -> str:
    return " ".join([kind, *(name for name, marked in marks.items() if marked)])


def _plain(text: str) -> str:
    """Return text for places that take no marks: every character of it is seen, and of a long one the beginning."""
    return spelled_out(_cut(text)).encode("utf-8", "replace").decode()


def _cut(text: str) -> str:
    shown = _BLANKS.sub(" ", text[:MOST_CHARS])
    return shown if len(text) <= MOST_CHARS else shown + "…"


def _at(point: Point) -> str:
    return f"{_px(point[0])} {_px(point[1])}"


def _px(number: float) -> str:
    return f"{round(number, 1):g}"
