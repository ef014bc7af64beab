"""`kill -9` for a process leading a run, at each step: another continues, no tool is called twice, nothing is lost.

By default each process is a fork of the test; `-m external` also uses whole programs.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import anyio
import pytest

from agents.loop.record.frames import ToolResult
from mcp_server.runs.locations import runs_in
from tests.crash import leading
from tests.support.runs.scripts import sound
from tests.support.state.ledgers import open_shared

LAST = (1, 2, 5, 6, 7, 9, 10, 12, 14, 15, 17)
"""The frames that end a step, in a run where nothing dies; frames recorded together are one point."""
AFTER = [f"+{number}" for number in LAST]
BEFORE = [f"-{number}" for number in LAST]
WITHIN = ["!kb_search", "!kb_read", "!kb_merge", "!plane_create_task"]
LIVES = [*AFTER, *WITHIN, *(pytest.param(at, marks=pytest.mark.external) for at in BEFORE)]
"""The disk before a frame equals the disk after the previous one, unless something was done in between."""
REST = [*(at for at in AFTER if at != "+9"), *BEFORE]

pytestmark = pytest.mark.skipif(os.name == "nt", reason="kills with a signal that Windows has not")


def live_in_fork(where: Path, who: int, at: str) -> int:
    """Let a child lead the run, and return the signal that killed it, 0 if it finished."""
    child = os.fork()
    if not child:
        try:
            anyio.run(leading.lead, str(where), "state", str(who), at)
        except BaseException:  # noqa: BLE001 - whatever it is, the parent tells it
            os._exit(1)
        os._exit(0)
    _, status = os.waitpid(child, 0)
    assert os.WIFSIGNALED(status) or os.WEXITSTATUS(status) == 0, at
    return os.WTERMSIG(status) if os.WIFSIGNALED(status) else 0


def live_in_program(where: Path, who: int, at: str) -> int:
    done = subprocess.run(
        [sys.executable, "-m", "tests.crash.leading", "lead", str(where), "state", str(who), at],
        check=False,
        timeout=60,
    )
    assert done.returncode in (0, -signal.SIGKILL), at
    return -done.returncode


async def look(where: Path, at: str) -> None:
    """Check that the run is done, and each call was executed once or is recorded as unknown."""
    state = await open_shared(str(where), "state")
    run = await sound(runs_in(state), "run-1")
    await state.close()
    called = [tuple(json.loads(line)) for line in (where / "deeds").read_text(encoding="utf-8").splitlines()]
    assert len(set(called)) == len(called), f"{at}: a call was carried out twice"
    keys = {key for _, key in called}
    results = {frame.call: frame for frame in run.frames if isinstance(frame, ToolResult)}
    for call in run.calls:
        result = results[call.id]
        assert (call.key in keys) or result.unsure, f"{at}: {call.tool} was never called"
        assert not (result.success and call.key not in keys), f"{at}: {call.tool} is told as done"
    assert sum(result.unsure for result in results.values()) <= 1, at
    assert (run.state, run.iterations) == ("done", 5), f"{at}: {run.why}"


def stage(where: Path, at: str, live: Callable[[Path, int, str], int]) -> None:
    (where / "deeds").touch()
    first = live(where, 0, at)
    assert first == signal.SIGKILL, f"{at} was never reached"
    assert live(where, 1, "-9999") == 0
    anyio.run(look, where, at)


@pytest.mark.parametrize("at", LIVES)
def test_wherever_the_process_dies_another_brings_the_run_to_its_end_and_no_tool_is_called_twice(
    at: str, tmp_path: Path
) -> None:
    stage(tmp_path, at, live_in_fork)


@pytest.mark.external
@pytest.mark.parametrize("at", ["+9", *WITHIN, *(pytest.param(at, marks=pytest.mark.slow) for at in REST)])
def test_the_same_holds_for_whole_programs(at: str, tmp_path: Path) -> None:
    stage(tmp_path, at, live_in_program)


def test_the_list_of_points_is_complete(tmp_path: Path) -> None:
    (tmp_path / "deeds").touch()
    assert live_in_fork(tmp_path, 0, "-9999") == 0

    async def last() -> list[int]:
        state = await open_shared(str(tmp_path), "state")
        frames = await runs_in(state).frames("run-1")
        await state.close()
        ends = [one.number for one, after in pairwise(frames) if one.at != after.at]  # frames of one step have one time
        return [*ends, len(frames) - 1]

    assert anyio.run(last) == list(LAST)
