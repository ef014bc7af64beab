"""OpenAI's models, and servers with the same interface, through the vendor's package, which is loaded when a provider is built."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from typing import Literal
from urllib.parse import parse_qsl, urlsplit

import anyio

from agents.loop.model.errors import NoProvider, NotInstalled
from agents.loop.providers.access import Access, RequestPatience
from agents.loop.providers.openai.chat_wire import ChatWire
from agents.loop.providers.openai.responses_wire import NAME, ResponsesWire
from agents.loop.providers.request_loop import ModelProvider
from agents.loop.providers.vendor_client import VendorChannel, build_client, check_access

ADDRESS = "https://api.openai.com/v1"
VENDORS_OWN = (".openai.com", ".openai.azure.com")

Interface = Literal["chat", "responses"]


def openai_provider(
    access: Access,
    interface: Interface = "chat",
    *,
    patience: RequestPatience | None = None,
    sleep: Callable[[float], Awaitable[None]] = anyio.sleep,
    now: Callable[[], datetime] = lambda: datetime.now(UTC),
) -> ModelProvider:
    """Return a provider for OpenAI, or for the server at the address of `access`, which usually ends with `/v1`.

    Nearly all servers know `chat`; `responses` keeps the reasoning of OpenAI's models between tool uses.

    Raises:
        NoProvider: there is neither a key nor a configured address. BadKey: the key is malformed. BadAddress: the
        address is malformed.
        NotInstalled: the extra is missing.
        BadSurroundings: the environment names a proxy or certificates that cannot be used.
    """
    if not access.key and not access.address:
        raise NoProvider(access.key_setting, f"{NAME} needs a key, and none is configured")
    check_access(NAME, access)
    try:
        import openai
    except ImportError as error:
        raise NotInstalled(NAME, "openai") from error
    address, _, query = (access.address or ADDRESS).partition("?")
    client = build_client(
        NAME,
        openai,
        openai.AsyncOpenAI,
        # The package insists on a text. Self-hosted servers may need no key; then the header is left out below.
        api_key=access.key or "none",
        base_url=address,
        # Azure wants the version of its interface there.
        default_query=dict(parse_qsl(query)),
        # An empty text keeps the package from reading another account's key from the environment.
        admin_api_key="",
    )
    # The package would read these from the environment too; the key alone identifies the account.
    headers = {"OpenAI-Organization": openai.Omit(), "OpenAI-Project": openai.Omit()}
    if not access.key:
        headers["Authorization"] = openai.Omit()
    bounds = patience or RequestPatience()
    if interface == "responses":
        channel = VendorChannel(openai, client, client.responses, patience=bounds, now=now, headers=headers)
        return ModelProvider(NAME, access, ResponsesWire(access.model), channel, patience=bounds, sleep=sleep)
    own = f".{urlsplit(address).hostname or ''}".endswith(VENDORS_OWN)
    wire = ChatWire(access.model, "max_completion_tokens" if own else "max_tokens")
    channel = VendorChannel(openai, client, client.chat.completions, patience=bounds, now=now, headers=headers)
    return ModelProvider(NAME, access, wire, channel, patience=bounds, sleep=sleep)
