"""Saves from stale buffers: an editor that read a page before our write and saves it afterwards takes our write away.

Which state a save was made from is read off its lines: of the states that the page had, it is the one that differs least.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from knowledge.history.ports import Ledger, Revision

STALE_S = 10.0
"""A save that comes later than this after our newest write is what somebody wanted, whatever they had read."""
SAME_S = 0.5
"""The same of a save that is exactly an earlier state: an editor that saves what it has not changed, or somebody who goes back."""
NEAR = 24
"""So many states are looked at first; more only while the nearest is among the oldest of them."""
PATIENCE = 10
"""Older states than the nearest that are looked at, in a row, before it is taken: each edit in between sets a state further off."""
MOST_STATES = 2000
MOST_COUNTED = 400

Lines = frozenset[bytes | tuple[bytes, int]]
"""The lines of a text, one that is there again with a number: so many lines are in two texts as their sets have in common."""


@dataclass(frozen=True, slots=True)
class Stale:
    """What a save did not know of: it was made from `read`, and our newest write is `newest`."""

    read: bytes
    newest: bytes


def lines_of(raw: bytes) -> Lines:
    """Return the lines that are there; line ends, blanks at the end of lines and empty lines do not count."""
    lines = [bare for line in raw.splitlines() if (bare := line.rstrip())]
    once = frozenset(lines)
    if len(once) == len(lines):
        return once
    again: set[tuple[bytes, int]] = set()
    often: dict[bytes, int] = {}
    for line in lines:
        often[line] = number = often.get(line, 0) + 1
        if number > 1:
            again.add((line, number))
    return once | again


def distance(one: Lines, other: Lines) -> int:
    """Return how many lines are in one of them only."""
    return len(one ^ other)


def nearest(save: Lines, states: Sequence[Lines]) -> int:
    """Return the index of the state that the save differs least from, the first of equals."""
    return min(range(len(states)), key=lambda index: distance(save, states[index]))


def half_way(known: Sequence[bytes], raw: bytes) -> bool:
    """Return whether the bytes could be the beginning of one of these states, or of anything: nothing at all."""
    return not raw or any(len(raw) < len(state) and state.startswith(raw) for state in known)


class Lineage:
    """The states that pages had, as the ledger keeps them; their lines are counted once."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self._counted: OrderedDict[tuple[str, str], Lines] = OrderedDict()

    async def stale(self, path: str, raw: bytes, saved_at: datetime, history: Sequence[Revision]) -> Stale | None:
        """Return what the save `raw` did not know of; None for one that was made from our newest write, or long after it.

        `history` are the newest lines of the page's history, newest first.
        """
        ours = next((line for line in history if line.how == "written"), None)
        if ours is None or ours.revision is None:
            return None
        apart_s = abs((saved_at - ours.at).total_seconds())
        if apart_s > STALE_S:
            return None
        # What was saved since then does not count: it may itself not have known of our write.
        read = await self.read_before(path, raw, [line for line in history if line.id <= ours.id])
        if read in (None, ours.revision):
            return None
        before, newest = await self._ledger.content(path, read), await self._ledger.content(path, ours.revision)
        if before is None or newest is None or (before == raw and apart_s > SAME_S):
            return None
        return Stale(before, newest)

    async def made_from(self, path: str, save: bytes, before: str | None) -> bytes | None:
        """Return the state that a late save was made from; `before` is the revision of what its file held, if that is known."""
        held = None if before is None else await self._ledger.content(path, before)
        if held is not None and held != save and half_way([save], held):
            return held  # the save had been caught half-way
        history = await self._ledger.history(path, limit=NEAR)
        read = await self.read_before(path, save, history, likely=before)
        return None if read is None else await self._ledger.content(path, read)

    async def read_before(
        self, path: str, raw: bytes, history: Sequence[Revision], *, likely: str | None = None
    ) -> str | None:
        """Return the revision of the state that `raw` was most likely made from; None if no state is known.

        It is `likely`, which need not be in the history, unless another state differs less.
        """
        save, looked_at = lines_of(raw), 0
        best, least, found_at = None, 0, 0
        revisions = list(dict.fromkeys([*([] if likely is None else [likely]), *_states(history)]))
        while revisions:
            for place, revision in enumerate(revisions, looked_at):
                lines = await self._lines(path, revision)
                apart = None if lines is None else distance(save, lines)
                if apart is not None and (best is None or apart < least):
                    best, least, found_at = revision, apart, place
                if best is not None and place - found_at > PATIENCE:
                    return best if await self._akin(path, save, best) else None
            looked_at += len(revisions)
            if best is None or found_at < looked_at - NEAR // 2 or looked_at >= MOST_STATES:
                break
            history = await self._ledger.history(path, limit=NEAR * 4, before=history[-1].id)
            revisions = _states(history)
        return best if best is not None and await self._akin(path, save, best) else None

    async def _akin(self, path: str, save: Lines, revision: str) -> bool:
        """Return whether enough is in common to say that one was made from the other: a page that was emptied comes from none."""
        state = await self._lines(path, revision) or frozenset()
        return 2 * len(state & save) >= min(len(state), len(save)) > 0

    async def _lines(self, path: str, revision: str) -> Lines | None:
        known = self._counted.get((path, revision))
        if known is None:
            raw = await self._ledger.content(path, revision)
            if raw is None:
                return None
            known = self._counted[path, revision] = lines_of(raw)
            if len(self._counted) > MOST_COUNTED:
                self._counted.popitem(last=False)
        self._counted.move_to_end((path, revision))
        return known


def _states(history: Sequence[Revision]) -> list[str]:
    """Return the revisions that a page had, newest first, each once."""
    both = [revision for line in history for revision in (line.revision, line.before) if revision is not None]
    return list(dict.fromkeys(both))
