"""Phase graphs as pictures: in any graph, boxes are apart, arrows go around them, and no name is executed."""

from __future__ import annotations

from itertools import combinations, pairwise
from xml.etree.ElementTree import Element, fromstring

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agents.catalogue import built_in, main_entries
from agents.engine.graph import Phase, PhaseGraph, Transition
from mcp_server.web.graph.layout import (
    Arrow,
    Box,
    BoxSize,
    Direction,
    Point,
    Sheet,
    laid_out,
    layers,
    on_curve,
    returning,
)
from mcp_server.web.graph.short_text import in_lines
from mcp_server.web.graph.svg import NARROW, WIDE, JourneyPath, Move, drawing
from mcp_server.web.text.sanitize import has_hidden
from tests.browser.payloads import PAYLOADS
from tests.support.journeys.graphs import RESEARCH, graphs

SVG = "{http://www.w3.org/2000/svg}"
NEAR = 0.5
DIRECTIONS: tuple[Direction, ...] = ("across", "down")
TAKEN = Move("DECOMPOSE", "ANSWER", "tree_ready")
SEEN = JourneyPath("ANSWER", "waiting", {"DECOMPOSE": 2, "ANSWER": 1}, {TAKEN: 2})


@st.composite
def plans(draw: st.DrawFn) -> tuple[list[BoxSize], list[Arrow]]:
    """Draw up to twenty boxes of any size and any arrows between them, also back, skipping, twice, and to itself."""
    count = draw(st.integers(1, 20))
    size = st.builds(BoxSize, st.floats(20, 300), st.floats(20, 90))
    one = st.integers(0, count - 1)
    arrow = st.builds(Arrow, one, one, st.builds(BoxSize, st.floats(0, 150), st.floats(0, 50)), st.booleans())
    return [draw(size) for _ in range(count)], draw(st.lists(arrow, max_size=30))


@pytest.mark.parametrize("direction", DIRECTIONS)
@given(plan=plans())
@settings(max_examples=60)
def test_boxes_do_not_overlap_and_no_lane_crosses_one(
    direction: Direction, plan: tuple[list[BoxSize], list[Arrow]]
) -> None:
    sizes, arrows = plan
    sheet = laid_out(sizes, arrows, direction)
    whole = Box(0, 0, sheet.width, sheet.height)
    for size, box in zip(sizes, sheet.boxes, strict=True):
        assert box.width >= size.width
        assert box.height >= size.height
        assert inside(whole, (box.x, box.y))
        assert inside(whole, (box.x + box.width, box.y + box.height))
    assert not any(one.overlaps(other) for one, other in combinations(sheet.boxes, 2))
    for arrow, route in zip(arrows, sheet.routes, strict=True):
        assert (route is None) == (arrow.source == arrow.target)
        if route is None:
            continue
        assert on_border(sheet.boxes[arrow.source], route.points[0])
        assert on_border(sheet.boxes[arrow.target], route.points[-1])
        assert all(inside(whole, point) for point in (*route.points, route.label))
        for box in sheet.boxes if not route.curved else ():
            assert not any(crosses(box, *line) for line in pairwise(route.points))


@pytest.mark.parametrize("direction", DIRECTIONS)
@given(plan=plans())
@settings(max_examples=50)
def test_curves_run_in_the_gap_between_two_layers_and_labels_of_lanes_outside_of_all_boxes(
    direction: Direction, plan: tuple[list[BoxSize], list[Arrow]]
) -> None:
    sizes, arrows = plan
    sheet = laid_out(sizes, arrows, direction)
    for arrow, route in zip(arrows, sheet.routes, strict=True):
        if route is None:
            continue
        if route.curved:
            across = direction == "across"
            curve = [bezier(route.points[1], route.points[2], n / 20, across=across) for n in range(1, 20)]
            assert not any(within(box, point) for box in sheet.boxes for point in curve)
        elif arrow.label.width and arrow.label.height:
            label = Box(
                route.label[0] - arrow.label.width / 2 + NEAR,
                route.label[1] - arrow.label.height / 2 + NEAR,
                arrow.label.width - 2 * NEAR,
                arrow.label.height - 2 * NEAR,
            )
            assert not any(label.overlaps(box) for box in sheet.boxes)


def bezier(first: Point, last: Point, part: float, *, across: bool) -> Point:
    if across:
        return on_curve(first, last, part)
    y, x = on_curve(first[::-1], last[::-1], part)
    return x, y


