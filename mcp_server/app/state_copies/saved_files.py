"""The files of the state folder that a backup holds besides the database: stored ranking weights, and drafts."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import NamedTuple

import apsw

from knowledge.private_files import FILE_MODE, private_folder
from knowledge.search.use.store import USE_FILE
from knowledge.search.use.stored_weights import WEIGHTS_FILE
from knowledge.state.locations import DRAFTS_FOLDER as DRAFTS

LARGEST_DRAFT = 16 * 2**20
USE_LEFT_OUT = f"{USE_FILE}: the questions of hosts, which stay on this machine; recording starts again"
CACHES_LEFT_OUT = "the search index: it is made again from the pages"
PAGES_LEFT_OUT = "the Markdown files: back them up as well"


class RestoredFiles(NamedTuple):
    """The files that a restore wrote, and those that it left as they are because another text is there."""

    written: Sequence[str]
    kept: Sequence[str]


def left_out(folder: Path, *, has_pages: bool) -> Sequence[str]:
    """Return what a backup of this state folder does not hold, each with the reason. `has_pages`: the state has the pages, too."""
    use = [USE_LEFT_OUT] if (folder / USE_FILE).exists() else []
    return [*use, CACHES_LEFT_OUT, *([] if has_pages else [PAGES_LEFT_OUT])]


def files_in(folder: Path) -> Mapping[str, bytes]:
    """Return the files of the state folder that belong in a backup, by their path in it."""
    weights = folder / WEIGHTS_FILE
    drafts = sorted((folder / DRAFTS).iterdir()) if (folder / DRAFTS).is_dir() else []
    found = [file for file in (weights, *drafts) if file.is_file() and not file.is_symlink()]
    return {
        file.relative_to(folder).as_posix(): file.read_bytes() for file in found if file.stat().st_size <= LARGEST_DRAFT
    }


def add_to(files: Mapping[str, bytes], backup: Path) -> None:
    """Put the files into a written backup."""
    if not files:
        return
    with closing(apsw.Connection(str(backup))) as connection, connection:
        connection.execute("CREATE TABLE saved_files (path TEXT PRIMARY KEY, content BLOB NOT NULL) STRICT")
        connection.executemany("INSERT INTO saved_files VALUES (?, ?)", list(files.items()))


def saved_in(backup: Path) -> Mapping[str, bytes]:
    """Return the files in a backup; none for one of an earlier version, or a copied `state.db`. The file stays unchanged."""
    # Immutable, so that a copied `state.db` gets no log beside it.
    address, flags = f"{backup.absolute().as_uri()}?immutable=1", apsw.SQLITE_OPEN_READONLY | apsw.SQLITE_OPEN_URI
    with closing(apsw.Connection(address, flags=flags)) as connection:
        if not connection.execute("SELECT 1 FROM sqlite_schema WHERE name = 'saved_files'").fetchall():
            return {}
        rows = connection.execute("SELECT path, content FROM saved_files ORDER BY path").fetchall()
    # A backup may come from elsewhere: only these names are written, and only below the state folder.
    return {str(path): content for path, content in rows if isinstance(content, bytes) and _is_ours(str(path))}


def write_back(files: Mapping[str, bytes], folder: Path, *, replaces: bool) -> RestoredFiles:
    """Write the files into the state folder. A draft stays if another text is there. Weights stay, too, unless `replaces` is set."""
    written: list[str] = []
    kept: list[str] = []
    for path, content in files.items():
        file = folder / path
        private_folder(file.parent)
        if file.is_symlink() or (
            file.exists() and file.read_bytes() != content and not (path == WEIGHTS_FILE and replaces)
        ):
            kept.append(path)
        elif not file.exists() or file.read_bytes() != content:
            _write(file, content)
            written.append(path)
    return RestoredFiles(written, kept)


def _write(file: Path, content: bytes) -> None:
    with open(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, FILE_MODE), "wb") as opened:  # noqa: PTH123 - a descriptor
        opened.write(content)


def _is_ours(path: str) -> bool:
    folder, _, name = path.rpartition("/")
    return path == WEIGHTS_FILE or (
        folder == DRAFTS and name not in ("", ".", "..") and "\\" not in name and "\0" not in name
    )
