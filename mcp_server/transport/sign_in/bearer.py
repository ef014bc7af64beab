"""Bearer tokens over HTTP: a wrong one is refused before any MCP is parsed, and never treated as missing."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from typing import Any

import anyio
from mcp.server.auth.middleware.bearer_auth import AuthenticatedUser
from mcp.server.auth.provider import AccessToken
from starlette.datastructures import Headers
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from knowledge.errors import StorageError
from mcp_server.gate.host_registration import Principal, UnknownSecret
from mcp_server.transport.sign_in.wrong_tokens import TokenChecks, TooManyWrongTokens

logger = logging.getLogger("knowledge_forge")

IN_ADDRESS = (
    "send the token in the `Authorization` header: addresses end up in logs and histories, so replace this token"
)
MISSING = "this server needs a token in the `Authorization` header: `Bearer ...`. Ask the person who runs it for one"
UNKNOWN_NOW = "the server cannot check tokens right now; try again in a moment"
RETRY_S = 5
RECHECK_S = 30.0
"""The interval between two checks of the token of an open stream."""
TOO_SOON = -32003
"""The JSON-RPC code of a request that may succeed later, as of every other refusal."""
LIMITS = "forge.limits"
"""The key of a request's scope that has the limits of its token."""
Named = Callable[[str], Awaitable[Principal]]
"""Returns the principal of a token; raises UnknownSecret for a token that belongs to nobody."""


def bearer(headers: Headers) -> str | None:
    """Return a request's bearer token: None without `Authorization`, "" if that header is something else, or there twice."""
    given = headers.getlist("authorization")
    if not given:
        return None
    scheme, _, token = given[0].partition(" ")
    return token.strip() if scheme.lower() == "bearer" and len(given) == 1 else ""


def refusal(why: str, challenge: Sequence[str] = ()) -> JSONResponse:
    """Return the answer to a request with a token that proves nothing."""
    problem = {"error": "invalid_token", "error_description": why}
    parts = ('error="invalid_token"', *challenge)
    return JSONResponse(problem, 401, {"WWW-Authenticate": f"Bearer {', '.join(parts)}"})


def missing(challenge: Sequence[str] = ()) -> JSONResponse:
    """Return the answer to a request without a token, where one is required. It names no error: the client made no mistake yet."""
    header = f"Bearer {', '.join(challenge)}".rstrip()
    return JSONResponse({"error_description": MISSING}, 401, {"WWW-Authenticate": header})


def unknown_now() -> JSONResponse:
    """Return the answer if nobody can tell now whether a token is valid."""
    return JSONResponse({"error_description": UNKNOWN_NOW}, 503, {"Retry-After": str(RETRY_S)})


def later(why: str, retry_s: int) -> JSONResponse:
    """Return the answer to a request that comes too soon. It is also an error of JSON-RPC, whose sentence hosts show."""
    error = {"jsonrpc": "2.0", "id": None, "error": {"code": TOO_SOON, "message": why}}
    return JSONResponse(error, 429, {"Retry-After": str(retry_s)})


def too_many_open(principal: str, held: int) -> str:
    """Return the sentence for a principal with too many open requests."""
    return (
        f"{principal} has {held} open requests, streams of events included, the most allowed. Nothing was done. Close some, or a "
        "person can raise FORGE_LIMIT_AT_ONCE"
    )


def user_of(scope: Mapping[str, Any]) -> str | None:
    """Return the id of the principal whose token `KnownTokens` found in the request, None if there was none."""
    user = scope.get("user")
    return user.access_token.client_id if isinstance(user, AuthenticatedUser) else None


