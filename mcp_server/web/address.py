"""Where the review page is: one for each knowledge base and machine, named by the lease of the process that shows it.

The process may have died, and another program may have its port. So the address is given out only after what listens there has shown
that it knows the lease's holder, whose name is in the state database and holds a random number.
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
PROBE_S = 2.0
"""How long the page may take to prove itself. It does so in milliseconds; a program that says nothing is not waited for longer."""
PROVEN_S, DISPROVEN_S = 5.0, 1.0
"""How long an answer counts, so that a list of many proposals costs one probe."""
PROOF = "/proof/"
_LONGEST_ANSWER = 8_192
_ADDRESS = re.compile(r"http://localhost:(\d{1,5})")


def lease_name() -> str:
    """Return which lease the page is shown under: machines that share a state database show one each."""
    return f"review:{socket.gethostname()}"


def holder_of(port: int, process: str) -> str:
    """Return the holder of the lease that says where the page is. `process` holds a number that nobody guesses."""
    return f"http://localhost:{port} {process}"


def address_in(holder: str) -> str | None:
    """Return the address that a holder names; None for one that names none."""
    found = _ADDRESS.match(holder)
    return found.group() if found else None


def proof(holder: str, challenge: str) -> str:
    """Return what only who knows the holder can answer to the challenge."""
    return hmac.new(holder.encode(), f"page {challenge}".encode(), "sha256").hexdigest()


async def holder(state: StateStore) -> str | None:
    """Return who holds the lease of the page on this machine, whether it still lives or not; None while nobody does."""
    lease = await state.lease(lease_name())
    held = lease is not None and holds(lease.expires_at, datetime.now(UTC), LEASE_S)
    return lease.holder if lease is not None and held else None


async def address(state: StateStore) -> str | None:
    """Return the page's address, which lets nobody in by itself; None while nobody on this machine shows it."""
    return await Address(state).found()


class Address:
    """Finds the page of one knowledge base, and remembers for a moment what it found."""

    def __init__(self, state: StateStore) -> None:
        self._state = state
        self._alone = anyio.Lock()
        self._of, self._proven, self._until = "", False, 0.0

    async def found(self) -> str | None:
        """Return the page's address; None while nobody shows it, or what listens there is something else."""
        name = await holder(self._state)
        where = address_in(name) if name else None
        if name is None or where is None:
            return None
        async with self._alone:  # whoever comes meanwhile takes the answer of the first
            if name != self._of or time.monotonic() >= self._until:
                self._proven = await _proves(name)
                self._of, self._until = name, time.monotonic() + (PROVEN_S if self._proven else DISPROVEN_S)
            return where if self._proven else None


async def _proves(name: str) -> bool:
    """Return whether the page that this holder shows is what listens at its address."""
    found = _ADDRESS.match(name)
    challenge = secrets.token_hex(16)
    expected = proof(name, challenge).encode()
    if found is None or not 0 < int(found[1]) < 65_536:
        return False
    request = f"GET {PROOF}{challenge} HTTP/1.1\r\nhost: localhost:{found[1]}\r\nconnection: close\r\n\r\n"
    answer = b""
    with anyio.move_on_after(PROBE_S):
        try:
            # Not by name, and not through an HTTP client: no proxy of the environment has a say in this.
            async with await anyio.connect_tcp("127.0.0.1", int(found[1])) as stream:
                await stream.send(request.encode())
                while len(answer) < _LONGEST_ANSWER:
                    answer += await stream.receive(_LONGEST_ANSWER)
        except (OSError, anyio.EndOfStream, anyio.BrokenResourceError):
            pass
    return hmac.compare_digest(answer[-len(expected) :], expected)
