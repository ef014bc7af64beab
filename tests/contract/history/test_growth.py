"""How the knowledge base grew, from the histories of its pages, on every engine of the state."""

from __future__ import annotations

from datetime import date, timedelta

import pytest

from knowledge.history.ports import FileChange, Ledger
from knowledge.history.timeline.growth import Growth, GrowthDay
from knowledge.state.ports import StateStore
from tests.support.state.ledgers import DAY, NOW, change, entry, intent

TODAY = NOW.date()


@pytest.fixture
def ledger(store: StateStore) -> Ledger:
    return store.ledger


async def act(ledger: Ledger, day: int, *changes: FileChange, contents: tuple[bytes, ...] = ()) -> None:
    """Commit an act `day` days after `NOW`."""
    at, name = NOW + day * DAY, f"{day}:{changes}"
    await ledger.intend(intent(name, *changes, at=at), list(contents))
    await ledger.commit(entry(*changes, at=at), intent_id=name)


def day(number: int, pages: int, size: int) -> GrowthDay:
    return GrowthDay(TODAY + timedelta(days=number), pages, size)


async def test_without_a_history_there_are_no_days(ledger: Ledger) -> None:
    await ledger.keep("a.md", b"seen", how="seen", at=NOW)
    assert await Growth(ledger).days(pages=7, size=70, now=NOW) == []


async def test_a_history_of_one_day_has_the_day_before_it(ledger: Ledger) -> None:
    await act(ledger, 0, change("a.md", None, b"12345"), contents=(b"12345",))
    assert await Growth(ledger).days(pages=3, size=25, now=NOW) == [day(-1, 2, 20), day(0, 3, 25)]


async def test_days_are_counted_back_from_now_over_a_year_with_edits_moves_and_removals(ledger: Ledger) -> None:
    growth = Growth(ledger)
    await act(ledger, 0, change("a.md", None, b"12345"), contents=(b"12345",))
    await act(ledger, 10, change("a.md", b"12345", b"12345678"), contents=(b"12345", b"12345678"))
    moved = (change("a.md", b"12345678", None), change("b.md", None, b"12345678", moved_from="a.md"))
    await act(ledger, 20, *moved, contents=(b"12345678",))
    assert await growth.days(pages=1, size=8, now=NOW + 20 * DAY) == [
        day(-1, 0, 0),
        day(0, 1, 5),
        day(10, 1, 8),
        day(20, 1, 8),
    ]
    await act(ledger, 365, change("b.md", b"12345678", None), contents=(b"12345678",))
    found = await growth.days(pages=0, size=0, now=NOW + 366 * DAY)
    assert found[-3:] == [day(20, 1, 8), day(365, 0, 0), day(366, 0, 0)], "only new lines are read again"


async def test_a_page_that_was_found_outside_counts_from_the_beginning(ledger: Ledger) -> None:
    """When it was made is not known: a plot must not show it as new."""
    await act(ledger, 0, change("a.md", None, b"123"), contents=(b"123",))
    await ledger.keep("old.md", b"12345", how="outside", at=NOW + DAY)
    await ledger.keep("old.md", b"1234567", how="outside", at=NOW + 2 * DAY)
    found = await Growth(ledger).days(pages=2, size=10, now=NOW + 2 * DAY)
    assert found == [day(-1, 1, 5), day(0, 2, 8), day(1, 2, 8), day(2, 2, 10)]


async def test_a_history_that_does_not_fit_the_files_never_counts_below_nothing(ledger: Ledger) -> None:
    """Somebody may have deleted a folder outside the server a moment ago."""
    for number in range(3):
        raw = bytes([number]) * 10
        await act(ledger, number, change(f"{number}.md", None, raw), contents=(raw,))
    found = await Growth(ledger).days(pages=1, size=10, now=NOW + 2 * DAY)
    assert min(one.pages for one in found) == 0
    assert min(one.size for one in found) == 0
    assert isinstance(found[0].day, date)
