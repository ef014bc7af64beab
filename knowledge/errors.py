"""The errors of the domain: one root, facts as attributes, the sentence built in `__init__`."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import ClassVar

from knowledge.wire.addresses import without_secrets


class KnowledgeError(Exception):
    """Root of all errors that this package raises on purpose. `str(error)` is safe to show to a model or a person."""

    def __str__(self) -> str:
        """Return the sentence without secrets: it may quote a library's error, with an address that contains a password."""
        return without_secrets(super().__str__())


class InvalidPath(KnowledgeError):
    """A path that can never name a document of a knowledge base."""

    def __init__(self, path: str, reason: str) -> None:
        self.path, self.reason = path, reason
        super().__init__(f"{_short(path)} is not a path in this knowledge base: {reason}")


class NoSuchPath(KnowledgeError):
    """Nothing exists at this path; the message names similar paths that exist, which are in `nearest`."""

    def __init__(self, path: str, nearest: Sequence[str] = ()) -> None:
        self.path, self.nearest = path, tuple(nearest)
        hint = f"; did you mean {_listed(nearest)}?" if nearest else "; call kb_map('') to see what exists"
        super().__init__(f"nothing at {_short(path)}{hint}")


class NoSuchTag(NoSuchPath):
    """No page has the tag `#tag`."""

    def __init__(self, tag: str) -> None:
        self.path, self.nearest = tag, ()
        KnowledgeError.__init__(self, f"no page has the tag {_short(tag)}; call kb_map('') to see what exists")


class TagIsNoPath(NoSuchPath):
    """A tag was given where a search needs a directory or page."""

    def __init__(self, path: str, tag: str) -> None:
        self.path, self.nearest = path, ()
        KnowledgeError.__init__(
            self,
            f"{path!r} is a tag; kb_map({path!r}) lists its pages, and filters={{'tags': [{tag!r}]}} searches them",
        )


class NotADirectory(InvalidPath):
    """The path is that of a page, and only a directory has children."""

    def __init__(self, path: str) -> None:
        self.path, self.reason = path, "it is a page"
        KnowledgeError.__init__(self, f"{_short(path)} is a page and not a directory; read it with kb_read({path!r})")


class NoSuchSection(KnowledgeError):
    """The document has no such heading; `sections` lists the headings it has, the most similar first."""

    def __init__(self, path: str, section: str, sections: Sequence[str]) -> None:
        self.path, self.section, self.sections = path, section, tuple(sections)
        shown = _listed(sections, "; ") or "no headings at all"
        has = "the most similar are" if shown.endswith("; ...") else "it has"
        super().__init__(f"{_ends(path)} has no section {_short(section)}; {has}: {shown}")


class AmbiguousName(KnowledgeError):
    """Several things have that name; `candidates` are their paths."""

    def __init__(self, name: str, candidates: Sequence[str]) -> None:
        self.name, self.candidates = name, tuple(candidates)
        super().__init__(f"{_short(name)} is ambiguous; use one of {_listed(candidates)}")


class UnknownRevision(KnowledgeError):
    """That revision of the document is not kept."""

    def __init__(self, path: str, revision: str, current: str) -> None:
        self.path, self.revision = path, revision
        super().__init__(
            f"{_ends(path)} has no stored revision {_short(revision)}; the current one is {current}, and kb_history lists the others"
        )


class BadCursor(KnowledgeError):
    """A cursor that belongs to another query, or is not a cursor."""

    def __init__(self, cursor: str) -> None:
        self.cursor = cursor
        super().__init__("this cursor belongs to another call or is damaged; repeat the call without it")


class VaultUnavailable(KnowledgeError):
    """The knowledge base's folder can't be used."""

    def __init__(self, root: str, reason: str) -> None:
        self.root, self.reason = root, reason
        super().__init__(f"cannot use {root} as a knowledge base: {reason}")


class UnreadableDocument(KnowledgeError):
    """The document exists and can't be read."""

    def __init__(self, path: str, reason: str) -> None:
        self.path, self.reason = path, reason
        super().__init__(f"{_ends(path)} cannot be read: {reason}")


