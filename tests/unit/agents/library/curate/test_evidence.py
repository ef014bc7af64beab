"""Curate, until there is something to act on: where the question goes, what counts as read, quoted, missing, and reasoned."""

from __future__ import annotations

import pytest

from agents.engine.agent import Called
from agents.library.curate.record import DEEP_DIVE, ORIENT, REASON, ROUTE, TARGET
from agents.library.folder import agent
from tests.support.agents.agent_harness import (
    ALTERED,
    ELSEWHERE,
    NOWHERE,
    PAGES,
    WATER,
    WINTER,
    Pages,
    change,
    judged,
    lacks,
    revision,
)
from tests.support.agents.curate_works import (
    ASKED,
    BEES,
    DIVED,
    FOUND,
    GARDEN,
    MISSING,
    ORIENTED,
    ROUTED,
    SOUGHT,
    TARGETED,
    Work,
    call,
    evidence,
    place,
    reasoned,
)

AGENT = agent("curate")

# --- ROUTE ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("work", "route", "known"),
    [
        (ROUTED, "discovery", True),
        ({**SOUGHT, "place": BEES}, "discovery", True),
        (SOUGHT, "navigation", True),
        ({**ROUTED, "place": "notes/wasps.md"}, "navigation", True),
        (SOUGHT, "discovery", False),
        ({**ROUTED, "place": None}, "discovery", False),
        ({**ROUTED, "place": "notes/wasps.md"}, "discovery", False),
        ({**ROUTED, "place": "note"}, "discovery", False),
    ],
)
async def test_a_question_goes_by_the_map_or_to_the_search_never_both_never_neither(
    work: Work, route: str, *, known: bool
) -> None:
    look = Pages(routes={ASKED: "navigation" if route == "navigation" else "discovery"})
    assert (await judged(AGENT, "known_place", ROUTE, work, look)).met is known
    assert (await judged(AGENT, "unknown_place", ROUTE, work, look)).met is not known


# --- ORIENT and TARGET ------------------------------------------------------------------------------------------------


async def test_reading_the_map_and_naming_its_places_is_orientation() -> None:
    look = Pages(called=[call("kb_map", "notes")])
    assert (await judged(AGENT, "oriented", ORIENT, ORIENTED, look)).met


@pytest.mark.parametrize(
    ("work", "called", "said"),
    [
        ({}, [call("kb_map")], "no candidate yet"),
        (ORIENTED, [], "the map was not read in this journey"),
        (ORIENTED, [call("kb_read", "notes")], "the map was not read in this journey"),
        (
            change(ORIENTED, "candidates", 1, path="notes/wasps.md"),
            [call("kb_map")],
            "c2: there is nothing at notes/wasps.md",
        ),
        (change(ORIENTED, "candidates", 0, path="note"), [call("kb_map")], "c1: there is nothing at note"),
    ],
)
async def test_without_reading_or_with_unknown_places_there_is_no_orientation(
    work: Work, called: list[Called], said: str
) -> None:
    assert lacks(await judged(AGENT, "oriented", ORIENT, work, Pages(called=called)), said)


async def test_pages_that_were_read_in_this_visit_are_targets() -> None:
    look = Pages(called=[call("kb_read", BEES)])
    assert (await judged(AGENT, "targeted", TARGET, TARGETED, look)).met
    cited = {"pages": [place("p1", BEES), place("p2", GARDEN)]}
    works = {DEEP_DIVE: {"evidence": [evidence("e1", WATER)]}}
    assert (await judged(AGENT, "targeted", TARGET, cited, look, works=works)).met


@pytest.mark.parametrize(
    ("work", "called", "said"),
    [
        ({}, [call("kb_read", BEES)], "there is no page yet"),
        (TARGETED, [], f"{BEES} was not read in this journey"),
        (TARGETED, [call("kb_read", GARDEN)], f"{BEES} was not read in this journey"),
        (TARGETED, [call("kb_search", BEES)], f"{BEES} was not read in this journey"),
        ({"pages": [*TARGETED["pages"], place("p2", GARDEN)]}, [call("kb_read", BEES)], f"p2: {GARDEN} was not read"),
        (change(TARGETED, "pages", 0, path="notes"), [call("kb_read", "notes")], "p1: notes is not a page"),
        (change(TARGETED, "pages", 0, path="notes/wasps.md"), [call("kb_read", BEES)], "notes/wasps.md is not a page"),
    ],
)
async def test_pages_that_were_not_read_are_no_targets(work: Work, called: list[Called], said: str) -> None:
    assert lacks(await judged(AGENT, "targeted", TARGET, work, Pages(called=called)), said)


