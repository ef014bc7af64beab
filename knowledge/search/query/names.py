"""The names of pages and sections that a question may be: how else they may be written, and which is meant. Pure."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from knowledge.search.query.analysis import name_parts
from knowledge.state.document_names import as_typed, name_key, number_key
from knowledge.state.ports import NameMatch

LONGEST_NAME = 200
MOST_JOINED = 3
"""The most words that are looked up as one: of more, each spelling would cost a look for a name that is seldom there."""
_SEPARATORS = re.compile(r"[\s_-]+")
_TAG = re.compile(
    r"(?:^|\s)#([^\W\d][\w/-]*)|\btag:\s?#?([\w/-]+)|\btagged\s+(?:with\s+|as\s+)?[\"'#]?([\w/-]+)|\btags?\s+[\"'#]?([\w/-]+)[\"'?]*$",
    re.IGNORECASE,
)
_UMLAUTS = {"ae": "ä", "oe": "ö", "ue": "ü"}
_UMLAUT = re.compile("[aou]e", re.IGNORECASE)


def other_spellings(name: str) -> Sequence[str]:
    """Return how else `name` may be written: with other signs between words, as an identifier or with umlauts; then its number."""
    words = _SEPARATORS.split(name)
    bases: list[str] = []
    if len(words) == 1:
        words = name_parts(name) if re.fullmatch(r"\w+", name) else words
    if _UMLAUT.search(name):
        umlauts = _UMLAUT.sub(lambda found: _UMLAUTS[found[0].lower()], name)
        bases += [umlauts, " ".join(_SEPARATORS.split(umlauts)), as_typed(umlauts)]
    if len(words) > 1:
        bases.append(" ".join(words))
        if len(words) <= MOST_JOINED:
            bases += ["".join(words), "-".join(words), "_".join(words)]
    bases += [as_typed(name), number_key(name)]
    return list({name_key(one): one for one in bases if one and name_key(one) != name_key(name)}.values())


def tag_in(query: str) -> str:
    """Return the tag whose pages a question asks for: `#team`, `tag:team`, *notes tagged team*; "" if it asks for none."""
    found = _TAG.search(query)
    return next((tag for tag in found.groups() if tag), "") if found else ""


def sharing(names: Sequence[NameMatch]) -> int:
    """Return how many pages have the name; if none has, on how many pages a section has it."""
    pages = {match.doc for match in names if match.by != "heading"}
    return len(pages or {match.doc for match in names})


def nearest_first(names: Sequence[NameMatch], place_of: Callable[[NameMatch], int]) -> Sequence[NameMatch]:
    """Return the matches reordered within each kind: first those that the search ranks first.

    The order of the kinds stays. Several pages may have the same alias. The page that is about it is meant more often
    than the page that is first by path.
    """
    kinds = list(dict.fromkeys(match.by for match in names))
    return sorted(names, key=lambda match: (kinds.index(match.by), place_of(match)))
