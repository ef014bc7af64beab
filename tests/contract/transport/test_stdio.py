"""The stdio transport, process against process: bounded lines, clean output, an end when the host ends."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeVar

import anyio
import pytest

from mcp_server.transport.stdio import LONGEST_LINE, BoundedLines, PipeWriter
from tests.support.knowledge_bases.folders import write
from tests.support.knowledge_bases.hostile_markdown import FAMILIES, changed

ROOT = Path(__file__).parents[3]
T = TypeVar("T")
HELLO: dict[str, Any] = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "initialize",
    "params": {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "t", "version": "0"}},
}


class Server:
    """A server process with its pipes."""

    def __init__(self, folder: Path) -> None:
        command = [
            sys.executable,
            "-m",
            "mcp_server",
            "serve",
            "--kb",
            str(folder / "kb"),
            "--state-dir",
            str(folder / "s"),
        ]
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=ROOT
        )

    def send(self, line: bytes) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(line + b"\n")
        self.process.stdin.flush()

    def ask(self, message: dict[str, Any]) -> dict[str, Any]:
        self.send(json.dumps(message).encode())
        return self.answer()

    def answer(self) -> dict[str, Any]:
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        assert line, self.process.communicate()[1]
        answer: dict[str, Any] = json.loads(line)
        return answer

    def memory_kib(self) -> int:
        status = Path(f"/proc/{self.process.pid}/status").read_text(encoding="ascii")
        return int(next(line for line in status.splitlines() if line.startswith("VmHWM")).split()[1])


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    write(tmp_path / "kb")
    started = Server(tmp_path)
    with started.process:  # closes the pipes and waits
        try:
            yield started
        finally:
            started.process.kill()


@pytest.mark.usefixtures("new_python")
def test_a_line_that_is_too_long_is_answered_and_the_server_lives(server: Server) -> None:
    """A line limit of 8 MiB in front of the SDK."""
    assert server.ask(HELLO)["result"]["serverInfo"]["name"] == "knowledge-forge"
    before = server.memory_kib() if sys.platform == "linux" else 0
    for _ in range(4):
        server.send(b"x" * (LONGEST_LINE + 100))
        assert "too long" in server.answer()["error"]["message"]
    if sys.platform == "linux":
        assert server.memory_kib() - before < 24 * 1024, "an oversized line must not be held in memory"
    assert server.ask({"jsonrpc": "2.0", "id": 2, "method": "ping"})["result"] == {}


def test_garbage_on_the_wire_is_answered_with_a_parse_error(server: Server) -> None:
    server.ask(HELLO)
    server.send(b"{not json")
    assert server.ask({"jsonrpc": "2.0", "id": 3, "method": "ping"})


def test_it_ends_cleanly_when_the_host_closes_the_pipe(server: Server) -> None:
    server.ask(HELLO)
    assert server.process.stdin is not None
    server.process.stdin.close()
    assert server.process.wait(timeout=60) == 0


@pytest.mark.skipif(sys.platform == "win32", reason="there is no SIGTERM to handle")
@pytest.mark.parametrize("name", ["SIGTERM", "SIGHUP"])
def test_it_ends_cleanly_on_request(name: str, server: Server) -> None:
    if signal.getsignal(getattr(signal, name)) is signal.SIG_IGN:
        pytest.skip(f"{name} is ignored here, as by nohup, and the server leaves it so")
    server.ask(HELLO)
    server.process.send_signal(getattr(signal, name))
    assert server.process.wait(timeout=60) == 0


@pytest.mark.skipif(sys.platform == "win32", reason="processes are not re-parented there")
@pytest.mark.external
def test_it_ends_when_its_host_died_and_a_sibling_holds_the_pipe(tmp_path: Path) -> None:
    """A killed host may have left its end of the pipe to another child."""
    write(tmp_path / "kb")
    script = (
        "import os, subprocess, sys, time\n"
        f"p = subprocess.Popen([{sys.executable!r}, '-m', 'mcp_server', 'serve', '--kb', {str(tmp_path / 'kb')!r}, "
        f"'--state-dir', {str(tmp_path / 's')!r}], stdin=int(sys.argv[1]), stdout=int(sys.argv[2]), "
        "pass_fds=[int(sys.argv[1]), int(sys.argv[2])])\n"
        "print(p.pid, flush=True)\n"
        "sys.stdin.read()\n"
    )
    wire_in, our_end = os.pipe()
    answers, wire_out = os.pipe()
    host = subprocess.Popen(
        [sys.executable, "-c", script, str(wire_in), str(wire_out)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        pass_fds=[wire_in, wire_out],
        cwd=ROOT,
    )
    os.close(wire_out)
    os.close(wire_in)
    try:
        os.write(our_end, json.dumps(HELLO).encode() + b"\n")
        assert b"knowledge-forge" in os.read(answers, 65536)
        host.kill()
        host.communicate()
        while os.read(answers, 65536):  # our_end stays open: only the server's end makes this stop
            pass
    finally:
        os.close(our_end)
        os.close(answers)


def test_a_missing_folder_is_said_in_one_line_and_nothing_is_on_the_wire(tmp_path: Path) -> None:
    for folder, says in ((tmp_path / "nowhere", "no such folder"), (tmp_path / "file.md", "it is a file")):
        if folder.suffix:
            folder.write_text("x", encoding="utf-8")
        command = [sys.executable, "-m", "mcp_server", "serve", "--kb", str(folder), "--state-dir", str(tmp_path / "s")]
        done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, stdin=subprocess.DEVNULL, check=False)
        assert done.returncode == 1
        assert not done.stdout
        assert says in done.stderr
        assert "Traceback" not in done.stderr


async def lines_of(sent: list[bytes], longest: int) -> tuple[list[str], list[int]]:
    read_end, write_end = os.pipe()
    lines, sizes = BoundedLines(read_end, longest=longest), []

    async def oversize(size: int) -> None:
        sizes.append(size)

    lines.on_oversize = oversize
    got: list[str] = []

    async def write_all() -> None:
        for block in sent:
            await anyio.to_thread.run_sync(os.write, write_end, block)
            await anyio.lowlevel.checkpoint()
        os.close(write_end)

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(write_all)
        got.extend([line async for line in lines])
    os.close(read_end)
    return got, sizes


async def test_lines_come_whole_however_they_are_cut() -> None:
    assert await lines_of([b"a", b"b\nc", b"\n\nlast"], 10) == (["ab", "c", "", "last"], [])


async def test_only_the_line_that_is_too_long_is_left_out() -> None:
    assert await lines_of([b"ok\n12345", b"6789012345\nok\n"], 10) == (["ok", "ok"], [15])
    assert await lines_of([b"1234567890\n"], 10) == (["1234567890"], [])


async def test_bytes_that_are_not_utf8_do_not_end_the_reading() -> None:
    assert await lines_of([b"\xff\xfe\nok\n"], 10) == (["\ufffd\ufffd", "ok"], [])


async def test_a_host_that_does_not_read_makes_the_writer_wait_and_nothing_is_lost() -> None:
    read_end, write_end = os.pipe()
    text = "ä" * 400_000
    got = bytearray()

    async def read_all() -> None:
        while block := await anyio.to_thread.run_sync(os.read, read_end, 1 << 16):
            got.extend(block)

    async with anyio.create_task_group() as tasks:
        writer = PipeWriter(write_end)
        tasks.start_soon(writer.write, text)
        await anyio.lowlevel.checkpoint()
        tasks.start_soon(read_all)
        with anyio.fail_after(60):
            while len(got) < 2 * len(text):  # noqa: ASYNC110 - a pipe has no bell
                await anyio.sleep(0.01)
        os.close(write_end)
    os.close(read_end)
    assert got.decode() == text


@pytest.mark.skipif(sys.platform != "linux", reason="the kernel is asked which processes there are")
@pytest.mark.parametrize("way", ["close", "SIGTERM", "SIGKILL"])
def test_no_worker_outlives_the_server(way: str, server: Server, tmp_path: Path) -> None:
    """A long dry run by an unregistered host ends with its server, however that ends."""
    slow = FAMILIES["paragraphs nearly equal"](1_000_000)
    (tmp_path / "kb" / "slow.md").write_text(slow, encoding="utf-8")
    server.ask(HELLO)
    server.send(json.dumps({"jsonrpc": "2.0", "method": "notifications/initialized"}).encode())
    arguments = {"path": "slow.md", "content": changed(slow), "source": "code:a.py", "dry_run": True}
    call = {"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": {"name": "kb_merge", "arguments": arguments}}
    server.send(json.dumps(call).encode())
    worker = until(lambda: next(iter(children(server.process.pid)), 0))
    if way == "close":
        assert server.process.stdin is not None
        server.process.stdin.close()
    else:
        server.process.send_signal(getattr(signal, way))
    server.process.wait(timeout=60)
    assert until(lambda: not is_running(worker))


def until(told: Callable[[], T]) -> T:
    """Return the function's value once it has one."""
    for _ in range(2000):
        if found := told():
            return found
        time.sleep(0.01)
    raise AssertionError("it did not happen")


def children(process: int) -> list[int]:
    """Return this process's children."""
    listed = [path.read_text(encoding="ascii") for path in Path(f"/proc/{process}/task").glob("*/children")]
    return [int(number) for numbers in listed for number in numbers.split()]


def is_running(process: int) -> bool:
    """Return whether the process exists and is not a zombie."""
    try:
        return "\nState:\tZ" not in Path(f"/proc/{process}/status").read_text(encoding="ascii")
    except OSError:
        return False
