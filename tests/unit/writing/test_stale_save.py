"""From which state of a page a save was made."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from itertools import pairwise
from random import Random

import anyio
import pytest
from hypothesis import given
from hypothesis import strategies as st

from knowledge.history.ports import Ledger, Revision
from knowledge.writing.files.stale_save import NEAR, STALE_S, Lineage, distance, lines_of
from tests.support.state.ledgers import change, entry, intent
from tests.support.state.memory.ledger import MemoryLedger

PAGE = "a.md"
START = datetime(2026, 3, 1, tzinfo=UTC)
LINES = st.lists(st.sampled_from([b"a", b"b", b"c", b"", b"d  "]), max_size=8).map(b"\n".join)


async def written(states: list[bytes]) -> Ledger:
    """Return a ledger in which the page was written to each of these states, a second apart."""
    ledger = MemoryLedger(lambda _topic, _paths: None)
    for number, (before, after) in enumerate(pairwise(states)):
        at = START + timedelta(seconds=number)
        made = change(PAGE, before, after)
        await ledger.intend(intent(f"{number}", made, at=at), [before, after])
        await ledger.commit(entry(made, at=at), intent_id=f"{number}")
    return ledger


async def history_of(ledger: Ledger) -> list[Revision]:
    return list(await ledger.history(PAGE, limit=NEAR))


def growing(count: int, seed: int) -> list[bytes]:
    """Return states of a page, each with one more line than the previous one, somewhere."""
    chance, lines = Random(seed), [b"line %d" % number for number in range(5)]  # noqa: S311  places, not secrets
    states = [b"\n".join(lines)]
    for number in range(count):
        lines.insert(chance.randrange(len(lines) + 1), b"ours %d" % number)
        states.append(b"\n".join(lines))
    return states


@given(LINES, LINES, LINES)
def test_distance_is_one(a: bytes, b: bytes, c: bytes) -> None:
    """Nothing is nearer to a state than itself, both directions are equally long, and no detour is shorter."""
    x, y, z = lines_of(a), lines_of(b), lines_of(c)
    assert distance(x, x) == 0
    assert distance(x, y) == distance(y, x)
    assert distance(x, z) <= distance(x, y) + distance(y, z)


def test_line_ends_and_blanks_at_them_tell_nothing() -> None:
    assert distance(lines_of(b"a\r\n\r\nb  \r\n"), lines_of(b"a\nb")) == 0


@given(st.integers(1, 60), st.data())
def test_a_save_is_recognised_by_what_it_lacks_however_far_back_it_was_read(count: int, data: st.DataObject) -> None:
    states = growing(count, seed=count)
    read = data.draw(st.integers(0, count))
    own = b"\n".join([states[read], *(b"by hand %d" % number for number in range(data.draw(st.integers(0, 4))))])

    async def check() -> None:
        ledger = await written(states)
        history = await history_of(ledger)
        stale = await Lineage(ledger).stale(PAGE, own, history[0].at, history)
        if read == count:
            assert stale is None
        else:
            assert stale is not None
            assert (stale.read, stale.newest) == (states[read], states[-1])

    anyio.run(check)


@pytest.mark.parametrize(("late_s", "is_stale"), [(-STALE_S - 1, False), (-1, True), (1, True), (STALE_S + 1, False)])
async def test_only_a_save_that_is_close_to_our_write_is_stale(late_s: float, is_stale: bool) -> None:  # noqa: FBT001  a column of a table
    states = growing(3, seed=0)
    ledger = await written(states)
    history = await history_of(ledger)
    saved_at = history[0].at + timedelta(seconds=late_s)
    assert (await Lineage(ledger).stale(PAGE, states[1] + b"\nby hand", saved_at, history) is not None) == is_stale


async def test_a_save_made_from_another_stale_save_is_stale_too() -> None:
    """The editor continued before anyone could repair its save."""
    states = growing(3, seed=0)
    ledger = await written(states)
    first = states[1] + b"\nby hand 1"
    await ledger.keep(PAGE, first, how="outside", at=START + timedelta(seconds=3))
    history = await history_of(ledger)
    stale = await Lineage(ledger).stale(PAGE, first + b"\nby hand 2", START + timedelta(seconds=3), history)
    assert stale is not None
    assert (stale.read, stale.newest) == (states[1], states[3])


async def test_a_page_rewritten_by_hand_comes_from_no_state() -> None:
    ledger = await written(growing(3, seed=0))
    history = await history_of(ledger)
    for raw in (b"", b"\n\n", b"something\nelse\naltogether"):
        assert await Lineage(ledger).stale(PAGE, raw, history[0].at, history) is None


async def test_a_page_that_we_never_wrote_has_no_stale_saves() -> None:
    ledger = MemoryLedger(lambda _topic, _paths: None)
    await ledger.keep(PAGE, b"a", how="outside", at=START)
    assert await Lineage(ledger).stale(PAGE, b"a\nb", START, await history_of(ledger)) is None


async def test_the_memory_of_pages_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("knowledge.writing.files.stale_save.MOST_COUNTED", 5)
    states = growing(20, seed=0)
    ledger = await written(states)
    lineage = Lineage(ledger)
    assert await lineage.stale(PAGE, states[0], START + timedelta(seconds=19), await history_of(ledger)) is not None
    assert len(lineage._counted) <= 5


async def test_returning_to_an_earlier_state_after_a_moment_is_intentional() -> None:
    """An editor that saves an unchanged buffer does so at once; a person who undoes needs longer."""
    states = growing(3, 1)
    ledger = await written(states)
    history = await history_of(ledger)
    newest = START + timedelta(seconds=2)
    soon, later = newest + timedelta(seconds=0.3), newest + timedelta(seconds=0.8)
    undone = [await Lineage(ledger).stale(PAGE, states[1], at, history) for at in (soon, later)]
    assert [stale is not None and stale.intended for stale in undone] == [False, True]
    assert await Lineage(ledger).stale(PAGE, states[1] + b"\nby hand", later, history) is not None
