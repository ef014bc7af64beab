"""The records of a knowledge base as one caller may read them: a record that names a hidden page does not exist."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from datetime import datetime

from knowledge.access.rules import UNNAMED, PathAccess
from knowledge.history.audit.chain import fields_of
from knowledge.history.ports import (
    ActsWanted,
    AuditRecord,
    AuditScan,
    Flag,
    Found,
    HistoryEntry,
    Intent,
    KeptState,
    Ledger,
    RecordedAct,
    Revision,
    Settlement,
    Tracked,
)
from knowledge.merge.model import Dismissal

EVERY_LINE = 1_000_000
AT_ONCE = 200
MOST_LOOKED_AT = 10_000
"""The most audit records that are searched for ones that may be shown."""


class ReadableLedger(Ledger):
    """A ledger that answers only about readable pages. Writes go through unchanged: what may be written was decided before.

    Contradictions have numbers of their own here, since those of the database count what is hidden, too.
    """

    def __init__(self, ledger: Ledger, access: PathAccess) -> None:
        self._ledger, self._access = ledger, access

    # --- states and histories -----------------------------------------------------------------------------------------

    async def seen_last(self, path: str) -> KeptState | None:
        """Return the kept state of the page with the newest time."""
        if not self._access.may_read(path) or await self._known(path) is not None:
            return None
        return await self._ledger.seen_last(path)

    async def newest_lines(self) -> Sequence[Revision]:
        """Return the newest line of every readable path."""
        return [line for line in await self._ledger.newest_lines() if self._access.may_read(line.path)]

    async def begun(self) -> datetime | None:
        """Return when the first state of a page was kept."""
        return await self._ledger.begun()

    async def content(self, path: str, revision: str) -> bytes | None:
        """Return the bytes of the page at that revision; None if the page is hidden, or was then."""
        if not self._access.may_read(path):
            return None
        known = await self._known(path)
        if known is not None and revision not in known:
            return None
        return await self._ledger.content(path, revision)

    async def content_sizes(self) -> Mapping[str, int]:
        """Return nothing: the sizes are those of all pages, and are shown to the owner."""
        return {}

    async def recent(self, path: str, *, limit: int) -> Sequence[KeptState]:
        """Return the states in the page's history, newest first, each once."""
        if not self._access.may_read(path):
            return ()
        states = await self._ledger.recent(path, limit=limit)
        known = await self._known(path)
        return states if known is None else [state for state in states if state.revision in known]

    async def history(self, path: str, *, limit: int, before: int | None = None) -> Sequence[Revision]:
        """Return the page's history, newest first, back to when it came from a hidden place, if it did."""
        if not self._access.may_read(path):
            return ()
        lines = self._in_order(self._shown(await self._ledger.history(path, limit=EVERY_LINE)))
        wanted = [line for line in lines if before is None or line.id < before][:limit]
        return [await self._without_names(line) for line in wanted]

    async def lines_after(
        self, after: int, *, limit: int, since: datetime | None = None, moves: bool = False
    ) -> Sequence[Revision]:
        """Return the lines of readable pages after the line with the id `after`, oldest first."""
        found: list[Revision] = []
        while len(found) < limit:
            lines = await self._ledger.lines_after(after, limit=AT_ONCE, since=since, moves=moves)
            found += [line for line in lines if self._shows(line)]
            if len(lines) < AT_ONCE:
                break
            after = lines[-1].id
        return found[:limit]

    async def timeline(
        self, wanted: ActsWanted, *, limit: int, after: tuple[datetime, int] | None = None
    ) -> Sequence[RecordedAct]:
        """Return the acts all of whose pages are readable, newest first."""
        found: list[RecordedAct] = []
        while len(found) < limit:
            acts = await self._ledger.timeline(wanted, limit=AT_ONCE, after=after)
            found += [act for act in acts if all(map(self._shows, act.lines))]
            if len(acts) < AT_ONCE:
                break
            after = acts[-1].place
        return found[:limit]

    async def act(self, name: str) -> RecordedAct | None:
        """Return the act with this name, if all of its pages are readable."""
        found = await self._ledger.act(name)
        return found if found is not None and all(map(self._shows, found.lines)) else None

    async def tracked(self, path: str) -> Tracked | None:
        """Return the origins of the page's units; sentences don't name those that are hidden pages."""
        found = await self._ledger.tracked(path) if self._access.may_read(path) else None
        if found is None or all(self._access.may_name(origin.source) for origin in found.origins):
            return found
        named = [o if self._access.may_name(o.source) else replace(o, alias=UNNAMED) for o in found.origins]
        return replace(found, origins=named)

    async def told_by(self, sources: Collection[str], *, limit: int) -> Sequence[str]:
        """Return the readable pages in whose history an act has one of these sources."""
        return self._access.filter(await self._ledger.told_by(sources, limit=EVERY_LINE))[:limit]

    # --- contradictions -----------------------------------------------------------------------------------------------

    async def flags(
        self, path: str | None, *, limit: int, after: tuple[int, int] | None = None, dismissed: bool = False
    ) -> Sequence[Flag]:
        """Return contradictions between readable pages."""
        ids = await self._flag_ids()
        place = None if after is None else (after[0], ids[after[1] - 1] if 0 < after[1] <= len(ids) else 0)
        found: list[Flag] = []
        while len(found) < limit:
            flags = await self._ledger.flags(path, limit=AT_ONCE, after=place, dismissed=dismissed)
            found += [flag for flag in flags if self._shows_flag(flag)]
            if len(flags) < AT_ONCE:
                break
            place = flags[-1].rank, flags[-1].id
        return _numbered(found[:limit], ids)

    async def flag(self, flag_id: int) -> Flag | None:
        """Return the contradiction, if both of its pages are readable."""
        real = await self._flag_id(flag_id)
        found = None if real is None else await self._ledger.flag(real)
        return None if found is None else replace(found, id=flag_id)

    async def dismissals(self, path: str) -> Mapping[bytes, Dismissal]:
        """Return the newest dismissal of each pair of statements that are both on this page."""
        return await self._ledger.dismissals(path) if self._access.may_read(path) else {}

    async def settled(self, path: str | None, *, limit: int) -> Sequence[Flag]:
        """Return settled contradictions between readable pages, newest first."""
        found = [flag for flag in await self._ledger.settled(path, limit=EVERY_LINE) if self._shows_flag(flag)]
        return _numbered(found[:limit], await self._flag_ids())

    async def _flag_ids(self) -> list[int]:
        """Return the numbers that the contradictions between readable pages have in the database, in their order.

        A caller sees their places in this list instead, since the numbers of the database count all contradictions.
        """
        shown = {flag.id for flag in await self._ledger.settled(None, limit=EVERY_LINE) if self._shows_flag(flag)}
        for dismissed in (False, True):
            flags = await self._ledger.flags(None, limit=EVERY_LINE, dismissed=dismissed)
            shown |= {flag.id for flag in flags if self._shows_flag(flag)}
        return sorted(shown)

    async def _flag_id(self, number: int) -> int | None:
        ids = await self._flag_ids()
        return ids[number - 1] if 0 < number <= len(ids) else None

    # --- the audit chain ----------------------------------------------------------------------------------------------

    async def records(self, *, after: int = 0, limit: int = 1000) -> Sequence[AuditRecord]:
        """Return audit records that name no hidden page, oldest first."""
        found: list[AuditRecord] = []
        while len(found) < limit:
            records = await self._ledger.records(after=after, limit=AT_ONCE)
            found += [record for record in records if self._shows_record(record)]
            if len(records) < AT_ONCE:
                break
            after = records[-1].seq
        return found[:limit]

    async def scan(self, wanted: AuditScan, *, limit: int) -> Sequence[AuditRecord]:
        """Return the newest records that match and name no hidden page, newest first."""
        found: list[AuditRecord] = []
        looked_at = 0
        while len(found) < limit and looked_at < MOST_LOOKED_AT:
            records = await self._ledger.scan(wanted, limit=AT_ONCE)
            looked_at += len(records)
            found += [record for record in records if self._shows_record(record)]
            if len(records) < AT_ONCE:
                break
            wanted = replace(wanted, before=records[-1].seq)
        return found[:limit]

    async def chain_end(self) -> tuple[int, bytes]:
        """Return `seq` and digest of the newest record of all."""
        return await self._ledger.chain_end()

    # --- writes -------------------------------------------------------------------------------------------------------

    async def keep(self, path: str, raw: bytes, *, how: Found, at: datetime) -> str:
        """Keep these bytes as a state of the page."""
        return await self._ledger.keep(path, raw, how=how, at=at)

    async def removed(self, path: str, *, at: datetime) -> None:
        """Record that somebody removed the page outside the server."""
        await self._ledger.removed(path, at=at)

    async def intend(self, intent: Intent, contents: Sequence[bytes]) -> None:
        """Record that an act begins."""
        await self._ledger.intend(intent, contents)

    async def intents(self) -> Sequence[Intent]:
        """Return every act that has begun, whichever pages it changes. Those of dead processes are finished, and not shown."""
        return await self._ledger.intents()

    async def drop(self, intent_id: str) -> None:
        """Forget an act that did not happen."""
        await self._ledger.drop(intent_id)

    async def commit(self, entry: HistoryEntry, *, intent_id: str | None = None) -> AuditRecord:
        """Record the act and end its intent."""
        return await self._ledger.commit(entry, intent_id=intent_id)

    async def dismiss(self, flag_id: int, dismissal: Dismissal, entry: HistoryEntry) -> bool:
        """Dismiss an open contradiction between readable pages."""
        real = await self._flag_id(flag_id)
        return real is not None and await self._ledger.dismiss(real, dismissal, entry)

    async def reopen(self, flag_id: int, entry: HistoryEntry) -> bool:
        """Undo a dismissal."""
        real = await self._flag_id(flag_id)
        return real is not None and await self._ledger.reopen(real, entry)

    async def settle(self, flag_ids: Sequence[int], settlement: Settlement) -> None:
        """Close those of these contradictions that are open."""
        real = [await self._flag_id(flag_id) for flag_id in flag_ids]
        await self._ledger.settle([flag_id for flag_id in real if flag_id is not None], settlement)

    async def revive(self, flag_id: int, entry: HistoryEntry) -> bool:
        """Open a settled contradiction again."""
        real = await self._flag_id(flag_id)
        return real is not None and await self._ledger.revive(real, entry)

    async def forget(self, *, seen_before: datetime, limit: int = 1000) -> int:
        """Drop nothing: the server drops old states itself, with its access to all pages."""
        del seen_before, limit
        return 0

    # --- what may be shown --------------------------------------------------------------------------------------------

    def _in_order(self, lines: Sequence[Revision]) -> Sequence[Revision]:
        """Return the lines of a page's history with their ids."""
        return lines

    def _shown(self, lines: Sequence[Revision]) -> list[Revision]:
        """Return the lines of a page's history, newest first, back to when it came from a hidden path."""
        shown: list[Revision] = []
        for line in lines:
            if not self._access.may_read(line.path):
                break
            if line.moved_from is not None and not self._access.may_read(line.moved_from):
                # Here the page begins; the reason that was given for the move may name where it was.
                shown.append(replace(line, moved_from=None, before=None, intent=""))
                break
            shown.append(line)
        return shown

    async def _without_names(self, line: Revision) -> Revision:
        """Return the line without its act's reason if the act also changed a hidden page: the reason may name that page."""
        if not line.intent or line.seq is None:
            return line
        records = await self._ledger.records(after=line.seq - 1, limit=1)
        return line if all(map(self._shows_record, records)) else replace(line, intent="")

    async def _known(self, path: str) -> frozenset[str | None] | None:
        """Return the revisions that a readable page has had since it was at a hidden path; None if it never was at one."""
        lines = await self._ledger.history(path, limit=EVERY_LINE)
        if all(map(self._shows, lines)):
            return None
        return frozenset(line.revision for line in self._shown(lines))

    def _shows(self, line: Revision) -> bool:
        return self._access.may_read(line.path) and (line.moved_from is None or self._access.may_read(line.moved_from))

    def _shows_flag(self, flag: Flag) -> bool:
        found = flag.contradiction
        return self._access.may_read(found.existing.path) and self._access.may_read(found.new.path)

    def _shows_record(self, record: AuditRecord) -> bool:
        return all(map(self._access.may_read, _paths_in(fields_of(record))))


class NumberedLedger(ReadableLedger):
    """A readable ledger for showing histories: a line's id is its place in the history of its page."""

    def _in_order(self, lines: Sequence[Revision]) -> Sequence[Revision]:
        return [replace(line, id=len(lines) - i) for i, line in enumerate(lines)]


def _numbered(flags: Sequence[Flag], ids: Sequence[int]) -> list[Flag]:
    """Return the contradictions numbered by their places in `ids`.

    One that is not in `ids`, because it is newer, is left out.
    """
    places = {flag_id: place for place, flag_id in enumerate(ids, start=1)}
    return [replace(flag, id=places[flag.id]) for flag in flags if flag.id in places]


def _paths_in(fields: Mapping[str, object]) -> list[str]:
    """Return the paths of pages that an audit record names."""
    changes = fields.get("changes")
    listed = changes if isinstance(changes, list) else []
    named = [one.get(key) for one in listed if isinstance(one, dict) for key in ("path", "moved_from")]
    return [path for path in named if isinstance(path, str)]
