"""Problems in a team's files, each with its file and line. Pure."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

MOST_PROBLEMS = 40
"""Further problems are only counted: after forty corrections the author checks again anyway."""
LONGEST_MEANT = 100
"""A longer name is not a typo, and comparing two names takes time proportional to the product of their lengths."""


@dataclass(frozen=True, slots=True, order=True)
class SpecProblem:
    """Something wrong in a file; lines count from 1."""

    file: str
    line: int
    text: str

    def __str__(self) -> str:
        return f"{self.file}:{self.line}: {self.text}"


class Problems:
    """Collects the problems of one agent while it is read, so that all of them are reported at once."""

    def __init__(self, file: str) -> None:
        self.file = file
        self._all: dict[SpecProblem, None] = {}

    def __len__(self) -> int:
        return len(self._all)

    def add(self, line: int, text: str, file: str = "") -> None:
        """Record a problem; `file` names another file that belongs to this one."""
        self._all[SpecProblem(file or self.file, line, text)] = None

    def in_order(self) -> Sequence[SpecProblem]:
        """Return the problems by file and line; if there are too many, the last one counts the rest."""
        found = sorted(self._all, key=lambda p: (p.file != self.file, p.file, p.line))
        if len(found) <= MOST_PROBLEMS:
            return tuple(found)
        left = len(found) - MOST_PROBLEMS
        return (*found[:MOST_PROBLEMS], SpecProblem(self.file, found[MOST_PROBLEMS].line, f"and {left} more problems"))


def meant(name: str, known: Iterable[str], *, otherwise: str | None = None) -> str:
    """Return the end of a sentence about an unknown name: the known name that it resembles, or `otherwise`, or all names."""
    names = list(known)
    near = difflib.get_close_matches(name, names, n=1) if len(name) <= LONGEST_MEANT else ()
    if near:
        return f"; did you mean {near[0]!r}?"
    if otherwise is not None:
        return otherwise
    return f"; there are {', '.join(names)}" if names else "; there are none"


def short(name: str) -> str:
    """Return the name in quotes, cut if it is long."""
    return repr(name if len(name) <= 60 else name[:57] + "...")
