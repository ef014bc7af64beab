"""The history of pages."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import pairwise, takewhile

import anyio.to_thread

from knowledge.errors import KnowledgeError, NoSuchPath
from knowledge.history.ports import Ledger, Revision, Tracked
from knowledge.merge.document.unit_origins import trace_origins
from knowledge.merge.document.units import cut, split_lines, units
from knowledge.merge.model import Origin, Unit, section_name
from knowledge.pages.claim_source import UNKNOWN_AUTHORITY
from knowledge.pages.paths import clean_path
from knowledge.pages.vault import Vault
from knowledge.wire.cursors import question, seal, unseal
from knowledge.writing.answers import History, HistoryLine, OriginLine, PageSince
from knowledge.writing.related.target_page import PageNames, text_of

MOST_ORIGINS = 60
"""The most runs of lines whose origins are listed, from the beginning of the page."""


@dataclass(frozen=True, slots=True)
class LinesOfOrigin:
    """Consecutive lines of a page with the same origin. `first` is the number of the first one."""

    first: int
    text: str
    origin: OriginLine


class PageHistory:
    """Lists the states of a page, and the origins of its lines: the answer of kb_history."""

    def __init__(self, vault: Vault, ledger: Ledger, names: PageNames, now: Callable[[], datetime]) -> None:
        self._vault, self._ledger, self._names, self._now = vault, ledger, names, now

    async def history(self, name: str, *, limit: int, cursor: str | None) -> History:
        """Return the page's states, newest first; a removed page has a history too.

        Raises:
            NoSuchPath: there is no such page, and never was.
            BadCursor: it belongs to another query.
        """
        path, raw, revision = await self.present(name)
        key = question({"of": "history", "path": path})
        # One line more than is shown tells whether the list continues.
        lines = await self._ledger.history(path, limit=limit + 1, before=_place(cursor, key))
        if not lines and raw is None:
            raise NoSuchPath(path)
        shown = lines[:limit]
        return History(
            path=path,
            revision=revision,
            revisions=[_line(line) for line in shown],
            origins=await self._origins(path, raw) if raw is not None and cursor is None else [],
            next_cursor=seal(key, (shown[-1].id,)) if len(lines) > limit else None,
        )

    async def since(self, path: str, revision: str | None, *, limit: int) -> PageSince:
        """Return the page's current revision, and at most `limit` changes since that revision, newest first.

        Raises:
            KnowledgeError: the file can't be read.
        """
        try:
            file = await anyio.to_thread.run_sync(self._vault.read, path)
        except NoSuchPath:
            file = None
        now = file.revision if file else None
        if now == revision:
            return PageSince(path, now, ())
        lines = [_line(line) for line in await self._ledger.history(path, limit=limit)]
        changes = list(takewhile(lambda line: line.revision != revision, lines))
        if not lines or lines[0].revision != now:
            # An editor changed it, and that is not recorded yet.
            at = datetime.fromtimestamp(file.stamp.mtime_ns / 1e9, UTC) if file else self._now()
            changes.insert(0, _line(Revision(0, path, now, None, at, "outside")))
        return PageSince(path, now, changes[:limit])

    async def present(self, name: str) -> tuple[str, bytes | None, str | None]:
        """Return path, bytes and revision of the page; without bytes if it was removed.

        Raises:
            NoSuchPath: there is no such page, and never was.
        """
        try:
            path = await self._names.locate(name)
            file = await anyio.to_thread.run_sync(self._vault.read, path)
        except NoSuchPath as error:
            # A removed page can no longer be found by name, but its history is kept under its path.
            path = clean_path(name)
            for candidate in (path, f"{path}.md"):
                if await self._ledger.history(candidate, limit=1):
                    return candidate, None, None
            raise error from None
        return path, file.raw, file.revision

    async def written_by(self, path: str, raw: bytes) -> Sequence[LinesOfOrigin]:
        """Return every line of the page, in runs with the same origin.

        Raises:
            KnowledgeError: it is not a text.
        """
        text = text_of(path, raw)
        runs = await self._runs(path, text)
        lines = split_lines(text)
        if not runs:
            return [LinesOfOrigin(1, text, _origin_line(1, max(1, len(lines)), (), None))]
        # Blank lines belong to the run before them, and those at the beginning to the first.
        starts = [0, *(first.line - 1 for first, _, _ in runs[1:]), len(lines)]
        return [
            LinesOfOrigin(
                start + 1, "".join(lines[start:end]), _origin_line(first.line, _end(last), first.section, origin)
            )
            for (first, last, origin), (start, end) in zip(runs, pairwise(starts), strict=True)
        ]

    async def _origins(self, path: str, raw: bytes) -> list[OriginLine]:
        """Return the origins of the page's lines, one for each run of lines with the same origin."""
        try:
            text = text_of(path, raw)
        except KnowledgeError:
            return []
        if await self._ledger.tracked(path) is None:
            return []
        runs = await self._runs(path, text)
        return [
            _origin_line(first.line, _end(last), first.section, origin) for first, last, origin in runs[:MOST_ORIGINS]
        ]

    async def _runs(self, path: str, text: str) -> list[tuple[Unit, Unit, Origin | None]]:
        """Return the first and last unit of each run of units with the same origin, None if it is unknown."""
        # A page of two megabytes takes half a second, and others must not wait for it.
        here = await anyio.to_thread.run_sync(_units_of, text)
        tracked = await self._ledger.tracked(path)
        runs: list[tuple[Unit, Unit, Origin | None]] = []
        for unit, origin in zip(here, await self._traced(path, text, here, tracked), strict=True):
            if runs and runs[-1][0].section == unit.section and _facts(runs[-1][2]) == _facts(origin):
                runs[-1] = (runs[-1][0], unit, origin)
            else:
                runs.append((unit, unit, origin))
        return runs

    async def _traced(
        self, path: str, text: str, here: Sequence[Unit], tracked: Tracked | None
    ) -> Sequence[Origin | None]:
        if tracked is None:
            return [None] * len(here)
        before = await self._ledger.content(path, tracked.revision)
        said = before.decode("utf-8", "replace") if before is not None else None

        def traced() -> Sequence[Origin | None]:
            then = here if said == text else None if said is None else _units_of(said)
            return trace_origins(here, tracked.origins, then)

        return await anyio.to_thread.run_sync(traced)


