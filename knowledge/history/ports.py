"""The contract of the ledger. Every engine passes the same contract suite, which compares it with `tests/support/state/memory/`.

A ledger is part of the state database of its knowledge base, like trust and leases. Every method is one transaction.
Times are arguments (aware UTC). A revision is the first 16 hexadecimal digits of the SHA-256 of a page's bytes;
contents are kept once, compressed, by their full digest.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Literal, Protocol

from knowledge.merge.model import Contradiction, Dismissal, Origin

How = Literal["seen", "written", "outside"]
"""Why a state of a page is kept: it was shown to a caller, written by the server, or found after somebody else made it."""
Found = Literal["seen", "outside"]
"""Why a state is kept without an act of the server; `written` states are kept by their act."""


@dataclass(frozen=True, slots=True)
class KeptState:
    """A state in a page's history. `at` is when it was last written or found, `how` which of the two."""

    revision: str
    at: datetime
    how: How


@dataclass(frozen=True, slots=True)
class FileChange:
    """One file of an act: revisions before and after, None where there is no file. `moved_from` is the page's former path.

    Equal revisions mean that the act only recorded something about the page, or restored it. A page
    that moves has two changes: its old path (`after` None), and its new one with `moved_from`.

    `staged` is the name of the temporary file in the same directory that has the new bytes before they are exchanged and
    the displaced ones afterwards; "" if there is none.
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
    """The actor of an act: the principal, the tool, and the SHA-256 of its canonical arguments, hexadecimal.

    `call` names the call of a run of `agent_run` (`r-ID/FRAME`), or the run in which a person approved it; "" for others.
    """

    principal: str
    tool: str
    arguments_hash: str
    call: str = ""


@dataclass(frozen=True, slots=True)
class Intent:
    """An act that has begun. Until it is committed or dropped, the next holder of its files' locks may have to finish it.

    `entry` is committed if the act turns out to have happened.
    """

    id: str
    at: datetime
    entry: HistoryEntry


@dataclass(frozen=True, slots=True)
class TrustMove:
    """The score of a principal before and after an act on trust, 0.0..5.0; a frozen one is not trusted at all."""

    principal: str
    before: float
    after: float
    frozen: bool


@dataclass(frozen=True, slots=True)
class Delivery:
    """The destination of an act in another service (`plane:KB`, `zulip:design/merge`), and the id of its outbox entry."""

    target: str
    errand: str


@dataclass(frozen=True, slots=True)
class RunNote:
    """A run of `agent_run` and its model; the other fields are known once it has ended. `cost_micros` is None if partly unknown."""

    id: str
    model: str
    goal_achieved: bool | None = None
    iterations: int | None = None
    tokens_in: int | None = None
    tokens_out: int | None = None
    cost_micros: int | None = None


@dataclass(frozen=True, slots=True)
class HistoryEntry:
    """Everything that an act puts on record, in one transaction."""

    at: datetime
    actor: Actor
    changes: tuple[FileChange, ...] = ()
    source: str = "user"
    confidence: float | None = None
    proposal: str | None = None
    decision: str | None = None
    intent: str = ""
    outcome: str = "done"
    """`done`, `partial`, `flagged` (nothing written), `undone` (written, found wrong, taken back) or `restored`; for
    contradictions `dismissed` or `reopened`; for decisions `approved`, `rejected`, `joined`, `withdrawn` or `trust`; for acts in
    other services `sent`, `failed` (certainly not done) or `unsure`; for runs `begun`, and then `done`, `failed` or `cancelled`."""
    origins: Mapping[str, Sequence[Origin]] = field(default_factory=dict)
    """The origins of every unit of each page after the act, by path."""
    contradictions: Sequence[Contradiction] = ()
    trust_record: TrustMove | None = None
    """This and the next two fields are in the audit record only if set, so that records of acts on pages keep their form."""
    delivery: Delivery | None = None
    run: RunNote | None = None
    judgements: tuple[tuple[str, str], ...] = ()
    """The host's answers to questions about statements: the digest of each pair (hexadecimal) and the answer."""
    undoes: tuple[int, ...] = ()
    """The audit records (`seq`) of the acts that this act takes back."""


