"""A port for a program that must be told its port."""

from __future__ import annotations

import random
import socket

BELOW_ANY = range(20_000, 32_000)
"""The usual systems give ports from 32768 on to whoever asks for any port."""


def free_port() -> int:
    """Return a free port that nobody gets who asks for any port, so that it is still free when the program begins to listen."""
    for port in random.SystemRandom().sample(BELOW_ANY, 200):
        try:
            with socket.create_server(("127.0.0.1", port)):
                return port
        except OSError:
            continue
    raise AssertionError("200 ports are in use")
