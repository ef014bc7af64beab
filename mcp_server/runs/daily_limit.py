"""The bound on what all runs of a knowledge base take in any 24 hours: whether it is reached, and when there is room again."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from agents.loop.limits import DayLimitReached

if TYPE_CHECKING:
    from agents.loop.record.run import Run
    from agents.loop.store.ports import RunStore, Total
    from mcp_server.gate.caller import Clock

DAY = timedelta(days=1)
PRECISION = timedelta(minutes=1)
MILLION = 1_000_000
UNPRICED = (
    "FORGE_RUN_DAY_COST bounds what all runs cost together, and nobody knows the price of the model; say it in "
    "FORGE_MODEL_PRICES, or take the bound away"
)


@dataclass(frozen=True, slots=True)
class DayBounds:
    """How much that may be, by the settings of one process. None: no bound of that kind. `priced`: the model has a price."""

    tokens: int | None = None
    cost_micros: int | None = None
    priced: bool = True

    def reached(self, took: Total) -> str:
        """Return which of them is reached by this, as a sentence; "" where none is."""
        if self.tokens is not None and took.tokens >= self.tokens:
            return f"{self.of_tokens(took)} that they may (FORGE_RUN_DAY_TOKENS)"
        if self.cost_micros is not None and took.cost_micros >= self.cost_micros:
            return f"{self.of_cost(took)} that they may (FORGE_RUN_DAY_COST)"
        return ""

    def of_tokens(self, took: Total) -> str:
        """Return how many tokens were used, of how many."""
        return f"all runs together used {took.tokens:,} tokens in the last 24 hours, of {self.tokens or 0:,}"

    def of_cost(self, took: Total) -> str:
        """Return what they cost, of how much."""
        cost, most = (micros / MILLION for micros in (took.cost_micros, self.cost_micros or 0))
        return f"all runs together cost {cost:g} in the last 24 hours, of {most:g}"


NO_BOUNDS = DayBounds()


@dataclass(frozen=True, slots=True)
class Day:
    """What the runs of every process took, held against the bounds of this one."""

    store: RunStore
    bounds: DayBounds
    now: Clock

    async def reached(self) -> str:
        """Return why no model may be asked now; "" where one may be."""
        bounds = self.bounds
        if bounds.cost_micros is not None and not bounds.priced:
            return UNPRICED
        if bounds.tokens is None and bounds.cost_micros is None:
            return ""
        return bounds.reached(await self.store.total(since=self.now() - DAY))

    async def full_for(self, run: Run) -> DayLimitReached | None:
        """Return the same of a run under way, which may not go on either if nobody knows what it cost so far."""
        if self.bounds.cost_micros is not None and run.spent.unpriced:
            return DayLimitReached(UNPRICED, temporary=False)
        why = await self.reached()
        return DayLimitReached(why) if why else None

    async def spent(self) -> str:
        """Return the same of runs that are to begin or to go on, with the time from which on one may be asked again."""
        why = await self.reached()
        if why in ("", UNPRICED):
            return why
        return f"{why}; there is room again at {await self._room():%Y-%m-%d %H:%M} UTC at the earliest"

    async def _room(self) -> datetime:
        """Return when enough of it is longer ago than 24 hours, if nothing is added, to the minute."""
        now = self.now()
        low, high = 0, DAY // PRECISION  # reached after `low` minutes, not after `high`
        while high - low > 1:
            middle = (low + high) // 2
            took = await self.store.total(since=now - DAY + middle * PRECISION)
            low, high = (middle, high) if self.bounds.reached(took) else (low, middle)
        return now + (high + 1) * PRECISION  # told without its seconds
