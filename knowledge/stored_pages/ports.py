"""The contract of stored pages: files by path in the state database, exchanged by compare-and-swap."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple, Protocol

from knowledge.history.ports import AuditRecord, HistoryEntry


class ChangePlace(NamedTuple):
    """A place in the order of changes: the number of a change, and the path of one of the files that it changed."""

    seq: int
    path: str


BEGINNING = ChangePlace(0, "")
"""Before all changes."""


@dataclass(frozen=True, slots=True)
class StoredFile:
    """A file as it is now: the SHA-256 of its bytes, None if it was removed, and the number of the change that made it so."""

    path: str
    digest: bytes | None
    seq: int

    @property
    def place(self) -> ChangePlace:
        """Its place in the order of changes."""
        return ChangePlace(self.seq, self.path)


@dataclass(frozen=True, slots=True)
class FileExchange:
    """A file that becomes `raw`, or is removed (None), if the SHA-256 of its bytes is still `before` (None: there is no file)."""

    path: str
    before: bytes | None
    raw: bytes | None


class StoredPages(Protocol):
    """The files of one knowledge base. Every method that writes is one transaction, durable when it returns."""

    async def find(self, paths: Collection[str]) -> Mapping[str, StoredFile]:
        """Return those of the paths that have or had a file."""
        ...

    async def contents(self, digests: Collection[bytes]) -> Mapping[bytes, bytes]:
        """Return the bytes by their SHA-256; those that are not kept are left out.

        Raises:
            CorruptDatabase: the kept bytes have changed.
        """
        ...

    async def last(self) -> int:
        """Return the number of the newest change of a file, 0 before the first."""
        ...

    async def after(self, place: ChangePlace, *, limit: int) -> Sequence[StoredFile]:
        """Return files that changed after that place, in the order of their changes, each once.

        No change that is committed later gets a place before those that were returned.
        """
        ...

    async def commit(self, entry: HistoryEntry, exchanges: Sequence[FileExchange]) -> AuditRecord:
        """Exchange the files and record the act, as `Ledger.commit` does: all of it or nothing.

        Raises:
            StoredFileChanged: a file is no longer as the exchange expects. Nothing is recorded.
            ProposalSettled, CorruptDatabase, ValueError: as `Ledger.commit`.
        """
        ...

    async def keep_outside(self, exchange: FileExchange, *, at: datetime) -> None:
        """Exchange a page that somebody edited in a copy; its history gets a line, as for a page changed outside the server.

        Raises:
            StoredFileChanged: the page is no longer as the exchange expects. Nothing is recorded.
        """
        ...

    async def put(self, exchange: FileExchange, *, at: datetime) -> None:
        """Exchange a file that is not a page: it has no history.

        Raises:
            StoredFileChanged: the file is no longer as the exchange expects.
        """
        ...
