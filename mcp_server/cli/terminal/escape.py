"""Make text that others wrote harmless in a terminal: nothing in it moves the cursor, hides or changes direction.

An escape sequence in a title, a host's name or a diff could otherwise clear the screen, forge a prompt, or show a
person something other than what they approve. `visible` is for a line whose every character matters. The program prints
everything through `EscapedStream`, whichever verb it runs, so that unexpected errors are harmless too.
"""

from __future__ import annotations

import re
from typing import TextIO

from knowledge.pages.paths import ACTING
from knowledge.wire.addresses import without_secrets

_ACTS = re.compile(f"\r\n|[{ACTING}]")
_BREAKS = {"\n": "⟦U+000A⟧", "\r": "⟦U+000D⟧"}


def visible(text: str) -> str:
    """Return `text` as one line in which every invisible or misleading character is replaced by a mark.

    A carriage return at the very end belongs to a file with Windows line ends, and is left out.
    """
    from mcp_server.web.text.sanitize import spelled_out  # `serve`, which loads this file, shows no lines

    line = spelled_out(text.removesuffix("\r"))
    for character, shown in _BREAKS.items():
        line = line.replace(character, shown)
    return line.expandtabs()


def harmless(text: str) -> str:
    """Return `text` with a mark in the place of each control and bidirectional character except line ends and tabs."""
    return _ACTS.sub(lambda found: found[0] if found[0] == "\r\n" else f"⟦U+{ord(found[0]):04X}⟧", text)


def one_line(text: str) -> str:
    """Return `text` as `harmless` does, on one line: line ends are marked too."""
    return "".join(_BREAKS.get(character, character) for character in harmless(text))


class EscapedStream:
    """A stream that writes `harmless` text to another stream, and otherwise behaves like it.

    `remarks`: it carries messages of the program and its libraries, such as tracebacks and logs. Passwords in addresses are left
    out.
    """

    def __init__(self, stream: TextIO, *, remarks: bool = False) -> None:
        self.stream, self._remarks = stream, remarks
        self._carriage_return = ""

    def write(self, text: str) -> int:
        """Write `text` with a mark in the place of each character that would act on the terminal."""
        complete = self._carriage_return + (without_secrets(text) if self._remarks else text)
        # `print` writes a text and its line end separately. Only what follows tells whether a carriage return at the end of a
        # text is half of a Windows line end, so it waits for that.
        self._carriage_return = "\r" if complete.endswith("\r") else ""
        self.stream.write(harmless(complete.removesuffix("\r")))
        return len(text)

    def writelines(self, lines: list[str]) -> None:
        """Write the lines one after the other."""
        for line in lines:
            self.write(line)

    def __getattr__(self, name: str) -> object:
        return getattr(self.stream, name)
