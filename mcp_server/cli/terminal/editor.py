"""The person's own text editor."""

from __future__ import annotations

import shlex
import subprocess
import tempfile
from pathlib import Path

import anyio.to_thread

from mcp_server.app.settings.environment import text_editor
from mcp_server.cli.terminal.options import WronglyAsked


async def edited(text: str, *, suffix: str = ".md") -> str:
    """Return `text` as the person saved it in their editor: VISUAL, EDITOR, or the system's usual one.

    Raises:
        WronglyAsked: the editor can't be started, or ended with an error.
    """
    command = text_editor()

    def run() -> str:
        with tempfile.TemporaryDirectory(prefix="knowledge-forge-") as folder:
            path = Path(folder) / f"text{suffix}"
            path.write_text(text, encoding="utf-8")
            try:
                ended = subprocess.run([*shlex.split(command), str(path)], check=False)  # noqa: S603 - the person's own editor
            except (OSError, ValueError) as error:
                raise WronglyAsked(f"the editor {command!r} can't be started ({error}); set EDITOR") from error
            if ended.returncode:
                raise WronglyAsked(f"the editor {command!r} ended with code {ended.returncode}; nothing was changed")
            return path.read_text(encoding="utf-8")

    return await anyio.to_thread.run_sync(run)
