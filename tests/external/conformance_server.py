"""Our real server over HTTP, gate included, with the fixtures that the public conformance suite expects.

python -m tests.external.conformance_server PORT KNOWLEDGE_BASE STATE_DIR [EVENTS]

The variables FORGE_DATABASE_URL, FORGE_DATABASE_SCHEMA and FORGE_HTTP_URL count; with the last one every request needs a token. The
file EVENTS has the events that several servers share.
"""

from __future__ import annotations

import os
import sqlite3
import sys
from dataclasses import replace
from pathlib import Path

import anyio
import uvicorn
from mcp.server.streamable_http import EventCallback, EventId, EventMessage, EventStore, StreamId
from mcp_types import JSONRPCError, JSONRPCMessage, JSONRPCResponse
from mcp_types.jsonrpc import jsonrpc_message_adapter

from mcp_server.app.composition import open_app
from mcp_server.app.settings.loader import load
from mcp_server.transport.http import http_app
from tests.external import fixture_rounds, fixture_tools
from tests.external.fixture_offers import extend

RETRY_MS = 100
LOCAL_PAGES = ("http://localhost:*", "http://127.0.0.1:*")
LOOK_S = 0.05
SETTINGS = ("FORGE_DATABASE_URL", "FORGE_DATABASE_SCHEMA", "FORGE_HTTP_URL")


class Events(EventStore):
    """Every event of every stream, in a file that several processes share, for a client that lost its stream and asks for the rest."""

    def __init__(self, file: Path) -> None:
        self._rows = sqlite3.connect(file, isolation_level=None, timeout=30)
        self._rows.execute(
            "CREATE TABLE IF NOT EXISTS event (number INTEGER PRIMARY KEY AUTOINCREMENT, stream, message)"
        )

    async def store_event(self, stream_id: StreamId, message: JSONRPCMessage | None) -> EventId:
        """Keep an event and return its number."""
        text = None if message is None else message.model_dump_json(by_alias=True, exclude_unset=True)
        return str(self._rows.execute("INSERT INTO event (stream, message) VALUES (?, ?)", (stream_id, text)).lastrowid)

    async def replay_events_after(self, last_event_id: EventId, send_callback: EventCallback) -> StreamId | None:
        """Send the events after `last_event_id` of the same stream up to the answer, which another process may send later."""
        last = int(last_event_id) if last_event_id.isdecimal() else 0
        stream = self._rows.execute("SELECT stream FROM event WHERE number = ?", (last,)).fetchone()
        while stream is not None:
            later = "SELECT number, message FROM event WHERE stream = ? AND number > ? ORDER BY number LIMIT 1"
            found = self._rows.execute(later, (*stream, last)).fetchone()
            if found is None:
                await anyio.sleep(LOOK_S)
                continue
            last, text = found
            if text is not None:
                message = jsonrpc_message_adapter.validate_json(text)
                await send_callback(EventMessage(message, str(last)))
                if isinstance(message, JSONRPCResponse | JSONRPCError):
                    break
        return None


async def serve(port: int, kb: str, state_dir: str, events: Path) -> None:
    """Serve until the process is stopped."""
    settings = load(
        {"kb": kb, "state_dir": state_dir}, {name: os.environ[name] for name in SETTINGS if name in os.environ}
    )
    async with open_app(settings, extra_tools=(*fixture_tools.TOOLS, *fixture_rounds.TOOLS), extend=extend) as app:
        # The same application as `serve --http`, but for the event store: one scenario closes a stream and comes back.
        # One scenario is a page on this machine, which otherwise may call only a server for this machine.
        access = replace(settings.http_access, origins=LOCAL_PAGES)
        web = http_app(app.server, access, event_store=Events(events), retry_interval=RETRY_MS)
        config = uvicorn.Config(web, host="127.0.0.1", port=port, log_level="warning", access_log=False, ws="none")
        await uvicorn.Server(config).serve()


def main() -> None:
    """Serve what the command line names."""
    port, kb, state_dir, *events = sys.argv[1:]
    anyio.run(serve, int(port), kb, state_dir, Path(events[0] if events else f"{state_dir}.events"))


if __name__ == "__main__":
    main()
