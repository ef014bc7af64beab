"""Curate: the cost of resuming, and random walks."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agents.engine.agent import Fate
from agents.engine.events import Json
from agents.engine.state import JourneyState
from agents.library.curate.record import ACT, DEEP_DIVE, MERGE, ORIENT, REASON, ROUTE, TARGET, CurationRecord
from agents.library.folder import agent
from tests.support.agents.agent_harness import (
    ALTERED,
    ANSWER_TOKENS,
    WINTER,
    Led,
    Pages,
    cost,
    leading,
    revision,
    walk,
    ways_not_taken,
)
from tests.support.agents.curate_works import (
    AT_BEES,
    AT_GARDEN,
    BEES,
    DIVED,
    GARDEN,
    MISSING,
    ORIENTED,
    PENDING,
    REFUSED,
    ROUTED,
    SOUGHT,
    TARGETED,
    Work,
    call,
    deed,
    evidence,
    now,
    place,
    reasoned,
)

AGENT = agent("curate")

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
    """Submit after a person's long note, and record the cost of resuming then."""
    await led.decide("answer", LONG * 3)
    state = await led.submit(**work)
    costs[f"{at}, then {state.phase}"] = cost(await led.position())
    return state


async def test_looking_is_resumed_within_its_budget_however_much_is_on_record() -> None:
    """The design, section 7: resuming a journey costs at most 2,500 tokens."""
    costs = dict[str, int]()
    async with leading(AGENT, look=(look := much()), brief=LONG * 30) as led:
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


async def test_acting_is_resumed_within_its_budget_however_much_is_on_record() -> None:
    """The design, section 7: resuming a journey costs at most 2,500 tokens."""
    costs = dict[str, int]()
    act = {"kind": "merge", "path": PATHS[0], "why": LONG[:590]}
    async with leading(AGENT, look=(look := much()), brief=LONG * 30) as led:
        await led.submit(question=LONG * 3, mode="discovery")
        await costly(led, costs, "DEEP_DIVE", evidence=MUCH)
        wrong = [f"x{n}" for n in range(20)]
        await costly(led, costs, "REASON", conclusion="The bees live. " + LONG * 10, rests_on=wrong, act=act)
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
    """Return a look-up with the events of every visit: pages read, acts executed, proposals decided."""
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
    """Return work that leads the journey on from its present state, whatever was recorded."""
    record = CurationRecord(state.works)
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
        return [({"acts": acts, "said": "The mites are treated in December.", "drop": gone}, ())]
    return [({"pages": [now("m1", BEES, AT_BEES, WINTER)]}, ())]


def any_work(state: JourneyState) -> Sequence[tuple[Work, tuple[str, ...]]]:
    """Return what may be submitted in a state: good, half, wrong, and what leads back."""
    message = {
        "acts": [deed("a1", "zulip_send_message")],
        "said": "The channel was told of the mites.",
        "drop": ["z1", "a2", "a3"],
    }
    some: dict[str, Sequence[tuple[Work, tuple[str, ...]]]] = {
        ROUTE: [
            (ROUTED, ()),
            ({**SOUGHT, "question": "Where are the notes?"}, ()),
            ({**ROUTED, "place": "nowhere"}, ("known_place",)),
            ({**ROUTED, "mode": "change", "place": BEES}, ()),
            ({**ROUTED, "mode": "change"}, ("small_change",)),
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
            ({"acts": [deed("a3", "kb_delete", BEES)], "said": "The page on bees is deleted."}, ()),
            (message, ()),
        ],
        MERGE: [
            ({"pages": [now("m1", BEES, AT_BEES, ALTERED)]}, ()),
            ({"pages": [now("m1", BEES, AT_GARDEN, WINTER)]}, ("merged",)),
        ],
    }
    return [*some[state.phase], *good(state)]


CHOICES = st.lists(st.integers(0, 2**16), max_size=25)


@settings(max_examples=12)
@given(CHOICES)
def test_no_walk_leaves_the_table_or_is_stuck(choices: list[int]) -> None:
    asyncio.run(walk(AGENT, choices, any_work, good, look=seen()))


def test_walks_take_every_way_of_the_table() -> None:
    """Walks that never went back would prove little."""
    assert not asyncio.run(ways_not_taken(AGENT, any_work, good, walks=60, look=seen))


@pytest.mark.slow
@settings(max_examples=10_000)
@given(CHOICES)
def test_ten_thousand_walks_never_leave_the_table_and_are_never_stuck(choices: list[int]) -> None:
    """10,000 random walks an agent, never outside the table, never without a move."""
    asyncio.run(walk(AGENT, choices, any_work, good, look=seen()))
