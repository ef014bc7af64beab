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
from mcp_server.resources import DOC_URI, MAP_URI
from mcp_server.server import ForgeServer

logger = logging.getLogger("knowledge_forge.changes")

POLL_S = 0.05
AFTER_TROUBLE_S = 2.0
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
    seen = await state.last_event()
    while True:
        await anyio.sleep(POLL_S)
        try:
            if await state.last_event() == seen:
                continue
            events = await state.events_after(seen)
        except Exception:
            logger.exception("cannot follow changes; trying again in %.0f s", AFTER_TROUBLE_S)
            await anyio.sleep(AFTER_TROUBLE_S)
            continue
        for event in events:
            for uri in _resources(event):
                await bus.publish(ResourceUpdated(uri=uri))
                await sessions.tell(uri)
            seen = event.seq
        if any(event.topic == "map" for event in events):
            await bus.publish(ResourcesListChanged())


def _resources(event: Event) -> list[str]:
    """Return the addresses that an event concerns: a page, and the maps of the directories above it."""
    if event.topic == "doc":
        return [DOC_URI + event.key, *(MAP_URI + directory for directory in ancestors(event.key))]
    return [MAP_URI + event.key] if event.topic == "map" else []
