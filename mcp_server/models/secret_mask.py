"""Keeps a key out of what comes back: a gateway may echo what it was sent, and what a model says is kept on record."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

from agents.loop.model.errors import Malformed, ProviderError
from agents.loop.model.ports import JsonReply, ModelReply, ModelRequest, Provider, ProviderWrapper, Shape, ToolUse

MASK: Final = "[key]"
SHORTEST: Final = 8
"""A key that is shorter is none that anybody is kept from, and would be found in ordinary words."""


class Masked(ProviderWrapper):
    """A provider that never says the key by which it is asked: it is taken out of answers, and errors that hold it are replaced."""

    def __init__(self, provider: Provider, key: str) -> None:
        super().__init__(provider)
        self._key = key

    async def complete(self, asked: ModelRequest) -> ModelReply:
        """Return the answer without the key. Sealed thoughts with the key in them are not kept.

        Raises:
            ProviderError: as the port says.
        """
        try:
            said = await self._provider.complete(asked)
        except ProviderError as error:
            raise self._without(error) from None
        uses = tuple(
            ToolUse(self._clean(use.id), self._clean(use.name), self._clean(use.arguments), self._clean(use.problem))
            for use in said.uses
        )
        kept = said.echo is not None and uses == said.uses and not self._holds(said.echo.content)
        echo = said.echo if kept else None
        plain = {"text": self._clean(said.text), "model": self._clean(said.model), "request": self._clean(said.request)}
        return replace(said, uses=uses, echo=echo, **plain)

    async def complete_json(self, asked: ModelRequest, shape: Shape) -> JsonReply:
        """Return the JSON without the key.

        Raises:
            ProviderError: as the port says.
        """
        try:
            told = await self._provider.complete_json(asked, shape)
        except ProviderError as error:
            raise self._without(error) from None
        value, model, request = self._clean(told.value), self._clean(told.model), self._clean(told.request)
        return replace(told, value=value, model=model, request=request)

    def _without(self, error: ProviderError) -> ProviderError:
        """Return the error, or another in its place where a server had the key repeated in a word of its own."""
        if not any(self._holds(str(told)) for told in (error, *vars(error).values())):
            return error
        return Malformed(self._provider.name, "it repeats what it was sent", error.usage)

    def _holds(self, text: str) -> bool:
        """Return whether the key is in the text, or in the JSON that it is."""
        return self._key in text or json.dumps(self._key)[1:-1] in text

    def _clean(self, value: Any) -> Any:
        if isinstance(value, str):
            return value.replace(self._key, MASK)
        if isinstance(value, Mapping):
            return {self._clean(name): self._clean(inner) for name, inner in value.items()}
        if isinstance(value, list | tuple):
            return [self._clean(inner) for inner in value]
        return value


def masked(provider: Provider, key: str | None) -> Provider:
    """Return the provider so that it never says the key."""
    return Masked(provider, key) if key and len(key) >= SHORTEST else provider
