"""How many pages there were on each day, and their size, computed from the histories of all pages and the present numbers."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta

from knowledge.history.ports import Ledger, Revision

LINES_AT_ONCE = 5_000


@dataclass(frozen=True, slots=True)
class GrowthDay:
    """The number of pages at the end of a day (UTC), and the bytes of all of them."""

    day: date
    pages: int
    size: int


class Growth:
    """Reads each line of the histories once, and remembers how the number and size of the pages changed on each day.

    A page that somebody made outside the server counts from the beginning, because it is not known since when it was
    there.
    """

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self._read = 0
        self._pages, self._bytes = defaultdict[date, int](int), defaultdict[date, int](int)

    async def days(self, *, pages: int, size: int, now: datetime) -> Sequence[GrowthDay]:
        """Return each day on which something changed, the day before the first of them, and today, oldest first.

        Without a history, nothing is returned.

        `pages` and `size` are the present numbers; those of earlier days are calculated back from them.
        """
        await self._read_on()
        today = now.astimezone(UTC).date()
        days = sorted(self._pages.keys() | self._bytes.keys())
        if not days:
            return []
        counted = [GrowthDay(max(today, days[-1]), pages, size)]
        for day, earlier in zip(reversed(days), [*reversed(days[:-1]), days[0] - timedelta(days=1)], strict=True):
            pages, size = max(0, pages - self._pages[day]), max(0, size - self._bytes[day])
            counted.append(GrowthDay(earlier, pages, size))
        if counted[0].day > days[-1]:
            counted.insert(1, GrowthDay(days[-1], counted[0].pages, counted[0].size))
        return counted[::-1]

    async def _read_on(self) -> None:
        lines = await self._ledger.lines_after(self._read, limit=LINES_AT_ONCE)
        sizes = await self._ledger.content_sizes() if lines else {}
        while lines:
            for line in lines:
                pages, size = _added(line, sizes)
                day = line.at.astimezone(UTC).date()
                self._pages[day] += pages
                self._bytes[day] += size
            self._read = lines[-1].id
            lines = await self._ledger.lines_after(self._read, limit=LINES_AT_ONCE)


def _added(line: Revision, sizes: Mapping[str, int]) -> tuple[int, int]:
    """Return the pages and bytes that this line added. A page that moved has two lines, which add up to nothing."""
    if line.how == "outside" and line.before is None and line.moved_from is None:
        return 0, 0
    pages = (line.revision is not None) - (line.before is not None)
    return pages, sizes.get(line.revision or "", 0) - sizes.get(line.before or "", 0)
