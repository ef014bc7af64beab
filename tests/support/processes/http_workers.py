"""`serve --http` with several workers, as a process that tests start, kill and stop."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

ROOT = Path(__file__).parents[3]
START_S = 60.0
SERVING = re.compile(r"serving (http://\S+)")


class Service:
    """A running service and its log."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.process, self.lines = process, list[str]()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self.process.stderr is not None
        for line in self.process.stderr:
            self.lines.append(line.rstrip())

    @property
    def url(self) -> str:
        """The address, once it is logged."""
        until = time.monotonic() + START_S
        while time.monotonic() < until:
            if found := SERVING.search("\n".join(self.lines)):
                return found[1]
            assert self.process.poll() is None, self.lines
            time.sleep(0.05)  # a log tells nobody of a new line
        raise AssertionError(f"it did not serve: {self.lines}")

    @property
    def workers(self) -> list[int]:
        """The ids of its worker processes, oldest first."""
        tasks = Path(f"/proc/{self.process.pid}/task")
        return sorted(int(pid) for task in tasks.iterdir() for pid in (task / "children").read_text("ascii").split())

    def wait_for_workers(self, count: int) -> list[int]:
        """Return the ids once there are that many."""
        until = time.monotonic() + START_S
        while len(found := self.workers) != count:
            assert time.monotonic() < until, (found, self.lines)
            time.sleep(0.05)
        return found

    def kill_worker(self, pid: int) -> None:
        """End a worker as a power cut would."""
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)

    def stop(self, number: int = signal.SIGTERM) -> int:
        """Stop it in order, and return its exit code."""
        self.process.send_signal(number)
        code = self.process.wait(90)
        self._reader.join(60)
        return code


@contextmanager
def service(environment: Mapping[str, str], *arguments: str, checkout: Path = ROOT) -> Iterator[Service]:
    """Start `serve` of that checkout with these arguments; it is stopped afterwards."""
    environment = {
        "PATH": os.environ["PATH"],
        "PYTHONPATH": str(checkout),
        "FORGE_OPEN_BROWSER": "false",
        **environment,
    }
    command = [sys.executable, "-m", "mcp_server", "serve", *arguments]
    with subprocess.Popen(
        command, cwd=checkout, env=environment, stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
    ) as process:
        running = Service(process)
        try:
            yield running
        finally:
            if process.poll() is None:
                running.stop()


def alive(pid: int) -> bool:
    """Return whether the process still runs."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True
