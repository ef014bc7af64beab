"""The words of a question that stand for one thing only: a page without them is about another version, day or function. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence

from knowledge.search.query.analysis import composed, is_stop_word, words
from knowledge.search.query.asked_words import AskedWord
from knowledge.search.query.question import SearchQuestion
from knowledge.search.times.days import days_shown_in, is_month, is_of_any_year
from knowledge.state.ports import ChunkRow

GERMAN = "de"
_UNDERSCORE = re.compile(r"\w_\w")
_LOOKS_LIKE_CODE = re.compile(
    r"(?!.*\.(?:js|ts|io|ai|com|org|net|de)$)(?![a-z]+\.[A-Z][a-z]*$).*[^\W\d_]{2}[_.][^\W\d_]{2}", re.DOTALL
)
"""Not *Node.js*, a domain, or two sentences without a space between them."""
_LABEL = re.compile(r"(?<=[^\W_] )(?!I\b)([B-Z]|A(?=\W*$))(?![\w'\u2019.+#&-])(?! [A-Z])")
"""A letter that tells things of one name apart: *house C*, *plan B*. No article, and no initial between names."""
_BEGINS_SENTENCE = re.compile(r"(?:^|[.!?:;\u2026\u00bf\u00a1\"\u201c\u201e\u00ab(])\s*$")
_UNTIL = re.compile(
    r"\b(?:until|till|by|before|after|since|bis|vor|nach|seit|avant|apr\u00e8s|depuis|hasta|antes|desde)\s+(?:end of\s+)?$",
    re.IGNORECASE,
)


class DistinctWords:
    """Codes, identifiers, names, labels, dates and particles of a question, and which of them the passages `rows` of a page lack."""

    def __init__(self, question: SearchQuestion, rows: Sequence[ChunkRow]) -> None:
        self._asked, self._known = question.asked, question.known
        # `march 20 km` may be no date. Only its place in a path tells, so a day without a year lacks nowhere.
        self._days = {said: days for said, days in question.days.items() if not is_of_any_year(days)}
        self._times = question.times
        # Those that the page is of.
        times = [written for written, docs in question.times.items() if rows and rows[0].doc in docs]
        dates = (*question.days, *times)
        self._of_dates = frozenset((*dates, *(word for written in dates for word in written.split())))
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
        shown = days_shown_in(texts) if question.days else frozenset()
        self._lacking_days = [said for said in self._days_not_among(shown) if said not in times]
        self.of_days_shown = frozenset(
            word
            for said in (*times, *(said for said, days in question.days.items() if not shown.isdisjoint(days)))
            for word in words(said)
        )
        """The words of the dates that the page shows, which may be in its path only, and of the times that it is of."""
        self._lacking_words = [word for word in self._codes if not word.is_code_in(texts)]
        like_code = (word for word in self.unknown_identifiers if _LOOKS_LIKE_CODE.match(word.written))
        self._lacking_words += [
            word for word in (*self._known_identifiers, *like_code) if not word.is_together_in(texts)
        ]
        is_title = _is_title(question.to_embed)
        if not is_title and not _may_be_german(question):
            self._lacking_words += self._unknown_names(question.to_embed)
        labels = [] if is_title else _LABEL.findall(question.to_embed)
        self._lacks_others = (
            self._is_of_another_month(question.to_embed, rows)
            or any(not _has_label(rows, label) for label in labels)
            or any(not _has_particle(texts, verb, particle) for verb, particle in question.verbs)
        )

    def are_lacking(self, matches: Sequence[Mapping[str, float]]) -> bool:
        """Return whether the page lacks any of them; `matches` are the words of the question that its passages have."""
        # A page that shows its day otherwise matches a date as a whole, as one with an identifier matches that.
        alone = (*(word.terms[0] for word in self._lacking_words), *self._lacking_days)
        return self._lacks_others or any(not any(name in match for match in matches) for name in alone)

    def missing(self, there: Mapping[str, float], rows: Sequence[ChunkRow]) -> tuple[Sequence[str], Sequence[str]]:
        """Return the dates, and the codes and identifiers, as written, that neither are among the terms `there` nor in `rows`."""
        texts = [_named_text_of(row) for row in rows]
        shown = days_shown_in(texts) if self._days else frozenset()
        of_them = {row.doc for row in rows}
        days = [
            said
            for said in self._days_not_among(shown)
            if said not in there and of_them.isdisjoint(self._times.get(said, ()))
        ]
        names = [
            word.written
            for word in (*self.unknown_identifiers, *self._known_identifiers)
            if word.terms[0] not in there and not word.is_together_in(texts)
        ]
        return days, [*names, *(word.written for word in self._codes if not word.is_code_in(texts))]

    def is_of_a_date(self, written: str) -> bool:
        """Return whether it is a date of the question or a part of one, which is named as a whole."""
        return written in self._of_dates

    def _days_not_among(self, shown: frozenset[str]) -> Sequence[str]:
        """Return the dates of the question of which none of the days is shown."""
        return [said for said, days in self._days.items() if shown.isdisjoint(days)]

    def _is_of_another_month(self, asked: str, rows: Sequence[ChunkRow]) -> bool:
        """Return whether path or title say that the page is of another month: minutes of June may name days of July.

        Not if the question asks what is until then, or since then.
        """
        months = [
            days for said, days in self._days.items() if is_month(days) and not _UNTIL.search(asked.partition(said)[0])
        ]
        own = days_shown_in(f"{row.path} {row.title}" for row in rows[:1]) if months else frozenset()
        return bool(own) and all(own.isdisjoint(days) for days in months)

    def _unknown_names(self, asked: str) -> list[AskedWord]:
        """Return the names within the sentence that no page has, such as *Business* of *limits of the Business plan*."""
        return [
            word
            for word in self._asked
            if word.written.istitle()
            and len(word.terms) == 1
            and word.terms[0] not in self._known
            and not self.is_of_a_date(word.written)
            and not _BEGINS_SENTENCE.search(asked.partition(word.written)[0])
        ]


def text_of(row: ChunkRow) -> str:
    """Return the headings, the title and the text of a passage."""
    return f"{' '.join(row.section)} {row.title} {row.text}"


def _named_text_of(row: ChunkRow) -> str:
    # As the words of a question are written: `cm2` for `cm²`.
    return composed(f"{row.path} {text_of(row)}")


def _may_be_german(question: SearchQuestion) -> bool:
    """Return whether the question may be in the language where all nouns begin with capitals."""
    written = (word.casefold() for word in question.to_embed.split())
    return GERMAN in question.spoken and any(is_stop_word(word, (GERMAN,)) for word in written)


def _is_title(text: str) -> bool:
    """Return whether most words of a text begin with capitals."""
    written = [word for word in text.split() if word[:1].isalpha()]
    return 2 * sum(word[0].isupper() for word in written) > len(written)


def _has_label(rows: Iterable[ChunkRow], label: str) -> bool:
    """Return whether a passage has the letter alone, or the path of its page in any case."""
    alone = rf"(?<![^\W_]){label}(?![^\W_])"
    return any(re.search(alone, text_of(row)) or re.search(alone, row.path, re.IGNORECASE) for row in rows)


def _has_particle(texts: Iterable[str], verb: str, particle: str) -> bool:
    """Return whether a text has the particle, alone or in one word with its verb."""
    found = re.compile(rf"(?<!\w)(?:{re.escape(verb)}-?)?{particle}(?!\w)", re.IGNORECASE)
    return any(found.search(text) for text in texts)
