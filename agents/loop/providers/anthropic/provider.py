"""Anthropic's models, through the vendor's package. The package is loaded when the first provider is built: that takes a second."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from datetime import UTC, datetime

import anyio

from agents.loop.model.errors import NoProvider, NotInstalled
from agents.loop.providers.access import Access, RequestPatience
from agents.loop.providers.anthropic.wire import NAME, AnthropicWire
from agents.loop.providers.request_loop import ModelProvider
from agents.loop.providers.vendor_client import VendorChannel, build_client, check_access

ADDRESS = "https://api.anthropic.com"


def anthropic_provider(
    access: Access,
    *,
    patience: RequestPatience | None = None,
    sleep: Callable[[float], Awaitable[None]] = anyio.sleep,
    now: Callable[[], datetime] = lambda: datetime.now(UTC),
) -> ModelProvider:
    """Return a provider for Anthropic, or for a server with the same interface.

    Raises:
        NoProvider: there is no key.
        BadKey: the key is malformed. BadAddress: the address is malformed.
        NotInstalled: the extra is missing.
        BadSurroundings: the environment names a proxy or certificates that cannot be used.
    """
    if not access.key:
        raise NoProvider(access.key_setting, f"{NAME} needs a key, and none is configured")
    check_access(NAME, access)
    try:
        import anthropic
    except ImportError as error:
        raise NotInstalled(NAME, "anthropic") from error
    client = build_client(
        NAME,
        anthropic,
        anthropic.AsyncAnthropic,
        api_key=access.key,
        # The package adds `/v1`. Without this argument it would read an address from the environment.
        base_url=(access.address or ADDRESS).rstrip("/").removesuffix("/v1"),
        open_telemetry=False,
    )
    bounds = patience or RequestPatience()
    channel = VendorChannel(anthropic, client, client.messages, patience=bounds, now=now)
    return ModelProvider(NAME, access, AnthropicWire(access.model), channel, patience=bounds, sleep=sleep)
