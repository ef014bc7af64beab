"""Changes: what any process did to the knowledge base reaches every client that listens, within 100 ms."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Mapping
from typing import Any

import anyio
from mcp.server.connection import Connection
from mcp.server.context import CallNext, HandlerResult, ServerRequestContext
from mcp.server.subscriptions import InMemorySubscriptionBus, PromptsListChanged, ResourcesListChanged, ResourceUpdated
from mcp_types import EmptyResult, SubscribeRequestParams, UnsubscribeRequestParams
from mcp_types.version import is_version_at_least

from knowledge.pages.paths import ancestors
from knowledge.state.ports import Event, StateStore
from mcp_server.protocol.gate_extension import MULTI_ROUND
from mcp_server.protocol.resources import DOC_URI, MAP_URI, PROPOSAL_URI
from mcp_server.protocol.server import ForgeServer
from mcp_server.toolsets.journeys.offers.resources import MEMORY_URI, journey_addresses, memory_prefix
from mcp_server.toolsets.runs.resources import run_addresses

logger = logging.getLogger("knowledge_forge.changes")

AFTER_TROUBLE_S = 0.25
LONGEST_PAUSE_S = 2.0
PATIENCE_S = 1.0
LISTS_LOOK_S = 2.0
"""How often a process looks whether its lists of prompts and resources are what they were."""
FIRST_LOOK_S = 1.0
"""When it looks first: the first moments of a process belong to the host's handshake."""
LISTEN = "subscriptions/listen"
_LISTS = {"prompts/list": "prompts", "resources/list": "resources"}


class SessionSubscribers:
    """Clients of the 2025 protocol: they subscribe to one address at a time and are notified on their session's own stream.

    Clients that asked for a list are also notified when it changes. Only this class knows which memory documents have subscribers: a
    journey's id does not tell the names of its documents.
    """

    def __init__(self) -> None:
        self._wanted: dict[Connection, set[str]] = {}
        self._listing: dict[Connection, set[str]] = {}
        self._listened: Counter[str] = Counter()
        self.server: ForgeServer | None = None

    def serve(self, server: ForgeServer) -> None:
        """Answer `resources/subscribe` and `resources/unsubscribe`, which the SDK leaves to us."""
        self.server = server
        server.middleware.append(self._note_listing)
        server.middleware.append(self._note_listening)
        server.add_session_method("resources/subscribe", SubscribeRequestParams, self._subscribe)
        server.add_session_method("resources/unsubscribe", UnsubscribeRequestParams, self._unsubscribe)

    async def _subscribe(self, ctx: ServerRequestContext[Any, Any], params: SubscribeRequestParams) -> EmptyResult:
        connection = ctx.session._connection  # noqa: SLF001 - the SDK hands out no other name for who is connected
        if connection not in self._wanted:
            connection.exit_stack.callback(self._wanted.pop, connection, None)
        self._wanted.setdefault(connection, set()).add(str(params.uri))
        return EmptyResult()

    async def _unsubscribe(self, ctx: ServerRequestContext[Any, Any], params: UnsubscribeRequestParams) -> EmptyResult:
        connection = ctx.session._connection  # noqa: SLF001 - as above
        self._wanted.get(connection, set()).discard(str(params.uri))
        return EmptyResult()

    async def _note_listing(self, ctx: ServerRequestContext[Any, Any], call_next: CallNext) -> HandlerResult:
        """Remember the clients that asked for a list and use the older protocol."""
        answer = await call_next(ctx)
        if ctx.method in _LISTS and not is_version_at_least(ctx.protocol_version, MULTI_ROUND):
            connection = ctx.session._connection  # noqa: SLF001 - as above
            if connection not in self._listing:
                connection.exit_stack.callback(self._listing.pop, connection, None)
            self._listing.setdefault(connection, set()).add(_LISTS[ctx.method])
        return answer

    async def _note_listening(self, ctx: ServerRequestContext[Any, Any], call_next: CallNext) -> HandlerResult:
        """Remember which memory documents a client of the newer protocol listens to, for as long as it does."""
        if ctx.method != LISTEN:
            return await call_next(ctx)
        wanted = (ctx.params or {}).get("notifications")
        uris = wanted.get("resourceSubscriptions") if isinstance(wanted, Mapping) else None
        listened = [uri for uri in uris if str(uri).startswith(MEMORY_URI)] if isinstance(uris, list) else []
        self._listened.update(listened)
        try:
            return await call_next(ctx)
        finally:
            self._listened.subtract(listened)
            self._listened += Counter[str]()  # forgets what nobody listens to

    def documents_of(self, journey: str) -> list[str]:
        """Return the addresses of that journey's memory documents that have subscribers."""
        wanted = {*self._listened, *(uri for uris in self._wanted.values() for uri in uris)}
        return sorted(uri for uri in wanted if uri.startswith(memory_prefix(journey)))

    async def tell_list(self, which: str) -> None:
        """Notify the clients that asked for that list, `prompts` or `resources`, that it changed."""
        for connection in [c for c, lists in self._listing.items() if which in lists]:
            tell = connection.send_prompt_list_changed if which == "prompts" else connection.send_resource_list_changed
            try:
                with anyio.move_on_after(PATIENCE_S):
                    await tell()
            except Exception:
                logger.info("a client is gone", exc_info=True)
                self._listing.pop(connection, None)

    async def tell(self, uri: str) -> None:
        """Notify the subscribers of `uri`; a client that does not read within a second is skipped."""
        for connection in [c for c, uris in self._wanted.items() if uri in uris]:
            try:
                with anyio.move_on_after(PATIENCE_S):
                    await connection.send_resource_updated(uri)
            except Exception:
                logger.info("a subscriber is gone", exc_info=True)
                self._wanted.pop(connection, None)


