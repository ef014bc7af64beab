"""The contracts of the state store and the index store. `tests/support/state/memory/` is the specification of both.

Every method is one transaction. Times are passed in (aware UTC, or nanoseconds since the epoch where the name ends in `_ns`): a
store has no clock. Short reads may run on the caller's thread; anything that can wait (for a lock, an fsync, a network) must not
block the event loop.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, Literal, NamedTuple, Protocol

if TYPE_CHECKING:
    from knowledge.access.ports import PeopleRecords
    from knowledge.history.ports import Ledger
    from knowledge.outbox.ports import Outbox
    from knowledge.pages.paths import PageLink
    from knowledge.state.tables import StateTables
    from knowledge.trust.ports import TrustChange, TrustRecord, TrustRecords


# --- state.db: the truth beside the files -----------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Enrolment:
    """A host that a person registered. Only the digest of its secret is kept.

    `forms`: a person allowed that answers to forms shown by this host count as their decisions, while it has its present secret.
    """

    host: str
    secret_digest: bytes
    created_at: datetime
    forms: bool = False


@dataclass(frozen=True, slots=True)
class Lease:
    """The right to a job that only one process may do. `fence` grows with every new holder, even if the state was lost."""

    name: str
    holder: str
    fence: int
    expires_at: datetime


@dataclass(frozen=True, slots=True)
class Event:
    """A change. `seq` grows; `topic` is its kind (`doc`, `map`, ...), `key` names the thing that changed."""

    seq: int
    topic: str
    key: str


@dataclass(frozen=True, slots=True)
class ReadingMark:
    """One thing that a caller has seen: `path` is a directory in the circles `map` and `search`, a document in `read`."""

    path: str
    circle: Literal["map", "read", "search"]


@dataclass(frozen=True, slots=True)
class Held:
    """The space that one kind of record takes, per principal if such records have one."""

    kind: str
    principal: str | None
    records: int
    size_bytes: int


@dataclass(frozen=True, slots=True)
class StateSize:
    """The size of the state on disk, of its write-ahead log, and of the free space inside it."""

    size_bytes: int
    log_bytes: int = 0
    free_bytes: int = 0


class StateStore(Protocol):
    """Trust, leases, change events, the reading ledger and the ledger of writes of one knowledge base."""

    @property
    def place(self) -> str:
        """Where the state is and which engine keeps it, for a person; never with a password."""
        ...

    @property
    def tables(self) -> StateTables:
        """The tables of the database, for stores of other things of the same knowledge base."""
        ...

    @property
    def ledger(self) -> Ledger:
        """The ledger in the same database: revisions, provenance, contradictions, audit."""
        ...

    @property
    def trust(self) -> TrustRecords:
        """The trust records in the same database, with proposals, passkeys and taint."""
        ...

    @property
    def people(self) -> PeopleRecords:
        """The people, groups, rules on folders and reviewers in the same database."""
        ...

    @property
    def outbox(self) -> Outbox:
        """The outbox in the same database: acts in other services, and mentions of pages there."""
        ...

    async def held(self) -> Sequence[Held]:
        """Return the kinds of records by the space they take, largest first. Reads a little of every record."""
        ...

    async def size(self) -> StateSize:
        """Return the size of the state on disk. Cheap."""
        ...

    async def give_back(self, *, spare: bool = True) -> bool:
        """Return some free space to the file system, quickly; tell whether there is more. With `spare` some is kept."""
        ...

    @property
    def gives_back(self) -> bool:
        """Whether `give_back` has an effect; a database that an older program made may have to be rewritten first."""
        ...

    async def rewrite(self) -> bool:
        """Rewrite the whole database without its free space, blocking other writers; False if the engine does that by itself.

        Raises:
            DatabaseUnavailable: the disk has no room for it. Nothing was changed.
        """
        ...

    async def check(self) -> Sequence[str]:
        """Return the faults of the database, one sentence each; none if it is sound. May take long."""
        ...

    async def enrol(self, host: str, secret_digest: bytes, *, at: datetime) -> None:
        """Register the host with its secret. Registering the same host again replaces its secret and keeps its trust record.

        Forms that were allowed for an earlier secret are not allowed for the new one.
        """
        ...

    async def enrolments(self) -> Sequence[Enrolment]:
        """Return all registered hosts, by name."""
        ...

    async def host_of(self, secret_digest: bytes) -> str | None:
        """Return the host whose secret has that digest, or None."""
        ...

    async def trust_record(self, principal: str) -> TrustRecord | None:
        """Return the principal's record, or None if it was never seen."""
        ...

    async def trust_records(self) -> Sequence[TrustRecord]:
        """Return all records, by principal."""
        ...

    async def history(self, principal: str, *, limit: int) -> Sequence[TrustChange]:
        """Return the newest `limit` changes, newest first."""
        ...

    async def acquire_lease(self, name: str, holder: str, *, now: datetime, ttl_s: float) -> Lease | None:
        """Take the lease if it is free, expired or already this holder's (which only extends it); None if another holder has it.

        Of any number of concurrent callers exactly one gets it. A lease that ends later than `ttl_s` from now is void: the clock was
        set back since it was given.
        """
        ...

    async def release_lease(self, name: str, holder: str) -> None:
        """Free the lease if `holder` has it; the fence is kept for the next holder."""
        ...

    async def lease(self, name: str) -> Lease | None:
        """Return the lease as last taken, expired or not; None if it was never taken, or released."""
        ...

    async def publish(self, topic: str, keys: Iterable[str]) -> int:
        """Add one event for each key and return the newest `seq`. Other processes see it within 100 ms."""
        ...

    async def events_after(self, seq: int, *, limit: int = 1000) -> Sequence[Event]:
        """Return the events after `seq`, oldest first. Events older than a day may be gone."""
        ...

    async def last_event(self) -> int:
        """Return the newest `seq`, 0 if there never was an event. Cheap enough to ask forty times a second."""
        ...

    async def changed(self, seq: int) -> None:
        """Return as soon as the newest event is not `seq`, whichever process published it."""
        ...

    async def note_looks(self, principal: str, journey: str, looks: Collection[ReadingMark], *, at: datetime) -> None:
        """Record that the caller has just seen these; for the same place and circle the newest time counts.

        `journey` is `""` outside of a journey. The records survive a killed process, but perhaps not a power cut: they only decide
        about nudges. Records older than thirty days may be deleted.
        """
        ...

    async def looks(self, principal: str, journey: str, paths: Collection[str]) -> Mapping[ReadingMark, datetime]:
        """Return the places among `paths` that the caller has seen, each with the circle, and the time it was last seen."""
        ...

    async def give_nudge(self, principal: str, journey: str, path: str, *, now: datetime, quiet_s: float) -> bool:
        """Return True, and record it, unless the caller got this nudge less than `quiet_s` ago.

        Of any number of concurrent callers exactly one gets True.
        """
        ...

    async def close(self) -> None:
        """Release everything; afterwards no method may be called."""
        ...