def inside(box: Box, point: Point) -> bool:
    x, y = point
    return box.x - NEAR <= x <= box.x + box.width + NEAR and box.y - NEAR <= y <= box.y + box.height + NEAR


def within(box: Box, point: Point) -> bool:
    x, y = point
    return box.x + NEAR < x < box.x + box.width - NEAR and box.y + NEAR < y < box.y + box.height - NEAR


def on_border(box: Box, point: Point) -> bool:
    return inside(box, point) and not within(box, point)


def crosses(box: Box, start: Point, end: Point) -> bool:
    """Return whether a line along or beside the box runs through it."""
    assert min(abs(start[0] - end[0]), abs(start[1] - end[1])) <= 0.2, "lanes have right angles"
    line = Box(min(start[0], end[0]), min(start[1], end[1]), abs(start[0] - end[0]), abs(start[1] - end[1]))
    core = Box(box.x + NEAR, box.y + NEAR, box.width - 2 * NEAR, box.height - 2 * NEAR)
    return core.overlaps(Box(line.x, line.y, line.width or 0.01, line.height or 0.01))


@given(plan=plans())
def test_without_the_arrows_that_lead_back_each_leads_to_a_higher_layer(
    plan: tuple[list[BoxSize], list[Arrow]],
) -> None:
    sizes, arrows = plan
    back = returning(len(sizes), arrows, 0)
    found = layers(len(sizes), arrows, back)
    assert {number for number, arrow in enumerate(arrows) if arrow.back} <= back
    for number, arrow in enumerate(arrows):
        if number not in back:
            assert found[arrow.target] > found[arrow.source]


def test_a_chain_is_a_straight_line_with_nested_ways_back() -> None:
    sheet = laid_out(
        [BoxSize(80, 40)] * 3, [Arrow(0, 1), Arrow(1, 2), Arrow(1, 0, back=True), Arrow(2, 0, back=True)], "down"
    )
    assert len({box.x for box in sheet.boxes}) == 1
    inner, outer = (lane(sheet, number) for number in (2, 3))
    assert sheet.boxes[0].x + 80 < inner < outer
    ports = [route.points[-1][1] for route in sheet.routes[2:] if route]
    assert ports[1] < ports[0], "the longer way arrives above the shorter one, so that they do not cross"


def lane(sheet: Sheet, number: int) -> float:
    route = sheet.routes[number]
    assert route is not None
    return max(x for x, _ in route.points)


def read(svg: str) -> Element:
    return fromstring(svg)  # noqa: S314 - our own SVG, which has to be well-formed whatever names are in it


def texts(svg: str, kind: str) -> list[str]:
    return [one.text or "" for one in read(svg).iter(f"{SVG}text") if one.get("class") == kind]


def marked(svg: str, kind: str) -> list[str]:
    """Return the classes of the groups of that kind."""
    groups = [str(one.get("class")).split() for one in read(svg).iter(f"{SVG}g")]
    return [" ".join(classes[1:]) for classes in groups if classes[0] == kind]


def test_a_picture_shows_the_journeys_position_its_path_and_what_each_transition_needs() -> None:
    drawn = drawing(RESEARCH, SEEN)
    assert texts(drawn.wide, "name") == ["DECOMPOSE", "ANSWER", "RISE_ABOVE", "COMPLETE"]
    assert marked(drawn.wide, "node") == ["visited", "here visited", "", "final"]
    assert texts(drawn.wide, "count") == ["2\u00d7", "1\u00d7", "waits"]
    assert texts(drawn.wide, "note") == ["a person decides", "a person may say"]
    conditions = "".join(texts(drawn.wide, "condition"))
    for condition in ("tree_ready", "all_answered", "new_category", "gap"):
        assert condition in conditions
    assert sorted(marked(drawn.wide, "way")) == ["", "", "back", "back", "back", "taken"]
    assert [way.taken for way in drawn.transitions] == [2, 0, 0, 0, 0, 0]
    assert [way.is_backward for way in drawn.transitions] == [False, False, True, False, True, True]
    root = read(drawn.wide)
    assert [one.tag for one in root[:2]] == [f"{SVG}title", f"{SVG}desc"]
    assert "in ANSWER (waits)" in str(root[1].text)
    assert float(str(root.get("width"))) <= WIDE


