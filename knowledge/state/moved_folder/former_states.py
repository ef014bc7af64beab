"""Finds the states that a knowledge base without one may have had before its folder was moved. A person decides."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from contextlib import closing, suppress
from dataclasses import dataclass
from pathlib import Path

import apsw

from knowledge.errors import UndecidedState
from knowledge.state.locations import default_state_dir
from knowledge.state.moved_folder.record import FolderRecord, is_decided, is_gone, read_record
from knowledge.state.ownership import others_could_write

MOST_PAGES = 40
"""Pages that are compared for each state."""
LARGEST_PAGE = 4_000_000
_PAGES = (
    ("index.db", "SELECT path, revision FROM document ORDER BY doc LIMIT ?"),
    ("state.db", "SELECT path, lower(hex(digest)) FROM page_state WHERE in_history ORDER BY at_us DESC LIMIT ?"),
)


@dataclass(frozen=True, slots=True)
class FormerState:
    """A state folder that may be the former state of a knowledge base.

    Either of two facts suggests it: the knowledge base is the same folder on disk, or it has the same pages.
    """

    folder: Path
    record: FolderRecord
    same_folder: bool
    same_pages: int
    pages: int

    def __str__(self) -> str:
        """Return it as a clause."""
        if not (self.same_folder or self.pages):
            return f"another state folder for this path ({self.folder})"
        reasons = ["it is the same folder on the disk"] if self.same_folder else []
        reasons += [f"{self.same_pages} of {self.pages} pages compared are the same"] if self.pages else []
        return f"{self.record.root} (state in {self.folder}; {', '.join(reasons)})"


def require_decided(root: Path) -> None:
    """Check that the resolved `root` has a state in its default state folder, or that no other state may belong to it.

    Raises:
        UndecidedState: it has no state, and seems to have been at another path before.
    """
    folder = default_state_dir(root)
    if not is_decided(folder) and (found := former_states(root, folder)):
        raise UndecidedState(str(root), [str(one) for one in found])


def former_states(root: Path, folder: Path) -> Sequence[FormerState]:
    """Return the states beside `folder` that the knowledge base at `root` may have had, those with the strongest reasons first."""
    found = []
    with suppress(OSError):
        for beside in sorted(folder.parent.iterdir()):
            record = read_record(beside)
            if record is None or beside == folder or others_could_write(beside):
                continue
            if (former := _compared(root, beside, record)) is not None:
                found.append(former)
    return sorted(found, key=lambda one: (one.same_folder, one.same_pages), reverse=True)


def _compared(root: Path, folder: Path, record: FolderRecord) -> FormerState | None:
    here, there = record.is_folder(root), record.path
    # A folder that is still there keeps its state: the one at `root` is a copy.
    if there == root:  # a person named it with --state-dir
        return FormerState(folder, record, here, 0, 0)
    if record.is_folder(there) or not (here or is_gone(there)):
        return None
    pages = _known_pages(folder)
    same = sum(_has(root, path, revision) for path, revision in pages)
    # A number on the disk is given to another folder after the first one was deleted.
    if (here and (same or not pages)) or (same and 2 * same >= len(pages)):
        return FormerState(folder, record, here, same, len(pages))
    return None


def _known_pages(folder: Path) -> list[tuple[str, str]]:
    """Return paths with beginnings of SHA-256 digests, from the index, or from the history where there is no index."""
    for name, sql in _PAGES:
        file = folder / name
        # A damaged index leaves the history to compare with.
        with suppress(apsw.Error, OSError):
            if not file.exists():
                continue
            with closing(apsw.Connection(str(file), flags=apsw.SQLITE_OPEN_READONLY)) as connection:
                rows = connection.execute(sql, (MOST_PAGES,)).fetchall()
            if rows:
                return [(str(path), str(digest)) for path, digest in rows]
    return []


def _has(root: Path, path: str, revision: str) -> bool:
    try:
        file = (root / path).resolve()
        if not file.is_relative_to(root) or file.stat().st_size > LARGEST_PAGE:
            return False
        return hashlib.sha256(file.read_bytes()).hexdigest().startswith(revision)
    except (OSError, ValueError):
        return False