# --- index.db: a cache of the files -----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Stamp:
    """The metadata of a file when it was read."""

    size: int
    mtime_ns: int
    inode: int


class DocumentRecord(NamedTuple):
    """One indexed document. `revision` is the hash of its bytes; `untrusted` includes what its directories say."""

    path: str
    title: str
    summary: str
    kind: str
    source: str
    language: str
    tags: tuple[str, ...]
    aliases: tuple[str, ...]
    sections: tuple[str, ...]
    untrusted: bool
    revision: str
    stamp: Stamp
    tokens: int
    indexed_at_ns: int


class TaggedCount(NamedTuple):
    """The documents with a tag: how many there are, and the latest time of change of their files (0 without any)."""

    documents: int
    newest_ns: int


@dataclass(frozen=True, slots=True)
class IndexedChunk:
    """A chunk to be stored.

    `digest` is 16 bytes over the embedded text; `half` its vector as float16 little-endian, empty while it has none;
    `code` the vector's binary code; `words` its distinct words, unstemmed, for the vocabulary.
    """

    ordinal: int
    section: tuple[str, ...]
    line_start: int
    line_end: int
    text: str
    digest: bytes
    half: bytes
    code: bytes
    words: Collection[str]


class Period(NamedTuple):
    """The time from the `first` to the `last` day, both as `2026-11-29`."""

    first: str
    last: str


LONGEST_PERIOD_DAYS = 92
"""The most days that the time of a document has: those of a quarter."""


class PropertyLines(NamedTuple):
    """The lines of a document's front matter that say what it is about; the number of the first counts from 1 in the file."""

    line_start: int
    text: str


@dataclass(frozen=True, slots=True)
class IndexedProperties:
    """Property lines to be stored, with the distinct `terms` that find them, and their `words`, unstemmed, for the vocabulary."""

    lines: PropertyLines
    terms: Collection[str]
    words: Collection[str]


@dataclass(frozen=True, slots=True)
class Replace:
    """Store this document at `record.path`, whatever was there."""

    record: DocumentRecord
    chunks: tuple[IndexedChunk, ...]
    links: tuple[PageLink, ...] = ()
    properties: IndexedProperties | None = None
    period: Period | None = None
    """The time that the document is of."""


