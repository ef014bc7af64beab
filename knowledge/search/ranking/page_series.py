"""Finds the newest or the first to fourth of several pages with a date, a version or a number in their names: *latest release*."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from knowledge.pages.paths import parent, within, without_suffix
from knowledge.search.query.analysis import terms_in_name, words
from knowledge.search.query.question import SearchQuestion
from knowledge.search.ranking.ranker import Ranking
from knowledge.search.times.calendar_periods import A_YEAR, ORDINALS
from knowledge.search.times.days import days_shown_in
from knowledge.state.ports import DocumentRecord, Filters, IndexStore

BEST_PAGES = 4
"""The first pages of an answer: the folder of the first of them, and one that most of them are in, are looked at."""
MOST_OF_THEM = 3
FEWEST_DATED, FEWEST = 2, 3
"""Pages with a date, or with a version or number, in their name that a folder must have."""
MOST_PAGES = 20_000
"""A folder with at least so many pages is not searched for its newest."""
MOST_FOLDERS, MOST_COMPARED = 3, 1_000
"""The most folders in which only some pages may be the series, and the most pages of such a folder."""
NEWEST = -1
_NEWEST = frozenset((
    "latest", "newest", "last", "neueste", "neuester", "neuestes", "neuesten", "letzte", "letzter", "letztes", "letzten",
    "dernier", "dernière", "derniers", "dernières", "último", "última", "últimos", "últimas", "ultimo", "ultima", "ultimi",
    "ultime", "nieuwste", "laatste", "ostatni", "ostatnia", "ostatnie", "ostatnią", "senaste", "последний", "последняя",
    "последнее", "последние", "последнюю",
))  # fmt: skip
_PLACES = {
    **dict.fromkeys(_NEWEST, NEWEST),
    **{word: place for place, ordinal in enumerate(ORDINALS) for word in ordinal},
}
_WHICH = {NEWEST: "newest", **{place: words_[0] for place, words_ in enumerate(ORDINALS)}}
_ABOUT_IT = re.compile(r"^\W*(?:how|why|wie|warum|comment|pourquoi|cómo|por qué)\b|\bfor\W*$", re.IGNORECASE)
"""The beginning or end of a question that is about such a page and does not ask for it: *why the first release*."""
_YEARS = frozenset({"year", "jahr", "année", "año", "anno"})
_MOST_RECENT = re.compile(r"\bmost recent\b", re.IGNORECASE)
_OTHER_SENSE = re.compile(
    r"\b(?:at last|last\s+(?:but|names?|week|month|year|night|time|one)|to last|not the last|before|after|since)\b",
    re.IGNORECASE,
)
_VERSION = re.compile(r"(?<![\w.])v?(\d+(?:\.\d+)+)(?![\w.]*\d)")
_NUMBER = re.compile(r"^(?!\d+$)(?:[^\W\d_]+[-_ ])?(\d+)(?!\d)")
"""The number of a page, such as `adr-0014` or `0014-use-queues`; a name that is only a number says nothing."""
_DIGITS = re.compile(r"\d+")
_NO_MEMBER = re.compile(r"template|vorlage|modèle|plantilla|modello|index|readme", re.IGNORECASE)
_OF_ANY_PAGE = frozenset((
    "note", "notes", "page", "pages", "entry", "file", "document", "notiz", "eintrag", "seite", "nota", "página", "fiche", "pagina",
))  # fmt: skip
"""Words for any page, which its name need not have if they end the question: *last daily note*."""
_MARKS = "?!.,:;\"'()"
_OF_A_PERIOD = re.compile(r"[\d-]+")
"""The name of a folder for a year or a month."""


class PageOfSeries(NamedTuple):
    """The page that a question asks for, and which of its series it is: "newest", "first", "second", "third" or "fourth"."""

    path: str
    which: str


@dataclass(frozen=True, slots=True)
class _AskedPlace:
    """Which page of a series a question asks for (-1: the newest), by which words, in which year, and the terms of other words."""

    place: int
    words: frozenset[str]
    year: str
    others: Sequence[Collection[str]]


async def find_of_series(
    index: IndexStore, question: SearchQuestion, ranking: Ranking, *, place: str = ""
) -> PageOfSeries | None:
    """Return the page of a series, at or below `place`, that a question asks for; None if it asks for none, or there is no such page.

    A series is the pages of a folder: that of the first page, one that most of the best pages are in, or that of a page whose name
    has words of the question. The page must have all other words of the question in its title or path: names do not say which are
    the *latest minutes about hiring*, unless they mention hiring.
    """
    asked = _asked(question)
    # A page that is named with such a word is meant itself: *first aid*.
    mentioned = (ranking.rows[seq] for seq in ranking.mentioned)
    if asked is None or any(not asked.words.isdisjoint(words(f"{row.path} {row.title}")) for row in mentioned):
        return None
    best = list(dict.fromkeys(ranking.rows[seq].path for seq in ranking.ranked))[:BEST_PAGES]
    folders = [_folder_of(path) for path in best]
    common = [folder for folder in folders if folders.count(folder) >= MOST_OF_THEM]
    named = await _pages_by_name(index, ranking)
    candidates = list(dict.fromkeys((*folders[:1], *common, *(_folder_of(page.path) for page in named))))
    dated = {doc for docs in question.times.values() for doc in docs}
    if asked.place == NEWEST and not asked.year and not dated:
        for folder in candidates:
            paths = await index.paths(prefix=f"{folder}/" if folder else "", limit=MOST_PAGES)
            newest = newest_of(path for path in paths if within(path, folder) and within(path, place))
            page = await index.document(newest) if newest and len(paths) < MOST_PAGES else None
            if page is not None and _has_all(asked.others, page):
                return PageOfSeries(page.path, _WHICH[NEWEST])
    # Or of some in the folder: the latest *polarisation curve* among logs of all kinds, the second meeting *with Ann*.
    for folder in candidates[:MOST_FOLDERS]:
        docs = await index.select(Filters(path=folder))
        records = await index.records(docs) if docs and len(docs) <= MOST_COMPARED else {}
        members = {page.path: doc for doc, page in records.items() if within(page.path, place)}
        fitting = {page.path: page for page in records.values() if _has_all(asked.others, page)}
        # `first-steps.md` is no first page.
        if any(not asked.words.isdisjoint(words(f"{path} {page.title}")) for path, page in fitting.items()):
            continue
        ordered = [
            (key, path)
            for key, path in in_order(members)
            if path in fitting
            and (not dated or members[path] in dated)
            and (not asked.year or key[0] == int(asked.year))
        ]
        found = _nth(ordered, asked.place)
        # Numbered pages are of all kinds, unless the name of their folder says of which.
        if found and (_has_date_or_version(found) or _has_all(asked.others, records[members[found]], of=folder)):
            return PageOfSeries(found, _WHICH[asked.place])
    return None


def _has_date_or_version(path: str) -> bool:
    """Return whether the file name has a date or a version."""
    name = without_suffix(path.rpartition("/")[2])
    return bool(_date_of(name) or _version_of(name))


async def _pages_by_name(index: IndexStore, ranking: Ranking) -> Sequence[DocumentRecord]:
    """Return the pages whose names have words of the question, best first: for *latest daily note* those in `daily`."""
    scores = ranking.signals.names if ranking.signals else {}
    records = await index.records(set(scores)) if scores else {}
    return [records[doc] for doc in sorted(scores, key=lambda doc: -scores[doc]) if doc in records]


def series_words(question: SearchQuestion) -> frozenset[str]:
    """Return the words of a question, case-folded, that may say which page of a series it asks for."""
    # Not by `words`: `lastRegisteredEmail` asks for nothing.
    written = _MOST_RECENT.sub(" latest ", question.to_embed)
    for time in question.times:
        written = written.replace(time, " ")
    if _OTHER_SENSE.search(written):
        return frozenset()
    return frozenset(word.strip(_MARKS).casefold() for word in written.split()) & _PLACES.keys()


def _asked(question: SearchQuestion) -> _AskedPlace | None:
    """Return which page of a series is asked for; None if none is, or if nothing is left that tells the series."""
    which = series_words(question)
    is_about_it = _ABOUT_IT.search(question.to_embed) is not None
    says_another_time = question.days and not question.times  # a date that no page is of
    if len({_PLACES[word] for word in which}) != 1 or is_about_it or says_another_time:
        return None
    left_out = which | {"recent"} | {word for time in question.times for word in words(time)}
    terms = [term for term in question.terms if term.word not in left_out and term.word not in question.times]
    years = [term.word for term in terms if A_YEAR.fullmatch(term.word)]
    if years:
        terms = [term for term in terms if term.word not in (*years, *_YEARS)]
    # Not the *last page of the contract*, which is no page here.
    if len(terms) > 1 and terms[-1].word in _OF_ANY_PAGE:
        written = question.to_embed.strip(_MARKS).casefold()
        terms = terms[:-1] if written.endswith(terms[-1].word) else terms
    if not terms or len(years) > 1:
        return None
    others = [{form for form, _ in term.alternatives if form} for term in terms]
    return _AskedPlace(_PLACES[next(iter(which))], which, "".join(years), others)


def newest_of(paths: Iterable[str]) -> str:
    """Return the path whose file name has the latest date; without dates, the highest version or number; "" if that is not clear."""
    return _nth(in_order(paths), NEWEST)


def in_order(paths: Iterable[str]) -> Sequence[tuple[Sequence[int], str]]:
    """Return the paths whose file names have a date, or else a version or a number, each behind it, in that order.

    Returns none if few names have one, or if names are without a year but their folders are for years or months.
    """
    names = {path: without_suffix(path.rpartition("/")[2]) for path in paths}
    names = {path: name for path, name in names.items() if not _NO_MEMBER.search(name)}
    for key_of, fewest in ((_date_of, FEWEST_DATED), (_version_of, FEWEST), (_number_of, FEWEST)):
        found = [(key, path) for path, name in names.items() if (key := key_of(name))]
        if len(found) >= fewest and 2 * len(found) > len(names):
            lacks_year = key_of is not _date_of and any(
                _OF_A_PERIOD.fullmatch(part) for _, path in found for part in parent(path).split("/")
            )
            return [] if lacks_year else sorted(found)
    return []


def _nth(ordered: Sequence[tuple[Sequence[int], str]], place: int) -> str:
    """Return the path at that place, or "" if there is none or another one has the same date, version or number."""
    if not -len(ordered) <= place < len(ordered):
        return ""
    key, path = ordered[place]
    return path if sum(key == other for other, _ in ordered) == 1 else ""


def _date_of(name: str) -> list[int]:
    """Return the latest day in a name; a month counts as its last day."""
    return [int(part) for part in max(days_shown_in([name]), default="").split("-") if part]


def _version_of(name: str) -> list[int]:
    said = _VERSION.search(name)
    return [int(part) for part in said[1].split(".")] if said else []


def _number_of(name: str) -> list[int]:
    """Return all numbers of a name that begins with one: `INV-2026-10` comes after `INV-2026-9`."""
    return [int(digits) for digits in _DIGITS.findall(name)] if _NUMBER.search(name) else []


def _folder_of(path: str) -> str:
    """Return the folder of a page; above folders for a year or a month."""
    folder = parent(path)
    while folder and _OF_A_PERIOD.fullmatch(folder.rpartition("/")[2]):
        folder = parent(folder)
    return folder


def _has_all(asked: Iterable[Collection[str]], page: DocumentRecord, *, of: str = "") -> bool:
    """Return whether the path or title of the page, or only the path of its folder `of`, has all words that are asked for."""
    there = terms_in_name(of or f"{page.path} {page.title}", page.language)
    return all(not there.isdisjoint(forms) for forms in asked)
