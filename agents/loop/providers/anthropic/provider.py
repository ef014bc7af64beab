"""Anthropic's models, through the vendor's package. The package is loaded when the first one is built."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from datetime import UTC, datetime

import anyio

from agents.loop.model.errors import NoProvider, NotInstalled
from agents.loop.providers.access import Access, RequestPatience
from agents.loop.providers.anthropic.wire import NAME, AnthropicWire
from agents.loop.providers.request_loop import ModelProvider
from agents.loop.providers.vendor_client import (
    PackagedLine,
    Vendor,
    careful,
    check,
    quiet,
    surroundings,
    without_ambient_headers,
)

ADDRESS = "https://api.anthropic.com"


def anthropic_provider(
    access: Access,
    *,
    patience: RequestPatience | None = None,
    sleep: Callable[[float], Awaitable[None]] = anyio.sleep,
    now: Callable[[], datetime] = lambda: datetime.now(UTC),
) -> ModelProvider:
    """Return a provider that asks Anthropic, or a server that speaks as it does.

    Raises:
        NoProvider: there is no key.
        BadKey: it cannot be a key.
        BadAddress: the address is none.
        NotInstalled: the extra is missing.
        BadSurroundings: the environment names a proxy or certificates that cannot be used.
    """
    if not access.key:
        raise NoProvider(access.key_setting, f"{NAME} is asked with a key, and none is configured")
    check(NAME, access)
    try:
        import anthropic
    except ImportError as error:
        raise NotInstalled(NAME, "anthropic") from error
    quiet("anthropic")
    bounds = patience or RequestPatience()
    with surroundings(NAME):
        client = anthropic.AsyncAnthropic(
            api_key=access.key,
            # The package adds `/v1`; given here, nothing is read from the environment.
            base_url=(access.address or ADDRESS).rstrip("/").removesuffix("/v1"),
            max_retries=0,
            open_telemetry=False,
            http_client=anthropic.DefaultAsyncHttpxClient(**careful()),
        )
    without_ambient_headers(client)
    vendor = Vendor(anthropic, client.messages.with_raw_response.create, client.messages.create, client.close)
    line = PackagedLine(vendor, bounds, now)
    return ModelProvider(NAME, access, AnthropicWire(access.model), line, patience=bounds, sleep=sleep)
