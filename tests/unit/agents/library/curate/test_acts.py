"""Curate, once it acts: the server's record decides what is done, refused and verified."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from agents.engine.agent import Fate
from agents.engine.events import Json
from agents.library.curate.record import ACT, MERGE, REASON
from agents.library.folder import agent
from tests.support.agents.agent_harness import ALTERED, ELSEWHERE, TOOLS, VARROA, WATER, WINTER, Pages, judged, lacks
from tests.support.agents.curate_works import (
    AT_BEES,
    AT_GARDEN,
    BEES,
    FOUND,
    GARDEN,
    MERGED_BEES,
    PENDING,
    REFUSED,
    Work,
    call,
    deciding,
    deed,
    now,
    reasoned,
)

AGENT = agent("curate")

# --- ACT --------------------------------------------------------------------------------------------------------------


async def test_an_act_that_no_listed_tool_can_do_is_not_chosen() -> None:
    """If Plane or Zulip is not configured, the work must not end up waiting for an act that nobody can execute."""
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


@pytest.mark.parametrize(
    ("acts", "look", "said"),
    [
        ([], Pages(), "the chosen act is merge at notes/bees.md, but none in `acts` carries it out: use kb_merge"),
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
            "ended without effect",
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
            "the chosen act is merge at notes/bees.md",
        ),
        (
            [deed("a1", "zulip_send_message")],
            Pages(called=[call("zulip_send_message", status="done")]),
            "the chosen act is merge",
        ),
        (
            [deed("a1", "kb_merge", BEES), deed("a2", "zulip_react")],
            Pages(called=[MERGED_BEES]),
            "a2 (zulip_react) is no call",
        ),
    ],
)
async def test_a_claim_alone_does_not_change_knowledge(acts: list[Json], look: Pages, said: str) -> None:
    works = deciding("merge", BEES)
    assert lacks(await judged(AGENT, "knowledge_changed", ACT, {"acts": acts}, look, works=works), said)
    assert not (await judged(AGENT, "acted", ACT, {"acts": acts}, look, works=works)).met


async def test_a_move_that_was_approved_is_about_the_new_path() -> None:
    """The proposal names the page as it was; its present text has to be verified later."""
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
async def test_an_act_that_changes_no_knowledge_is_done_once_the_server_has_recorded_it(
    kind: str, work: Work, look: Pages
) -> None:
    works = deciding(kind, BEES if kind == "merge" else None)
    assert (await judged(AGENT, "acted", ACT, work, look, works=works)).met
    assert not (await judged(AGENT, "knowledge_changed", ACT, work, look, works=works)).met


@pytest.mark.parametrize(
    ("kind", "work", "look", "said"),
    [
        ("answer", {}, Pages(), "`said` is empty"),
        ("answer", {"said": " "}, Pages(), "`said` is empty"),
        ("answer", {"said": "Done.", "acts": [deed("a1", "zulip_react")]}, Pages(), "a1 (zulip_react) is no call"),
        ("answer", {"said": "Done."}, Pages(called=[MERGED_BEES]), "kb_merge changed notes/bees.md"),
        ("task", {"said": "I made a task."}, Pages(), "the chosen act is task, but none in `acts` carries it out"),
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
            "the chosen act is task",
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
async def test_a_claim_alone_does_nothing(kind: str, work: Work, look: Pages, said: str) -> None:
    assert lacks(await judged(AGENT, "acted", ACT, work, look, works=deciding(kind)), said)
    assert not (await judged(AGENT, "knowledge_changed", ACT, work, look, works=deciding(kind))).met


async def test_if_the_page_is_gone_before_the_act_the_person_learns_it() -> None:
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


async def test_a_person_rejected_the_works_proposal() -> None:
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
async def test_only_a_present_rejection_counts(work: Work, works: Mapping[str, Work], look: Pages) -> None:
    found = await judged(AGENT, "human_rejected", ACT, work, look, works={**deciding("merge", BEES), **works})
    assert lacks(found, "no proposal named in `acts` was rejected")


async def test_a_rejected_proposal_must_be_dropped_before_the_work_continues() -> None:
    works = {**deciding("merge", BEES), ACT: {"acts": [deed("a1", "kb_merge", BEES, "x1")]}}
    look = Pages(called=[MERGED_BEES], fates={"x1": REFUSED})
    again: Work = {"acts": [deed("a2", "kb_merge", BEES)]}
    assert lacks(await judged(AGENT, "knowledge_changed", ACT, again, look, works=works), "x1 was rejected: drop a1")
    assert (await judged(AGENT, "knowledge_changed", ACT, {**again, "drop": ["a1"]}, look, works=works)).met


# --- MERGE ------------------------------------------------------------------------------------------------------------


def ended(*acts: Work) -> Mapping[str, Work]:
    return {**deciding("merge", BEES), ACT: {"acts": [dict(act) for act in acts]}}


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
async def test_pages_as_expected_are_verified(pages: list[Json], acts: list[Work]) -> None:
    assert (await judged(AGENT, "merged", MERGE, {"pages": pages}, works=ended(*acts))).met


@pytest.mark.parametrize(
    ("pages", "acts", "said"),
    [
        ([], [deed("a1", "kb_merge", BEES)], "notes/bees.md was changed and is not in `pages`"),
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
        ([now("m1", BEES, AT_BEES)], [deed("a1", "kb_merge", BEES)], "m1: quote in `says` what notes/bees.md says now"),
        (
            [now("m1", BEES, AT_BEES, WATER)],
            [deed("a1", "kb_merge", BEES)],
            "m1: quote in `says` what notes/bees.md says now",
        ),
        (
            [now("m1", BEES, AT_BEES, ALTERED)],
            [deed("a1", "kb_merge", BEES)],
            "pages[m1].says: the quote is not in",
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
async def test_pages_not_as_expected_are_named(pages: list[Json], acts: list[Work], said: str) -> None:
    assert lacks(await judged(AGENT, "merged", MERGE, {"pages": pages}, works=ended(*acts)), said)
