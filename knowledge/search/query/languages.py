"""The languages that a question is read in. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from knowledge.pages.markdown.language import detect
from knowledge.search.query.analysis import is_stop_word, stem

FLOOR = 0.05
"""The share of pages from which a language applies to questions that are not in it. A few pages are always misdetected, and
their stop words are ordinary words elsewhere (Slovak `list`, Dutch `over`)."""
COMMON = 1 / 3
"""The share of pages from which a stem of a language counts in full. In few pages every word is rare, so BM25 ranks them too high."""
RARE_WEIGHT = 0.5


@dataclass(frozen=True, slots=True)
class QuestionLanguages:
    """How the words of a question are read.

    `stop`: languages whose stop words are left out. `weights`: the weight of a stem by language, most important first;
    `rare` are other languages of the pages, whose stems count only for words outside ASCII, which are seldom misdetected.
    """

    stop: tuple[str, ...]
    weights: Mapping[str, float]
    rare: tuple[str, ...]

    def is_stop_word(self, word: str) -> bool:
        """Return whether `word` is left out of a search."""
        return bool(self.stop) and is_stop_word(word, self.stop)

    def stems(self, word: str) -> Mapping[str, float]:
        """Return the terms that `word` may be indexed as, with their weights."""
        found: dict[str, float] = {}
        weights = self.weights if word.isascii() else {**dict.fromkeys(self.rare, RARE_WEIGHT), **self.weights}
        for language, weight in (weights or {"": 1.0}).items():
            term = stem(word, language)
            found[term] = max(weight, found.get(term, 0.0))
        return found


def question_languages(query: str, documents: Mapping[str, int]) -> QuestionLanguages:
    """Return the languages of `query` where `documents` has the number of pages in each language; `""` is an unknown one.

    That is its own language if it is clear and pages are in it, otherwise those of at least `FLOOR` of the pages. Pages of
    an unknown language are always searched, by words as they are.
    """
    total = sum(documents.values()) or 1
    known = sorted((language for language in documents if language), key=lambda one: (-documents[one], one))
    usual = [language for language in known if documents[language] >= FLOOR * total] or known[:1]
    own = detect(query)
    spoken = [own] if own in known else usual
    weights = dict.fromkeys(spoken[:1], 1.0)
    for language in (*spoken[1:], *usual, *([""] if "" in documents else [])):
        weights.setdefault(language, 1.0 if documents[language] >= COMMON * total else RARE_WEIGHT)
    return QuestionLanguages(tuple(spoken), weights, tuple(one for one in known if one not in weights))


def common_languages(documents: Mapping[str, int]) -> Sequence[str]:
    """Return the languages of at least `FLOOR` of the pages, most frequent first."""
    return list(question_languages("", documents).stop)
