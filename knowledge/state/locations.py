"""Locates the databases of a knowledge base: outside it, because a model that may edit its files must not edit its own trust."""

from __future__ import annotations

import hashlib
import os
import re
import secrets
import socket
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import platformdirs

from knowledge.errors import NoUserFolder, UnsafeStateDirectory
from knowledge.private_files import private_folder, write_private
from knowledge.state.ownership import others_could_write
from knowledge.state.sqlite.process_lock import exclusively

APPLICATION = "knowledge-forge"
# With prefix and hash, the name of a schema stays within PostgreSQL's 63 bytes.
READABLE_LENGTH = 40
HASH_DIGITS = 10
DATABASES = "*.db*"
"""The files in a state folder whose owner and mode are checked."""
DRAFTS_FOLDER = "drafts"
"""The folder in a state folder with the texts of edits that were not written."""
INDEXING_LEASE = "indexer"
"""The lease on the index of a knowledge base that keeps its state in a file beside it."""


def state_dir_for(root: Path, override: Path | None) -> Path:
    """Return the state folder of the knowledge base at `root`; it exists, and only its owner may enter.

    It is `override`, or a folder in the platform's state directory that is named after `root`.

    Raises:
        UnsafeStateDirectory: it would be inside the knowledge base (links are followed), or it is not a folder. Or
            another account owns it or a database in it, or may write to one of these, and so could have decided who is
            trusted.
    """
    root = root.resolve()
    folder = (override.expanduser() if override else default_state_dir(root)).resolve()
    if folder.is_relative_to(root):
        raise UnsafeStateDirectory(
            str(folder), f"it lies inside the knowledge base {root}, where a model may edit files"
        )
    try:
        private_folder(folder)
    except OSError as error:
        raise UnsafeStateDirectory(str(folder), f"it cannot be made: {error.strerror}") from error
    for believed in (folder, *folder.glob(DATABASES)):
        with suppress(FileNotFoundError):  # a journal that another process has removed since
            if exposed := others_could_write(believed):
                why = f"{exposed.problem}, so someone else could have decided who is trusted"
                raise UnsafeStateDirectory(str(folder), why, exposed.mend)
    return folder


def user_folder(find: Callable[..., str], mend: str) -> Path:
    """Return this program's folder for this account; `find` is the platformdirs function that names it.

    Raises:
        NoUserFolder: there is no such folder, or a variable names a relative one, which would depend on the working directory.
    """
    try:
        # Without False, the author on Windows is the application again: `knowledge-forge\knowledge-forge`.
        folder = Path(find(APPLICATION, appauthor=False))
    except RuntimeError:
        raise NoUserFolder(mend) from None
    if not folder.is_absolute():
        raise NoUserFolder(mend)
    return folder


def default_schema(root: Path) -> str:
    """Return the default name of the PostgreSQL schema of the knowledge base at `root`.

    Like the name of the state folder, it has the name of `root` and a hash of its path.
    """
    root = root.resolve()
    readable = re.sub(r"[^a-z0-9]+", "_", root.name.lower()).strip("_")[:READABLE_LENGTH] or "knowledge"
    return f"forge_{readable}_{_digest(root)}"


def indexing_lease(folder: Path) -> str:
    """Return the name of the lease on the index in `folder`, where many machines share one state database.

    The name contains a token of the folder, because two machines may have the same name. It also contains the machine's
    name, because a folder may be copied with its token.
    """
    return f"{INDEXING_LEASE}:{socket.gethostname()}:{_folder_id(folder)}"


def server_index_name(folder: Path) -> str:
    """Return the name of the index of the store in `folder` on a search server that many knowledge bases share.

    The machine's name is not part of it: a restarted container must find its index.
    """
    readable = re.sub(r"[^a-z0-9]+", "-", folder.name.lower()).strip("-")[:READABLE_LENGTH] or "knowledge"
    return f"forge-{readable}-{_folder_id(folder)}"


def _folder_id(folder: Path) -> str:
    """Return an id of this folder: a hash of a token in it and of its path."""
    token = folder / "place"
    try:
        with exclusively(folder / "place.lock"):
            if not token.exists():
                write_private(token, secrets.token_hex(8))
            words = token.read_bytes()
    except OSError as error:
        raise UnsafeStateDirectory(str(folder), f"it cannot be written to: {error.strerror}") from error
    return hashlib.blake2b(words + os.fsencode(folder)).hexdigest()[:HASH_DIGITS]


def default_state_dir(root: Path) -> Path:
    """Return the default state folder of the resolved `root`: its name is readable, and different for every path."""
    readable = re.sub(r"[^\w.-]+", "-", root.name).strip("-.")[:READABLE_LENGTH] or "knowledge"
    return user_folder(platformdirs.user_state_dir, "name a directory with --state-dir") / f"{readable}-{_digest(root)}"


def is_default(folder: Path, root: Path) -> bool:
    """Return whether the resolved `folder` is the default state folder of `root`, however it was chosen."""
    try:
        return folder == default_state_dir(root.resolve()).resolve()
    except NoUserFolder:
        return False


def _digest(root: Path) -> str:
    # Names of folders need not be UTF-8.
    return hashlib.blake2b(str(root).encode("utf-8", "surrogateescape")).hexdigest()[:HASH_DIGITS]
