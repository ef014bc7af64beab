"""Lets a server start on a folder that several machines use only if the folder's file system allows it.

Machines that share a state have it in PostgreSQL, and one of them holds a lease there. If the file system of that
machine allows only one writer, it holds the lease alone: no other machine starts while it does.
"""

from __future__ import annotations

import hashlib
import logging
import socket
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

import anyio
import anyio.to_thread

from knowledge.errors import KnowledgeError, VaultUnavailable
from knowledge.leases import MACHINE_LEASE, holds
from knowledge.state.ports import StateStore
from knowledge.writing.files.shared_folder import FolderFault, fault_of

LEASE_S, RENEWED_S = 60.0, 20.0
ALONE = " (alone)"

logger = logging.getLogger("knowledge_forge")


class FolderNotShared(VaultUnavailable):
    """Several machines may not write to this folder."""


@dataclass(frozen=True, slots=True)
class MachinePlace:
    """A machine's place among those that serve one knowledge base.

    `fault` says why it must be the only one; None if there may be others.
    """

    state: StateStore
    root: Path
    machine: str
    now: Callable[[], datetime]
    fault: FolderFault | None

    async def take(self) -> None:
        """Take the place.

        Raises:
            FolderNotShared: another machine serves the knowledge base, and one of the two must be the only one.
        """
        holder = self.machine + (ALONE if self.fault else "")
        if await self.state.acquire_lease(MACHINE_LEASE, holder, now=self.now(), ttl_s=LEASE_S) is not None:
            return
        held = await self.state.lease(MACHINE_LEASE)
        if held is None or not holds(held.expires_at, self.now(), LEASE_S):
            return
        other, alone = held.holder.removesuffix(ALONE), held.holder.endswith(ALONE)
        if other == self.machine:
            return
        name = other.partition(" ")[0]
        if self.fault is not None:
            raise FolderNotShared(
                str(self.root),
                f"the machine {name} serves it too, and {self.fault.reason}; {self.fault.mend}, or stop the servers on {name}"
                f" and start this one a minute later",
            )
        if alone:
            reason = f"the machine {name} serves it from a file system on which only one machine may write"
            raise FolderNotShared(str(self.root), f"{reason}; run knowledge-forge doctor there to see why")

    async def keep(self) -> None:
        """Keep the place. Runs until it is cancelled."""
        while True:
            await anyio.sleep(RENEWED_S)
            try:
                await self.take()
            except KnowledgeError as error:
                logger.warning("%s", error)


async def place_of(state: StateStore, root: Path, state_dir: Path, now: Callable[[], datetime]) -> MachinePlace:
    """Return the machine's place among those that use the folder, after testing its file system. State folders identify machines."""
    fault = await anyio.to_thread.run_sync(fault_of, root)
    if fault is not None:
        logger.warning("only one machine may serve %s: %s", root, fault.reason)
    return MachinePlace(state, root, _machine(state_dir), now, fault)


def _machine(state_dir: Path) -> str:
    """Return the machine's name for people and, after a space, a hash that distinguishes it from other machines of that name.

    Processes with the same state folder share its file locks, so they count as one machine, even in different
    containers.
    """
    name, status = "".join(socket.gethostname().split()) or "unnamed", state_dir.stat()
    known = f"{name} {state_dir} {status.st_dev} {status.st_ino}"
    return f"{name} {hashlib.sha256(known.encode('utf-8', 'replace')).hexdigest()[:12]}"