class KnownTokens:
    """Passes on requests with a valid token, and answers requests with a wrong one with 401.

    A request without `Authorization` is answered with 401 if `required`, and passed on otherwise.

    At most `most_open` requests of one principal are open, streams included; further ones are answered with 429.
    Requests for the paths of `but` are passed on as they are. `challenge` are further parts of the `WWW-Authenticate` of a 401.
    A stream of events ends within `RECHECK_S` after its token has expired or was revoked; a call that has begun may finish.

    The principal is set as the request's user: the SDK keeps a session to the user that opened it.
    """

    def __init__(
        self,
        app: ASGIApp,
        *,
        named: Named,
        required: bool = False,
        but: Collection[str] = (),
        challenge: Sequence[str] = (),
        most_open: int | None = None,
    ) -> None:
        self._most_open, self._open = most_open, Counter[str]()
        self._app, self._named, self._required, self._but = app, named, required, frozenset(but)
        self._challenge = tuple(challenge)
        self._checks = TokenChecks(named)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] != "http" or scope["path"] in self._but:
            await self._app(scope, receive, send)
            return
        if b"access_token=" in scope["query_string"].lower():
            await refusal(IN_ADDRESS, self._challenge)(scope, receive, send)
            return
        token = bearer(Headers(scope=scope))
        if token is None and self._required:
            await missing(self._challenge)(scope, receive, send)
            return
        if token is not None:
            try:
                principal = await self._checks.principal(token, (scope.get("client") or ("", 0))[0])
            except (TooManyWrongTokens, UnknownSecret) as error:
                await self._refused(error)(scope, receive, send)
                return
            except StorageError:
                logger.warning("cannot look up a bearer token now", exc_info=True)
                if self._required:
                    await unknown_now()(scope, receive, send)
                    return
                # Otherwise the gate checks again, and refuses with a sentence that gives the reason.
            else:
                # Without the token, because a session would remember it.
                access = AccessToken(token="", client_id=principal.id, scopes=[])
                scope = {**scope, "user": AuthenticatedUser(access), LIMITS: principal.limits}
                await self._for_principal(principal, token, scope, receive, send)
                return
        await self._app(scope, receive, send)

    def _refused(self, error: TooManyWrongTokens | UnknownSecret) -> JSONResponse:
        """Return the answer to a request whose token is wrong, or was not looked up. A client must keep one that was not looked up."""
        if isinstance(error, TooManyWrongTokens):
            return later(str(error), error.retry_s)
        return refusal(str(error), self._challenge)

    async def _for_principal(
        self, principal: Principal, token: str, scope: Scope, receive: Receive, send: Send
    ) -> None:
        """Answer the request of that principal, unless it has too many open."""
        held = self._open[principal.id]
        if self._most_open is not None and held >= self._most_open:
            await later(too_many_open(principal.id, held), RETRY_S)(scope, receive, send)
            return
        self._open[principal.id] += 1
        try:
            if _may_never_end(scope):
                await self._while_valid(token, scope, receive, send)
            else:
                await self._app(scope, receive, send)
        finally:
            self._open[principal.id] -= 1
            if not self._open[principal.id]:
                del self._open[principal.id]

    async def _while_valid(self, token: str, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer the request, and end the answer as soon as the token is found to be no longer valid."""
        begun = ended = False

        async def sending(message: Message) -> None:
            nonlocal begun, ended
            begun = True
            ended = message["type"] == "http.response.body" and not message.get("more_body", False)
            await send(message)

        with anyio.CancelScope() as answering:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(self._cancel_when_invalid, token, answering)
                await self._app(scope, receive, sending)
                tasks.cancel_scope.cancel()
        # Without an end, the client would take the silence for a stream that goes well.
        if answering.cancelled_caught and begun and not ended:
            await send({"type": "http.response.body", "body": b"", "more_body": False})

    async def _cancel_when_invalid(self, token: str, answering: anyio.CancelScope) -> None:
        while True:
            await anyio.sleep(RECHECK_S)
            try:
                await self._named(token)
            except UnknownSecret as error:
                logger.info("a stream of events ends: %s", error)
                answering.cancel()
                return
            except StorageError:
                logger.warning("cannot check the token of an open stream now", exc_info=True)


def _may_never_end(scope: Scope) -> bool:
    """Return whether the answer is a stream of events: the GET of the 2025 protocol, or the listening of the 2026 one."""
    # In the 2026 protocol the header must agree with the body; the SDK checks that.
    return scope["method"] == "GET" or Headers(scope=scope).get("mcp-method") == "subscriptions/listen"
