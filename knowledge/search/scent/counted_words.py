"""Counts the words of a question, by their rarity, on the first page of an answer. Pure."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from statistics import fmean

from knowledge.search.query.analysis import is_stop_word
from knowledge.search.query.asked_words import share_of
from knowledge.search.query.days import days_shown_in
from knowledge.search.query.question import SearchQuestion
from knowledge.search.scent.signs import USUAL_LANGUAGES
from knowledge.state.ports import ChunkRow

SCATTERED = 0.25
"""How much of an identifier a page has that has all its parts, but not together."""
_NUMBER = re.compile(r"v?\d+(?:\.\d+)*")
_UNDERSCORE = re.compile(r"\w_\w")


class CountedWords:
    """The words of a question as the verdict counts them for the first page, with their rarity; `rows` are that page's passages."""

    def __init__(self, question: SearchQuestion, rows: Sequence[ChunkRow]) -> None:
        known, self._asked, self._doubtful = question.known, question.asked, question.doubtful
        self._unknown_names = [word for word in self._asked if word.is_identifier and word.terms[0] not in known]
        # Where all is in capitals, they say nothing.
        shouts = question.to_embed.isupper()
        self._codes = [word for word in self._asked if word.is_code and not (shouts and word.written.isalpha())]
        texts = [_named_text_of(row) for row in rows]
        self._lacking = [word for word in self._codes if not word.is_code_in(texts)]
        # Not each name: a page that answers may write Git for GitHub.
        self._known_names = [
            word for word in self._asked if _UNDERSCORE.search(word.written) and word.terms[0] in known
        ]
        self._lacking += [word for word in self._known_names if not word.is_together_in(map(text_of, rows))]
        self._days = question.days
        self._lacking_days = self._days_not_in(texts)
        self._lacks_particle = any(not _has_particle(texts, verb, particle) for verb, particle in question.verbs)
        self._scattered = {word.terms for word in self._unknown_names if not word.is_together_in(map(text_of, rows))}
        """Identifiers that no page has, of which the page has no more than the parts, here and there: it is about other things."""
        self.words = len(question.terms) - sum(len(terms) - 1 for terms in self._scattered)
        # Rare words tell pages apart. A word that is nowhere weighs most: there may be no answer.
        one = {term: 1 / math.log2(2 + known.get(term, 0)) for word in self._asked for term in word.terms}
        self.rarity: dict[tuple[str, ...], float] = {}
        """By the terms of each word."""
        unknown = 0.0
        for terms in dict.fromkeys(terms for word in self._asked for terms in word.counted):
            whole, *parts = terms
            is_name = whole in known or not parts or terms in self._scattered
            # Another compound that is nowhere is as rare as its parts are.
            self.rarity[terms] = one[whole] if is_name else fmean(one[part] for part in parts)
            if whole not in known and (is_name or not all(part in known for part in parts)):
                unknown += self.rarity[terms]
        self._total = sum(self.rarity.values())
        self.unknown = unknown / self._total if self._total else 0.0

    def _days_not_in(self, texts: Iterable[str]) -> Sequence[str]:
        """Return the dates of the question that the texts have in no form."""
        if not self._days:
            return ()
        shown = days_shown_in(texts)
        return [said for said, days in self._days.items() if shown.isdisjoint(days)]

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

    def lacks_code(self, matches: Sequence[Mapping[str, float]]) -> bool:
        """Return whether chunks of one page lack something that stands for one thing only, or have none of the question's numbers.

        That is a code, a date, an identifier that other pages have, or a verb's particle. The page is about another version, year,
        error or function, or says how to turn *on* what is to be turned *off*.
        """
        numbers = {terms for terms in self.rarity if _NUMBER.fullmatch(terms[0])}
        # A page that shows its day otherwise matches a date as a whole, as one with an identifier matches that.
        alone = (*(word.terms[0] for word in self._lacking), *self._lacking_days)
        lacking = any(not any(name in match for match in matches) for name in alone)
        # One is enough: *20 euros now, not 18* is about the page that has 18.
        has_number = not numbers or any(share_of(terms, match) for terms in numbers for match in matches)
        return lacking or self._lacks_particle or not has_number

    def missing(self, having: Collection[str], rows: Sequence[ChunkRow]) -> tuple[str, ...]:
        """Return the words of which a part is not in `having`, or an identifier or date not in `rows`, rarest first."""
        there = dict.fromkeys(having, 1.0)
        found = {
            word.written: 1.0
            for word in (*self._unknown_names, *self._known_names)
            if word.terms[0] not in there and not word.is_together_in(map(text_of, rows))
        } | {word.written: 1.0 for word in self._codes if not word.is_code_in(map(_named_text_of, rows))}
        days = [said for said in self._days_not_in(map(_named_text_of, rows)) if said not in there]
        for word in self._asked:
            # Words that only help to ask are not worth a word, unless the question consists of them.
            if is_stop_word(word.terms[0], USUAL_LANGUAGES) and len(self._asked) > 1:
                continue
            if lacking := word.lacking(there):
                rarest = max(self.rarity[terms] for terms in word.counted if share_of(terms, there) < 1)
                found |= {name: max(rarest, found.get(name, 0.0)) for name in lacking}
        # A date is named as a whole.
        of_days = {word for said in days for word in said.split()}
        names = sorted(found.keys() - of_days, key=lambda name: (-found[name], name))
        return (*days, *(name for name in names if name not in days))


def text_of(row: ChunkRow) -> str:
    """Return the headings, the title and the text of a passage."""
    return f"{' '.join(row.section)} {row.title} {row.text}"


def _named_text_of(row: ChunkRow) -> str:
    return f"{row.path} {text_of(row)}"


def _has_particle(texts: Iterable[str], verb: str, particle: str) -> bool:
    """Return whether a text has the particle, alone or in one word with its verb."""
    found = re.compile(rf"(?<!\w)(?:{re.escape(verb)}-?)?{particle}(?!\w)", re.IGNORECASE)
    return any(found.search(text) for text in texts)
