"""What a command is given to read: a file, or standard input, as text or as a JSON object."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import anyio.to_thread

from mcp_server.cli.options import WronglyAsked

STANDARD = "-"
"""Stands for standard input in the place of a file."""


async def text_of(name: str) -> str:
    """Return what the file holds.

    Raises:
        WronglyAsked: it cannot be read, or is no text in UTF-8.
    """
    try:
        raw = await anyio.to_thread.run_sync(_read, name)
    except OSError as error:
        raise WronglyAsked(f"{name} cannot be read: {error.strerror or type(error).__name__}") from error
    try:
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise WronglyAsked(f"{name} is no text in UTF-8") from error


def _read(name: str) -> bytes:
    return sys.stdin.buffer.read() if name == STANDARD else Path(name).read_bytes()


async def object_of(name: str, option: str) -> dict[str, Any]:
    """Return the JSON object that the file holds; `option` is what named it.

    Raises:
        WronglyAsked: it holds something else.
    """
    try:
        found = json.loads(await text_of(name))
    except (ValueError, RecursionError) as error:
        raise WronglyAsked(f"{option}: {name} holds no JSON: {error}") from error
    if not isinstance(found, dict):
        raise WronglyAsked(f"{option}: {name} holds no JSON object")
    return found
