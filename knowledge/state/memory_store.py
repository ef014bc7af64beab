"""Both stores as plain Python: slow, obvious, the specification. An engine that disagrees with this file is wrong."""

from __future__ import annotations

import secrets
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

import anyio

from knowledge.errors import LeaseLost
from knowledge.history.stores.memory import MemoryLedger
from knowledge.leases import holds
from knowledge.outbox.memory import MemoryOutbox
from knowledge.pages.paths import ancestors, parent, within
from knowledge.state.document_names import BY, begins_in, name_key, names_of
from knowledge.state.ports import (
    ChunkRow,
    CodeRow,
    Delta,
    DirectoryRecord,
    DocumentRecord,
    Enrolment,
    Event,
    Filters,
    Held,
    IndexChange,
    IndexedChunk,
    IndexIdentity,
    IndexPosition,
    LackingRow,
    Lease,
    NameMatch,
    Progress,
    ReadingMark,
    Remove,
    Space,
    Stamp,
    StateSize,
    TextRow,
    Touch,
)
from knowledge.trust.memory import MemoryTrust
from knowledge.trust.ports import Proposal, TrustChange, TrustRecord


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
        self._ledger = MemoryLedger(self._tell, proposals)
        self._trust = MemoryTrust(self._tell, self._ledger.append, proposals)
        self._outbox = MemoryOutbox(self._ledger.append)

    @property
    def ledger(self) -> MemoryLedger:
        """Return the ledger, which ends with the process as well."""
        return self._ledger

    @property
    def trust(self) -> MemoryTrust:
        """Return the records of trust, which end with the process as well."""
        return self._trust

    @property
    def outbox(self) -> MemoryOutbox:
        """Return the outbox, which ends with the process as well."""
        return self._outbox

    async def held(self) -> Sequence[Held]:
        """Return what takes the space, the most first: of proposals only, the rest has no size here."""
        found: dict[str, list[int]] = {}
        for proposal in await self._trust.proposals(limit=10**9):
            found.setdefault(proposal.principal, []).append(len(proposal.arguments) + len(proposal.preview))
        each = [Held("proposals", whose, len(sizes), sum(sizes)) for whose, sizes in found.items()]
        return sorted(each, key=lambda one: -one.size_bytes)

    async def size(self) -> StateSize:
        """Return that nothing is on a disk."""
        return StateSize(0)

    async def give_back(self, *, spare: bool = True) -> bool:
        """Give nothing back: there is no file."""
        del spare
        return False

    @property
    def gives_back(self) -> bool:
        """Return that nothing has to be rewritten for it."""
        return True

    async def rewrite(self) -> bool:
        """Leave it as it is."""
        return False

    @property
    def place(self) -> str:
        """Return where the state is: here."""
        return "this process's memory"

    async def check(self) -> Sequence[str]:
        """Return what is wrong: nothing can be."""
        return ()

    async def enrol(self, host: str, secret_digest: bytes, *, at: datetime) -> None:
        """Remember the host's secret, replacing an older one."""
        self._enrolments[host] = Enrolment(host, secret_digest, at)

    async def enrolments(self) -> Sequence[Enrolment]:
        """Return all of them by host name."""
        hosts = [self._enrolments[host] for host in sorted(self._enrolments)]
        return [replace(one, forms=self._trust.forms_of(one.host) == one.secret_digest) for one in hosts]

    async def host_of(self, secret_digest: bytes) -> str | None:
        """Return the host whose secret has that digest, or None."""
        return next((e.host for e in await self.enrolments() if e.secret_digest == secret_digest), None)

    async def trust_record(self, principal: str) -> TrustRecord | None:
        """Return what is recorded, or None for a principal that was never seen."""
        return self._trust.trust_records.get(principal)

    async def trust_records(self) -> Sequence[TrustRecord]:
        """Return all, by principal."""
        return [trust_record for _, trust_record in sorted(self._trust.trust_records.items())]

    async def history(self, principal: str, *, limit: int) -> Sequence[TrustChange]:
        """Return the newest `limit` changes, newest first."""
        return [change for change in reversed(self._trust.changes) if change.principal == principal][:limit]

    async def acquire_lease(self, name: str, holder: str, *, now: datetime, ttl_s: float) -> Lease | None:
        """Take or extend the lease, or return None if another holder has it."""
        old = self._leases.get(name)
        mine = old is not None and old.holder == holder and name not in self._released
        if old is not None and not mine and name not in self._released and holds(old.expires_at, now, ttl_s):
            return None
        # The clock keeps fences growing when the state is lost or restored while the index, which remembers the
        # highest fence it met, is not.
        fence = old.fence if old and mine else max((old.fence if old else 0) + 1, int(now.timestamp()))
        self._leases[name] = Lease(name, holder, fence, now + timedelta(seconds=ttl_s))
        self._released.discard(name)
        return self._leases[name]

    async def release_lease(self, name: str, holder: str) -> None:
        """Free it if `holder` has it; the fence is kept for the next one."""
        if name in self._leases and self._leases[name].holder == holder:
            self._released.add(name)

    async def lease(self, name: str) -> Lease | None:
        """Return the lease as last taken, expired or not; None if never taken or released."""
        return None if name in self._released else self._leases.get(name)

    async def publish(self, topic: str, keys: Iterable[str]) -> int:
        """Add one event a key and return the newest `seq`."""
        return self._tell(topic, keys)

    def _tell(self, topic: str, keys: Iterable[str]) -> int:
        for key in keys:
            self._events.append(Event(len(self._events) + 1, topic, key))
        self._published.set()
        self._published = anyio.Event()
        return len(self._events)

    async def events_after(self, seq: int, *, limit: int = 1000) -> Sequence[Event]:
        """Return what came after `seq`, oldest first."""
        return [event for event in self._events if event.seq > seq][:limit]

    async def last_event(self) -> int:
        """Return the newest `seq`, 0 when nothing ever happened."""
        return len(self._events)

    async def changed(self, seq: int) -> None:
        """Return as soon as the newest event is another one than `seq`."""
        while len(self._events) == seq:
            await self._published.wait()

    async def note_looks(self, principal: str, journey: str, looks: Collection[ReadingMark], *, at: datetime) -> None:
        """Remember that the caller has just seen these; the newest time is kept."""
        for look in looks:
            key = (principal, journey, look)
            self._looks[key] = max(at, self._looks.get(key, at))

    async def looks(self, principal: str, journey: str, paths: Collection[str]) -> Mapping[ReadingMark, datetime]:
        """Return what the caller has seen of these paths, in any circle, and when last."""
        return {
            look: at
            for (who, which, look), at in self._looks.items()
            if (who, which) == (principal, journey) and look.path in paths
        }

    async def give_nudge(self, principal: str, journey: str, path: str, *, now: datetime, quiet_s: float) -> bool:
        """Return True, and remember it, unless the caller got this nudge less than `quiet_s` ago."""
        key = (principal, journey, path)
        last = self._nudges.get(key)
        if last is not None and now - last < timedelta(seconds=quiet_s):
            return False
        self._nudges[key] = now
        return True

    async def close(self) -> None:
        """Give everything back: there is nothing to give."""


