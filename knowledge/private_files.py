"""Folders and files that are their owner's alone, whatever the umask says."""

from __future__ import annotations

import os
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
