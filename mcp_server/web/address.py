"""The address of the review page: one for each knowledge base and machine, named by the lease of the process that serves it.

That process may have died, and another program may have its port. That program could show people a false page. So the
address is given out only after the program that listens there has proven that it knows the lease holder's name, which
contains a random number from the state database.
"""

from __future__ import annotations

import hmac
import re
import secrets
import socket
import time
from datetime import UTC, datetime

import anyio

from knowledge.leases import holds
from knowledge.state.ports import StateStore

LEASE_S = 10.0
"""How long the page is unavailable after its process was killed."""
PROBE_S = 2.0
"""How long the page may take to prove itself. It takes milliseconds; another program may never answer."""
PROVEN_S, DISPROVEN_S = 5.0, 1.0
"""How long a successful and a failed probe are remembered, so that a list of many proposals costs one probe."""
PROOF = "/proof/"
_LONGEST_ANSWER = 8_192
_ADDRESS = re.compile(r"http://localhost:(\d{1,5})")


def lease_name() -> str:
    """Return the name of the page's lease: machines that share a state database serve one page each."""
    return f"review:{socket.gethostname()}"


def holder_of(port: int, process: str) -> str:
    """Return the holder's name for the lease, which says where the page is. `process` holds a number that nobody can guess."""
    return f"http://localhost:{port} {process}"


def address_in(holder: str) -> str | None:
    """Return the address in a holder's name, None if it has none."""
    found = _ADDRESS.match(holder)
    return found.group() if found else None


def proof(holder: str, challenge: str) -> str:
    """Return the answer to the challenge, for which one must know the holder's name."""
    return hmac.new(holder.encode(), f"page {challenge}".encode(), "sha256").hexdigest()


async def holder(state: StateStore) -> str | None:
    """Return the holder of the page's lease on this machine, alive or not, or None."""
    lease = await state.lease(lease_name())
    held = lease is not None and holds(lease.expires_at, datetime.now(UTC), LEASE_S)
    return lease.holder if lease is not None and held else None


async def address(state: StateStore) -> str | None:
    """Return the page's address, which by itself logs nobody in; None while no process on this machine serves the page."""
    return await Address(state).found()


class Address:
    """Find the page of one knowledge base, and keep the result for a moment."""

    def __init__(self, state: StateStore) -> None:
        self._state = state
        self._lock = anyio.Lock()
        self._of, self._proven, self._until = "", False, 0.0

    async def found(self) -> str | None:
        """Return the page's address; None while no process serves it, or if another program listens there."""
        name = await holder(self._state)
        where = address_in(name) if name else None
        if name is None or where is None:
            return None
        async with self._lock:  # concurrent calls share the first one's probe
            if name != self._of or time.monotonic() >= self._until:
                self._proven = await _proves(name)
                self._of, self._until = name, time.monotonic() + (PROVEN_S if self._proven else DISPROVEN_S)
            return where if self._proven else None


async def _proves(name: str) -> bool:
    """Return whether the program that listens at the holder's address proves to be the holder's page."""
    found = _ADDRESS.match(name)
    challenge = secrets.token_hex(16)
    expected = proof(name, challenge).encode()
    if found is None or not 0 < int(found[1]) < 65_536:
        return False
    request = f"GET {PROOF}{challenge} HTTP/1.1\r\nhost: localhost:{found[1]}\r\nconnection: close\r\n\r\n"
    answer = b""
    with anyio.move_on_after(PROBE_S):
        try:
            # By number and over a plain socket: no proxy from the environment may answer in its place.
            async with await anyio.connect_tcp("127.0.0.1", int(found[1])) as stream:
                await stream.send(request.encode())
                while len(answer) < _LONGEST_ANSWER:
                    answer += await stream.receive(_LONGEST_ANSWER)
        except (OSError, anyio.EndOfStream, anyio.BrokenResourceError):
            pass
    # The proof is the whole body, so the answer ends with it.
    return hmac.compare_digest(answer[-len(expected) :], expected)
