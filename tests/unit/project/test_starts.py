"""A copy of the loaded program is started with the same as a new Python, and ends in the same way."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from tests.support.processes import starts

ROOT = Path(__file__).parents[3]
TOLD = [sys.executable, "-m", "tests.support.processes.told"]

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="only there a process can adopt another one")


def environment(**more: str) -> dict[str, str]:
    usual = {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}
    return {**usual, "PYTHONPATH": str(ROOT), "TOLD": "caf\u00e9 \udcff", **more}


def result(kind: type[subprocess.Popen[Any]], folder: Path, **how: Any) -> tuple[Any, ...]:
    with kind(
        [*TOLD, "3", "-m", "two words"],
        **{"cwd": folder, "env": environment(), **how},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        encoding="utf-8",
    ) as process:
        out, err = process.communicate("a line\n", timeout=60)
    return json.loads(out), err, process.returncode


@pytest.mark.parametrize("session", [True, False])
def test_a_copy_is_told_the_same_as_a_new_python(tmp_path: Path, *, session: bool) -> None:
    new = result(starts.NewPython, tmp_path, start_new_session=session)
    copy = result(starts.QuickPopen, tmp_path, start_new_session=session)
    assert {name: fact for name, fact in copy[0].items() if fact != new[0][name]} == {}
    assert copy == new
    assert (new[0]["parent"], new[0]["leads a session"], new[2]) == (os.getpid(), session, 3)


def test_a_copy_is_killed_and_interrupted_like_any_child(tmp_path: Path) -> None:
    for number, code in ((signal.SIGKILL, -signal.SIGKILL), (signal.SIGINT, -signal.SIGINT)):
        with starts.QuickPopen(
            [*TOLD, "0"],
            cwd=tmp_path,
            env=environment(),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        ) as process:
            assert process.stdout is not None
            process.stdout.readline()
            # Again, if it is still there: Python notices a signal that comes just before it begins to read only afterwards.
            for _ in range(60):
                process.send_signal(number)
                with suppress(subprocess.TimeoutExpired):
                    process.wait(1)
                    break
            assert process.returncode == code


def ending(kind: type[subprocess.Popen[Any]], way: str, folder: Path, *, read: bool) -> tuple[Any, ...]:
    """Return what a program wrote before it ended that way, the last line of its errors, and its exit code."""
    reading, writing = os.pipe()
    if not read:
        os.close(reading)  # before the program starts, so that it never finds a reader
    with kind(
        [sys.executable, "-m", "tests.support.processes.ends", way],
        cwd=folder,
        env=environment(),
        stdout=writing,
        stderr=subprocess.PIPE,
        encoding="utf-8",
    ) as process:
        os.close(writing)
        err = process.communicate(timeout=60)[1]
    if not read:
        return "", err.splitlines()[-1:], process.returncode
    with os.fdopen(reading, encoding="utf-8") as out:
        return out.read(), err.splitlines()[-1:], process.returncode


@pytest.mark.parametrize("read", [True, False], ids=["read", "nobody reads it"])
@pytest.mark.parametrize("way", ["return", "0", "3", "a reason", "error", "interrupt"])
def test_a_copy_ends_like_a_new_python(way: str, tmp_path: Path, *, read: bool) -> None:
    new, copy = (ending(kind, way, tmp_path, read=read) for kind in (starts.NewPython, starts.QuickPopen))
    assert copy == new
    assert new[0] == ("the line\nthe thread\nthe function\n" if read else "")


@pytest.mark.parametrize(
    ("words", "how"),
    [
        ([sys.executable, "-P", "-m", "mcp_server"], {}),
        ([sys.executable, "-c", "pass"], {}),
        ([sys.executable, "-m", "venv"], {}),
        (["/bin/sh", "-m", "mcp_server"], {}),
        ([sys.executable, "-m", "mcp_server"], {"env": environment(PYTHONHASHSEED="0")}),
        ([sys.executable, "-m", "mcp_server"], {"env": environment(LC_ALL="POSIX")}),
        ([sys.executable, "-m", "mcp_server"], {"pass_fds": (0,)}),
        ([sys.executable, "-m", "mcp_server"], {"close_fds": False}),
        ([sys.executable, "-m", "mcp_server"], {"umask": 0o77}),
    ],
)
def test_whatever_a_copy_cannot_do_needs_a_new_python(words: list[str], how: dict[str, Any]) -> None:
    usual: dict[str, Any] = {
        "executable": None,
        "shell": False,
        "preexec_fn": None,
        "pass_fds": (),
        "close_fds": True,
        "process_group": -1,
    }
    usual |= {"umask": -1, "uid": None, "gid": None, "gids": None, "cwd": None, "env": environment()}
    usual |= {"start_new_session": False}
    assert starts.requested({**usual, "args": [sys.executable, "-m", "mcp_server"]}) is not None
    assert starts.requested({**usual, "args": words, **how}) is None


@pytest.mark.parametrize("way", ["folder", "path"])
def test_another_version_of_the_program_needs_a_new_python(tmp_path: Path, way: str) -> None:
    (tmp_path / "mcp_server").mkdir()
    (tmp_path / "mcp_server" / "__init__.py").touch()
    (tmp_path / "mcp_server" / "__main__.py").write_text("print('another version')", encoding="utf-8")
    (elsewhere := tmp_path / "elsewhere").mkdir()
    how: dict[str, Any] = {"cwd": tmp_path}
    if way == "path":
        how = {"cwd": elsewhere, "env": environment(PYTHONPATH=str(tmp_path))}
    with starts.QuickPopen([sys.executable, "-m", "mcp_server"], stdout=subprocess.PIPE, text=True, **how) as process:
        assert process.communicate(timeout=60)[0] == "another version\n"
