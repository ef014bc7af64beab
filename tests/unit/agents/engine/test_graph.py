"""A graph is validated when it is loaded, and says where work goes next."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agents.engine.graph import Phase, PhaseGraph, Transition, advance, checked, grouped, mermaid, transitions_from
from agents.errors import BadGraph
from tests.support.agents.inquiry_agent import chained
from tests.support.journeys.graphs import CONDITIONS, RESEARCH, TOOLS, graphs


def with_ways(*more: Transition, without: tuple[str, str] | None = None, **changes: Any) -> PhaseGraph:
    """Return `RESEARCH` with more transitions, or without one."""
    ways = tuple(t for t in RESEARCH.transitions if (t.source, t.target) != without)
    return replace(RESEARCH, transitions=(*ways, *more), **changes)


def with_phases(*more: Phase, **changes: Any) -> PhaseGraph:
    return replace(RESEARCH, phases=(*RESEARCH.phases, *more), **changes)


WRONG = {
    "there are two phases 'ANSWER'": with_phases(Phase("ANSWER")),
    "a phase has no name": with_phases(Phase("")),
    "it begins in 'NOWHERE', which is not one of its phases": replace(RESEARCH, initial="NOWHERE"),
    "it names no phase in which the work is complete": replace(RESEARCH, complete=()),
    "it is complete in 'DONE', which is not one of its phases": replace(RESEARCH, complete=("DONE",)),
    "it is complete in 'DECOMPOSE', where it begins": replace(RESEARCH, complete=("COMPLETE", "DECOMPOSE")),
    "phase 'EXTRA' uses the unknown tool 'kb_fly'": with_phases(Phase("EXTRA", tools=("kb_fly",))),
    "the transition ANSWER -> EXPAND names 'EXPAND', which is not a phase": with_ways(Transition("ANSWER", "EXPAND")),
    "the transition ANSWER -> COMPLETE has the unknown condition 'luck'": with_ways(
        Transition("ANSWER", "COMPLETE", "luck")
    ),
    "the transition RISE_ABOVE -> COMPLETE is there twice": with_ways(Transition("RISE_ABOVE", "COMPLETE", priority=7)),
    "phase 'EXPAND' is never reached from 'DECOMPOSE'": with_phases(
        Phase("EXPAND"), transitions=(*RESEARCH.transitions, Transition("EXPAND", "COMPLETE"))
    ),
    "phase 'EXPAND' is a dead end: no transition leaves it": with_phases(
        Phase("EXPAND"), transitions=(*RESEARCH.transitions, Transition("ANSWER", "EXPAND", "gap"))
    ),
    "no path leads from phase 'RISE_ABOVE' to completion": with_ways(without=("RISE_ABOVE", "COMPLETE")),
    "the transition ANSWER -> ANSWER leads nowhere": with_ways(Transition("ANSWER", "ANSWER", "gap")),
    "the transition COMPLETE -> ANSWER leaves a phase in which the work is complete": with_ways(
        Transition("COMPLETE", "ANSWER", "gap", is_backward=True)
    ),
    "the transition DECOMPOSE -> RISE_ABOVE is marked as backward, but no forward path leads from RISE_ABOVE to DECOMPOSE": (
        with_ways(Transition("DECOMPOSE", "RISE_ABOVE", "gap", is_backward=True))
    ),
}


def test_a_sound_graph_is_returned_unchanged() -> None:
    assert checked(RESEARCH, CONDITIONS, TOOLS) is RESEARCH


@pytest.mark.parametrize(("problem", "graph"), WRONG.items(), ids=WRONG)
def test_a_graphs_mistakes_are_named(problem: str, graph: PhaseGraph) -> None:
    """Design, section 7: unreachable phases, dead ends, unknown tools or conditions are errors."""
    with pytest.raises(BadGraph) as caught:
        checked(graph, CONDITIONS, TOOLS)
    assert any(problem in found for found in caught.value.problems), caught.value.problems
    assert problem in str(caught.value)


def test_all_mistakes_are_named_together() -> None:
    graph = replace(with_phases(Phase("EXTRA", tools=("kb_fly", "kb_swim"))), initial="NOWHERE")
    with pytest.raises(BadGraph) as caught:
        checked(graph, CONDITIONS, TOOLS)
    assert len(caught.value.problems) == 3


def test_ways_back_are_tried_first_then_by_priority_then_as_written() -> None:
    """Design, section 7; the pattern's evaluation order."""
    graph = with_ways(Transition("RISE_ABOVE", "ANSWER", "all_answered"), Transition("RISE_ABOVE", "COMPLETE", "gap"))
    told = [(t.target, t.condition) for t in transitions_from(graph, "RISE_ABOVE")]
    assert told == [
        ("ANSWER", "gap"),
        ("DECOMPOSE", "new_category"),
        ("COMPLETE", "always"),
        ("ANSWER", "all_answered"),
        ("COMPLETE", "gap"),
    ]


