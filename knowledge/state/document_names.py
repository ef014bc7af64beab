"""The names by which a document can be found. Pure; every engine uses these same rules."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from knowledge.pages.markdown.inline import without_attributes
from knowledge.pages.paths import FOLDER_PAGES, HEADING_SEPARATOR, INDEX_NAME, PageLink, joined, parent, without_suffix

if TYPE_CHECKING:
    from knowledge.state.ports import DocumentRecord

BY = ("path", "path", "title", "alias", "heading")
"""`NameMatch.by` for each rank: the path, the file's name, the title, an alias, a heading."""

_APOSTROPHES = re.compile("['\u2019\u02bc]")
_NUMBER_OF_FILE = re.compile(r"(\d{4}-\d\d-\d\d|\d{1,3}(?:\.\d{1,3})+|\d{2,})[-_. ]+(?=[^\W\d_])")
"""What a file's name begins with: a number (`0014-use-queues.md`), a place (`11.03 Contracts.md`) or a day (`2026-11-29-notes.md`)."""
_NUMBER_OF_TITLE = re.compile(r"([^\W\d_]+[ -]?#?\d{1,9})(?=\s*[:\u2013\u2014]|\s+-\s)")
"""What a numbered title begins with: `Decision 14` of `Decision 14: use queues`."""
_YEAR = re.compile(r"(?:19|20)\d\d")
_PARTS_OF_NUMBER = re.compile(r"[\s_-]+|(?<=[^\W\d_])#?(?=\d)")
_ZEROS = re.compile(r"(?<![\w.])0+(?=\d)")
_NUMBER = "\ue000"
"""Begins the keys of numbers, which therefore no link and no other name has."""
_ARTICLE = re.compile(r"^\s*(?:the|an?)\s+(?=\w)", re.IGNORECASE)
LAST_CHARACTER = "\U0010ffff"


@dataclass(frozen=True, slots=True)
class Name:
    """One name of a document, or of one of its sections. Matches are ordered by `rank`, then path, then `position`."""

    key: str
    rank: int
    position: int
    section: str | None


def name_key(name: str) -> str:
    """Return a key that is the same for names that differ only in case, spacing or Unicode form."""
    return " ".join(unicodedata.normalize("NFC", name).casefold().split())


def names_of(record: DocumentRecord) -> frozenset[Name]:
    """Return every name of the document; each heading gives two: its own text, and its full path.

    A title or heading that ends in attributes for a site generator (`{#id}`) is also found without them, and as it is typed. A page
    with a number is also found by that (`number_key`): `0014`, `decisions/0014` and `Decision 14`.
    """
    names = [Name(name_key(shown), 2, 0, None) for shown in (record.title, without_attributes(record.title))]
    for rank, shown in ((0, record.path), (1, record.path.rpartition("/")[2])):
        names += [Name(name_key(shown), rank, 0, None), Name(name_key(without_suffix(shown)), rank, 1, None)]
    names += [Name(typed, 2, 0, None) for one in names[:2] if (typed := as_typed(one.key)) != one.key]
    names += _numbers_of(record)
    names += [Name(name_key(alias), 3, position, None) for position, alias in enumerate(record.aliases)]
    for position, section in enumerate(record.sections):
        parts = section.split(HEADING_SEPARATOR)
        bare = [without_attributes(part) for part in parts]
        for heading in (section, parts[-1], HEADING_SEPARATOR.join(bare), bare[-1], as_typed(bare[-1])):
            names.append(Name(name_key(heading), 4, position, section))
    return frozenset(name for name in names if name.key)


def number_key(name: str) -> str:
    """Return the key by which a page is found by its number: the same for `ADR-0007`, `adr 7` and `ADR7`; "" without figures."""
    if not any(map(str.isdecimal, name)):
        return ""
    return _NUMBER + _ZEROS.sub("", " ".join(_PARTS_OF_NUMBER.split(name_key(name).replace("#", ""))))


