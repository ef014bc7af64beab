"""A question taken apart: its content words, what counts as each of them, and the text to embed."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass

from knowledge.index.ports import QueryTerm
from knowledge.search.query.analysis import is_part_of_a_run, is_stop_word, stem, words
from knowledge.state.ports import IndexPosition, IndexStore

Correct = Callable[[IndexStore, str], Awaitable[Sequence[str]]]
"""Returns the known words that an unknown one may have been meant to be, likeliest first."""

MOST_TERMS = 48
"""Distinct words of a question that are searched for; of a longer one (a pasted log) the rarest."""
TYPO_WEIGHT = 0.9
PREFIX_WEIGHT = 0.6
OTHER_LANGUAGE_WEIGHT = 0.5
"""Of a stem in any language but the commonest here: in the few pages of another language it is rare and would count for more."""
MOST_COMPLETIONS = 8
MOST_FORMS = 20
SHORTEST_PREFIX = 3
SHORTEST_TYPO = 4
MOST_CORRECTED = 10
MOST_EMBEDDED = 4000


@dataclass(frozen=True, slots=True)
class SearchQuestion:
    """How many words it had, its content words, what is searched for each, the text to embed, and what was corrected."""

    asked: int
    content: tuple[str, ...]
    terms: tuple[QueryTerm, ...]
    to_embed: str
    corrected: str | None


class Questions:
    """Takes questions apart with what the index knows of words."""

    def __init__(self, index: IndexStore, correct: Correct) -> None:
        self._index, self._correct = index, correct
        self._known_languages: Sequence[str] = ()
        self._languages_at: IndexPosition | None = None

    async def ask(self, query: str) -> SearchQuestion:
        """Return `query` taken apart."""
        asked = list(dict.fromkeys(words(query)))
        languages = await self.languages()
        content = [word for word in asked if not is_stop_word(word, languages)] or asked
        known = await self._index.frequencies(content)
        if len(content) > MOST_TERMS:
            content = _rarest(content, known)
        corrections = await self._corrections(content, known, _spoken(asked, languages))
        # A misspelt stop word is one: as a word that no page has it would say that the answer is not here.
        stopped = {word for word, near in corrections.items() if near and is_stop_word(near[0], languages)}
        content = [word for word in content if word not in stopped] or content
        last = asked[-1] if asked and query[-1:].isalnum() else ""
        completions = await self._completions(last)
        terms = tuple(
            _term(word, languages, corrections.get(word, ()), completions if word == last else ()) for word in content
        )
        best = {word: near[0] for word, near in corrections.items() if near}
        corrected = _corrected(query[:MOST_EMBEDDED], best) if best else None
        return SearchQuestion(len(asked), tuple(content), terms, corrected or query[:MOST_EMBEDDED], corrected)

    async def languages(self) -> Sequence[str]:
        """Return the languages of the documents here, asked again when the index has moved."""
        position = await self._index.position()
        if self._languages_at != position:
            self._known_languages, self._languages_at = await self._index.languages(), position
        return self._known_languages

    async def _corrections(
        self, content: Sequence[str], known: Mapping[str, int], spoken: Sequence[str]
    ) -> dict[str, Sequence[str]]:
        long = (word for word in content if len(word) >= SHORTEST_TYPO and not is_part_of_a_run(word))
        unknown = [word for word in long if word not in known]
        return {
            word: await self._correct(self._index, word)
            for word in unknown[:MOST_CORRECTED]
            if not await self._is_inflected(word, spoken)
        }

    async def _is_inflected(self, word: str, languages: Sequence[str]) -> bool:
        """Return whether another form of `word` is known, so that it is rightly spelled and found by its stem."""
        for language in languages:
            term = stem(word, language)
            near = await self._index.completions(term, limit=MOST_FORMS)
            if any(stem(other, language) == term for other in near):
                return True
        return False

    async def _completions(self, prefix: str) -> Sequence[str]:
        if len(prefix) < SHORTEST_PREFIX or is_part_of_a_run(prefix):
            return ()
        found = await self._index.completions(prefix, limit=MOST_COMPLETIONS + 1)
        return [word for word in found if word != prefix][:MOST_COMPLETIONS]


def _spoken(asked: Sequence[str], languages: Sequence[str]) -> Sequence[str]:
    """Return those of `languages` that the question may be in: the commonest here, and those whose little words it has.

    By the rules of any language at all nearly every misspelt word is a form of some word: *lattie* one of *latte*.
    """
    commonest = languages[:1]
    telling = [word for word in asked if not is_stop_word(word, commonest or ("",))]
    return [*commonest, *(other for other in languages[1:] if any(is_stop_word(word, (other,)) for word in telling))]


def _rarest(content: Sequence[str], known: Mapping[str, int]) -> list[str]:
    """Return the words that tell most: the rarest known ones, in the order they were asked."""
    order = sorted(range(len(content)), key=lambda i: (known.get(content[i], 1 << 30), i))
    return [content[i] for i in sorted(order[:MOST_TERMS])]


def _corrected(query: str, best: Mapping[str, str]) -> str:
    """Return `query` with `best` in place of its misspelt words, all else as it was: order and repetition mean something.

    A word that `query` spells in another way than `words` does (composed letters, a part of an identifier) has its
    correction at the end.
    """
    missed = dict(best)

    def put(found: re.Match[str]) -> str:
        word = found[0].casefold()
        missed.pop(word, None)
        return best.get(word, found[0])

    asked = "|".join(map(re.escape, best))
    text = re.sub(rf"(?<![^\W_])(?:{asked})(?![^\W_])", put, query, flags=re.IGNORECASE)
    return " ".join([text, *missed.values()])


def _term(word: str, languages: Sequence[str], near: Sequence[str], completions: Sequence[str]) -> QueryTerm:
    """Return all indexed terms that count as `word`: its stem in every language here, its corrections, its completions."""
    weights: dict[str, float] = {}
    for form, weight in [(word, 1.0), *((n, TYPO_WEIGHT) for n in near), *((c, PREFIX_WEIGHT) for c in completions)]:
        for place, language in enumerate(languages or ("",)):
            term = stem(form, language)
            of_language = weight * OTHER_LANGUAGE_WEIGHT if place else weight
            weights[term] = max(of_language, weights.get(term, 0.0))
    return QueryTerm(word, tuple(weights.items()))
