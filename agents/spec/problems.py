"""What is wrong with a team's agents, each with its file and line. Pure."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

MOST_PROBLEMS = 40
"""More of one file are counted, not told: who has mended forty looks again anyway."""
LONGEST_MEANT = 100
"""Longer names are no slip of the pen, and comparing two of them takes as long as both lengths multiplied."""


@dataclass(frozen=True, slots=True, order=True)
class SpecProblem:
    """Something wrong in a file; lines count from 1."""

    file: str
    line: int
    text: str

    def __str__(self) -> str:
        return f"{self.file}:{self.line}: {self.text}"


class Problems:
    """Collects what is wrong while one agent is read, so that all of it is told at once."""

    def __init__(self, file: str) -> None:
        self.file = file
        self._all: dict[SpecProblem, None] = {}

    def __bool__(self) -> bool:
        return bool(self._all)

    def add(self, line: int, text: str, file: str = "") -> None:
        """Note a problem, of another file that belongs to this one if it is named."""
        self._all[SpecProblem(file or self.file, line, text)] = None

    def told(self) -> Sequence[SpecProblem]:
        """Return them in the order of files and lines; the last one counts those that are left out."""
        found = sorted(self._all, key=lambda p: (p.file != self.file, p.file, p.line))
        if len(found) <= MOST_PROBLEMS:
            return tuple(found)
        left = len(found) - MOST_PROBLEMS
        return (*found[:MOST_PROBLEMS], SpecProblem(self.file, found[MOST_PROBLEMS].line, f"and {left} more problems"))


def meant(name: str, known: Iterable[str]) -> str:
    """Return how a sentence about an unknown name ends: with the one that was probably meant, or with all of them."""
    names = list(known)
    near = difflib.get_close_matches(name, names, n=1) if len(name) <= LONGEST_MEANT else ()
    if near:
        return f"; did you mean {near[0]!r}?"
    return f"; there are {', '.join(names)}" if names else "; there are none"


def short(name: str) -> str:
    """Return the name, quoted, cut where it is long."""
    return repr(name if len(name) <= 60 else name[:57] + "...")
