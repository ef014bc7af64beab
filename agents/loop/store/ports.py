"""The contract of a run store. Every engine passes the same contract suite, which compares it with `tests/support/state/memory/`.

Runs lie in the state database of their knowledge base. A run is its header and its frames. Every method is one transaction, and
what it acknowledged survives a power cut. Times come in as arguments (aware UTC). Whatever adds to a run adds a change event
`run` with its id. That a run begins, and how it ends, is in the audit chain by the same transaction (`entries.py`).
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
"""How long a process may lead a run without being heard of. A hold that ends later was given before the clock was set back."""


@dataclass(frozen=True, slots=True)
class Hold:
    """Who leads a run, as of when, and until when if nothing more is heard of them. `by` names a process, each start of it anew."""

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
    """What runs took together. `unpriced` of them asked a model of which nobody knows the price."""

    runs: int
    tokens_in: int
    tokens_out: int
    cost_micros: int
    unpriced: int

    @property
    def tokens(self) -> int:
        """Return both together."""
        return self.tokens_in + self.tokens_out


class RunStore(Protocol):
    """The runs of one knowledge base."""

    async def begin(self, header: Header, hold: Hold) -> Run:
        """Put a run on record, led by who holds it, and return it. The very same header again returns the run as it stands.

        Raises:
            RunExists: another one has that id. Nothing is recorded.
            OverQuota: its principal began too many, or stored too much in runs (only where the store was given quotas). Nothing is
                recorded.
            ValueError: no run can have such an id: a mistake of the caller.
        """
        ...

    async def append(self, before: Run, frames: Sequence[Frame], hold: Hold | None) -> Run:
        """Add the frames, at least one, after those of `before`, which is what this store said of the run, and return it with them.

        Of any number of appends after the same frame exactly one counts. Frames that the run has already are not added: it is
        returned as it stands, whatever `before` was, so a lost reply can be asked for again. `hold` is prolonged, or taken if it is
        free; without one nobody's hold matters, and it stays as it is: for a person, whose word counts at once.

        Raises:
            StaleRun: somebody else added frames first; carries `expected` and `actual`.
            RunTaken: somebody else holds the run.
            NoSuchRun: there is none.
            BadFrames: a frame does not fit where the run stands, or the run has another frame with its id.
            OverQuota: its principal stored too much in runs. Results, ends and a person's own word are taken all the same.
            ValueError: no frames: a mistake of the caller.
        """
        ...

    async def claim(self, run: str, hold: Hold) -> Run | None:
        """Hold the run and return it; None if somebody else holds it then. Who holds it already prolongs that.

        Of any number of callers at once exactly one gets it.

        Raises:
            NoSuchRun: there is none.
        """
        ...

    async def release(self, run: str, by: str) -> None:
        """Hold it no longer, if `by` does. A run that there is not is held by nobody."""
        ...

    async def run(self, run: str) -> Run:
        """Return the run as it stands: the fold of its frames.

        Raises:
            NoSuchRun: there is none.
        """
        ...

    async def frames(self, run: str, *, start: int = 0, limit: int | None = None) -> Sequence[Frame]:
        """Return its frames from that number on, at most `limit`.

        Raises:
            NoSuchRun: there is none.
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
        """Return runs, those that were put on record last first, from the one after the one with the id `before`.

        `adrift_at`: only those that are to be led and that nobody holds at that time: their process died.
        """
        ...

    async def shorten(self, *, moved_before: datetime, limit: int) -> Shortened:
        """Shorten the texts of at most `limit` runs that are over and moved last before then; no records when none is left.

        Every frame stays, with its links, times and what it took; where a text was cut it says so.
        """
        ...

    async def total(self, *, principal: str | None = None, since: datetime | None = None) -> Total:
        """Return what the runs of that principal, or of all, took together since then, or ever.

        Of a run that began before then counts what its frames since then took; it is one of `runs` if they took anything.
        """
        ...
