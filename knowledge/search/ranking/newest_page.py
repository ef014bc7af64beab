"""Finds the newest of several pages that carry a date, a version or a number in their name, for questions such as *latest release*."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable
from itertools import islice

from knowledge.pages.paths import parent, within, without_suffix
from knowledge.search.query.analysis import beginning, index_language, is_stop_word, stem, words
from knowledge.search.query.question import SearchQuestion
from knowledge.search.ranking.ranker import Ranking
from knowledge.state.ports import IndexStore

BEST_PAGES = 4
"""Pages of an answer that are looked at: most of them, or the first one, must be of the folder in question."""
MOST_OF_THEM = 3
FEWEST = 3
"""Pages with a date, a version or a number in their name that a folder must have."""
MOST_PAGES = 20_000
"""Of a folder with more pages none is looked for."""
WORDS_BEHIND = 2
"""Words behind *latest* of which one must be in the page's title or path: *latest annual report*."""
_NEWEST = frozenset((
    "latest", "newest", "last", "neueste", "neuester", "neuestes", "neuesten", "letzte", "letzter", "letztes", "letzten",
    "dernier", "dernière", "derniers", "dernières", "último", "última", "últimos", "últimas", "ultimo", "ultima", "ultimi",
    "ultime", "nieuwste", "laatste", "ostatni", "ostatnia", "ostatnie", "ostatnią", "senaste", "последний", "последняя",
    "последнее", "последние", "последнюю",
))  # fmt: skip
_MOST_RECENT = re.compile(r"\bmost recent\b", re.IGNORECASE)
_DATE = re.compile(r"(?<!\d)((?:19|20)\d\d-\d\d(?:-\d\d)?)(?!\d)")
_VERSION = re.compile(r"(?<![\w.])v?(\d+(?:\.\d+)+)(?![\w.]*\d)")
_NUMBER = re.compile(r"^(?!\d+$)(?:[^\W\d_]+[-_ ])?(\d+)(?!\d)")
"""The number of a page, such as `adr-0014` or `0014-use-queues`; a name that is only a number says nothing."""
_MARKS = "?!.,:;\"'()"
_OF_A_PERIOD = re.compile(r"[\d-]+")
"""The name of a folder for a year or a month."""


async def find_newest(index: IndexStore, question: SearchQuestion, ranking: Ranking, *, place: str = "") -> str:
    """Return the path of the newest page, below `place`, of the folder that a question is about; "" if it asks for no newest page.

    The folder is that of the first page, or one from which most of the best pages are. The newest page must have one of the words
    behind *latest* in its title or path: *the last registered address* is about no page of a series.
    """
    asked = words_behind_newest(question.to_embed)
    if not asked:
        return ""
    best = list(dict.fromkeys(ranking.rows[seq].path for seq in ranking.ranked))[:BEST_PAGES]
    folders = [_folder_of(path) for path in best]
    common = [folder for folder in folders if folders.count(folder) >= MOST_OF_THEM]
    for folder in dict.fromkeys((*folders[:1], *common)):
        paths = await index.paths(prefix=f"{folder}/" if folder else "", limit=MOST_PAGES)
        newest = newest_of(path for path in paths if within(path, place)) if len(paths) < MOST_PAGES else ""
        page = await index.document(newest) if newest else None
        if page is not None and _has_word_of(question, asked, f"{page.path} {page.title}", page.language):
            return page.path
    return ""


def words_behind_newest(query: str) -> frozenset[str]:
    """Return the words that say of what the newest is asked for; none if a question does not ask for the newest of anything."""
    # Not by `words`: `lastRegisteredEmail` asks for nothing.
    asked = _MOST_RECENT.sub(" latest ", query).split()
    at = next((at for at, word in enumerate(asked) if word.strip(_MARKS).casefold() in _NEWEST), None)
    telling = (word for word in words(" ".join(asked[at + 1 :])) if not is_stop_word(word)) if at is not None else ()
    return frozenset(islice(telling, WORDS_BEHIND))


def newest_of(paths: Iterable[str]) -> str:
    """Return the path whose file name has the latest date; without dates, the highest version or number; "" if few names have one."""
    names = {path: without_suffix(path.rpartition("/")[2]) for path in paths}
    for pattern in (_DATE, _VERSION, _NUMBER):
        found = {path: _key(said[1]) for path, name in names.items() if (said := pattern.search(name))}
        if len(found) >= FEWEST and 2 * len(found) > len(names):
            return max(found, key=lambda path: (found[path], path))
    return ""


def _key(written: str) -> list[int]:
    return [int(part) for part in re.split(r"[.-]", written)]


def _folder_of(path: str) -> str:
    """Return the folder of a page; above folders for a year or a month."""
    folder = parent(path)
    while folder and _OF_A_PERIOD.fullmatch(folder.rpartition("/")[2]):
        folder = parent(folder)
    return folder


def _has_word_of(question: SearchQuestion, asked: Collection[str], name: str, language: str) -> bool:
    forms = {form for term in question.terms if term.word in asked for form, _ in term.alternatives if form}
    return any(
        not forms.isdisjoint({stem(word, index_language(language)), beginning(word, language)}) for word in words(name)
    )