@pytest.mark.parametrize(
    ("phase", "met", "target"),
    [
        ("DECOMPOSE", [], None),
        ("DECOMPOSE", ["all_answered", "gap"], None),
        ("DECOMPOSE", ["tree_ready"], "ANSWER"),
        ("ANSWER", ["all_answered", "new_category"], "DECOMPOSE"),
        ("RISE_ABOVE", [], "COMPLETE"),
        ("RISE_ABOVE", ["new_category"], "DECOMPOSE"),
        ("RISE_ABOVE", ["new_category", "gap"], "ANSWER"),
        ("COMPLETE", ["new_category", "gap", "tree_ready"], None),
    ],
)
def test_the_first_transition_whose_condition_is_met_is_taken_or_none(
    phase: str, met: list[str], target: str | None
) -> None:
    taken = advance(RESEARCH, phase, met)
    assert (taken.target if taken else None) == target


@given(graphs(), st.sets(st.sampled_from(CONDITIONS)))
@settings(max_examples=80)
def test_the_transition_taken_is_always_in_the_table_and_none_precedes_it(graph: PhaseGraph, met: set[str]) -> None:
    checked(graph, CONDITIONS, TOOLS)
    for phase in graph.phases:
        taken = advance(graph, phase.name, met)
        open_ways = [t for t in graph.transitions if t.source == phase.name and t.condition in met]
        assert (taken is None) == (not open_ways)
        if taken is not None:
            assert taken in open_ways
            assert taken.is_backward >= max(t.is_backward for t in open_ways)
            alike = [t for t in open_ways if t.is_backward == taken.is_backward]
            assert taken.priority == max(t.priority for t in alike)


def test_the_picture_shows_phases_ways_visits_and_where_the_work_is_and_nothing_of_sub_phases() -> None:
    picture = mermaid(RESEARCH, "ANSWER", {"DECOMPOSE": 2, "ANSWER": 1})
    assert picture.splitlines() == [
        "flowchart LR",
        '    p0["DECOMPOSE (2)"]',
        '    p1["ANSWER (1)"]',
        '    p2["RISE_ABOVE"]',
        '    p3(["COMPLETE"])',
        '    p0 -->|"tree_ready, a person decides"| p1',
        '    p1 -->|"all_answered, a person may say"| p2',
        '    p1 -.->|"new_category"| p0',
        "    p2 --> p3",
        '    p2 -.->|"new_category"| p0',
        '    p2 -.->|"gap"| p1',
        "    classDef current stroke-width:4px",
        "    class p1 current",
    ]
    assert "LOOK" not in picture


def test_the_parts_of_a_larger_graph_are_frames_with_their_phases_in_them() -> None:
    lines = mermaid(chained("first", "first.memory").graph, "first.memory.ASK", {"first.ASK": 2}).splitlines()
    assert lines[:15] == [
        "flowchart LR",
        '    subgraph s0["first"]',
        '        p0["LOOK"]',
        '        p1["ASK (2)"]',
        '        p2["WRITE"]',
        '        p3["JUDGE"]',
        "    end",
        '    subgraph s1["first.memory"]',
        '        p4["LOOK"]',
        '        p5["ASK"]',
        '        p6["WRITE"]',
        '        p7["JUDGE"]',
        "    end",
        '    p8(["COMPLETE"])',
        "    p0 --> p1",
    ]
    assert lines[-1] == "    class p5 current"


def test_the_picture_shows_for_each_transition_what_a_person_is_asked_first() -> None:
    """A transition may ask a person when its phase doesn't, ask differently, or not at all.

    Nobody is asked before going back.
    """
    phases = (Phase("A", checkpoint="optional"), Phase("B"), Phase("C", checkpoint="blocking"), Phase("END"))
    ways = (
        Transition("A", "B", "noted"),
        Transition("A", "END", "given_up", checkpoint="blocking"),
        Transition("B", "C", asks="questions"),
        Transition("B", "END", checkpoint="optional"),
        Transition("C", "END", "told", checkpoint="informational"),
        Transition("C", "A", "poor", is_backward=True),
    )
    lines = mermaid(PhaseGraph("asking", phases, ways, "A", ("END",))).splitlines()
    assert lines[5:] == [
        '    p0 -->|"noted, a person may say"| p1',
        '    p0 -->|"given_up, a person decides"| p3',
        '    p1 -->|"a person answers"| p2',
        '    p1 -->|"a person may say"| p3',
        '    p2 -->|"told"| p3',
        '    p2 -.->|"poor"| p0',
    ]


@pytest.mark.parametrize(
    "names", [("a.b", "c.d"), ("A.B", "C"), ("A", "B"), ("x y.a", "x y.b", "C"), (".a", ".b", "c")]
)
def test_a_dot_in_a_name_alone_makes_no_part(names: tuple[str, ...]) -> None:
    graph = PhaseGraph("g", tuple(map(Phase, names)), (), names[0], (names[-1],))
    assert grouped(graph) == {"": graph.phases}


def test_a_phase_s_name_is_text_in_the_picture_whatever_it_means_to_mermaid() -> None:
    graph = PhaseGraph("odd", (Phase('a"]; click p1 "x'), Phase("end")), (), "end", ("end",))
    assert mermaid(graph).splitlines()[1] == '    p0["a#34;#93;#59; click p1 #34;x"]'
