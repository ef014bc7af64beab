"""A process that has loaded the program, and starts copies of itself for tests (`tests/support/processes/starts.py`).

It does nothing else, so a copy is what Python is once it has imported the same modules.
"""

from __future__ import annotations

import atexit
import gc
import importlib
import json
import os
import runpy
import signal
import socket
import struct
import sys
import time
from dataclasses import dataclass
from io import BufferedReader, BufferedWriter, FileIO, TextIOWrapper
from types import ModuleType
from typing import Any

NUMBER = struct.Struct(">Q")
LATE = (
    "anyio._backends._asyncio",
    "mcp_server.app.composition",
    "mcp_server.app.factories.finder",
    "mcp_server.app.factories.index_service",
    "mcp_server.app.factories.protocol_server",
    "mcp_server.app.factories.writer",
    "mcp_server.toolsets.journeys.tools",
    "mcp_server.toolsets.knowledge.handlers",
    "mcp_server.toolsets.trust.tools",
    "mcp_server.transport.http",
    "mcp_server.transport.stdio",
    "mcp_server.web.application",
    "mcp_server.web.server",
)
"""What most commands import later than at their start."""

Request = dict[str, Any]


@dataclass(slots=True)
class Ending:
    """How a copy ends. Its exit code is None until its module has ended with one.

    At its end Python takes apart all modules, and so writes to each page of the memory that a copy shares, which takes longer than
    most commands. A copy leaves that out. It still waits for its threads and runs what is registered with `atexit`.
    """

    code: int | None = None

    def leave(self) -> None:
        """End this process at once, unless Python still has to print why. `atexit` runs this last, as it was registered first."""
        if self.code is None:
            return
        try:
            sys.stdout.flush()
            sys.stderr.flush()
        except (OSError, ValueError):
            return  # Python prints that, and exits with another code
        os._exit(self.code)


def main(descriptor: int) -> None:
    """Serve requests until the other end is closed; in a copy, run what was requested."""
    ending = Ending()
    atexit.register(ending.leave)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the tests, which then close the connection
    with socket.socket(fileno=descriptor) as connection:
        load()
        inherited = sys.path[1:]  # the first entry is the folder in which this process was started
        while request := _received(connection):
            pid = _copied()
            if pid == 0:
                break
            for stream in request["streams"]:
                os.close(stream)
            connection.sendall(NUMBER.pack(pid))
    if request:
        become(request, inherited, ending)


def load() -> None:
    """Import the program, except its `__main__`, which each copy runs itself."""
    program = importlib.import_module("mcp_server.__main__")
    for verb in program.VERBS:
        program.module_of(verb)
    for name in LATE:
        importlib.import_module(name)
    del sys.modules[program.__name__]
    gc.collect()
    gc.freeze()  # otherwise a collection in a copy writes to all the memory that it shares with this process


def become(request: Request, inherited: list[str], ending: Ending) -> None:
    """Run a module as `python -m` does, with the streams, the folder and the environment of the request."""
    if request["session"]:
        os.setsid()
    for number, stream in enumerate(request["streams"]):
        os.dup2(stream, number)
    os.closerange(3, max(request["streams"]) + 1)
    os.chdir(request["folder"])
    os.environ.clear()
    os.environ.update(request["environment"])
    time.tzset()
    signal.signal(signal.SIGINT, signal.default_int_handler)
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        setattr(sys, name, _stream(number, getattr(sys, name)))
        setattr(sys, f"__{name}__", getattr(sys, name))
    named = request["environment"].get("PYTHONPATH", "").split(os.pathsep)
    sys.path[:] = [request["folder"], *filter(None, named), *inherited]
    importlib.invalidate_caches()
    sys.argv = ["-m", *request["words"]]
    sys.modules["__main__"] = ModuleType("__main__")
    try:
        runpy._run_module_as_main(request["module"])  # type: ignore[attr-defined]
    except SystemExit as ended:
        if ended.code is None or isinstance(ended.code, int):
            ending.code = ended.code or 0
        raise
    ending.code = 0


def _stream(number: int, like: TextIOWrapper) -> TextIOWrapper:
    raw = FileIO(number, "w" if number else "r", closefd=False)
    raw.name = like.name
    binary = BufferedWriter(raw) if number else BufferedReader(raw)
    lines = number == 2 or raw.isatty()
    return TextIOWrapper(binary, encoding=like.encoding, errors=like.errors, line_buffering=lines)


def _copied() -> int:
    """Return the id of a copy of this process, and 0 in the copy. The process that requested it is its parent by then."""
    (reading, writing), (waiting, releasing) = os.pipe(), os.pipe()
    between = os.fork()
    if between == 0:
        pid = os.fork()
        if pid == 0:
            os.close(releasing)
            os.read(waiting, 1)
            for end in (reading, writing, waiting):
                os.close(end)
            return 0
        os.write(writing, NUMBER.pack(pid))
        os._exit(0)  # the copy is then an orphan, which the process that requested it adopts
    os.close(writing)
    (pid,) = NUMBER.unpack(os.read(reading, NUMBER.size))
    os.waitpid(between, 0)
    for end in (reading, waiting, releasing):
        os.close(end)
    return int(pid)


def _received(connection: socket.socket) -> Request | None:
    header, streams, _, _ = socket.recv_fds(connection, NUMBER.size, 3)
    if not header:
        return None
    (size,) = NUMBER.unpack(header)
    body = connection.recv(size, socket.MSG_WAITALL)
    return {**json.loads(body), "streams": streams}


if __name__ == "__main__":
    main(int(sys.argv[1]))
