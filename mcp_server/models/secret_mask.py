"""Keeps the key out of replies: a gateway may echo the request, and the model's answers are recorded."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Mapping
from dataclasses import replace
from typing import Any, Final, TypeVar

from agents.loop.model.errors import Malformed, ProviderError
from agents.loop.model.ports import JsonReply, ModelReply, ModelRequest, Provider, ProviderWrapper, Shape, ToolUse

MASK: Final = "[key]"
SHORTEST: Final = 8
"""The shortest key that is masked: a shorter one protects nothing, and would be found in ordinary words."""

Reply = TypeVar("Reply", ModelReply, JsonReply)


class Masked(ProviderWrapper):
    """A provider that never reveals its key: the key is removed from answers, and errors that contain it are replaced."""

    def __init__(self, provider: Provider, key: str) -> None:
        super().__init__(provider)
        self._key = key

    async def complete(self, request: ModelRequest) -> ModelReply:
        """Return the reply without the key.

        The part that the vendor wants back unchanged is dropped if it contains the key, or no longer fits the calls.

        Raises:
            ProviderError: as the port says.
        """
        reply = await self._answer(self._provider.complete(request))
        uses, echo = self._clean(reply.uses), reply.echo
        if echo is not None and (uses != reply.uses or self._holds(echo.content)):
            echo = None
        return replace(reply, uses=uses, echo=echo, text=self._clean(reply.text))

    async def complete_json(self, request: ModelRequest, shape: Shape) -> JsonReply:
        """Return the JSON without the key.

        Raises:
            ProviderError: as the port says.
        """
        reply = await self._answer(self._provider.complete_json(request, shape))
        return replace(reply, value=self._clean(reply.value))

    async def _answer(self, answer: Awaitable[Reply]) -> Reply:
        """Return the answer without the key in the names of its model and request, or raise an error without it."""
        try:
            reply = await answer
        except ProviderError as error:
            raise self._without_key(error) from None  # the cause may hold the key too
        return replace(reply, model=self._clean(reply.model), request=self._clean(reply.request))

    def _without_key(self, error: ProviderError) -> ProviderError:
        """Return the error, or another one in its place if a word from the server contains the key."""
        if not any(self._holds(str(value)) for value in (error, *vars(error).values())):
            return error
        return Malformed(self._provider.name, "it repeats what it was sent", error.usage)

    def _holds(self, text: str) -> bool:
        """Return whether the key is in the text, as it is or as JSON writes it."""
        return self._key in text or json.dumps(self._key)[1:-1] in text

    def _clean(self, value: Any) -> Any:
        if isinstance(value, str):
            return value.replace(self._key, MASK)
        if isinstance(value, Mapping):
            return {self._clean(name): self._clean(inner) for name, inner in value.items()}
        if isinstance(value, tuple):
            return tuple(self._clean(inner) for inner in value)
        if isinstance(value, list):
            return [self._clean(inner) for inner in value]
        if isinstance(value, ToolUse):
            return ToolUse(*(self._clean(part) for part in (value.id, value.name, value.arguments, value.problem)))
        return value


def masked(provider: Provider, key: str | None) -> Provider:
    """Return the provider, wrapped so that it never reveals the key."""
    return Masked(provider, key) if key and len(key) >= SHORTEST else provider
