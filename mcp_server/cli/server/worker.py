"""One of several processes of `serve --http`, as `mcp_server/transport/supervisor.py` starts it."""

from __future__ import annotations

import os
import pickle
import signal
import socket
import sys
import threading
from typing import TextIO, cast

from mcp_server.__main__ import explained
from mcp_server.app.settings.settings import Settings
from mcp_server.cli.server.serve import prepare, serve
from mcp_server.cli.terminal.escape import EscapedStream
from mcp_server.cli.terminal.output import log_to_stderr
from mcp_server.transport.shared_port import SharedPort


def main(own: int, telling: int) -> int:
    """Serve on the socket `own` with the settings on stdin, and return the exit code.

    The pipe `telling` gets the addresses once it serves.
    """
    sys.stderr = cast("TextIO", EscapedStream(sys.stderr, remarks=True))
    log_to_stderr(tracebacks=True)
    try:
        settings: Settings = pickle.load(sys.stdin.buffer)  # noqa: S301 - from the process that started this one
        threading.Thread(target=_end_with_supervisor, daemon=True).start()
        prepare(settings)

        def begun(addresses: str) -> None:
            with os.fdopen(telling, "w", encoding="utf-8") as supervisor:
                supervisor.write(addresses)

        serve(settings, SharedPort(socket.socket(fileno=own), begun))
    except (Exception, KeyboardInterrupt) as error:  # noqa: BLE001 - as in `main` of the program
        return explained(error)
    return 0


def _end_with_supervisor() -> None:
    """End as after a signal when the supervisor is gone, however it ended."""
    # Not through `sys.stdin`, whose lock this thread would hold while Python shuts down.
    while os.read(0, 1):
        pass
    os.kill(os.getpid(), signal.SIGTERM)
