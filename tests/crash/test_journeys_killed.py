"""A process dies while it appends to a journey: each acknowledged step is recorded once, and no version is missing.

`FORGE_TEST_KILLS` sets how many kills. With -s it prints what was found after the kills.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
FEW, MANY = 4, max(200, int(os.environ.get("FORGE_TEST_KILLS", "200")))
WITHIN_S = 600

pytestmark = pytest.mark.skipif(os.name == "nt", reason="kills with a signal that Windows has not")


@pytest.mark.parametrize("kills", [FEW, pytest.param(MANY, marks=pytest.mark.slow)])
def test_killed_while_appending_each_acknowledged_step_is_on_record_once(kills: int, tmp_path: Path) -> None:
    """200 kills during submits: each acknowledged submit recorded once, versions without gaps."""
    command = [sys.executable, "-m", "tests.crash.appending", str(tmp_path), str(kills), "0"]
    ended = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=WITHIN_S, check=False)
    wrong = tmp_path / "wrong"
    assert ended.returncode == 0, (wrong.read_text() if wrong.exists() else "") + ended.stderr[-3000:]
    found = Counter(ended.stdout.splitlines())
    steps = int((tmp_path / "steps").read_text())
    print(f"\n{kills} kills, {steps} steps: {dict(found)}")  # noqa: T201 - the histogram, with -s
    assert found.total() == kills
    if kills >= MANY:
        assert steps > kills
        assert found["kept, unheard"] > 0
