"""Server processes under measurement: started, called over stdio, and measured by the kernel's figures."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from mcp import Client
from mcp.client.stdio import StdioServerParameters

ROOT = Path(__file__).resolve().parents[2]
TICKS_PER_S = os.sysconf("SC_CLK_TCK")
MEGABYTE = 1024.0
"""Kilobytes, the unit of /proc, in a megabyte."""


def ours(kb: Path, state_dir: Path) -> list[str]:
    """Return the arguments of Python that serve `kb`."""
    return ["-m", "mcp_server", "serve", "--kb", str(kb), "--state-dir", str(state_dir)]


def bare(answer: Path | None = None) -> list[str]:
    """Return the arguments of Python that serve nothing, with the same tools."""
    return ["-m", "tests.benchmarks.bare", *([] if answer is None else [str(answer)])]


def cpu_s(pid: int) -> float:
    """Return the processor time that `pid` has used, all threads, user and system."""
    fields = Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS_PER_S


def family_cpu_s(pid: int) -> float:
    """Return the processor time that `pid` and its descendants have used, those that have ended and were waited for included."""
    process = Path(f"/proc/{pid}")
    fields = (process / "stat").read_text(encoding="ascii").rpartition(")")[2].split()
    children = [
        int(one) for task in (process / "task").iterdir() for one in (task / "children").read_text("ascii").split()
    ]
    return sum(map(int, fields[11:15])) / TICKS_PER_S + sum(map(family_cpu_s, children))


def memory_mb(pid: int, what: str) -> float:
    """Return `VmRSS` (now) or `VmHWM` (the peak) of `pid` in megabytes."""
    for line in Path(f"/proc/{pid}/status").read_text(encoding="ascii").splitlines():
        if line.startswith(what + ":"):
            return int(line.split()[1]) / MEGABYTE
    raise LookupError(f"the kernel does not say {what} of process {pid}")


@dataclass(frozen=True, slots=True)
class Start:
    """One start: seconds to the first `tools/list` answer, and the peak memory until it settled."""

    seconds: float
    peak_mb: float


def first_listing(arguments: Sequence[str], settle_s: float, environment: Mapping[str, str] | None = None) -> Start:
    """Start a server, shake hands, list its tools, let it settle, and stop it; `environment` is added to this process's."""
    began = time.perf_counter()
    with subprocess.Popen(
        [sys.executable, *arguments],
        cwd=ROOT,
        env={**os.environ, **(environment or {})},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    ) as server:
        if server.stdin is None or server.stdout is None:
            raise OSError("the server has no pipes")
        hello = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "bench", "version": "1"}}
        _send(server.stdin, {"id": 1, "method": "initialize", "params": hello})
        _answer(server.stdout, 1)
        _send(server.stdin, {"method": "notifications/initialized"})
        _send(server.stdin, {"id": 2, "method": "tools/list"})
        listed = _answer(server.stdout, 2)
        seconds = time.perf_counter() - began
        if len(listed["result"]["tools"]) < 3:
            raise LookupError("the server lists fewer than three tools")
        time.sleep(settle_s)
        peak_mb = memory_mb(server.pid, "VmHWM")
        server.stdin.close()
        server.wait(30)
    return Start(seconds, peak_mb)


def _send(pipe: IO[bytes], message: dict[str, Any]) -> None:
    pipe.write(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")
    pipe.flush()


def _answer(pipe: IO[bytes], id_: int) -> dict[str, Any]:
    while line := pipe.readline():
        message: dict[str, Any] = json.loads(line)
        if message.get("id") == id_:
            return message
    raise EOFError("the server closed its output before it answered")


@dataclass(frozen=True, slots=True)
class Served:
    """A server process and the SDK's client that talks to it."""

    client: Client
    pid: int

    async def timed(self, tool: str, arguments: dict[str, Any]) -> tuple[float, dict[str, Any]]:
        """Return the seconds one call took as the client saw it, and its structured answer."""
        began = time.perf_counter()
        result = await self.client.call_tool(tool, arguments)
        seconds = time.perf_counter() - began
        if result.is_error:
            raise RuntimeError(f"{tool} failed: {result.content}")
        content: dict[str, Any] = result.structured_content or {}
        return seconds, content


@asynccontextmanager
async def served(arguments: Sequence[str], environment: Mapping[str, str] | None = None) -> AsyncIterator[Served]:
    """Start a server over stdio with the SDK's client connected to it; both are gone afterwards.

    It gets the few variables that the SDK passes on, and `environment`.
    """
    before = children()
    given = None if environment is None else dict(environment)
    parameters = StdioServerParameters(command=sys.executable, args=list(arguments), cwd=ROOT, env=given)
    async with Client(parameters) as client:
        (pid,) = children() - before
        await client.list_tools()  # the client checks answers against the listed schemas
        yield Served(client, pid)


def children() -> set[int]:
    """Return this process's living children."""
    own = str(os.getpid())
    found = set()
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal():
            try:
                fields = (entry / "stat").read_text(encoding="ascii", errors="replace").rpartition(")")[2].split()
            except OSError:
                continue  # it ended while we looked
            if fields[1] == own and fields[0] != "Z":
                found.add(int(entry.name))
    return found
