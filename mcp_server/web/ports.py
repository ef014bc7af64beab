"""The sockets of the page: on this machine only, at the same port each time if that is free."""

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
"""The range of ports: below the one that systems use for outgoing connections, so that the port is usually free."""
TRIES = 20  # a port that is free on one address may be taken on the other
_NO_SUCH_ADDRESS = {errno.EADDRNOTAVAIL, errno.EAFNOSUPPORT, errno.EPROTONOSUPPORT}


def preferred_port(root: Path) -> int:
    """Return the port of the knowledge base at `root`: always the same, so that bookmarks keep working."""
    digest = hashlib.blake2b(os.fsencode(root.resolve()), digest_size=8).digest()
    return LOWEST_PORT + int.from_bytes(digest, "big") % PORTS


@contextmanager
def listening(preferred: int) -> Iterator[list[socket.socket]]:
    """Yield sockets that listen at `preferred`, or at any free port, on every loopback address of the machine.

    All of them are taken because `localhost` may mean any of them to a browser: if another account's program listened at one of
    them, it would get visitors of this page.

    Raises:
        OSError: no port is free.
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
    """Return the sockets at `port` (0: the system chooses one), None if it is taken on one of the addresses."""
    sockets: list[socket.socket] = []
    for family, name in ((socket.AF_INET, "127.0.0.1"), (socket.AF_INET6, "::1")):
        one = None
        try:
            # It says that it is TCP, or asyncio would not set TCP_NODELAY, and replies would wait for confirmations of headers.
            one = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
            if sys.platform == "win32":
                # Otherwise any program could bind the same port with SO_REUSEADDR.
                one.setsockopt(socket.SOL_SOCKET, socket.SO_EXCLUSIVEADDRUSE, 1)
            else:
                # The next process can then bind the port while connections of the last one are in TIME_WAIT.
                one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            one.bind((name, sockets[0].getsockname()[1] if sockets else port))
            one.listen()  # only this makes the port ours: several programs can bind one until one of them listens
        except OSError as error:
            if one is not None:
                one.close()
            if sockets and error.errno in _NO_SUCH_ADDRESS:  # a machine without IPv6
                continue
            for other in sockets:
                other.close()
            return None
        sockets.append(one)
    return sockets
