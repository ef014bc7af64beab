"""What a new file takes over from the page that it replaces."""

from __future__ import annotations

import errno
import os
import stat
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from knowledge.pages.vault import Vault
from knowledge.writing.files.file_set import FileSet
from knowledge.writing.files.swap import StagedChange, Swap

pytestmark = pytest.mark.skipif(os.name == "nt", reason="directories are not held open there")

PAGE, OLD, NEW = "a.md", b"# A\n", b"# A\n\nNew.\n"


def exchanged(root: Path, meanwhile: Callable[[Path], None]) -> list[str]:
    """Exchange the page after it was read and `meanwhile` was done to it; return the steps taken."""
    steps: list[str] = []
    files = FileSet(Vault.open(root), step=steps.append)
    change = StagedChange(PAGE, files.read(PAGE), NEW, files.staged_name(PAGE))
    meanwhile(root / PAGE)
    steps.clear()
    with Swap(files, [change]) as swap:
        assert swap.make() is None
    assert (root / PAGE).read_bytes() == NEW
    return steps


def test_a_page_that_nobody_touched_is_not_opened_again_for_its_permissions(tmp_path: Path) -> None:
    (tmp_path / PAGE).write_bytes(OLD)
    (tmp_path / PAGE).chmod(0o640)
    steps = exchanged(tmp_path, lambda _: None)
    assert stat.S_IMODE((tmp_path / PAGE).stat().st_mode) == 0o640
    assert "read" not in steps[: steps.index("create")]


def test_permissions_that_a_person_changes_after_the_page_was_read_stay(tmp_path: Path) -> None:
    """A page made private during a merge is not public afterwards."""
    (tmp_path / PAGE).write_bytes(OLD)
    exchanged(tmp_path, lambda page: page.chmod(0o600))
    assert stat.S_IMODE((tmp_path / PAGE).stat().st_mode) == 0o600


@pytest.mark.skipif(sys.platform != "linux", reason="Python reads extended attributes on Linux only")
@pytest.mark.parametrize("when", ["before", "after"])
def test_extended_attributes_stay_whether_they_were_set_before_or_after_the_page_was_read(
    tmp_path: Path, when: str
) -> None:
    def label(page: Path) -> None:
        os.setxattr(page, "user.colour", b"green")

    page = tmp_path / PAGE
    page.write_bytes(OLD)
    try:
        label(page)
        os.removexattr(page, "user.colour")
    except OSError as error:
        assert error.errno == errno.ENOTSUP  # noqa: PT017  nothing else may fail
        pytest.skip("this file system has none")
    if when == "before":
        label(page)
    exchanged(tmp_path, label if when == "after" else lambda _: None)
    assert os.getxattr(page, "user.colour") == b"green"
