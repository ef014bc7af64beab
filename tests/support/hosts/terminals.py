"""A pseudo-terminal with a program in it, and someone who types."""

from __future__ import annotations

import os
import re
import select
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field

ESCAPES = re.compile(r"\x1b\[[0-9;?]*[ -/]*[@-~]|\x1b[@-_]")
TIMEOUT_S = 60.0
CLEARED = "\x1b[H\x1b[2J"
SIZES = ("COLUMNS", "LINES")
"""Variables that give a program another size than its terminal's.

Shells, readline and test runners set them for their children.
"""


@dataclass
class Terminal:
    """Keys go in, and the program's output comes out. `raw` is all output so far."""

    process: subprocess.Popen[bytes]
    end: int
    raw: bytes = b""
    _read_to: int = field(default=0)

    def type(self, keys: str) -> None:
        """Type the keys; from now on `until` waits for new output."""
        self._read_to = len(self.raw)
        os.write(self.end, keys.encode())

    def until(self, *texts: str) -> str:
        """Return the output since the last typing, once all `texts` are in it."""
        deadline = time.monotonic() + TIMEOUT_S
        while not all(text in self.shown for text in texts):
            if not self._take(deadline - time.monotonic()):
                raise AssertionError(f"waited for {texts}; shown was:\n{self.shown}")
        return self.shown

    def left(self) -> int:
        """Wait until the program has ended, and return its exit code."""
        deadline = time.monotonic() + TIMEOUT_S
        while self._take(deadline - time.monotonic()):
            pass
        return self.process.wait(timeout=TIMEOUT_S)

    @property
    def echoes(self) -> bool:
        """Return whether typed text is echoed and edited by lines, as usual."""
        import termios

        usual: int = termios.ECHO | termios.ICANON
        return bool(termios.tcgetattr(self.end)[3] & usual == usual)

    @property
    def shown(self) -> str:
        """Return the output since the last typing, without escape sequences."""
        return ESCAPES.sub("", self.raw[self._read_to :].decode(errors="replace")).replace("\r\n", "\n")

    def _take(self, timeout_s: float) -> bool:
        if timeout_s <= 0 or not select.select([self.end], [], [], timeout_s)[0]:
            return False
        try:
            more = os.read(self.end, 65536)
        except OSError:  # Linux raises this when the last writer has closed
            return False
        self.raw += more
        return bool(more)


@contextmanager
def terminal(words: Sequence[str], *, env: Mapping[str, str], size: tuple[int, int] = (60, 120)) -> Iterator[Terminal]:
    """Run a program in a terminal with this many rows and columns; it has ended afterwards."""
    import fcntl
    import pty
    import struct
    import termios

    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", *size, 0, 0))
    process = subprocess.Popen(
        [sys.executable, "-m", "mcp_server", *words],
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        env={**{name: value for name, value in env.items() if name not in SIZES}, "TERM": "xterm-256color"},
        start_new_session=True,
    )
    os.close(theirs)
    opened = Terminal(process, ours)
    try:
        yield opened
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait(timeout=TIMEOUT_S)
        os.close(opened.end)
