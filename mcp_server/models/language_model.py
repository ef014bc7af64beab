"""The language model in the settings. Its vendor's package is loaded with the first question, because that takes a second."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import anyio

from agents.loop.model.ports import Provider
from agents.loop.processor import Cost
from agents.loop.providers.access import Access, RequestPatience
from agents.loop.providers.anthropic.provider import anthropic_provider
from agents.loop.providers.openai.provider import Interface, openai_provider
from agents.loop.providers.usage import MILLION, Accounted, Price, UsageBook
from agents.loop.record.frames import RunLimits
from mcp_server.app.settings.access import ModelAccess
from mcp_server.app.settings.notes import priced
from mcp_server.fair_use.turns import leave_turn
from mcp_server.gate.caller import Clock
from mcp_server.models.secret_mask import masked
from mcp_server.runs.daily_limit import DayBounds


class ConfiguredModel:
    """One language model for everything that this process asks. `sleep` waits between tries, as long as `patience` allows."""

    def __init__(
        self,
        access: ModelAccess,
        *,
        now: Clock,
        sleep: Callable[[float], Awaitable[None]],
        patience: RequestPatience | None = None,
    ) -> None:
        self._access, self._now, self._sleep, self._patience = access, now, sleep, patience
        self._lock = anyio.Lock()
        self._provider: Provider | None = None
        prices = {one.pattern: Price(one.input, one.output, one.cached, one.written) for one in access.prices}
        self.book = UsageBook(prices)

    @property
    def name(self) -> str:
        """Interface and model, as `vendor:model`."""
        return str(self._access.name)

    @property
    def cost(self) -> Cost:
        """The function that prices its answers."""
        return self.book.cost_of

    def run_limits(self, iterations: int, seconds: float) -> RunLimits:
        """Return the limits of a run: those that its caller sets, and those in the settings."""
        access = self._access
        return RunLimits(
            iterations=iterations,
            seconds=seconds,
            tokens=access.run_tokens,
            cost_micros=None if access.run_cost is None else int(access.run_cost * MILLION),
            context_tokens=access.run_context_tokens,
            answer_tokens=access.run_answer_tokens,
        )

    @property
    def run_day(self) -> DayBounds:
        """The limits of all runs together in a day."""
        return day_bounds(self._access)

    @property
    def loaded(self) -> bool:
        """Whether the provider is loaded, so that `provider` returns at once."""
        return self._provider is not None

    async def provider(self) -> Provider:
        """Return the provider, the same each time, with every question recorded in `book`.

        Raises:
            ProviderError: the model cannot be asked with its present settings: no key, a package that is not installed.
        """
        leave_turn()
        if self._provider is None:
            async with self._lock:
                # Another question may have built it while this one waited for the lock.
                if self._provider is None:
                    built = await anyio.to_thread.run_sync(self._build)
                    self._provider = masked(Accounted(built, self.book), self._access.key)
        return self._provider

    async def aclose(self) -> None:
        """Close its connections, if there are any."""
        if self._provider is not None:
            await self._provider.aclose()

    def _build(self) -> Provider:
        name = self._access.name
        access = Access(
            name.model,
            self._access.key or "",
            self._access.address or "",
            key_setting=self._access.key_setting,
            address_setting=self._access.address_setting,
            model_setting="FORGE_MODEL",
            bound_setting="FORGE_RUN_ANSWER_TOKENS",
        )
        if name.company == "anthropic":
            return anthropic_provider(access, patience=self._patience, sleep=self._sleep, now=self._now)
        interface: Interface = "responses" if name.vendor == "openai-responses" else "chat"
        return openai_provider(access, interface, patience=self._patience, sleep=self._sleep, now=self._now)


def day_bounds(access: ModelAccess) -> DayBounds:
    """Return the limits of all runs together in a day, from the settings of this process."""
    cost = None if access.run_day_cost is None else int(access.run_day_cost * MILLION)
    return DayBounds(access.run_day_tokens, cost, priced=priced(access.name.model, access.prices))