def _numbers_of(record: DocumentRecord) -> list[Name]:
    folder, file = parent(record.path), record.path.rpartition("/")[2]
    # The page of a numbered folder (`3973-pods/README.md`) has the folder's number.
    if folder and without_suffix(file).casefold() in FOLDER_PAGES:
        folder, file = parent(folder), folder.rpartition("/")[2]
    found = [title[1]] if (title := _NUMBER_OF_TITLE.match(record.title)) else []
    if begun := _NUMBER_OF_FILE.match(file):
        number, last = begun[1], folder.rpartition("/")[2]
        # A year is in the names and texts of many pages.
        found += [] if _YEAR.fullmatch(number) else [number]
        if folder:
            found += [
                f"{folder}/{number}",
                f"{last}/{number}",
                f"{last} {number}",
                f"{last.removesuffix('s')} {number}",
            ]
    return [Name(number_key(name), 1, 2, None) for name in found]


def as_typed(name: str) -> str:
    """Return a name with the signs that people type: `CO2` for `CO₂`, without apostrophes, accents of Latin letters and an article."""
    plain = _ARTICLE.sub("", _APOSTROPHES.sub("", name))
    if plain.isascii():
        return plain
    bare = ""
    for sign in unicodedata.normalize("NFD", unicodedata.normalize("NFKC", plain)):
        if not (unicodedata.combining(sign) and bare[-1:].isascii()):
            bare += sign
    return unicodedata.normalize("NFC", bare)


def files_by_name(paths: Iterable[str]) -> Mapping[str, Sequence[str]]:
    """Return the paths by the key of the file's name, without its folder and, for a page, without its suffix."""
    found: dict[str, list[str]] = {}
    for path in paths:
        found.setdefault(name_key(without_suffix(path.rpartition("/")[2])), []).append(path)
    return found


_NAMED, _ORDINARY = "[[", "]("
"""The prefixes of the keys of links by name: of wiki links, and of ordinary links. No path begins with one of them."""


def link_keys(page: str, link: PageLink) -> frozenset[str]:
    """Return the keys under which a link of `page` is stored.

    They are every path that the link may mean, and the name or the end of a path that is written in it.
    """
    # Relative to the page and to the root: which of the two is meant depends on the pages that exist when the link is followed.
    paths = (joined(directory, link.path) for directory in ("", parent(page)))
    keys = {path for path in paths if path is not None}
    rooted = link.path.startswith(("/", "./", "../"))
    named = joined(parent(page), link.path) if rooted else link.path
    if named:
        keys.add((_NAMED if link.wiki else _ORDINARY) + "/" * rooted + name_key(without_suffix(named)))
    return frozenset(keys)


def keys_of_links_to(path: str, names: Sequence[str]) -> frozenset[str]:
    """Return the keys of all links that may lead to the page at `path`; `names` are its title and aliases."""
    folder, file = parent(path), path.rpartition("/")[2]
    parts = without_suffix(path).split("/")
    ends = {"/" + name_key(without_suffix(path)), *(name_key("/".join(parts[at:])) for at in range(len(parts)))}
    keys = {path, without_suffix(path), *(_NAMED + name for name in (*ends, *map(name_key, names)))}
    keys |= {_ORDINARY + name for name in ends}
    return frozenset({*keys, folder} if file == INDEX_NAME else keys)


def begins_in(headings: Sequence[str], section: str | None) -> bool:
    """Return whether a chunk under `headings` lies in the section with that heading path; None means the whole document."""
    if section is None:
        return True
    path = HEADING_SEPARATOR.join(headings)
    return path == section or path.startswith(section + HEADING_SEPARATOR)


def after_prefix(prefix: str) -> str | None:
    """Return the smallest text, by code points, above all texts that begin with `prefix`, or None."""
    head = prefix.rstrip(LAST_CHARACTER)
    if not head:
        return None
    following = ord(head[-1]) + 1
    # Surrogates are not characters, and a database cannot hold them.
    return head[:-1] + chr(0xE000 if following == 0xD800 else following)
