"""A process that runs `knowledge-forge ...` and kills itself at a named step of a move or restore.

`python -m tests.crash.mover STEP WORDS...`
"""

from __future__ import annotations

import os
import signal
import sys

from mcp_server.__main__ import main
from mcp_server.app.state_copies import change
from mcp_server.cli.state import move


def die_at(step: str) -> None:
    """Replace the functions that a move in a terminal, and a change on the site, call at every step."""

    def on_step(name: str) -> None:
        if name == step:
            os.kill(os.getpid(), signal.SIGKILL)

    move.on_step = on_step
    change.on_step = on_step


if __name__ == "__main__":
    die_at(sys.argv[1])
    sys.exit(main(sys.argv[2:]))
