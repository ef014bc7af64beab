"""What one machine's copy of the stored pages holds, in a small SQLite file that its processes share. All of it blocks."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import apsw

from knowledge.errors import StorageError
from knowledge.state.ports import Stamp
from knowledge.stored_pages.ports import BEGINNING, ChangePlace

BUSY_MS = 10_000
_TABLES = """
CREATE TABLE IF NOT EXISTS copied (
    path TEXT PRIMARY KEY, digest BLOB NOT NULL, size INTEGER NOT NULL, mtime_ns INTEGER NOT NULL, inode INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS place (
    only_row INTEGER PRIMARY KEY CHECK (only_row = 1), seq INTEGER NOT NULL, path TEXT NOT NULL
) STRICT;
"""


@dataclass(frozen=True, slots=True)
class CopiedFile:
    """The SHA-256 and the stamp of a file when the copy got it from the database, or when an edit of it was taken to the database."""

    digest: bytes
    stamp: Stamp


class CopyRecord:
    """Which bytes each file of the copy was given last: the common base of an edit there and a change in the database."""

    def __init__(self, file: Path) -> None:
        self._lock = threading.Lock()
        try:
            self._connection = apsw.Connection(str(file))
            self._connection.set_busy_timeout(BUSY_MS)
            self._connection.execute("PRAGMA journal_mode = WAL").fetchall()
            # A record that loses its last moments only means that files are compared once more.
            self._connection.execute("PRAGMA synchronous = NORMAL").fetchall()
            self._connection.execute(_TABLES).fetchall()
        except apsw.Error as error:
            raise StorageError(
                f"the record of this machine's copy of the pages, {file}, can't be used ({error}); stop all servers of this "
                "knowledge base on this machine, remove that file, and start again with an empty folder"
            ) from error

    def close(self) -> None:
        """Close the file."""
        with self._lock:
            self._connection.close()

    def place(self) -> ChangePlace:
        """Return how far the copy has got in the order of changes."""
        with self._lock:
            rows = self._connection.execute("SELECT seq, path FROM place").fetchall()
        return ChangePlace(int(str(rows[0][0])), str(rows[0][1])) if rows else BEGINNING

    def begun(self) -> bool:
        """Return whether the copy was ever filled from the database, if only with nothing."""
        with self._lock:
            return bool(self._connection.execute("SELECT 1 FROM place").fetchall())

    def clear(self) -> None:
        """Forget everything: the copy is filled from the beginning."""
        with self._lock, self._connection:
            self._connection.execute("DELETE FROM copied")
            self._connection.execute("DELETE FROM place")

    def get(self, path: str) -> CopiedFile | None:
        """Return what the file was given last; None if it is not in the copy."""
        return self.all([path]).get(path)

    def all(self, paths: Sequence[str] | None = None) -> Mapping[str, CopiedFile]:
        """Return what all files, or these, were given last."""
        rows: list[tuple[Any, ...]]
        columns = "SELECT path, digest, size, mtime_ns, inode FROM copied"
        with self._lock:
            if paths is None:
                rows = list(self._connection.execute(columns))
            else:
                rows = [row for p in paths for row in self._connection.execute(f"{columns} WHERE path = ?", (p,))]
        return {path: CopiedFile(digest, Stamp(size, mtime_ns, inode)) for path, digest, size, mtime_ns, inode in rows}

    def set(self, files: Mapping[str, CopiedFile | None], place: ChangePlace | None = None) -> None:
        """Note what these files were given (None: they were removed), and how far the copy has got."""
        with self._lock, self._connection:
            for path, file in files.items():
                if file is None:
                    self._connection.execute("DELETE FROM copied WHERE path = ?", (path,))
                else:
                    stamp = file.stamp
                    self._connection.execute(
                        "INSERT OR REPLACE INTO copied VALUES (?, ?, ?, ?, ?)",
                        (path, file.digest, stamp.size, stamp.mtime_ns, stamp.inode),
                    )
            if place is not None:
                self._connection.execute("INSERT OR REPLACE INTO place VALUES (1, ?, ?)", tuple(place))
