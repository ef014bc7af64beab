"""The labelled questions, and the fixed split into visible and hidden ones."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Literal

from knowledge.search.answers import RouteMode

Half = Literal["tune", "test"]


@dataclass(frozen=True, slots=True)
class Labelled:
    """A question as someone asked it, its correct route, and its source."""

    id: str
    query: str
    language: str
    label: RouteMode
    source: str

    @property
    def half(self) -> Half:
        """Return its half, permanently: by a hash of its id."""
        return "tune" if hashlib.sha256(self.id.encode()).digest()[0] % 2 == 0 else "test"


@cache
def questions(half: Half | None = None) -> tuple[Labelled, ...]:
    """Return the questions of one half, or all of them."""
    lines = (Path(__file__).parent / "queries.jsonl").read_text(encoding="utf-8").splitlines()
    found = tuple(Labelled(**entry) for entry in map(json.loads, lines))
    return tuple(each for each in found if half is None or each.half == half)
