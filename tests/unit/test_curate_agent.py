"""Curate: what each condition accepts and what it does not, each way through the graph, and what a host is told."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import get_args

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agents.agent import Called, Fate
from agents.catalogue import BUILT_IN
from agents.curate.agent import AGENT, done, values
from agents.curate.record import (
    ACT,
    COMPLETE,
    DEEP_DIVE,
    KNOWLEDGE,
    MERGE,
    MESSAGES,
    ORIENT,
    REASON,
    ROUTE,
    TARGET,
    TASKS,
    record_of,
)
from agents.curate.work import Writer
from agents.errors import BadWork, JourneyOver
from agents.events import Json, PhaseChanged, QuestionAdded, SourceFound, Thinking
from agents.graph import checked
from agents.prompting import COMMON, placeholders
from agents.state import JourneyState
from tests.agents_at_work import (
    ALTERED,
    ANSWER_TOKENS,
    ELSEWHERE,
    FLOWERS,
    NOWHERE,
    TOOLS,
    VARROA,
    WATER,
    WINTER,
    Led,
    Pages,
    change,
    cost,
    judged,
    lacks,
    leading,
    revision,
    walk,
    words_in,
)
from tests.journeys import Walk

Work = Mapping[str, Json]

BEES, GARDEN = "notes/bees.md", "notes/garden.md"
ASKED = "When are the mites treated?"


def place(id_: str, path: str) -> dict[str, Json]:
    return {"id": id_, "path": path, "why": "its summary names it"}


def evidence(id_: str, citation: Work, says: str = "It says so.") -> dict[str, Json]:
    return {"id": id_, "says": says, "citation": dict(citation)}


def chosen(kind: str, path: str | None = None, why: str = "the page lacks it") -> dict[str, Json]:
    return {"kind": kind, "path": path, "why": why}


def deed(id_: str, tool: str, path: str | None = None, proposal: str | None = None) -> dict[str, Json]:
    return {"id": id_, "tool": tool, "path": path, "proposal": proposal}


def now(id_: str, path: str, at: str, says: Work | None = None) -> dict[str, Json]:
    return {"id": id_, "path": path, "revision": at, "says": dict(says) if says else None}


def call(tool: str, path: str = "", status: str = "", **more: str) -> Called:
    facts = {"path": path, "status": status, **more}
    return Called(tool, "", {name: value for name, value in facts.items() if value})


ROUTED: Work = {"question": ASKED, "mode": "navigation", "place": "notes"}
SOUGHT: Work = {"question": ASKED, "mode": "discovery", "place": None}
ORIENTED: Work = {"candidates": [place("c1", "notes"), place("c2", GARDEN)]}
TARGETED: Work = {"pages": [place("p1", BEES)]}
DIVED: Work = {"evidence": [evidence("e1", VARROA), evidence("e2", WINTER)]}


def reasoned(kind: str, path: str | None = None, *rests_on: str) -> dict[str, Json]:
    return {"conclusion": "In December.", "rests_on": list(rests_on or ("e1",)), "act": chosen(kind, path)}


FOUND: Mapping[str, Work] = {ROUTE: SOUGHT, DEEP_DIVE: DIVED}


def deciding(kind: str, path: str | None = None) -> Mapping[str, Work]:
    """Return the works with which ACT begins."""
    return {**FOUND, REASON: reasoned(kind, path)}


# --- the graph --------------------------------------------------------------------------------------------------------


def test_the_graph_can_be_used_and_is_the_one_that_the_catalogue_shows() -> None:
    assert checked(AGENT.graph, AGENT.known_conditions, TOOLS) is AGENT.graph
    entry = next(entry for entry in BUILT_IN if entry.name == "curate")
    assert (AGENT.name, AGENT.title, AGENT.summary) == (entry.name, entry.title, entry.summary)
    assert set(AGENT.forms) == {phase.name for phase in AGENT.graph.phases} - set(AGENT.graph.complete)
    assert {t.condition for t in AGENT.graph.transitions} == set(AGENT.conditions)
    assert set(get_args(Writer)) == {*KNOWLEDGE, *TASKS, *MESSAGES} <= TOOLS


def test_each_phase_has_words_for_coming_and_for_coming_back_and_they_differ() -> None:
    there = COMMON | set(values(Walk(AGENT.graph).state))
    for phase in AGENT.graph.phases:
        first = AGENT.texts[phase.prompt]
        assert words_in(first) <= 350
        assert placeholders(first) <= there
        if phase.name not in AGENT.graph.complete:
            again = AGENT.texts[phase.prompt_again]
            assert words_in(again) <= 200
            assert placeholders(again) <= there
            assert first != again
    names = {phase.prompt for phase in AGENT.graph.phases} | {phase.prompt_again for phase in AGENT.graph.phases}
    assert set(AGENT.texts) == names - {""}


def test_prompts_name_only_tools_of_their_phase() -> None:
    """What a prompt tells to call would be refused otherwise; the last phase calls nothing, it names what a person may want."""
    for phase in AGENT.graph.phases:
        for text in (AGENT.texts[phase.prompt], AGENT.texts.get(phase.prompt_again, "")):
            tools = set(
                re.findall(
                    r"\b(?:kb|plane|zulip)_\w+", text.replace("kb_read answered", "").replace("kb_read gave", "")
                )
            )
            assert tools <= set(phase.tools) or phase.name == COMPLETE, phase.name
    assert "journey_id" not in AGENT.texts["complete"]


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


async def test_who_looked_at_the_map_and_names_places_on_it_is_oriented() -> None:
    look = Pages(called=[call("kb_map", "notes")])
    assert (await judged(AGENT, "oriented", ORIENT, ORIENTED, look)).met


@pytest.mark.parametrize(
    ("work", "called", "said"),
    [
        ({}, [call("kb_map")], "no candidate yet"),
        (ORIENTED, [], "the map was not looked at in this visit"),
        (ORIENTED, [call("kb_read", "notes")], "the map was not looked at in this visit"),
        (
            change(ORIENTED, "candidates", 1, path="notes/wasps.md"),
            [call("kb_map")],
            "c2: nothing lies at notes/wasps.md",
        ),
        (change(ORIENTED, "candidates", 0, path="note"), [call("kb_map")], "c1: nothing lies at note"),
    ],
)
async def test_who_did_not_look_or_names_what_is_not_there_is_not_oriented(
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
        (TARGETED, [], f"{BEES} was not read in this visit"),
        (TARGETED, [call("kb_read", GARDEN)], f"{BEES} was not read in this visit"),
        (TARGETED, [call("kb_search", BEES)], f"{BEES} was not read in this visit"),
        ({"pages": [*TARGETED["pages"], place("p2", GARDEN)]}, [call("kb_read", BEES)], f"p2: {GARDEN} was not read"),
        (change(TARGETED, "pages", 0, path="notes"), [call("kb_read", "notes")], "p1: notes is no page"),
        (change(TARGETED, "pages", 0, path="notes/wasps.md"), [call("kb_read", BEES)], "notes/wasps.md is no page"),
    ],
)
async def test_pages_that_were_not_read_are_no_targets(work: Work, called: list[Called], said: str) -> None:
    assert lacks(await judged(AGENT, "targeted", TARGET, work, Pages(called=called)), said)


async def test_what_is_quoted_already_is_not_enough_to_go_on_again() -> None:
    works = {DEEP_DIVE: {"evidence": [evidence("e1", WINTER)]}}
    found = await judged(AGENT, "targeted", TARGET, TARGETED, works=works)
    assert lacks(found, "none of these pages was read in this visit")


# --- DEEP_DIVE --------------------------------------------------------------------------------------------------------

MISSING = "the price of oxalic acid"
LACKING: Work = {**DIVED, "missing": MISSING}


async def test_evidence_that_stands_where_it_says_is_found() -> None:
    assert (await judged(AGENT, "evidence_found", DEEP_DIVE, DIVED)).met
    assert (await judged(AGENT, "evidence_found", DEEP_DIVE, {}, works={DEEP_DIVE: LACKING})).met


@pytest.mark.parametrize(
    ("work", "said"),
    [
        ({}, "there is no evidence yet"),
        (LACKING, "something is said to be missing"),
        (change(DIVED, "evidence", 1, citation=ALTERED), "evidence[e2].citation: the quote does not stand in"),
        (change(DIVED, "evidence", 1, citation=ELSEWHERE), "but in section 'Bees > Winter'"),
        (change(DIVED, "evidence", 0, citation=NOWHERE), "there is no page 'notes/wasps.md'"),
    ],
)
async def test_evidence_that_does_not_stand_is_named(work: Work, said: str) -> None:
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
        (DIVED, Pages(), "missing is empty"),
        ({**DIVED, "missing": "  "}, Pages(), "missing is empty"),
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
async def test_context_is_not_missing_because_somebody_says_so(work: Work, look: Pages, said: str) -> None:
    assert lacks(await judged(AGENT, "missing_context", DEEP_DIVE, work, look), said)


async def test_what_was_missing_before_is_not_missing_now() -> None:
    assert lacks(await judged(AGENT, "missing_context", DEEP_DIVE, {}, works={DEEP_DIVE: LACKING}), "missing is empty")


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
        (reasoned("answer", None, "e1", "e9"), "rests_on names what is no evidence: e9"),
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


async def test_a_page_that_is_gone_may_be_brought_back_once_its_history_was_looked_at() -> None:
    look = Pages(called=[call("kb_history", "notes/wasps.md")])
    assert (await judged(AGENT, "act_chosen", REASON, reasoned("revert", "notes/wasps.md"), look, works=FOUND)).met
    other = Pages(called=[call("kb_history", BEES)])
    assert not (await judged(AGENT, "act_chosen", REASON, reasoned("revert", "notes/wasps.md"), other, works=FOUND)).met
    assert not (await judged(AGENT, "act_chosen", REASON, reasoned("delete", "notes/wasps.md"), look, works=FOUND)).met


# --- ACT --------------------------------------------------------------------------------------------------------------


async def test_what_no_listed_tool_could_do_is_not_chosen() -> None:
    """Where Plane or Zulip is not configured the work must not end up waiting for an act that nobody can carry out."""
    bare = Pages(listed=frozenset(tool for tool in TOOLS if tool.startswith("kb_")))
    for kind in ("task", "message"):
        found = await judged(AGENT, "act_chosen", REASON, reasoned(kind), bare, works=FOUND)
        assert lacks(found, f"no tool for a {kind}")
        assert (await judged(AGENT, "act_chosen", REASON, reasoned(kind), works=FOUND)).met
    assert (await judged(AGENT, "act_chosen", REASON, reasoned("answer"), bare, works=FOUND)).met


@pytest.mark.parametrize(
    ("kind", "path", "acts", "look"),
    [
        ("merge", BEES, [deed("a1", "kb_merge", BEES)], Pages(called=[call("kb_merge", BEES, "done")])),
        ("merge", BEES, [deed("a1", "kb_merge", BEES)], Pages(called=[call("kb_merge", BEES, "partial")])),
        ("merge", "notes", [deed("a1", "kb_merge", GARDEN)], Pages(called=[call("kb_merge", GARDEN, "done")])),
        ("merge", "", [deed("a1", "kb_merge", GARDEN)], Pages(called=[call("kb_merge", GARDEN, "done")])),
        (
            "merge",
            "notes/wasps",
            [deed("a1", "kb_merge", "notes/wasps.md")],
            Pages(called=[call("kb_merge", "notes/wasps.md", "done")]),
        ),
        ("move", BEES, [deed("a1", "kb_move", "hive.md")], Pages(called=[call("kb_move", "hive.md", "done")])),
        ("delete", BEES, [deed("a1", "kb_delete", BEES)], Pages(called=[call("kb_delete", BEES, "done")])),
        ("revert", BEES, [deed("a1", "kb_revert", BEES)], Pages(called=[call("kb_revert", BEES, "done")])),
        ("merge", BEES, [deed("a1", "kb_merge", BEES, "x1")], Pages(fates={"x1": Fate("kb_merge", "done", path=BEES)})),
        (
            "merge",
            BEES,
            [deed("a1", "kb_merge", BEES, "x1")],
            Pages(
                called=[
                    call("kb_merge", BEES, "proposed", proposal="x1"),
                    call("kb_merge", BEES, "done", proposal="x1"),
                ],
                fates={"x1": Fate("kb_merge", "done", path=BEES)},
            ),
        ),
        (
            "merge",
            BEES,
            [deed("a1", "kb_merge", BEES, "x1")],
            Pages(
                called=[call("kb_merge", BEES, "partial", proposal="x1")],
                fates={"x1": Fate("kb_merge", "ended", path=BEES)},
            ),
        ),
        (
            "move",
            BEES,
            [deed("a1", "kb_move", GARDEN, "x1")],
            Pages(fates={"x1": Fate("kb_move", "done", path=BEES)}),
        ),
        (
            "merge",
            BEES,
            [deed("a1", "kb_merge", BEES), deed("a2", "kb_merge", GARDEN)],
            Pages(called=[call("kb_merge", BEES, "unchanged"), call("kb_merge", GARDEN, "done")]),
        ),
        (
            "answer",
            None,
            [deed("a1", "kb_merge", BEES), deed("a2", "zulip_send_message")],
            Pages(called=[call("kb_merge", BEES, "done"), call("zulip_send_message", status="done")]),
        ),
    ],
)
async def test_knowledge_changed_where_the_server_has_every_act_on_record(
    kind: str, path: str | None, acts: list[Json], look: Pages
) -> None:
    given_: Work = {"acts": acts}
    assert (await judged(AGENT, "knowledge_changed", ACT, given_, look, works=deciding(kind, path))).met
    assert not (await judged(AGENT, "acted", ACT, given_, look, works=deciding(kind, path))).met
    assert not (await judged(AGENT, "human_rejected", ACT, given_, look, works=deciding(kind, path))).met


PENDING = Fate("kb_merge", "pending", path=BEES)
MERGED_BEES = call("kb_merge", BEES, "done")


@pytest.mark.parametrize(
    ("acts", "look", "said"),
    [
        ([], Pages(), "chosen was merge at notes/bees.md, and no act shows it: use kb_merge"),
        ([], Pages(called=[MERGED_BEES]), "kb_merge changed notes/bees.md: name that in an act, too"),
        ([deed("a1", "kb_merge", BEES)], Pages(), "a1 (kb_merge notes/bees.md) is no call of this visit"),
        ([deed("a1", "kb_merge", GARDEN)], Pages(called=[MERGED_BEES]), "on record: kb_merge notes/bees.md"),
        ([deed("a1", "kb_move", BEES)], Pages(called=[MERGED_BEES]), "a1 (kb_move notes/bees.md) is no call"),
        ([deed("a1", "kb_merge")], Pages(called=[MERGED_BEES]), "a1 names no page"),
        (
            [deed("a1", "kb_merge", BEES), deed("a2", "kb_merge", BEES)],
            Pages(called=[MERGED_BEES]),
            "a2 (kb_merge notes/bees.md) is no call",
        ),
        ([deed("a1", "kb_merge", BEES)], Pages(called=[call("kb_merge", BEES, "conflict")]), "its status is conflict"),
        ([deed("a1", "kb_merge", BEES)], Pages(called=[call("kb_merge", BEES, "analysis")]), "its status is analysis"),
        (
            [deed("a1", "kb_merge", BEES)],
            Pages(called=[call("kb_merge", BEES, "proposed", proposal="x1")], fates={"x1": PENDING}),
            "became proposal x1",
        ),
        (
            [deed("a1", "kb_merge", BEES, "x1")],
            Pages(fates={"x1": PENDING}),
            "waits for the person's decision about proposal x1",
        ),
        (
            [deed("a1", "kb_merge", BEES, "x1")],
            Pages(called=[MERGED_BEES], fates={"x1": PENDING}),
            "kb_merge notes/bees.md) waits",
        ),
        ([deed("a1", "kb_merge", BEES, "x9")], Pages(), "this journey made no proposal x9"),
        (
            [deed("a1", "kb_merge", BEES, "x1")],
            Pages(fates={"x1": Fate("kb_move", "done", path=BEES)}),
            "x1 is one of kb_move",
        ),
        (
            [deed("a1", "kb_merge", BEES, "x1")],
            Pages(fates={"x1": Fate("kb_merge", "ended", path=BEES)}),
            "over without an effect",
        ),
        (
            [deed("a1", "kb_merge", GARDEN, "x1")],
            Pages(fates={"x1": Fate("kb_merge", "done", path=BEES)}),
            "not about notes/garden.md but about notes/bees.md",
        ),
        (
            [deed("a1", "kb_merge", BEES)],
            Pages(called=[call("kb_merge", BEES, "partial", proposal="x1")], fates={"x1": PENDING}),
            "kb_merge made proposal x1: name it",
        ),
        (
            [deed("a1", "kb_merge", GARDEN)],
            Pages(called=[call("kb_merge", GARDEN, "done")]),
            "chosen was merge at notes/bees.md",
        ),
        (
            [deed("a1", "zulip_send_message")],
            Pages(called=[call("zulip_send_message", status="done")]),
            "chosen was merge",
        ),
        (
            [deed("a1", "kb_merge", BEES), deed("a2", "zulip_react")],
            Pages(called=[MERGED_BEES]),
            "a2 (zulip_react) is no call",
        ),
    ],
)
async def test_knowledge_has_not_changed_by_the_word_of_who_says_so(acts: list[Json], look: Pages, said: str) -> None:
    works = deciding("merge", BEES)
    assert lacks(await judged(AGENT, "knowledge_changed", ACT, {"acts": acts}, look, works=works), said)
    assert not (await judged(AGENT, "acted", ACT, {"acts": acts}, look, works=works)).met


async def test_a_move_that_was_approved_is_about_the_new_path() -> None:
    """The proposal names the page as it was; what it is now has to be verified later."""
    look = Pages(fates={"x1": Fate("kb_move", "done", path=BEES)})
    for path in (BEES, "notes/wasps.md"):
        found = await judged(
            AGENT,
            "knowledge_changed",
            ACT,
            {"acts": [deed("a1", "kb_move", path, "x1")]},
            look,
            works=deciding("move", BEES),
        )
        assert lacks(found, "proposal x1 is not about")
    look.called = [call("kb_move", "plans/hive.md", "done", proposal="x1")]
    wrong = {"acts": [deed("a1", "kb_move", GARDEN, "x1")]}
    assert lacks(
        await judged(AGENT, "knowledge_changed", ACT, wrong, look, works=deciding("move", BEES)), "plans/hive.md"
    )


@pytest.mark.parametrize(
    ("kind", "work", "look"),
    [
        ("answer", {"said": "In December."}, Pages()),
        ("task", {"acts": [deed("a1", "plane_create_task")]}, Pages(called=[call("plane_create_task", status="done")])),
        (
            "task",
            {"acts": [deed("a1", "plane_comment_task", None, "x1")]},
            Pages(fates={"x1": Fate("plane_comment_task", "done")}),
        ),
        (
            "message",
            {"acts": [deed("a1", "zulip_send_message")]},
            Pages(called=[call("zulip_send_message", status="done")]),
        ),
        ("message", {"acts": [deed("a1", "zulip_react")]}, Pages(called=[call("zulip_react", status="unchanged")])),
        ("merge", {"acts": [deed("a1", "kb_merge", BEES)]}, Pages(called=[call("kb_merge", BEES, "unchanged")])),
        (
            "merge",
            {"acts": [deed("a1", "kb_merge", BEES, "x1")]},
            Pages(
                called=[call("kb_merge", BEES, "unchanged", proposal="x1")],
                fates={"x1": Fate("kb_merge", "done", path=BEES)},
            ),
        ),
    ],
)
async def test_what_changes_no_knowledge_is_done_when_the_server_has_it_on_record(
    kind: str, work: Work, look: Pages
) -> None:
    works = deciding(kind, BEES if kind == "merge" else None)
    assert (await judged(AGENT, "acted", ACT, work, look, works=works)).met
    assert not (await judged(AGENT, "knowledge_changed", ACT, work, look, works=works)).met


@pytest.mark.parametrize(
    ("kind", "work", "look", "said"),
    [
        ("answer", {}, Pages(), "said is empty"),
        ("answer", {"said": " "}, Pages(), "said is empty"),
        ("answer", {"said": "Done.", "acts": [deed("a1", "zulip_react")]}, Pages(), "a1 (zulip_react) is no call"),
        ("answer", {"said": "Done."}, Pages(called=[MERGED_BEES]), "kb_merge changed notes/bees.md"),
        ("task", {"said": "I made a task."}, Pages(), "chosen was task, and no act shows it"),
        ("task", {"acts": [deed("a1", "plane_create_task")]}, Pages(), "is no call of this visit"),
        (
            "task",
            {"acts": [deed("a1", "plane_create_task")]},
            Pages(called=[call("plane_create_task", status="conflict")]),
            "its status is conflict",
        ),
        (
            "task",
            {"acts": [deed("a1", "plane_create_task")]},
            Pages(called=[call("plane_update_task", status="done")]),
            "is no call of this visit",
        ),
        (
            "task",
            {"acts": [deed("a1", "zulip_react")]},
            Pages(called=[call("zulip_react", status="done")]),
            "chosen was task",
        ),
        (
            "message",
            {"acts": [deed("a1", "zulip_react", None, "x1")]},
            Pages(fates={"x1": Fate("zulip_react", "pending")}),
            "waits for the person",
        ),
        (
            "message",
            {"acts": [deed("a1", "zulip_send_message"), deed("a2", "zulip_send_message")]},
            Pages(called=[call("zulip_send_message", status="done")]),
            "a2 (zulip_send_message) is no call",
        ),
        (
            "message",
            {"acts": [deed("a1", "zulip_send_message")]},
            Pages(
                called=[call("zulip_send_message", status="proposed", proposal="x1")],
                fates={"x1": Fate("zulip_send_message", "pending")},
            ),
            "became proposal x1",
        ),
    ],
)
async def test_nothing_is_done_by_the_word_of_who_says_so(kind: str, work: Work, look: Pages, said: str) -> None:
    assert lacks(await judged(AGENT, "acted", ACT, work, look, works=deciding(kind)), said)
    assert not (await judged(AGENT, "knowledge_changed", ACT, work, look, works=deciding(kind))).met


async def test_where_the_page_is_gone_before_the_act_the_person_is_told_so() -> None:
    told: Work = {"said": "Somebody deleted it before me."}
    for kind in ("move", "delete", "revert"):
        assert (await judged(AGENT, "acted", ACT, told, works=deciding(kind, "notes/wasps.md"))).met
        assert not (await judged(AGENT, "acted", ACT, told, works=deciding(kind, BEES))).met
        assert not (await judged(AGENT, "acted", ACT, {}, works=deciding(kind, "notes/wasps.md"))).met
    assert not (await judged(AGENT, "acted", ACT, told, works=deciding("merge", "notes/wasps.md"))).met


async def test_a_proposal_that_took_the_place_of_another_is_named_once() -> None:
    both = [call("kb_merge", BEES, "proposed", proposal=id_) for id_ in ("x1", "x2")]
    look = Pages(called=both, fates={"x1": PENDING, "x2": PENDING})
    found = await judged(
        AGENT,
        "knowledge_changed",
        ACT,
        {"acts": [deed("a1", "kb_merge", BEES, "x2")]},
        look,
        works=deciding("merge", BEES),
    )
    assert [text for text in found.missing if "name it" in text] == []
    assert lacks(found, "waits for the person's decision about proposal x2")


REFUSED = Fate("kb_merge", "rejected", "say who measured it", BEES)


async def test_a_person_refused_what_the_work_names() -> None:
    acts: Work = {"acts": [deed("a1", "kb_merge", BEES, "x1")]}
    named_now = await judged(
        AGENT, "human_rejected", ACT, acts, Pages(fates={"x1": REFUSED}), works=deciding("merge", BEES)
    )
    assert named_now.met
    assert named_now.detail == "kb_merge notes/bees.md, proposal x1: say who measured it"
    look = Pages(called=[call("kb_merge", BEES, "proposed", proposal="x1")], fates={"x1": REFUSED})
    assert (await judged(AGENT, "human_rejected", ACT, {}, look, works={**deciding("merge", BEES), ACT: acts})).met


@pytest.mark.parametrize(
    ("work", "works", "look"),
    [
        ({}, {}, Pages(fates={"x1": REFUSED})),
        ({"acts": [deed("a1", "kb_merge", BEES)]}, {}, Pages(fates={"x1": REFUSED})),
        ({"acts": [deed("a1", "kb_merge", BEES, "x1")]}, {}, Pages(fates={"x1": PENDING})),
        ({"acts": [deed("a1", "kb_merge", BEES, "x1")]}, {}, Pages()),
        ({"acts": [deed("a1", "kb_move", BEES, "x1")]}, {}, Pages(fates={"x1": REFUSED})),
        ({"acts": [deed("a1", "kb_merge", BEES, "x1")]}, {}, Pages(fates={"x1": Fate("kb_merge", "ended", path=BEES)})),
        # Refused in an earlier visit, and still on record.
        ({}, {ACT: {"acts": [deed("a1", "kb_merge", BEES, "x1")]}}, Pages(fates={"x1": REFUSED})),
    ],
)
async def test_nobody_refused_what_is_not_rejected_now(work: Work, works: Mapping[str, Work], look: Pages) -> None:
    found = await judged(AGENT, "human_rejected", ACT, work, look, works={**deciding("merge", BEES), **works})
    assert lacks(found, "no proposal that acts name was rejected")


async def test_what_was_refused_before_has_to_go_before_the_work_goes_on() -> None:
    works = {**deciding("merge", BEES), ACT: {"acts": [deed("a1", "kb_merge", BEES, "x1")]}}
    look = Pages(called=[MERGED_BEES], fates={"x1": REFUSED})
    again: Work = {"acts": [deed("a2", "kb_merge", BEES)]}
    assert lacks(await judged(AGENT, "knowledge_changed", ACT, again, look, works=works), "x1 was rejected: drop a1")
    assert (await judged(AGENT, "knowledge_changed", ACT, {**again, "drop": ["a1"]}, look, works=works)).met


# --- MERGE ------------------------------------------------------------------------------------------------------------


def ended(*acts: Work) -> Mapping[str, Work]:
    return {**deciding("merge", BEES), ACT: {"acts": [dict(act) for act in acts]}}


AT_BEES, AT_GARDEN = revision(Pages().texts[BEES]), revision(Pages().texts[GARDEN])


@pytest.mark.parametrize(
    ("pages", "acts"),
    [
        ([now("m1", BEES, AT_BEES, WINTER)], [deed("a1", "kb_merge", BEES)]),
        ([now("m1", BEES, AT_BEES)], [deed("a1", "kb_revert", BEES)]),
        ([now("m1", GARDEN, AT_GARDEN)], [deed("a1", "kb_move", GARDEN)]),
        ([now("m1", "notes/wasps.md", "")], [deed("a1", "kb_delete", "notes/wasps.md")]),
        (
            [now("m1", "old.md", ""), now("m2", BEES, AT_BEES)],
            [deed("a1", "kb_merge", "old.md"), deed("a2", "kb_move", BEES)],
        ),
        (
            [now("m1", BEES, AT_BEES, VARROA), now("m2", GARDEN, AT_GARDEN, WATER)],
            [deed("a1", "kb_merge", BEES), deed("a2", "kb_merge", GARDEN), deed("a3", "zulip_react")],
        ),
    ],
)
async def test_pages_that_are_as_they_are_told_to_be_are_verified(pages: list[Json], acts: list[Work]) -> None:
    assert (await judged(AGENT, "merged", MERGE, {"pages": pages}, works=ended(*acts))).met


@pytest.mark.parametrize(
    ("pages", "acts", "said"),
    [
        ([], [deed("a1", "kb_merge", BEES)], "notes/bees.md was changed and is not in pages"),
        (
            [now("m1", GARDEN, AT_GARDEN, WATER)],
            [deed("a1", "kb_merge", BEES)],
            "notes/bees.md was changed and is not in",
        ),
        (
            [now("m1", BEES, AT_BEES, WINTER)],
            [deed("a1", "kb_merge", BEES), deed("a2", "kb_merge", GARDEN)],
            "notes/garden.md was changed",
        ),
        ([now("m1", BEES, AT_GARDEN, WINTER)], [deed("a1", "kb_merge", BEES)], "m1: that is not the present revision"),
        ([now("m1", BEES, "", WINTER)], [deed("a1", "kb_merge", BEES)], "m1: that is not the present revision"),
        ([now("m1", BEES, AT_BEES)], [deed("a1", "kb_merge", BEES)], "m1: quote in says what notes/bees.md says now"),
        (
            [now("m1", BEES, AT_BEES, WATER)],
            [deed("a1", "kb_merge", BEES)],
            "m1: quote in says what notes/bees.md says now",
        ),
        (
            [now("m1", BEES, AT_BEES, ALTERED)],
            [deed("a1", "kb_merge", BEES)],
            "pages[m1].says: the quote does not stand in",
        ),
        ([now("m1", BEES, AT_BEES, ELSEWHERE)], [deed("a1", "kb_merge", BEES)], "but in section 'Bees > Winter'"),
        ([now("m1", BEES, "")], [deed("a1", "kb_delete", BEES)], "m1: there is a page notes/bees.md again"),
        (
            [now("m1", "notes/wasps.md", "abc")],
            [deed("a1", "kb_delete", "notes/wasps.md")],
            "is gone: its revision is ''",
        ),
        (
            [now("m1", "notes/wasps.md", "", WINTER)],
            [deed("a1", "kb_merge", "notes/wasps.md")],
            "there is no page notes/wasps.md any more",
        ),
        (
            [now("m1", "old.md", ""), now("m2", BEES, AT_BEES)],
            [deed("a1", "kb_move", BEES), deed("a2", "kb_merge", "old.md")],
            "there is no page old.md",
        ),
    ],
)
async def test_pages_that_are_not_as_they_are_told_to_be_are_named(
    pages: list[Json], acts: list[Work], said: str
) -> None:
    assert lacks(await judged(AGENT, "merged", MERGE, {"pages": pages}, works=ended(*acts)), said)


# --- the way through --------------------------------------------------------------------------------------------------

NEW_LINE = "We treat again in August when more than ten mites a day fall on the board."


def merge_into_bees(look: Pages) -> dict[str, Json]:
    """Write into the page of bees, as kb_merge would, and return a quote of what was written."""
    look.texts[BEES] += f"\n{NEW_LINE}\n"
    return {"path": BEES, "section": "Counting mites", "quote": NEW_LINE}


async def reasoning(led: Led) -> JourneyState:
    """Lead to REASON, straight from the question."""
    await led.submit(**SOUGHT)
    return await led.submit(**DIVED)


async def acting(led: Led, kind: str, path: str | None = None) -> JourneyState:
    await reasoning(led)
    return await led.submit(**reasoned(kind, path))


async def test_a_question_goes_by_map_page_and_passages_to_a_verified_change(tmp_path: Path) -> None:
    async with leading(AGENT, tmp_path, brief="Say when mites are treated.") as led:
        assert (await led.submit(**ROUTED)).phase == ORIENT
        told = await led.told()
        assert f"Question: {ASKED}" in told
        assert "Named place: notes" in told
        assert (await led.submit(**ORIENTED)).phase == ORIENT
        assert "the map was not looked at" in (await led.missing())[0]
        led.look.called = [call("kb_map", "notes")]
        assert (await led.submit()).phase == TARGET
        assert "Candidates: c1 notes; c2 notes/garden.md" in await led.told()
        led.look.called = [call("kb_read", BEES)]
        assert (await led.submit(**TARGETED)).phase == DEEP_DIVE
        assert (await led.submit(**DIVED)).phase == REASON
        assert "e1: It says so. (notes/bees.md > Bees > Varroa)" in await led.told()
        assert (await led.submit(**reasoned("merge", BEES))).phase == ACT
        assert "Chosen: merge at notes/bees.md: the page lacks it" in await led.told()
        says = merge_into_bees(led.look)
        led.look.called = [MERGED_BEES]
        assert (await led.submit(acts=[deed("a1", "kb_merge", BEES)])).phase == MERGE
        told = await led.told()
        assert "Changed: notes/bees.md (kb_merge)" in told
        assert "Not verified yet: notes/bees.md" in told
        stale = await led.submit(pages=[now("m1", BEES, AT_BEES, says)])
        assert stale.phase == MERGE
        assert "m1: that is not the present revision" in (await led.missing())[0]
        state = await led.submit(pages=[now("m1", BEES, revision(led.look.texts[BEES]), says)])
        assert (state.phase, state.status) == (COMPLETE, "complete")
        with pytest.raises(JourneyOver):
            await led.submit(said="more")
        told, events = await led.told(), await led.events()
    assert "verified: notes/bees.md at revision" in told
    assert "Tell the person how it ended" in told
    assert [(e.text, e.category) for e in events if isinstance(e, QuestionAdded)] == [(ASKED, "navigation")]
    assert [e.source for e in events if isinstance(e, SourceFound)] == [f"kb:{BEES}", f"kb:{BEES}"]
    assert [(e.target, e.reason) for e in events if isinstance(e, PhaseChanged)] == [
        (ORIENT, "known_place"),
        (TARGET, "oriented"),
        (DEEP_DIVE, "targeted"),
        (REASON, "evidence_found"),
        (ACT, "act_chosen"),
        (MERGE, "knowledge_changed"),
        (COMPLETE, "merged"),
    ]


async def test_discovery_dives_at_once_and_an_answer_needs_no_merge(tmp_path: Path) -> None:
    async with leading(AGENT, tmp_path) as led:
        assert (await led.submit(**SOUGHT)).phase == DEEP_DIVE
        assert (await led.submit(**DIVED)).phase == REASON
        assert (await led.submit(**reasoned("answer"))).phase == ACT
        state = await led.submit(said="In December, when there is no brood.")
        assert (state.phase, state.status, state.transition_history[-1].reason) == (COMPLETE, "complete", "acted")
        assert "the person was told: In December" in await led.told()


async def test_lost_scent_leads_back_to_the_map_and_from_there_to_other_pages(tmp_path: Path) -> None:
    async with leading(AGENT, tmp_path) as led:
        await led.submit(**SOUGHT)
        state = await led.submit(evidence=[evidence("e1", WINTER)], missing=MISSING)
        assert (state.phase, state.visit, state.backward_trigger) == (ORIENT, 1, "missing_context")
        told = await led.told()
        assert "You come back to ORIENT" in told
        assert "Why: missing_context" in told
        assert f"Detail: {MISSING}" in told
        assert "evidence e1: It says so." in told
        assert AGENT.texts["orient"][:60] not in told
        assert any(isinstance(e, Thinking) and MISSING in e.text for e in await led.events())
        led.look.called = [call("kb_map")]
        assert (await led.submit(candidates=[place("c1", "notes")])).phase == TARGET
        led.look.called = [call("kb_read", GARDEN)]
        assert (await led.submit(pages=[place("p1", GARDEN)])).phase == DEEP_DIVE
        state = await led.state()
        assert state.visit == 2
        told = await led.told()
        assert "Look only for what was missing" in told
        assert "Pages now: p1 notes/garden.md" in told
        assert (await led.submit(evidence=[evidence("e2", FLOWERS)])).phase == REASON
        assert len(record_of(await led.state()).evidence) == 2


async def test_the_work_waits_for_the_person_and_goes_on_with_their_yes(tmp_path: Path) -> None:
    async with leading(AGENT, tmp_path) as led:
        await acting(led, "merge", BEES)
        led.look.called = [call("kb_merge", BEES, "proposed", proposal="x1")]
        led.look.fates["x1"] = PENDING
        state = await led.submit(acts=[deed("a1", "kb_merge", BEES, "x1")])
        assert (state.phase, state.status) == (ACT, "active")
        assert len(await led.missing()) == 1
        waits = "a1 (kb_merge notes/bees.md) waits for the person's decision about proposal x1: tell them, look with"
        assert (await led.missing())[0].startswith(waits)
        assert "act a1 kb_merge notes/bees.md, proposal x1" in done(state)
        assert (await led.submit()).phase == ACT
        led.look.fates["x1"] = Fate("kb_merge", "done", path=BEES)
        assert (await led.submit()).phase == MERGE
        says = merge_into_bees(led.look)
        state = await led.submit(pages=[now("m1", BEES, revision(led.look.texts[BEES]), says)])
        assert state.status == "complete"


async def test_a_refusal_leads_back_to_reasoning_with_the_persons_words(tmp_path: Path) -> None:
    async with leading(AGENT, tmp_path) as led:
        await acting(led, "merge", BEES)
        led.look.called = [call("kb_merge", BEES, "proposed", proposal="x1")]
        led.look.fates["x1"] = PENDING
        await led.submit(acts=[deed("a1", "kb_merge", BEES, "x1")])
        led.look.fates["x1"] = REFUSED
        state = await led.submit()
        assert (state.phase, state.visit, state.backward_trigger) == (REASON, 2, "human_rejected")
        told = await led.told()
        assert "Why: human_rejected" in told
        assert "say who measured it" in told
        assert "Chosen before: merge at notes/bees.md" in told
        led.look.called = []
        assert (await led.submit(conclusion="In December, says the page.")).phase == REASON
        assert "submit the act again" in (await led.missing())[0]
        assert (await led.submit(act=chosen("answer", why="the person only wants to know"))).phase == ACT
        told = await led.told()
        assert "Chosen now: answer: the person only wants to know" in told
        assert "a1 kb_merge notes/bees.md, proposal x1" in told
        assert (await led.submit(said="In December.")).phase == ACT
        assert "x1 was rejected: drop a1" in (await led.missing())[0]
        assert (await led.submit(drop=["a1"])).status == "complete"


async def test_a_signal_alone_moves_nothing_and_is_said_not_to_be_confirmed(tmp_path: Path) -> None:
    async with leading(AGENT, tmp_path) as led:
        await led.submit(**SOUGHT)
        led.look.scents[MISSING] = "sufficient"
        assert (await led.submit("missing_context", missing=MISSING)).phase == DEEP_DIVE
        assert (await led.missing())[0].startswith(
            "the signal missing_context is not confirmed: kb_search finds enough"
        )
        await led.submit(**DIVED)
        await led.submit(**reasoned("merge", BEES))
        state = await led.submit("human_rejected", "knowledge_changed", acts=[deed("a1", "kb_merge", BEES)])
        assert state.phase == ACT
        assert "the signal human_rejected is not confirmed" in (await led.missing())[0]
        assert "is no call of this visit" in (await led.missing())[1]


async def test_a_person_may_send_the_work_back_and_it_goes_on_from_there(tmp_path: Path) -> None:
    async with leading(AGENT, tmp_path) as led:
        await acting(led, "answer")
        await led.submit(said="In December.")
        state = await led.decide("revisit", "I meant the flowers", changes={"phase": ROUTE})
        assert (state.phase, state.visit) == (ROUTE, 2)
        told = await led.told()
        assert f"The question was: {ASKED}" in told
        assert "I meant the flowers" in told
        state = await led.submit(question="Which flowers feed bees?", mode="discovery", place=None)
        assert state.phase == DEEP_DIVE
        assert [e.text for e in await led.events() if isinstance(e, QuestionAdded)] == [
            ASKED,
            "Which flowers feed bees?",
        ]


async def test_work_of_another_form_is_refused_by_field_and_nothing_is_recorded(tmp_path: Path) -> None:
    async with leading(AGENT, tmp_path) as led:
        with pytest.raises(BadWork, match="mode"):
            await led.submit(question=ASKED, mode="guess")
        with pytest.raises(BadWork, match="must say something"):
            await led.submit(question="  ", mode="discovery")
        assert (await led.state()).version == 1
        await acting(led, "task")
        with pytest.raises(BadWork, match=re.escape("acts[a1].tool")):
            await led.submit(acts=[deed("a1", "kb_search")])


async def test_what_was_done_is_enough_for_another_host_to_go_on(tmp_path: Path) -> None:
    async with leading(AGENT, tmp_path) as led:
        state = await acting(led, "merge", BEES)
        assert list(done(state)) == [
            f"question: {ASKED}",
            "conclusion: In December. (rests on e1)",
            "chosen: merge at notes/bees.md: the page lacks it",
            "evidence e1: It says so. (notes/bees.md > Bees > Varroa)",
            "evidence e2: It says so. (notes/bees.md > Winter)",
        ]


# --- what it costs ----------------------------------------------------------------------------------------------------

LONG = "lengthy words about bees in the winter of the year before last " * 9
DEEP = "notes/" + "a-long-way-down/" * 20


PATHS = [f"{DEEP}{n}.md" for n in range(20)]
QUOTES = [{**WINTER, "path": path, "section": "Bees > Winter"} for path in PATHS]
PLACES = [{**place(f"c{n}", path), "why": LONG[:590]} for n, path in enumerate(PATHS)]
MUCH = [{**evidence(f"e{n}", quote), "says": LONG[:590]} for n, quote in enumerate(QUOTES)]
WRONG = [{**evidence(f"e{n}", {**quote, "quote": LONG}), "says": LONG[:590]} for n, quote in enumerate(QUOTES)]
MUCH_DONE = [deed(f"a{n}", "kb_merge", path, f"proposal-{n}") for n, path in enumerate(PATHS)]


def much() -> Pages:
    look = Pages()
    look.texts.update(dict.fromkeys(PATHS, look.texts[BEES]))
    return look


async def costly(led: Led, costs: dict[str, int], at: str, **work: Json) -> JourneyState:
    """Submit after a long word of a person, and note what it costs to resume then."""
    await led.decide("answer", LONG * 3)
    state = await led.submit(**work)
    costs[f"{at}, then {state.phase}"] = cost(await led.position())
    return state


async def test_looking_is_resumed_within_its_budget_however_much_is_on_record(tmp_path: Path) -> None:
    """The design, section 7: resuming a journey costs at most 2,500 tokens."""
    costs = dict[str, int]()
    async with leading(AGENT, tmp_path, look=(look := much()), brief=LONG * 30) as led:
        costs["ROUTE"] = cost(await led.position())
        await costly(led, costs, "ROUTE", question=LONG * 3, mode="navigation", place=PATHS[0])
        await costly(led, costs, "ORIENT", candidates=[{**one, "path": f"x{one['path']}"} for one in PLACES])
        look.called = [call("kb_map")]
        await costly(led, costs, "ORIENT", candidates=PLACES)
        await costly(led, costs, "TARGET", pages=PLACES)
        look.called = [call("kb_read", path) for path in PATHS]
        await costly(led, costs, "TARGET")
        state = await costly(led, costs, "DEEP_DIVE", evidence=WRONG, missing=LONG[:590])
        assert state.phase == ORIENT
        look.called = [call("kb_map"), *look.called]
        await costly(led, costs, "ORIENT again", candidates=PLACES)
        await costly(led, costs, "TARGET again")
        await costly(led, costs, "DEEP_DIVE again")
        assert (await costly(led, costs, "DEEP_DIVE again", evidence=MUCH)).phase == REASON
    assert max(costs.values()) <= ANSWER_TOKENS, costs


async def test_acting_is_resumed_within_its_budget_however_much_is_on_record(tmp_path: Path) -> None:
    """The design, section 7: resuming a journey costs at most 2,500 tokens."""
    costs = dict[str, int]()
    act = {"kind": "merge", "path": PATHS[0], "why": LONG[:590]}
    async with leading(AGENT, tmp_path, look=(look := much()), brief=LONG * 30) as led:
        await led.submit(question=LONG * 3, mode="discovery")
        await costly(led, costs, "DEEP_DIVE", evidence=MUCH)
        wrong = [f"x{n}" for n in range(20)]
        await costly(led, costs, "REASON", conclusion=LONG * 10, rests_on=wrong, act=act)
        assert (await costly(led, costs, "REASON", rests_on=[f"e{n}" for n in range(20)])).phase == ACT
        look.fates = {act["proposal"]: Fate("kb_merge", "pending", path=act["path"]) for act in MUCH_DONE}
        await costly(led, costs, "ACT", acts=MUCH_DONE)
        look.fates = {id_: Fate("kb_merge", "rejected", LONG * 5, fate.path) for id_, fate in look.fates.items()}
        assert (await costly(led, costs, "ACT", acts=MUCH_DONE)).phase == REASON
        await costly(led, costs, "REASON again")
        await costly(led, costs, "REASON again", act=act)
        await costly(led, costs, "ACT again")
        look.fates = {id_: Fate("kb_merge", "done", path=fate.path) for id_, fate in look.fates.items()}
        assert (await costly(led, costs, "ACT again")).phase == MERGE
        stale = [now(f"m{n}", path, "x" * 64, quote) for n, (path, quote) in enumerate(zip(PATHS, QUOTES, strict=True))]
        await costly(led, costs, "MERGE", pages=stale)
        await led.decide("revisit", LONG * 3, changes={"phase": ACT})
        costs["ACT by a person's word"] = cost(await led.position())
        assert (await costly(led, costs, "ACT by a person's word")).phase == MERGE
        await costly(led, costs, "MERGE again", pages=stale)
        fresh = [{**one, "revision": revision(look.texts[str(one["path"])])} for one in stale]
        assert (await costly(led, costs, "MERGE again", pages=fresh)).status == "complete"
    assert max(costs.values()) <= ANSWER_TOKENS, costs


# --- random walks -----------------------------------------------------------------------------------------------------


def seen() -> Pages:
    """Return a look at what happened in every visit: pages were read, acts carried out, proposals decided."""
    return Pages(
        called=[
            call("kb_map"),
            call("kb_read", BEES),
            call("kb_search", scent="sufficient"),
            call("zulip_send_message", status="done"),
        ],
        scents={MISSING: "partial", "what is there": "sufficient"},
        routes={"Where are the notes?": "navigation"},
        fates={
            "x-yes": Fate("kb_merge", "done", path=BEES),
            "x-no": REFUSED,
            "x-wait": PENDING,
            "x-over": Fate("kb_merge", "ended", path=BEES),
        },
    )


def good(state: JourneyState) -> Sequence[tuple[Work, tuple[str, ...]]]:
    """Return work that brings the journey on from where it stands, whatever was recorded."""
    record = record_of(state)
    gone = [item["id"] for items in (record.candidates, record.targets, record.acts) for item in items]
    if state.phase == ROUTE:
        return [(SOUGHT, ())]
    if state.phase == ORIENT:
        return [({**ORIENTED, "drop": gone}, ())]
    if state.phase == TARGET:
        return [({**TARGETED, "drop": gone}, ())]
    if state.phase == DEEP_DIVE:
        return [({**DIVED, "drop": [item["id"] for item in record.evidence]}, ())]
    if state.phase == REASON:
        there = [item["id"] for item in record.evidence]
        return [({**reasoned("message"), "rests_on": there}, ())]
    if state.phase == ACT:
        # Whatever was chosen: an answer, a message, and a merge that a person approved; a page that is gone cannot be deleted.
        merge = [deed("z1", "kb_merge", BEES, "x-yes")] if record.kind != "delete" else []
        acts = [*merge, deed("z2", "zulip_send_message")]
        return [({"acts": acts, "said": "So it is.", "drop": gone}, ())]
    return [({"pages": [now("m1", BEES, AT_BEES, WINTER)]}, ())]


def any_work(state: JourneyState) -> Sequence[tuple[Work, tuple[str, ...]]]:
    """Return what may be submitted in a state: good, half, wrong, and what leads back."""
    message = {"acts": [deed("a1", "zulip_send_message")], "said": "It is said.", "drop": ["z1", "a2", "a3"]}
    some: dict[str, Sequence[tuple[Work, tuple[str, ...]]]] = {
        ROUTE: [
            (ROUTED, ()),
            ({**SOUGHT, "question": "Where are the notes?"}, ()),
            ({**ROUTED, "place": "nowhere"}, ("known_place",)),
        ],
        ORIENT: [(ORIENTED, ()), ({"candidates": [place("c9", "nowhere")]}, ("oriented",)), ({"drop": ["c9"]}, ())],
        TARGET: [(TARGETED, ()), ({"pages": [place("p9", GARDEN)]}, ("targeted",)), ({"drop": ["p9", "p1"]}, ())],
        DEEP_DIVE: [
            (DIVED, ()),
            ({"missing": MISSING}, ("missing_context",)),
            ({**DIVED, "missing": "what is there"}, ("missing_context", "nonsense")),
            ({"evidence": [evidence("e9", ALTERED)]}, ()),
        ],
        REASON: [
            (reasoned("answer"), ()),
            (reasoned("merge", BEES), ()),
            (reasoned("delete", "nowhere.md"), ("act_chosen",)),
            ({"act": None}, ()),
        ],
        ACT: [
            ({"acts": [deed("a2", "kb_merge", BEES, "x-yes")]}, ()),
            ({"acts": [deed("a2", "kb_merge", BEES, "x-no")]}, ("human_rejected",)),
            ({"acts": [deed("a2", "kb_merge", BEES, "x-wait")]}, ("knowledge_changed",)),
            ({"acts": [deed("a3", "kb_delete", BEES)], "said": "Gone."}, ()),
            (message, ()),
        ],
        MERGE: [
            ({"pages": [now("m1", BEES, AT_BEES, ALTERED)]}, ()),
            ({"pages": [now("m1", BEES, AT_GARDEN, WINTER)]}, ("merged",)),
        ],
    }
    return [*some[state.phase], *good(state)]


CHOICES = st.lists(st.integers(0, 2**16), max_size=25)


@settings(max_examples=25, deadline=None)
@given(CHOICES)
def test_no_walk_leaves_the_table_or_is_stuck(choices: list[int]) -> None:
    asyncio.run(walk(AGENT, choices, any_work, good, look=seen()))


def test_walks_take_every_way_of_the_table() -> None:
    """Walks that never went back would prove little."""
    wanted, taken = {t.condition for t in AGENT.graph.transitions}, set[str]()
    for seed in range(60):
        steps = [seed * 7919 * (n + 1) // 3 for n in range(30)]
        taken |= set(asyncio.run(walk(AGENT, steps, any_work, good, look=seen())))
        if wanted <= taken:
            break
    assert wanted <= taken


@pytest.mark.external
@settings(max_examples=10_000, deadline=None)
@given(CHOICES)
def test_ten_thousand_walks_never_leave_the_table_and_are_never_stuck(choices: list[int]) -> None:
    """Issue 6: 10,000 random walks an agent, never outside the table, never without a move."""
    asyncio.run(walk(AGENT, choices, any_work, good, look=seen()))
