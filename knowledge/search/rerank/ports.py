"""The interfaces of a reranker and of the object that chooses one. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol


class Reranker(Protocol):
    """Says how well passages answer a question, reading both together."""

    @property
    def name(self) -> str:
        """The model, as people know it."""
        ...

    async def scores(self, question: str, passages: Sequence[str]) -> Sequence[float]:
        """Return a number for each passage, higher for a better answer. Numbers of different questions can't be compared.

        Raises:
            RerankerUnavailable: the model cannot be loaded or asked now.
        """
        ...


class RerankerChoice(Protocol):
    """The reranker that a person chose, which may change while the process runs."""

    @property
    def is_on(self) -> bool:
        """Whether a reranker was chosen."""
        ...

    @property
    def limit_s(self) -> float:
        """How many seconds a search may wait for the reranker."""
        ...

    def load(self) -> Reranker:
        """Return the reranker; raises `RerankerUnavailable`."""
        ...