class NotUtf8(KnowledgeError):
    """The document is not UTF-8 text, so merging into it would damage it."""

    def __init__(self, path: str, byte: int) -> None:
        super().__init__(
            f"{_ends(path)} is not UTF-8 (first at byte {byte}), so nothing was written; save it as UTF-8 in an editor first"
        )


class PageExists(KnowledgeError):
    """A page already exists at the path of a new one."""

    def __init__(self, path: str) -> None:
        self.path = path
        super().__init__(f"a page already exists at {_ends(path)}; choose another path, or merge into it with kb_merge")


class PageGone(KnowledgeError):
    """The page that a write was based on no longer exists."""

    def __init__(self, path: str, revision: str) -> None:
        self.path, self.revision = path, revision
        super().__init__(
            f"{_ends(path)} no longer exists, so its revision {_short(revision)} cannot be changed; kb_history shows where it went. "
            "To create a new page, omit base_revision"
        )


class UnresolvedConflict(KnowledgeError):
    """A page, or a text for it, has a conflict that Git left, so nothing may be merged."""

    def __init__(self, path: str, where: str, mend: str) -> None:
        self.path = path
        super().__init__(f"nothing was written to {_ends(path)}: {where}; {mend}")


class WriteUndone(KnowledgeError):
    """A write did not read back correctly, and was undone. `problems` say why, one sentence each."""

    def __init__(self, path: str, problems: Sequence[str]) -> None:
        self.path = path
        super().__init__(
            f"the change to {_ends(path)} was undone because it did not read back as written; "
            f"the page is unchanged: {_listed(problems, '; ')}"
        )


class UnwritableDocument(KnowledgeError):
    """The document can't be written, moved or removed; everything already done was undone."""

    def __init__(self, path: str, reason: str, mend: str) -> None:
        self.path, self.reason, self.mend = path, reason, mend
        super().__init__(f"{_ends(path)} cannot be written: {reason}; nothing was changed; {mend}")


class DocumentBusy(KnowledgeError):
    """Other processes have kept the document locked for too long."""

    def __init__(self, path: str, waited_s: float) -> None:
        self.path = path
        super().__init__(
            f"{_ends(path)} has been locked by another process for more than {waited_s:.0f} s; nothing was changed; "
            "try again, and if this persists look for a hung process"
        )


class KeepsChanging(KnowledgeError):
    """Somebody kept saving the document while the server tried to write it. All of these saves are in its history."""

    def __init__(self, path: str, tries: int) -> None:
        self.path = path
        super().__init__(
            f"{_ends(path)} was changed by someone else {tries} times during this write; nothing was written; "
            "those changes are in its history; try again in a moment"
        )


class EmbedderUnavailable(KnowledgeError):
    """The embedding model can't be loaded or asked; `mend` says what to do about it."""

    def __init__(self, embedder: str, reason: str, mend: str = "reinstall it (pip install wordllama)") -> None:
        self.embedder, self.reason, self.mend = embedder, reason, mend
        super().__init__(f"cannot get vectors from {embedder}: {reason}; {mend}")


class RerankerUnavailable(KnowledgeError):
    """The reranker can't be loaded or asked; `mend` says what to do about it."""

    def __init__(self, reranker: str, reason: str, mend: str = "") -> None:
        self.reranker, self.reason = reranker, reason
        self.mend = mend or "choose another one, or none: knowledge-forge reranker use off"
        super().__init__(f"the reranker {reranker} cannot be used: {reason}; {self.mend}")


class EngineUnavailable(KnowledgeError):
    """A search server can't be asked now. Nothing was done; its index catches up later."""

    def __init__(self, engine: str, problem: str) -> None:
        self.engine, self.problem = engine, problem
        super().__init__(f"{engine} cannot be used now: {problem}; run `knowledge-forge doctor` for details")


