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
        """Return the lines with these keys, as far as they exist."""
        return {key: self._made[key].text for key in keys if key in self._made}

    async def keep(self, made: ModelLine) -> None:
        """Keep the line, unless there is one of that key."""
        sound = replace(made, text=storable(made.text), model=storable(made.model), at=aware(made.at))
        self._made.setdefault(made.key, sound)

    async def spent(self, since: datetime) -> SummariesSpent:
        """Return what was made from then on."""
        made = [one for one in self._made.values() if one.at >= since]
        return SummariesSpent(len(made), sum(one.tokens for one in made))

    async def count(self) -> int:
        """Return how many lines with a text there are."""
        return sum(one.text != "" for one in self._made.values())

    async def trim(self, most: int) -> None:
        """Forget all but those that were kept last."""
        for key in list(self._made)[: max(0, len(self._made) - most)]:
            del self._made[key]