@dataclass(frozen=True, slots=True)
class AuditRecord:
    """One link of the audit chain. `digest = SHA-256(previous digest + body)`; `body` is the canonical JSON of the entry.

    `seq` counts from 1 without gaps.
    """

    seq: int
    body: str
    digest: bytes


@dataclass(frozen=True, slots=True)
class AuditScan:
    """A stretch of the audit chain to look through, from record `down_to` to the last one before record `before`.

    `parts` and `words` are groups: a record's body must contain at least one text of each; in words, the case of ASCII letters is
    ignored. A record is left out if its time is before `since`, or not before `until`; one without a time is kept.
    """

    before: int
    down_to: int = 1
    parts: tuple[tuple[str, ...], ...] = ()
    words: tuple[tuple[str, ...], ...] = ()
    since: datetime | None = None
    until: datetime | None = None


@dataclass(frozen=True, slots=True)
class Revision:
    """One line of a page's history. `seq` is that of its audit record; the defaults are those of a state made outside the server."""

    id: int
    path: str
    revision: str | None
    before: str | None
    at: datetime
    how: How
    principal: str = ""
    tool: str = ""
    source: str = "unknown"
    confidence: float | None = None
    proposal: str | None = None
    intent: str = ""
    lines_added: int = 0
    lines_removed: int = 0
    moved_from: str | None = None
    seq: int | None = None


@dataclass(frozen=True, slots=True)
class RecordedAct:
    """One act in the timeline: every line that it added to histories of pages, in their order; never empty.

    A state that was made outside the server is an act of one line. The other fields are those of its audit record; `undoes` are the
    records of acts that it took back.
    """

    lines: Sequence[Revision]
    outcome: str = ""
    decision: str = ""
    call: str = ""
    undoes: tuple[int, ...] = ()

    @property
    def place(self) -> tuple[datetime, int]:
        """Where it is in the timeline: its time and the id of its first line."""
        return self.lines[0].at, self.lines[0].id


@dataclass(frozen=True, slots=True)
class ActsWanted:
    """The acts of a timeline that somebody wants to see; the defaults leave out none.

    `page` is one page, also where it was before it moved; `folder` is a path with everything below it. `who` is a principal, the host
    in it, or a person who made or approved the act; "" means changes of files made outside the server. `since` is included, `until` is
    not.
    """

    page: str | None = None
    folder: str = ""
    who: str | None = None
    since: datetime | None = None
    until: datetime | None = None


@dataclass(frozen=True, slots=True)
class Tracked:
    """The origins of a page's units when it was at `revision`."""

    revision: str
    origins: Sequence[Origin]


SettledHow = Literal["first", "second", "edited", "approved", "changed"]
"""How a contradiction was settled: a person kept the existing (`first`) or the new (`second`) statement, or edited a page;
the claim was approved; or a page no longer had one of the statements, whoever changed it."""


@dataclass(frozen=True, slots=True)
class Settlement:
    """The end of a contradiction. `reason` is one sentence about what was done, "" if nothing more is known."""

    how: SettledHow
    by: str
    at: datetime
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Flag:
    """A contradiction on record, open until it is settled or dismissed. `rank` orders them: a thousand times the confidence.

    `settlement` is None for one that was settled before this was recorded.
    """

    id: int
    at: datetime
    principal: str
    contradiction: Contradiction
    rank: int = 0
    settled_at: datetime | None = None
    dismissal: Dismissal | None = None
    settlement: Settlement | None = None


def rank_of(contradiction: Contradiction) -> int:
    """Return the rank of a contradiction, 0 to 1000. An integer, because a list continues after exactly that value."""
    return round(1000 * contradiction.confidence)


