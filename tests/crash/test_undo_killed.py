"""An undo of what a host did on several pages is killed at every step; the next process finds all of it undone, or nothing."""

from __future__ import annotations

import os
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
WITHIN_S = 600

pytestmark = pytest.mark.skipif(os.name == "nt", reason="kills with a signal that Windows has not")


@pytest.mark.parametrize("stride", [10, pytest.param(1, marks=pytest.mark.slow)])
def test_killed_at_any_step_an_undo_is_complete_or_has_not_begun(stride: int, tmp_path: Path) -> None:
    (tmp_path / "kb").mkdir()
    command = [sys.executable, "-m", "tests.crash.undoer", str(tmp_path), str(stride)]
    ended = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=WITHIN_S, check=False)
    wrong = tmp_path / "wrong"
    assert ended.returncode == 0, (wrong.read_text() if wrong.exists() else "") + ended.stderr[-3000:]
    found = Counter(ended.stdout.splitlines())
    print(f"\n{found.total()} processes found: {dict(found)}")  # noqa: T201 - the histogram, with -s
    assert set(found) == {"undone", "as the host left it"}
