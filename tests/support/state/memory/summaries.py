"""Map lines that end with the process: slow, obvious, and the specification of the others."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace
from datetime import datetime

from knowledge.history.acts import storable
from knowledge.history.timestamps import aware
from knowledge.search.summaries.ports import ModelLine, SummariesSpent


class MemorySummaries:
    """Map lines in this process."""

    def __init__(self) -> None:
        self._made: dict[str, ModelLine] = {}

    async def lines(self, keys: Collection[str]) -> Mapping[str, str]:
        """Return the existing lines with these keys."""
        return {key: self._made[key].text for key in keys if key in self._made}

    async def keep(self, made: ModelLine) -> None:
        """Keep the line, unless that key already has one."""
        sound = replace(made, text=storable(made.text), model=storable(made.model), at=aware(made.at))
        self._made.setdefault(made.key, sound)

    async def spent(self, since: datetime) -> SummariesSpent:
        """Return the lines made since then."""
        made = [one for one in self._made.values() if one.at >= since]
        return SummariesSpent(len(made), sum(one.tokens for one in made))

    async def count(self) -> int:
        """Return how many lines with a text there are."""
        return sum(one.text != "" for one in self._made.values())

    async def trim(self, most: int) -> None:
        """Forget all but the last kept ones."""
        for key in list(self._made)[: max(0, len(self._made) - most)]:
            del self._made[key]
