"""Detects saves from stale buffers: an editor that read a page before our write and saves it afterwards undoes our write.

The state that a save was made from is inferred from its lines: it is the state in the page's history that differs
least.
"""

from __future__ import annotations

import re
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import takewhile

from knowledge.history.ports import Ledger, Revision

STALE_S = 10.0
"""A save more than this many seconds after our newest write counts as intended, even if its author had not seen that write."""
SAME_S = 0.5
"""A save that is equal to an earlier state counts as intended after this many seconds: then it is a person undoing a
change, not an editor's old buffer."""
NEAR = 24
"""How many states are compared first; more are compared only while the nearest is among the oldest."""
PATIENCE = 10
"""After this many older states in a row that differ more, the nearest so far is accepted: older states usually differ even more."""
MOST_STATES = 2000
SHORTEST_CORE = 6
"""A shorter line may be in another one by chance."""
_TASK = re.compile(rb"^([-*+] )\[[^\]\s]\]")
MOST_COUNTED = 400

Lines = frozenset[bytes | tuple[bytes, int]]
"""The lines of a text; repeated lines are numbered, so that the size of a set difference counts lines."""


@dataclass(frozen=True, slots=True)
class Stale:
    """A save that was made from the state `read`, without our newest write.

    `newest` is the state after that write, `before` the state before it, and `at` its time. `intended` is true if the
    save is exactly the state `read`, and was made long enough after our write to be a person's undo. `by_acts` is true
    if only acts of the server lie between `read` and `newest`.
    """

    read: bytes
    newest: bytes
    at: datetime
    before: bytes | None = None
    intended: bool = False
    by_acts: bool = True


def lines_of(raw: bytes) -> Lines:
    """Return the lines of a text without line ends, blanks at their ends and empty lines."""
    lines = [bare for line in raw.splitlines() if (bare := line.rstrip())]
    once = frozenset(lines)
    if len(once) == len(lines):
        return once
    repeated: set[tuple[bytes, int]] = set()
    counts: dict[bytes, int] = {}
    for line in lines:
        counts[line] = number = counts.get(line, 0) + 1
        if number > 1:
            repeated.add((line, number))
    return once | repeated


def distance(one: Lines, other: Lines) -> int:
    """Return how many lines are in only one of the two."""
    return len(one ^ other)


def _builds_on(save: bytes, before: bytes, newest: bytes) -> bool:
    """Return whether each line that our write added, and that the save lacks, is in a longer line of the save.

    Then somebody saw our line and added to it: a few words, the id of a block, or the check mark of a task. Somebody who wrote the
    same words without seeing ours has lost none of them.
    """
    old, new, saved = (set(raw.splitlines()) for raw in (before, newest, save))
    lacking = [core for line in new - old - saved if (core := _core(line))]
    added = [_core(line) for line in saved - old - new]
    return bool(lacking) and all(
        len(line) >= SHORTEST_CORE and any(line in longer for longer in added) for line in lacking
    )


def _core(line: bytes) -> bytes:
    """Return the line without blanks at its ends, and without the check mark of a task."""
    return _TASK.sub(rb"\1[ ]", line.strip())


def half_written(known: Sequence[bytes], raw: bytes) -> bool:
    """Return whether the bytes could be the beginning of one of these states; an empty file could be the beginning of any."""
    return not raw or any(len(raw) < len(state) and state.startswith(raw) for state in known)


class Lineage:
    """The states that pages had, from the ledger; the lines of each are counted once."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self._counted: OrderedDict[tuple[str, str], Lines] = OrderedDict()

    async def stale(self, path: str, raw: bytes, saved_at: datetime, history: Sequence[Revision]) -> Stale | None:
        """Return the write that the save `raw` missed; None if it was made from our newest write, or long after it.

        `history` are the newest lines of the page's history, newest first.
        """
        ours = next((line for line in history if line.how == "written"), None)
        if ours is None or ours.revision is None:
            return None
        apart_s = abs((saved_at - ours.at).total_seconds())
        if apart_s > STALE_S:
            return None
        # Saves after our write are left out: they may have missed it themselves.
        read = await self.read_before(path, raw, [line for line in history if line.id <= ours.id])
        if read in (None, ours.revision):
            return None
        before, newest = await self._ledger.content(path, read), await self._ledger.content(path, ours.revision)
        if before is None or newest is None:
            return None
        if _builds_on(raw, before, newest):
            return None
        based_on = None if ours.before is None else await self._ledger.content(path, ours.before)
        since = list(takewhile(lambda line: line.revision != read, (line for line in history if line.id <= ours.id)))
        return Stale(
            *(before, newest, ours.at, based_on),
            intended=before == raw and apart_s > SAME_S,
            by_acts=all(line.how == "written" for line in since),
        )

    async def made_from(self, path: str, save: bytes, before: str | None) -> bytes | None:
        """Return the state that a late save was made from; `before` is the last known revision of its file."""
        last = None if before is None else await self._ledger.content(path, before)
        if last is not None and last != save and half_written([save], last):
            return last  # the save was caught half-written before
        history = await self._ledger.history(path, limit=NEAR)
        read = await self.read_before(path, save, history, likely=before)
        return None if read is None else await self._ledger.content(path, read)

    async def read_before(
        self, path: str, raw: bytes, history: Sequence[Revision], *, likely: str | None = None
    ) -> str | None:
        """Return the revision of the state that `raw` was most likely made from; None if no known state is related to it.

        It is `likely`, which need not be in the history, unless another state differs less.
        """
        save, compared = lines_of(raw), 0
        best, least, found_at = None, 0, 0
        revisions = list(dict.fromkeys([*([] if likely is None else [likely]), *_states(history)]))
        while revisions:
            for place, revision in enumerate(revisions, compared):
                lines = await self._lines(path, revision)
                apart = None if lines is None else distance(save, lines)
                if apart is not None and (best is None or apart < least):
                    best, least, found_at = revision, apart, place
                if best is not None and place - found_at > PATIENCE:
                    return best if await self._is_related(path, save, best) else None
            compared += len(revisions)
            # Older states are read only if the nearest so far is among the oldest that were compared.
            if best is None or found_at < compared - NEAR // 2 or compared >= MOST_STATES:
                break
            history = await self._ledger.history(path, limit=NEAR * 4, before=history[-1].id)
            revisions = _states(history)
        return best if best is not None and await self._is_related(path, save, best) else None

    async def _is_related(self, path: str, save: Lines, revision: str) -> bool:
        """Return whether `save` and the state at `revision` share half of the shorter one's lines.

        A page that was rewritten from scratch comes from no state.
        """
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
    """Return the distinct revisions of a page, newest first."""
    both = [revision for line in history for revision in (line.revision, line.before) if revision is not None]
    return list(dict.fromkeys(both))
