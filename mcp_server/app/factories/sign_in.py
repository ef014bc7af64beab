"""How access tokens of sign-in servers are checked in this process."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from contextlib import AsyncExitStack
from functools import cache, partial
from typing import TYPE_CHECKING

import anyio
import httpx

from mcp_server.app.settings.settings import Settings
from mcp_server.gate.host_registration import Principal
from mcp_server.late_module import LateModule

if TYPE_CHECKING:
    from mcp_server.transport.sign_in import access_tokens, issuer_keys
else:
    # Only where FORGE_OAUTH_ISSUERS names a sign-in server: they load cryptography.
    access_tokens = LateModule("mcp_server.transport.sign_in.access_tokens")
    issuer_keys = LateModule("mcp_server.transport.sign_in.issuer_keys")

PATIENCE_S = 10.0
"""The longest time to read one document of a sign-in server."""
LARGEST_BYTES = 512 * 1024


def sign_in_of(settings: Settings, stack: AsyncExitStack) -> Callable[[str], Awaitable[Principal]] | None:
    """Return how an access token becomes a principal; None if no sign-in server is configured."""
    access = settings.http_access
    if not access.issuers or access.url is None:
        return None

    @cache
    def client() -> httpx.AsyncClient:
        made = httpx.AsyncClient(follow_redirects=False, timeout=PATIENCE_S)
        stack.push_async_callback(made.aclose)
        return made

    async def fetch(address: str) -> bytes:
        return await document(client(), address)

    keys = {one.url: issuer_keys.IssuerKeys(one.url, fetch) for one in access.issuers}
    return access_tokens.AccessTokens(access.issuers, access.url, access.scopes, keys).principal


async def unreadable_issuers(settings: Settings) -> Mapping[str, str]:
    """Return the sign-in servers whose keys cannot be read now, by name, each with the reason."""
    found: dict[str, str] = {}
    async with httpx.AsyncClient(follow_redirects=False, timeout=PATIENCE_S) as client:
        for issuer in settings.oauth_issuers:
            try:
                keys = await issuer_keys.IssuerKeys(issuer.url, partial(document, client)).read_keys()
            except (OSError, ValueError) as error:
                found[issuer.name] = str(error) or type(error).__name__
            else:
                if not keys:
                    found[issuer.name] = "it publishes no key for signatures"
    return found


async def document(client: httpx.AsyncClient, address: str) -> bytes:
    """Return the document at an address of a sign-in server. No redirect is followed.

    Raises:
        OSError: it can't be had within `PATIENCE_S`, or is too large.
    """
    found = bytearray()
    try:
        with anyio.fail_after(PATIENCE_S):
            async with client.stream(
                "GET", address, headers={"accept": "application/json", "accept-encoding": "identity"}
            ) as answer:
                if answer.status_code != httpx.codes.OK:
                    raise OSError(f"HTTP status {answer.status_code}")
                async for block in answer.aiter_bytes():
                    found += block
                    if len(found) > LARGEST_BYTES:
                        raise OSError(f"it is larger than {LARGEST_BYTES} bytes")
    except (httpx.HTTPError, httpx.InvalidURL) as error:
        raise OSError(f"{type(error).__name__}: {error}") from error
    return bytes(found)
