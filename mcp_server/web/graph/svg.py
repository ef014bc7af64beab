"""Draw a phase graph as SVG, which the style sheet colours, and list its transitions in words. Pure.

Names may have any length, and anyone may have chosen them. They are shown inert, on a few lines, and in full in the tooltip.

Source: W3C SVG 2, sections 5.8 (`title`, `desc`) and 9.3 (path data); WAI-ARIA Graphics.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

from markupsafe import Markup

from agents.engine.graph import ALWAYS, ANSWERS_LABEL, CHECKPOINT_LABELS, Phase, PhaseGraph, Transition, own_label
from mcp_server.web.graph.layout import Arrow, ArrowRoute, Box, BoxSize, Direction, Point, Sheet, laid_out
from mcp_server.web.graph.short_text import columns, cut, in_lines, plain, px
from mcp_server.web.text.sanitize import TIMES, sanitize_line

Labels = Literal["words", "numbers"]

WIDE, NARROW = 800.0, 294.0
"""Pixels that a drawing may take: beside the list of its transitions, and on a phone. A wider one is scrolled in its frame."""
NAME_CHARS, LABEL_CHARS = 16, 18
NAME_PX, LABEL_PX, LINE_PX, NOTE_PX = 8.9, 6.5, 15.0, 14.0
"""Widths of a character and heights of a line: estimates for system fonts, which only a browser can measure."""
LEAST_WIDTH, PADDING = 84.0, 14.0
NUMBER = BoxSize(20.0, 20.0)
BEND, TIP_LONG, TIP_WIDE, BADGE = 12.0, 9.0, 4.5, 10.0
HERE: Mapping[str, str] = {"active": "here", "waiting": "waits", "complete": "done", "cancelled": "ended"}
BY_ITSELF = "by itself"


@dataclass(frozen=True, slots=True)
class Move:
    """A move of a journey to another phase. `reason` is the condition that was met, or the decision of a person."""

    source: str
    target: str
    reason: str
    is_backward: bool = False


@dataclass(frozen=True, slots=True)
class JourneyPath:
    """The phases and moves of a journey in a graph, each with its count. `phase` and `status` are the present ones."""

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
    """The graph as one picture for wide screens and one for narrow ones, and its transitions in words."""

    wide: Markup
    narrow: Markup
    transitions: Sequence[DrawnTransition]


@dataclass(frozen=True, slots=True)
class _Scene:
    """The content of a drawing: the graph, with the phases and moves of the journey that are no longer in it (`gone`), and notes."""

    graph: PhaseGraph
    transitions: Sequence[Transition]
    seen: JourneyPath
    gone: frozenset[str]
    notes: Mapping[str, str]

    def taken(self, transition: Transition) -> int:
        """Return how often the journey took this transition."""
        return self.seen.moves.get(
            Move(transition.source, transition.target, transition.condition, transition.is_backward), 0
        )


def drawing(
    graph: PhaseGraph, seen: JourneyPath, notes: Mapping[str, str] | None = None, *, place: str = "graph"
) -> Drawing:
    """Return the graph as it is shown, with phases that the journey was in and that the graph no longer has.

    `notes` are shown below the names of phases. `place` distinguishes the ids of several pictures on one page.
    """
    scene = _scene(graph, seen, notes or {})
    wide = _first_that_fits(scene, WIDE, (("across", "words"), ("down", "words"), ("down", "numbers")))
    narrow = _first_that_fits(scene, NARROW, (("down", "words"), ("down", "numbers")))
    transitions = [
        DrawnTransition(
            n,
            sanitize_line(cut(transition.source)),
            sanitize_line(cut(transition.target)),
            sanitize_line(cut(_condition_text(transition))),
            transition.is_backward,
            scene.taken(transition),
        )
        for n, transition in enumerate(scene.transitions, 1)
    ]
    return Drawing(_svg(scene, *wide, "wide", place), _svg(scene, *narrow, "narrow", place), transitions)


def _scene(graph: PhaseGraph, seen: JourneyPath, notes: Mapping[str, str]) -> _Scene:
    known = {phase.name for phase in graph.phases}
    used = dict.fromkeys([*seen.visits, *(name for m in seen.moves for name in (m.source, m.target)), seen.phase])
    gone = [name for name in used if name and name not in known]
    there = {
        Move(transition.source, transition.target, transition.condition, transition.is_backward)
        for transition in graph.transitions
    }
    added = [Transition(m.source, m.target, m.reason, m.is_backward) for m in seen.moves if m not in there]
    completed = replace(graph, phases=(*graph.phases, *map(Phase, gone)))
    return _Scene(completed, (*graph.transitions, *added), seen, frozenset(gone), notes)


def _first_that_fits(scene: _Scene, room: float, shapes: Sequence[tuple[Direction, Labels]]) -> tuple[Sheet, Labels]:
    """Return the first of these layouts that is no wider than `room`, else the narrowest."""
    wider: list[tuple[Sheet, Labels]] = []
    for direction, labels in shapes:
        sheet = _sheet(scene, direction, labels)
        if sheet.width <= room:
            return sheet, labels
        wider.append((sheet, labels))
    return min(wider, key=lambda one: one[0].width)


def _sheet(scene: _Scene, direction: Direction, labels: Labels) -> Sheet:
    number = {phase.name: n for n, phase in enumerate(scene.graph.phases)}
    arrows = [
        Arrow(
            number[transition.source],
            number[transition.target],
            _label_size(transition, labels),
            back=transition.is_backward,
        )
        for transition in scene.transitions
    ]
    sizes = [_box_size(scene, phase) for phase in scene.graph.phases]
    return laid_out(sizes, arrows, direction, number.get(scene.graph.initial, 0))


# --- text that fits ---------------------------------------------------------------------------------------------------


def _widest(lines: Sequence[str], px: float) -> float:
    return max((columns(line) for line in lines), default=0) * px


def _condition_text(transition: Transition) -> str:
    condition = "any work" if transition.condition == ALWAYS else transition.condition
    label = own_label(transition)
    return f"{condition} ({label})" if label else condition


def _label_size(transition: Transition, labels: Labels) -> BoxSize:
    if labels == "numbers":
        return NUMBER
    lines = in_lines(_condition_text(transition), LABEL_CHARS)
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
    if phase.checkpoint not in CHECKPOINT_LABELS and any(
        transition.asks for transition in scene.transitions if transition.source == phase.name
    ):
        return ANSWERS_LABEL
    return scene.notes.get(phase.name, "") or CHECKPOINT_LABELS.get(phase.checkpoint, "")


# --- SVG --------------------------------------------------------------------------------------------------------------

_SVG = Markup(
    '<svg class="graph graph-{0}" xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {1} {2}" width="{1}" height="{2}" '
    'role="img" aria-labelledby="{6}-{0}-title" aria-describedby="{6}-{0}-desc">'
    '<title id="{6}-{0}-title">{3}</title><desc id="{6}-{0}-desc">{4}</desc>{5}</svg>'
)
_ARROW = Markup('<g class="{0}"><title>{1}</title><path class="line" d="{2}"/><path class="tip" d="{3}"/></g>')
_LABEL = Markup('<g class="{0}">{1}</g>')
_NODE = Markup('<g class="{0}"><title>{1}</title>{2}</g>')
_RECT = Markup('<rect x="{0}" y="{1}" width="{2}" height="{3}" rx="{4}"/>')
_TEXT = Markup('<text class="{0}" x="{1}" y="{2}" text-anchor="middle">{3}</text>')
_CIRCLE = Markup('<circle cx="{0}" cy="{1}" r="{2}"/>')


def _svg(scene: _Scene, sheet: Sheet, labels: Labels, kind: str, place: str) -> Markup:
    transitions = list(zip(scene.transitions, sheet.routes, strict=True))
    # Arrows that the journey took lie above the others, and labels above all lines.
    lines = sorted(
        ((scene.taken(transition), transition, route) for transition, route in transitions if route),
        key=lambda one: one[0] > 0,
    )
    parts = [_line(scene, transition, route, sheet) for _, transition, route in lines]
    parts += [
        _label(scene, n, transition, route, labels) for n, (transition, route) in enumerate(transitions, 1) if route
    ]
    parts += [_node(scene, phase, box) for phase, box in zip(scene.graph.phases, sheet.boxes, strict=True)]
    title = plain(f"The phases of {scene.graph.name}")
    drawn = Markup("").join(parts)
    return _SVG.format(kind, px(sheet.width), px(sheet.height), title, _described(scene), drawn, place)


def _described(scene: _Scene) -> str:
    """Return in a sentence or two what the picture shows. The list beside it has all transitions."""
    seen = scene.seen
    text = f"{len(scene.graph.phases)} phases from {scene.graph.initial} to {', '.join(scene.graph.complete)}."
    if seen.phase:
        visits = ", ".join(f"{name} {count}" for name, count in seen.visits.items())
        text += f" The journey is in {seen.phase} ({HERE.get(seen.status, 'here')}). Visits: {visits}."
    return plain(text) + " The list below has each transition with its condition."


def _line(scene: _Scene, transition: Transition, route: ArrowRoute, sheet: Sheet) -> Markup:
    across = sheet.direction == "across"
    path = _curve(route, across=across) if route.curved else _bent(route.points)
    taken = scene.taken(transition)
    back = " (back)" if transition.is_backward else ""
    times = f", taken {taken} times" if taken > 1 else ", taken once" if taken else ""
    title = f"{transition.source} to {transition.target}: {_condition_text(transition)}{back}{times}"
    classes = _classes("way", back=transition.is_backward, taken=taken > 0)
    return _ARROW.format(classes, plain(title), path, _tip(route, across=across))


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
    distance = math.dist(start, end)
    part = far / distance if distance else 0.0
    return start[0] + (end[0] - start[0]) * part, start[1] + (end[1] - start[1]) * part


def _tip(route: ArrowRoute, *, across: bool) -> str:
    """Return the arrow's head. A curve arrives in the direction in which it left."""
    x, y = route.points[-1]
    if route.curved:
        first = route.points[0]
        dx, dy = (math.copysign(1, x - first[0]), 0.0) if across else (0.0, math.copysign(1, y - first[1]))
    else:
        before = route.points[-2]
        length = math.dist(before, (x, y)) or 1.0
        dx, dy = (x - before[0]) / length, (y - before[1]) / length
    left = (x - dx * TIP_LONG - dy * TIP_WIDE, y - dy * TIP_LONG + dx * TIP_WIDE)
    right = (x - dx * TIP_LONG + dy * TIP_WIDE, y - dy * TIP_LONG - dx * TIP_WIDE)
    return f"M{_at((x, y))}L{_at(left)}L{_at(right)}Z"


