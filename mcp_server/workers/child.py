"""A worker process: takes steps from its standard input, does them one after another, and answers on its standard output.

It opens only files that a step names (`mcp_server/workers/index_steps.py`).
"""

from __future__ import annotations

import os
import pickle
import queue
import struct
import sys
import threading
from pathlib import Path
from typing import Any, BinaryIO

HEADER = struct.Struct(">Q")
IDLE_S = 60.0
"""A worker that nobody asks for so long ends."""
RETIRES_AT_BYTES = 256 * 2**20
"""A worker that has needed so much memory ends with its answer, so that the memory goes back."""
NICE = 10
"""The server itself goes first where both want a processor."""


def main(cpu_s: int, memory_bytes: int) -> None:
    """Work until nobody asks any more. Each step may take `cpu_s` seconds of processor time, all of them `memory_bytes` (0: any)."""
    asked: queue.SimpleQueue[bytes] = queue.SimpleQueue()
    wire_in, wire_out = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    _let_go_of_wire()
    _limit_memory(memory_bytes)
    threading.Thread(target=_read, args=(wire_in, asked), daemon=True).start()
    while True:
        try:
            request = asked.get(timeout=IDLE_S)
        except queue.Empty:
            os._exit(0)
        _limit_time(cpu_s)
        answer = _answered(request)
        del request
        wire_out.write(HEADER.pack(len(answer)))
        wire_out.write(answer)
        wire_out.flush()
        if _peak_bytes() > RETIRES_AT_BYTES:
            os._exit(0)


def _let_go_of_wire() -> None:
    """Point the standard streams at nothing: what a library prints is no answer."""
    null = os.open(os.devnull, os.O_RDWR)
    for descriptor in (0, 1):
        os.dup2(null, descriptor)
    os.close(null)
    if hasattr(os, "nice"):
        os.nice(NICE)


def _read(wire: BinaryIO, asked: queue.SimpleQueue[bytes]) -> None:
    """Take requests; when the server is gone, end at once, in the middle of a step too."""
    while header := wire.read(HEADER.size):
        if len(header) < HEADER.size:
            break
        (size,) = HEADER.unpack(header)
        request = wire.read(size)
        if len(request) < size:
            break
        asked.put(request)
        del request
    os._exit(0)


def _answered(request: bytes) -> bytes:
    try:
        step, argument = pickle.loads(request)  # noqa: S301  (from the server that started this process)
        return pickle.dumps(("done", step(argument)), pickle.HIGHEST_PROTOCOL)
    except MemoryError:
        return pickle.dumps(("memory", None))
    except RecursionError:
        return pickle.dumps(("depth", None))
    except Exception as error:  # noqa: BLE001  (whatever it is, the caller has to hear it)
        return _failure(error)


def _failure(error: Exception) -> bytes:
    """Return the error in parts: classes that build their sentence themselves cannot be called with it."""
    try:
        return pickle.dumps(("failed", (type(error), error.args, error.__dict__)))
    except Exception:  # noqa: BLE001  (its facts cannot be sent)
        return pickle.dumps(("failed", (RuntimeError, (f"{type(error).__name__} in a worker",), {})))


def raised(parts: tuple[type[Exception], tuple[Any, ...], dict[str, Any]]) -> Exception:
    """Return the error that was sent in parts."""
    kind, args, facts = parts
    error = kind.__new__(kind)
    error.args = args
    error.__dict__.update(facts)
    return error


def _limit_memory(memory_bytes: int) -> None:
    if sys.platform == "win32" or not memory_bytes:
        return
    import resource

    try:
        resource.setrlimit(resource.RLIMIT_AS, (memory_bytes, memory_bytes))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    except (ValueError, OSError):
        pass  # macOS has no such limit; the time limit bounds what can be filled


def _limit_time(cpu_s: int) -> None:
    """Have the system end this process when the next step has taken so much processor time."""
    if sys.platform == "win32":
        return
    import resource

    used = resource.getrusage(resource.RUSAGE_SELF)
    _, most = resource.getrlimit(resource.RLIMIT_CPU)
    resource.setrlimit(resource.RLIMIT_CPU, (int(used.ru_utime + used.ru_stime) + 1 + cpu_s, most))


def _peak_bytes() -> int:
    if sys.platform == "win32":
        return 0
    if sys.platform == "linux":
        # What `getrusage` says there goes back to before this program was loaded: it is the server's own memory.
        told = Path("/proc/self/status").read_text(encoding="ascii", errors="replace").splitlines()
        return next((int(line.split()[1]) * 1024 for line in told if line.startswith("VmHWM:")), 0)
    import resource

    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024
