"""The interface of a language model that may judge evidence before it is merged. It can add contradictions, never resolve one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from knowledge.merge.evidence.undecided import Pair
from knowledge.merge.model import Doubt


@dataclass(frozen=True, slots=True)
class PairJudgement:
    """The pairs that can't both be true, and a note for the caller, "" for none."""

    doubts: tuple[Doubt, ...] = ()
    note: str = ""


class ContradictionJudge(Protocol):
    """A language model that judges pairs of statements. Several tasks may use it at once."""

    async def judged(self, pairs: Sequence[Pair]) -> PairJudgement:
        """Return which of these pairs can't both be true, within a few seconds.

        Never raises for failures of the model or its server: then there are no doubts, and the note says why.
        """
        ...