class LinkRow(NamedTuple):
    """A link of the document at `page`."""

    page: str
    link: PageLink


class LinkedDocument(NamedTuple):
    """A document with its names and its links, as they are written."""

    path: str
    title: str
    aliases: tuple[str, ...]
    links: tuple[PageLink, ...]


class SourcedDocument(NamedTuple):
    """A document with its source; `untrusted` includes what its directories say. `modified_ns` and `size` are those of its file."""

    path: str
    source: str
    untrusted: bool
    modified_ns: int
    size: int


@dataclass(frozen=True, slots=True)
class Touch:
    """The file was checked again and has the same bytes: only the stamp is new."""

    path: str
    stamp: Stamp
    indexed_at_ns: int


@dataclass(frozen=True, slots=True)
class Remove:
    """The document no longer exists."""

    path: str


IndexChange = Replace | Touch | Remove


@dataclass(frozen=True, slots=True)
class IndexPosition:
    """A position in the sequence of changes. `seq` grows with every stored or removed chunk; a new `generation` means: start over."""

    generation: str
    seq: int


class ChunkRow(NamedTuple):
    """A stored chunk with the fields of its document. `seq` identifies it for good; it is never used again."""

    seq: int
    doc: int
    ordinal: int
    section: tuple[str, ...]
    line_start: int
    line_end: int
    text: str
    path: str
    title: str
    revision: str
    source: str
    untrusted: bool
    language: str
    modified_ns: int


@dataclass(frozen=True, slots=True)
class TextRow:
    """The fields of a chunk that a keyword index needs."""

    seq: int
    doc: int
    title: str
    section: tuple[str, ...]
    text: str
    language: str


@dataclass(frozen=True, slots=True)
class NameRow:
    """The names of a document: its path, its title and its aliases."""

    doc: int
    path: str
    title: str
    aliases: tuple[str, ...]
    language: str


@dataclass(frozen=True, slots=True)
class CodeRow:
    """The fields of a chunk that a vector index needs."""

    seq: int
    doc: int
    code: bytes


@dataclass(frozen=True, slots=True)
class DirectoryRecord:
    """A directory that holds documents, itself or below. `documents` and `modified_ns` count everything below."""

    path: str
    documents: int
    modified_ns: int


@dataclass(frozen=True, slots=True)
class NameMatch:
    """A document, or one of its sections (`section` then is its heading path), whose name is exactly the searched one."""

    doc: int
    path: str
    section: str | None
    by: str
    """`path`, `title`, `alias` or `heading`."""


@dataclass(frozen=True, slots=True)
class Filters:
    """Conditions on the documents to find; a document must meet every one that is set, and have all of the tags.

    A tag admits those below it too: `a` also `a/b`. `source` admits that source and, given a kind alone (`zulip`),
    every source of that kind. `modified_after_ns` is inclusive, `modified_before_ns` exclusive. If `paths` is set, only
    these documents are admitted. They are in order, so that equal filters are written alike.
    """

    path: str = ""
    tags: tuple[str, ...] = ()
    kind: str | None = None
    source: str | None = None
    modified_after_ns: int | None = None
    modified_before_ns: int | None = None
    paths: tuple[str, ...] | None = None


@dataclass(frozen=True, slots=True)
class Progress:
    """How much of the knowledge base is indexed, in documents."""

    done: int
    total: int


@dataclass(frozen=True, slots=True)
class IndexIdentity:
    """How an index was built. With another recipe the index starts over; with another embedder only its vectors are renewed."""

    embedder: str
    dimensions: int
    """The length of a vector; 0 to leave it to the embedder."""
    recipe: int
    """Grows when parsing, chunking or analysis changes the stored rows."""

    def same_vectors(self, other: IndexIdentity) -> bool:
        """Return whether vectors of both can be compared."""
        return self.embedder == other.embedder and (
            self.dimensions == other.dimensions or not min(self.dimensions, other.dimensions)
        )


@dataclass(frozen=True, slots=True)
class Space:
    """The embedder whose vectors an index holds. Only vectors of the same `position.generation` may be compared with each other.

    `position` is that of the vectors. When the vectors are exchanged, its generation changes, and the generation of the
    texts stays. `coming` is the identity of new vectors that are being made beside those in use; None if none are.
    """

    identity: IndexIdentity
    position: IndexPosition
    coming: IndexIdentity | None = None

    @property
    def wanted(self) -> IndexIdentity:
        """The identity that the vectors of all chunks will finally have."""
        return self.coming or self.identity


