"""Requests for which a token's scopes are not enough: 403, with the least scope that would be (RFC 6750, section 3.1).

The gate would refuse them, too. A client that is refused at this level can ask the sign-in server for the scope and send the request
again.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from mcp_server.app.settings.sign_in import ScopeReach
from mcp_server.gate.policy import ALWAYS, Limits, Trust
from mcp_server.protocol.reach.requests import UNGATED, toolsets_of
from mcp_server.toolsets.spec import AnySpec
from mcp_server.transport.bad_lines import LONGEST_MESSAGE
from mcp_server.transport.sign_in.bearer import LIMITS
from mcp_server.transport.sign_in.scopes import least

Needs = tuple[Trust, tuple[str, ...]]
"""The level that a request needs, and the toolsets that it uses."""


def needs_of(body: bytes, spec_of: Callable[[str], AnySpec | None]) -> Needs:
    """Return what the request in `body` needs. A body that is no request, or names no tool, needs nothing here. Pure.

    A call that acts needs level 2, at which it is proposed; the gate decides what it needs to be carried out.
    """
    try:
        message = json.loads(body)
    except (ValueError, RecursionError):
        return Trust.NONE, ()
    if not isinstance(message, dict) or "id" not in message or not isinstance(message.get("params", {}), dict):
        return Trust.NONE, ()
    method, params = str(message.get("method")), message.get("params", {})
    if method == "tools/call":
        return _needs_of_call(params, spec_of(str(params.get("name"))))
    return (Trust.NONE, ()) if method in UNGATED else (Trust.READ, toolsets_of(method, params))


def _needs_of_call(params: Mapping[str, Any], spec: AnySpec | None) -> Needs:
    if spec is None or spec.toolset == ALWAYS:
        return Trust.NONE, ()
    arguments = params.get("arguments")
    rehearsed = isinstance(arguments, dict) and arguments.get("dry_run") is True
    return min(spec.needs, Trust.READ if rehearsed else Trust.PROPOSE), (spec.toolset,)


class StepUp:
    """Answers requests beyond the scopes of their token with 403 and the scope that they need, and passes on all others."""

    def __init__(
        self,
        app: ASGIApp,
        *,
        scopes: Sequence[ScopeReach],
        spec_of: Callable[[str], AnySpec | None],
        metadata: str,
    ) -> None:
        self._app, self._scopes, self._spec_of, self._metadata = app, scopes, spec_of, metadata

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        limits: Limits | None = scope.get(LIMITS)
        if scope["type"] != "http" or limits is None or not limits.scoped:
            await self._app(scope, receive, send)
            return
        if limits.ceiling() == Trust.NONE:
            await self._refused(least(self._scopes, Trust.READ, ()))(scope, receive, send)
            return
        messages, body = await _read(receive)
        level, toolsets = needs_of(body, self._spec_of)
        lacking = [one for one in toolsets if limits.ceiling(one) < level]
        if lacking and (wanted := least(self._scopes, level, lacking)):
            await self._refused(wanted)(scope, receive, send)
            return
        await self._app(scope, _again(messages, receive), send)

    def _refused(self, wanted: Sequence[str]) -> JSONResponse:
        names = " ".join(wanted)
        why = f"the token's scopes are not enough for this request, which needs: {names}"
        challenge = f'Bearer error="insufficient_scope", scope="{names}", resource_metadata="{self._metadata}"'
        return JSONResponse(
            {"error": "insufficient_scope", "error_description": why}, 403, {"WWW-Authenticate": challenge}
        )


async def _read(receive: Receive) -> tuple[list[Message], bytes]:
    """Return the messages of a request as far as its body is read, and the body; an empty one if it is too large."""
    messages: list[Message] = []
    size = 0
    while True:
        message = await receive()
        messages.append(message)
        size += len(message.get("body", b""))
        if message["type"] != "http.request" or not message.get("more_body") or size > LONGEST_MESSAGE:
            break
    return messages, b"" if size > LONGEST_MESSAGE else b"".join(one.get("body", b"") for one in messages)


def _again(messages: list[Message], receive: Receive) -> Receive:
    """Return a `receive` that repeats these messages first."""
    left = iter(messages)

    async def received() -> Message:
        message = next(left, None)
        return await receive() if message is None else message

    return received
