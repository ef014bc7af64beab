"""What stands around a provider and is one itself."""

from __future__ import annotations

from agents.loop.model.ports import Provider


class ProviderWrapper:
    """Something that is asked in the place of a provider, and asks it: the same vendor, model and connections."""

    def __init__(self, provider: Provider) -> None:
        self._provider = provider

    @property
    def name(self) -> str:
        """Return the vendor's name."""
        return self._provider.name

    @property
    def model(self) -> str:
        """Return the model that is asked; prices are looked up by it, since vendors answer with dated names."""
        return self._provider.model

    async def aclose(self) -> None:
        """Close the provider's connections."""
        await self._provider.aclose()
