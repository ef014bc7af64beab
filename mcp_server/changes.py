"""Changes: what any process did to the knowledge base reaches every client that listens, within 100 ms."""

from __future__ import annotations

import logging
from typing import Any

import anyio
from mcp.server.connection import Connection
from mcp.server.context import ServerRequestContext
from mcp.server.subscriptions import InMemorySubscriptionBus, ResourcesListChanged, ResourceUpdated
from mcp_types import EmptyResult, SubscribeRequestParams, UnsubscribeRequestParams

from knowledge.paths import ancestors
from knowledge.storage.ports import Event, StateStore
from mcp_server.resources import DOC_URI, MAP_URI, PROPOSAL_URI
from mcp_server.server import ForgeServer

logger = logging.getLogger("knowledge_forge.changes")

AFTER_TROUBLE_S = 0.25
LONGEST_PAUSE_S = 2.0
PATIENCE_S = 1.0


class SessionSubscribers:
    """Clients of the 2025 protocol: they subscribe to one address at a time and are told on their session's own stream."""

    def __init__(self) -> None:
        self._wanted: dict[Connection, set[str]] = {}

    def serve(self, server: ForgeServer) -> None:
        """Answer `resources/subscribe` and `resources/unsubscribe`, which the SDK leaves to us."""
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

    async def tell(self, uri: str) -> None:
        """Tell whoever subscribed to `uri`; one that does not read for a second is not waited for."""
        for connection in [c for c, uris in self._wanted.items() if uri in uris]:
            try:
                with anyio.move_on_after(PATIENCE_S):
                    await connection.send_resource_updated(uri)
            except Exception:
                logger.info("a subscriber is gone", exc_info=True)
                self._wanted.pop(connection, None)


async def follow_changes(state: StateStore, bus: InMemorySubscriptionBus, sessions: SessionSubscribers) -> None:
    """Publish each event of the state database as changed resources, for ever. Trouble is logged and waited out."""
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
                logger.warning("changes cannot be followed now, they are told later: %s", error)
            pause_s = min(max(AFTER_TROUBLE_S, 2 * pause_s), LONGEST_PAUSE_S)
            await anyio.sleep(pause_s)
            continue
        pause_s = 0.0
        seen = events[-1].seq if events else newest
        for event in events:
            for uri in _resources(event):
                await bus.publish(ResourceUpdated(uri=uri))
                await sessions.tell(uri)
        if any(event.topic == "map" for event in events):
            await bus.publish(ResourcesListChanged())


def _resources(event: Event) -> list[str]:
    """Return the addresses that an event concerns: a page and the maps of the directories above it, or a proposal."""
    if event.topic == "doc":
        return [DOC_URI + event.key, *(MAP_URI + directory for directory in ancestors(event.key))]
    if event.topic == "proposal":
        return [PROPOSAL_URI + event.key]
    return [MAP_URI + event.key] if event.topic == "map" else []