class BadQuerySet(KnowledgeError):
    """A file of queries with judgements can't be used; `line` is the first that is wrong."""

    def __init__(self, file: str, line: int, reason: str) -> None:
        self.file, self.line = file, line
        super().__init__(f"{_ends(file)}, line {line}: {reason}")


class StorageError(KnowledgeError):
    """Root of the errors of databases."""


class UnsafeDatabaseEngine(StorageError):
    """The SQLite library in use corrupts a WAL database that several processes share."""

    def __init__(self, found: str, needed: str) -> None:
        super().__init__(
            f"SQLite {found} has the WAL-reset bug and may corrupt a database that several processes share; "
            f"{needed} or newer is needed (pip install --upgrade apsw)"
        )


class ForeignDatabase(StorageError):
    """The file is a database of another program, or not a database."""

    def __init__(self, path: str, reason: str, way_out: str = "move it away, or name another state directory") -> None:
        self.path, self.reason = path, reason
        super().__init__(f"{path} is not a Knowledge Forge database ({reason}); {way_out}")


class NewerDatabase(StorageError):
    """A newer version of the program has migrated this database."""

    def __init__(self, path: str, found: int, known: int, other: str = "another state directory") -> None:
        self.path, self.found = path, found
        super().__init__(
            f"{path} has schema {found}, this program knows up to {known}; upgrade knowledge-forge, or name {other}"
        )


class StateMoved(StorageError):
    """The state was moved from this database to another one. The other database is in use now."""

    def __init__(self, place: str, other: str) -> None:
        self.place, self.other = place, other
        super().__init__(
            f"the state in {place} was moved to {other or 'another database'}; set FORGE_DATABASE_URL and FORGE_DATABASE_SCHEMA to "
            "that database, or unset both if it is a file; `knowledge-forge state move` moves it back"
        )


class MoveUnfinished(StorageError):
    """A state is being moved into this database, or such a move was interrupted."""

    def __init__(self, place: str, other: str) -> None:
        self.place, self.other = place, other
        super().__init__(
            f"{place} is the target of a move from {other} that has not finished; run `knowledge-forge state move` again "
            f"with the settings of {other}: it says which of the two is in use, and finishes the move"
        )


class MoveRefused(StorageError):
    """A state can't be moved, backed up or restored like this. Nothing was changed."""

    def __init__(self, reason: str) -> None:
        super().__init__(f"{reason}; nothing was changed")


class UndecidedState(StorageError):
    """The knowledge base has no state, and seems to have been moved: a state named after another path looks like its own."""

    def __init__(self, root: str, candidates: Sequence[str]) -> None:
        self.root, self.candidates = root, tuple(candidates)
        kb = shlex.quote(root)
        super().__init__(
            f"{root} has no state yet, and looks like a knowledge base that was moved from {'; or '.join(candidates)}. "
            f"To keep that state (history, hosts, trust): knowledge-forge state adopt --kb {kb}. "
            f"To start with an empty one: knowledge-forge state new --kb {kb}. Nothing was changed"
        )


class StateInUse(StorageError):
    """Other processes use a state database that must be moved or replaced. Nothing was changed."""

    def __init__(self, place: str, users: Sequence[str]) -> None:
        self.place, self.users = place, tuple(users)
        who = f": {', '.join(users)}" if users else ""
        super().__init__(
            f"{place} is in use{who}; stop the hosts and servers that use it, and try again; nothing was changed"
        )


class CorruptDatabase(StorageError):
    """The database is damaged. An index is rebuilt. A state database is not opened, and the message says what to do."""

    def __init__(self, path: str, reason: str) -> None:
        self.path, self.reason = path, reason
        super().__init__(f"{path} is damaged ({reason}); restore it from a backup or move it away")


class DatabaseUnavailable(StorageError):
    """The database can't be used now (locked for long, disk full, read-only, gone). Nothing was done; try again."""

    def __init__(self, path: str, reason: str) -> None:
        self.path, self.reason = path, reason
        super().__init__(f"cannot use {path} now ({reason}); nothing was changed; try again")


