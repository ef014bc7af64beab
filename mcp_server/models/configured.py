"""The language model that the settings name. What asks it is loaded at the first question, for the vendors' packages take a second."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import anyio

from agents.loop.processor import Cost
from agents.loop.provider import Provider
from agents.loop.providers.access import Access
from agents.loop.providers.usage import Accounted, UsageBook
from mcp_server.services import Clock
from mcp_server.settings import ModelAccess


class ConfiguredModel:
    """One language model, asked by all that this process does. `sleep` waits between tries."""

    def __init__(self, access: ModelAccess, *, now: Clock, sleep: Callable[[float], Awaitable[None]]) -> None:
        self._access, self._now, self._sleep = access, now, sleep
        self._lock = anyio.Lock()
        self._provider: Provider | None = None
        self.book = UsageBook()

    @property
    def name(self) -> str:
        """Return whose interface and which model, as `vendor:model`."""
        return str(self._access.name)

    @property
    def cost(self) -> Cost:
        """Return what its answers cost."""
        return self.book.cost_of

    def helps(self, what: str) -> bool:
        """Return whether it is to help with that, beside runs."""
        return what in self._access.helps

    async def provider(self) -> Provider:
        """Return what asks it, the same each time, every question taken down in `book`.

        Raises:
            ProviderError: it cannot be asked as it is configured: no key, a package that is not installed.
        """
        if self._provider is None:
            async with self._lock:
                if self._provider is None:
                    built = await anyio.to_thread.run_sync(self._build)
                    self._provider = Accounted(built, self.book)
        return self._provider

    async def aclose(self) -> None:
        """Close its connections, if there are any."""
        if self._provider is not None:
            await self._provider.aclose()

    def _build(self) -> Provider:
        name = self._access.name
        theirs = name.vendor == "anthropic"
        access = Access(
            name.model,
            self._access.key or "",
            self._access.address or "",
            key_setting="ANTHROPIC_API_KEY" if theirs else "OPENAI_API_KEY",
            address_setting="ANTHROPIC_BASE_URL" if theirs else "OPENAI_BASE_URL",
            model_setting="FORGE_MODEL",
        )
        if theirs:
            from agents.loop.providers.anthropic import anthropic_provider

            return anthropic_provider(access, sleep=self._sleep, now=self._now)
        from agents.loop.providers.openai_compatible import Interface, openai_provider

        interface: Interface = "responses" if name.vendor == "openai-responses" else "chat"
        return openai_provider(access, interface, sleep=self._sleep, now=self._now)
