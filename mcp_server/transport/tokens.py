"""Bearer tokens over HTTP: a wrong one is refused before anything of MCP is looked at, and never taken for none."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

from knowledge.errors import StorageError
from mcp_server.gate.host_registration import Principal, UnknownSecret

if TYPE_CHECKING:
    from starlette.datastructures import Headers
    from starlette.types import ASGIApp, Receive, Scope, Send

logger = logging.getLogger("knowledge_forge")

Named = Callable[[str], Awaitable[Principal]]
"""From a token to who sends it; raises UnknownSecret for one that is nobody's."""


def bearer(headers: Headers) -> str | None:
    """Return the bearer token of a request: None without `Authorization`, "" where that is something else, or there twice."""
    given = headers.getlist("authorization")
    if not given:
        return None
    scheme, _, token = given[0].partition(" ")
    return token.strip() if scheme.lower() == "bearer" and len(given) == 1 else ""


class KnownTokens:
    """Passes on requests without `Authorization` and those of a registered host; all others are answered with 401.

    The host is noted as the request's user: the SDK keeps a session to the one that opened it.
    """

    def __init__(self, app: ASGIApp, *, named: Named) -> None:
        self._app, self._named = app, named

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        from starlette.datastructures import Headers
        from starlette.responses import JSONResponse

        if scope["type"] == "http" and (token := bearer(Headers(scope=scope))) is not None:
            try:
                scope = {**scope, "user": _user((await self._named(token)).host)}
            except UnknownSecret as error:
                told = {"error": "invalid_token", "error_description": str(error)}
                refused = JSONResponse(told, 401, {"WWW-Authenticate": 'Bearer error="invalid_token"'})
                await refused(scope, receive, send)
                return
            except StorageError:  # the gate refuses what it must, with a sentence that says why
                logger.warning("cannot tell now whose token that is", exc_info=True)
        await self._app(scope, receive, send)


def _user(host: str) -> object:
    from mcp.server.auth.middleware.bearer_auth import AuthenticatedUser
    from mcp.server.auth.provider import AccessToken

    return AuthenticatedUser(
        AccessToken(token="", client_id=host, scopes=[])
    )  # what a session remembers holds no secret
