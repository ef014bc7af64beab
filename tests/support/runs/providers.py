"""Where the providers' suites run: the double in each of three wire formats, or real services that variables name.

FORGE_TEST_ANTHROPIC_KEY (and _MODEL, _URL) names Anthropic; FORGE_TEST_OPENAI_KEY or FORGE_TEST_OPENAI_URL (and _MODEL)
names OpenAI or a server with its interface; FORGE_TEST_OPENAI_RESPONSES, if set, says that it also has Responses.
"""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field

import pytest

from agents.loop.providers.access import Access, RequestPatience
from agents.loop.providers.anthropic.provider import anthropic_provider
from agents.loop.providers.openai.provider import Interface, openai_provider
from agents.loop.providers.request_loop import ModelProvider
from tests.doubles.provider import KEY, Model
from tests.doubles.provider_turns import Script
from tests.doubles.serving import Served, serving

KINDS = ("anthropic", "chat", "responses")
IN_PIECES = RequestPatience(stream_above=0)
IN_ONE = RequestPatience()


@dataclass
class Place:
    """One server in one wire format. `slept` are the waits between tries, which were only simulated."""

    kind: str
    access: Access
    model: Model | None = None
    served: Served | None = None
    slept: list[float] = field(default_factory=list)

    def will(self, words: str, *script: Script) -> None:
        """Set the double's answers; a real model answers by itself, as the words ask."""
        if self.model:
            self.model.will(words, *script)

    @property
    def double(self) -> Model:
        """Return the double."""
        assert self.model
        return self.model

    @property
    def net(self) -> Served:
        """Return the double's connections."""
        assert self.served
        return self.served

    @asynccontextmanager
    async def provider(
        self, patience: RequestPatience = IN_ONE, access: Access | None = None
    ) -> AsyncIterator[ModelProvider]:
        """Open a provider for that server."""

        async def sleep(seconds: float) -> None:
            self.slept.append(seconds)

        at = access or self.access
        if self.kind == "anthropic":
            provider = anthropic_provider(at, patience=patience, sleep=sleep)
        else:
            interface: Interface = "responses" if self.kind == "responses" else "chat"
            provider = openai_provider(at, interface, patience=patience, sleep=sleep)
        try:
            yield provider
        finally:
            await provider.aclose()


@contextmanager
def double_of(kind: str, model: Model | None = None) -> Iterator[Place]:
    """Open the double and return its address."""
    model = model or Model()
    with serving(model) as served:
        address = served.address if kind == "anthropic" else f"{served.address}/v1"
        access = Access(
            "some-model",
            model.key or "",
            address,
            key_setting="A_KEY",
            address_setting="A_URL",
            model_setting="A_MODEL",
            bound_setting="A_BOUND",
        )
        yield Place(kind, access, model, served)


@contextmanager
def real(kind: str) -> Iterator[Place]:
    """Return the real service's address, or skip."""
    name = "ANTHROPIC" if kind == "anthropic" else "OPENAI"
    key, address, model = (os.environ.get(f"FORGE_TEST_{name}_{part}", "") for part in ("KEY", "URL", "MODEL"))
    if not key and not (address and kind != "anthropic"):
        pytest.skip(f"FORGE_TEST_{name}_KEY names no account")
    if kind == "responses" and not os.environ.get("FORGE_TEST_OPENAI_RESPONSES"):
        pytest.skip("FORGE_TEST_OPENAI_RESPONSES is not set")
    if not model:
        pytest.fail(f"FORGE_TEST_{name}_MODEL must say which model to ask")
    yield Place(kind, Access(model, key, address))


__all__ = ["IN_ONE", "IN_PIECES", "KEY", "KINDS", "Place", "double_of", "real"]
