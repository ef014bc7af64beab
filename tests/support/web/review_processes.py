"""`knowledge-forge review --web` in a process of its own, and a person who uses its page without JavaScript."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from urllib.parse import urlsplit

import anyio
import anyio.to_thread
import httpx

from tests.support.hosts.persons import Person
from tests.support.web.plain_http import TRUSTING_NOBODY
from tests.support.web.review_pages import PATIENCE_S, Visitor

ROOT = Path(__file__).parents[3]
AGAIN_S = 0.05
LONG_S = 300.0


@dataclass
class ReviewProcess:
    """The process, and the one-time link that it printed."""

    process: subprocess.Popen[str]
    printed: str
    errors: Path

    @property
    def address(self) -> str:
        parts = urlsplit(self.printed)
        return f"{parts.scheme}://{parts.netloc}"

    async def link(self) -> str:
        """Return the link, which works once."""
        return self.printed

    @property
    def killed(self) -> bool:
        return self.process.poll() == -signal.SIGKILL

    def stop(self) -> str:
        """End it as Ctrl-C does, and return all that it printed after the link."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGINT)
        said, _ = self.process.communicate(timeout=PATIENCE_S)
        return said + self.errors.read_text(encoding="utf-8")


@asynccontextmanager
async def review_process(ann: Person, *words: str, crashes_at: str = "") -> AsyncIterator[ReviewProcess]:
    """Start it, wait for its link, and end it afterwards. It kills itself at the step `crashes_at` of a change of the state."""
    module = ["tests.crash.mover", crashes_at] if crashes_at else ["mcp_server"]
    process = await anyio.to_thread.run_sync(partial(_started, ann, module, words))
    try:
        yield process
    finally:
        with suppress(subprocess.TimeoutExpired):
            process.stop()
        process.process.kill()


def _started(ann: Person, module: Sequence[str], words: Sequence[str]) -> ReviewProcess:
    errors = ann.folder / "errors of the page"
    with errors.open("w", encoding="utf-8") as file:
        process = subprocess.Popen(
            [sys.executable, "-m", *module, *ann.words("review", "--web", *words)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=file,
            encoding="utf-8",
            env=ann.env,
            cwd=ROOT,
        )
    assert process.stdout is not None
    for line in process.stdout:
        if found := re.search(r"http://localhost:\d+/login/\S+", line):
            return ReviewProcess(process, found.group(), errors)
    raise AssertionError(f"no link was printed: {errors.read_text(encoding='utf-8')}")


@asynccontextmanager
async def visiting(page: ReviewProcess) -> AsyncIterator[Visitor]:
    """Log a person in."""
    # A connection for each request, as a browser makes a new one when the server has closed the last.
    limits = httpx.Limits(max_keepalive_connections=0)
    async with httpx.AsyncClient(
        base_url=page.address, follow_redirects=True, timeout=PATIENCE_S, verify=TRUSTING_NOBODY, limits=limits
    ) as http:
        visitor = Visitor(http, page.address)
        await visitor.look(urlsplit(page.printed).path)
        await visitor.send("/login")
        assert visitor.status == 200
        yield visitor


async def result(page: ReviewProcess, visitor: Visitor) -> str:
    """Return the page with the outcome of the change that was just confirmed; what the page of a killed process says is ""."""
    with anyio.fail_after(LONG_S):
        while visitor.status == 503:
            try:
                await visitor.look("/state/outcome")
            except httpx.TransportError:
                if page.process.poll() is not None:
                    return ""
                await anyio.sleep(AGAIN_S)
    return visitor.html


def files_with(text: str, folder: Path) -> list[str]:
    """Return the files below the folder that hold the text."""
    files = [Path(base) / name for base, _, names in os.walk(folder) for name in names]
    return [str(file) for file in files if file.is_file() and text.encode() in file.read_bytes()]
