"""Files beneath one root as the system sees them: directories held open, files staged, exchanged, set aside, made durable.

A directory is opened once, without following any link, and everything in it is named relative to it: what somebody swaps in
on the way there meanwhile changes nothing. Names beginning with `.forge-` are ours.

All of it blocks. What fails is an OSError as the system says it; files.py turns it into sentences.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import os
import platform
import secrets
import stat
import sys
from collections.abc import Callable, Sequence
from typing import Self

Step = Callable[[str], None]
"""Told the name of every step right before it is done (`write`) and, of those that count, right after (`written`)."""

TEMPORARY_PREFIX, TEMPORARY_SUFFIX = ".forge-", ".tmp"
PART_BYTES = 1 << 20

_HAS_DIRECTORIES = os.open in os.supports_dir_fd and hasattr(os, "O_NOFOLLOW")  # Windows has not
_COMMON = getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_BINARY", 0) | getattr(os, "O_NOFOLLOW", 0)
_FOLDER = os.O_RDONLY | getattr(os, "O_DIRECTORY", 0) | _COMMON
_READ = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | _COMMON  # a fifo must not make us wait
_CREATE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | _COMMON
_PERMISSIONS = 0o7777

_SWAP, _NO_REPLACE = (2, 1) if sys.platform != "darwin" else (2, 4)
_UNSUPPORTED = frozenset({errno.EINVAL, errno.ENOSYS, errno.ENOTSUP, errno.EOPNOTSUPP})
_NO_HARD_LINKS = _UNSUPPORTED | {errno.EPERM, errno.EMLINK}
_OPENAT2 = 437
_BENEATH, _NO_LINKS, _NO_MAGIC_LINKS = 0x08, 0x04, 0x02
_RENAMEAT2 = {"x86_64": 316, "aarch64": 276}


def nothing(_step: str) -> None:
    """Do nothing at a step."""


def temporary_name(digest: str) -> str:
    """Return a new hidden name for a file whose own name has that digest."""
    return f"{TEMPORARY_PREFIX}{digest}{secrets.token_hex(6)}{TEMPORARY_SUFFIX}"


def is_temporary(name: str) -> bool:
    """Return whether a file of that name is one that we staged."""
    return name.startswith(TEMPORARY_PREFIX) and name.endswith(TEMPORARY_SUFFIX)


class Folder:
    """A directory beneath the root, held open until it is closed."""

    def __init__(self, descriptor: int | None, where: str, step: Step) -> None:
        self._descriptor, self._where, self._step = descriptor, where, step

    @classmethod
    def open(cls, root: str, parts: Sequence[str], step: Step = nothing, *, create: bool = False) -> Self:
        """Return the directory that `parts` name below `root`, without following a link; if asked, made where it is missing."""
        step("open folder")
        if ".." in parts:
            raise OSError(errno.EXDEV, os.strerror(errno.EXDEV), "/".join(parts))
        where = os.path.join(root, *parts)  # noqa: PTH118  hot, and handed to plain system calls
        if not _HAS_DIRECTORIES:
            if create:
                os.makedirs(where, exist_ok=True)  # noqa: PTH103  likewise
            return cls(None, where, step)
        try:
            return cls(_open_beneath(root, parts), where, step)
        except FileNotFoundError:
            if not create:
                raise
        return cls(_made(root, parts, step), where, step)

    def close(self) -> None:
        """Let go of it."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def open_file(self, name: str) -> int:
        """Return a descriptor to read `name`, which is no link."""
        self._step("read")
        return os.open(self._named(name), _READ, dir_fd=self._descriptor)

    def status(self, name: str) -> os.stat_result | None:
        """Return what is at `name`, a link as a link; None if nothing is."""
        try:
            return os.stat(self._named(name), dir_fd=self._descriptor, follow_symlinks=False)
        except FileNotFoundError:
            return None

    def may_write(self, name: str) -> bool:
        """Return whether this process may write to the file there, by its permission bits even where we could override them."""
        status = self.status(name)
        if status is None:
            return True
        return bool(status.st_mode & 0o222) and os.access(self._named(name), os.W_OK, dir_fd=self._descriptor)

    def stage(self, name: str, raw: bytes, like: int | None) -> os.stat_result:
        """Put a new file there, on the disk when this returns; owner, permissions and attributes are those of `like`."""
        self._step("create")
        old = None if like is None else os.fstat(like)
        mode = 0o666 if old is None else stat.S_IMODE(old.st_mode) & 0o777
        file = os.open(self._named(name), _CREATE, mode, dir_fd=self._descriptor)
        try:
            self._write(file, raw)
            if like is not None and old is not None:
                _dress(file, like, old)
            self._step("fsync")
            os.fsync(file)
            status = os.fstat(file)
        finally:
            os.close(file)
        self._step("written")
        return status

    def exchange(self, staged: str, name: str) -> None:
        """Let the two files change places in one moment; both exist before and after.

        Raises:
            FileNotFoundError: one of them is not there.
        """
        self._step("exchange")
        try:
            self._rename(staged, name, _SWAP)
        except OSError as error:
            if error.errno not in _UNSUPPORTED:
                raise
            self._exchange_by_link(staged, name)
        self._step("exchanged")

    def publish(self, staged: str, name: str) -> None:
        """Give the file its name if nothing bears it.

        Raises:
            FileExistsError: something does.
        """
        self._step("exchange")
        try:
            self._rename(staged, name, _NO_REPLACE)
        except OSError as error:
            if error.errno not in _UNSUPPORTED:
                raise
            self._link(staged, name)
            os.unlink(self._named(staged), dir_fd=self._descriptor)
        self._step("exchanged")

    def unlink(self, name: str) -> None:
        """Remove the file if it is there."""
        self._step("unlink")
        with contextlib.suppress(FileNotFoundError):
            os.unlink(self._named(name), dir_fd=self._descriptor)

    def sync(self) -> None:
        """Make the names in this directory durable."""
        self._step("sync folder")
        if self._descriptor is not None:
            os.fsync(self._descriptor)
        self._step("folder synced")

    def identity(self) -> tuple[int, int] | str:
        """Return what tells this directory from another."""
        if self._descriptor is None:
            return self._where
        status = os.fstat(self._descriptor)
        return status.st_dev, status.st_ino

    def _write(self, file: int, raw: bytes) -> None:
        left = memoryview(raw)
        while left:
            self._step("write")
            left = left[os.write(file, left[:PART_BYTES]) :]

    def _named(self, name: str) -> str:
        return name if self._descriptor is not None else os.path.join(self._where, name)  # noqa: PTH118  a plain call

    def _rename(self, old: str, new: str, flag: int) -> None:
        if self._descriptor is None:
            raise OSError(errno.ENOSYS, os.strerror(errno.ENOSYS))
        _rename_flagged(self._descriptor, old, new, flag)

    def _exchange_by_link(self, staged: str, name: str) -> None:
        """Exchange where the system cannot: between two of its steps a save of somebody who takes no lock could go missing."""
        aside = temporary_name("aside")
        seen = self._link(name, aside)
        try:
            now = self.status(name)
            if seen is not None and (now is None or now.st_ino != seen.st_ino):
                raise FileNotFoundError(errno.ENOENT, "replaced meanwhile", name)  # noqa: TRY301  cleaned up as any other
            os.replace(self._named(staged), self._named(name), src_dir_fd=self._descriptor, dst_dir_fd=self._descriptor)
        except BaseException:
            self.unlink(aside)
            raise
        os.rename(self._named(aside), self._named(staged), src_dir_fd=self._descriptor, dst_dir_fd=self._descriptor)

    def _link(self, old: str, new: str) -> os.stat_result | None:
        """Let `new` name the same file and return what it is; None if it had to be copied."""
        try:
            self._hard_link(old, new)
        except OSError as error:
            if error.errno not in _NO_HARD_LINKS:
                raise
            self._copy(old, new)
            return None
        return self.status(new)

    def _hard_link(self, old: str, new: str) -> None:
        if self._descriptor is None:
            os.link(self._named(old), self._named(new))
        else:
            os.link(old, new, src_dir_fd=self._descriptor, dst_dir_fd=self._descriptor, follow_symlinks=False)

    def _copy(self, old: str, new: str) -> None:
        """Copy where there are no hard links (FAT)."""
        source = self.open_file(old)
        try:
            self.stage(new, read_all(source), source)
        finally:
            os.close(source)


