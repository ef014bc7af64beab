"""The words of a question that stand for one thing only: a page without them is about another version, day or function. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence

from knowledge.search.query.analysis import is_stop_word, words
from knowledge.search.query.days import days_shown_in, is_month
from knowledge.search.query.question import SearchQuestion
from knowledge.state.ports import ChunkRow

GERMAN = "de"
_UNDERSCORE = re.compile(r"\w_\w")
_LOOKS_LIKE_CODE = re.compile(r"[^\W\d_]{2}[_.][^\W\d_]{2}")
_LABEL = re.compile(r"(?<=[^\W_] )(?!I\b)([A-Z])(?![\w'\u2019.+#&-])")
"""A letter that tells things of one name apart: *house C*, *plan B*."""


class DistinctWords:
    """Codes, identifiers, names, labels, dates and particles of a question, and which of them the passages `rows` of a page lack."""

    def __init__(self, question: SearchQuestion, rows: Sequence[ChunkRow]) -> None:
        self._asked, self._days, self._known = question.asked, question.days, question.known
        self._of_dates = frozenset((*self._days, *(word for said in self._days for word in said.split())))
        # Where all is in capitals, they say nothing.
        shouts = question.to_embed.isupper()
        self._codes = [
            word
            for word in self._asked
            if word.is_code and word.written not in self._of_dates and not (shouts and word.written.isalpha())
        ]
        self.unknown_identifiers = [
            word for word in self._asked if word.is_identifier and word.terms[0] not in self._known
        ]
        """Those that no page has."""
        # Not each identifier: a page that answers may write Git for GitHub.
        self._known_identifiers = [
            word for word in self._asked if _UNDERSCORE.search(word.written) and word.terms[0] in self._known
        ]
        texts = [_named_text_of(row) for row in rows]
        self._lacking_days = self._days_not_in(texts)
        self._lacking_words = [word for word in self._codes if not word.is_code_in(texts)]
        like_code = (word for word in self.unknown_identifiers if _LOOKS_LIKE_CODE.search(word.written))
        self._lacking_words += [
            word for word in (*self._known_identifiers, *like_code) if not word.is_together_in(map(text_of, rows))
        ]
        self._lacks_others = (
            self._is_of_another_month(rows)
            or self._has_unknown_name(question)
            or any(not _has_label(texts, label) for label in ([] if shouts else _LABEL.findall(question.to_embed)))
            or any(not _has_particle(texts, verb, particle) for verb, particle in question.verbs)
        )

    @property
    def of_days_shown(self) -> frozenset[str]:
        """The words of the dates that the page shows, which may be in its path only."""
        return frozenset(word for said in self._days if said not in self._lacking_days for word in words(said))

    def are_lacking(self, matches: Sequence[Mapping[str, float]]) -> bool:
        """Return whether the page lacks any of them; `matches` are the words of the question that its passages have."""
        # A page that shows its day otherwise matches a date as a whole, as one with an identifier matches that.
        alone = (*(word.terms[0] for word in self._lacking_words), *self._lacking_days)
        return self._lacks_others or any(not any(name in match for match in matches) for name in alone)

    def missing(self, there: Mapping[str, float], rows: Sequence[ChunkRow]) -> tuple[Sequence[str], Sequence[str]]:
        """Return the dates, and the codes and identifiers, as written, that neither are among the terms `there` nor in `rows`."""
        texts = [_named_text_of(row) for row in rows]
        days = [said for said in self._days_not_in(texts) if said not in there]
        names = [
            word.written
            for word in (*self.unknown_identifiers, *self._known_identifiers)
            if word.terms[0] not in there and not word.is_together_in(map(text_of, rows))
        ]
        return days, [*names, *(word.written for word in self._codes if not word.is_code_in(texts))]

    def is_of_a_date(self, written: str) -> bool:
        """Return whether it is a date of the question or a part of one, which is named as a whole."""
        return written in self._of_dates

    def _days_not_in(self, texts: Iterable[str]) -> Sequence[str]:
        """Return the dates of the question that the texts have in no form."""
        if not self._days:
            return ()
        shown = days_shown_in(texts)
        return [said for said, days in self._days.items() if shown.isdisjoint(days)]

    def _is_of_another_month(self, rows: Sequence[ChunkRow]) -> bool:
        """Return whether path or title say that the page is of another month: minutes of June may name days of July."""
        months = [days for days in self._days.values() if is_month(days)]
        own = days_shown_in(f"{row.path} {row.title}" for row in rows[:1]) if months else frozenset()
        return bool(own) and all(own.isdisjoint(days) for days in months)

    def _has_unknown_name(self, question: SearchQuestion) -> bool:
        """Return whether the question has a name that no page has, such as *Business* of *limits of the Business plan*."""
        unknown = any(
            word.written.istitle()
            and len(word.terms) == 1
            and word.terms[0] not in self._known
            and not self.is_of_a_date(word.written)
            for word in self._asked
            if not question.to_embed.startswith(word.written)
        )
        return unknown and not _may_be_german(question) and not _is_title(question.to_embed)


def text_of(row: ChunkRow) -> str:
    """Return the headings, the title and the text of a passage."""
    return f"{' '.join(row.section)} {row.title} {row.text}"


def _named_text_of(row: ChunkRow) -> str:
    return f"{row.path} {text_of(row)}"


def _may_be_german(question: SearchQuestion) -> bool:
    """Return whether the question may be in the language where all nouns begin with capitals."""
    written = (word.casefold() for word in question.to_embed.split())
    return GERMAN in question.spoken and any(is_stop_word(word, (GERMAN,)) for word in written)


def _is_title(text: str) -> bool:
    """Return whether most words of a text begin with capitals."""
    written = [word for word in text.split() if word[:1].isalpha()]
    return 2 * sum(word[0].isupper() for word in written) > len(written)


def _has_label(texts: Iterable[str], label: str) -> bool:
    return any(re.search(rf"(?<!\w){label}(?!\w)", text) for text in texts)


def _has_particle(texts: Iterable[str], verb: str, particle: str) -> bool:
    """Return whether a text has the particle, alone or in one word with its verb."""
    found = re.compile(rf"(?<!\w)(?:{re.escape(verb)}-?)?{particle}(?!\w)", re.IGNORECASE)
    return any(found.search(text) for text in texts)
