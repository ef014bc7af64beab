"""The properties that a folder's file system must keep before several machines may write to it."""

from __future__ import annotations

import errno
import os
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from knowledge.writing.files.exchange import Folder
from knowledge.writing.files.shared_folder import fault_of

pytestmark = pytest.mark.skipif(os.name == "nt", reason="directories are not held open there")


def failing(number: int) -> Callable[..., Any]:
    """Return a call that fails as a file system does."""

    def fail(*_: object, **__: object) -> Any:
        raise OSError(number, os.strerror(number))

    return fail


def lacking(**calls: Callable[..., Any]) -> Callable[[str, Sequence[str]], Folder]:
    """Return how folders are opened on a file system on which these calls are different."""
    kind: type[Folder] = type("LackingFolder", (Folder,), dict(calls))
    return kind.open


NO_EXCHANGE = {"_rename": failing(errno.EINVAL)}
"""As NFS has it: no exchange, but hard links."""


def test_a_local_folder_has_all_properties_and_nothing_is_left_in_it(tmp_path: Path) -> None:
    (tmp_path / "page.md").write_text("# Page\n", encoding="utf-8")
    assert fault_of(tmp_path) is None
    assert [file.name for file in tmp_path.iterdir()] == ["page.md"]


def test_hard_links_are_enough_without_an_exchange(tmp_path: Path) -> None:
    """NFS refuses RENAME_EXCHANGE and RENAME_NOREPLACE with EINVAL."""
    assert fault_of(tmp_path, open_folder=lacking(**NO_EXCHANGE)) is None


def _renumbered(folder: Folder, _old: str, new: str) -> bool:
    """Give a second name as file systems do that copy instead."""
    folder.stage(new, b"", None)
    return True


def _published(folder: Folder, staged: str, name: str) -> None:
    """Rename over a name that is taken."""
    folder._rename(staged, name, 0)


@pytest.mark.parametrize(
    ("calls", "says"),
    [
        (NO_EXCHANGE | {"_hard_link": failing(errno.EPERM)}, "can't exchange their names"),
        (NO_EXCHANGE | {"give_second_name": _renumbered}, "can't exchange their names"),
        ({"sync": failing(errno.EINVAL)}, "can't be flushed"),
        ({"swap_names": lambda *_: True}, "wrong bytes"),
        ({"publish": _published}, "renamed over another"),
        ({"exchange": failing(errno.EIO), "swap_names": lambda *_: False}, "can't be written: Input/output error"),
    ],
)
def test_a_missing_property_is_named(tmp_path: Path, calls: dict[str, Callable[..., Any]], says: str) -> None:
    fault = fault_of(tmp_path, open_folder=lacking(**calls))
    assert fault is not None
    assert says in fault.reason
    assert fault.mend
    assert not list(tmp_path.iterdir())


def test_a_file_server_with_another_time_is_named(tmp_path: Path) -> None:
    fault = fault_of(tmp_path, now=lambda: time.time() + 40)
    assert fault is not None
    assert "seconds away from this machine's clock" in fault.reason
    assert fault_of(tmp_path, now=lambda: time.time() - 40) is not None


@pytest.mark.parametrize("number", [errno.EROFS, errno.EACCES])
def test_a_folder_that_nobody_here_may_write_to_needs_no_property(
    tmp_path: Path, number: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Path, "mkdir", failing(number))
    assert fault_of(tmp_path) is None


def test_folders_that_a_killed_process_left_are_removed(tmp_path: Path) -> None:
    left = tmp_path / ".forge-try-0123.tmp"
    left.mkdir()
    (left / "old").write_bytes(b"old")
    os.utime(left, (1, 1))
    fresh = tmp_path / ".forge-try-4567.tmp"
    fresh.mkdir()
    assert fault_of(tmp_path) is None
    assert [file.name for file in tmp_path.iterdir()] == [fresh.name]