async def test_a_map_or_page_that_was_read_before_and_is_unchanged_need_not_be_read_again() -> None:
    read = Called("kb_read", DEEP_DIVE, {"path": BEES, "revision": revision(PAGES[BEES])})
    old = Called("kb_read", DEEP_DIVE, {"path": BEES, "revision": "before"})
    seen = Called("kb_map", ROUTE, {"path": "notes", "listing": str(len(PAGES))})
    gone = Called("kb_map", ROUTE, {"path": "notes", "listing": "0"})
    assert (await judged(AGENT, "oriented", ORIENT, ORIENTED, Pages(called_before=[gone, seen]))).met
    changed = await judged(AGENT, "oriented", ORIENT, ORIENTED, Pages(called_before=[seen, gone]))
    assert lacks(changed, "has changed since")
    assert (await judged(AGENT, "targeted", TARGET, TARGETED, Pages(called_before=[old, read]))).met
    changed = await judged(AGENT, "targeted", TARGET, TARGETED, Pages(called_before=[read, old]))
    assert lacks(changed, "has changed since")


async def test_earlier_quotes_are_not_enough_to_continue_again() -> None:
    works = {DEEP_DIVE: {"evidence": [evidence("e1", WINTER)]}}
    found = await judged(AGENT, "targeted", TARGET, TARGETED, works=works)
    assert lacks(found, "all of these pages are quoted already")


# --- DEEP_DIVE --------------------------------------------------------------------------------------------------------


LACKING: Work = {**DIVED, "missing": MISSING}


async def test_evidence_at_its_stated_place_is_found() -> None:
    assert (await judged(AGENT, "evidence_found", DEEP_DIVE, DIVED)).met
    assert (await judged(AGENT, "evidence_found", DEEP_DIVE, {}, works={DEEP_DIVE: LACKING})).met


@pytest.mark.parametrize(
    ("work", "said"),
    [
        ({}, "there is no evidence yet"),
        (LACKING, "something is said to be missing"),
        (change(DIVED, "evidence", 1, citation=ALTERED), "evidence[e2].citation: the quote is not in"),
        (change(DIVED, "evidence", 1, citation=ELSEWHERE), "but in section 'Bees > Winter'"),
        (change(DIVED, "evidence", 0, citation=NOWHERE), "there is no page 'notes/wasps.md'"),
    ],
)
async def test_evidence_missing_from_its_place_is_named(work: Work, said: str) -> None:
    assert lacks(await judged(AGENT, "evidence_found", DEEP_DIVE, work), said)


@pytest.mark.parametrize(
    ("work", "look"),
    [
        (LACKING, Pages()),
        (LACKING, Pages(scents={MISSING: "partial"})),
        (LACKING, Pages(scents={MISSING: "sufficient"}, called=[call("kb_search", scent="lost")])),
        (
            {"evidence": [evidence("e1", ALTERED)], "missing": MISSING},
            Pages(scents={MISSING: "sufficient"}, called=[call("kb_search", scent="sufficient")]),
        ),
        ({"missing": MISSING}, Pages(scents={MISSING: "sufficient"}, called=[call("kb_search", scent="sufficient")])),
    ],
)
async def test_context_is_missing_where_the_scent_is_lost_or_nothing_can_be_quoted(work: Work, look: Pages) -> None:
    found = await judged(AGENT, "missing_context", DEEP_DIVE, work, look)
    assert found.met
    assert found.detail == MISSING


@pytest.mark.parametrize(
    ("work", "look", "said"),
    [
        (DIVED, Pages(), "`missing` is empty"),
        ({**DIVED, "missing": "  "}, Pages(), "`missing` is empty"),
        (LACKING, Pages(scents={MISSING: "sufficient"}), "kb_search finds enough for what is missing"),
        ({"missing": MISSING}, Pages(scents={MISSING: "sufficient"}), "search for it with this journey_id"),
        (
            LACKING,
            Pages(
                scents={MISSING: "sufficient"},
                called=[call("kb_search", scent="lost"), call("kb_search", scent="sufficient")],
            ),
            "kb_search finds enough",
        ),
    ],
)
async def test_a_claim_alone_does_not_make_context_missing(work: Work, look: Pages, said: str) -> None:
    assert lacks(await judged(AGENT, "missing_context", DEEP_DIVE, work, look), said)


