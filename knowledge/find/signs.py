"""What can be measured of an answer, to judge by it whether the answer suffices."""

from __future__ import annotations

import math
from collections.abc import Sequence

from knowledge.find.analysis import stem, words
from knowledge.find.question import Question
from knowledge.find.ranking import Ranking
from knowledge.find.scent import Signs
from knowledge.storage.ports import IndexStore

ALIKE_LETTERS = 2
"""A stem keeps at least so much of the beginning of its word."""
MOST_WORDS_OF_A_NAME = 2
"""A question of so few words is a name or a term; in a longer one a single telling word tells too little."""
TOP_OF_LIST = 10


async def signs_of(index: IndexStore, question: Question, ranking: Ranking, shown: Sequence[int]) -> Signs:
    """Return the signs of the answer that shows the chunks `shown`, best first."""
    if not shown:
        return Signs(0.0, agreement=False, exact=False, telling=False)
    best = shown[0]
    row = ranking.rows[best]
    coverage = 0.0
    if question.terms:
        present = _terms_like(f"{' '.join(row.section)} {row.title} {row.text}", row.language, question)
        known = await index.frequencies(question.content)
        rarity = {t.word: 1 / math.log2(2 + known.get(t.word, 0)) for t in question.terms}
        have = sum(rarity[t.word] for t in question.terms if any(term in present for term, _ in t.alternatives))
        coverage = have / sum(rarity.values())
    by_words = {hit.seq for hit in ranking.keyword[:TOP_OF_LIST]}
    by_meaning = {hit.seq for hit in ranking.vectors[:TOP_OF_LIST]}
    telling = len(question.content) > 1 or question.asked <= MOST_WORDS_OF_A_NAME
    agreement = best in by_words and best in by_meaning
    return Signs(coverage, agreement=agreement, exact=best in ranking.exact, telling=telling)


def _terms_like(text: str, language: str, question: Question) -> set[str]:
    """Return the terms of those words of `text` that begin like one asked for; stemming all of them would be most of a search."""
    beginnings = {term[:ALIKE_LETTERS] for asked in question.terms for term, _ in asked.alternatives}
    return {stem(word, language) for word in set(words(text)) if word[:ALIKE_LETTERS] in beginnings}
