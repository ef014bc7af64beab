"""Our real server over HTTP, gate included, with the fixtures that the public conformance suite expects.

python -m tests.external.conformance_server PORT KNOWLEDGE_BASE STATE_DIR
"""

from __future__ import annotations

import sys

import anyio
import uvicorn
from mcp.server.streamable_http import EventCallback, EventId, EventMessage, EventStore, StreamId
from mcp_types import JSONRPCMessage

from mcp_server.app.composition import open_app
from mcp_server.app.settings.loader import load
from mcp_server.transport.http import PATH, security
from tests.external import fixture_rounds, fixture_tools
from tests.external.fixture_offers import extend

RETRY_MS = 100


class Events(EventStore):
    """Every event of every stream, in memory, so that a client that lost its stream can request the rest."""

    def __init__(self) -> None:
        self._events: list[tuple[StreamId, JSONRPCMessage | None]] = []

    async def store_event(self, stream_id: StreamId, message: JSONRPCMessage | None) -> EventId:
        """Keep an event and return its number."""
        self._events.append((stream_id, message))
        return str(len(self._events) - 1)

    async def replay_events_after(self, last_event_id: EventId, send_callback: EventCallback) -> StreamId | None:
        """Send the events after `last_event_id` of the same stream, and return that stream."""
        if not last_event_id.isdecimal() or int(last_event_id) >= len(self._events):
            return None
        last = int(last_event_id)
        stream_id = self._events[last][0]
        for number, (stream, message) in enumerate(list(self._events)):
            if number > last and stream == stream_id and message is not None:
                await send_callback(EventMessage(message, str(number)))
        return stream_id


async def serve(port: int, kb: str, state_dir: str) -> None:
    """Serve until the process is stopped."""
    settings = load({"kb": kb, "state_dir": state_dir}, {})
    async with open_app(settings, extra_tools=(*fixture_tools.TOOLS, *fixture_rounds.TOOLS), extend=extend) as app:
        # The same application as `serve --http`, but for the event store: one scenario closes a stream and comes back.
        web = app.server.streamable_http_app(
            streamable_http_path=PATH, transport_security=security(), event_store=Events(), retry_interval=RETRY_MS
        )
        config = uvicorn.Config(web, host="127.0.0.1", port=port, log_level="warning", access_log=False, ws="none")
        await uvicorn.Server(config).serve()


def main() -> None:
    """Serve what the command line names."""
    port, kb, state_dir = sys.argv[1:]
    anyio.run(serve, int(port), kb, state_dir)


if __name__ == "__main__":
    main()
