"""Finds the newest of several pages that carry a date, a version or a number in their name, for questions such as *latest release*."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Sequence

from knowledge.pages.paths import parent, within, without_suffix
from knowledge.search.query.analysis import terms_in_name
from knowledge.search.query.days import days_shown_in
from knowledge.search.query.question import SearchQuestion
from knowledge.search.ranking.ranker import NAME_DEPTH, Ranking
from knowledge.state.ports import DocumentRecord, IndexStore

BEST_PAGES = 4
"""The first pages of an answer: the folder of the first of them, and one that most of them are in, are looked at."""
MOST_OF_THEM = 3
FEWEST = 3
"""Pages with a date, a version or a number in their name that a folder must have."""
MOST_PAGES = 20_000
"""Of a folder with more pages none is looked for."""
_NEWEST = frozenset((
    "latest", "newest", "last", "neueste", "neuester", "neuestes", "neuesten", "letzte", "letzter", "letztes", "letzten",
    "dernier", "dernière", "derniers", "dernières", "último", "última", "últimos", "últimas", "ultimo", "ultima", "ultimi",
    "ultime", "nieuwste", "laatste", "ostatni", "ostatnia", "ostatnie", "ostatnią", "senaste", "последний", "последняя",
    "последнее", "последние", "последнюю",
))  # fmt: skip
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


async def find_newest(index: IndexStore, question: SearchQuestion, ranking: Ranking, *, place: str = "") -> str:
    """Return the path of the newest page, below `place`, of the folder that a question is about; "" if it asks for no newest page.

    The folder is that of the first page, one from which most of the best pages are, or one of a page whose name has words of the
    question. The newest page must have all other words of the question in its title or path: the *latest minutes about hiring* are
    not told by a name, unless names speak of hiring.
    """
    others = words_beside_newest(question)
    if not others:
        return ""
    best = list(dict.fromkeys(ranking.rows[seq].path for seq in ranking.ranked))[:BEST_PAGES]
    folders = [_folder_of(path) for path in best]
    common = [folder for folder in folders if folders.count(folder) >= MOST_OF_THEM]
    named = await _pages_by_name(index, ranking)
    for folder in dict.fromkeys((*folders[:1], *common, *(_folder_of(page.path) for page in named))):
        paths = await index.paths(prefix=f"{folder}/" if folder else "", limit=MOST_PAGES)
        members = [path for path in paths if within(path, folder) and within(path, place)]
        newest = newest_of(members) if len(paths) < MOST_PAGES else ""
        page = await index.document(newest) if newest else None
        if page is not None and _has_all(others, page):
            return page.path
    # Or of some in the folder: the latest *polarisation curve* among logs of all kinds. Only if no page of the name is left out.
    fitting = [page.path for page in named if within(page.path, place) and _has_all(others, page)]
    for folder in dict.fromkeys(map(_folder_of, fitting)) if len(named) < NAME_DEPTH else ():
        if newest := newest_of(path for path in fitting if _folder_of(path) == folder):
            return newest
    return ""


async def _pages_by_name(index: IndexStore, ranking: Ranking) -> Sequence[DocumentRecord]:
    """Return the pages whose names have words of the question, best first: for *latest daily note* those in `daily`."""
    scores = ranking.signals.names if ranking.signals else {}
    records = await index.records(set(scores)) if scores else {}
    return [records[doc] for doc in sorted(scores, key=lambda doc: -scores[doc]) if doc in records]


def words_beside_newest(question: SearchQuestion) -> Sequence[Collection[str]]:
    """Return the terms of each other word of a question for the newest of something; none if it asks for none, or for a date."""
    # Not by `words`: `lastRegisteredEmail` asks for nothing.
    written = _MOST_RECENT.sub(" latest ", question.to_embed)
    asks = {word.strip(_MARKS).casefold() for word in written.split()} & _NEWEST
    if not asks or question.days or question.times or _OTHER_SENSE.search(written):
        return ()
    left_out = asks | {"recent"}
    terms = [term for term in question.terms if term.word not in left_out]
    # Not the *last page of the contract*, which is no page here.
    if len(terms) > 1 and terms[-1].word in _OF_ANY_PAGE and written.strip(_MARKS).casefold().endswith(terms[-1].word):
        del terms[-1]
    return [{form for form, _ in term.alternatives if form} for term in terms]


def newest_of(paths: Iterable[str]) -> str:
    """Return the path whose file name has the latest date; without dates, the highest version or number; "" if that is not clear.

    It is not if few names have one, two have the same, or folders for years or months have names without a year.
    """
    names = {path: without_suffix(path.rpartition("/")[2]) for path in paths}
    names = {path: name for path, name in names.items() if not _NO_MEMBER.search(name)}
    for key_of in (_date_of, _version_of, _number_of):
        found = {path: key for path, name in names.items() if (key := key_of(name))}
        if len(found) >= FEWEST and 2 * len(found) > len(names):
            newest = max(found, key=lambda path: found[path])
            is_shared = sum(key == found[newest] for key in found.values()) > 1
            lacks_year = key_of is not _date_of and any(
                _OF_A_PERIOD.fullmatch(part) for part in parent(newest).split("/")
            )
            return "" if is_shared or lacks_year else newest
    return ""


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


def _has_all(asked: Iterable[Collection[str]], page: DocumentRecord) -> bool:
    there = terms_in_name(f"{page.path} {page.title}", page.language)
    return all(not there.isdisjoint(forms) for forms in asked)
