"""Cutting a document into the pieces that search ranks. Pure."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Chunk:
    """A run of whole blocks under one heading.

    `section` is the heading path, outermost first, `()` before the first heading; lines count from 1 in the file,
    both ends included; `text` is those lines as they stand.
    """

    ordinal: int
    section: tuple[str, ...]
    line_start: int
    line_end: int
    text: str

    @property
    def indexed_text(self) -> str:
        """What is embedded and searched: the heading path, then the text. Never the file's name, so a rename costs nothing."""
        return " > ".join(self.section) + "\n" + self.text if self.section else self.text