async def follow_changes(state: StateStore, bus: InMemorySubscriptionBus, sessions: SessionSubscribers) -> None:
    """Publish, for ever, each event of the state database as changed resources, and that a list is another than before."""
    async with anyio.create_task_group() as tasks:
        if sessions.server is not None and sessions.server.offers:
            tasks.start_soon(_follow_lists, sessions.server, bus, sessions)
        await _follow_events(state, bus, sessions)


async def _follow_lists(server: ForgeServer, bus: InMemorySubscriptionBus, sessions: SessionSubscribers) -> None:
    """Publish that prompts or resources come or go. This process compares its own lists, whichever process made the change."""
    seen_prompts, seen_resources = None, None
    pause_s = FIRST_LOOK_S
    while True:
        await anyio.sleep(pause_s)
        pause_s = LISTS_LOOK_S
        try:
            prompts, resources = await server.list_prompts(), await server.list_resources()
        except Exception:  # whatever they show cannot be read now: it is looked at again
            logger.warning("lists cannot be compared now", exc_info=True)
            continue
        if prompts != (seen_prompts or server.first_prompts):
            await bus.publish(PromptsListChanged())
            await sessions.tell_list("prompts")
        if resources != (seen_resources or server.first_resources):
            await bus.publish(ResourcesListChanged())
            await sessions.tell_list("resources")
        seen_prompts, seen_resources = prompts, resources


async def _follow_events(state: StateStore, bus: InMemorySubscriptionBus, sessions: SessionSubscribers) -> None:
    """Publish each event of the state database as changed resources, until cancelled. Trouble is logged and waited out."""
    seen: int | None = None
    pause_s = 0.0
    while True:
        try:
            if seen is None:
                seen = await state.last_event()
            await state.changed(seen)
            newest = await state.last_event()
            # A counter that went back was restored from a backup: what it holds now may all be news.
            events = await state.events_after(seen) or await state.events_after(0)
        except Exception as error:  # noqa: BLE001 - whatever the store has, clients are told of changes afterwards
            if not pause_s:
                logger.warning("changes cannot be followed now and will be reported later: %s", error)
            pause_s = min(max(AFTER_TROUBLE_S, 2 * pause_s), LONGEST_PAUSE_S)
            await anyio.sleep(pause_s)
            continue
        pause_s = 0.0
        seen = events[-1].seq if events else newest
        for event in events:
            documents = sessions.documents_of(event.key) if event.topic == "journey" else []
            for uri in [*_resources(event), *documents]:
                await bus.publish(ResourceUpdated(uri=uri))
                await sessions.tell(uri)
        if any(event.topic == "map" for event in events):
            await bus.publish(ResourcesListChanged())
            await sessions.tell_list("resources")


def _resources(event: Event) -> list[str]:
    """Return the addresses that an event concerns: a page and the maps above it, a proposal, a journey, or a run."""
    if event.topic == "doc":
        return [DOC_URI + event.key, *(MAP_URI + directory for directory in ancestors(event.key))]
    if event.topic == "proposal":
        return [PROPOSAL_URI + event.key]
    if event.topic == "journey":
        return journey_addresses(event.key)
    if event.topic == "run":
        return run_addresses(event.key)
    return [MAP_URI + event.key] if event.topic == "map" else []
