"""A terminal that a person types into: one key at a time, or a line."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TextIO

import anyio.to_thread

from agents.engine.events import Channel
from mcp_server.cli.terminal.output import say

_NAMES = {
    "\r": "enter",
    "\n": "enter",
    " ": "space",
    "\x7f": "backspace",
    "\b": "backspace",
    "\x1b": "escape",
    "\x1b[A": "up",
    "\x1b[B": "down",
    "\x1b[C": "right",
    "\x1b[D": "left",
    "\x1bOA": "up",  # arrows of a terminal in application mode
    "\x1bOB": "down",
    "\x1bOC": "right",
    "\x1bOD": "left",
    "\x1b[H": "home",
    "\x1b[F": "end",
    "\x1b[5~": "pageup",
    "\x1b[6~": "pagedown",
}
_LOOK_S = 0.2
"""How often a thread that waits for a key checks whether the program still needs it."""


def split(typed: str) -> list[str]:
    """Return the names of the keys in what a terminal sent at once. An escape sequence is one key; unknown ones are left out."""
    keys: list[str] = []
    while typed:
        size = next((n for n in (4, 3, 1) if typed[:n] in _NAMES), 1)  # the lengths of the keys above
        # An unknown sequence (CSI, to its final byte) is dropped whole: its letters would otherwise count as keys, such as `a`.
        if size == 1 and typed.startswith("\x1b[") and len(typed) > 2:
            size = next((n for n, c in enumerate(typed[2:], 3) if "@" <= c <= "~"), len(typed))
        else:
            keys.append(_NAMES.get(typed[:size], typed[:size]))
        typed = typed[size:]
    return keys


def is_terminal() -> bool:
    """Return whether input and output are a terminal, so that a person may be there."""
    streams: tuple[TextIO | None, ...] = (sys.stdin, sys.stderr)  # None where the program was started without it
    return all(stream is not None and stream.isatty() for stream in streams)


def decision_channel() -> Channel:
    """Return how a decision made here counts: without a terminal a program may have made it, so it counts as relayed."""
    return "terminal" if is_terminal() else "relayed"


async def line(prompt: str) -> str:
    """Return the line typed after `prompt`, without spaces around it; "" at the end of input."""
    print(prompt, end="", file=sys.stderr, flush=True)
    # A thread that waits within `readline` cannot be called off, and an interrupted program would not end before Enter.
    while not await anyio.to_thread.run_sync(_line_comes, _LOOK_S, abandon_on_cancel=True):
        pass
    typed: str = await anyio.to_thread.run_sync(sys.stdin.readline, abandon_on_cancel=True)
    return typed.strip()


async def confirms(question: str) -> bool:
    """Return whether the person answers the question with yes."""
    return (await line(f"{question} [y/N] ")).lower() in ("y", "yes")


async def agrees(question: str, *, yes: bool) -> bool:
    """Return whether the person agrees to a change: beforehand with `yes`, or now. If not, say that nothing was changed."""
    if yes:
        return True
    if not is_terminal():
        say("nothing was changed: answer at a terminal, or add --yes")
        return False
    if await confirms(question):
        return True
    say("nothing was changed")
    return False


if sys.platform == "win32":
    import msvcrt
    import time

    @contextmanager
    def single_keys() -> Iterator[None]:
        """Change nothing: the console hands out keys one by one already."""
        yield

    @contextmanager
    def lines() -> Iterator[None]:
        """Change nothing."""
        yield

    def _line_comes(_timeout_s: float) -> bool:
        return True

    def _typed(timeout_s: float) -> str:
        until = time.monotonic() + timeout_s
        while time.monotonic() < until:
            if msvcrt.kbhit():
                first = msvcrt.getwch()
                # Arrows and the like come as two codes, of which the first is one of these.
                arrows = {"H": "\x1b[A", "P": "\x1b[B", "M": "\x1b[C", "K": "\x1b[D", "I": "\x1b[5~", "Q": "\x1b[6~"}
                return arrows.get(msvcrt.getwch(), "") if first in "\x00\xe0" else first
            time.sleep(0.02)
        return ""

else:
    import select
    import termios
    import tty

    @contextmanager
    def single_keys() -> Iterator[None]:
        """Have every key arrive as it is typed, without echo, until the block ends; Ctrl-C still interrupts."""
        fd = sys.stdin.fileno()
        before = termios.tcgetattr(fd)
        tty.setcbreak(fd)
        try:
            yield
        finally:
            termios.tcsetattr(fd, termios.TCSADRAIN, before)

    @contextmanager
    def lines() -> Iterator[None]:
        """Have lines typed as usual, with echo and editing, until the block ends."""
        fd = sys.stdin.fileno()
        before = termios.tcgetattr(fd)
        usual = [*before]
        usual[3] |= termios.ICANON | termios.ECHO  # 3: the local modes
        termios.tcsetattr(fd, termios.TCSADRAIN, usual)
        try:
            yield
        finally:
            termios.tcsetattr(fd, termios.TCSADRAIN, before)

    def _line_comes(timeout_s: float) -> bool:
        """Return whether a line can be read without waiting: a terminal gives whole lines, one at a time."""
        return not sys.stdin.isatty() or bool(select.select([sys.stdin], [], [], timeout_s)[0])

    def _typed(timeout_s: float) -> str:
        fd = sys.stdin.fileno()
        if not select.select([fd], [], [], timeout_s)[0]:
            return ""
        try:
            sent = os.read(fd, 1024)
        except OSError:  # how Linux says that the terminal has gone; others return nothing
            sent = b""
        if not sent:
            raise EOFError
        return sent.decode(errors="replace")


async def keys() -> list[str]:
    """Return the keys that were typed within a moment, often none.

    Raises:
        EOFError: the terminal has gone.
    """
    return split(await anyio.to_thread.run_sync(_typed, _LOOK_S, abandon_on_cancel=True))