@dataclass
class _StoredEntry:
    doc: int
    record: DocumentRecord
    chunks: dict[int, IndexedChunk]


class MemoryIndexStore:
    """An index that ends with the process."""

    def __init__(self) -> None:
        self._generation = self._space = secrets.token_hex(8)
        self._identity = IndexIdentity("", 0, 0)
        self._coming: IndexIdentity | None = None
        self._supplied: dict[bytes, tuple[bytes, bytes]] = {}
        self._entries: dict[str, _StoredEntry] = {}
        self._removals: list[tuple[int, int]] = []
        self._seq = self._doc = self._fence = self._total = 0

    async def position(self) -> IndexPosition:
        """Return how far it is."""
        return IndexPosition(self._generation, self._seq)

    async def begin(self, identity: IndexIdentity) -> bool:
        """Return whether what is stored stays; if not, it is empty now and has another generation."""
        same = self._identity.same_vectors(identity)
        if self._identity.recipe != identity.recipe or not (same or self._entries):
            self._generation = self._space = secrets.token_hex(8)
            self._identity, self._coming, self._supplied = identity, None, {}
            self._entries, self._removals, self._total = {}, [], 0
            return False
        if not (await self.space()).wanted.same_vectors(identity):
            self._coming, self._supplied = None if same else identity, {}
        return True

    async def space(self) -> Space:
        """Return whose vectors it holds, and which are coming."""
        return Space(self._identity, IndexPosition(self._space, self._seq), self._coming)

    def _lacks(self, chunk: IndexedChunk) -> bool:
        return chunk.digest not in self._supplied and (self._coming is not None or not chunk.half)

    async def lacking(self, after: int, *, limit: int) -> Sequence[LackingRow]:
        """Return at most `limit` chunks above `after`, by `seq`, that have no vector of the wanted embedder yet."""
        stored = {seq: chunk for entry in self._entries.values() for seq, chunk in entry.chunks.items()}
        found = [(seq, stored[seq]) for seq in sorted(stored) if seq > after and self._lacks(stored[seq])]
        return [LackingRow(seq, chunk.digest, chunk.section, chunk.text) for seq, chunk in found[:limit]]

    async def supply(self, vectors: Mapping[bytes, tuple[bytes, bytes]], *, of: IndexIdentity, fence: int) -> bool:
        """Keep these vectors beside those that serve; False, and nothing kept, if `of` is not wanted."""
        self._require(fence)
        if not (await self.space()).wanted.same_vectors(of):
            return False
        self._supplied |= vectors
        return True

    async def swap(self, *, fence: int) -> bool:
        """Let what was supplied serve from now on; False, and nothing done, while a chunk lacks its vector."""
        self._require(fence)
        chunks = [chunk for entry in self._entries.values() for chunk in entry.chunks.values()]
        if any(self._lacks(chunk) for chunk in chunks):
            return False
        if self._coming is None and all(chunk.half for chunk in chunks):
            return True
        for entry in self._entries.values():
            entry.chunks = {seq: self._exchanged(chunk) for seq, chunk in entry.chunks.items()}
        if self._coming is not None:
            self._identity = replace(self._coming, dimensions=self._coming.dimensions or _dimensions(self._supplied))
        self._coming, self._supplied, self._space = None, {}, secrets.token_hex(8)
        return True

    def _exchanged(self, chunk: IndexedChunk) -> IndexedChunk:
        if chunk.half and self._coming is None:
            return chunk
        half, code = self._supplied[chunk.digest]
        return replace(chunk, half=half, code=code)

    async def renewal(self) -> Progress | None:
        """Return how many chunks have a vector of the wanted embedder, and how many there are; None when all do."""
        chunks = [chunk for entry in self._entries.values() for chunk in entry.chunks.values()]
        lacking = sum(self._lacks(chunk) for chunk in chunks)
        exchanging = self._coming is not None or not all(chunk.half for chunk in chunks)
        return Progress(len(chunks) - lacking, len(chunks)) if exchanging else None

    def _require(self, fence: int) -> None:
        if fence < self._fence:
            raise LeaseLost("index", fence)
        self._fence = fence

    async def apply(self, changes: Sequence[IndexChange], *, fence: int) -> IndexPosition:
        """Make all `changes` and return the new position."""
        self._require(fence)
        for change in changes:
            if isinstance(change, Touch):
                self._touch(change)
            elif isinstance(change, Remove):
                self._remove(change.path)
            else:
                doc = self._remove(change.record.path)
                if doc is None:
                    self._doc += 1
                    doc = self._doc
                self._entries[change.record.path] = _StoredEntry(
                    doc, change.record, {self._next_seq(): chunk for chunk in change.chunks}
                )
                self._next_seq()  # so that a document without chunks is seen to come as well
                halves = {chunk.digest: (chunk.half, chunk.code) for chunk in change.chunks}
                dimensions = self._identity.dimensions or _dimensions(halves)
                self._identity = replace(self._identity, dimensions=dimensions)
        return await self.position()

    def _next_seq(self) -> int:
        self._seq += 1
        return self._seq

    def _touch(self, change: Touch) -> None:
        if entry := self._entries.get(change.path):
            entry.record = replace(entry.record, stamp=change.stamp, indexed_at_ns=change.indexed_at_ns)

    def _remove(self, path: str) -> int | None:
        entry = self._entries.pop(path, None)
        if entry is None:
            return None
        self._removals += [(self._next_seq(), gone) for gone in entry.chunks]
        self._next_seq()
        return entry.doc

    async def set_total(self, total: int) -> None:
        """Record how many documents there are to be indexed."""
        self._total = total

    async def progress(self) -> Progress:
        """Return documents indexed, and to be indexed (at least `done`)."""
        return Progress(len(self._entries), max(self._total, len(self._entries)))

    async def stamps(self, paths: Sequence[str] | None = None) -> Mapping[str, tuple[Stamp, str, int]]:
        """Return stamp, revision and `indexed_at_ns` of those of `paths` that are documents, or of every document, by path."""
        records = {path: entry.record for path, entry in self._entries.items() if paths is None or path in paths}
        return {path: (r.stamp, r.revision, r.indexed_at_ns) for path, r in records.items()}

    async def vectors(self, digests: Sequence[bytes]) -> Mapping[bytes, tuple[bytes, bytes]]:
        """Return `(half, code)` of those chunk texts that have a serving vector."""
        chunks = [chunk for entry in self._entries.values() for chunk in entry.chunks.values()]
        known = {chunk.digest: (chunk.half, chunk.code) for chunk in chunks if chunk.half}
        return {digest: known[digest] for digest in digests if digest in known}

    async def delta(self, after: IndexPosition, *, limit: int, texts: bool = False, codes: bool = False) -> Delta:
        """Return at most `limit` rows and removals that came after `after`; all, if the generation differs."""
        generation = self._space if codes else self._generation
        start = after.seq if after.generation == generation else 0
        stored = {seq: (entry, chunk) for entry in self._entries.values() for seq, chunk in entry.chunks.items()}
        gone = dict(self._removals)
        happened = sorted(seq for seq in (*stored, *gone) if seq > start)
        upto = happened[limit - 1] if len(happened) > limit else self._seq
        kept = [(seq, *stored[seq]) for seq in happened if seq <= upto and seq in stored]
        return Delta(
            texts=[TextRow(s, e.doc, c.section, c.text, e.record.language) for s, e, c in kept] if texts else [],
            codes=[CodeRow(s, e.doc, c.code) for s, e, c in kept] if codes else [],
            removed=[gone[seq] for seq in happened if seq <= upto and seq in gone and gone[seq] <= start],
            upto=IndexPosition(generation, upto),
        )

    async def halves(self, seqs: Sequence[int]) -> Sequence[bytes]:
        """Return the float16 vectors of these chunks in this order; empty bytes for one that is gone or has none yet."""
        known = {seq: chunk.half for entry in self._entries.values() for seq, chunk in entry.chunks.items()}
        return [known.get(seq, b"") for seq in seqs]

    async def chunks(self, seqs: Sequence[int]) -> Mapping[int, ChunkRow]:
        """Return those of these chunks that still exist."""
        known = {seq: (e, c) for e in self._entries.values() for seq, c in e.chunks.items()}
        return {seq: _chunk_row(seq, *known[seq]) for seq in seqs if seq in known}

    async def document(self, path: str) -> DocumentRecord | None:
        """Return the record of one document."""
        entry = self._entries.get(path)
        return entry.record if entry else None

    async def records(self, docs: Collection[int]) -> Mapping[int, DocumentRecord]:
        """Return the records of those of these documents that still exist."""
        return {entry.doc: entry.record for entry in self._entries.values() if entry.doc in docs}

    async def directory(self, path: str) -> DirectoryRecord | None:
        """Return the record of one directory; the root is `""` and always exists."""
        below = [e.record.stamp.mtime_ns for p, e in self._entries.items() if path in ancestors(p)]
        return DirectoryRecord(path, len(below), max(below, default=0)) if below or not path else None

    async def children(
        self, directory: str, *, limit: int
    ) -> tuple[Sequence[DirectoryRecord], Sequence[DocumentRecord]]:
        """Return subdirectories and documents right below, each by path, at most `limit` of each."""
        above = {folder for path in self._entries for folder in ancestors(path)}
        folders = sorted(folder for folder in above if folder and parent(folder) == directory)[:limit]
        paths = sorted(path for path in self._entries if parent(path) == directory)[:limit]
        records = [await self.directory(folder) for folder in folders]
        return [record for record in records if record], [self._entries[path].record for path in paths]

    async def select(self, filters: Filters) -> frozenset[int] | None:
        """Return the document numbers that `filters` admit; None when they are not set."""
        if filters == Filters():
            return None
        return frozenset(entry.doc for entry in self._entries.values() if _admits(filters, entry.record))

    async def named(self, name: str, *, limit: int) -> Sequence[NameMatch]:
        """Return what bears `name`, each document and section once, by its best reason."""
        key = name_key(name)
        matches = sorted(
            (n.rank, path, n.position, entry.doc, n.section)
            for path, entry in self._entries.items()
            for n in names_of(entry.record)
            if n.key == key
        )
        found: dict[tuple[int, str | None], NameMatch] = {}
        for rank, path, _, doc, section in matches:
            found.setdefault((doc, section), NameMatch(doc, path, section, BY[rank]))
        return list(found.values())[:limit]

    async def first_chunk(self, doc: int, section: str | None) -> int | None:
        """Return the chunk with which the document or its section begins; None if there is none."""
        chunks = {seq: c for entry in self._entries.values() if entry.doc == doc for seq, c in entry.chunks.items()}
        ordered = sorted(chunks, key=lambda seq: chunks[seq].ordinal)
        return next((seq for seq in ordered if begins_in(chunks[seq].section, section)), None)

    async def languages(self) -> Sequence[str]:
        """Return the languages that documents are in, most frequent first."""
        counts = Counter(entry.record.language for entry in self._entries.values())
        return sorted(counts, key=lambda language: (-counts[language], language))

    async def paths(self, *, prefix: str = "", contains: str = "", limit: int) -> Sequence[str]:
        """Return document paths that begin with `prefix` and contain `contains` (case ignored), by path."""
        head, part = prefix.casefold(), contains.casefold()
        keys = {path: path.casefold() for path in sorted(self._entries)}
        return [path for path, key in keys.items() if key.startswith(head) and part in key][:limit]

    async def mentioning(self, words: Collection[str]) -> Sequence[str]:
        """Return the paths of documents whose text has one of these strings (case ignored), by path."""
        keys = [word.casefold() for word in words]
        return sorted(
            path
            for path, entry in self._entries.items()
            if any(key in chunk.text.casefold() for chunk in entry.chunks.values() for key in keys)
        )

    def _counts(self) -> Counter[str]:
        return Counter(w for entry in self._entries.values() for chunk in entry.chunks.values() for w in chunk.words)

    async def frequencies(self, words: Sequence[str]) -> Mapping[str, int]:
        """Return in how many chunks each known word occurs."""
        counts = self._counts()
        return {word: counts[word] for word in words if word in counts}

    async def completions(self, prefix: str, *, limit: int) -> Sequence[str]:
        """Return known words that begin with `prefix`, most frequent first, then by word."""
        counts = self._counts()
        return sorted((w for w in counts if w.startswith(prefix)), key=lambda w: (-counts[w], w))[:limit]

    async def vocabulary(self) -> Sequence[tuple[str, int]]:
        """Return every known word with its frequency, by word."""
        return sorted(self._counts().items())

    async def close(self) -> None:
        """Give everything back: there is nothing to give."""


