"""File exchange on this system, and on systems that can do less."""

from __future__ import annotations

import ctypes
import errno
import os
import stat
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from knowledge.writing.files import exchange
from knowledge.writing.files.exchange import Folder, is_temporary, temporary_name

pytestmark = pytest.mark.skipif(os.name == "nt", reason="directories are not held open there")

WAYS = ["the system's exchange", "hard links", "copies"]


@pytest.fixture(params=WAYS)
def folder(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Folder]:
    """Open a directory where the system can exchange, where it only has hard links, and where it has neither (FAT)."""

    def cannot(*_: object, **__: object) -> None:
        raise OSError(errno.EINVAL, "not here")

    if request.param != WAYS[0]:
        monkeypatch.setattr(exchange, "_rename_flagged", cannot)
    if request.param == WAYS[2]:
        monkeypatch.setattr(Folder, "_hard_link", cannot)
    with Folder.open(str(tmp_path), []) as opened:
        yield opened


def test_two_files_change_places(folder: Folder, tmp_path: Path) -> None:
    old = b"old" * 1_000_000  # a copy takes several reads
    (tmp_path / "a").write_bytes(old)
    folder.stage("t", b"new", None)
    folder.exchange("t", "a")
    assert {p.name: p.read_bytes() for p in tmp_path.iterdir()} == {"a": b"new", "t": old}


def test_an_exchange_with_nothing_says_so_and_leaves_the_staged_file(folder: Folder, tmp_path: Path) -> None:
    folder.stage("t", b"new", None)
    with pytest.raises(FileNotFoundError):
        folder.exchange("t", "a")
    assert {p.name: p.read_bytes() for p in tmp_path.iterdir()} == {"t": b"new"}


def test_a_file_gets_its_name_only_if_that_is_free(folder: Folder, tmp_path: Path) -> None:
    folder.stage("t", b"new", None)
    folder.stage("u", b"newer", None)
    folder.publish("t", "a")
    with pytest.raises(FileExistsError):
        folder.publish("u", "a")
    assert {p.name: p.read_bytes() for p in tmp_path.iterdir()} == {"a": b"new", "u": b"newer"}


def test_a_staged_file_takes_over_permissions_owner_and_attributes(folder: Folder, tmp_path: Path) -> None:
    old = tmp_path / "a"
    old.write_bytes(b"old")
    old.chmod(0o604)
    if os.geteuid() == 0:
        os.chown(old, 1234, 1235)
    attributes = _with_attribute(old)
    folder.stage("t", b"new", folder.attributes("a"))
    new = (tmp_path / "t").stat()
    assert stat.S_IMODE(new.st_mode) == 0o604
    assert (new.st_uid, new.st_gid) == (old.stat().st_uid, old.stat().st_gid)
    if sys.platform == "linux":
        assert {n: os.getxattr(tmp_path / "t", n) for n in os.listxattr(tmp_path / "t")} == attributes


def _with_attribute(file: Path) -> dict[str, bytes]:
    """Give the file an attribute if the file system has them, and return all it has."""
    if sys.platform != "linux":
        return {}
    try:
        os.setxattr(file, "user.colour", b"green")
    except OSError as error:
        assert error.errno == errno.ENOTSUP  # noqa: PT017  some file systems have none; nothing else may fail
    return {name: os.getxattr(file, name) for name in os.listxattr(file)}


def test_a_new_file_has_the_permissions_that_the_user_gives_new_files(folder: Folder, tmp_path: Path) -> None:
    mask = os.umask(0o027)
    try:
        folder.stage("t", b"new", None)
    finally:
        os.umask(mask)
    assert stat.S_IMODE((tmp_path / "t").stat().st_mode) == 0o640


def test_readers_never_find_a_page_missing_or_half_while_it_is_exchanged(tmp_path: Path) -> None:
    """Every file old or new and never torn, at any moment: only the system's own exchange can promise it."""
    versions = [b"a" * 100_000, b"b" * 90_000]
    (tmp_path / "page").write_bytes(versions[0])
    seen: set[bytes] = set()
    stop = threading.Event()

    def read() -> None:
        while not stop.is_set():
            seen.add((tmp_path / "page").read_bytes())

    reader = threading.Thread(target=read)
    reader.start()
    with Folder.open(str(tmp_path), []) as folder:
        for number in range(300):
            folder.stage("t", versions[(number + 1) % 2], None)
            folder.exchange("t", "page")
            folder.unlink("t")
    stop.set()
    reader.join()
    assert seen <= set(versions)


@pytest.mark.parametrize("by", ["openat2", "walking"])
@pytest.mark.parametrize("parts", [["link"], ["link", "deeper"], ["inside-link"], ["..", "outside"]])
def test_no_directory_is_reached_through_a_link_or_upwards(
    tmp_path: Path, parts: list[str], by: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if by == "walking":
        monkeypatch.setattr(exchange, "_openat2", lambda _root, _path: None)
    root, outside = tmp_path / "root", tmp_path / "outside"
    (outside / "deeper").mkdir(parents=True)
    (root / "real").mkdir(parents=True)
    (root / "link").symlink_to(outside)
    (root / "inside-link").symlink_to("real")
    with pytest.raises(OSError, match=r".*"):
        Folder.open(str(root), parts)
    with pytest.raises(OSError, match=r".*"):
        Folder.open(str(root), [*parts, "new"], create=True)
    assert sorted(p.name for p in outside.iterdir()) == ["deeper"]


def test_a_directory_that_is_moved_away_stays_the_one_that_was_opened(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    with Folder.open(str(tmp_path), ["a"]) as folder:
        (tmp_path / "a").rename(tmp_path / "b")
        (tmp_path / "a").mkdir()
        folder.stage("t", b"x", None)
    assert [p.name for p in (tmp_path / "b").iterdir()] == ["t"]
    assert list((tmp_path / "a").iterdir()) == []


def test_missing_directories_are_made_when_asked_for(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        Folder.open(str(tmp_path), ["a", "b"])
    with Folder.open(str(tmp_path), ["a", "b"], create=True) as folder:
        folder.stage("t", b"x", None)
    assert (tmp_path / "a/b/t").read_bytes() == b"x"


def test_a_path_the_kernel_refuses_is_walked_part_by_part(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Containers refuse unknown calls with EPERM; older kernels answer ENOSYS."""

    class Refusing:
        @staticmethod
        def syscall(*_: object) -> int:
            ctypes.set_errno(errno.EPERM)
            return -1

    (tmp_path / "a" / "b").mkdir(parents=True)
    monkeypatch.setattr(exchange, "_libc", Refusing())
    with Folder.open(str(tmp_path), ["a", "b"]) as folder:
        assert folder.status("nothing") is None


def test_opening_many_directories_leaves_no_descriptor_open(tmp_path: Path) -> None:
    before = _open_descriptors()
    for number in range(20):
        with Folder.open(str(tmp_path), ["a", str(number)], create=True) as folder:
            folder.stage("t", b"x", None)
        with pytest.raises(FileNotFoundError):
            Folder.open(str(tmp_path), ["nothing", "there"])
    assert _open_descriptors() == before


def _open_descriptors() -> int:
    return len(list(Path("/dev/fd").iterdir()))


def test_temporary_names_are_hidden_and_recognisable() -> None:
    name = temporary_name("0123abcd")
    assert name.startswith(".")
    assert is_temporary(name)
    assert name != temporary_name("0123abcd")
    assert not is_temporary(".forge-notes.md")
    assert not is_temporary("a.tmp")
