"""Where the databases of a knowledge base lie: outside it, because who may edit its files must not edit its trust."""

from __future__ import annotations

import hashlib
import re
from pathlib import Path

import platformdirs

from knowledge.errors import UnsafeStateDirectory

APPLICATION = "knowledge-forge"
READABLE_LENGTH = 40
HASH_DIGITS = 10


def state_dir_for(root: Path, override: Path | None) -> Path:
    """Return the folder for databases of the knowledge base at `root`; it exists, and only its owner may enter.

    It is `override`, or a folder of the platform's state directory that is named after `root`.

    Raises:
        UnsafeStateDirectory: it would lie inside the knowledge base, links followed, or is not a folder.
    """
    root = root.resolve()
    folder = (override.expanduser() if override else default_state_dir(root)).resolve()
    if folder.is_relative_to(root):
        raise UnsafeStateDirectory(
            str(folder), f"it lies inside the knowledge base {root}, where a model may edit files"
        )
    try:
        new = not folder.exists()
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        if new:
            folder.chmod(0o700)  # whatever the umask says
    except OSError as error:
        raise UnsafeStateDirectory(str(folder), f"it cannot be made: {error.strerror}") from error
    return folder


def default_state_dir(root: Path) -> Path:
    """Return where the state of the resolved `root` lies by default: readable, and different for every path."""
    readable = re.sub(r"[^\w.-]+", "-", root.name).strip("-.")[:READABLE_LENGTH] or "knowledge"
    digest = hashlib.blake2b(str(root).encode("utf-8", "surrogateescape")).hexdigest()[:HASH_DIGITS]
    return Path(platformdirs.user_state_dir(APPLICATION, appauthor=False)) / f"{readable}-{digest}"