async def test_earlier_gaps_are_not_present_gaps() -> None:
    assert lacks(
        await judged(AGENT, "missing_context", DEEP_DIVE, {}, works={DEEP_DIVE: LACKING}), "`missing` is empty"
    )


# --- REASON -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "path"),
    [
        ("answer", None),
        ("task", None),
        ("message", None),
        ("merge", BEES),
        ("merge", "notes"),
        ("merge", "notes/wasps.md"),
        ("move", BEES),
        ("delete", GARDEN),
        ("revert", BEES),
    ],
)
async def test_an_act_that_can_be_done_may_be_chosen(kind: str, path: str | None) -> None:
    assert (await judged(AGENT, "act_chosen", REASON, reasoned(kind, path), works=FOUND)).met


@pytest.mark.parametrize(
    ("work", "said"),
    [
        ({}, "there is no conclusion yet"),
        ({**reasoned("answer"), "conclusion": " "}, "there is no conclusion yet"),
        (reasoned("answer", None, "e1", "e9"), "`rests_on` names ids that no evidence has: e9"),
        ({**reasoned("answer"), "rests_on": []}, "the conclusion rests on nothing"),
        ({**reasoned("answer"), "act": None}, "no act is chosen"),
        (reasoned("merge"), "merge needs the path of a page, or of a directory"),
        (reasoned("delete"), "delete needs the path of a page"),
        (reasoned("move", "notes/wasps.md"), "there is no page notes/wasps.md to move"),
        (reasoned("delete", "notes"), "there is no page notes to delete"),
        (reasoned("revert", "notes/wasps.md"), "there is no page notes/wasps.md now"),
    ],
)
async def test_an_act_that_rests_on_nothing_or_has_no_place_is_not_chosen(work: Work, said: str) -> None:
    assert lacks(await judged(AGENT, "act_chosen", REASON, work, works=FOUND), said)


async def test_a_deleted_page_may_be_restored_once_its_history_was_read() -> None:
    look = Pages(called=[call("kb_history", "notes/wasps.md")])
    assert (await judged(AGENT, "act_chosen", REASON, reasoned("revert", "notes/wasps.md"), look, works=FOUND)).met
    other = Pages(called=[call("kb_history", BEES)])
    assert not (await judged(AGENT, "act_chosen", REASON, reasoned("revert", "notes/wasps.md"), other, works=FOUND)).met
    assert not (await judged(AGENT, "act_chosen", REASON, reasoned("delete", "notes/wasps.md"), look, works=FOUND)).met


# --- words that say nothing -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("condition", "phase", "work", "said"),
    [
        ("unknown_place", ROUTE, {**SOUGHT, "question": "x"}, "`question` is only 'x'"),
        ("oriented", ORIENT, change(ORIENTED, "candidates", 0, why="ok"), "c1: `why` is only 'ok'"),
        ("targeted", TARGET, change(TARGETED, "pages", 0, why="yes"), "p1: `why` is only 'yes'"),
        ("evidence_found", DEEP_DIVE, change(DIVED, "evidence", 0, says="done"), "e1: `says` is only 'done'"),
        (
            "evidence_found",
            DEEP_DIVE,
            change(DIVED, "evidence", 0, says="Invoices are sent quarterly."),
            "e1: `says` has no word in common with its quotes",
        ),
        ("act_chosen", REASON, {**reasoned("answer"), "conclusion": "yes"}, "`conclusion` is only 'yes'"),
        ("act_chosen", REASON, {**reasoned("answer"), "conclusion": ASKED}, "`conclusion` only repeats the question"),
        (
            "act_chosen",
            REASON,
            {**reasoned("answer"), "conclusion": "Invoices are sent quarterly."},
            "`conclusion` has no word in common with its quotes",
        ),
    ],
)
async def test_empty_or_unrelated_words_move_nothing(condition: str, phase: str, work: Work, said: str) -> None:
    look = Pages(called=[call("kb_map", "notes"), call("kb_read", BEES)], routes={"x": "discovery", ASKED: "discovery"})
    assert lacks(await judged(AGENT, condition, phase, work, look, works=FOUND), said)
