"""Lines that a person types at a terminal of this process."""

from __future__ import annotations

import io
import os
import sys
from unittest.mock import patch

import anyio
import pytest

from mcp_server.cli.terminal import keyboard

pytestmark = pytest.mark.skipif(os.name == "nt", reason="there are no pseudo-terminals")


def test_keys_typed_after_a_cancelled_question_go_to_the_next_one() -> None:
    """A program interrupted at a question ends at once, and doesn't wait for Enter."""
    import pty

    ours, theirs = pty.openpty()

    async def twice() -> str:
        with anyio.CancelScope() as first:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(keyboard.line, "one? ")
                await anyio.wait_all_tasks_blocked()
                first.cancel()
        os.write(ours, b"two\n")
        with anyio.fail_after(60):
            return await keyboard.line("two? ")

    with (
        os.fdopen(theirs, "r+b", buffering=0) as terminal,
        io.TextIOWrapper(terminal) as text,
        patch.object(sys, "stdin", text),
        patch.object(sys, "stderr", io.StringIO()),
    ):
        assert anyio.run(twice) == "two"
    os.close(ours)
