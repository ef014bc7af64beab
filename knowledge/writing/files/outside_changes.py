"""Brings changes that were made outside the server, in an editor or by another program, on record before histories are shown."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from operator import attrgetter

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


class OutsideChanges:
    """Finds pages that differ from the end of their histories.

    A page without a history is new to the server. It is recorded if it was saved after the server kept its first page: older ones
    were there before, and nobody has changed them since.
    """

    def __init__(self, vault: Vault, ledger: Ledger, note: Callable[[str], Awaitable[None]]) -> None:
        self._vault, self._ledger, self._note = vault, ledger, note
        self._compared: dict[str, tuple[int, str | None]] = {}
        """When each page had last changed, and its revision then."""

    async def record(self, *, most: int = MOST_RECORDED) -> OutsideRecord:
        """Bring at most `most` changed pages on record, those that changed last first.

        Raises:
            VaultUnavailable, StorageError: the folder or the database can't be used.
        """
        changed = await self._changed()
        recorded: list[str] = []
        failed: list[str] = []
        for path in changed[:most]:
            try:
                await self._note(path)
            except StorageError:
                raise
            except KnowledgeError:
                log.warning("cannot bring the change of %s on record", path, exc_info=True)
                failed.append(path)
            else:
                recorded.append(path)
        return OutsideRecord(recorded, max(0, len(changed) - most), failed)

    async def _changed(self) -> Sequence[str]:
        """Return the paths of pages that differ from the end of their histories, those that changed last first."""
        newest = {line.path: line for line in await self._ledger.newest_lines()}
        begun = await self._ledger.begun()
        if begun is None:
            return []
        changed, missing = await anyio.to_thread.run_sync(self._compare, newest, begun)
        if missing:
            await anyio.sleep(BACK_S)
        return [*changed, *(path for path in missing if self._is_gone(path))]

    def _compare(self, newest: dict[str, Revision], begun: datetime) -> tuple[Sequence[str], Sequence[str]]:
        """Return the pages that changed, those that changed last first, and those that are missing."""
        begun_ns = micros(begun) * 1_000
        there = {page.path: page for page in self._vault.scan()}
        new = [page for page in there.values() if page.path not in newest and page.stamp.mtime_ns > begun_ns]
        known = [page for page in there.values() if page.path in newest]
        edited = [page for page in known if self._revision(page) not in (None, newest[page.path].revision)]
        by_time = sorted([*new, *edited], key=attrgetter("changed_ns"), reverse=True)
        # A page that a scan leaves out may be a second link to another one, or in a folder that cannot be listed.
        gone = [path for path, line in newest.items() if line.revision is not None and path not in there]
        return [page.path for page in by_time], sorted(path for path in gone if self._is_gone(path))

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
        """Return whether no folder above the page, and not the page itself, is among those that could not be read."""
        return not any(path == problem.path or path.startswith(f"{problem.path}/") for problem in self._vault.problems)