def read_all(descriptor: int) -> bytes:
    """Return everything that is in an open file now."""
    os.lseek(descriptor, 0, os.SEEK_SET)
    parts = []
    while part := os.read(descriptor, PART_BYTES):
        parts.append(part)
    return b"".join(parts)


def _open_beneath(root: str, parts: Sequence[str]) -> int:
    """Return a descriptor of the directory; no link is followed, not even one that is swapped in just now."""
    here = os.open(root, _FOLDER & ~getattr(os, "O_NOFOLLOW", 0))
    try:
        if not parts:
            return os.dup(here)
        found = _openat2(here, "/".join(parts))
        return _walk(here, parts) if found is None else found
    finally:
        os.close(here)


def _walk(start: int, parts: Sequence[str]) -> int:
    here = os.dup(start)
    for part in parts:
        try:
            below = os.open(part, _FOLDER, dir_fd=here)
        finally:
            os.close(here)
        here = below
    return here


def _made(root: str, parts: Sequence[str], step: Step) -> int:
    """Return a descriptor of the directory after making what is missing; what was made is durable."""
    here = _open_beneath(root, ())
    for part in parts:
        try:
            below = _below(here, part, step)
        finally:
            os.close(here)
        here = below
    return here


def _below(here: int, part: str, step: Step) -> int:
    with contextlib.suppress(FileNotFoundError):
        return os.open(part, _FOLDER, dir_fd=here)
    step("make folder")
    with contextlib.suppress(FileExistsError):
        os.mkdir(part, dir_fd=here)
    os.fsync(here)
    return os.open(part, _FOLDER, dir_fd=here)