class OutcomeUnknown(DatabaseUnavailable):
    """The database was lost while it was writing: the request was carried out completely or not at all."""

    def __init__(self, path: str, reason: str) -> None:
        super().__init__(path, reason)
        self.args = (f"lost {path} during a write ({reason}); it may or may not be done; check before you repeat it",)


class Unstorable(StorageError):
    """A text that this database can never store. Nothing was changed."""

    def __init__(self, path: str) -> None:
        super().__init__(
            f"{path} cannot store one of these texts: it is too long for a name, or contains a NUL or an incomplete character; "
            "nothing was changed; remove it and try again"
        )


class DatabaseRefused(StorageError):
    """The database permanently refuses this server; `way_out` is what a person can do."""

    def __init__(self, path: str, reason: str, way_out: str) -> None:
        self.path, self.reason = path, reason
        super().__init__(f"cannot use {path}: {reason}; {way_out}")


class UnsafeStateDirectory(StorageError):
    """The folder for the databases can't be used."""

    def __init__(self, path: str, reason: str, mend: str = "") -> None:
        self.mend = mend
        way_out = f"to fix it: {mend}, or name" if mend else "name"
        super().__init__(f"cannot keep the state in {path}: {reason}; {way_out} another directory with --state-dir")


class NoUserFolder(StorageError):
    """This account has no folder for its own files: it has no home, or a variable names a relative path."""

    def __init__(self, mend: str) -> None:
        super().__init__(f"this account has no home folder (HOME, or an XDG variable, is not an absolute path): {mend}")


class LeaseLost(StorageError):
    """Another process holds the lease now, so this one did not write."""

    def __init__(self, name: str, fence: int) -> None:
        self.fence = fence
        super().__init__(f"the lease {name} has a newer holder than fence {fence}")


class UnknownIntent(StorageError):
    """An act that had begun is no longer in progress; nothing was recorded."""

    def __init__(self, intent: str) -> None:
        self.intent = intent
        super().__init__(
            f"the act {_short(intent)} is no longer in progress: another process finished or abandoned it; check the page's history"
        )


class StoredFileChanged(StorageError):
    """A file in the database was changed after a write had read it. Nothing was written."""

    def __init__(self, path: str) -> None:
        self.path = path
        super().__init__(f"{_ends(path)} was changed at the same moment; nothing was written; try again")


class UnknownOutboxEntry(StorageError):
    """No act in another service has that id."""

    def __init__(self, outbox_entry: str) -> None:
        self.outbox_entry = outbox_entry
        super().__init__(
            f"no outbox entry {_short(outbox_entry)} is on record; check in the service itself whether it was done"
        )


def _short(text: str) -> str:
    return repr(text if len(text) <= 80 else text[:77] + "...")


def _ends(path: str) -> str:
    """Return `path`, or only the end of a very long path, which tells more than its beginning."""
    return path if len(path) <= 80 else "..." + path[-77:]


def _listed(names: Sequence[str], separator: str = ", ", room: int = 120) -> str:
    """Return as many of `names` as fit in `room` characters, at least one, with dots for the others."""
    shown: list[str] = []
    for name in names:
        short = name if len(name) <= room else name[: room - 3] + "..."
        room -= len(short) + len(separator)
        if shown and room < 0:
            return separator.join([*shown, "..."])
        shown.append(short)
    return separator.join(shown)


class TooManyPending(KnowledgeError):
    """A principal already has as many waiting proposals as it may have."""

    def __init__(self, principal: str, most: int) -> None:
        self.principal = principal
        super().__init__(
            f"{principal} has {most} pending proposals, the most allowed; wait until some are decided, or withdraw one with "
            "proposal_withdraw"
        )


