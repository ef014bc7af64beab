"""Brings changes that were made outside the server, in an editor or by another program, on record before histories are shown."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from operator import attrgetter
from types import MappingProxyType
from typing import NamedTuple

import anyio
import anyio.to_thread

from knowledge.errors import KnowledgeError, StorageError
from knowledge.history.ports import Ledger, Revision
from knowledge.history.timestamps import micros
from knowledge.pages.vault import Scanned, Vault

BACK_S = 0.2
"""A page that is missing for this long was removed: some editors remove a file for a moment to save it."""
MOST_RECORDED = 500
"""Pages that one call records; each takes some milliseconds. After a whole folder was copied in, there may be thousands."""

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class OutsideRecord:
    """The pages that were brought on record, the number of changed pages that were left for the next call, and those that failed."""

    recorded: Sequence[str]
    left: int
    failed: Sequence[str]


class _FilesCompared(NamedTuple):
    """Pages that changed, the newest history lines of pages that are missing, and all pages without a history."""

    changed: Sequence[str]
    missing: Sequence[Revision]
    strangers: Sequence[Scanned]


class _FilesDiffering(NamedTuple):
    """Pages that changed or are gone, and among them those that moved, with their new paths."""

    changed: Sequence[str] = ()
    moves: Mapping[str, str] = MappingProxyType({})


class OutsideChanges:
    """Finds pages that differ from the end of their histories.

    `note` records one page as it is. `follow` records a page at its new path, and returns False if the page did not
    move after all. A page without a history is new to the server. It is recorded if it was saved after the server kept
    its first page: older ones were there before, and nobody has changed them since.
    """

    def __init__(
        self,
        vault: Vault,
        ledger: Ledger,
        note: Callable[[str], Awaitable[None]],
        follow: Callable[[str, str], Awaitable[bool]],
    ) -> None:
        self._vault, self._ledger, self._note, self._follow = vault, ledger, note, follow
        self._compared: dict[str, tuple[int, str | None]] = {}
        """When each page had last changed, and its revision then."""

    async def record(self, *, most: int = MOST_RECORDED) -> OutsideRecord:
        """Bring at most `most` changed pages on record: those that moved, then those that changed last.

        Raises:
            VaultUnavailable, StorageError: the folder or the database can't be used.
        """
        found = await self._differing()
        recorded: list[str] = []
        failed: list[str] = []
        for old, new in list(found.moves.items())[:most]:
            if await self._done(self._follow(old, new), old, failed):
                recorded += [old, new]
        done = {*recorded, *failed}
        rest = [path for path in found.changed if path not in done]
        room = max(0, most - len(found.moves))
        for path in rest[:room]:
            if await self._done(self._note(path), path, failed) is not False:
                recorded.append(path)
        return OutsideRecord(recorded, max(0, len(rest) - room), failed)

    async def note(self, paths: Sequence[str]) -> None:
        """Bring these pages on record, and restore text that somebody overwrote unknowingly."""
        failed: list[str] = []
        for path in paths:
            await self._done(self._note(path), path, failed)

    async def _done(self, work: Awaitable[bool | None], path: str, failed: list[str]) -> bool | None:
        """Return what `work` returns; if the page can't be read or locked, add it to `failed` and return False."""
        try:
            return await work
        except StorageError:
            raise
        except KnowledgeError:
            log.warning("cannot bring the change of %s on record", path, exc_info=True)
            failed.append(path)
            return False

    async def _differing(self) -> _FilesDiffering:
        """Return the pages that differ from the end of their histories."""
        newest = {line.path: line for line in await self._ledger.newest_lines()}
        begun = await self._ledger.begun()
        if begun is None:
            return _FilesDiffering()
        compared = await anyio.to_thread.run_sync(self._compare, newest, begun)
        if not compared.missing:
            return _FilesDiffering(compared.changed)
        await anyio.sleep(BACK_S)
        gone = [line for line in compared.missing if self._is_gone(line.path)]
        moves = await self._moves(gone, compared.strangers)
        return _FilesDiffering([*compared.changed, *(line.path for line in gone)], moves)

    def _compare(self, newest: Mapping[str, Revision], begun: datetime) -> _FilesCompared:
        begun_ns = micros(begun) * 1_000
        there = {page.path: page for page in self._vault.scan()}
        strangers = [page for page in there.values() if page.path not in newest]
        new = [page for page in strangers if page.stamp.mtime_ns > begun_ns]
        known = [page for page in there.values() if page.path in newest]
        edited = [page for page in known if self._revision(page) not in (None, newest[page.path].revision)]
        by_time = sorted([*new, *edited], key=attrgetter("changed_ns"), reverse=True)
        # A page that a scan leaves out may be a second link to another one, or in a folder that cannot be listed.
        gone = [line for path, line in newest.items() if line.revision is not None and path not in there]
        missing = sorted((line for line in gone if self._is_gone(line.path)), key=attrgetter("path"))
        return _FilesCompared([page.path for page in by_time], missing, strangers)

    async def _moves(self, gone: Sequence[Revision], strangers: Sequence[Scanned]) -> Mapping[str, str]:
        """Return the new paths of pages that somebody moved: one page is missing, and one new page has exactly its bytes.

        Where several have the same bytes, only those with the same file name count.
        """
        old: dict[str, list[str]] = {}
        sizes: set[int] = set()
        for line in gone[:MOST_RECORDED]:
            raw = await self._ledger.content(line.path, line.revision or "")
            if raw:
                sizes.add(len(raw))
                old.setdefault(line.revision or "", []).append(line.path)
        alike = [page for page in strangers if page.stamp.size in sizes]
        new: dict[str, list[str]] = {}
        for page in alike:
            revision = await anyio.to_thread.run_sync(self._revision, page)
            new.setdefault(revision or "", []).append(page.path)
        return {was: now for revision, paths in old.items() for was, now in _pairs(paths, new.get(revision, []))}

    def _revision(self, page: Scanned) -> str | None:
        """Return the revision of the page, which is only read if it has changed since; None if it can't be read."""
        known = self._compared.get(page.path)
        if known is None or known[0] != page.changed_ns:
            try:
                revision: str | None = self._vault.read(page.path).revision
            except KnowledgeError:
                revision = None
            known = self._compared[page.path] = (page.changed_ns, revision)
        return known[1]

    def _is_gone(self, path: str) -> bool:
        return self._vault.find(path) is None and self._folder_is_listed(path)

    def _folder_is_listed(self, path: str) -> bool:
        """Return whether the page and every folder above it could be read."""
        return not any(path == problem.path or path.startswith(f"{problem.path}/") for problem in self._vault.problems)


def _pairs(old: Sequence[str], new: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Yield the old and the new path of each page that moved, where that is certain."""
    if len(old) == len(new) == 1:
        yield old[0], new[0]
        return
    for was in old:
        name = was.rpartition("/")[2]
        same = [path for path in new if path.rpartition("/")[2] == name]
        if len(same) == 1 and [path.rpartition("/")[2] for path in old].count(name) == 1:
            yield was, same[0]
