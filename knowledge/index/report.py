"""What there is to say of an engine: which it is, where it runs, whether it answers and how far it is behind. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, slots=True)
class EngineReport:
    """An engine as it is now. `behind` counts what the database has stored or removed and it has not taken in yet.

    `where` is a place for a person to read: `in this process`, a folder, a server's address without secrets. `problem`
    is a sentence, empty when all is well.
    """

    name: str
    kind: Literal["keywords", "vectors", "keywords and vectors", "embedder", "state"]
    where: str
    reachable: bool = True
    behind: int = 0
    problem: str = ""

    def __str__(self) -> str:
        """Return it in one line."""
        if not self.reachable:
            return f"{self.kind}: {self.name}, {self.where}: {self.problem or 'does not answer'}"
        late = f", behind by {self.behind} rows" if self.behind else ""
        return f"{self.kind}: {self.name}, {self.where}{late}" + (f": {self.problem}" if self.problem else "")