def _dress(file: int, like: int, old: os.stat_result) -> None:
    """Give a file the owner, attributes and permissions of another, as far as we may."""
    if not hasattr(os, "fchmod"):
        return
    new = os.fstat(file)
    if (new.st_uid, new.st_gid) != (old.st_uid, old.st_gid):
        with contextlib.suppress(PermissionError):
            os.fchown(file, old.st_uid, old.st_gid)
    if sys.platform == "linux":
        with contextlib.suppress(OSError):
            for name in os.listxattr(like):
                os.setxattr(file, name, os.getxattr(like, name))
    # Last: changing the owner or an access list changes permissions.
    if stat.S_IMODE(os.fstat(file).st_mode) != stat.S_IMODE(old.st_mode):
        with contextlib.suppress(PermissionError):
            os.fchmod(file, old.st_mode & _PERMISSIONS)


class _HowToOpen(ctypes.Structure):
    """Source: openat2(2), `struct open_how`."""

    _fields_ = (("flags", ctypes.c_uint64), ("mode", ctypes.c_uint64), ("resolve", ctypes.c_uint64))


_libc = None if sys.platform == "win32" else ctypes.CDLL(None, use_errno=True)


def _openat2(root: int, path: str) -> int | None:
    """Return a descriptor of the directory; None where the system has no such call or does not let us use it.

    Source: openat2(2); its number is the same on all architectures that we know of.
    """
    if sys.platform != "linux" or _libc is None:
        return None
    how = _HowToOpen(_FOLDER, 0, _BENEATH | _NO_LINKS | _NO_MAGIC_LINKS)
    found: int = _libc.syscall(_OPENAT2, root, os.fsencode(path), ctypes.byref(how), ctypes.sizeof(how))
    if found >= 0:
        return found
    number = ctypes.get_errno()
    if number in {errno.ENOSYS, errno.EPERM, errno.EINVAL, errno.EAGAIN, errno.E2BIG}:
        return None
    raise OSError(number, os.strerror(number), path)


def _rename_flagged(folder: int, old: str, new: str, flag: int) -> None:
    """Rename within `folder`. Source: renameat2(2) of Linux, renameatx_np(2) of macOS."""
    names = os.fsencode(old), os.fsencode(new)
    if _libc is None or sys.platform == "win32":
        failed = errno.ENOSYS
    elif sys.platform == "darwin":
        failed = _called(_libc.renameatx_np, folder, names[0], folder, names[1], flag)
    elif hasattr(_libc, "renameat2"):
        failed = _called(_libc.renameat2, folder, names[0], folder, names[1], flag)
    elif platform.machine() in _RENAMEAT2:
        failed = _called(_libc.syscall, _RENAMEAT2[platform.machine()], folder, names[0], folder, names[1], flag)
    else:
        failed = errno.ENOSYS
    if failed:
        raise OSError(failed, os.strerror(failed), new)


def _called(function: Callable[..., int], *args: object) -> int:
    """Return the number of the error that the call met; 0 if none."""
    return 0 if function(*args) == 0 else ctypes.get_errno()
