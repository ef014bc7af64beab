"""Bearer tokens over HTTP: a wrong one is refused before any MCP is parsed, and never treated as missing."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from mcp.server.auth.middleware.bearer_auth import AuthenticatedUser
from mcp.server.auth.provider import AccessToken
from starlette.datastructures import Headers
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Receive, Scope, Send

from knowledge.errors import StorageError
from mcp_server.gate.host_registration import Principal, UnknownSecret

logger = logging.getLogger("knowledge_forge")

IN_ADDRESS = (
    "send the token in the `Authorization` header: addresses end up in logs and histories, so replace this token"
)
Named = Callable[[str], Awaitable[Principal]]
"""From a token to its principal; raises UnknownSecret for a token that belongs to nobody."""


def bearer(headers: Headers) -> str | None:
    """Return a request's bearer token: None without `Authorization`, "" if that header is something else, or there twice."""
    given = headers.getlist("authorization")
    if not given:
        return None
    scheme, _, token = given[0].partition(" ")
    return token.strip() if scheme.lower() == "bearer" and len(given) == 1 else ""


def refusal(why: str) -> JSONResponse:
    """Return the answer to a request with a token that proves nothing."""
    problem = {"error": "invalid_token", "error_description": why}
    return JSONResponse(problem, 401, {"WWW-Authenticate": 'Bearer error="invalid_token"'})


def user_of(scope: Mapping[str, Any]) -> str | None:
    """Return the id of the principal whose token `KnownTokens` found in the request, None if there was none."""
    user = scope.get("user")
    return user.access_token.client_id if isinstance(user, AuthenticatedUser) else None


class KnownTokens:
    """Passes on requests without `Authorization` and those with a valid credential; all others are answered with 401.

    The principal is set as the request's user: the SDK keeps a session to the user that opened it.
    """

    def __init__(self, app: ASGIApp, *, named: Named) -> None:
        self._app, self._named = app, named

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        if b"access_token=" in scope["query_string"].lower():
            await refusal(IN_ADDRESS)(scope, receive, send)
            return
        if (token := bearer(Headers(scope=scope))) is not None:
            try:
                principal = (await self._named(token)).id
            except UnknownSecret as error:
                await refusal(str(error))(scope, receive, send)
                return
            except StorageError:  # the gate checks again, and refuses with a sentence that gives the reason
                logger.warning("cannot look up a bearer token now", exc_info=True)
            else:
                # Without the token, because a session would remember it.
                access = AccessToken(token="", client_id=principal, scopes=[])
                scope = {**scope, "user": AuthenticatedUser(access)}
        await self._app(scope, receive, send)
