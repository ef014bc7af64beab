"""What happened to pages, and what disagrees in them: the reading half of the ledger."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from datetime import datetime

import anyio.to_thread

from knowledge.errors import KnowledgeError, NoSuchPath
from knowledge.history.ports import Flag, Ledger, Revision
from knowledge.merge.document.unit_origins import trace
from knowledge.merge.document.units import cut, units
from knowledge.merge.model import CUT_MARK, Origin, Side, Unit, section_name
from knowledge.pages.claim_source import UNKNOWN_AUTHORITY
from knowledge.pages.paths import clean_path
from knowledge.pages.vault import Vault
from knowledge.wire.cursors import question, seal, unseal
from knowledge.writing.answers import Disagreement, Disagreements, History, HistoryLine, OriginLine
from knowledge.writing.related.target_page import PageNames, text_of

MOST_ORIGINS = 60
"""Stretches of lines whose origin is listed; the rest of a long page is summed up by its first ones."""
LOOKED_THROUGH = 200
"""Flags that are looked at for one page of a list: those that do not hold any more are settled on the way."""


class PageHistory:
    """Answers kb_history and kb_contradictions."""

    def __init__(self, vault: Vault, ledger: Ledger, names: PageNames, now: Callable[[], datetime]) -> None:
        self._vault, self._ledger, self._names, self._now = vault, ledger, names, now

    async def history(self, asked: str, *, limit: int, cursor: str | None) -> History:
        """Return the page's states, newest first; a page that is gone has a history as well.

        Raises:
            NoSuchPath: there is no such page, and never was.
            BadCursor: it belongs to another question.
        """
        path, raw, revision = await self._page(asked)
        key = question({"of": "history", "path": path})
        before = _behind(cursor, key)
        lines = await self._ledger.history(path, limit=limit + 1, before=before)
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

    async def _page(self, asked: str) -> tuple[str, bytes | None, str | None]:
        try:
            path = await self._names.locate(asked)
            file = await anyio.to_thread.run_sync(self._vault.read, path)
        except NoSuchPath as error:
            path = clean_path(asked)
            for candidate in (path, f"{path}.md"):
                if await self._ledger.history(candidate, limit=1):
                    return candidate, None, None
            raise error from None
        return path, file.raw, file.revision

    async def _origins(self, path: str, raw: bytes) -> list[OriginLine]:
        tracked = await self._ledger.tracked(path)
        if tracked is None:
            return []
        try:
            here = units(cut(text_of(path, raw)))
        except KnowledgeError:
            return []
        before = await self._ledger.content(path, tracked.revision)
        then = units(cut(before.decode("utf-8", "replace"))) if before is not None else None
        return _stretches(here, trace(here, tracked.origins, then))[:MOST_ORIGINS]

    async def contradictions(self, asked: str | None, *, limit: int, cursor: str | None) -> Disagreements:
        """Return open contradictions, newest first. One of which a side does not say so any more is settled on the way.

        Raises:
            BadCursor: it belongs to another question.
        """
        place = clean_path(asked) if asked else None
        key = question({"of": "contradictions", "path": place})
        after = _behind(cursor, key)
        found: list[Flag] = []
        while len(found) <= limit:
            flags = await self._ledger.flags(place, limit=LOOKED_THROUGH, after=after)
            holding = await self._holding(flags)
            found += holding
            await self._settle(flags, holding)
            if len(flags) < LOOKED_THROUGH:
                break
            after = flags[-1].id
        shown = found[:limit]
        more = len(found) > limit
        return Disagreements(
            [_disagreement(flag) for flag in shown],
            seal(key, (shown[-1].id,)) if more else None,
        )

    async def _settle(self, flags: Sequence[Flag], holding: Sequence[Flag]) -> None:
        still = {flag.id for flag in holding}
        gone = [flag.id for flag in flags if flag.id not in still]
        if gone:
            await self._ledger.settle(gone, at=self._now())

    async def _holding(self, flags: Sequence[Flag]) -> list[Flag]:
        """Return the flags whose written sides still say what they said."""
        said: dict[str, list[str]] = {}
        for side in _written_sides(flags):
            if side.path not in said:
                said[side.path] = await anyio.to_thread.run_sync(self._units_of, side.path)
        return [flag for flag in flags if all(_says(said, side) for side in _written_sides([flag]))]

    def _units_of(self, path: str) -> list[str]:
        try:
            here = units(cut(self._vault.read(path).raw.decode("utf-8", "replace")))
        except KnowledgeError:
            return []
        return [_folded(unit.text) for unit in here]


def _written_sides(flags: Iterable[Flag]) -> list[Side]:
    """Return the sides that stand in a page; what was flagged on its way in stands in none, and has no revision."""
    both = [side for flag in flags for side in (flag.contradiction.existing, flag.contradiction.new)]
    return [side for side in both if side.revision is not None]


def _says(said: dict[str, list[str]], side: Side) -> bool:
    """Return whether the page still says it, as a unit or a sentence of one; of a long text only the beginning is on record."""
    wanted = _folded(side.text.removesuffix(CUT_MARK))
    return any(wanted in unit for unit in said.get(side.path, ()))


def _folded(text: str) -> str:
    return " ".join(text.split())


def _stretches(here: Sequence[Unit], origins: Sequence[Origin | None]) -> list[OriginLine]:
    """Return the origins by stretches of lines that have the same one."""
    found: list[tuple[Unit, Unit, Origin | None]] = []
    for unit, origin in zip(here, origins, strict=True):
        if found and found[-1][0].section == unit.section and _same(found[-1][2], origin):
            found[-1] = (found[-1][0], unit, origin)
        else:
            found.append((unit, unit, origin))
    return [_origin_line(first, last, origin) for first, last, origin in found]


def _same(one: Origin | None, other: Origin | None) -> bool:
    return _named(one) == _named(other)


def _named(origin: Origin | None) -> tuple[object, ...]:
    if origin is None:
        return ()
    return (origin.source, origin.authority, origin.observed_at, origin.revision, origin.by, origin.corroborated_by)


def _origin_line(first: Unit, last: Unit, origin: Origin | None) -> OriginLine:
    end = last.line + max(last.text.count("\n"), last.text.count("\r"), 1) - 1
    return OriginLine(
        lines=f"{first.line}-{end}" if end > first.line else str(first.line),
        section=section_name(first.section),
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


def _disagreement(flag: Flag) -> Disagreement:
    found = flag.contradiction
    return Disagreement(flag.id, found.kind, found.subject, found.reason, _iso(flag.at), found.existing, found.new)


def _iso(at: datetime) -> str:
    return at.isoformat(timespec="seconds").replace("+00:00", "Z")


def _behind(cursor: str | None, key: str) -> int | None:
    """Return the number behind which the cursor goes on, None without one."""
    return None if cursor is None else int(unseal(cursor, key, int)[0])
