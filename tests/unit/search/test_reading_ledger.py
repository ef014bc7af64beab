"""The reading ledger over the memory store: what is recorded, and when a caller is nudged."""

from __future__ import annotations

from collections.abc import Collection
from datetime import UTC, datetime, timedelta

import anyio
import anyio.lowlevel
import pytest

from knowledge.errors import DatabaseUnavailable
from knowledge.pages.map_view import MapEntry
from knowledge.search.answers import Hit, IndexCoverage, MapView, QuestionRoute, Scent, SearchAnswer
from knowledge.search.reading_ledger import Reader, ReadingLedger
from knowledge.state.ports import ReadingMark
from tests.support.state.memory.state import MemoryStateStore

ADA = Reader("ada@desktop")


class Clock:
    def __init__(self) -> None:
        self.now = datetime(2026, 3, 1, tzinfo=UTC)

    def __call__(self) -> datetime:
        return self.now

    def pass_by(self, minutes: int) -> None:
        self.now += timedelta(minutes=minutes)


def hit(path: str) -> Hit:
    return Hit(path, "A", "T", "...", 1.0, 1, 2, "r", "2026-03-01T00:00:00Z", "user", 0.8, tainted=False)


def answer(*paths: str) -> SearchAnswer:
    scent = Scent("partial", "", "")
    return SearchAnswer(
        [],
        [hit(path) for path in paths],
        QuestionRoute("discovery", 1, ""),
        scent,
        None,
        None,
        IndexCoverage(1, 1),
        None,
    )


def view(path: str, *children: str) -> MapView:
    entries = [MapEntry(p.rpartition("/")[2], p, p, "document", "", 1, None) for p in children]
    return MapView(path, "T", "", derived=True, children=entries, count=1, modified=None, truncated=False)


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def state() -> MemoryStateStore:
    return MemoryStateStore()


@pytest.fixture
def ledger(state: MemoryStateStore, clock: Clock) -> ReadingLedger:
    return ReadingLedger(state, clock)


async def test_who_searches_a_place_unseen_is_told_its_map_once_an_hour(ledger: ReadingLedger, clock: Clock) -> None:
    """Design, section 4."""
    first = await ledger.searched(ADA, "guides", answer())
    assert first is not None
    assert "kb_map('guides')" in first
    clock.pass_by(minutes=59)
    assert await ledger.searched(ADA, "guides", answer()) is None
    clock.pass_by(minutes=1)
    assert await ledger.searched(ADA, "guides", answer()) == first


async def test_who_has_seen_the_map_is_not_nudged_there_but_elsewhere(ledger: ReadingLedger) -> None:
    await ledger.saw_map(ADA, view("guides", "guides/a.md"))
    assert await ledger.searched(ADA, "guides", answer()) is None
    assert "kb_map('')" in (await ledger.searched(ADA, "", answer()) or "")
    assert await ledger.searched(Reader("bob@desktop"), "guides", answer()) is not None
    assert await ledger.searched(Reader("ada@desktop", "journey-1"), "guides", answer()) is not None


async def test_a_map_of_two_levels_counts_for_the_directories_it_opened(ledger: ReadingLedger) -> None:
    await ledger.saw_map(ADA, view("", "guides", "guides/deep/a.md"))
    assert await ledger.searched(ADA, "guides/deep", answer()) is None
    assert await ledger.searched(ADA, "guides", answer()) is not None


async def test_a_search_in_one_page_lacks_no_map(ledger: ReadingLedger) -> None:
    assert await ledger.searched(ADA, None, answer("a.md")) is None


async def test_what_a_search_showed_is_noted_with_its_circle_and_time(
    ledger: ReadingLedger, state: MemoryStateStore, clock: Clock
) -> None:
    await ledger.searched(ADA, "guides", answer("guides/a.md", "guides/a.md"))
    assert await state.looks("ada@desktop", "", ["guides", "guides/a.md"]) == {
        ReadingMark("guides", "search"): clock.now,
        ReadingMark("guides/a.md", "search"): clock.now,
    }


async def test_looking_again_within_a_minute_writes_nothing(clock: Clock) -> None:
    written: list[ReadingMark] = []

    class Counting(MemoryStateStore):
        async def note_looks(
            self, principal: str, journey: str, looks: Collection[ReadingMark], *, at: datetime
        ) -> None:
            written.extend(looks)
            await super().note_looks(principal, journey, looks, at=at)

    ledger = ReadingLedger(Counting(), clock)
    for minutes in (0, 0, 1):
        clock.pass_by(minutes)
        await ledger.saw_map(ADA, view("guides"))
    assert written == [ReadingMark("guides", "map")] * 2


async def test_what_searches_showed_is_written_a_moment_later_and_at_the_end(
    ledger: ReadingLedger, state: MemoryStateStore
) -> None:
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(ledger.run)
        await anyio.lowlevel.checkpoint()
        await ledger.searched(ADA, None, answer("a.md"))
        assert not await state.looks("ada@desktop", "", ["a.md"])
        with anyio.fail_after(60):
            while not await state.looks("ada@desktop", "", ["a.md"]):  # noqa: ASYNC110 - a ledger tells nobody
                await anyio.sleep(0.01)
        await ledger.searched(ADA, None, answer("b.md"))
        tasks.cancel_scope.cancel()
    assert await state.looks("ada@desktop", "", ["b.md"])


async def test_a_settled_nudge_asks_the_database_no_more(clock: Clock) -> None:
    asked = 0

    class Counting(MemoryStateStore):
        async def give_nudge(self, principal: str, journey: str, path: str, *, now: datetime, quiet_s: float) -> bool:
            nonlocal asked
            asked += 1
            return await super().give_nudge(principal, journey, path, now=now, quiet_s=quiet_s)

    ledger = ReadingLedger(Counting(), clock)
    given = []
    for minutes in (0, 1, 58, 1):
        clock.pass_by(minutes)
        given.append(await ledger.searched(ADA, "guides", answer()) is not None)
    assert given == [True, False, False, True]
    assert asked == 2


async def test_a_database_that_is_away_costs_the_nudge_and_not_the_answer(clock: Clock) -> None:
    class Away(MemoryStateStore):
        async def looks(self, principal: str, journey: str, paths: Collection[str]) -> dict[ReadingMark, datetime]:
            raise DatabaseUnavailable("state.db", f"locked for {principal}{journey}{len(paths)}")

    assert await ReadingLedger(Away(), clock).searched(ADA, "guides", answer("guides/a.md")) is None
