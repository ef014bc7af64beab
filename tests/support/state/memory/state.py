"""A state store as plain Python: slow, obvious, the specification. An engine that disagrees with this file is wrong."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta

import anyio

from knowledge.leases import holds
from knowledge.state.ports import (
    Enrolment,
    Event,
    Held,
    Lease,
    ReadingMark,
    StateSize,
)
from knowledge.state.tables import StateTables
from knowledge.trust.ports import Proposal, TrustChange, TrustRecord
from tests.support.state.memory.ledger import MemoryLedger
from tests.support.state.memory.outbox import MemoryOutbox
from tests.support.state.memory.people import MemoryPeople
from tests.support.state.memory.trust import MemoryTrust


class MemoryStateStore:
    """Trust, leases and events that end with the process."""

    def __init__(self) -> None:
        self._enrolments: dict[str, Enrolment] = {}
        self._leases: dict[str, Lease] = {}
        self._released: set[str] = set()
        self._events: list[Event] = []
        self._looks: dict[tuple[str, str, ReadingMark], datetime] = {}
        self._nudges: dict[tuple[str, str, str], datetime] = {}
        self._published = anyio.Event()
        proposals: dict[str, Proposal] = {}
        self.ledger = MemoryLedger(self._tell, proposals)
        self.trust = MemoryTrust(self._tell, self.ledger.append, proposals)
        self.outbox = MemoryOutbox(self.ledger.append)
        self.people = MemoryPeople(self._tell, self.ledger.append)

    @property
    def tables(self) -> StateTables:
        """Raise: the state's other parts have memory stores of their own (`tests/support/state/engines.py`)."""
        raise NotImplementedError

    async def held(self) -> Sequence[Held]:
        """Return the sizes, largest first: only proposals have one here."""
        found: dict[str, list[int]] = {}
        for proposal in await self.trust.proposals(limit=10**9):
            found.setdefault(proposal.principal, []).append(len(proposal.arguments) + len(proposal.preview))
        each = [Held("proposals", whose, len(sizes), sum(sizes)) for whose, sizes in found.items()]
        return sorted(each, key=lambda one: -one.size_bytes)

    async def size(self) -> StateSize:
        """Return that nothing is on a disk."""
        return StateSize(0)

    async def give_back(self, *, spare: bool = True) -> bool:
        """Release nothing: there is no file."""
        del spare
        return False

    @property
    def gives_back(self) -> bool:
        """Return that nothing needs to be rewritten for that."""
        return True

    async def rewrite(self) -> bool:
        """Do nothing."""
        return False

    @property
    def place(self) -> str:
        """Return the location of the state: here."""
        return "this process's memory"

    async def check(self) -> Sequence[str]:
        """Return no problems: there can't be any."""
        return ()

    async def enrol(self, host: str, secret_digest: bytes, *, at: datetime) -> None:
        """Remember the host's secret, replacing an older one."""
        self._enrolments[host] = Enrolment(host, secret_digest, at)

    async def enrolments(self) -> Sequence[Enrolment]:
        """Return all of them by host name."""
        hosts = [self._enrolments[host] for host in sorted(self._enrolments)]
        return [replace(one, forms=self.trust.forms_of(one.host) == one.secret_digest) for one in hosts]

    async def host_of(self, secret_digest: bytes) -> str | None:
        """Return the principal's record, or None if it was never seen."""
        return next((e.host for e in await self.enrolments() if e.secret_digest == secret_digest), None)

    async def trust_record(self, principal: str) -> TrustRecord | None:
        """Return what is recorded, or None for a principal that was never seen."""
        return self.trust.trust_records.get(principal)

    async def trust_records(self) -> Sequence[TrustRecord]:
        """Return all, by principal."""
        return [trust_record for _, trust_record in sorted(self.trust.trust_records.items())]

    async def history(self, principal: str, *, limit: int) -> Sequence[TrustChange]:
        """Return the newest `limit` changes, newest first."""
        return [change for change in reversed(self.trust.changes) if change.principal == principal][:limit]

    async def acquire_lease(self, name: str, holder: str, *, now: datetime, ttl_s: float) -> Lease | None:
        """Take or extend the lease, or return None if another holder has it."""
        old = self._leases.get(name)
        mine = old is not None and old.holder == holder and name not in self._released
        if old is not None and not mine and name not in self._released and holds(old.expires_at, now, ttl_s):
            return None
        # With the clock, fences keep growing if the state is lost or restored; the index remembers the highest fence it has seen.
        fence = old.fence if old and mine else max((old.fence if old else 0) + 1, int(now.timestamp()))
        self._leases[name] = Lease(name, holder, fence, now + timedelta(seconds=ttl_s))
        self._released.discard(name)
        return self._leases[name]

    async def release_lease(self, name: str, holder: str) -> None:
        """Release it if `holder` has it; the fence is kept for the next one."""
        if name in self._leases and self._leases[name].holder == holder:
            self._released.add(name)

    async def lease(self, name: str) -> Lease | None:
        """Return the lease as last taken, expired or not; None if never taken or released."""
        return None if name in self._released else self._leases.get(name)

    async def publish(self, topic: str, keys: Iterable[str]) -> int:
        """Add one event for each key and return the newest `seq`."""
        return self._tell(topic, keys)

    def _tell(self, topic: str, keys: Iterable[str]) -> int:
        for key in keys:
            self._events.append(Event(len(self._events) + 1, topic, key))
        self._published.set()
        self._published = anyio.Event()
        return len(self._events)

    async def events_after(self, seq: int, *, limit: int = 1000) -> Sequence[Event]:
        """Return the events after `seq`, oldest first."""
        return [event for event in self._events if event.seq > seq][:limit]

    async def last_event(self) -> int:
        """Return the newest `seq`, 0 if there is no event."""
        return len(self._events)

    async def changed(self, seq: int) -> None:
        """Return as soon as the newest event is no longer `seq`."""
        while len(self._events) == seq:
            await self._published.wait()

    async def note_looks(self, principal: str, journey: str, looks: Collection[ReadingMark], *, at: datetime) -> None:
        """Record that the caller has just seen these; the newest time is kept."""
        for look in looks:
            key = (principal, journey, look)
            self._looks[key] = max(at, self._looks.get(key, at))

    async def looks(self, principal: str, journey: str, paths: Collection[str]) -> Mapping[ReadingMark, datetime]:
        """Return the caller's latest view of each of these paths, in any circle."""
        return {
            look: at
            for (who, which, look), at in self._looks.items()
            if (who, which) == (principal, journey) and look.path in paths
        }

    async def give_nudge(self, principal: str, journey: str, path: str, *, now: datetime, quiet_s: float) -> bool:
        """Return True, and record it, unless the caller got this nudge less than `quiet_s` ago."""
        key = (principal, journey, path)
        last = self._nudges.get(key)
        if last is not None and now - last < timedelta(seconds=quiet_s):
            return False
        self._nudges[key] = now
        return True

    async def close(self) -> None:
        """Close it: there is nothing to release."""