def _dimensions(vectors: Mapping[bytes, tuple[bytes, bytes]]) -> int:
    """Return the length of the vectors; 0 when there are none."""
    return max((len(half) // 2 for half, _ in vectors.values()), default=0)


def _chunk_row(seq: int, entry: _StoredEntry, chunk: IndexedChunk) -> ChunkRow:
    record = entry.record
    return ChunkRow(
        seq=seq,
        doc=entry.doc,
        ordinal=chunk.ordinal,
        section=chunk.section,
        line_start=chunk.line_start,
        line_end=chunk.line_end,
        text=chunk.text,
        path=record.path,
        title=record.title,
        revision=record.revision,
        source=record.source,
        untrusted=record.untrusted,
        language=record.language,
        modified_ns=record.stamp.mtime_ns,
    )


def _admits(filters: Filters, record: DocumentRecord) -> bool:
    modified = record.stamp.mtime_ns
    source = filters.source
    return (
        within(record.path, filters.path)
        and set(filters.tags) <= set(record.tags)
        and filters.kind in (None, record.kind)
        and (source is None or record.source == source or record.source.startswith(source + ":"))
        and (filters.modified_after_ns is None or modified >= filters.modified_after_ns)
        and (filters.modified_before_ns is None or modified < filters.modified_before_ns)
    )
