"""Folders and files that are their owner's alone, whatever the umask says."""

from __future__ import annotations

import os
import stat
from pathlib import Path

FOLDER_MODE, FILE_MODE = 0o700, 0o600


def private_folder(folder: Path) -> None:
    """Make sure there is a folder. Every one that is made on the way is its owner's alone; one that is there stays as it is.

    `mkdir(parents=True)` gives its mode to the last one only: others who may write to one above could put their own in its place.

    Raises:
        OSError: it cannot be made, or something else is there.
    """
    missing = [above for above in (folder, *folder.parents) if not above.exists()]
    for each in reversed(missing):
        try:
            each.mkdir(mode=FOLDER_MODE)
            each.chmod(FOLDER_MODE)
        except FileExistsError:  # another process was quicker, and its folder is as private as ours
            continue
    folder.mkdir(mode=FOLDER_MODE, exist_ok=True)  # which says what is wrong with a file, or a link to nothing


def write_private(file: Path, text: str) -> None:
    """Write `text` to a file that nobody else may read, also while it is written."""
    with open(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, FILE_MODE), "w", encoding="utf-8") as opened:  # noqa: PTH123 - a descriptor
        opened.write(text)


def open_to_others(folder: Path) -> bool:
    """Return whether others of this machine may enter the folder or list it. On Windows that cannot be told by its mode."""
    return os.name != "nt" and bool(stat.S_IMODE(folder.stat().st_mode) & 0o077)


def replaceable_by(folder: Path) -> list[Path]:
    """Return the folders above, nearest first, where others may put something else in its place (not if sticky, as `/tmp`)."""
    modes = {above: above.stat().st_mode for above in folder.parents} if os.name != "nt" else {}
    return [above for above, mode in modes.items() if mode & 0o022 and not mode & stat.S_ISVTX]
