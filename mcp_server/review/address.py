"""Where the review page is: one for each knowledge base and machine, named by the lease of the process that shows it."""

from __future__ import annotations

import re
import socket
from datetime import UTC, datetime

from knowledge.storage.ports import StateStore

_ADDRESS = re.compile(r"http://localhost:\d{1,5}")


def lease_name() -> str:
    """Return which lease the page is shown under: machines that share a state database show one each."""
    return f"review:{socket.gethostname()}"


def holder_of(port: int, process: str) -> str:
    """Return the holder of the lease that says where the page is."""
    return f"http://localhost:{port} {process}"


def address_in(holder: str) -> str | None:
    """Return the address that a holder names; None for one that names none."""
    found = _ADDRESS.match(holder)
    return found.group() if found else None


async def address(state: StateStore) -> str | None:
    """Return the page's address, which lets nobody in by itself; None while nobody on this machine shows it."""
    lease = await state.lease(lease_name())
    if lease is None or lease.expires_at <= datetime.now(UTC):
        return None
    return address_in(lease.holder)
