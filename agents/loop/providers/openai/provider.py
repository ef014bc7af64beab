"""OpenAI's models, and servers that speak as OpenAI's does, through the vendor's package. It is loaded when one is built."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from typing import Any, Literal
from urllib.parse import parse_qsl, urlsplit

import anyio

from agents.loop.model.errors import NoProvider, NotInstalled
from agents.loop.providers.access import Access, RequestPatience
from agents.loop.providers.openai.chat_wire import ChatWire
from agents.loop.providers.openai.responses_wire import NAME, ResponsesWire
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
from agents.loop.providers.wire.request import Wire

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
    """Return a provider that asks OpenAI, or the server at the address of `access`, which usually ends with `/v1`.

    Nearly all servers know `chat`; `responses` keeps the thoughts of OpenAI's models between uses of tools.

    Raises:
        NoProvider: there is neither a key nor an address of one's own.
        BadKey: it cannot be a key.
        BadAddress: the address is none.
        NotInstalled: the extra is missing.
        BadSurroundings: the environment names a proxy or certificates that cannot be used.
    """
    if not access.key and not access.address:
        raise NoProvider(access.key_setting, f"{NAME} is asked with a key, and none is configured")
    check(NAME, access)
    try:
        import openai
    except ImportError as error:
        raise NotInstalled(NAME, "openai") from error
    quiet("openai")
    bounds = patience or RequestPatience()
    address, _, query = (access.address or ADDRESS).partition("?")
    with surroundings(NAME):
        client = openai.AsyncOpenAI(
            # The package wants some text; a server of one's own may take no key, and is sent none then.
            api_key=access.key or "none",
            base_url=address,
            # Azure wants the version of its interface there.
            default_query=dict(parse_qsl(query)),
            # Given empty, it is not read from the environment: another account's words are not for any server.
            admin_api_key="",
            max_retries=0,
            http_client=openai.DefaultAsyncHttpxClient(**careful()),
        )
    without_ambient_headers(client)
    wire: Wire
    resource: Any
    if interface == "responses":
        wire, resource = ResponsesWire(access.model), client.responses
    else:
        bound = "max_completion_tokens" if _vendors_own(address) else "max_tokens"
        wire, resource = ChatWire(access.model, bound), client.chat.completions
    # The package takes these from the environment; whose account it is, the key says.
    headers = {"OpenAI-Organization": openai.Omit(), "OpenAI-Project": openai.Omit()}
    if not access.key:
        headers["Authorization"] = openai.Omit()
    vendor = Vendor(openai, resource.with_raw_response.create, resource.create, client.close, headers)
    return ModelProvider(NAME, access, wire, PackagedLine(vendor, bounds, now), patience=bounds, sleep=sleep)


def _vendors_own(address: str) -> bool:
    host = urlsplit(address).hostname or ""
    return f".{host}".endswith(VENDORS_OWN)
