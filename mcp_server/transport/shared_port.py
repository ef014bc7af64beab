"""The socket on which an HTTP server listens."""

from __future__ import annotations

import socket
from collections.abc import Callable
from dataclasses import dataclass

from mcp_server.app.settings.loader import BadSetting
from mcp_server.app.settings.values import HttpAddress

BACKLOG = 2048
"""Connections that may wait to be accepted; uvicorn's own default."""


@dataclass(frozen=True, slots=True)
class SharedPort:
    """The socket of a server. `begun` gets the addresses of what is served there, once clients may connect."""

    listening: socket.socket
    begun: Callable[[str], object]


def bound(address: HttpAddress) -> socket.socket:
    """Return a socket that listens at `address`; port 0 takes any free port.

    Raises:
        BadSetting: the port is in use or not permitted.
    """
    family = socket.AF_INET6 if ":" in address.host else socket.AF_INET
    listening = socket.socket(family)
    try:
        # A restarted server can bind the port while connections of the old one are in TIME_WAIT.
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind((address.host, address.port))
        # Listen before the address is logged, because clients may connect at once; and so two servers never share the port.
        listening.listen(BACKLOG)
    except OSError as error:
        listening.close()
        raise BadSetting(
            "--http", str(address), f"cannot listen there: {error.strerror}; choose another port"
        ) from error
    return listening
