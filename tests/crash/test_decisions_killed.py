"""A process dies between a person's approval and its effect: the act is done once, or still waits, and is never lost.

`FORGE_TEST_KILLS` sets how many kills. With -s it prints how far the decisions were.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
FEW, MANY = 2, max(200, int(os.environ.get("FORGE_TEST_KILLS", "200")))
WITHIN_S = 900

pytestmark = pytest.mark.skipif(os.name == "nt", reason="kills with a signal that Windows has not")


@pytest.mark.parametrize("kills", [FEW, pytest.param(MANY, marks=pytest.mark.slow)])
def test_killed_while_deciding_each_proposal_is_carried_out_once(kills: int, tmp_path: Path) -> None:
    """Crash between decision and execution, 200 times: executed once or pending, never twice, never lost."""
    command = [sys.executable, "-m", "tests.crash.deciding", str(tmp_path), str(kills), "0"]
    ended = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=WITHIN_S, check=False)
    wrong = tmp_path / "wrong"
    assert ended.returncode == 0, (wrong.read_text() if wrong.exists() else "") + ended.stderr[-3000:]
    found = Counter(ended.stdout.splitlines())
    print(f"\n{kills} kills: {dict(found)}")  # noqa: T201 - the histogram, with -s
    assert found.total() == kills
    if kills >= MANY:
        assert min(found["pending"], found["approved, running"], found["executed"]) > 0