def _label(scene: _Scene, number: int, transition: Transition, route: ArrowRoute, labels: Labels) -> Markup:
    x, y = route.label
    classes = _classes("label", back=transition.is_backward, taken=scene.taken(transition) > 0)
    if labels == "numbers":
        circle = _CIRCLE.format(px(x), px(y), px(NUMBER.width / 2 - 1))
        return _LABEL.format(classes, circle + _TEXT.format("number", px(x), px(y + 4), number))
    lines = in_lines(_condition_text(transition), LABEL_CHARS)
    return _LABEL.format(classes, _lines("condition", lines, x, y, LINE_PX))


def _lines(kind: str, lines: Sequence[str], x: float, y: float, high: float) -> Markup:
    """Return the lines of text around a middle."""
    first = y - (len(lines) - 1) * high / 2 + 4
    return Markup("").join(
        _TEXT.format(kind, px(x), px(first + n * high), line.encode("utf-8", "replace").decode())
        for n, line in enumerate(lines)
    )


def _node(scene: _Scene, phase: Phase, box: Box) -> Markup:
    seen, visits = scene.seen, scene.seen.visits.get(phase.name, 0)
    here, final = phase.name == seen.phase, phase.name in scene.graph.complete
    note, lines = _note(scene, phase), in_lines(phase.name, NAME_CHARS)
    x, middle = box.x + box.width / 2, box.y + box.height / 2 - (NOTE_PX / 2 if note else 0)
    rect = (px(number) for number in (box.x, box.y, box.width, box.height))
    parts = [
        _RECT.format(*rect, px(min(box.height / 2, 22.0) if final else 8)),
        _lines("name", lines, x, middle, LINE_PX + 1),
    ]
    if note:
        parts.append(_TEXT.format("note", px(x), px(middle + len(lines) * (LINE_PX + 1) / 2 + NOTE_PX - 1), note))
    title = plain(f"{phase.name}: {phase.purpose}" if phase.purpose else phase.name)
    if visits:
        times = f"{visits}{TIMES}" if visits < 1000 else "999+"
        wide = 12 + 7 * len(times)
        parts.append(_badge("badge", box.x + box.width - wide - 4, box.y, wide, times))
        title += f" ({visits} visit{'s' if visits > 1 else ''})"
    if here:
        status = HERE.get(seen.status, "here")
        parts.append(_badge("pill", box.x + 4, box.y, 14 + 7 * len(status), status))
    classes = _classes("node", here=here, visited=visits > 0, final=final, gone=phase.name in scene.gone)
    return _NODE.format(classes, title, Markup("").join(parts))


def _badge(kind: str, x: float, y: float, wide: float, text: str) -> Markup:
    """Return a short text in a frame on the upper edge of a box."""
    rect = _RECT.format(*map(px, (x, y - BADGE, wide, 2 * BADGE)), px(BADGE))
    return _LABEL.format(kind, rect + _TEXT.format("count", px(x + wide / 2), px(y + 4), text))


def _classes(kind: str, **marks: bool) -> str:
    return " ".join([kind, *(name for name, marked in marks.items() if marked)])


def _at(point: Point) -> str:
    return f"{px(point[0])} {px(point[1])}"
