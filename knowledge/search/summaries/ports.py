"""The interface of a store of map lines. `tests/support/state/memory/summaries.py` is the specification."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol


@dataclass(frozen=True, slots=True)
class ModelLine:
    """One line that a model made. `key` names the content that it describes; `text` is "" if there was nothing to say.

    `tokens` counts question and answer together.
    """

    key: str
    text: str
    model: str
    tokens: int
    at: datetime


@dataclass(frozen=True, slots=True)
class SummariesSpent:
    """How many lines were made in a period, empty ones included, and how many tokens they cost."""

    lines: int
    tokens: int


class Summaries(Protocol):
    """Map lines by key. The line of a key never changes, so it can be cached."""

    async def lines(self, keys: Collection[str]) -> Mapping[str, str]:
        """Return the existing lines of these keys, also those with an empty text."""
        ...

    async def keep(self, made: ModelLine) -> None:
        """Store the line, unless its key has one."""
        ...

    async def spent(self, since: datetime) -> SummariesSpent:
        """Return the lines made since then."""
        ...

    async def count(self) -> int:
        """Return the number of lines with a text."""
        ...

    async def trim(self, most: int) -> None:
        """Delete all but the `most` newest lines."""
        ...
