"""Checks the audit chain of a ledger, a batch at a time, while others may be writing to it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass

from knowledge.history.audit.chain import Broken, ChainCheck, broken
from knowledge.history.ports import AuditRecord, Ledger

BATCH = 1_000
MOST_BREAKS = 100


@dataclass(frozen=True, slots=True)
class Inspection:
    """How many records the chain has, where it ends, and its first breaks in order; `others` counts those not listed."""

    records: int
    end: tuple[int, bytes]
    broken: tuple[Broken, ...]
    others: int = 0


async def records_of(ledger: Ledger, *, after: int = 0) -> AsyncIterator[AuditRecord]:
    """Yield all records after that one, oldest first."""
    while batch := await ledger.records(after=after, limit=BATCH):
        for record in batch:
            yield record
        after = batch[-1].seq


async def inspect(ledger: Ledger, *, noted: tuple[int, bytes] | None = None) -> Inspection:
    """Return the breaks in the chain; `noted` is its end as somebody saw it earlier.

    Only an end noted elsewhere reveals that a tail was cut off together with the end kept beside the chain.
    """
    check, count = ChainCheck(), 0
    found: list[Broken] = []
    others = 0

    def note(new: Broken) -> None:
        nonlocal others
        if len(found) < MOST_BREAKS:
            found.append(new)
        else:
            others += 1

    end = await ledger.chain_end()
    while True:
        async for record in records_of(ledger, after=check.seq):
            count += 1
            for new in check.follow(record):
                note(new)
            if noted is not None and noted[0] == record.seq and noted[1] != record.digest:
                note(broken(record, "has another hash than was noted: this record, or one before it, was edited"))
        # Read after the records, so that records added in the meantime are checked too.
        last, end = end, await ledger.chain_end()
        if end == last or end[0] <= check.seq:
            break
    for new in check.finish(end):
        note(new)
    if noted is not None and noted[0] > check.seq:
        note(Broken(noted[0], "was noted earlier and is missing: the end of the chain was cut off"))
    return Inspection(count, end, tuple(found), others)
