"""System calls on the files of one directory: stage, exchange, publish, remove, flush.

A directory is opened once, without following any link, and everything in it is addressed relative to its descriptor. So if
somebody swaps a link or folder into the path, an act that has begun is not affected. Names beginning with `.forge-` are ours.

All of it blocks. Failures are the system's own OSError; `file_set.named_errors` turns them into sentences.
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
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple, Self

from knowledge.pages.vault import FILE_FLAGS, FOLDER_FLAGS, HAS_OPENAT, PART_BYTES

Step = Callable[[str], None]
"""Called with the name of each step right before it (`write`), and right after the important ones (`written`). Tests use it to
kill the process, or to save the page as an editor would, at an exact moment."""

TEMPORARY_PREFIX, TEMPORARY_SUFFIX = ".forge-", ".tmp"

_CREATE = os.O_WRONLY | os.O_CREAT | os.O_EXCL
for _flag in ("O_CLOEXEC", "O_BINARY", "O_NOFOLLOW"):  # which of them exist depends on the system
    _CREATE |= getattr(os, _flag, 0)
_PERMISSIONS = 0o7777

# On Linux RENAME_EXCHANGE and RENAME_NOREPLACE, on macOS RENAME_SWAP and RENAME_EXCL.
_SWAP, _NO_REPLACE = (2, 1) if sys.platform != "darwin" else (2, 4)
_UNSUPPORTED = frozenset({errno.EINVAL, errno.ENOSYS, errno.ENOTSUP, errno.EOPNOTSUPP})
# link(2) fails with EPERM where the file system has no hard links, and with EMLINK if the file has too many already.
_NO_HARD_LINKS = _UNSUPPORTED | {errno.EPERM, errno.EMLINK}
# Containers forbid calls that they do not know with EPERM; older kernels answer ENOSYS.
_NO_OPENAT2 = frozenset({errno.ENOSYS, errno.EPERM, errno.EINVAL, errno.EAGAIN, errno.E2BIG})
_OPENAT2 = 437  # the same number on all architectures that we know of
# RESOLVE_BENEATH, RESOLVE_NO_SYMLINKS and RESOLVE_NO_MAGICLINKS of openat2(2).
_BENEATH, _NO_LINKS, _NO_MAGIC_LINKS = 0x08, 0x04, 0x02
_RENAMEAT2 = {"x86_64": 316, "aarch64": 276}


def no_step(_step: str) -> None:
    """Do nothing at a step."""


def temporary_name(digest: str) -> str:
    """Return a new hidden name for a file whose own name has that digest."""
    return f"{TEMPORARY_PREFIX}{digest}{secrets.token_hex(6)}{TEMPORARY_SUFFIX}"


def is_temporary(name: str) -> bool:
    """Return whether a file of that name is one that we staged."""
    return name.startswith(TEMPORARY_PREFIX) and name.endswith(TEMPORARY_SUFFIX)


class FileAttributes(NamedTuple):
    """Owner and permissions (in `status`) and extended attributes of a file, for the file that replaces it."""

    status: os.stat_result
    extended: Mapping[str, bytes]


def extended_attributes(file: int) -> Mapping[str, bytes]:
    """Return the extended attributes of an open file, among them its access list; empty where the system has none."""
    found: dict[str, bytes] = {}
    if sys.platform == "linux":
        with contextlib.suppress(OSError):
            for name in os.listxattr(file):
                found[name] = os.getxattr(file, name)
    return found


class Folder:
    """A directory beneath the root, held open until it is closed."""

    def __init__(self, descriptor: int | None, where: str, step: Step) -> None:
        self._descriptor, self._where, self._step = descriptor, where, step

    @classmethod
    def open(cls, root: str, parts: Sequence[str], step: Step = no_step, *, create: bool = False) -> Self:
        """Return the directory that `parts` name below `root`, without following links; `create` makes missing ones."""
        step("open folder")
        # The same error that openat2 gives with RESOLVE_BENEATH.
        if ".." in parts:
            raise OSError(errno.EXDEV, os.strerror(errno.EXDEV), "/".join(parts))
        where = os.path.join(root, *parts)  # noqa: PTH118  hot, and handed to plain system calls
        if not HAS_OPENAT:
            if create:
                os.makedirs(where, exist_ok=True)  # noqa: PTH103  a plain call, like its neighbours
            return cls(None, where, step)
        try:
            return cls(_open_beneath(root, parts), where, step)
        except FileNotFoundError:
            if not create:
                raise
        return cls(_create_beneath(root, parts, step), where, step)

    def close(self) -> None:
        """Close the directory."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def open_file(self, name: str) -> int:
        """Return a descriptor to read `name`; raises ELOOP if it is a link."""
        self._step("read")
        return os.open(self._named(name), FILE_FLAGS, dir_fd=self._descriptor)

    def read(self, name: str) -> bytes:
        """Return the bytes of `name` as they are now; a write in progress may be in them in part."""
        file = self.open_file(name)
        try:
            return b"".join(iter(lambda: os.read(file, PART_BYTES), b""))
        finally:
            os.close(file)

    def status(self, name: str) -> os.stat_result | None:
        """Return the status of `name` without following a link; None if nothing is there."""
        try:
            return os.stat(self._named(name), dir_fd=self._descriptor, follow_symlinks=False)
        except FileNotFoundError:
            return None

    def attributes(self, name: str) -> FileAttributes:
        """Return the attributes of a file."""
        file = self.open_file(name)
        try:
            return FileAttributes(os.fstat(file), extended_attributes(file))
        finally:
            os.close(file)

    def may_write(self, name: str, status: os.stat_result) -> bool:
        """Return whether this process may write to the file; its permission bits count even for root."""
        return bool(status.st_mode & 0o222) and os.access(self._named(name), os.W_OK, dir_fd=self._descriptor)

    def stage(self, name: str, raw: bytes, like: FileAttributes | None, *, durable: bool = True) -> os.stat_result:
        """Create a file with these bytes and return its status; it gets the attributes of `like`. Usually durable on return."""
        self._step("create")
        # Never readable by more people than the page, not even for a moment.
        mode = 0o666 if like is None else stat.S_IMODE(like.status.st_mode) & 0o777
        file = os.open(self._named(name), _CREATE, mode, dir_fd=self._descriptor)
        try:
            left = memoryview(raw)
            while left:
                self._step("write")
                left = left[os.write(file, left[:PART_BYTES]) :]
            if like is not None:
                _set_attributes(file, like)
            if durable:
                # Without this a power cut after the exchange could leave the page empty: names reach the disk before bytes.
                self._step("fsync")
                os.fsync(file)
            status = os.fstat(file)
        finally:
            os.close(file)
        self._step("written")
        return status

    def exchange(self, staged: str, name: str) -> None:
        """Let the two files trade names atomically; both exist before and after.

        Raises:
            FileNotFoundError: one of them is not there.
        """
        self._step("exchange")
        if not self.swap_names(staged, name):
            self._exchange_by_link(staged, name)
        self._step("exchanged")

    def swap_names(self, one: str, other: str) -> bool:
        """Let two files trade names by one system call.

        Returns False and changes nothing if the file system has no such call.
        """
        try:
            self._rename(one, other, _SWAP)
        except OSError as error:
            if error.errno not in _UNSUPPORTED:
                raise
            return False
        return True

    def give_second_name(self, old: str, new: str) -> bool:
        """Give the file a second name.

        Returns False and changes nothing if the file system has no hard links.

        Raises:
            FileExistsError: the new name is taken.
        """
        try:
            self._hard_link(old, new)
        except OSError as error:
            if error.errno not in _NO_HARD_LINKS:
                raise
            return False
        return True

    def publish(self, staged: str, name: str) -> None:
        """Rename `staged` to `name` if that name is free.

        Raises:
            FileExistsError: it is taken.
        """
        self._step("exchange")
        try:
            self._rename(staged, name, _NO_REPLACE)
        except OSError as error:
            if error.errno not in _UNSUPPORTED:
                raise
            # `link` fails if the name is taken, which a plain rename would overwrite.
            self._link(staged, name)
            os.unlink(self._named(staged), dir_fd=self._descriptor)
        self._step("exchanged")

    def unlink(self, name: str) -> None:
        """Remove the file if it is there."""
        self._step("unlink")
        with contextlib.suppress(FileNotFoundError):
            os.unlink(self._named(name), dir_fd=self._descriptor)

    def sync(self) -> None:
        """Make the names in this directory durable: a rename is only on the disk once its directory is flushed."""
        self._step("sync folder")
        if self._descriptor is not None:
            os.fsync(self._descriptor)
        self._step("folder synced")

    def identity(self) -> tuple[int, int] | str:
        """Return a value that is equal for two openings of the same directory."""
        if self._descriptor is None:
            return self._where
        status = os.fstat(self._descriptor)
        return status.st_dev, status.st_ino

    def _named(self, name: str) -> str:
        return name if self._descriptor is not None else os.path.join(self._where, name)  # noqa: PTH118  a plain call

    def _rename(self, old: str, new: str, flag: int) -> None:
        if self._descriptor is None:
            raise OSError(errno.ENOSYS, os.strerror(errno.ENOSYS))
        _rename_flagged(self._descriptor, old, new, flag)

    def _exchange_by_link(self, staged: str, name: str) -> None:
        """Exchange without the system call (Windows, NFS and some other network file systems).

        The old file gets a second name, then the new one replaces it. If an editor saves the page right between the
        check and `replace`, its save is lost. No other server can save then, because it needs the page's lock, which
        all machines share if their state is in PostgreSQL.
        """
        aside = temporary_name("aside")
        linked = self._link(name, aside)
        try:
            # Between the second name and this look, an editor may have put another file there, which must not be replaced.
            now = self.status(name)
            if linked is not None and (now is None or now.st_ino != linked.st_ino):
                raise FileNotFoundError(errno.ENOENT, "replaced meanwhile", name)  # noqa: TRY301  cleaned up as any other
            os.replace(self._named(staged), self._named(name), src_dir_fd=self._descriptor, dst_dir_fd=self._descriptor)
        except BaseException:
            self.unlink(aside)
            raise
        os.rename(self._named(aside), self._named(staged), src_dir_fd=self._descriptor, dst_dir_fd=self._descriptor)

    def _link(self, old: str, new: str) -> os.stat_result | None:
        """Give the file a second name and return its status; None if it had to be copied, as FAT has no hard links."""
        if self.give_second_name(old, new):
            return self.status(new)
        self.stage(new, self.read(old), self.attributes(old))
        return None

    def _hard_link(self, old: str, new: str) -> None:
        if self._descriptor is None:
            os.link(self._named(old), self._named(new))
        else:
            os.link(old, new, src_dir_fd=self._descriptor, dst_dir_fd=self._descriptor, follow_symlinks=False)


