"""Finds the directories and pages that a question names, and the pages with a tag that it asks for."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from knowledge.pages.map_view import MapEntry
from knowledge.pages.paths import INDEX_NAME, ancestors, parent, within, without_suffix
from knowledge.search.map_lines import Entries, document_entry, join
from knowledge.search.maps.gathered import known_tags
from knowledge.search.query.analysis import is_stop_word, words
from knowledge.search.query.names import nearest_first, sharing, tag_in
from knowledge.search.query.only_names import SaidName, asks_what_exists, said_names
from knowledge.search.query.place_words import ROLES
from knowledge.search.route.words import (
    ALL,
    BEFORE_A_NAME,
    BEFORE_A_PLACE,
    INSIDE,
    LIST,
    PLACE,
    THING,
    WHERE,
    WHETHER,
    WHICH,
    WORDS,
)
from knowledge.state.document_names import number_key
from knowledge.state.ports import Filters, IndexStore, NameMatch

LONGEST_NAME = 5
"""The most words of a name within a question."""
MOST_LOOKUPS = 12
MOST_PLACES = 3
MOST_OF_A_NAME = 20
"""The most pages that are looked up for one name; of these, the pages that search ranks first are taken."""
MOST_ENDING = 20
"""Directories with the same end of the path that are compared."""
SHORTEST_PLURAL = 3
NO_PLURALS = frozenset({"customs", "goods", "james", "lens", "news", "windows"})
"""Names that end like a plural and are none."""
MOST_OPENED = 8
"""The most children of the first directory, or pages with a tag, that are shown."""
_BREAKS = re.compile(r"[\s_\-]+")
_PATH = re.compile(r"[\w.\-]+(?:/[\w.\-]+)*/?")
_TOKEN = re.compile(r"[^\s,;:!?¿¡\"'`()/]+")
_OF_TAGS = frozenset({"tag", "tags", "tagged", "note", "notes", "page", "pages"})
_ASKING = WHERE | WHICH | WHETHER | LIST | PLACE | THING | ALL | INSIDE
"""Words that ask for a place or name its kind; the remaining words of a question are a name."""


@dataclass(frozen=True, slots=True)
class NamedPlaces:
    """The map lines of the places that a question names, and the one place that it is about.

    `target` is None if the question names no place, or says more than a place's name. `namesakes` is the number of further
    directories among the lines that have the name, or of further pages that have it.
    """

    lines: Sequence[MapEntry] = ()
    target: MapEntry | None = None
    namesakes: int = 0

    @property
    def pages_sharing(self) -> int:
        """How many pages have the name of a page that the question is about; else 1."""
        return 1 + self.namesakes if self.target is not None and self.target.kind == "document" else 1


@dataclass(frozen=True, slots=True)
class TaggedPages:
    """How many pages have the tag that a question asks for, and the map lines of the first by path.

    `tag` is empty if it asks for none, or no page has it. There are no lines if the question says more than the tag, or if its
    answer is filtered.
    """

    tag: str = ""
    pages: int = 0
    lines: Sequence[MapEntry] = ()


async def find_tagged(index: IndexStore, query: str, chosen: Filters, *, most: int) -> TaggedPages:
    """Return the pages with the tag that `query` asks for, below the path of `chosen`, with at most `most` lines."""
    if not (asked := tag_in(query)):
        return TaggedPages()
    (tag,) = await known_tags(index, (asked,))
    place = Filters(path=chosen.path)
    pages = await index.select(replace(place, tags=(tag,)))
    if not pages:
        return TaggedPages()
    rest = [word for word in words(query) if word not in words(asked) and not WORDS.get(word, 0) & _ASKING]
    says_more = any(word not in _OF_TAGS and not is_stop_word(word) for word in rest)
    if says_more or chosen != place:
        return TaggedPages(tag, len(pages))
    first = await index.tagged((tag,), after=f"{place.path}/" if place.path else "", limit=min(MOST_OPENED, most))
    return TaggedPages(tag, len(pages), [document_entry(page) for page in first if within(page.path, place.path)])


class Places:
    """Looks up the places that a question names."""

    def __init__(self, index: IndexStore) -> None:
        self._index, self._entries = index, Entries(index)

    async def find(
        self,
        query: str,
        names: Sequence[NameMatch],
        near: Sequence[str],
        *,
        directory: str,
        languages: Sequence[str],
        spoken: Sequence[str] = (),
    ) -> NamedPlaces:
        """Return the places below `directory` that `query` names, best first, then the children of the first one.

        `names` are matches of the whole question. `near` are the paths of pages that search found: they, and the directories
        above them, also match by the end of their path. If a question only asks what exists, its target is `directory`.
        `languages` are those of the pages, `spoken` those that the question is read in.
        """
        found: dict[str, MapEntry] = {}
        near_at = {path: place for place, path in enumerate(near)}
        for match in nearest_first(names, lambda match: near_at.get(match.path, len(near))):
            # A heading is a section and not a place; it is among the hits.
            if match.by != "heading":
                await self._take(match.path, found)
        target = next(iter(found.values()), None)
        namesakes = _directories(found.values()) - 1 if target is not None and target.kind == "directory" else 0
        # A question that is the name of a page may be a folder's, too, but names no other place with a part of it.
        phrases = _phrases(query, languages) if target is None else _likeliest(query, languages)
        ends = _path_ends(near)
        if target is None:
            said_places, namesakes = await self._asked_for(query, spoken, ends, directory, near_at)
            target = next(iter(said_places), None)
            if target is None and asks_what_exists(query):
                target = await self._directory(directory)
            # They come before those that only have some of the words.
            found = {**{place.path: place for place in said_places}, **found}
        for phrase in phrases:
            if len(found) >= MOST_PLACES:
                break
            await self._named(phrase, ends, directory, near_at, found)
        places = [entry for path, entry in found.items() if within(path, directory)][:MOST_PLACES]
        inside: list[MapEntry] = []
        if opened := next((entry for entry in places if entry.kind == "directory"), None):
            folders, documents = await self._index.children(opened.path, limit=MOST_OPENED + 1)
            inside = [await self._entries.folder(record) for record in folders]
            inside += [document_entry(record) for record in documents if not _is_index(record.path)]
        lines = [*places, *(entry for entry in inside[:MOST_OPENED] if entry.path not in found)]
        return NamedPlaces(lines, target if target and within(target.path, directory) else None, max(namesakes, 0))

    async def _asked_for(
        self, query: str, spoken: Sequence[str], ends: Mapping[str, str], directory: str, near_at: Mapping[str, int]
    ) -> tuple[Sequence[MapEntry], int]:
        """Return the places below `directory` that `query` asks for by a name, and how many more than the first have that name."""
        if names := _names_that_ask(query):
            paths = await self._ending_in([name.casefold() for name in names], directory)
            called = [path for path in paths if path.rpartition("/")[2] in names]
            if folders := [entry for path in called if (entry := await self._directory(path))]:
                return folders, len(folders) - 1
        for said in said_names(query, spoken):
            if places := await self._said(said, ends, directory, near_at):
                is_folder = places[0].kind == "directory"
                having = (
                    _directories(places)
                    if is_folder
                    else await self._pages_sharing(said.name, places[0].path, directory)
                )
                return places, having - 1
        return (), 0

    async def _said(
        self, said: SaidName, ends: Mapping[str, str], directory: str, near_at: Mapping[str, int]
    ) -> Sequence[MapEntry]:
        """Return the places below `directory` that have the name: a page, or the directories whose path ends in it."""
        name = said.name if "/" in said.name else said.name.casefold()
        spellings = list(dict.fromkeys((name, name.replace(" ", "-"))))
        found: dict[str, MapEntry] = {}
        for phrase in spellings:
            await self._named(phrase, ends, directory, near_at, found)
        places = [place for place in found.values() if within(place.path, directory)]
        of_kind = [place for place in places if said.kind in ("any", place.kind)]
        if of_kind and of_kind[0].kind == "document":
            return [place for place in of_kind if place.kind == "document"][:MOST_PLACES]
        if said.kind == "document":
            return places[:1]  # people call an `_index.md` a page, too
        known = {place.path: place for place in of_kind[:1]}
        for names in (spellings, _singulars(name)):
            for path in await self._ending_in(names, directory) if names else ():
                if path not in known and (entry := await self._directory(path)):
                    known[path] = entry
            if known:
                break
        return list(known.values())[:MOST_PLACES]

    async def _pages_sharing(self, name: str, path: str, directory: str) -> int:
        """Return how many pages below `directory` have `name`, as a path or in either spelling; 1 if only `path` has it."""
        for phrase in _spellings(name.casefold().split()):
            matches = await self._index.named(phrase, limit=MOST_OF_A_NAME, spellings=[number_key(phrase)])
            if any(match.path == path for match in matches):
                return sharing([match for match in matches if within(match.path, directory)])
        return 1

    async def _ending_in(self, phrases: Sequence[str], directory: str) -> Sequence[str]:
        """Return the directories below `directory` whose path ends in one of the phrases, the uppermost first."""
        paths = await self._index.directories_ending(phrases, limit=MOST_ENDING)
        below = (path for path in paths if within(path, directory))
        return sorted(below, key=lambda path: (path.count("/"), path))[:MOST_PLACES]

    async def _pages_ending_in(self, phrase: str, directory: str) -> list[str]:
        """Return the pages below `directory` whose path ends in `phrase`, with or without its suffix, the uppermost first."""
        end = f"/{without_suffix(phrase).strip('/')}".casefold()
        holding = await self._index.paths(prefix=directory, contains=end, limit=MOST_ENDING)
        pages = [path for path in holding if f"/{without_suffix(path).casefold()}".endswith(end)]
        return sorted(pages, key=lambda path: (path.count("/"), path))[:MOST_PLACES]

    async def _directory(self, path: str) -> MapEntry | None:
        record = await self._index.directory(path)
        return await self._entries.folder(record) if record else None

    async def _named(
        self,
        phrase: str,
        ends: Mapping[str, str],
        directory: str,
        near_at: Mapping[str, int],
        found: dict[str, MapEntry],
    ) -> None:
        for path in dict.fromkeys((join(directory, phrase), ends.get(_plain(without_suffix(phrase)), phrase))):
            if entry := await self._directory(path):
                found.setdefault(path, entry)
            elif "/" in path and await self._index.document(path):
                await self._take(path, found)
        if "/" in phrase and not found:
            for path in await self._pages_ending_in(phrase, directory):
                await self._take(path, found)
        matches = await self._index.named(phrase, limit=MOST_OF_A_NAME, spellings=[number_key(phrase)])
        for match in nearest_first(matches, lambda match: near_at.get(match.path, len(near_at)))[:MOST_PLACES]:
            if match.by != "heading":
                await self._take(match.path, found)

    async def _take(self, path: str, found: dict[str, MapEntry]) -> None:
        """Add the page at `path`; for an `_index.md`, its directory."""
        if _is_index(path):
            if entry := await self._directory(parent(path)):
                found.setdefault(parent(path), entry)
        elif page := await self._index.document(path):
            found.setdefault(path, document_entry(page))


def _directories(places: Iterable[MapEntry]) -> int:
    return sum(place.kind == "directory" for place in places)


def _phrases(query: str, languages: Sequence[str]) -> Iterator[str]:
    """Yield the parts of `query` that may be names, likeliest first."""
    asked = words(query)
    runs = [
        asked[start : start + length]
        for length in range(min(LONGEST_NAME, len(asked)), 0, -1)
        for start in range(len(asked) - length + 1)
    ]
    # A name neither begins nor ends with a stop word: `the decisions folder` names `decisions folder`.
    telling = [run for run in runs if not is_stop_word(run[0], languages) and not is_stop_word(run[-1], languages)]
    phrases = [*_likeliest(query, languages), *(form for run in telling for form in _spellings(run))]
    yield from list(dict.fromkeys(phrases))[:MOST_LOOKUPS]


def _names_that_ask(query: str) -> list[str]:
    """Return the runs of two and three words of `query` that only ask, as they are written: a folder may be called `My Notes`."""
    asked = _TOKEN.findall(query)
    runs = [asked[at : at + length] for length in (3, 2) for at in range(len(asked) - length + 1)]
    return [" ".join(run) for run in runs if all(word.casefold() in ROLES for word in run)]


def _likeliest(query: str, languages: Sequence[str]) -> list[str]:
    """Return the paths in `query`, and the words between those that only ask."""
    given = [path.removeprefix("./").rstrip("/.") for path in _PATH.findall(query) if "/" in path]
    # Not `words`, which adds the parts of a name with hyphens.
    asked = _TOKEN.findall(query.casefold())
    naming = [at for at, word in enumerate(asked) if not _only_asks(word, languages)]
    return [*given, *(_spellings(asked[naming[0] : naming[-1] + 1]) if naming else ())]


def _spellings(run: Sequence[str]) -> list[str]:
    """Return words as a name: folders are usually written with hyphens, titles with spaces."""
    return list(dict.fromkeys(("-".join(run), " ".join(run))))


def _singulars(name: str) -> list[str]:
    """Return what one thing may be called if several are called `name`: `adr` for `adrs`; nothing if that is no plural with an `s`."""
    if len(name) <= SHORTEST_PLURAL or name in NO_PLURALS:
        return []
    if name.endswith("ies"):
        return [f"{name[:-3]}y"]
    if name.endswith(("ses", "xes", "zes", "ches", "shes")):
        return [name[:-2], name[:-1]]
    return [name[:-1]] if name.endswith("s") and not name.endswith(("ss", "us", "is")) else []


def _path_ends(near: Sequence[str]) -> dict[str, str]:
    """Return the pages in `near` and the directories above them by each end of their path: `debug`, `tasks/debug`.

    A knowledge base is often one folder of a larger tree, or has one above the paths that people use. If several have
    the same end, a directory counts before a page, and otherwise the one nearest to the first page that search found.
    """
    directories = dict.fromkeys(above for page in near for above in ancestors(page) if above)
    ends: dict[str, str] = {}
    for path in (*directories, *near):
        parts = without_suffix(path).split("/")
        # A bare name of a page is looked up in the index, which knows all pages.
        shortest = 1 if path in directories else 2
        for length in range(shortest, len(parts) + 1):
            ends.setdefault(_plain("/".join(parts[-length:])), path)
    return ends


def _only_asks(word: str, languages: Sequence[str]) -> bool:
    """Return whether a word of a question can't be part of a name: `where`, `the`, `list`, `folder`, `what's`."""
    if WORDS.get(word, 0) & _ASKING or word in BEFORE_A_NAME or _leads_to_a_name(word) or is_stop_word(word, languages):
        return True
    return len(word) == 1 and word.isalpha()  # the `s` of `what's`


def _leads_to_a_name(word: str) -> bool:
    return word in BEFORE_A_PLACE or bool(WORDS.get(word, 0) & INSIDE)


def _is_index(path: str) -> bool:
    return path.rpartition("/")[2] == INDEX_NAME


def _plain(name: str) -> str:
    return _BREAKS.sub(" ", name.casefold())