@dataclass(frozen=True, slots=True)
class LackingRow:
    """A chunk without a vector of the wanted embedder; `digest` identifies the text that is to be embedded."""

    seq: int
    digest: bytes
    title: str
    section: tuple[str, ...]
    text: str


@dataclass(frozen=True, slots=True)
class Delta:
    """Rows after a position. `upto` is the position from which to continue.

    It is before the store's position if `limit` cut the list.

    `names` has each document of `texts` once. A document whose text or names change gets new rows for all of its chunks.
    """

    texts: Sequence[TextRow] = ()
    codes: Sequence[CodeRow] = ()
    removed: Sequence[int] = ()
    upto: IndexPosition = field(default_factory=lambda: IndexPosition("", 0))
    names: Sequence[NameRow] = ()


class IndexStore(Protocol):
    """Documents, chunks, vectors and vocabulary of the files. A cache: it can be rebuilt."""

    async def position(self) -> IndexPosition:
        """Return its position, including writes of other processes. Cheap."""
        ...

    async def begin(self, identity: IndexIdentity) -> bool:
        """Prepare the store for `identity`: True if its content stays, False if it was emptied (a new generation).

        If only the embedder differs and there are documents, the vectors stay in use, and `identity` becomes `coming`. Vectors that
        were made for another coming identity are dropped. If the recipe differs as well, the vectors of the wanted embedder stay as
        supplied ones, and it becomes `coming`: texts that are the same need no new vector. They also stay in an index that was emptied
        so and got no document yet.
        """
        ...

    async def space(self) -> Space:
        """Return the identities of the vectors in use and of those being made. One snapshot; as cheap as `position`."""
        ...

    async def lacking(self, after: int, *, limit: int) -> Sequence[LackingRow]:
        """Return at most `limit` chunks above `after`, by `seq`, that have no vector of the wanted embedder yet."""
        ...

    async def supply(self, vectors: Mapping[bytes, tuple[bytes, bytes]], *, of: IndexIdentity, fence: int) -> bool:
        """Store these `(half, code)` by digest beside the vectors in use; False, and nothing stored, if `of` is not wanted now.

        Raises:
            LeaseLost: a writer with a higher fence has been here.
        """
        ...

    async def swap(self, *, fence: int) -> bool:
        """Switch to the supplied vectors, under a new generation of vectors; True even if there is nothing to do.

        False, and nothing changed, while a chunk lacks its vector.

        Raises:
            LeaseLost: a writer with a higher fence has been here.
        """
        ...

    async def renewal(self) -> Progress | None:
        """Return the number of chunks with a vector of the wanted embedder, and of all chunks; None if all have one."""
        ...

    async def apply(self, changes: Sequence[IndexChange], *, fence: int) -> IndexPosition:
        """Make all `changes`, or none, and return the new position. Counts of directories and vocabulary are updated too.

        Raises:
            LeaseLost: a writer with a higher fence has been here.
        """
        ...

    async def set_total(self, total: int) -> None:
        """Record how many documents are to be indexed."""
        ...

    async def progress(self) -> Progress:
        """Return how many documents are indexed, and how many are to be (at least `done`)."""
        ...

    async def stamps(self, paths: Sequence[str] | None = None) -> Mapping[str, tuple[Stamp, str, int]]:
        """Return stamp, revision and `indexed_at_ns` by path, for the documents among `paths`, or for every document."""
        ...

    async def vectors(self, digests: Sequence[bytes]) -> Mapping[bytes, tuple[bytes, bytes]]:
        """Return `(half, code)` of the chunk texts that have a vector in use, so that nothing is embedded twice."""
        ...

    async def delta(self, after: IndexPosition, *, limit: int, texts: bool = False, codes: bool = False) -> Delta:
        """Return at most `limit` rows that were stored after the position `after`, and the removals among them.

        If the generation is no longer that of `after`, the rows begin with the first one. With `codes` the generation
        is that of the vectors (`space`), without it that of the texts (`position`). A row that was stored and removed
        after `after` may be left out altogether.
        """
        ...

    async def halves(self, seqs: Sequence[int]) -> Sequence[bytes]:
        """Return the float16 vectors of these chunks in this order; empty bytes for one that is gone or has none yet."""
        ...

    async def chunks(self, seqs: Sequence[int]) -> Mapping[int, ChunkRow]:
        """Return the chunks that still exist."""
        ...

    async def document(self, path: str) -> DocumentRecord | None:
        """Return the record of one document."""
        ...

    async def records(self, docs: Collection[int]) -> Mapping[int, DocumentRecord]:
        """Return the records, by number, of the documents that still exist."""
        ...

    async def directory(self, path: str) -> DirectoryRecord | None:
        """Return the record of one directory; the root is `""` and always exists."""
        ...

    async def directories_ending(self, ends: Collection[str], *, limit: int) -> Sequence[str]:
        """Return the paths of directories that equal one of these paths or end in it (ASCII case ignored), by path."""
        ...

    async def children(
        self, directory: str, *, limit: int, folders_after: str | None = "", documents_after: str | None = ""
    ) -> tuple[Sequence[DirectoryRecord], Sequence[DocumentRecord]]:
        """Return subdirectories and documents right below, each by path, at most `limit` of each.

        Only those after the paths `folders_after` and `documents_after` are returned. None for one of these leaves out
        that kind.
        """
        ...

    async def select(self, filters: Filters) -> frozenset[int] | None:
        """Return the document numbers that `filters` admit; None when they admit all."""
        ...

    async def named(self, name: str, *, limit: int, spellings: Sequence[str] = ()) -> Sequence[NameMatch]:
        """Return the documents and sections of that name, or if there are none, of the first of `spellings` that is one.

        Case is ignored. The name is a path, a file name (with or without suffix), a title, an alias or a heading.
        """
        ...

    async def of_periods(self, periods: Sequence[Period], *, limit: int) -> Sequence[int]:
        """Return at most `limit` documents whose time is within one of `periods`.

        They come period by period, and within one by their first day, longer times first. From the first period on that
        would make more than `limit` together with those before it, no more are added. If there are no such documents, those whose
        time is around a whole period are returned, of the first period with any.
        """
        ...

    async def having_properties(self, terms: Collection[str], *, most: int) -> Mapping[str, Sequence[int]]:
        """Return, for each term, the documents whose properties have it; terms that more than `most` have are left out."""
        ...

    async def properties(self, docs: Collection[int]) -> Mapping[int, PropertyLines]:
        """Return the property lines of those of the documents that have any."""
        ...

    async def first_chunk(self, doc: int, section: str | None) -> int | None:
        """Return the first chunk of the document, or of its section with that heading path (`A > B`); None if it is gone."""
        ...

    async def first_chunks(self, docs: Collection[int]) -> Mapping[int, int]:
        """Return the first chunk of each of the documents that has one."""
        ...

    async def languages(self) -> Mapping[str, int]:
        """Return the number of documents in each language, most frequent first; `""` is an unknown language."""
        ...

    async def tags(self, *, limit: int) -> Sequence[tuple[str, int]]:
        """Return tags with the number of documents that have them, most frequent first, then by tag."""
        ...

    async def tagged(self, tags: Collection[str], *, after: str = "", limit: int) -> Sequence[DocumentRecord]:
        """Return the documents with one of the tags or one below (`a/b` is below `a`), by path, beginning after the path `after`."""
        ...

    async def count_tagged(self, tags: Collection[str], *, after: str = "") -> TaggedCount:
        """Return how many documents `tagged` would return without a limit, and when the newest of their files was changed."""
        ...

    async def newest(self, *, limit: int) -> Sequence[DocumentRecord]:
        """Return documents by the time at which their files were last changed, newest first, then by path."""
        ...

    async def paths(self, *, prefix: str = "", contains: str = "", limit: int) -> Sequence[str]:
        """Return document paths that begin with `prefix` and contain `contains` (case ignored), by path."""
        ...

    async def mentioning(self, words: Collection[str]) -> Sequence[str]:
        """Return the paths of documents whose text has one of these strings (case ignored), by path. Reads all texts."""
        ...

    async def linking(self, keys: Collection[str], *, limit: int) -> Sequence[LinkRow]:
        """Return at most `limit` links that have one of these keys (`link_keys`), by page, each once."""
        ...

    async def linked_documents(self, paths: Collection[str] | None = None) -> Sequence[LinkedDocument]:
        """Return the documents among `paths`, or all of them, with their links, by path. A link occurs once per document."""
        ...

    async def sourced_documents(self) -> Sequence[SourcedDocument]:
        """Return every document with its source and its file's time and size, by path."""
        ...

    async def existing(self, paths: Collection[str]) -> frozenset[str]:
        """Return those of the paths that a document has."""
        ...

    async def frequencies(self, words: Sequence[str]) -> Mapping[str, int]:
        """Return the number of chunks in which each known word occurs."""
        ...

    async def completions(self, prefix: str, *, limit: int) -> Sequence[str]:
        """Return known words that begin with `prefix`, most frequent first, then by word."""
        ...

    async def vocabulary(self) -> Sequence[tuple[str, int]]:
        """Return every known word with its frequency, by word."""
        ...

    async def close(self) -> None:
        """Release everything; afterwards no method may be called."""
        ...
