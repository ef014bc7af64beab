"""Gives a knowledge base the state that it had at its old path, or an empty one, as a person decided."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path

from knowledge.errors import MoveRefused
from knowledge.private_files import private_folder
from knowledge.state.locations import default_schema, default_state_dir
from knowledge.state.moved_folder.record import (
    RECORD,
    FolderRecord,
    is_decided,
    read_record,
    record_folder,
    with_schema,
    write_record,
)


def former_state_in(folder: Path, root: Path) -> FolderRecord:
    """Return the record in `folder`, the state folder that the knowledge base at the resolved `root` should take over.

    Raises:
        MoveRefused: the folder has no record, is the state of `root` already, or belongs to another knowledge base that
            still exists.
    """
    record = read_record(folder)
    if record is None:
        raise MoveRefused(
            f"{folder} has no {RECORD}, so nobody knows whose state it is; to use it, name it with --state-dir in each host's entry"
        )
    if folder == default_state_dir(root).resolve():
        raise MoveRefused(f"{folder} is the state of {root} already")
    if record.path != root and record.path.exists() and not record.is_folder(root):
        raise MoveRefused(
            f"{folder} is the state of {record.root}, which still exists; to copy a state, use `knowledge-forge state backup` there "
            "and `state restore` here"
        )
    return record


def adopt(folder: Path, record: FolderRecord, root: Path, *, at: datetime) -> tuple[Path, Path | None]:
    """Make `folder` the default state folder of `root`, and return its new path.

    The second path is that of the state that was there before and was set aside; None if there was none.

    Every step is a rename or the exchange of a file. After an interruption, the same call finishes the work.
    """
    target = default_state_dir(root).resolve()
    # First, because the name of the schema is made from the old path.
    write_record(folder, with_schema(record, default_schema(record.path)))
    aside = None
    if is_decided(target):
        aside = target.with_name(f"{target.name}.set-aside-{at:%Y%m%dT%H%M%SZ}")
        target.rename(aside)
        # Without a record it is never taken for the state of a folder that was moved.
        (aside / RECORD).unlink(missing_ok=True)
    elif target.exists():
        target.rmdir()
    folder.rename(target)
    record_folder(target, root)
    return target, aside


def begin_new(root: Path) -> Path:
    """Decide that the knowledge base at the resolved `root` begins with an empty state, and return its folder.

    Raises:
        MoveRefused: it has one already.
    """
    folder = default_state_dir(root).resolve()
    if is_decided(folder):
        raise MoveRefused(f"{root} has a state already, in {folder}")
    private_folder(folder)
    record_folder(folder, root)
    return folder
