"""A small file in each state folder that says whose state it is: the path of the knowledge base, and its folder's number on disk."""

from __future__ import annotations

import json
import os
import secrets
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from knowledge.private_files import write_private

RECORD = "knowledge-base.json"
DATABASES = ("state.db", "index.db")
LONGEST_RECORD = 20_000


@dataclass(frozen=True, slots=True)
class FolderRecord:
    """The knowledge base that a state folder belongs to.

    `device` and `inode` are the same for a folder that is renamed or moved within a file system, and differ for a copy.
    `schema` is the default schema in PostgreSQL if the name does not follow from `root`, because the folder was moved.
    """

    root: str
    device: int
    inode: int
    schema: str | None = None

    @property
    def path(self) -> Path:
        """The path of the knowledge base."""
        return Path(self.root)

    def is_folder(self, path: Path) -> bool:
        """Return whether the folder at `path` is that folder on disk."""
        try:
            found = path.stat()
        except OSError:
            return False
        return (found.st_dev, found.st_ino) == (self.device, self.inode)


def is_decided(folder: Path) -> bool:
    """Return whether the state folder is somebody's: it has a record or a database."""
    return any((folder / name).exists() for name in (RECORD, *DATABASES))


def read_record(folder: Path) -> FolderRecord | None:
    """Return the record in the state folder; None if there is none that can be read."""
    try:
        with (folder / RECORD).open("rb") as file:
            fields = json.loads(file.read(LONGEST_RECORD))
        record = FolderRecord(**fields)
    except (OSError, ValueError, TypeError):
        return None
    texts = isinstance(record.root, str) and isinstance(record.schema, str | None)
    return record if texts and type(record.device) is type(record.inode) is int else None


def record_folder(folder: Path, root: Path) -> None:
    """Record that the state folder belongs to the knowledge base at the resolved `root`, if it can be written."""
    with suppress(OSError):
        found, known = root.stat(), read_record(folder)
        # A device and inode recognise a knowledge base that was renamed.
        record = FolderRecord(str(root), found.st_dev, found.st_ino, known.schema if known else None)
        if record != known:
            write_record(folder, record)


def write_record(folder: Path, record: FolderRecord) -> None:
    """Replace the record. A reader finds the old one or the new one."""
    part = folder / f".{RECORD}.{secrets.token_hex(4)}"
    try:
        # ASCII: a path need not be UTF-8, and JSON escapes what is not.
        write_private(part, json.dumps(asdict(record)))
        part.replace(folder / RECORD)
    finally:
        part.unlink(missing_ok=True)


def with_schema(record: FolderRecord, schema: str) -> FolderRecord:
    """Return the record with `schema` as its default schema, unless it names one already: a moved folder keeps its schema."""
    return replace(record, schema=record.schema or schema)


def is_gone(path: Path) -> bool:
    """Return whether nothing is at `path`."""
    return not os.path.lexists(path)
