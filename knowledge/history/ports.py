"""The contract of the ledger. Every engine passes the same contract suite, which compares it with `tests/support/state/memory/`.

A ledger lies in the state database of its knowledge base, beside trust and leases. Every method is one transaction.
Times come in as arguments (aware UTC). A revision is the first 16 hexadecimal digits of the SHA-256 of a page's bytes;
contents are kept once, compressed, by their whole digest.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Literal, Protocol

from knowledge.merge.model import Contradiction, Origin

How = Literal["seen", "written", "outside"]
"""How a state of a page came to be kept: shown to a caller, written by us, or found there and made by somebody else."""
Found = Literal["seen", "outside"]
"""How a state comes to be kept without an act of ours: what is `written` is kept by its act."""


@dataclass(frozen=True, slots=True)
class KeptState:
    """A state of a page's history. `at` is when it was last written or found there, `how` the way of that time."""

    revision: str
    at: datetime
    how: How


@dataclass(frozen=True, slots=True)
class FileChange:
    """One file of an act: revisions before and after, None where there is no file. `moved_from` is the page's path before.

    Equal revisions stand for a page that the act leaves as it is, but knows more about, or has put back as it was. A page
    that moves has two changes: it goes from where it was (`after` None) and is where `moved_from` says from where it came.

    `staged` is the name of the temporary file, in the same directory, that holds the new bytes before they are exchanged and
    the displaced ones afterwards; "" when there is none.
    """

    path: str
    before: str | None
    after: str | None
    staged: str = ""
    moved_from: str | None = None
    lines_added: int = 0
    lines_removed: int = 0


@dataclass(frozen=True, slots=True)
class Actor:
    """Who acts, with what: the principal, the tool, and the SHA-256 of its canonical arguments, hexadecimal.

    `call` names the call of a run of `agent_run` that it is (`r-ID/FRAME`), or the run where a person agreed to it; "" for others.
    """

    principal: str
    tool: str
    arguments_hash: str
    call: str = ""


@dataclass(frozen=True, slots=True)
class Intent:
    """An act that was begun. Until it is committed or dropped, whoever holds its files' locks may have to finish it.

    `entry` is what is to be committed if it turns out to have happened.
    """

    id: str
    at: datetime
    entry: HistoryEntry


@dataclass(frozen=True, slots=True)
class TrustMove:
    """How far a principal was trusted before an act on trust, and is after it: scores 0.0..5.0; frozen means not at all."""

    principal: str
    before: float
    after: float
    frozen: bool


@dataclass(frozen=True, slots=True)
class Delivery:
    """Where an act in another service went: its place there (`plane:KB`, `zulip:design/merge`), and the outbox entry that it was."""

    target: str
    errand: str


@dataclass(frozen=True, slots=True)
class RunNote:
    """A run of `agent_run`, and which model worked. The rest once it is over; `cost_micros` None where nobody knows all of it."""

    id: str
    model: str
    goal_achieved: bool | None = None
    iterations: int | None = None
    tokens_in: int | None = None
    tokens_out: int | None = None
    cost_micros: int | None = None


@dataclass(frozen=True, slots=True)
class HistoryEntry:
    """What an act puts on record, all of it or nothing."""

    at: datetime
    actor: Actor
    changes: tuple[FileChange, ...] = ()
    source: str = "user"
    confidence: float | None = None
    proposal: str | None = None
    decision: str | None = None
    intent: str = ""
    outcome: str = "done"
    """`done`, `partial`, `flagged` (nothing written), `undone` (written, found wrong, taken back) or `restored`; of what
    people decide `approved`, `rejected`, `withdrawn` or `trust`; of acts in other services `sent`, `failed` (certainly not done) or
    `unsure`; of runs `begun`, and then `done`, `failed` or `cancelled`."""
    origins: Mapping[str, Sequence[Origin]] = field(default_factory=dict)
    """By path, of every unit of the page as it is afterwards."""
    contradictions: Sequence[Contradiction] = ()
    trust_record: TrustMove | None = None
    """In the record only where it is set, so that records of acts on pages are as they always were."""
    delivery: Delivery | None = None
    """Likewise."""
    run: RunNote | None = None
    """Likewise."""


@dataclass(frozen=True, slots=True)
class AuditRecord:
    """One link of the audit chain. `digest = SHA-256(previous digest + body)`; `body` is the canonical JSON of the entry.

    `seq` counts from 1 without gaps.
    """

    seq: int
    body: str
    digest: bytes


@dataclass(frozen=True, slots=True)
class Revision:
    """One line of a page's history. `seq` is that of its audit record, None for a state that somebody else made."""

    id: int
    path: str
    revision: str | None
    before: str | None
    at: datetime
    how: How
    principal: str
    tool: str
    source: str
    confidence: float | None
    proposal: str | None
    intent: str
    lines_added: int
    lines_removed: int
    moved_from: str | None
    seq: int | None


