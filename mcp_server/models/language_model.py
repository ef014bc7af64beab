"""The language model that the settings name. What asks it is loaded at the first question, for the vendors' packages take a second."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import anyio

from agents.loop.model.ports import Provider
from agents.loop.processor import Cost
from agents.loop.providers.access import Access, RequestPatience
from agents.loop.providers.usage import MILLION, Accounted, Price, UsageBook
from mcp_server.app.settings.access import ModelAccess
from mcp_server.app.settings.notes import priced
from mcp_server.app.settings.values import ModelPrice
from mcp_server.gate.caller import Clock
from mcp_server.models.secret_mask import masked
from mcp_server.runs.daily_limit import DayBounds


class ConfiguredModel:
    """One language model, asked by all that this process does. `sleep` waits between tries, for as long as `patience` allows."""

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
        self.book = UsageBook({price.pattern: _price(price) for price in access.prices})

    @property
    def name(self) -> str:
        """Return whose interface and which model, as `vendor:model`."""
        return str(self._access.name)

    @property
    def cost(self) -> Cost:
        """Return what its answers cost."""
        return self.book.cost_of

    @property
    def run_tokens(self) -> int | None:
        """Return how many tokens one run may use."""
        return self._access.run_tokens

    @property
    def run_answer_tokens(self) -> int:
        """Return how long one answer in a run may be."""
        return self._access.run_answer_tokens

    @property
    def run_context_tokens(self) -> int:
        """Return how much of a run it is told at most."""
        return self._access.run_context_tokens

    @property
    def run_cost_micros(self) -> int | None:
        """Return how many millionths of the currency of the prices one run may cost."""
        return None if self._access.run_cost is None else int(self._access.run_cost * MILLION)

    @property
    def run_day(self) -> DayBounds:
        """Return how much all runs together may take in a day."""
        return day_bounds(self._access)

    def helps(self, what: str) -> bool:
        """Return whether it is to help with that, beside runs."""
        return what in self._access.helps

    @property
    def loaded(self) -> bool:
        """Return whether what asks it is loaded, so that `provider` returns at once."""
        return self._provider is not None

    async def provider(self) -> Provider:
        """Return what asks it, the same each time, every question taken down in `book`.

        Raises:
            ProviderError: it cannot be asked as it is configured: no key, a package that is not installed.
        """
        if self._provider is None:
            async with self._lock:
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
            from agents.loop.providers.anthropic.provider import anthropic_provider

            return anthropic_provider(access, patience=self._patience, sleep=self._sleep, now=self._now)
        from agents.loop.providers.openai.provider import Interface, openai_provider

        interface: Interface = "responses" if name.vendor == "openai-responses" else "chat"
        return openai_provider(access, interface, patience=self._patience, sleep=self._sleep, now=self._now)


def day_bounds(access: ModelAccess) -> DayBounds:
    """Return how much all runs together may take in a day, by the settings of this process."""
    cost = None if access.run_day_cost is None else int(access.run_day_cost * MILLION)
    return DayBounds(access.run_day_tokens, cost, priced=priced(access.name.model, access.prices))


def _price(told: ModelPrice) -> Price:
    return Price(told.input, told.output, told.cached, told.written)