def _units_of(text: str) -> tuple[Unit, ...]:
    return units(cut(text))


def _facts(origin: Origin | None) -> tuple[object, ...]:
    if origin is None:
        return ()
    return (origin.source, origin.authority, origin.observed_at, origin.revision, origin.by, origin.corroborated_by)


def _end(unit: Unit) -> int:
    """Return the number of the unit's last line."""
    return unit.line + max(unit.text.count("\n"), unit.text.count("\r"), 1) - 1


def _origin_line(first: int, end: int, section: tuple[str, ...], origin: Origin | None) -> OriginLine:
    return OriginLine(
        lines=f"{first}-{end}" if end > first else str(first),
        section=section_name(section),
        source=origin.source if origin else "unknown",
        authority=origin.authority if origin else UNKNOWN_AUTHORITY,
        observed_at=_iso(origin.observed_at) if origin else None,
        by=origin.by if origin else "",
        revision=origin.revision if origin else None,
        corroborated_by=list(origin.corroborated_by) if origin else [],
    )


def _line(line: Revision) -> HistoryLine:
    return HistoryLine(
        revision=line.revision,
        at=_iso(line.at),
        by=line.principal,
        tool=line.tool,
        source=line.source,
        confidence=line.confidence,
        proposal=line.proposal,
        intent=line.intent,
        added=line.lines_added,
        removed=line.lines_removed,
        moved_from=line.moved_from,
    )


def _iso(at: datetime) -> str:
    return at.isoformat(timespec="seconds").replace("+00:00", "Z")


def _place(cursor: str | None, key: str) -> int | None:
    """Return the id after which the list continues, None without a cursor."""
    return None if cursor is None else int(unseal(cursor, key, int)[0])