class OverQuota(KnowledgeError):
    """A principal would exceed its quota. Nothing was stored. `free_at` is when there is room again; None: waiting does not help."""

    MOST_CHARS = 600
    USES: ClassVar[Mapping[str, tuple[str, str]]] = {
        "pending": ("has {} of pending proposals", "{}"),
        "proposed": ("has proposed {} in the last 24 hours", "{} a day"),
        "started": ("has started {} in the last minute", "{} a minute"),
        "journeyed": ("has stored {} in journeys in the last 24 hours", "{} a day"),
        "ran": ("has stored {} in runs in the last 24 hours", "{} a day"),
        "called": ("has made {} calls in the last minute", "{} a minute"),
        "worked": ("has searched or changed pages {} times in the last minute", "{} a minute"),
    }
    IN_NUMBERS: ClassVar[frozenset[str]] = frozenset({"started", "called", "worked"})
    """Kinds that are counted; the others are bytes."""

    def __init__(
        self,
        principal: str,
        kind: str,
        most: int,
        used: int,
        amount: int,
        *,
        setting: str,
        at: datetime,
        free_at: datetime | None,
    ) -> None:
        self.principal, self.kind, self.most, self.used, self.amount = principal, kind, most, used, amount
        self.setting, self.free_at = setting, free_at
        has, may = self.USES[kind]
        words = (lambda number: f"{number:,}") if kind in self.IN_NUMBERS else size_in_words
        adds = "" if kind in self.IN_NUMBERS else f"; this adds {words(amount)}"
        nothing = "Nothing was done" if kind in {"called", "worked"} else "Nothing was stored"
        super().__init__(
            f"{principal} {has.format(words(used))}, of {may.format(words(most))} allowed{adds}. {nothing}. "
            f"{self._way_out(at)}, or a person can raise {setting}"
        )

    def _way_out(self, at: datetime) -> str:
        if self.free_at is not None:
            wait = max(1, round((self.free_at - at).total_seconds()))
            return f"Try again at {self.free_at.astimezone(UTC):%Y-%m-%d %H:%M:%S} UTC (in {_duration(wait)})"
        if self.kind == "pending" and self.amount <= self.most:
            return "Wait until some are decided, withdraw one with proposal_withdraw"
        return "Send it in smaller parts"


def size_in_words(size_bytes: int) -> str:
    """Return a number of bytes for people: `1.5 MB`."""
    size, units = float(size_bytes), ("bytes", "kB", "MB", "GB", "TB")
    for unit in units:
        if size < 1000 or unit == units[-1]:
            return f"{size:,.0f} {unit}" if unit == "bytes" else f"{size:,.1f} {unit}"
        size /= 1000
    raise AssertionError("unreachable")


def _duration(seconds: int) -> str:
    if seconds < 120:
        return f"{seconds} s"
    return f"{seconds // 60} min" if seconds < 7200 else f"{seconds // 3600} h"


class TooManyAtOnce(KnowledgeError):
    """A principal already has as many calls in progress as it may have. Nothing was done."""

    def __init__(self, principal: str, most: int) -> None:
        self.principal, self.most = principal, most
        super().__init__(
            f"{principal} has {most} calls in progress, the most allowed at once. Nothing was done. Try again when one of them has "
            "been answered, or a person can raise FORGE_LIMIT_AT_ONCE"
        )


class NoTurn(KnowledgeError):
    """The server has too many calls to work on. This one was not begun; `waited_s` is how long it waited for its turn."""

    def __init__(self, waiting: int, waited_s: float = 0) -> None:
        self.waiting, self.waited_s = waiting, waited_s
        found = (
            f"this call waited {waited_s:.0f} s for its turn" if waited_s else f"{waiting} calls wait for their turn"
        )
        super().__init__(f"the server is busy: {found}. Nothing was done. Try again in 5 s")


class QuotaReached(KnowledgeError):
    """A database refused to exceed the quota of the kind `kind`. The caller turns this error into an `OverQuota`.

    Nothing was stored.
    """

    def __init__(self, kind: str) -> None:
        self.kind = kind
        super().__init__("this would go beyond a quota; nothing was stored. Try again in a moment")


class ProposalSettled(KnowledgeError):
    """The proposal of an act was carried out already, or is not approved."""

    def __init__(self, proposal: str) -> None:
        self.proposal = proposal
        super().__init__(f"proposal {proposal} is no longer waiting to be carried out; nothing was changed")