class Ledger(Protocol):
    """Revisions, provenance, contradictions and the audit chain of one knowledge base."""

    async def keep(self, path: str, raw: bytes, *, how: Found, at: datetime) -> str:
        """Keep these bytes as a state of the page and return their revision.

        A state that is kept already only gets the newer time. `seen` survives a killed process, but not always a power cut;
        `outside` is durable and adds a line to the page's history, unless its newest line has this revision.
        """
        ...

    async def seen_last(self, path: str) -> KeptState | None:
        """Return the kept state of the page with the newest time, whether or not it is in the page's history; None if none is kept."""
        ...

    async def removed(self, path: str, *, at: datetime) -> None:
        """Record that somebody removed the page outside the server, durably: a line of its history without a revision.

        Nothing is recorded if its newest line has none already, or if it has no history.
        """
        ...

    async def newest_lines(self) -> Sequence[Revision]:
        """Return the newest line of every path that has a history, in any order."""
        ...

    async def begun(self) -> datetime | None:
        """Return when the first state of a page was kept, None before that."""
        ...

    async def content(self, path: str, revision: str) -> bytes | None:
        """Return the bytes of that state of the page, or None if the page never had that revision, or its bytes are no longer kept.

        The states of a page that was moved include those that it had at its former paths until it moved.

        Raises:
            CorruptDatabase: the kept bytes have changed.
        """
        ...

    async def content_sizes(self) -> Mapping[str, int]:
        """Return the size in bytes of every state that is kept, of any page, by revision."""
        ...

    async def recent(self, path: str, *, limit: int) -> Sequence[KeptState]:
        """Return the `written` and `outside` states in the page's history, newest first, each once."""
        ...

    async def intend(self, intent: Intent, contents: Sequence[bytes]) -> None:
        """Record that an act begins, and keep the bytes before and after. Survives a killed process.

        It replaces an earlier one with the same id.

        Raises:
            ValueError: no change of the act names some content, or origins belong to a page that does not exist after it.
        """
        ...

    async def intents(self) -> Sequence[Intent]:
        """Return every act that has begun and was neither committed nor dropped, oldest first."""
        ...

    async def drop(self, intent_id: str) -> None:
        """Forget an act that did not happen. The contents kept for it stay as if they had been `seen`."""
        ...

    async def commit(self, entry: HistoryEntry, *, intent_id: str | None = None) -> AuditRecord:
        """Record the act and end its intent, durably: audit record, history, origins, contradictions, change events.

        Origins and history of a page that moved are found under the new path. Where bytes have changed, the page's
        history gets a line, its states before and after are kept permanently, and an event `doc` names the path. A
        contradiction that is on record and open is not recorded twice. If a person dismissed the contradiction of two
        statements on these pages, it is not recorded again. A page that moves takes its contradictions along. The new
        link follows the recorded end of the chain, so that a tail cut off earlier still shows as missing.

        An act that carries out a proposal of `trust.ports` (`entry.proposal`, unless it was `undone`) ends it as executed in
        the same transaction, with an event `proposal`. That is why an approved proposal is carried out once, whichever
        processes try. An id without a proposal is ignored.

        Raises:
            UnknownIntent: the intent does not exist, or another process has finished or dropped it. Nothing is recorded.
            ProposalSettled: the proposal is not approved, or no longer approved. Nothing is recorded.
            CorruptDatabase: the end of the chain is missing, or records follow it. Nothing is recorded.
            ValueError: origins belong to a page that does not exist after the act.
        """
        ...

    async def history(self, path: str, *, limit: int, before: int | None = None) -> Sequence[Revision]:
        """Return the page's history, newest first, from the line after `before`, including lines from before a move.

        It includes other pages that were at that path earlier or later; each line has its path.
        """
        ...

    async def lines_after(
        self, after: int, *, limit: int, since: datetime | None = None, moves: bool = False
    ) -> Sequence[Revision]:
        """Return the lines of all pages' histories after the line with the id `after`, oldest first.

        With `since`, only those made then or later; with `moves`, only those of pages that moved.
        """
        ...

    async def timeline(
        self, wanted: ActsWanted, *, limit: int, after: tuple[datetime, int] | None = None
    ) -> Sequence[RecordedAct]:
        """Return the acts on all pages, newest first, each with all its lines; the list continues after that `place`.

        They are ordered by their times, and acts of the same time by their first lines.
        """
        ...

    async def act(self, name: str) -> RecordedAct | None:
        """Return the act with this name (`acts.act_name`); None if no act on pages has it."""
        ...

    async def tracked(self, path: str) -> Tracked | None:
        """Return the origins of the page's units; None if the server never wrote to it.

        Those of a removed page are kept, because it may come back.
        """
        ...

    async def told_by(self, sources: Collection[str], *, limit: int) -> Sequence[str]:
        """Return the current paths of pages in whose history an act has one of these sources, newest act first.

        Sources are compared exactly, and only those of kinds `plane` and `zulip` are searched. A page that was removed
        is returned with its last path.
        """
        ...

    async def flags(
        self, path: str | None, *, limit: int, after: tuple[int, int] | None = None, dismissed: bool = False
    ) -> Sequence[Flag]:
        """Return open contradictions with a side at or below `path`, or only `dismissed` ones.

        The highest rank comes first, and within a rank the newest; the list continues after the rank and id `after`.
        """
        ...

    async def flag(self, flag_id: int) -> Flag | None:
        """Return the contradiction, whether it is open or not."""
        ...

    async def dismissals(self, path: str) -> Mapping[bytes, Dismissal]:
        """Return the newest dismissal of each pair of statements (`Contradiction.pair`) that are both on this page."""
        ...

    async def dismiss(self, flag_id: int, dismissal: Dismissal, entry: HistoryEntry) -> bool:
        """Dismiss an open contradiction and record the act; False, and nothing recorded, if it is not open.

        An act that carries out a proposal ends it, as `commit` does.

        Raises:
            ProposalSettled: that proposal is not approved, or no longer approved. Nothing is recorded.
        """
        ...

    async def reopen(self, flag_id: int, entry: HistoryEntry) -> bool:
        """Undo a dismissal and record that; False, and nothing recorded, if it is not dismissed."""
        ...

    async def settle(self, flag_ids: Sequence[int], settlement: Settlement) -> None:
        """Close those of these contradictions that are open: one of their sides has changed, or a person has decided.

        A person's settlement also replaces `changed`, because another process may notice the change of a page first.
        """
        ...

    async def settled(self, path: str | None, *, limit: int) -> Sequence[Flag]:
        """Return settled contradictions with a side at or below `path` whose settlement is on record, newest first."""
        ...

    async def revive(self, flag_id: int, entry: HistoryEntry) -> bool:
        """Open a settled contradiction again, because both statements are back, and record that.

        False, and nothing recorded, if it is not settled, or if these two statements have been recorded again since.
        """
        ...

    async def records(self, *, after: int = 0, limit: int = 1000) -> Sequence[AuditRecord]:
        """Return audit records, oldest first."""
        ...

    async def scan(self, wanted: AuditScan, *, limit: int) -> Sequence[AuditRecord]:
        """Return the newest records that match, newest first. Only the records that match leave the database."""
        ...

    async def chain_end(self) -> tuple[int, bytes]:
        """Return `seq` and digest of the newest record, stored apart from the chain so that a cut tail is noticed.

        Before the first record it is (0, b"").
        """
        ...

    async def forget(self, *, seen_before: datetime, limit: int = 1000) -> int:
        """Drop at most `limit` states, oldest first, that were only `seen`, and not since that time; return how many were dropped.

        Their bytes are dropped too, unless another page has the same bytes. A state in a page's history or in an act that has begun
        is never dropped.
        """
        ...
