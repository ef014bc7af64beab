"""Runs that end with the process: slow, obvious, and the specification of the others."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from agents.loop.errors import NoSuchRun, RunExists
from agents.loop.record import audit_entries as entries
from agents.loop.record.frames import Frame, Header, frame_of, frame_text, header_of, header_text
from agents.loop.record.run import Run, State, begun, fold
from agents.loop.store.ports import LONGEST_HOLD_S, Hold, RunLine, Total
from agents.loop.store.rules import (
    all_recorded,
    checked_hold,
    checked_id,
    is_free_for,
    may_be_refused,
    new_header,
    require_next,
    spent_since,
    title_of,
    total_of,
    with_frames,
)
from knowledge.history.acts import storable
from knowledge.history.ports import HistoryEntry
from knowledge.leases import holds
from knowledge.state.quota.bounds import Quotas, bytes_of
from knowledge.state.retention.cuts import Shortened, after_retention
from tests.support.state.memory.quotas import Used

Publish = Callable[[str, Sequence[str]], Awaitable[object]]


def unrecorded(_entry: HistoryEntry) -> None:
    """Keep no record."""


@dataclass(frozen=True, slots=True)
class _Kept:
    """A run, its claimant and the claim's end."""

    run: Run
    by: str | None = None
    until: datetime | None = None


class MemoryRuns:
    """Runs in this process; `publish` reports that one of them changed, `record` adds to the audit chain."""

    def __init__(
        self, publish: Publish, record: Callable[[HistoryEntry], object] = unrecorded, quotas: Quotas | None = None
    ) -> None:
        self._publish, self._record, self._quotas, self._used = publish, record, quotas, Used()
        self._kept: dict[str, _Kept] = {}
        self._shortened: set[str] = set()

    async def begin(self, header: Header, hold: Hold) -> Run:
        """Record a run."""
        new, there = new_header(header), self._kept.get(header.id)
        if there is not None:
            if there.run.header != new:
                raise RunExists(header.id)
            return there.run
        kept = _Kept(begun(new), checked_hold(hold).by, hold.until)
        if self._quotas is not None:
            uses = [(self._quotas.started, 1), (self._quotas.ran, bytes_of([header_text(new)]))]
            self._used.charge_all(uses, storable(new.principal), new.begun_at)
        self._record(entries.begun(new))
        self._kept[header.id] = kept
        await self._publish("run", [header.id])
        return self._kept[header.id].run

    async def append(self, before: Run, frames: Sequence[Frame], hold: Hold | None) -> Run:
        """Add the frames after those of `before`."""
        there = self._of(before.id)
        if frames and all_recorded(frames, {frame.id: frame_text(frame) for frame in there.run.frames}):
            return there.run
        require_next(before, there.run.count, hold, there.by, there.until)
        moved, kept = with_frames(there.run, frames)
        if self._quotas is not None:
            amount, refuse = bytes_of([frame_text(frame) for frame in kept]), may_be_refused(moved, kept)
            self._used.charge(self._quotas.ran, storable(moved.header.principal), amount, moved.moved_at, refuse=refuse)
        if moved.over and not there.run.over:
            self._record(entries.ended(moved))
        self._kept[before.id] = replace(there, run=moved) if hold is None else _Kept(moved, hold.by, hold.until)
        await self._publish("run", [before.id])
        return moved

    async def claim(self, run: str, hold: Hold) -> Run | None:
        """Claim the run and return it; None if another process has claimed it."""
        there = self._of(run)
        if not is_free_for(checked_hold(hold), there.by, there.until):
            return None
        self._kept[run] = _Kept(there.run, hold.by, hold.until)
        return there.run

    async def release(self, run: str, by: str) -> None:
        """Release it, if `by` has claimed it."""
        there = self._kept.get(run)
        if there is not None and there.by == by:
            self._kept[run] = _Kept(there.run)

    async def run(self, run: str) -> Run:
        """Return the run as it is now."""
        return self._of(run).run

    async def frames(self, run: str, *, start: int = 0, limit: int | None = None) -> Sequence[Frame]:
        """Return its frames from that number on."""
        return self._of(run).run.frames[max(0, start) :][:limit]

    async def runs(
        self,
        *,
        state: State | None = None,
        principal: str | None = None,
        adrift_at: datetime | None = None,
        limit: int = 20,
        before: str | None = None,
    ) -> Sequence[RunLine]:
        """Return runs, last recorded first, from the one after `before`."""
        ids = list(self._kept)
        below = ids[: ids.index(before)] if before in ids else [] if before is not None else ids
        found = [
            kept.run
            for kept in (self._kept[id_] for id_ in reversed(below))
            if state in (None, kept.run.state)
            and (principal is None or storable(kept.run.header.principal) == storable(principal))
            and (adrift_at is None or _adrift(kept, adrift_at))
        ]
        return [_line(run) for run in found[:limit]]

    async def shorten(self, *, moved_before: datetime, limit: int) -> Shortened:
        """Shorten the texts of runs that are over."""
        due = [
            kept
            for id_, kept in self._kept.items()
            if id_ not in self._shortened and kept.run.over and kept.run.moved_at < moved_before
        ][:limit]
        freed = 0
        for kept in due:
            texts = [header_text(kept.run.header), *(frame_text(frame) for frame in kept.run.frames)]
            header, *frames = [after_retention(text) for text in texts]
            run = fold(header_of(header), map(frame_of, frames))
            self._shortened.add(run.id)
            self._kept[run.id] = replace(kept, run=run)
            freed += sum(map(len, texts)) - len(header) - sum(map(len, frames))
        return Shortened(len(due), freed)

    async def total(self, *, principal: str | None = None, since: datetime | None = None) -> Total:
        """Return the sum of these runs' usage."""
        whose = None if principal is None else storable(principal)
        runs = [kept.run for kept in self._kept.values() if whose in (None, storable(kept.run.header.principal))]
        if since is None:
            return total_of(run.spent for run in runs)
        took = [(run.header.begun_at >= since, spent_since(run.frames, since)) for run in runs]
        return total_of(spent for begun_since, spent in took if begun_since or spent.tokens)

    def _of(self, run: str) -> _Kept:
        there = self._kept.get(checked_id(run))
        if there is None:
            raise NoSuchRun(run)
        return there


def _adrift(kept: _Kept, at: datetime) -> bool:
    return kept.run.state == "running" and (
        kept.by is None or (kept.until is not None and not holds(kept.until, at, LONGEST_HOLD_S))
    )


def _line(run: Run) -> RunLine:
    head = run.header
    return RunLine(
        *(head.id, title_of(head), storable(head.principal), run.state, storable(head.model), run.count),
        *(head.begun_at, run.moved_at),
    )
