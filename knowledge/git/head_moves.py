"""Notices that Git has moved HEAD (pull, switch, reset, stash), so that changes of pages are brought on record soon.

Only small files are read and no program is run, because this is asked often. The last state that was seen is kept in a file of the
state directory: a move is noticed by whichever process looks first, also if none ran when it happened.
"""

from __future__ import annotations

import hashlib
from contextlib import suppress
from pathlib import Path

LONGEST_NAME = 4_096
"""The most bytes that are read of a file that holds the name of a ref."""


class HeadMoves:
    """Compares HEAD with the state that `keep` was last given. Its methods block for a moment."""

    def __init__(self, root: Path, kept: Path) -> None:
        self._root, self._kept = root, kept

    def stamp(self) -> str:
        """Return a text that changes whenever HEAD or the stash does, "" outside a checkout."""
        git_dir = self._git_dir()
        if git_dir is None:
            return ""
        head = _text(git_dir / "HEAD")
        common = git_dir / (_text(git_dir / "commondir") or ".")
        ref = common / head.removeprefix("ref: ") if head.startswith("ref: refs/") and ".." not in head else common
        facts = [
            head,
            _text(ref) if ref != common else "",
            *(
                _status(file)
                for file in (git_dir / "logs/HEAD", common / "refs/stash", common / "packed-refs", common / "reftable")
            ),
        ]
        return hashlib.sha256("\n".join(facts).encode("utf-8", "replace")).hexdigest()

    def moved(self) -> str:
        """Return the stamp if it is not the one that was kept, "" if it is."""
        stamp = self.stamp()
        return stamp if stamp != self.kept() else ""

    def kept(self) -> str:
        """Return the stamp that was kept last, "" if there is none."""
        return _text(self._kept)

    def keep(self, stamp: str) -> None:
        """Keep the stamp, once everything that changed until then is on record.

        If the stamp can't be written, the same move is noticed again.
        """
        with suppress(OSError):
            self._kept.write_text(stamp, encoding="utf-8")

    def _git_dir(self) -> Path | None:
        for folder in (self._root, *self._root.parents):
            place = folder / ".git"
            if place.is_dir():
                return place
            # In a worktree or a submodule, a file names the folder.
            if (named := _text(place)).startswith("gitdir: "):
                return folder / named.removeprefix("gitdir: ")
        return None


def _text(file: Path) -> str:
    try:
        with file.open("rb") as opened:
            return opened.read(LONGEST_NAME).decode("utf-8", "replace").strip()
    except OSError:
        return ""


def _status(file: Path) -> str:
    try:
        found = file.stat()
    except OSError:
        return ""
    return f"{found.st_mtime_ns} {found.st_size} {found.st_ino}"
