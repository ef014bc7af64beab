"""The pages that a question names among other words: by number (`ADR 14`), by title (*how do I make tea*), by time (*week 47*)."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from knowledge.search.query.analysis import USUAL_LANGUAGES, is_stop_word, words
from knowledge.search.query.names import LONGEST_NAME, other_spellings
from knowledge.search.query.question import SearchQuestion
from knowledge.search.times.calendar_periods import A_YEAR
from knowledge.search.times.days import is_month
from knowledge.state.document_names import number_key
from knowledge.state.ports import IndexStore

MOST_MENTIONED = 3
"""The most pages that one name may mention: if more have it, none is meant in particular."""
MOST_LOOKED_UP = 20
"""The most pages and sections of one name that are looked at, those outside the scope of the search included."""
MOST_NUMBERED = 3
OF_ANY_TIME = frozenset((
    "did", "happen", "happened", "happens", "note", "notes", "entry", "entries", "journal", "diary", "minutes",
    "passiert", "geschah", "gemacht", "getan", "notiz", "notizen", "eintrag", "einträge", "protokoll", "protokolle",
    "passé", "fait", "fiche", "pasó", "hice", "hizo", "nota", "notas", "successo", "fatto", "gedaan",
))  # fmt: skip
"""Words that add nothing to a time: *what happened last week* is on the pages of last week, whether they have the word or not."""
_BY_THE_WAY = re.compile(
    r"(?:today|heute|aujourd|hoy|oggi|vandaag|hoje|idag|dzisiaj|сегодня|(?:on|am)\s)", re.IGNORECASE
)
"""The beginnings of times that are often said in passing."""
_NUMBERED = re.compile(
    r"(?<![\w/.-])(?:[^\W\d_]{2,}(?:[\s_/-]|\s(?:no|nr)\.?\s?)?|[^\W\d_][_-])#?\d{1,5}(?:[.-]\d+)*(?![\w/])",
    re.IGNORECASE,
)
_NO = re.compile(r"\s(?:no|nr)\.?\s?(?=\d)", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Mentioned:
    """The documents that a question names among other words, and the words of these names."""

    docs: frozenset[int] = frozenset()
    words: frozenset[str] = frozenset()
    by_time: tuple[int, ...] = ()
    """The documents that it names by a time only, as `of_periods` orders them. If a time has more than `MOST_MENTIONED`, they are
    not in `docs`: only those that fit the rest of the question are meant."""
    by_day: bool = False
    """Whether all times in the question are dates of one day."""
    is_vague: bool = False
    """Whether a time in the question is no date, and none has a year: *week 12* may be of a plan, and *June* a singer."""
    is_aside: bool = False
    """Whether the time is probably said in passing: *how do I renew a passport today*, *is the shop open on Sunday*."""

    def words_beside(self, question: SearchQuestion) -> Sequence[str]:
        """Return the question's words beside those that name the documents, and without those that add nothing to a time."""
        rest = [term.word for term in question.terms if term.word not in self.words]
        if not self.by_time:
            return rest
        # Where no page is long enough to show its language, stop words are searched.
        return [word for word in rest if word not in OF_ANY_TIME and not is_stop_word(word, USUAL_LANGUAGES)]


NOTHING_MENTIONED = Mentioned()


async def find_mentions(
    index: IndexStore, question: SearchQuestion, query: str, docs: frozenset[int] | None
) -> Mentioned:
    """Return the documents, among `docs` unless that is None, that `query` names.

    It names them by a word and a number, by all that is left without words that only ask at both ends, or by their time.
    """
    found: set[int] = set()
    said: set[str] = set()
    asked = [(name, _number_first(name)) for name in _numbered_in(query)]
    cores = dict.fromkeys((question.core, question.subject))
    asked += [
        (name, [[name, *other_spellings(name)]])
        for name in cores
        if len(name) <= LONGEST_NAME and name not in ("", query)
    ]
    for name, keys in asked:
        for key, *spellings in keys:
            matches = await index.named(key, limit=MOST_LOOKED_UP, spellings=spellings)
            having = {m.doc for m in matches if m.by != "heading" and (docs is None or m.doc in docs)}
            if having and len(having) <= MOST_MENTIONED:
                found |= having
                said.update(words(name))
                break
    by_time: list[int] = []
    few: set[int] = set()
    for name, of_time in question.times.items():
        dated = [doc for doc in of_time if doc not in found and (docs is None or doc in docs)]
        said.update((name, *words(name)) if dated else ())
        by_time += dated
        few.update(dated if len(dated) <= MOST_MENTIONED else ())
    by_day = question.times.keys() <= question.days.keys() and not any(map(is_month, question.days.values()))
    is_aside = all(_BY_THE_WAY.match(written) for written in question.times)
    is_vague = not by_day and not any(map(A_YEAR.search, question.times))
    return Mentioned(frozenset(found | few), frozenset(said), tuple(dict.fromkeys(by_time)), by_day, is_vague, is_aside)


def _numbered_in(query: str) -> Sequence[str]:
    """Return the first words of `query` that have a number."""
    return [_NO.sub(" ", name) for name in dict.fromkeys(_NUMBERED.findall(query))][:MOST_NUMBERED]


def _number_first(name: str) -> Sequence[Sequence[str]]:
    """Return what is looked up for a word with a number, one after the other, each with its spellings."""
    # A heading such as `ADR 14` in an overview would hide the page. And in one word (`RFC2119`) it is a page's number or nothing:
    # `oauth2.md` is not meant by each question that has `oauth2`.
    number = [number_key(name)]
    return [number] if name.isalnum() else [number, [name, *other_spellings(name)]]
