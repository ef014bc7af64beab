"""A worker process: takes steps from its standard input, runs them one after another, and answers on its standard output.

The only files it opens are those that a step names (`mcp_server/workers/index_steps.py`).
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

from knowledge.cycles import look_for_cycles_rarely

if sys.platform != "win32":
    import resource

HEADER = struct.Struct(">Q")
IDLE_S = 60.0
"""A worker without a request for this long exits."""
NICE = 10
"""The `nice` value of a worker, so that the server comes first when both need a processor."""


def main(cpu_s: int, memory_bytes: int, retires_at_bytes: int) -> None:
    """Serve requests until there are none.

    A step gets `cpu_s` seconds of processor time, and the process `memory_bytes` (0: no limit). A process that used more than
    `retires_at_bytes` exits after its answer, which returns the memory to the system.
    """
    requests: queue.SimpleQueue[bytes] = queue.SimpleQueue()
    wire_in, wire_out = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    # From here on the standard streams lead nowhere: whatever a library prints must not be taken for an answer.
    null = os.open(os.devnull, os.O_RDWR)
    for descriptor in (0, 1):
        os.dup2(null, descriptor)
    os.close(null)
    if hasattr(os, "nice"):
        os.nice(NICE)
    _limit_memory(memory_bytes)
    look_for_cycles_rarely()
    threading.Thread(target=_read, args=(wire_in, requests), daemon=True).start()
    while True:
        try:
            request = requests.get(timeout=IDLE_S)
        except queue.Empty:
            os._exit(0)
        _limit_time(cpu_s)
        answer = _answered(request)
        del request  # the request may be megabytes, and the next one may be a minute away
        wire_out.write(HEADER.pack(len(answer)))
        wire_out.write(answer)
        wire_out.flush()
        if _peak_bytes() > retires_at_bytes:
            os._exit(0)


def _read(wire: BinaryIO, requests: queue.SimpleQueue[bytes]) -> None:
    """Queue the requests. This is a thread, so that when the server is gone, the process exits even in the middle of a step."""
    while header := wire.read(HEADER.size):
        if len(header) < HEADER.size:
            break
        (size,) = HEADER.unpack(header)
        request = wire.read(size)
        if len(request) < size:
            break
        requests.put(request)
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
        # In parts, because our errors build their sentence in __init__: unpickling would call them with the finished sentence.
        try:
            return pickle.dumps(("failed", (type(error), error.args, error.__dict__)))
        except Exception:  # noqa: BLE001  (its attributes cannot be pickled)
            return pickle.dumps(("failed", (RuntimeError, (f"{type(error).__name__} in a worker",), {})))


def raised(parts: tuple[type[Exception], tuple[Any, ...], dict[str, Any]]) -> Exception:
    """Return the error whose parts a worker sent."""
    kind, args, facts = parts
    error = kind.__new__(kind)
    error.args = args
    error.__dict__.update(facts)
    return error


def _limit_memory(memory_bytes: int) -> None:
    if sys.platform != "win32" and memory_bytes:
        try:
            resource.setrlimit(resource.RLIMIT_AS, (memory_bytes, memory_bytes))
            # SIGXCPU, which ends a step that takes too long, dumps core by default, and the dump would hold pages.
            resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        except (ValueError, OSError):
            pass  # macOS has no such limit; there the time limit bounds how much memory can be filled


def _limit_time(cpu_s: int) -> None:
    """Make the system kill this process when the next step has used that much processor time."""
    if sys.platform != "win32":
        used = resource.getrusage(resource.RUSAGE_SELF)
        _, most = resource.getrlimit(resource.RLIMIT_CPU)
        # The limit counts from the start of the process, so each step raises it by its own budget.
        resource.setrlimit(resource.RLIMIT_CPU, (int(used.ru_utime + used.ru_stime) + 1 + cpu_s, most))


def _peak_bytes() -> int:
    if sys.platform == "win32":
        return 0
    if sys.platform == "linux":
        # `getrusage` would count from before this program was loaded, which is the memory of the server that forked.
        status = Path("/proc/self/status").read_text(encoding="ascii", errors="replace").splitlines()
        return next((int(line.split()[1]) * 1024 for line in status if line.startswith("VmHWM:")), 0)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024  # macOS counts bytes, the BSDs kilobytes