@dataclass(frozen=True, slots=True)
class Tracked:
    """Where the units of a page came from when it was at `revision`."""

    revision: str
    origins: Sequence[Origin]


@dataclass(frozen=True, slots=True)
class Flag:
    """A contradiction on record, open until it is settled."""

    id: int
    at: datetime
    principal: str
    contradiction: Contradiction
    settled_at: datetime | None = None


class Ledger(Protocol):
    """Revisions, provenance, contradictions and the audit chain of one knowledge base."""

    async def keep(self, path: str, raw: bytes, *, how: Found, at: datetime) -> str:
        """Keep these bytes as a state of the page and return their revision.

        What is kept already only gets the newer time. `seen` survives a killed process, not necessarily a power cut;
        `outside` is durable and adds a line to the page's history, unless its newest line is this very revision.
        """
        ...

    async def content(self, path: str, revision: str) -> bytes | None:
        """Return the bytes of that state of the page, or None if it never was one, or is not kept any more.

        A page that was moved has been what it was at its former paths, until then.

        Raises:
            CorruptDatabase: the bytes are there and are others than were kept.
        """
        ...

    async def recent(self, path: str, *, limit: int) -> Sequence[KeptState]:
        """Return the states in the page's history, which were `written` or `outside`, newest first, each once."""
        ...

    async def intend(self, intent: Intent, contents: Sequence[bytes]) -> None:
        """Record that an act begins, and keep the bytes before and after. Survives a killed process.

        It takes the place of an earlier one with the same id.

        Raises:
            ValueError: content that no change of the act names, or origins of a page that the act does not leave behind.
        """
        ...

    async def intents(self) -> Sequence[Intent]:
        """Return every act that was begun and neither committed nor dropped, oldest first."""
        ...

    async def drop(self, intent_id: str) -> None:
        """Forget an act that did not happen. What was kept for it stays as if it had been seen."""
        ...

    async def commit(self, entry: HistoryEntry, *, intent_id: str | None = None) -> AuditRecord:
        """Put the act on record and end its intent, durably: audit record, history, origins, contradictions, change events.

        Of a page that moved, origins and history are found under the new path. Where bytes are others now, the page's
        history gets a line, its states before and after are kept for good, and there is an event `doc` with the path. A
        contradiction that is on record and open is not put there twice. The new link follows the end of the chain as kept,
        so that what was cut off before stays missing.

        An act that carries out a proposal of `trust.ports` (`entry.proposal`; unless it was `undone`) ends it as executed in
        the same transaction, with an event `proposal`: that is why an approved proposal is carried out once, whichever
        processes try. With an id of which there is no proposal it goes on.

        Raises:
            UnknownIntent: there is no such intent (any more): somebody else has finished or dropped it. Nothing is recorded.
            ProposalSettled: there is such a proposal and it is not approved (any more). Nothing is recorded.
            CorruptDatabase: the end of the chain is gone, or there are records behind it. Nothing is recorded.
            ValueError: origins of a page that the act does not leave behind.
        """
        ...

    async def history(self, path: str, *, limit: int, before: int | None = None) -> Sequence[Revision]:
        """Return the page's history, newest first, from the line after `before`; where it was moved, also from before that.

        What else lay at the path, earlier or since, is part of it too: each line says at which path it was.
        """
        ...

    async def tracked(self, path: str) -> Tracked | None:
        """Return what is known of the page's units; None when nothing was ever written to it through us.

        Of a page that is gone it stays known, because it may come back.
        """
        ...

    async def told_by(self, sources: Collection[str], *, limit: int) -> Sequence[str]:
        """Return where the pages are now in whose history an act has one of these sources, the newest act first.

        Sources are compared as they were written down, and only those of kinds `plane` and `zulip` are looked for. A page
        that is gone is told by the path that it had last.
        """
        ...

    async def flags(self, path: str | None, *, limit: int, after: int | None = None) -> Sequence[Flag]:
        """Return open contradictions, newest first, from the one after `after`, of which a side lies at or below `path`."""
        ...

    async def settle(self, flag_ids: Sequence[int], *, at: datetime) -> None:
        """Close these contradictions: a side of them does not say so any more, or a person decided."""
        ...

    async def records(self, *, after: int = 0, limit: int = 1000) -> Sequence[AuditRecord]:
        """Return audit records, oldest first."""
        ...

    async def chain_end(self) -> tuple[int, bytes]:
        """Return `seq` and digest of the newest record as kept beside the chain, so that a cut tail is noticed; (0, b"") at first."""
        ...

    async def forget(self, *, seen_before: datetime, limit: int = 1000) -> int:
        """Drop states that were only `seen`, last before then, the oldest first, and return how many; so many at once at most.

        Their bytes go with them unless another page has the same. A state that is part of a page's history, or of an act
        that was begun, is never dropped.
        """
        ...
