"""Read a file that an option names, or standard input, as text or as a JSON object."""

from __future__ import annotations

import json
import select
import sys
from io import BufferedReader
from pathlib import Path
from typing import Any, cast

import anyio.to_thread

from mcp_server.cli.terminal.options import WronglyAsked

STANDARD = "-"
"""The file name that stands for standard input or output."""
BLOCK = 65_536
_LOOK_S = 0.2
"""How often a thread that waits for input checks whether the program still needs it."""


async def text_of(name: str) -> str:
    """Return the text of the file.

    Raises:
        WronglyAsked: it cannot be read, or is not UTF-8.
    """
    try:
        # Abandoned when interrupted: the name may be that of a pipe that nobody writes to.
        raw = await (
            _standard_input()
            if name == STANDARD
            else anyio.to_thread.run_sync(Path(name).read_bytes, abandon_on_cancel=True)
        )
    except OSError as error:
        raise WronglyAsked(f"can't read {name}: {error.strerror or type(error).__name__}") from error
    try:
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise WronglyAsked(f"{name} is not UTF-8 text") from error


async def _standard_input() -> bytes:
    """Return standard input up to its end. If the program is interrupted in the meantime, it ends at once.

    Raises:
        WronglyAsked: the program was started without one.
    """
    if sys.stdin is None:
        raise WronglyAsked("there is no standard input to read")
    source, raw = cast("BufferedReader", sys.stdin.buffer), bytearray()
    while True:
        if await anyio.to_thread.run_sync(_input_comes, abandon_on_cancel=True):
            block = await anyio.to_thread.run_sync(source.read1, BLOCK)
            if not block:
                return bytes(raw)
            raw += block


def _input_comes() -> bool:
    """Return whether standard input, or its end, can be read without waiting."""
    try:
        return bool(select.select([sys.stdin.buffer], [], [], _LOOK_S)[0])
    except (OSError, ValueError):  # it cannot be waited for: Windows selects sockets only
        return True


async def object_of(name: str, option: str) -> dict[str, Any]:
    """Return the JSON object in the file that `option` names.

    Raises:
        WronglyAsked: the file holds something else.
    """
    try:
        found = json.loads(await text_of(name))
    except (ValueError, RecursionError) as error:
        raise WronglyAsked(f"{option}: {name} is not valid JSON: {error}") from error
    if not isinstance(found, dict):
        raise WronglyAsked(f"{option}: {name} is not a JSON object")
    return found
