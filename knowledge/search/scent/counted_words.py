"""Counts the words of a question, by their rarity, on the first page of an answer. Pure."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from collections.abc import Set as AbstractSet
from statistics import fmean

from knowledge.search.query.analysis import USUAL_LANGUAGES, is_stop_word
from knowledge.search.query.asked_words import share_of
from knowledge.search.query.question import SearchQuestion
from knowledge.search.scent.distinct_words import DistinctWords, text_of
from knowledge.state.ports import ChunkRow

SCATTERED = 0.25
"""How much of an identifier a page has that has all its parts, but not together."""
_HOW_MANY = re.compile(r"\bhow\s+(many|much|often|long)\b", re.IGNORECASE)
ASKING = 0.25
"""How much a word that only asks counts, as a share of any other word."""
_NUMBER = re.compile(r"v?\d+(?:\.\d+)*")


class CountedWords:
    """The words of a question as the verdict counts them for the first page, with their rarity; `rows` are that page's passages.

    `answered` are words that the page answers by being the one of a series that is asked for, such as *latest*.
    """

    def __init__(
        self, question: SearchQuestion, rows: Sequence[ChunkRow], answered: AbstractSet[str] = frozenset()
    ) -> None:
        known, self._asked, self._doubtful = question.known, question.asked, question.doubtful
        self._distinct = DistinctWords(question, rows)
        self._of_how_many = {word.casefold() for word in _HOW_MANY.findall(question.to_embed)}
        asking = question.asking | answered
        self._asking = asking if any(word.terms[0] not in asking for word in self._asked) else frozenset()
        unknown_identifiers = self._distinct.unknown_identifiers
        self._scattered = {word.terms for word in unknown_identifiers if not word.is_together_in(map(text_of, rows))}
        """Identifiers that no page has, of which the page has no more than the parts, here and there: it is about other things."""
        self.words = len(question.terms) - sum(len(terms) - 1 for terms in self._scattered)
        # Rare words tell pages apart. A word that is nowhere weighs most: there may be no answer.
        one = {term: 1 / math.log2(2 + known.get(term, 0)) for word in self._asked for term in word.terms}
        self.rarity: dict[tuple[str, ...], float] = {}
        """By the terms of each word."""
        unknown = 0.0
        # A page of the day need not say its date in its text.
        shown = self._distinct.of_days_shown
        for terms in dict.fromkeys(terms for word in self._asked for terms in word.counted):
            whole, *parts = terms
            is_name = whole in known or not parts or terms in self._scattered
            # Another compound that is nowhere is as rare as its parts are.
            self.rarity[terms] = one[whole] if is_name else fmean(one[part] for part in parts)
            if whole in self._asking:
                self.rarity[terms] *= ASKING
            if whole not in known and whole not in shown and (is_name or not all(part in known for part in parts)):
                unknown += self.rarity[terms]
        self._total = sum(self.rarity.values())
        self.unknown = unknown / self._total if self._total else 0.0

    def share(self, share_in: Callable[[tuple[str, ...]], float]) -> float:
        """Return the share of the question's words, weighted by rarity, by the share of each (0..1)."""
        found = sum(rarity * share_in(terms) for terms, rarity in self.rarity.items())
        return found / self._total if self._total else 0.0

    def coverage(self, matches: Sequence[Mapping[str, float]]) -> float:
        """Return the share of the question's words that are in chunks of one page, each with the weight of its best form.

        The words of all its chunks count, because a page may say one thing in one section and another in the next. A word that is
        only similar to one of the question doesn't count.
        """
        best: dict[str, float] = {}
        for match in matches:
            for term, weight in match.items():
                if term not in self._doubtful:
                    best[term] = max(weight, best.get(term, 0.0))
        return self.share(lambda terms: self.share_of(terms, best))

    def share_of(self, terms: tuple[str, ...], match: Mapping[str, float]) -> float:
        """Return how much of a word is there, 0..1."""
        share = share_of(terms, match)
        return share * SCATTERED if terms in self._scattered and terms[0] not in match else share

    def lacks_distinct_word(self, matches: Sequence[Mapping[str, float]]) -> bool:
        """Return whether chunks of one page lack one of the question's distinct words, or have none of its numbers.

        The page is about another version, year, error, person or function, or says how to turn *on* what is to be turned *off*.
        """
        numbers = {terms for terms in self.rarity if _NUMBER.fullmatch(terms[0])}
        # One is enough: *20 euros now, not 18* is about the page that has 18.
        has_number = not numbers or any(share_of(terms, match) for terms in numbers for match in matches)
        return not has_number or self._distinct.are_lacking(matches)

    def missing(self, having: Collection[str], rows: Sequence[ChunkRow]) -> tuple[str, ...]:
        """Return the words of which a part is not in `having`, or an identifier or date not in `rows`, rarest first."""
        there = dict.fromkeys(having, 1.0)
        days, distinct = self._distinct.missing(there, rows)
        found = dict.fromkeys(distinct, 1.0)
        for word in self._asked:
            # Words that only help to ask are not worth a word, unless the question consists of them.
            asking = self._of_how_many | self._asking
            only_asks = is_stop_word(word.terms[0], USUAL_LANGUAGES) or word.terms[0] in asking
            if only_asks and len(self._asked) > 1:
                continue
            if lacking := word.lacking(there):
                rarest = max(self.rarity[terms] for terms in word.counted if share_of(terms, there) < 1)
                found |= {name: max(rarest, found.get(name, 0.0)) for name in lacking}
        names = sorted(found, key=lambda name: (-found[name], name))
        return (*days, *(name for name in names if not self._distinct.is_of_a_date(name)))
