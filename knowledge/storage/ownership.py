"""Who besides this account could change a file that decides something. Reads owners and modes, changes nothing.

The rules are those of OpenSSH for its own files (StrictModes, `safe_path` in misc.c), with Debian's exception for a group that is the
user's alone. On Windows nothing is checked: modes say nothing there, and the folders of an account are its own by default.
"""

from __future__ import annotations

import os
import stat
from pathlib import Path

MOST_LINKS = 40


def others_could_replace(path: Path) -> str | None:
    """Return why another account could put something else at the absolute `path`, or None if only this one and root could.

    Judges the file and every link and folder that leads to it, but no folder above the home folder: those are the administrator's.
    What lies on a file system that is mounted read-only nobody can change. A missing `path` is judged as far as it is there.
    """
    home = _home()
    current, left, links = Path(path.anchor), list(path.parts[1:]), 0
    while True:
        if (why := None if home and current in home.parents else others_could_write(current)) or not left:
            return why
        name = left.pop(0)
        step = current.parent if name == ".." else current / name
        if not os.path.lexists(step):
            return None
        if not step.is_symlink():
            current = step
            continue
        links += 1
        if links > MOST_LINKS:
            return f"{path} leads through more than {MOST_LINKS} links"
        if why := _anothers(step, step.lstat()):
            return why
        target = step.readlink()
        left = [*(target.parts[1:] if target.is_absolute() else target.parts), *left]
        current = Path(target.anchor) if target.is_absolute() else current


def others_could_write(path: Path) -> str | None:
    """Return why another account could change this file or folder itself, or None. A link is judged by what it points to."""
    if not hasattr(os, "geteuid") or os.statvfs(path).f_flag & os.ST_RDONLY:
        return None
    found = path.stat()
    if why := _anothers(path, found):
        return why
    if stat.S_ISDIR(found.st_mode) and found.st_mode & stat.S_ISVTX:
        return None  # in such a folder, for example /tmp, nobody can replace what is another's
    if found.st_mode & stat.S_IWOTH:
        return f"every account may write {path} (chmod o-w)"
    if found.st_mode & stat.S_IWGRP and not _is_one_persons(path, found):
        return f"other accounts of group {found.st_gid} may write {path} (chmod g-w)"
    return None


def _anothers(path: Path, found: os.stat_result) -> str | None:
    if not hasattr(os, "geteuid") or found.st_uid in (os.geteuid(), 0):
        return None
    return f"{path} belongs to another account (user id {found.st_uid}; chown it, or run as that account)"


def _is_one_persons(path: Path, found: os.stat_result) -> bool:
    """Return whether the owner is alone in the group: many systems give each user such a group, and it write access by default."""
    import grp
    import pwd

    try:
        owner, group = pwd.getpwuid(found.st_uid), grp.getgrgid(found.st_gid)
    except KeyError:
        return False
    alone = group.gr_name == owner.pw_name and owner.pw_gid == group.gr_gid and set(group.gr_mem) <= {owner.pw_name}
    return alone and not _has_access_list(path)


def _has_access_list(path: Path) -> bool:
    """Return whether a list of further accounts is attached: the group's bits then show the most that any of them may do."""
    if not hasattr(os, "getxattr"):
        return False
    try:
        return bool(os.getxattr(path, "system.posix_acl_access"))
    except OSError:
        return False


def _home() -> Path | None:
    """Return this account's home folder as the system knows it; a variable could be anybody's."""
    if not hasattr(os, "geteuid"):
        return None
    import pwd

    try:
        return Path(pwd.getpwuid(os.geteuid()).pw_dir).resolve()
    except (KeyError, OSError, RuntimeError):
        return None
