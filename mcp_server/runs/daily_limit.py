"""The limit of all runs of a knowledge base together in any 24 hours: whether it is reached, and when a run may continue."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING

from agents.loop.limits import DayLimitReached

if TYPE_CHECKING:
    from agents.loop.record.run import Run
    from agents.loop.store.ports import RunStore, Total
    from mcp_server.gate.caller import Clock

DAY = timedelta(days=1)
PRECISION = timedelta(minutes=1)  # the sentence about the next free room has no seconds
MILLION = 1_000_000
UNPRICED = (
    "FORGE_RUN_DAY_COST limits the cost of all runs together, and the price of the model is unknown; set it in "
    "FORGE_MODEL_PRICES, or remove the limit"
)


@dataclass(frozen=True, slots=True)
class DayBounds:
    """The limits in the settings of one process. None: no limit of that kind. `priced`: the model has a price."""

    tokens: int | None = None
    cost_micros: int | None = None
    priced: bool = True

    def reached(self, took: Total) -> str:
        """Return a sentence about the limit that this usage reaches; "" if it reaches none."""
        if self.tokens is not None and took.tokens >= self.tokens:
            return f"{self.of_tokens(took)} that they may (FORGE_RUN_DAY_TOKENS)"
        if self.cost_micros is not None and took.cost_micros >= self.cost_micros:
            return f"{self.of_cost(took)} that they may (FORGE_RUN_DAY_COST)"
        return ""

    def of_tokens(self, took: Total) -> str:
        """Return a sentence with the number of used tokens and the limit."""
        return f"all runs together used {took.tokens:,} tokens in the last 24 hours, of {self.tokens or 0:,}"

    def of_cost(self, took: Total) -> str:
        """Return a sentence with the cost and the limit."""
        cost, most = (micros / MILLION for micros in (took.cost_micros, self.cost_micros or 0))
        return f"all runs together cost {cost:g} in the last 24 hours, of {most:g}"


NO_BOUNDS = DayBounds()


@dataclass(frozen=True, slots=True)
class Day:
    """The usage of the runs of every process, compared with the limits of this one."""

    store: RunStore
    bounds: DayBounds
    now: Clock

    async def reached(self) -> str:
        """Return why no model may be asked now; "" if one may be."""
        bounds = self.bounds
        if bounds.cost_micros is not None and not bounds.priced:
            return UNPRICED
        if bounds.tokens is None and bounds.cost_micros is None:
            return ""
        return bounds.reached(await self.store.total(since=self.now() - DAY))

    async def limit_for(self, run: Run) -> DayLimitReached | None:
        """Return why a run in progress may not ask the model again: the limit is reached, or the run's own cost is unknown."""
        if self.bounds.cost_micros is not None and run.spent.unpriced:
            return DayLimitReached(UNPRICED, temporary=False)
        why = await self.reached()
        return DayLimitReached(why) if why else None

    async def spent(self) -> str:
        """Return why no run may begin or continue now, and when that is possible again; "" if it is possible now."""
        why = await self.reached()
        if why in ("", UNPRICED):
            return why
        # Search for when enough of the usage is older than 24 hours, if none is added: not yet after `low` steps, but after `high`.
        now, low, high = self.now(), 0, DAY // PRECISION
        while high - low > 1:
            middle = (low + high) // 2
            took = await self.store.total(since=now - DAY + middle * PRECISION)
            low, high = (middle, high) if self.bounds.reached(took) else (low, middle)
        room = now + (high + 1) * PRECISION  # rounded up: the sentence has no seconds
        return f"{why}; there is room again at {room:%Y-%m-%d %H:%M} UTC at the earliest"
