"""How access tokens of sign-in servers are checked in this process."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from contextlib import AsyncExitStack
from functools import cache, partial
from typing import TYPE_CHECKING

import httpx

from mcp_server.app.settings.settings import Settings
from mcp_server.gate.host_registration import Principal
from mcp_server.late_module import LateModule

if TYPE_CHECKING:
    from mcp_server.transport.sign_in import access_tokens, documents, issuer_keys
else:
    # Only where FORGE_OAUTH_ISSUERS names a sign-in server: they load cryptography.
    access_tokens = LateModule("mcp_server.transport.sign_in.access_tokens")
    documents = LateModule("mcp_server.transport.sign_in.documents")
    issuer_keys = LateModule("mcp_server.transport.sign_in.issuer_keys")


def sign_in_of(settings: Settings, stack: AsyncExitStack) -> Callable[[str], Awaitable[Principal]] | None:
    """Return how an access token becomes a principal; None if no sign-in server is configured."""
    access = settings.http_access
    if not access.issuers or access.url is None:
        return None

    @cache
    def client() -> httpx.AsyncClient:
        made = documents.new_client()
        stack.push_async_callback(made.aclose)
        return made

    async def fetch(address: str) -> bytes:
        return await documents.document(client(), address)

    keys = {one.url: issuer_keys.IssuerKeys(one.url, fetch) for one in access.issuers}
    return access_tokens.AccessTokens(access.issuers, access.url, access.scopes, keys).principal


async def unreadable_issuers(settings: Settings) -> Mapping[str, str]:
    """Return the sign-in servers whose keys cannot be read now, by name, each with the reason."""
    found: dict[str, str] = {}
    async with documents.new_client() as client:
        for issuer in settings.oauth_issuers:
            try:
                keys = await issuer_keys.IssuerKeys(issuer.url, partial(documents.document, client)).read_keys()
            except (OSError, ValueError) as error:
                found[issuer.name] = str(error) or type(error).__name__
            else:
                if not keys:
                    found[issuer.name] = "it publishes no key for signatures"
    return found
