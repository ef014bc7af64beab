"""Checks whether other accounts could change or read a file that trust depends on. Reads owners and modes, changes nothing.

The rules are those of OpenSSH for its own files (StrictModes, `safe_path` in misc.c), with Debian's exception for a group whose
only member is the user. On Windows nothing is checked: modes mean nothing there, and an account's folders are private by default.
"""

from __future__ import annotations

import os
import shlex
import stat
import sys
from dataclasses import dataclass
from pathlib import Path

if sys.platform != "win32":
    import grp
    import pwd

MOST_LINKS = 40
"""The most links that are followed on one path, the same as on Linux."""


@dataclass(frozen=True, slots=True)
class Exposure:
    """A way for another account to access a file: `problem` is a clause about it, `mend` the command that prevents it."""

    problem: str
    mend: str

    def __str__(self) -> str:
        """Return both as one sentence."""
        return f"{self.problem}; to fix it: {self.mend}"


def others_could_replace(path: Path) -> Exposure | None:
    """Return how another account could replace the file at the absolute `path`; None if only this account and root could.

    Checks the file and every link and folder on the way to it, but no folder above the home folder: those belong to the
    administrator. A read-only file system is safe. If `path` is missing, the existing part of it is checked.
    """
    home = _home()
    current, left, links = Path(path.anchor), list(path.parts[1:]), 0
    # Walked by hand instead of `resolve()`, because every link and folder on the way must be checked.
    while True:
        step = (current.parent if left[0] == ".." else current / left[0]) if left else current
        # In a sticky folder, for example /tmp, nobody can replace another account's file, but anybody can create a missing one.
        entered = bool(left) and os.path.lexists(step)
        if not (home and current in home.parents) and (found := _writable(current, entered=entered)):
            return found
        if not entered:
            return None
        del left[0]
        if not step.is_symlink():
            current = step
            continue
        links += 1
        if links > MOST_LINKS:
            return Exposure(f"{path} leads through more than {MOST_LINKS} links", "name the file itself")
        # The owner of a link decides where it leads.
        if found := _anothers(step, step.lstat()):
            return found
        target = step.readlink()
        left = [*(target.parts[1:] if target.is_absolute() else target.parts), *left]
        current = Path(target.anchor) if target.is_absolute() else current


def others_could_write(path: Path, opened: int | None = None) -> Exposure | None:
    """Return how another account could change this file, or add to this folder, or None. Parent folders are not checked.

    Links are followed. If the descriptor `opened` is given, that file is checked, even if another one is at `path` now.
    """
    return _writable(path, opened)


def others_could_read(path: Path, opened: int | None = None) -> Exposure | None:
    """Return how another account could read a secret in this file or folder, or None.

    Stricter than for writing: no group may have any permission, even on a read-only mount. `path` and `opened` are as for
    `others_could_write`.
    """
    if not hasattr(os, "geteuid"):
        return None
    found = os.stat(path if opened is None else opened)  # noqa: PTH116 - a Path has no descriptor
    if (exposed := _anothers(path, found)) or not stat.S_IMODE(found.st_mode) & 0o077:
        return exposed
    verb, command = ("open", "chmod -R go=") if stat.S_ISDIR(found.st_mode) else ("read", "chmod 600")
    return Exposure(f"other accounts can {verb} {path}", f"{command} {shlex.quote(str(path))}")


def _writable(path: Path, opened: int | None = None, *, entered: bool = False) -> Exposure | None:
    """Return how another account could write to a file or change a folder; if `entered`, only whether it could replace files in it."""
    where = path if opened is None else opened
    if not hasattr(os, "geteuid") or os.statvfs(where).f_flag & os.ST_RDONLY:
        return None
    found = os.stat(where)  # noqa: PTH116 - as above
    if exposed := _anothers(path, found):
        return exposed
    if entered and found.st_mode & stat.S_ISVTX:
        return None
    if found.st_mode & stat.S_IWOTH:
        return Exposure(f"any account can write to {path}", f"chmod o-w {shlex.quote(str(path))}")
    if found.st_mode & stat.S_IWGRP and not _is_one_persons(where, found):
        problem = f"other accounts in group {_group(found)} can write to {path}"
        return Exposure(problem, f"chmod g-w {shlex.quote(str(path))}")
    return None


def _anothers(path: Path, found: os.stat_result) -> Exposure | None:
    # Root is no exposure: it can change any file anyway.
    if not hasattr(os, "geteuid") or found.st_uid in (os.geteuid(), 0):
        return None
    command = "chown -h" if stat.S_ISLNK(found.st_mode) else "chown"
    mend = f"{command} {os.geteuid()} {shlex.quote(str(path))}"
    return Exposure(
        f"{path} belongs to another account (user id {found.st_uid})", f"sudo {mend}" if os.geteuid() else mend
    )


def _group(found: os.stat_result) -> str:
    try:
        return grp.getgrgid(found.st_gid).gr_name
    except KeyError:
        return str(found.st_gid)


def _is_one_persons(where: Path | int, found: os.stat_result) -> bool:
    """Return whether the owner is the group's only member: many systems give each user such a group, with write access."""
    try:
        owner, group = pwd.getpwuid(found.st_uid), grp.getgrgid(found.st_gid)
    except KeyError:
        return False
    # Debian's rule: it is the user's primary group, has the user's name, and no other member.
    alone = group.gr_name == owner.pw_name and owner.pw_gid == group.gr_gid and set(group.gr_mem) <= {owner.pw_name}
    return alone and not _has_access_list(where)


def _has_access_list(where: Path | int) -> bool:
    """Return whether the file has an access list of further accounts; the group's bits are then the maximum for all of them."""
    if not hasattr(os, "getxattr"):
        return False
    try:
        return bool(os.getxattr(where, "system.posix_acl_access"))
    except OSError:
        return False


def _home() -> Path | None:
    """Return this account's home folder from the system's user database, because the variable HOME could be set by anyone."""
    if not hasattr(os, "geteuid"):
        return None
    try:
        return Path(pwd.getpwuid(os.geteuid()).pw_dir).resolve()
    except (KeyError, OSError, RuntimeError):
        return None