def test_on_a_narrow_screen_ways_have_the_numbers_of_the_list_where_words_do_not_fit() -> None:
    drawn = drawing(RESEARCH, SEEN)
    assert sorted(map(int, texts(drawn.narrow, "number"))) == [1, 2, 3, 4, 5, 6]
    assert float(str(read(drawn.narrow).get("width"))) <= NARROW
    short = PhaseGraph("s", (Phase("A"), Phase("B")), (Transition("A", "B", "ok"),), "A", ("B",))
    assert texts(drawing(short, JourneyPath()).narrow, "condition") == ["ok"]


def test_where_a_person_sent_it_and_phases_that_are_gone_are_drawn_too() -> None:
    moves = {TAKEN: 1, Move("ANSWER", "OLD", "was_there"): 1, Move("OLD", "DECOMPOSE", "revisit", is_backward=True): 1}
    drawn = drawing(RESEARCH, JourneyPath("DECOMPOSE", "active", {"DECOMPOSE": 2, "ANSWER": 1, "OLD": 1}, moves))
    assert texts(drawn.wide, "name")[-1] == "OLD"
    assert "no longer defined" in texts(drawn.wide, "note")
    assert marked(drawn.wide, "node")[-1] == "visited gone"
    added = drawn.transitions[len(RESEARCH.transitions) :]
    assert [(str(w.source), str(w.target), str(w.condition), w.is_backward, w.taken) for w in added] == [
        ("ANSWER", "OLD", "was_there", False, 1),
        ("OLD", "DECOMPOSE", "revisit", True, 1),
    ]


@pytest.mark.parametrize("name", [entry.name for entry in main_entries()])
def test_every_agent_of_this_program_is_drawn_whole_and_fits(name: str) -> None:
    graph = built_in(name).graph
    drawn = drawing(graph, JourneyPath(graph.initial, "active", {graph.initial: 1}))
    for svg, room in ((drawn.wide, WIDE), (drawn.narrow, NARROW)):
        assert len(marked(svg, "node")) == len(graph.phases)
        assert len(marked(svg, "way")) == len(graph.transitions)
        # On a phone, a large graph scrolls in its frame, by at most one more screen.
        screens = 2 if room == NARROW and len(graph.transitions) > 10 else 1
        assert float(str(read(svg).get("width"))) <= screens * room


@given(graph=graphs())
@settings(max_examples=50)
def test_any_graph_that_can_be_used_can_be_drawn(graph: PhaseGraph) -> None:
    drawn = drawing(graph, JourneyPath(graph.initial, "active", {graph.initial: 1}))
    for svg in (drawn.wide, drawn.narrow):
        assert len(marked(svg, "node")) == len(graph.phases)
        assert len(marked(svg, "way")) == len(graph.transitions)


def test_hostile_names_do_nothing_are_visible_and_take_no_more_room_than_others() -> None:
    for payload in PAYLOADS:
        names = [f"{n} {payload}" for n in range(3)]
        graph = PhaseGraph(
            payload,
            tuple(Phase(name, purpose=payload, checkpoint="blocking") for name in names),
            (
                Transition(names[0], names[1], payload),
                Transition(names[1], names[2], payload),
                Transition(names[1], names[0], payload, is_backward=True),
            ),
            names[0],
            (names[2],),
        )
        drawn = drawing(graph, JourneyPath(names[0], payload, {names[0]: 3}))
        for svg in (drawn.wide, drawn.narrow):
            kinds = {one.tag.removeprefix(SVG) for one in read(svg).iter()}
            assert kinds == {"svg", "title", "desc", "g", "rect", "text", "path"} | ({"circle"} & kinds)
            assert not has_hidden(svg)
            assert len(svg) < 40_000
        assert len(texts(drawn.wide, "name")) <= 9


def test_text_breaks_between_words_and_omissions_are_marked() -> None:
    assert in_lines("synthesis_requires_more_answers", 18) == ["synthesis_", "requires_more_", "answers"]
    assert in_lines("short", 18) == ["short"]
    assert in_lines("", 18) == []
    assert in_lines("x" * 100, 10) == ["x" * 10, "x" * 10, "x" * 9 + "…"]
    assert in_lines("a\u202eb", 18) == ["a⟦U+202E⟧b"]
    assert in_lines("漢字漢字漢字", 8) == ["漢字漢字", "漢字"]
