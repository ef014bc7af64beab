"""The contract of a store of map lines. `tests/support/state/memory/summaries.py` is the specification."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol


@dataclass(frozen=True, slots=True)
class Made:
    """One line that a model made. `key` names by its content what it is of; `text` is "" where there was nothing to say.

    `tokens` are those of question and answer together.
    """

    key: str
    text: str
    model: str
    tokens: int
    at: datetime


@dataclass(frozen=True, slots=True)
class SummariesSpent:
    """What was made in some time: how many lines, also empty ones, of how many tokens."""

    lines: int
    tokens: int


class Summaries(Protocol):
    """Lines of maps. A content has one line for ever, so whoever has read it need not ask again."""

    async def lines(self, keys: Collection[str]) -> Mapping[str, str]:
        """Return the lines that there are of these, "" among them, by key."""
        ...

    async def keep(self, made: Made) -> None:
        """Keep the line, unless there is one of that key."""
        ...

    async def spent(self, since: datetime) -> SummariesSpent:
        """Return what was made from then on."""
        ...

    async def count(self) -> int:
        """Return how many lines with a text there are."""
        ...

    async def trim(self, most: int) -> None:
        """Forget all but the `most` that were kept last."""
        ...
