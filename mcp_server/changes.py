"""Changes: what any process did to the knowledge base reaches every client that listens, within 100 ms."""

from __future__ import annotations

import logging

import anyio
from mcp.server.subscriptions import InMemorySubscriptionBus, ResourcesListChanged, ResourceUpdated

from knowledge.paths import ancestors
from knowledge.storage.ports import Event, StateStore
from mcp_server.resources import DOC_URI, MAP_URI

logger = logging.getLogger("knowledge_forge.changes")

POLL_S = 0.05
AFTER_TROUBLE_S = 2.0


async def follow_changes(state: StateStore, bus: InMemorySubscriptionBus) -> None:
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
            seen = event.seq
        if any(event.topic == "map" for event in events):
            await bus.publish(ResourcesListChanged())


def _resources(event: Event) -> list[str]:
    """Return the addresses that an event concerns: a page, and the maps of the directories above it."""
    if event.topic == "doc":
        return [DOC_URI + event.key, *(MAP_URI + directory for directory in ancestors(event.key))]
    return [MAP_URI + event.key] if event.topic == "map" else []
