"""The pages that a question names among other words: by number (`ADR 14`), by title (*how do I make tea*), by date (*12 May 2026*)."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from knowledge.search.query.analysis import words
from knowledge.search.query.days import is_month, is_of_any_year
from knowledge.search.query.names import LONGEST_NAME, other_spellings
from knowledge.search.query.question import SearchQuestion
from knowledge.state.document_names import number_key
from knowledge.state.ports import Filters, IndexStore

MOST_MENTIONED = 3
"""The most pages of one name that a question mentions: of more, none is meant in particular."""
MOST_LOOKED_UP = 20
"""The most pages and sections of one name that are looked at, those outside the scope of the search included."""
MOST_NUMBERED = 3
YEAR_LETTERS, MONTH_LETTERS = len("2026"), len("2026-05")
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
    of_days: frozenset[int] = frozenset()
    """Those of the documents that it names by a date only. Others may be of the same day."""


NOTHING_MENTIONED = Mentioned()


async def find_mentions(
    index: IndexStore, question: SearchQuestion, query: str, docs: frozenset[int] | None
) -> Mentioned:
    """Return the documents, among `docs` unless that is None, that `query` names.

    It names them by a word and a number, by all that is left of it without stop words at both ends, or by the day in their path.
    """
    found: set[int] = set()
    said: set[str] = set()
    asked = [(name, _number_first(name)) for name in _numbered_in(query)]
    if len(question.core) <= LONGEST_NAME and question.core not in ("", query):
        asked.append((question.core, [[question.core, *other_spellings(question.core)]]))
    for name, keys in asked:
        for key, *spellings in keys:
            matches = await index.named(key, limit=MOST_LOOKED_UP, spellings=spellings)
            having = {m.doc for m in matches if m.by != "heading" and (docs is None or m.doc in docs)}
            if having and len(having) <= MOST_MENTIONED:
                found |= having
                said.update(words(name))
                break
    of_days: set[int] = set()
    for name, days in question.days.items():
        dated = await _of_days(index, days)
        dated = dated if docs is None else dated & docs
        if dated and len(dated) <= MOST_MENTIONED:
            of_days |= dated - found
            said.update((name, *words(name)))
    return Mentioned(frozenset(found | of_days), frozenset(said), frozenset(of_days))


async def _of_days(index: IndexStore, days: Sequence[str]) -> frozenset[int]:
    """Return the documents whose paths have one of the days; none if there are many."""
    if is_month(days):
        month = days[0][:MONTH_LETTERS]
        holding = await index.paths(contains=month, limit=MOST_LOOKED_UP)
        # A page of the month itself (`2026-02 rent.md`) before those of its days.
        whole = re.compile(rf"{month}(?!-?\d)")
        paths = {path for path in holding if whole.search(path)} or {
            path for path in holding if any(day in path for day in days)
        }
    else:
        paths = set()
        for part in {day[YEAR_LETTERS:] for day in days} if is_of_any_year(days) else days:
            holding = await index.paths(contains=part, limit=MOST_LOOKED_UP)
            paths.update(path for path in holding if any(day in path for day in days))
    if not 0 < len(paths) < MOST_LOOKED_UP:
        return frozenset()
    return await index.select(Filters(paths=tuple(paths))) or frozenset()


def _numbered_in(query: str) -> Sequence[str]:
    """Return the first words of `query` that have a number."""
    return [_NO.sub(" ", name) for name in dict.fromkeys(_NUMBERED.findall(query))][:MOST_NUMBERED]


def _number_first(name: str) -> Sequence[Sequence[str]]:
    """Return what is looked up for a word with a number, one after the other, each with its spellings."""
    # A heading such as `ADR 14` in an overview would hide the page. And in one word (`RFC2119`) it is a page's number or nothing:
    # `oauth2.md` is not meant by each question that has `oauth2`.
    number = [number_key(name)]
    return [number] if name.isalnum() else [number, [name, *other_spellings(name)]]
