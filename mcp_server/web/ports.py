"""Where the page listens: on this machine only, at the same port each time if that is free."""

from __future__ import annotations

import errno
import hashlib
import os
import socket
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

LOWEST_PORT, PORTS = 20_000, 10_000
"""Below where systems take ports for outgoing connections from, so that ours is mostly free."""
TRIES = 20
_NO_SUCH_ADDRESS = {errno.EADDRNOTAVAIL, errno.EAFNOSUPPORT, errno.EPROTONOSUPPORT}


def preferred_port(root: Path) -> int:
    """Return the port of the knowledge base at `root`: always the same, so that a bookmark stays good."""
    digest = hashlib.blake2b(os.fsencode(root.resolve()), digest_size=8).digest()
    return LOWEST_PORT + int.from_bytes(digest, "big") % PORTS


@contextmanager
def listening(preferred: int) -> Iterator[list[socket.socket]]:
    """Yield sockets bound to `preferred`, or to any free port, on every loopback address that there is.

    On all of them, because `localhost` is any of them to a browser: what another account's program listens on at the
    other one would get this page's visitors.

    Raises:
        OSError: no port can be had.
    """
    sockets = _bound(preferred) or next(filter(None, (_bound(0) for _ in range(TRIES))), None)
    if sockets is None:
        raise OSError(errno.EADDRINUSE, "no port is free on every loopback address")
    try:
        yield sockets
    finally:
        for one in sockets:
            one.close()


def _bound(port: int) -> list[socket.socket] | None:
    """Return the sockets at `port`, which 0 lets the system choose; None if it is taken on one of the addresses."""
    sockets: list[socket.socket] = []
    for family, name in ((socket.AF_INET, "127.0.0.1"), (socket.AF_INET6, "::1")):
        one = None
        try:
            one = socket.socket(family)
            if sys.platform == "win32":
                one.setsockopt(socket.SOL_SOCKET, socket.SO_EXCLUSIVEADDRUSE, 1)
            else:
                one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            one.bind((name, sockets[0].getsockname()[1] if sockets else port))
            one.listen()  # only that makes a port ours: two may be bound to it until one listens
        except OSError as error:
            if one is not None:
                one.close()
            if sockets and error.errno in _NO_SUCH_ADDRESS:
                continue
            for other in sockets:
                other.close()
            return None
        sockets.append(one)
    return sockets
