"""What a language model may be asked before evidence is merged. It adds contradictions for a person, and settles none."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from knowledge.merge.evidence.undecided import Pair
from knowledge.merge.model import Doubt


@dataclass(frozen=True, slots=True)
class PairJudgement:
    """What came of asking: the pairs that cannot both be true, and what the caller should know of it, "" for nothing."""

    doubts: tuple[Doubt, ...] = ()
    note: str = ""


class ContradictionJudge(Protocol):
    """A language model that is asked about pairs of statements. Safe to use by several tasks at once."""

    async def judged(self, pairs: Sequence[Pair]) -> PairJudgement:
        """Return which of these pairs cannot both be true, within a few seconds.

        Never raises for what a model or its server does: then nothing is doubted, and the note says so.
        """
        ...