def _open_beneath(root: str, parts: Sequence[str]) -> int:
    """Return a descriptor of the directory; no link is followed, not even one that is swapped in just now."""
    here = os.open(root, FOLDER_FLAGS & ~getattr(os, "O_NOFOLLOW", 0))
    if not parts:
        return here
    try:
        if (found := _openat2(here, "/".join(parts))) is not None:
            return found
        for part in parts:
            below = os.open(part, FOLDER_FLAGS, dir_fd=here)
            os.close(here)
            here = below
        return os.dup(here)  # a copy, because `here` is closed in any case
    finally:
        os.close(here)


def _create_beneath(root: str, parts: Sequence[str], step: Step) -> int:
    """Return a descriptor of the directory after creating missing folders, each of them durably."""
    here = _open_beneath(root, ())
    try:
        for part in parts:
            try:
                below = os.open(part, FOLDER_FLAGS, dir_fd=here)
            except FileNotFoundError:
                step("make folder")
                with contextlib.suppress(FileExistsError):  # another process may make it at the same moment
                    os.mkdir(part, dir_fd=here)
                os.fsync(here)
                below = os.open(part, FOLDER_FLAGS, dir_fd=here)
            os.close(here)
            here = below
        return os.dup(here)
    finally:
        os.close(here)


def _set_attributes(file: int, like: FileAttributes) -> None:
    """Give a file the owner, attributes and permissions of another, as far as this process may."""
    if not hasattr(os, "fchmod"):
        return
    old, new = like.status, os.fstat(file)
    if (new.st_uid, new.st_gid) != (old.st_uid, old.st_gid):
        with contextlib.suppress(PermissionError):
            os.fchown(file, old.st_uid, old.st_gid)
    if sys.platform == "linux":
        with contextlib.suppress(OSError):  # another file system, or attributes that only root may set
            for name, value in like.extended.items():
                os.setxattr(file, name, value)
    # Last, because changing the owner or an access list changes permissions.
    if stat.S_IMODE(os.fstat(file).st_mode) != stat.S_IMODE(old.st_mode):
        with contextlib.suppress(PermissionError):
            os.fchmod(file, old.st_mode & _PERMISSIONS)


