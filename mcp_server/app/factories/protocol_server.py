"""Builds the MCP server around the gate. Loaded by the processes that a host connects to."""

from __future__ import annotations

import sys
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from mcp.server.context import ServerRequestContext
from mcp.server.request_state import RequestStateSecurity

from knowledge.state.client_notes import ClientNotes
from mcp_server import VERSION
from mcp_server.app.settings.settings import Settings
from mcp_server.gate.dispatch import Gate
from mcp_server.gate.host_registration import TOKENLESS, Principal, digest
from mcp_server.gate.trust.callers import Callers
from mcp_server.late_module import LateModule
from mcp_server.ports import AllServices
from mcp_server.protocol.change_events import SessionSubscribers, follow_changes
from mcp_server.protocol.completions import add_completions
from mcp_server.protocol.prompts import add_prompts
from mcp_server.protocol.reach.subscribers import MayHear, ReadersBus
from mcp_server.protocol.resources import add_resources
from mcp_server.protocol.server import INSTRUCTIONS, NAME, ForgeServer, GatedTool
from mcp_server.protocol.tasks.sdk_hooks import Seams
from mcp_server.toolsets.spec import AnySpec
from mcp_server.transport.sign_in.bearer import bearer, user_of

if TYPE_CHECKING:
    from mcp_server.approvals.decisions import Decisions
    from mcp_server.transport.sessions import manager as session_managers
    from mcp_server.transport.sessions import session_ids
else:
    # Only where the server is served over HTTP.
    session_managers = LateModule("mcp_server.transport.sessions.manager")
    session_ids = LateModule("mcp_server.transport.sessions.session_ids")

QUESTION_S = 3600.0
"""How long a person has to answer a form."""
CLIENT_DIGITS = 16
"""Digits of the hash that tells callers without a token apart."""


@dataclass(frozen=True, slots=True)
class ServedProtocol:
    """A server, and the way to tell clients of changes: the SDK's bus in the protocol of 2026, the sessions in that of 2025."""

    server: ForgeServer
    services: AllServices
    bus: ReadersBus
    sessions: SessionSubscribers

    async def follow_changes(self) -> None:
        """Tell the clients of each change, forever."""
        await follow_changes(self.services.state, self.bus, self.sessions)


def served_protocol(
    settings: Settings,
    specs: Sequence[AnySpec],
    *,
    gate: Gate,
    load_approvals: Callable[[], Decisions],
    services: AllServices,
    callers: Callers,
    key: bytes,
    extend: Callable[[ForgeServer], None] | None,
    may_hear: MayHear,
) -> ServedProtocol:
    """Return the server with these tools. `key` seals questions that a client carries; `extend` adds prompts and resources.

    `may_hear` says which changes a subscriber is told of.
    """
    notes = ClientNotes(services.state.tables, services.now)
    bus, sessions = ReadersBus(may_hear), SessionSubscribers(notes, may_hear)
    seams = Seams(gate, _identifier(settings, callers), load_approvals, services)
    built = _server(specs, seams, bus, _request_state(settings, key))
    built.named, built.spec_of = callers.named, gate.spec
    built.shows_all = lambda: services.access.reads_all
    built.make_sessions = lambda server, **more: session_managers.SharedSessions(
        server, session_ids.SessionIds(key, services.now), notes, sessions, **more
    )
    if extend is not None:
        extend(built)
    sessions.serve(built)
    return ServedProtocol(built, services, bus, sessions)


def _server(specs: Sequence[AnySpec], seams: Seams, bus: ReadersBus, security: RequestStateSecurity) -> ForgeServer:
    with _without_rich():
        server = ForgeServer(
            name=NAME,
            title="Knowledge Forge",
            version=VERSION,
            instructions=INSTRUCTIONS,
            tools=[GatedTool.of(spec) for spec in specs],
            extensions=seams.extensions,
            middleware=seams.middleware,
            subscriptions=bus,
            request_state_security=security,
            log_level="WARNING",
        )
    seams.listen(server, bus)
    add_resources(server, seams.services)
    add_prompts(server, seams.services)
    add_completions(server, seams.services)
    return server


@contextmanager
def _without_rich() -> Iterator[None]:
    """Keep the SDK from importing rich (30 ms, 5 MB) for log lines, because `serve` has already set their format."""
    loaded = sys.modules.get("rich.console")
    sys.modules["rich.console"] = None  # type: ignore[assignment]  # how Python marks a module that can't be imported
    try:
        yield
    finally:
        if loaded is None:
            del sys.modules["rich.console"]
        else:
            sys.modules["rich.console"] = loaded


def _request_state(settings: Settings, key: bytes) -> RequestStateSecurity:
    """Return how questions that a client carries are sealed.

    Any process of this knowledge base can open them, but only for the same caller.
    """

    def caller_of(ctx: ServerRequestContext[Any, Any]) -> str:
        if ctx.request is None:
            return digest(settings.enrolment or "").hex()
        # Not the token: a client may renew it between a question and the answer.
        if (principal := user_of(ctx.request.scope)) is not None:
            return principal
        token = bearer(ctx.request.headers)
        return TOKENLESS if token is None else digest(token).hex()

    return RequestStateSecurity(keys=[key], ttl=QUESTION_S, bind_principal=caller_of)


def _identifier(
    settings: Settings, callers: Callers
) -> Callable[[ServerRequestContext[Any, Any]], Awaitable[Principal]]:
    """Return how callers are identified: on stdio by this process's secret, over HTTP by the request's bearer token.

    The database is asked each time, so a host whose secret was replaced is refused at once.
    """

    async def who(ctx: ServerRequestContext[Any, Any]) -> Principal:
        if ctx.request is None:
            return await callers.named(settings.enrolment)
        principal = await callers.named(bearer(ctx.request.headers), without=TOKENLESS)
        return replace(principal, client=_client_of(ctx, ctx.request.headers)) if principal.by_handle else principal

    return who


def _client_of(ctx: ServerRequestContext[Any, Any], headers: Mapping[str, str]) -> str:
    """Return a hash that distinguishes callers over HTTP without a token.

    It is made from the id of their session or, in the protocol of 2026 without sessions, from the name of their client.

    Only a hash is stored, because anyone who has a session's id can send requests in that session.
    """
    told, params = headers.get("mcp-session-id"), ctx.session.client_params
    if told is None and params is not None:
        told = f"{params.client_info.name} {params.client_info.version}"
    return digest(told).hex()[:CLIENT_DIGITS] if told else ""
