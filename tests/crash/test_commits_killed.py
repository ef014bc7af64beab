"""A server is killed at every step of a commit; the next one makes each commit once, and leaves no lock and a clean status."""

from __future__ import annotations

import os
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from tests.support.git.repositories import alone

ROOT = Path(__file__).parents[2]
WITHIN_S = 600

pytestmark = pytest.mark.skipif(os.name == "nt", reason="kills with a signal that Windows has not")


@pytest.mark.parametrize("stride", [6, pytest.param(1, marks=pytest.mark.slow)])
def test_killed_at_any_step_each_change_is_one_commit(
    stride: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    alone(monkeypatch, tmp_path)
    command = [sys.executable, "-m", "tests.crash.committer", str(tmp_path), str(stride)]
    ended = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=WITHIN_S, check=False)
    wrong = tmp_path / "wrong"
    assert ended.returncode == 0, (wrong.read_text() if wrong.exists() else "") + ended.stderr[-3000:]
    found = Counter(ended.stdout.splitlines())
    print(f"\n{found.total()} deaths left: {dict(found)}")  # noqa: T201 - the histogram, with -s
    assert found["not committed"]
    if stride == 1:
        assert set(found) == {"not committed", "not committed, locked", "committed"}