class _OpenHow(ctypes.Structure):
    """Source: openat2(2), `struct open_how`."""

    _fields_ = (("flags", ctypes.c_uint64), ("mode", ctypes.c_uint64), ("resolve", ctypes.c_uint64))


_libc = None if sys.platform == "win32" else ctypes.CDLL(None, use_errno=True)


def _openat2(root: int, path: str) -> int | None:
    """Return a descriptor of the directory; None where the system has no such call or does not let us use it.

    Source: openat2(2).
    """
    if sys.platform != "linux" or _libc is None:
        return None
    how = _OpenHow(FOLDER_FLAGS, 0, _BENEATH | _NO_LINKS | _NO_MAGIC_LINKS)
    found: int = _libc.syscall(_OPENAT2, root, os.fsencode(path), ctypes.byref(how), ctypes.sizeof(how))
    if found >= 0:
        return found
    number = ctypes.get_errno()
    if number in _NO_OPENAT2:
        return None
    raise OSError(number, os.strerror(number), path)


def _rename_flagged(folder: int, old: str, new: str, flag: int) -> None:
    """Rename within `folder`. Source: renameat2(2) of Linux, renameatx_np(2) of macOS."""
    arguments = folder, os.fsencode(old), folder, os.fsencode(new), flag
    if _libc is None or sys.platform == "win32":
        result, failed = -1, errno.ENOSYS
    else:
        if sys.platform == "darwin":
            result = _libc.renameatx_np(*arguments)
        elif hasattr(_libc, "renameat2"):
            result = _libc.renameat2(*arguments)
        elif platform.machine() in _RENAMEAT2:  # an old C library has no wrapper for it
            result = _libc.syscall(_RENAMEAT2[platform.machine()], *arguments)
        else:
            raise OSError(errno.ENOSYS, os.strerror(errno.ENOSYS), new)
        failed = ctypes.get_errno()
    if result != 0:
        raise OSError(failed, os.strerror(failed), new)
