"""Copies a whole state to another database, and moves it there so that only one of the two is in use at any time.

A move commits three times: the target gets everything and the mark `arriving`; the source gets the mark `left`; the target loses its
mark. A database with a mark is refused by every program. Whenever the process is killed, the same move can be run again: before
the second commit the source is in use and is copied again, after it the target has everything and only loses its mark.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Literal

from knowledge.errors import MoveRefused, MoveUnfinished, StateMoved
from knowledge.history.audit.chain import START, digest_of
from knowledge.state.transfer.layout import StateTable, tables
from knowledge.state.transfer.marks import USED, Mark
from knowledge.state.transfer.ports import WholeState

OnStep = Callable[[str], None]
PASSING = frozenset({"lease", "event"})
"""Tables in which a server writes even if nobody uses it."""
CHAIN_END = "chain_end"
TABLE_COPIED = " copied"
"""The end of the name of the step after each table."""
SUM_BYTES = 32


@dataclass(frozen=True, slots=True)
class Chain:
    """The audit chain: its records, the number and digest of its end, and the first record that does not fit, if any."""

    records: int
    seq: int
    digest: str
    broken: int | None


@dataclass(frozen=True, slots=True)
class Contents:
    """Everything in a state database: for each table the number of its rows and a sum over them, in any order."""

    rows: Mapping[str, int]
    sums: Mapping[str, int]
    numbers: Mapping[str, int]
    chain: Chain

    @property
    def nothing(self) -> bool:
        """Whether nothing was ever recorded."""
        return not self.chain.records and not any(
            count for name, count in self.rows.items() if name not in PASSING and name != CHAIN_END
        )


@dataclass(frozen=True, slots=True)
class MovePlan:
    """The next step of a move.

    `copy`: copy everything. `leave`: mark the source as left, because the target has everything already. `finish`:
    remove the mark of the target. `done`: nothing is left to do.
    """

    step: Literal["copy", "leave", "finish", "done"]
    source: Contents
    target: Contents
    interrupted: bool


class _ChainReader:
    """Reads the records of the audit chain in order."""

    def __init__(self) -> None:
        self._digest, self._records = START, 0
        self.broken: int | None = None

    def read(self, seq: int, body: str, digest: bytes) -> None:
        """Check the next record."""
        self._records += 1
        if self.broken is None and (seq != self._records or digest_of(self._digest, body) != digest):
            self.broken = seq
        self._digest = digest

    def ended(self, seq: int, digest: bytes) -> Chain:
        """Return the chain that ends with that record, as the database says."""
        if self.broken is None and (seq, digest) != (self._records, self._digest):
            self.broken = seq
        return Chain(self._records, seq, digest.hex(), self.broken)


class _Account:
    """Counts and sums up rows."""

    def __init__(self) -> None:
        self.rows = {table.name: 0 for table in tables()}
        self.sums = dict(self.rows)
        self.chain, self._end = _ChainReader(), (0, START)

    def count(self, table: StateTable, row: tuple[object, ...]) -> None:
        self.rows[table.name] += 1
        digest = hashlib.sha256(repr(row).encode("utf-8", "surrogatepass")).digest()
        self.sums[table.name] = (self.sums[table.name] + int.from_bytes(digest, "big")) % 2 ** (8 * SUM_BYTES)
        named = dict(zip(table.columns, row, strict=True))
        match named:
            case {"seq": int(seq), "body": str(body), "digest": bytes(end)} if table.name == "audit":
                self.chain.read(seq, body, end)
            case {"seq": int(seq), "digest": bytes(end)} if table.name == CHAIN_END:
                self._end = seq, end

    def contents(self, numbers: Mapping[str, int]) -> Contents:
        return Contents(self.rows, self.sums, dict(numbers), self.chain.ended(*self._end))


async def contents(of: WholeState) -> Contents:
    """Return what is in the database, in its open transaction."""
    account = _Account()
    for table in tables():
        async for batch in of.rows(table):
            for row in batch:
                account.count(table, row)
    return account.contents(await of.sequences())


async def copy(source: WholeState, target: WholeState, on_step: OnStep = lambda _: None) -> Contents:
    """Replace everything in the target by what is in the source, in both open transactions; return what the target has now.

    Raises:
        MoveRefused: the target does not return what it was given.
    """
    account = _Account()
    await target.clear()
    on_step("target emptied")
    for table in tables():
        async for batch in source.rows(table):
            await target.add(table, batch)
            for row in batch:
                account.count(table, row)
        on_step(f"{table.name}{TABLE_COPIED}")
    await target.set_sequences(await source.sequences())
    # Read back from the target, so that what it changed is noticed while nothing is committed.
    sent, arrived = account.contents(await source.sequences()), await contents(target)
    if sent != arrived:
        wrong = [name for name in sent.sums if sent.sums[name] != arrived.sums[name]] or [
            "the numbers or the audit chain"
        ]
        raise MoveRefused(f"{target.place} does not return what was written to it ({', '.join(wrong)})")
    on_step("compared")
    return arrived


async def plan(source: WholeState, target: WholeState) -> MovePlan:
    """Return the next step of the move, in both open transactions.

    Raises:
        MoveRefused, StateMoved, MoveUnfinished: the move is not possible.
    """
    left, there = await source.mark(), await target.mark()
    ours, theirs = await contents(source), await contents(target)
    if left.standing == "left":
        if left.other != target.place:
            raise StateMoved(source.place, left.other)
        # After the move people may have used the target, or moved it on.
        if there.standing == "left":
            raise StateMoved(target.place, there.other)
        return MovePlan(
            "finish" if there.standing == "arriving" else "done", ours, theirs, there.standing == "arriving"
        )
    if left.standing == "arriving":
        raise MoveUnfinished(source.place, left.other)
    interrupted = there.standing == "arriving"
    if await _replaceable(source, target, theirs):
        return MovePlan("copy", ours, theirs, interrupted)
    if all(ours.sums[name] == theirs.sums[name] for name in ours.sums if name not in PASSING):
        return MovePlan("leave", ours, theirs, interrupted)
    raise MoveRefused(
        f"{target.place} holds another state already ({_held(theirs)}); name an empty database or another schema"
    )


async def _replaceable(source: WholeState, target: WholeState, theirs: Contents) -> bool:
    """Return whether nothing is lost if the target is replaced by the source.

    Raises:
        StateMoved, MoveUnfinished: the target belongs to a move with another database.
    """
    there = await target.mark()
    if there.standing == "used":
        return theirs.nothing
    if there.other != source.place:
        raise (StateMoved if there.standing == "left" else MoveUnfinished)(target.place, there.other)
    # A target that was left for the source is the source's past, and one in which the source was arriving is its incomplete copy.
    if there.standing == "left" and not await _continues(source, theirs.chain):
        raise StateMoved(target.place, there.other)
    return True


async def move(source: WholeState, target: WholeState, planned: MovePlan, on_step: OnStep = lambda _: None) -> Contents:
    """Carry out the plan, in the same two transactions, and return what the target has in the end."""
    arrived = planned.target
    if planned.step == "copy":
        arrived = await copy(source, target, on_step)
        await target.set_mark(Mark("arriving", source.place))
        on_step("before the target's commit")
        await target.commit()
        on_step("after the target's commit")
    if planned.step in ("copy", "leave"):
        await source.set_mark(Mark("left", target.place))
        on_step("before the source's commit")
        await source.commit()
        on_step("after the source's commit")
    if planned.step == "copy":
        await target.begin(alone=True)
    if planned.step in ("copy", "finish"):
        await target.set_mark(USED)
        on_step("before the last commit")
        await target.commit()
        on_step("after the last commit")
    return arrived


async def _continues(source: WholeState, chain: Chain) -> bool:
    """Return whether the source has the record with which the chain ends."""
    if not chain.seq:
        return True
    audit = next(table for table in tables() if table.name == "audit")
    seq, digest = audit.columns.index("seq"), audit.columns.index("digest")
    found = False
    async for batch in source.rows(audit):  # to its end, because a cursor stays open until then
        found = found or any(row[seq] == chain.seq and row[digest].hex() == chain.digest for row in batch)
    return found


def _held(found: Contents) -> str:
    largest = sorted(((count, name) for name, count in found.rows.items() if count), reverse=True)[:3]
    return ", ".join(f"{count:,} rows of {name}" for count, name in largest)
