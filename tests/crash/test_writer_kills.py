"""A writing process is killed inside every stage of a write; the next one finishes its act, and nothing is lost.

`FORGE_TEST_KILLS` sets how many kills. With -s a histogram of the stages hit is printed.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from tests.crash.writing import ANYWHERE, STAGES, TARGETS

ROOT = Path(__file__).parents[2]
FEW, MANY = 6, max(200, int(os.environ.get("FORGE_TEST_KILLS", "200")))
INSIDE_EACH = 20
WITHIN_S = 600

pytestmark = pytest.mark.skipif(os.name == "nt", reason="kills with a signal that Windows has not")


@pytest.mark.parametrize("kills", [FEW, pytest.param(MANY, marks=pytest.mark.slow)])
def test_killed_at_any_moment_no_acknowledged_write_is_lost_and_no_file_torn(kills: int, tmp_path: Path) -> None:
    """200 kills, 20 inside each stage: acknowledged writes present, files old or new, chain intact, recovery by itself."""
    (tmp_path / "kb").mkdir()
    (tmp_path / "kb" / "m1.md").write_bytes(b"# Moved\n")
    command = [sys.executable, "-m", "tests.crash.writing", str(tmp_path), str(kills), "0"]
    ended = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=WITHIN_S, check=False)
    wrong = tmp_path / "wrong"
    assert ended.returncode == 0, (wrong.read_text() if wrong.exists() else "") + ended.stderr[-3000:]
    fell = Counter(ended.stdout.splitlines())
    acknowledged = len((tmp_path / "acks").read_text().splitlines())
    shown = ", ".join(f"{stage} {fell[stage]}" for stage in STAGES)
    print(f"\n{kills} kills fell into: {shown}; elsewhere {fell['']}; {acknowledged} writes acknowledged")  # noqa: T201 - the histogram, with -s
    assert fell.total() == kills
    assert acknowledged > kills // 2
    least = INSIDE_EACH if kills >= MANY else kills // len(TARGETS) // 2
    assert all(fell[stage] >= least for stage in STAGES)
    assert TARGETS[-1] == ANYWHERE
