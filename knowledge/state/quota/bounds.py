"""The limits on what one principal may store and start, and the checks that enforce them. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Literal

from knowledge.errors import OverQuota
from knowledge.history.timestamps import aware

MB = 1_000_000
Kind = Literal["proposed", "started", "journeyed", "ran", "called", "worked"]
"""What is counted. `proposed`: bytes of proposals. `started`: journeys and runs that were started. `journeyed`: bytes
of events of journeys. `ran`: bytes of runs and their frames. `called`: calls of any kind. `worked`: searches and
changes of pages."""
Slot = tuple[datetime, int]
"""The beginning of a slot, and the amount used in it."""


@dataclass(frozen=True, slots=True)
class Bound:
    """At most `most` in any `window`, counted in slots, so that a flood costs few rows. `setting` is the variable that raises it."""

    kind: Kind
    most: int
    window: timedelta
    slot: timedelta
    setting: str

    def slot_at(self, at: datetime) -> datetime:
        """Return the beginning of the slot of that moment."""
        seconds = self.slot.total_seconds()
        return datetime.fromtimestamp(aware(at).timestamp() // seconds * seconds, UTC)

    def since(self, at: datetime) -> datetime:
        """Return the beginning of the oldest slot that still counts at that moment."""
        return self.slot_at(at - self.window)


@dataclass(frozen=True, slots=True)
class Quotas:
    """The quotas of one principal. The defaults are ten times the measured need of a busy host in a team.

    `pending_bytes`: pending proposals; `proposed_bytes`: proposals made in a day, in any state now; `starts`: journeys
    started in a minute, and separately runs; `journey_bytes`: events of journeys in a day; `run_bytes`: runs and their
    frames in a day.
    """

    pending_bytes: int = 50 * MB
    proposed_bytes: int = 200 * MB
    starts: int = 60
    journey_bytes: int = 100 * MB
    run_bytes: int = 100 * MB

    @property
    def proposed(self) -> Bound:
        """The limit on the bytes of new proposals."""
        return Bound("proposed", self.proposed_bytes, timedelta(days=1), timedelta(hours=1), "FORGE_QUOTA_PROPOSED")

    @property
    def started(self) -> Bound:
        """The limit on how many journeys and runs may be started."""
        return Bound("started", self.starts, timedelta(minutes=1), timedelta(seconds=1), "FORGE_QUOTA_STARTS")

    @property
    def journeyed(self) -> Bound:
        """The limit on the bytes of journey events."""
        return Bound("journeyed", self.journey_bytes, timedelta(days=1), timedelta(hours=1), "FORGE_QUOTA_JOURNEYS")

    @property
    def ran(self) -> Bound:
        """The limit on the bytes of runs and their frames."""
        return Bound("ran", self.run_bytes, timedelta(days=1), timedelta(hours=1), "FORGE_QUOTA_RUNS")


ROW_BYTES = 100
"""Bytes that a row takes in addition to its text, roughly."""
LEAST_PROPOSED = 4_000
"""Bytes that a proposal counts for at least: about the size of the part that is kept permanently."""


def bytes_of(texts: Sequence[str]) -> int:
    """Return the number of bytes that events or frames with these ASCII texts count as."""
    return sum(map(len, texts)) + ROW_BYTES * len(texts)


def require_room(bound: Bound, principal: str, slots: Sequence[Slot], amount: int, at: datetime) -> None:
    """Check that the principal may use `amount` more; `slots` are those that count, oldest first.

    Raises:
        OverQuota: there is no room; the error says when there is.
    """
    used = sum(one for _, one in slots)
    if used + amount <= bound.most:
        return
    free_at, left = None, used
    # A larger amount never fits, so no time can be named.
    if amount <= bound.most:
        for begun, one in slots:
            left -= one
            if left + amount <= bound.most:
                # A slot counts as long as any moment of it is inside the window.
                free_at = begun + bound.slot + bound.window
                break
    raise OverQuota(principal, bound.kind, bound.most, used, amount, setting=bound.setting, at=at, free_at=free_at)


def require_room_waiting(quotas: Quotas, principal: str, waiting: int, amount: int, at: datetime) -> None:
    """Check that the principal may have `amount` more bytes of pending proposals, in addition to `waiting`.

    Raises:
        OverQuota: there is no room.
    """
    if waiting + amount > quotas.pending_bytes:
        most, setting = quotas.pending_bytes, "FORGE_QUOTA_PENDING"
        raise OverQuota(principal, "pending", most, waiting, amount, setting=setting, at=at, free_at=None)
