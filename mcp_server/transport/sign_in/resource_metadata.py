"""What this server says of itself to clients that look for a token: its sign-in servers and its first scope (RFC 9728)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from urllib.parse import urlsplit

from mcp.server.auth.routes import build_resource_metadata_url, create_protected_resource_routes
from pydantic import AnyHttpUrl
from starlette.routing import Route

from mcp_server.app.settings.sign_in import Issuer, ScopeReach
from mcp_server.gate.policy import Trust
from mcp_server.transport.sign_in.scopes import least

AT_ROOT = "/.well-known/oauth-protected-resource"
"""Where clients look if they find nothing at the address that has the path of the endpoint."""


@dataclass(frozen=True, slots=True)
class AboutResource:
    """The metadata: where it is, its routes with their paths, and the parts of a 401 that lead to it."""

    url: str
    routes: Sequence[Route]
    paths: tuple[str, ...]
    challenge: tuple[str, ...]


def about(resource: str, issuers: Sequence[Issuer], scopes: Sequence[ScopeReach]) -> AboutResource:
    """Return the metadata of the server at that address. It names the least scope; clients ask for more when a request needs it."""
    first = least(scopes, Trust.READ, ())
    address = AnyHttpUrl(resource)
    (route,) = create_protected_resource_routes(
        address, [AnyHttpUrl(one.url) for one in issuers], list(first), "Knowledge Forge"
    )
    url = str(build_resource_metadata_url(address))
    paths = tuple(dict.fromkeys((urlsplit(url).path, AT_ROOT)))
    routes = [Route(path, route.endpoint, methods=["GET", "OPTIONS"]) for path in paths]
    named = (f'scope="{" ".join(first)}"',) if first else ()
    return AboutResource(url, routes, paths, (*named, f'resource_metadata="{url}"'))
