"""A parsed question: its content words, the indexed terms that count as each of them, and the text to embed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from knowledge.index.ports import QueryTerm
from knowledge.search.query.analysis import is_part_of_a_run, is_stop_word, stem, words
from knowledge.search.query.corrections import Correct, corrected_query, find_corrections, spoken_languages
from knowledge.state.ports import IndexPosition, IndexStore

MOST_TERMS = 48
"""Distinct words that are searched; from a longer question (a pasted log), the rarest."""
TYPO_WEIGHT = 0.9
PREFIX_WEIGHT = 0.6
OTHER_LANGUAGE_WEIGHT = 0.5
"""The weight of stems in less common languages: they are rare, so they would otherwise count too much."""
MOST_COMPLETIONS = 8
SHORTEST_PREFIX = 3
MOST_EMBEDDED = 4000


@dataclass(frozen=True, slots=True)
class SearchQuestion:
    """Content words, the terms for each, the text to embed, and the corrected query."""

    content: tuple[str, ...]
    terms: tuple[QueryTerm, ...]
    to_embed: str
    corrected: str | None


class Questions:
    """Parses questions with the words and languages that the index knows."""

    def __init__(self, index: IndexStore, correct: Correct) -> None:
        self._index, self._correct = index, correct
        self._known_languages: Sequence[str] = ()
        self._languages_at: IndexPosition | None = None

    async def ask(self, query: str) -> SearchQuestion:
        """Return `query` parsed."""
        asked = list(dict.fromkeys(words(query)))
        languages = await self.languages()
        # A question of stop words alone (`to be or not to be`) is searched with them.
        content = [word for word in asked if not is_stop_word(word, languages)] or asked
        known = await self._index.frequencies(content)
        if len(content) > MOST_TERMS:
            # The rarest known words tell most; unknown ones find nothing and come last. In the order of the question.
            order = sorted(range(len(content)), key=lambda i: (known.get(content[i], 1 << 30), i))
            content = [content[i] for i in sorted(order[:MOST_TERMS])]
        spoken = spoken_languages(asked, languages)
        corrections = await find_corrections(self._index, self._correct, content, known=known, spoken=spoken)
        # A misspelt stop word is still a stop word. As a word that no page has, it would say that the answer isn't here.
        stopped = {word for word, near in corrections.items() if near and is_stop_word(near[0], languages)}
        content = [word for word in content if word not in stopped] or content
        # The last word may be unfinished, unless something follows it.
        last = asked[-1] if asked and query[-1:].isalnum() else ""
        completions = await self._completions(last)
        terms = tuple(
            _term(word, languages, corrections.get(word, ()), completions if word == last else ()) for word in content
        )
        best = {word: near[0] for word, near in corrections.items() if near}
        corrected = corrected_query(query[:MOST_EMBEDDED], best) if best else None
        return SearchQuestion(tuple(content), terms, corrected or query[:MOST_EMBEDDED], corrected)

    async def languages(self) -> Sequence[str]:
        """Return the languages of the documents here; the index is asked again when it has changed."""
        position = await self._index.position()
        if self._languages_at != position:
            self._known_languages, self._languages_at = await self._index.languages(), position
        return self._known_languages

    async def _completions(self, prefix: str) -> Sequence[str]:
        if len(prefix) < SHORTEST_PREFIX or is_part_of_a_run(prefix):
            return ()
        found = await self._index.completions(prefix, limit=MOST_COMPLETIONS + 1)
        return [word for word in found if word != prefix][:MOST_COMPLETIONS]


def _term(word: str, languages: Sequence[str], near: Sequence[str], completions: Sequence[str]) -> QueryTerm:
    """Return all indexed terms that count as `word`: its stem in each language, its corrections, its completions."""
    forms = [(word, 1.0), *((n, TYPO_WEIGHT) for n in near), *((c, PREFIX_WEIGHT) for c in completions)]
    weights: dict[str, float] = {}
    for form, weight in forms:
        for place, language in enumerate(languages or ("",)):
            term = stem(form, language)
            of_language = weight * OTHER_LANGUAGE_WEIGHT if place else weight
            weights[term] = max(of_language, weights.get(term, 0.0))
    return QueryTerm(word, tuple(weights.items()))
