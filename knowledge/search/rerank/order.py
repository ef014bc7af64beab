"""Puts the first passages in the order that a reranker gives them, within a time limit."""

from __future__ import annotations

import logging
import math
from collections.abc import Sequence
from dataclasses import replace

import anyio

from knowledge.errors import RerankerUnavailable
from knowledge.pages.markdown.chunk import indexed_text
from knowledge.search.query.question import SearchQuestion
from knowledge.search.ranking.ranker import Ranking
from knowledge.search.rerank.ports import RerankerChoice

log = logging.getLogger(__name__)

RERANKED = 30
"""Number of passages that are reranked. The answer is rarely further down, and each passage costs the same."""
LONGEST = 2_000
"""Characters of a passage that are read: about 500 tokens, which is what most cross-encoders accept."""
REST_S = 10.0
"""Seconds without reranking after a failure, so that not every search waits in vain."""


class Reranking:
    """The last step of ranking. Without a reranker, or if it takes too long, the order stays as it was."""

    def __init__(self, choice: RerankerChoice) -> None:
        self._choice = choice
        self._resting: tuple[float, str] = (-math.inf, "")

    @property
    def depth(self) -> int:
        """The number of passages that the reranker reads; 0 without a reranker."""
        return RERANKED if self._choice.is_on else 0

    async def of(self, ranking: Ranking, question: SearchQuestion) -> Ranking:
        """Return `ranking` with its first passages reranked, or unchanged with a note that says why.

        The first place keeps the score of the first place, and so on: a cross-encoder's own numbers depend on the model, while
        verdicts were fitted to these scores. Exact names stay first.
        """
        chosen = [seq for seq in ranking.ranked if seq not in ranking.exact][:RERANKED]
        # Most cross-encoders know one language, and a foreign question is ranked by meaning already.
        if not self._choice.is_on or len(chosen) < 2 or question.gap is not None:
            return ranking
        until, note = self._resting
        if anyio.current_time() < until:
            return replace(ranking, notes=(*ranking.notes, note))
        passages = [
            indexed_text(row.title, row.section, row.text)[:LONGEST] for row in map(ranking.rows.__getitem__, chosen)
        ]
        limit_s = self._choice.limit_s
        found: Sequence[float] = ()
        try:
            reranker = self._choice.load()
            with anyio.move_on_after(limit_s) as limit:
                found = await reranker.scores(question.to_embed, passages)
            if limit.cancelled_caught:
                note = f"not reranked: {reranker.name} took longer than {limit_s:g} s (FORGE_RERANKER_MS)"
                return replace(ranking, notes=(*ranking.notes, note))
            if len(found) != len(passages) or not all(map(math.isfinite, found)):
                reason = "it does not return a number for each passage"
                raise RerankerUnavailable(reranker.name, reason)  # noqa: TRY301 - noted below, like any other
        except RerankerUnavailable as error:
            note = f"not reranked: {error}"
            log.warning("%s", note)
            self._resting = (anyio.current_time() + REST_S, note)
            return replace(ranking, notes=(*ranking.notes, note))
        places = sorted(range(len(chosen)), key=lambda place: (-found[place], place))
        ordered = [chosen[place] for place in places]
        sums = sorted((ranking.scores[seq] for seq in chosen), reverse=True)
        moved = frozenset(chosen)
        names = [seq for seq in ranking.ranked if seq in ranking.exact]
        rest = [seq for seq in ranking.ranked if seq not in moved and seq not in ranking.exact]
        return replace(
            ranking,
            ranked=(*names, *ordered, *rest),
            scores={**ranking.scores, **dict(zip(ordered, sums, strict=True))},
            reranker=reranker.name,
        )
