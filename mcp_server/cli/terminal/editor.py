"""The person's own text editor."""

from __future__ import annotations

import shlex
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import anyio.to_thread

from mcp_server.app.settings.environment import text_editor
from mcp_server.cli.terminal.options import WronglyAsked


def open_in_editor(file: Path, *, kept: str = "nothing was changed") -> None:
    """Let the person change the file in their editor: VISUAL, EDITOR, or the system's usual one.

    Raises:
        WronglyAsked: the editor can't be started, or ended with an error; `kept` is what the message says about the text.
    """
    command = text_editor()
    try:
        words = shlex.split(command, posix=sys.platform != "win32")
        with _interrupts_left_to_it():
            ended = subprocess.run([*words, str(file)], check=False)  # noqa: S603 - the person's own editor
    except (OSError, ValueError) as error:
        raise WronglyAsked(f"the editor {command!r} can't be started ({error}); set EDITOR") from error
    if ended.returncode:
        raise WronglyAsked(f"the editor {command!r} ended with code {ended.returncode}; {kept}")


async def edited(text: str, *, suffix: str = ".md") -> str:
    """Return `text` as the person saved it in their editor.

    Raises:
        WronglyAsked: the editor can't be started, or ended with an error.
    """

    def run() -> str:
        with tempfile.TemporaryDirectory(prefix="knowledge-forge-") as folder:
            path = Path(folder) / f"text{suffix}"
            path.write_text(text, encoding="utf-8")
            open_in_editor(path)
            return path.read_text(encoding="utf-8")

    return await anyio.to_thread.run_sync(run)


@contextmanager
def _interrupts_left_to_it() -> Iterator[None]:
    """Leave Ctrl-C to the editor, which runs in the same terminal."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGINT, lambda *_: None)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
