"""The socket on which an HTTP server listens."""

from __future__ import annotations

import socket
import sys
from collections.abc import Callable
from dataclasses import dataclass

from mcp_server.app.settings.loader import BadSetting
from mcp_server.app.settings.values import HttpAddress

BACKLOG = 2048
"""Connections that may wait to be accepted; uvicorn's own default."""


@dataclass(frozen=True, slots=True)
class SharedPort:
    """The socket of one of several processes at a port. `begun` gets the addresses of what is served, once clients may connect."""

    own: socket.socket
    begun: Callable[[str], object]


def bound(address: HttpAddress) -> socket.socket:
    """Return a socket that listens at `address`; port 0 takes any free port.

    Raises:
        BadSetting: the port is in use or not permitted.
    """
    family = socket.AF_INET6 if ":" in address.host else socket.AF_INET
    # asyncio sets TCP_NODELAY only on sockets that say they are TCP. Without it a reply on a connection that stays open waits
    # 40 ms for the client to confirm its headers.
    listening = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
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


def reserved(address: HttpAddress) -> socket.socket:
    """Return a socket that keeps the port at `address` for this process and those that it starts.

    Raises:
        BadSetting: the port is in use or not permitted.
    """
    alone = bound(address)
    if sys.platform != "linux":
        return alone
    # A socket that shares its port can be bound even if another server of this account shares the port, too. So `bound` tries first,
    # with a socket that doesn't share it.
    with alone:
        where = alone.getsockname()
    port = _one_of_several(alone.family, where)
    # The bind needed this option because of connections in TIME_WAIT. While it is set and no process listens, another server could
    # bind the port.
    port.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 0)
    return port


def for_one_process(port: socket.socket) -> socket.socket:
    """Return a socket at a reserved port on which one process is to listen.

    On Linux every process gets a new socket, and the kernel distributes connections over them. If all shared one socket, the first
    process to wake up would accept all connections that arrive together. That is usually the same process, so the others would idle.
    """
    return _one_of_several(port.family, port.getsockname()) if sys.platform == "linux" else port.dup()


def _one_of_several(family: int, address: object) -> socket.socket:
    one = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)  # for the reason that `bound` gives
    one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
    one.bind(address)  # type: ignore[arg-type]
    return one