class EffectChanged(KnowledgeError):
    """The effect would now differ from the one that a person approved."""

    def __init__(self, path: str) -> None:
        self.path = path
        super().__init__(
            f"{_ends(path)} has changed since it was approved, so the approved change would now have "
            "another effect; nothing was changed"
        )


class NoSuchChange(KnowledgeError):
    """The page's history has no such change that can be taken back."""

    def __init__(self, path: str, change: str) -> None:
        self.path, self.change = path, change
        what = f"no change {_short(change)}" if change else "no change that can be taken back"
        super().__init__(f"the history of {_ends(path)} has {what}; knowledge-forge history lists its changes")


class AlreadyUndone(KnowledgeError):
    """The change was undone already, and has not been restored since."""

    def __init__(self, change: str, by: str) -> None:
        self.change, self.by = change, by
        super().__init__(f"change {_short(change)} was undone already, by change {by}; to bring it back, undo that one")


class TooManyChanges(KnowledgeError):
    """More changes than one act takes back."""

    def __init__(self, most: int) -> None:
        self.most = most
        super().__init__(
            f"that is more than {most:,} changes, and one act takes back at most that many; name a later time"
        )


class NotOpen(KnowledgeError):
    """There is no contradiction with that id, or it is not in the state that the act needs. Nothing was changed."""

    def __init__(self, flag_id: int, why: str) -> None:
        self.id = flag_id
        super().__init__(why)


class ConfiguresNow(KnowledgeError):
    """A planned change would now affect the server's configuration, because the page was written in the meantime."""

    def __init__(self, path: str) -> None:
        self.path = path
        super().__init__(
            f"{_ends(path)} has changed since this was planned, so that it would now change what configures the server; nothing "
            "was changed. Read it and send it again"
        )


class TooMuchWork(KnowledgeError):
    """A text that takes more time or memory than one call may use. Nothing was changed."""

    def __init__(self, what: str, why: str) -> None:
        self.why = why
        super().__init__(
            f"{what} is too much work for one call: {why}. Nothing was changed. Split the text or the page: "
            "fewer rows, keys, list items or levels of nesting in each part"
        )


class WorkerEnded(TooMuchWork):
    """The process that did the work ended without an answer: it was killed, or memory ran out. A second try may succeed."""


class TooMuchWaiting(KnowledgeError):
    """The caller has too many long computations in progress; `waited_s` is how long this one waited for its turn."""

    def __init__(self, what: str, others: int, waited_s: float = 0) -> None:
        found = (
            f"it waited {waited_s:.0f} s for its turn"
            if waited_s
            else f"{others} of your large texts are still being processed"
        )
        super().__init__(
            f"{what} was not started: {found}. Nothing was changed. Send large texts one at a time, and try again"
        )


class UnmarksNow(KnowledgeError):
    """A planned change would now remove a mark of origin, because the page was written in the meantime."""

    def __init__(self, path: str, unmarks: Sequence[str]) -> None:
        self.path, self.unmarks = path, tuple(unmarks)
        super().__init__(
            f"{_ends(path)} has changed since this was planned, so that {_cut(unmarks[0])} without a person's decision; nothing "
            "was changed. Read it and send it again"
        )


class NoSuchSource(KnowledgeError):
    """A source cited as evidence does not exist, or this server may not read it; `why` says what to do."""

    def __init__(self, source: str, why: str) -> None:
        self.source, self.why = source, why
        super().__init__(f"nothing at {_ends(source)} counts as evidence: {_cut(why)}")


class SourceAway(KnowledgeError):
    """A source cited as evidence can't be looked up now."""

    def __init__(self, source: str, why: str) -> None:
        self.source, self.why = source, why
        super().__init__(f"{_ends(source)} cannot be looked up now: {_cut(why)}")


def _cut(why: str, room: int = 150) -> str:
    return why if len(why) <= room else f"{why[: room - 3]}..."
