"""Creates folders and files that only their owner can read, regardless of the umask."""

from __future__ import annotations

import os
from pathlib import Path

FOLDER_MODE, FILE_MODE = 0o700, 0o600


def private_folder(folder: Path) -> None:
    """Create the folder and those above it, each private to its owner; existing ones stay as they are.

    `mkdir(parents=True)` applies its mode only to the last folder, and anyone who may write to one above could replace it.

    Raises:
        OSError: it can't be made, or something else is there.
    """
    missing = [above for above in (folder, *folder.parents) if not above.exists()]
    for each in reversed(missing):
        try:
            each.mkdir(mode=FOLDER_MODE)
            each.chmod(FOLDER_MODE)
        except FileExistsError:  # another process was faster, and its folder is as private as ours
            continue
    folder.mkdir(mode=FOLDER_MODE, exist_ok=True)  # raises if a file is there, or a link to nothing


def write_private(file: Path, text: str) -> None:
    """Write `text` to a file that nobody else can read, not even while it is written."""
    with open(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, FILE_MODE), "w", encoding="utf-8") as opened:  # noqa: PTH123 - a descriptor
        opened.write(text)
