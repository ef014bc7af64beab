"""Text that others wrote, in a terminal: nothing in it moves the cursor, hides, or changes direction.

`visible` is for a line whose every character matters. The program writes everything through `EscapedStream`, whichever verb
it runs, so that titles, hosts' names, diffs and unexpected errors are harmless too.
"""

from __future__ import annotations

import re
from typing import TextIO

from knowledge.pages.paths import ACTING
from knowledge.wire.addresses import without_secrets

_ACTS = re.compile(f"\r\n|[{ACTING}]")
_BREAKS = {"\n": "⟦U+000A⟧", "\r": "⟦U+000D⟧"}


def visible(text: str) -> str:
    """Return `text` with a mark in the place of whatever would not be seen as it is; line ends get one too.

    A carriage return at the very end is that of a file with Windows line ends, and is left out.
    """
    from mcp_server.web.text.sanitize import spelled_out

    line = spelled_out(text.removesuffix("\r"))
    for character, shown in _BREAKS.items():
        line = line.replace(character, shown)
    return line.expandtabs()


def harmless(text: str) -> str:
    """Return `text` with a mark in the place of each control and bidirectional character but line ends and tabs."""
    return _ACTS.sub(lambda found: found[0] if found[0] == "\r\n" else f"⟦U+{ord(found[0]):04X}⟧", text)


def one_line(text: str) -> str:
    """Return `text` as `harmless` does, on one line: line ends have marks too."""
    return "".join(_BREAKS.get(character, character) for character in harmless(text))


class EscapedStream:
    """A stream on which what would act on a terminal is seen instead. For the rest it is the stream that it writes to.

    `remarks`: what the program and its libraries say, such as tracebacks and logs, in which no address gives a password away.
    `print` writes a text and its line end one after the other, so a carriage return at the end of a text waits for what follows.
    """

    def __init__(self, stream: TextIO, *, remarks: bool = False) -> None:
        self.stream, self._remarks = stream, remarks
        self._held = ""

    def write(self, text: str) -> int:
        """Write `text` so that it is seen."""
        whole = self._held + (without_secrets(text) if self._remarks else text)
        self._held = "\r" if whole.endswith("\r") else ""
        self.stream.write(harmless(whole.removesuffix("\r") if self._held else whole))
        return len(text)

    def writelines(self, lines: list[str]) -> None:
        """Write them one after the other."""
        for line in lines:
            self.write(line)

    def __getattr__(self, name: str) -> object:
        return getattr(self.stream, name)
