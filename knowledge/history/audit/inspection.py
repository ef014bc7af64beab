"""Going along the audit chain of a ledger that others may be writing to meanwhile, a stretch at a time."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass

from knowledge.history.audit.chain import Broken, ChainCheck, broken
from knowledge.history.ports import AuditRecord, Ledger

STRETCH = 1_000
MOST_BREAKS = 100


@dataclass(frozen=True, slots=True)
class Inspection:
    """What was found: how many records there are, where the chain ends, and where it does not hold, in its order.

    `others` is how many more breaks there are than are listed.
    """

    records: int
    end: tuple[int, bytes]
    broken: tuple[Broken, ...]
    others: int = 0


async def records_of(ledger: Ledger, *, after: int = 0) -> AsyncIterator[AuditRecord]:
    """Yield the records after that one, oldest first, whatever their number."""
    while stretch := await ledger.records(after=after, limit=STRETCH):
        for record in stretch:
            yield record
        after = stretch[-1].seq


async def inspect(ledger: Ledger, *, noted: tuple[int, bytes] | None = None) -> Inspection:
    """Return what is wrong with the chain; `noted` is where somebody saw it end earlier.

    Without what was noted elsewhere nobody can tell that a tail was cut off together with the end kept beside the chain.
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
        # Asked after the records: what was added meanwhile is then read as well.
        last, end = end, await ledger.chain_end()
        if end == last or end[0] <= check.seq:
            break
    for new in check.finish(end):
        note(new)
    if noted is not None and noted[0] > check.seq:
        note(Broken(noted[0], "was noted, and is missing: the chain was cut off together with its end"))
    return Inspection(count, end, tuple(found), others)
