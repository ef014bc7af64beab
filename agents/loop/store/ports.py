"""The contract of a run store. Every engine passes the same contract suite, which compares it with `tests/support/state/memory/`.

Runs are stored in the state database of their knowledge base. A run is its header and its frames. Every method is one transaction,
and an acknowledged write survives a power cut. Times are passed in, aware UTC. Every addition to a run publishes a change event `run`
with its id. The start and the end of a run are recorded in the audit chain in the same transaction (`record/audit_entries.py`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from agents.loop.record.frames import Frame, Header
from agents.loop.record.run import Run, State
from knowledge.state.retention.cuts import Shortened

TITLE_CHARS = 120
LONGEST_HOLD_S = 30.0
"""How long a silent process keeps its hold on a run. A hold that ends later was given before the clock was set back."""


@dataclass(frozen=True, slots=True)
class Hold:
    """The process that leads a run, since when, and until when unless it renews the hold.

    Every start of a process has its own name.
    """

    by: str
    at: datetime
    until: datetime


@dataclass(frozen=True, slots=True)
class RunLine:
    """A run in a list. `title` is the beginning of its goal, `count` the number of its frames."""

    id: str
    title: str
    principal: str
    state: State
    model: str
    count: int
    begun_at: datetime
    moved_at: datetime


@dataclass(frozen=True, slots=True)
class Total:
    """The total usage of several runs. `unpriced` of them used a model whose price is unknown."""

    runs: int
    tokens_in: int
    tokens_out: int
    cost_micros: int
    unpriced: int

    @property
    def tokens(self) -> int:
        """The tokens in and out."""
        return self.tokens_in + self.tokens_out


class RunStore(Protocol):
    """The runs of one knowledge base."""

    async def begin(self, header: Header, hold: Hold) -> Run:
        """Record a new run, led by the holder, and return it. The same header again returns the run as it is now.

        Raises:
            RunExists: another run has that id. Nothing is recorded.
            OverQuota: its principal began too many runs, or stored too much in them (only where the store was given quotas). Nothing
                is recorded.
            ValueError: no run can have such an id: a mistake of the caller.
        """
        ...

    async def append(self, before: Run, frames: Sequence[Frame], hold: Hold | None) -> Run:
        """Add the frames, at least one, after those of `before`, which this store returned, and return the run with them.

        Of several appends after the same frame exactly one succeeds. Frames that the run already has are not added
        again: the run is returned as it is now, whatever `before` was, so that a lost reply can be asked for again.
        `hold` is prolonged, or taken if no other process holds the run. With None, the holds of other processes neither
        matter nor change: a person's word counts at once.

        Raises:
            StaleRun: another process added frames first; carries `expected` and `actual`.
            RunTaken: another process holds the run.
            NoSuchRun: there is no such run.
            BadFrames: a frame does not fit the state of the run, or the run has another frame with its id.
            OverQuota: its principal stored too much in runs. Results, ends and a person's own word are stored all the same.
            ValueError: there are no frames: a mistake of the caller.
        """
        ...

    async def claim(self, run: str, hold: Hold) -> Run | None:
        """Hold the run and return it; None if another process holds it. Its present holder prolongs its hold.

        Of several callers at once exactly one gets it.

        Raises:
            NoSuchRun: there is no such run.
        """
        ...

    async def release(self, run: str, by: str) -> None:
        """End the hold of `by`, if it has one. A run that does not exist is ignored."""
        ...

    async def run(self, run: str) -> Run:
        """Return the run as it is now: the fold of its frames.

        Raises:
            NoSuchRun: there is no such run.
        """
        ...

    async def frames(self, run: str, *, start: int = 0, limit: int | None = None) -> Sequence[Frame]:
        """Return its frames from number `start` on, at most `limit`.

        Raises:
            NoSuchRun: there is no such run.
        """
        ...

    async def runs(
        self,
        *,
        state: State | None = None,
        principal: str | None = None,
        adrift_at: datetime | None = None,
        limit: int = 20,
        before: str | None = None,
    ) -> Sequence[RunLine]:
        """Return runs, the newest first, from the one after the one with the id `before`.

        `adrift_at`: only running runs that no process holds at that time, because the process that led them died.
        """
        ...

    async def shorten(self, *, moved_before: datetime, limit: int) -> Shortened:
        """Shorten the texts of at most `limit` runs that are over and last moved before then. Zero records: none is left.

        Every frame stays, with its links, times and usage. A shortened text says so.
        """
        ...

    async def total(self, *, principal: str | None = None, since: datetime | None = None) -> Total:
        """Return the total usage of that principal's runs, or of all runs, since then or ever.

        Of a run that began before `since`, only the frames after that count. The run is counted in `runs` if these
        frames used anything.
        """
        ...
