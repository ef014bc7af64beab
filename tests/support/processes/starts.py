"""How tests start the program: as a copy of a process that has loaded it, because to load it takes most of a second each time.

The copy is a process like any other, a child of the tests with its own id, streams, folder, environment and signals. It only has not
imported its modules itself. `KF_REQUIRE_EXTERNAL=1`, with which CI runs the external tests, starts a new Python each time instead.
"""

from __future__ import annotations

import ctypes
import inspect
import json
import os
import socket
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tests.support.processes.loaded_program import NUMBER

ROOT = Path(__file__).parents[3]
MODULES = ("mcp_server", "tests.")
"""Only these modules are run by a copy: the program, and what begins like this."""
BEFORE_ANY_CODE = ("PYTHON", "LC_", "LANG", "LD_", "MALLOC_")
"""Variables that begin like this act while Python starts."""
WITHOUT_EFFECT = {"PYTHONPATH", "PYTHONDONTWRITEBYTECODE", "PYTHONUNBUFFERED"}
"""A copy acts on the first itself, and no test needs the others."""
PR_SET_CHILD_SUBREAPER = 36
"""Source: linux/prctl.h."""

NewPython = subprocess.Popen
"""What starts a new Python, also after `install`."""


class LoadedProgram:
    """A process that has loaded the program. It is started by the first request."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._connection: socket.socket | None = None
        self._process: subprocess.Popen[bytes] | None = None

    def start(self, request: Mapping[str, Any], streams: Sequence[int]) -> int:
        """Return the id of a copy that runs what the request says. It is a child of this process."""
        body, libc = json.dumps(request).encode(), ctypes.CDLL(None)
        with self._lock:
            connection = self._connected()
            # A copy is an orphan at once. This process adopts orphans only until it has the copy's id.
            libc.prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
            try:
                socket.send_fds(connection, [NUMBER.pack(len(body))], streams)
                connection.sendall(body)
                answer = connection.recv(NUMBER.size, socket.MSG_WAITALL)
            finally:
                libc.prctl(PR_SET_CHILD_SUBREAPER, 0, 0, 0, 0)
        assert answer, "the process that has loaded the program is gone"
        return int(NUMBER.unpack(answer)[0])

    def close(self) -> None:
        """End the process."""
        if self._connection is not None and self._process is not None:
            self._connection.close()
            self._process.wait(60)

    def _connected(self) -> socket.socket:
        if self._connection is None:
            self._connection, theirs = socket.socketpair()
            with theirs:
                self._process = NewPython(
                    [sys.executable, "-m", "tests.support.processes.loaded_program", str(theirs.fileno())],
                    cwd=ROOT,
                    env={name: value for name, value in os.environ.items() if name != "PYTHONPATH"},
                    stdin=subprocess.DEVNULL,
                    pass_fds=(theirs.fileno(),),
                )
        return self._connection


LOADED = LoadedProgram()
_at_install: dict[str, str] = {}


class QuickPopen(subprocess.Popen[Any]):
    """`Popen` that asks for a copy of the loaded program where a new Python would do the same."""

    def _execute_child(self, *values: Any) -> None:
        how = inspect.signature(NewPython._execute_child).bind(self, *values).arguments  # type: ignore[attr-defined]
        request = requested(how)
        if request is None:
            super()._execute_child(*values)  # type: ignore[misc]
            return
        ends = (how["p2cread"], how["c2pwrite"], how["errwrite"])
        self.pid = LOADED.start(request, [number if end == -1 else end for number, end in enumerate(ends)])
        self._child_created = True
        pipes = ("p2cread", "p2cwrite", "c2pread", "c2pwrite", "errread", "errwrite")
        self._close_pipe_fds(*(how[name] for name in pipes))  # type: ignore[attr-defined]


def requested(how: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return what a copy should run, or None if only a new Python does what `Popen` is told."""
    if isinstance(how["args"], str | bytes | os.PathLike) or how["executable"] or how["shell"]:
        return None
    words = [os.fsdecode(word) for word in how["args"]]
    if words[:2] != [sys.executable, "-m"] or not words[2:] or not words[2].startswith(MODULES):
        return None
    if how["preexec_fn"] or how["pass_fds"] or not how["close_fds"] or how["process_group"] != -1 or how["umask"] >= 0:
        return None
    if not how["uid"] is how["gid"] is how["gids"] is None:
        return None
    told = os.environ if how["env"] is None else how["env"]
    environment = {os.fsdecode(name): os.fsdecode(value) for name, value in told.items()}
    if _acting(environment) != _acting(_at_install):
        return None
    folder = Path(os.fsdecode(how["cwd"] or ".")).resolve()
    named = [Path(part) for part in environment.get("PYTHONPATH", "").split(os.pathsep) if part]
    if not folder.is_dir() or any((place / "mcp_server").is_dir() and place != ROOT for place in (folder, *named)):
        return None  # Python would say so itself, or would load another version of the program
    return {
        "module": words[2],
        "words": words[3:],
        "folder": str(folder),
        "environment": environment,
        "session": how["start_new_session"],
    }


def _acting(environment: Mapping[str, str]) -> dict[str, str]:
    """Return the variables that act while Python starts and that a copy cannot act on."""
    assumed = {"LANG": "C.UTF-8", **environment}  # Python assumes the same
    return {
        name: value
        for name, value in assumed.items()
        if name.startswith(BEFORE_ANY_CODE) and name not in WITHOUT_EFFECT
    }


def install() -> None:
    """From now on let whatever runs in this process start the program that way, where the system allows it."""
    if sys.platform == "linux" and hasattr(NewPython, "_execute_child"):
        _at_install.update(os.environ)
        subprocess.Popen = QuickPopen  # type: ignore[misc]
