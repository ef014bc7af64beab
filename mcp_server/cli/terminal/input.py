"""What a command is given to read: a file, or standard input, as text or as a JSON object."""

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
"""Stands for standard input in the place of a file."""
BLOCK = 65_536
_LOOK_S = 0.2
"""A thread that waits for what is typed, or piped, looks up so often, to see that nobody wants it any more."""


async def text_of(name: str) -> str:
    """Return what the file holds.

    Raises:
        WronglyAsked: it cannot be read, or is no text in UTF-8.
    """
    try:
        raw = await (_standard() if name == STANDARD else _file(Path(name)))
    except OSError as error:
        raise WronglyAsked(f"can't read {name}: {error.strerror or type(error).__name__}") from error
    try:
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise WronglyAsked(f"{name} is not UTF-8 text") from error


async def _file(path: Path) -> bytes:
    return await anyio.to_thread.run_sync(path.read_bytes, abandon_on_cancel=True)  # a pipe may have a name, too


async def _standard() -> bytes:
    """Return what standard input holds, up to its end. Interrupted meanwhile the program ends at once.

    Raises:
        WronglyAsked: the program was started without one.
    """
    if sys.stdin is None:
        raise WronglyAsked("there is no standard input to read")
    source, raw = cast("BufferedReader", sys.stdin.buffer), bytearray()
    while True:
        if await anyio.to_thread.run_sync(_more_comes, abandon_on_cancel=True):
            block = await anyio.to_thread.run_sync(source.read1, BLOCK)
            if not block:
                return bytes(raw)
            raw += block


def _more_comes() -> bool:
    """Return whether standard input, or its end, can be read without waiting."""
    try:
        return bool(select.select([sys.stdin.buffer], [], [], _LOOK_S)[0])
    except (OSError, ValueError):  # it is none that can be waited for: Windows waits for sockets only
        return True


async def object_of(name: str, option: str) -> dict[str, Any]:
    """Return the JSON object that the file holds; `option` is what named it.

    Raises:
        WronglyAsked: it holds something else.
    """
    try:
        found = json.loads(await text_of(name))
    except (ValueError, RecursionError) as error:
        raise WronglyAsked(f"{option}: {name} is not valid JSON: {error}") from error
    if not isinstance(found, dict):
        raise WronglyAsked(f"{option}: {name} is not a JSON object")
    return found
