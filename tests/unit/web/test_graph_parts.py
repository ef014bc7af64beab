"""Large graphs in two pictures: every part is a box, and the present one is shown phase by phase."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import pytest

from agents.catalogue import built_in, entries
from agents.engine.graph import ALWAYS, Phase, PhaseGraph, Transition
from mcp_server.web.graph.parts import MOST_PHASES, parts_of, pictures
from mcp_server.web.graph.svg import NARROW, WIDE, Drawing, JourneyPath, Move
from tests.support.agents.inquiry_agent import chained, inquiry
from tests.unit.web.test_graph_svg import SVG, read, texts

SIX = ("clarify", "research", "analyse", "synthesize", "generate", "validate")
SKILL = chained(*(name for part in SIX for name in (part, f"{part}.memory"))).graph


def classed(drawn: Drawing, kind: str) -> list[str]:
    """Return the titles of that kind in the picture for wide screens."""
    groups = [one for one in read(drawn.wide).iter(f"{SVG}g") if kind in str(one.get("class")).split()]
    return [str(next(iter(one)).text) for one in groups]


def said(drawn: Drawing) -> list[tuple[str, str, str, int]]:
    return [(str(way.source), str(way.target), str(way.condition), way.taken) for way in drawn.transitions]


def test_a_skill_of_six_agents_each_followed_by_memory_is_thirteen_boxes_that_fit() -> None:
    drawn = pictures(SKILL, JourneyPath("clarify.LOOK", "active", {"clarify.LOOK": 1}))
    boxes = classed(drawn.whole, "node")
    assert [title.partition(":")[0].partition(" (")[0] for title in boxes] == [
        *(name for part in SIX for name in (part, f"{part}.memory")),
        "COMPLETE",
    ]
    for svg, room in ((drawn.whole.wide, WIDE), (drawn.whole.narrow, NARROW)):
        assert float(str(read(svg).get("width"))) <= room
    assert [way[:3] for way in said(drawn.whole)][:2] == [
        ("clarify", "clarify.memory", "passed"),
        ("clarify.memory", "research", "passed"),
    ]


@pytest.mark.parametrize("name", [entry.name for entry in entries()])
def test_every_agent_and_skill_of_this_program_fits_its_pictures(name: str) -> None:
    graph = built_in(name).graph
    drawn = pictures(graph, JourneyPath(graph.initial, "active", {graph.initial: 1}))
    for one in filter(None, (drawn.whole, drawn.inside)):
        assert float(str(read(one.wide).get("width"))) <= WIDE
        assert float(str(read(one.narrow).get("width"))) <= 2 * NARROW, "scrolled in its frame, by one more screen"
        assert len(classed(one, "node")) <= 20


def test_the_present_part_is_shown_phase_by_phase_with_the_parts_it_leads_to() -> None:
    moves = {Move("research.ASK", "research.WRITE", "research.all_known"): 2}
    seen = JourneyPath("research.WRITE", "waiting", {"research.ASK": 2, "research.WRITE": 2}, moves)
    drawn = pictures(SKILL, seen)
    assert (drawn.part, drawn.inside is not None) == ("research", True)
    assert drawn.inside is not None
    assert [title.partition(":")[0] for title in classed(drawn.inside, "node")] == [
        "LOOK",
        "ASK",
        "WRITE",
        "JUDGE",
        "→ research.memory",
    ]
    assert ("ASK", "WRITE", "all_known", 2) in said(drawn.inside)
    assert ("JUDGE", "→ research.memory", "passed", 0) in said(drawn.inside)
    assert classed(drawn.inside, "here")[0].startswith("WRITE")
    assert 'id="inside-wide-title"' in drawn.inside.wide
    assert 'id="graph-wide-title"' in drawn.whole.wide


def test_visits_of_a_part_are_its_entrances_and_moves_between_parts_are_counted() -> None:
    moves = {
        Move("clarify.ASK", "clarify.WRITE", "clarify.all_known"): 3,
        Move("clarify.JUDGE", "clarify.memory.LOOK", "clarify.passed"): 2,
        Move("clarify.memory.ASK", "clarify.ASK", "revisit", is_backward=True): 1,
    }
    visits = {"clarify.LOOK": 1, "clarify.ASK": 2, "clarify.memory.LOOK": 2, "OLD": 1}
    drawn = pictures(SKILL, JourneyPath("clarify.memory.ASK", "active", visits, moves))
    titles = classed(drawn.whole, "visited")
    assert titles[:2] == ["clarify: 4 phases (2 visits)", "clarify.memory: 4 phases (2 visits)"]
    assert ("clarify", "clarify.memory", "passed", 2) in said(drawn.whole)
    assert ("clarify.memory", "clarify", "revisit", 1) in said(drawn.whole)
    assert classed(drawn.whole, "gone") == ["OLD (1 visit)"]


def test_a_small_graph_and_one_without_parts_are_one_picture() -> None:
    large = PhaseGraph(
        "large",
        tuple(Phase(f"STEP_{n}") for n in range(MOST_PHASES + 6)),
        tuple(Transition(f"STEP_{n}", f"STEP_{n + 1}", ALWAYS) for n in range(MOST_PHASES + 5)),
        "STEP_0",
        (f"STEP_{MOST_PHASES + 5}",),
    )
    for graph in (inquiry().graph, chained("a", "b").graph, large):
        drawn = pictures(graph, JourneyPath(graph.initial, "active", {graph.initial: 1}))
        assert drawn.inside is None
        assert len(classed(drawn.whole, "node")) == len(graph.phases)
        assert len(drawn.whole.transitions) == len(graph.transitions)


def test_phases_of_no_part_belong_to_the_agent_and_the_end_is_separate() -> None:
    own = [Phase(f"STEP_{n}") for n in range(12)]
    memory = [Phase(f"memory.M_{n}") for n in range(6)]
    phases = (*own, *memory, Phase("COMPLETE"))
    ways = tuple(Transition(one.name, two.name) for one, two in pairwise(phases))
    graph = PhaseGraph("analysis", phases, ways, "STEP_0", ("COMPLETE",))
    assert [part.name for part in parts_of(graph)] == ["analysis", "memory", "COMPLETE"]
    drawn = pictures(graph, JourneyPath("STEP_3", "active", {"STEP_0": 1, "STEP_3": 1}))
    assert drawn.part == "analysis"
    assert drawn.inside is not None
    assert len(classed(drawn.inside, "node")) == 13
    ended = pictures(graph, JourneyPath("COMPLETE", "complete", {"COMPLETE": 1}))
    assert (ended.inside, ended.part) == (None, "COMPLETE")


@pytest.mark.parametrize("phase", ["NOWHERE", "clarify.GONE"])
def test_a_journey_in_a_phase_that_is_gone_is_drawn_all_the_same(phase: str) -> None:
    drawn = pictures(SKILL, JourneyPath(phase, "active", {phase: 1}, {Move("clarify.ASK", phase, "x"): 1}))
    assert phase in " ".join(classed(drawn.whole, "gone"))
    assert drawn.inside is not None


def test_automatic_work_and_a_persons_answers_are_shown_below_the_name() -> None:
    drawn = pictures(inquiry().graph, JourneyPath("ASK", "waiting", {"ASK": 1}))
    assert texts(drawn.whole.wide, "note") == ["by itself", "a person answers"]


def test_a_transitions_own_question_is_shown_at_the_transition_even_inside_a_part() -> None:
    ways = tuple(
        replace(way, checkpoint="blocking")
        if (way.source, way.condition) == ("clarify.WRITE", "clarify.written")
        else way
        for way in SKILL.transitions
    )
    drawn = pictures(replace(SKILL, transitions=ways), JourneyPath("clarify.WRITE", "active", {"clarify.WRITE": 1}))
    assert drawn.inside is not None
    conditions = [way[2] for way in said(drawn.inside)]
    assert "written (a person decides)" in conditions
    assert "open_questions (a person answers)" in conditions
    assert any("written (a person decides)" in title for title in classed(drawn.inside, "way"))
