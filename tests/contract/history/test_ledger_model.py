"""After any acts in any order, every engine answers like the one in memory."""

from __future__ import annotations

import asyncio
import secrets
import tempfile
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any, Literal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from knowledge.errors import UnknownIntent
from knowledge.history.ports import ActsWanted, FileChange, Ledger, Settlement
from knowledge.merge.model import Dismissal
from knowledge.state.ports import StateStore
from knowledge.state.sqlite.store import SqliteStateStore
from tests.support.state.ledgers import MINUTE, NOW, change, contradiction, entry, intent, open_shared, origin, revision
from tests.support.state.postgres import PostgresServer
from tests.support.state.stores import alike

PATHS = ("a.md", "b.md", "guides/c.md")
TEXTS = (b"", b"one", b"two", b"three")
INTENTS = ("i", "j")

WANTED = (
    *(ActsWanted(page=path) for path in PATHS),
    *(ActsWanted(folder="guides", who=who) for who in (None, "", "ada@desktop", "desktop", "ana")),
    ActsWanted(since=NOW + 2 * MINUTE, until=NOW + 8 * MINUTE),
)

Act = Callable[[Ledger, int], Awaitable[object]]

paths, texts, ids = st.sampled_from(PATHS), st.sampled_from(TEXTS), st.sampled_from(INTENTS)
pages = st.none() | texts


def _keep(path: str, raw: bytes, how: Any) -> Act:
    return lambda ledger, minute: ledger.keep(path, raw, how=how, at=NOW + minute * MINUTE)


def _commit(changes: tuple[FileChange, ...], units: int, flagged: int, id_: str | None) -> Act:
    origins = {c.path: [origin(c.path)] * units for c in changes if units and c.after is not None}
    # The second one is within one page.
    found = [contradiction("a.md", ("guides/c.md", "a.md")[flagged - 1], flagged)] if flagged else []

    def act(ledger: Ledger, minute: int) -> Awaitable[object]:
        made = entry(*changes, at=NOW + minute * MINUTE, origins=origins, contradictions=found)
        return ledger.commit(made, intent_id=id_)

    return act


def _intend(id_: str, path: str, before: bytes | None, after: bytes | None) -> Act:
    contents = [raw for raw in (before, after) if raw is not None]
    made = change(path, before, after)
    return lambda ledger, minute: ledger.intend(intent(id_, made, at=NOW + minute * MINUTE), contents)


def _removed(path: str) -> Act:
    return lambda ledger, minute: ledger.removed(path, at=NOW + minute * MINUTE)


def _drop(id_: str) -> Act:
    return lambda ledger, _: ledger.drop(id_)


def _settle(position: int) -> Act:
    async def act(ledger: Ledger, minute: int) -> None:
        flags = await ledger.flags(None, limit=9)
        settlement = Settlement("changed" if position else "first", "ana", NOW + minute * MINUTE, "why")
        await ledger.settle([flag.id for flag in flags[position : position + 1]], settlement)

    return act


def _revive(position: int) -> Act:
    """Open the contradiction again that was settled last, or the one before."""

    async def act(ledger: Ledger, minute: int) -> list[bool]:
        flags = await ledger.settled(None, limit=9)
        again = entry(outcome="reopened", at=NOW + minute * MINUTE)
        return [await ledger.revive(flag.id, again) for flag in flags[position : position + 1]]

    return act


def _rule(position: int, ruling: Literal["both", "existing"] | None) -> Act:
    """Dismiss the contradiction at that place of the list, or reopen a dismissed one."""

    async def act(ledger: Ledger, minute: int) -> bool | None:
        flags = await ledger.flags(None, limit=9, dismissed=ruling is None)
        for flag in flags[position : position + 1]:
            at = NOW + minute * MINUTE
            if ruling is None:
                return await ledger.reopen(flag.id, entry(outcome="reopened", at=at))
            return await ledger.dismiss(flag.id, Dismissal(ruling, "ana", at, "why"), entry(outcome="dismissed", at=at))
        return None

    return act


