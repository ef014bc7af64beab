"""Curate, for a few lines of one page: read first, decided by the gate and checked on the page, without collecting evidence."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from agents.engine.agent import Called, Fate
from agents.engine.events import Json, PhaseChanged, WorkRecorded
from agents.engine.runner import Submission
from agents.library.curate.conditions import MOST_LINES
from agents.library.curate.record import ACT, COMPLETE, MERGE, REASON, ROUTE
from agents.library.folder import agent
from agents.store.ports import Appended
from tests.support.agents.agent_harness import Led, Pages, Remembering, judged, lacks, leading, nobody, revision
from tests.support.agents.curate_works import BEES, DIVED, GARDEN, PENDING, REFUSED, SOUGHT, call, deed, now, reasoned
from tests.support.journeys.graphs import ADA

AGENT = agent("curate")
LINE = "We treat again in August."
WISH: Mapping[str, Json] = {"question": "Say that mites are treated in August too.", "mode": "change", "place": BEES}
READ = call("kb_read", BEES)


def merge(status: str = "done", lines: int = 2, path: str = BEES, **more: str) -> Called:
    return call("kb_merge", path, status, lines=str(lines), **more)


def checked(look: Pages) -> list[dict[str, Json]]:
    """Write the line into the page, and return the check of it."""
    look.texts[BEES] += f"\n{LINE}\n"
    says = {"path": BEES, "section": "Counting mites", "quote": LINE}
    return [now("m1", BEES, revision(look.texts[BEES]), says)]


async def together(led: Led, pages: Sequence[Json], **act: Json) -> str:
    """Submit the three works of a small change at once, and return the phase that they lead to."""
    acts = [deed("a1", "kb_merge", BEES) | act]
    return (await led.submit(**{ROUTE: WISH, ACT: {"acts": acts}, MERGE: {"pages": list(pages)}})).phase


async def test_a_small_change_is_recorded_step_by_step_and_complete_after_one_submission() -> None:
    async with leading(AGENT) as led:
        led.look.called = [READ, merge("analysis"), merge()]
        assert await together(led, checked(led.look)) == COMPLETE
        events = await led.events()
    assert [e.phase for e in events if isinstance(e, WorkRecorded)] == [ROUTE, ACT, MERGE]
    assert [e.reason for e in events if isinstance(e, PhaseChanged)] == ["small_change", "knowledge_changed", "merged"]


@pytest.mark.parametrize(
    ("work", "called", "said"),
    [
        (WISH, [], "notes/bees.md was not read in this journey"),
        (WISH, [call("kb_read", GARDEN), merge()], "notes/bees.md was not read in this journey"),
        (WISH, [merge(), READ], "was changed before it was read"),
        ({**WISH, "place": "notes"}, [READ], "needs one existing page"),
        ({**WISH, "place": "nowhere.md"}, [READ], "needs one existing page"),
        ({**WISH, "place": None}, [READ], "needs one existing page"),
    ],
)
async def test_a_page_is_read_before_a_small_change(work: Mapping[str, Json], called: list[Called], said: str) -> None:
    """The founding documents: the agent must retrieve the current state of a file before it writes."""
    assert lacks(await judged(AGENT, "small_change", ROUTE, work, Pages(called=called)), said)
    for other in ("known_place", "unknown_place"):
        assert not (await judged(AGENT, other, ROUTE, work, Pages(called=called))).met


@pytest.mark.parametrize("called", [[READ], [READ, merge()], [merge(), READ, merge("unchanged")]])
async def test_a_small_change_may_be_routed_before_or_after_it_is_made(called: list[Called]) -> None:
    assert (await judged(AGENT, "small_change", ROUTE, WISH, Pages(called=called))).met


@pytest.mark.parametrize("mode", ["navigation", "discovery"])
async def test_a_change_made_while_routing_is_not_left_unchecked(mode: str) -> None:
    work = {**WISH, "mode": mode}
    for status in ("done", "partial", "proposed"):
        found = [
            await judged(AGENT, name, ROUTE, work, Pages(called=[READ, merge(status)]))
            for name in ("known_place", "unknown_place")
        ]
        assert any(lacks(one, "submit mode `change` for it") for one in found)
        assert not any(one.met for one in found)
    assert (await judged(AGENT, "known_place", ROUTE, work, Pages(called=[READ, merge("analysis")]))).met


@pytest.mark.parametrize(
    ("acts", "called", "said"),
    [
        ([deed("a1", "kb_merge", BEES)], [READ], "is no call of this visit"),
        ([], [READ, merge()], "kb_merge changed notes/bees.md: name that in an act, too"),
        ([deed("a1", "kb_merge", GARDEN)], [READ, merge(path=GARDEN)], "the chosen act is merge at notes/bees.md"),
        ([deed("a1", "kb_merge", BEES)], [READ, merge(), merge(path=GARDEN)], "kb_merge changed notes/garden.md"),
        ([deed("a1", "kb_merge", BEES)], [READ, merge("proposed", proposal="x1")], "became proposal x1"),
    ],
)
async def test_the_act_of_a_small_change_is_the_one_on_record(
    acts: list[Json], called: list[Called], said: str
) -> None:
    look = Pages(called=called, fates={"x1": PENDING})
    assert lacks(await judged(AGENT, "knowledge_changed", ACT, {"acts": acts}, look, works={ROUTE: WISH}), said)
    for other in ("acted", "small_change_fails"):
        assert not (await judged(AGENT, other, ACT, {"acts": acts, "said": "Done."}, look, works={ROUTE: WISH})).met


async def test_a_small_change_ends_only_with_what_the_page_says_now() -> None:
    async with leading(AGENT) as led:
        led.look.called = [READ, merge()]
        pages = checked(led.look)
        assert await together(led, [{**pages[0], "revision": "0" * 16}]) == MERGE
        assert "that is not the present revision" in (await led.missing())[0]
        assert (await led.submit(pages=pages)).phase == COMPLETE


async def test_a_change_that_is_not_small_needs_evidence_and_is_then_checked() -> None:
    async with leading(AGENT) as led:
        led.look.called = [READ, merge(lines=MOST_LINES + 1)]
        pages = checked(led.look)
        assert await together(led, pages) == ROUTE
        told = await led.told()
        assert "Why: small_change_fails" in told
        assert f"was changed in {MOST_LINES + 1} lines" in told
        led.look.called_before, led.look.called = led.look.called, []
        await led.submit(**SOUGHT)
        assert (await led.submit(**DIVED)).phase == REASON
        assert (await led.submit(**reasoned("merge", BEES))).phase == ACT
        led.look.called = [merge("unchanged", 0)]
        assert (await led.submit(acts=[deed("a1", "kb_merge", BEES)])).phase == MERGE
        assert (await led.submit(pages=pages)).phase == COMPLETE


class _ShortLived(Remembering):
    """A store whose process dies instead of recording one step."""

    dies_after = 0

    async def append(self, *given: Any, **more: Any) -> Appended:
        self.dies_after -= 1
        if self.dies_after == -1:
            raise ConnectionError
        return await super().append(*given, **more)


@pytest.mark.parametrize("steps", [0, 1, 2])
async def test_a_crash_after_any_step_leaves_whole_steps_and_the_same_call_ends_the_change(steps: int) -> None:
    """The guarantees of the long way: each step is on record before the next, and a lost call is repeated as it was."""
    store = _ShortLived(nobody)
    async with leading(AGENT, store=store) as led:
        led.look.called = [READ, merge()]
        acts = {"acts": [deed("a1", "kb_merge", BEES)]}
        submission = Submission({ROUTE: WISH, ACT: acts, MERGE: {"pages": checked(led.look)}})
        store.dies_after = steps
        with pytest.raises(ConnectionError):
            await led.runner.submit(led.journey, 1, submission, by=ADA)
        assert (await led.state()).version == 1 + steps
        assert (await led.runner.submit(led.journey, 1, submission, by=ADA)).state.status == "complete"
        events = await led.events()
    assert [e.phase for e in events if isinstance(e, WorkRecorded)] == [ROUTE, ACT, MERGE]


async def test_a_rejected_small_change_can_be_made_differently() -> None:
    async with leading(AGENT) as led:
        led.look.called = [READ, merge("proposed", proposal="x1")]
        led.look.fates["x1"] = PENDING
        assert await together(led, (), proposal="x1") == ACT
        assert "waits for the person's decision about proposal x1" in (await led.missing())[0]
        led.look.fates["x1"] = REFUSED
        assert (await led.submit()).phase == ROUTE
        assert "say who measured it" in await led.told()
        led.look.called_before, led.look.called = led.look.called, [READ, merge("proposed", proposal="x2")]
        led.look.fates["x2"] = Fate("kb_merge", "done", path=BEES)
        acts = [deed("a2", "kb_merge", BEES, "x2")]
        await led.submit(**{ROUTE: {}, ACT: {"drop": ["a1"], "acts": acts}, MERGE: {"pages": checked(led.look)}})
        assert (await led.state()).status == "complete"