def _forget(minutes: int, limit: int) -> Act:
    return lambda ledger, minute: ledger.forget(seen_before=NOW + (minute - minutes) * MINUTE, limit=limit)


def _moved(old: str, new: str, raw: bytes, after: bytes) -> tuple[FileChange, ...]:
    gone = () if old == new else (change(old, raw, None),)
    return (*gone, change(new, None, after, moved_from=old))


written = st.builds(lambda path, before, after: (change(path, before, after),), paths, pages, pages)
moved = st.builds(_moved, paths, paths, texts, texts)
acts = st.one_of(
    st.builds(_keep, paths, texts, st.sampled_from(["seen", "outside"])),
    st.builds(_commit, written | moved, st.integers(0, 2), st.integers(0, 2), st.none() | ids),
    st.builds(_commit, moved, st.integers(0, 2), st.just(0), st.none()),
    st.builds(_intend, ids, paths, pages, pages),
    st.builds(_drop, ids),
    st.builds(_removed, paths),
    st.builds(_settle, st.integers(0, 2)),
    st.builds(_revive, st.integers(0, 1)),
    st.builds(_rule, st.integers(0, 2), st.sampled_from(["both", "existing", None])),
    st.builds(_forget, st.integers(0, 5), st.integers(1, 3)),
)


async def _done(act: Act, store: StateStore, minute: int) -> object:
    try:
        return await act(store.ledger, minute)
    except UnknownIntent as error:
        return str(error)


async def _everything(store: StateStore, _minute: int) -> list[object]:
    """Return everything that can be read."""
    ledger = store.ledger
    seen: list[object] = [await ledger.intents(), await ledger.records(), await ledger.chain_end()]
    seen += [await ledger.lines_after(0, limit=99), await ledger.lines_after(0, limit=99, moves=True)]
    seen.append(await ledger.lines_after(1, limit=3, since=NOW + 2 * MINUTE))
    for place in (*PATHS, "guides", None):
        flags = await ledger.flags(place, limit=9)
        flags = [*flags, *await ledger.flags(place, limit=9, dismissed=True)]
        # Without their ids, which may have gaps.
        flags = [*flags, *await ledger.settled(place, limit=9)]
        seen.append([(flag.at, flag.contradiction, flag.rank, flag.dismissal, flag.settlement) for flag in flags])
    for path in PATHS:
        seen.append(dict(await ledger.dismissals(path)))
        history = await ledger.history(path, limit=99)
        seen += [history, await ledger.recent(path, limit=99), await ledger.recent(path, limit=1)]
        seen += [await ledger.tracked(path), await ledger.seen_last(path)]
        if history:
            seen.append(await ledger.history(path, limit=2, before=history[0].id))
        seen += [await ledger.content(path, revision(raw)) for raw in TEXTS]
    seen.append(sorted(await ledger.newest_lines(), key=lambda line: line.path))
    # States that were only seen may be forgotten, and the memory of when the first one was kept with them.
    seen.append(await ledger.begun())
    seen += [await ledger.timeline(wanted, limit=99) for wanted in WANTED]
    seen += [await ledger.act(f"{kind}{number}") for kind in ("", "e") for number in range(9)]
    return [list(one) if isinstance(one, Sequence) and not isinstance(one, bytes) else one for one in seen]


@given(st.lists(acts, max_size=12))
@settings(max_examples=20)
def test_sqlite_agrees_with_memory(some: list[Act]) -> None:
    async def run() -> None:
        with tempfile.TemporaryDirectory() as folder:
            await alike(some, await SqliteStateStore.open(Path(folder) / "state.db"), _done, _everything)

    asyncio.run(run())


@pytest.mark.external
@given(some=st.lists(acts, max_size=12))
@settings(max_examples=25)
def test_postgresql_agrees_with_memory(some: list[Act], postgres: PostgresServer) -> None:
    async def run() -> None:
        await alike(some, await open_shared(postgres.url(), f"m_{secrets.token_hex(6)}"), _done, _everything)

    asyncio.run(run())
