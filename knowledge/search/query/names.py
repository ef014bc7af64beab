"""The names of pages and sections that a question may be: how else they may be written, and which is meant. Pure."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from knowledge.search.query.analysis import name_parts
from knowledge.state.document_names import name_key
from knowledge.state.ports import NameMatch

MOST_JOINED = 3
"""The most words that are looked up as one: of more, each spelling would cost a look for a name that is seldom there."""
_SEPARATORS = re.compile(r"[\s_-]+")
_UMLAUTS = {"ae": "ä", "oe": "ö", "ue": "ü"}
_UMLAUT = re.compile("[aou]e", re.IGNORECASE)


def other_spellings(name: str) -> Sequence[str]:
    """Return how else `name` may be written: with other signs between its words, as an identifier, or with umlauts."""
    words = _SEPARATORS.split(name)
    bases = [name]
    if len(words) == 1:
        words = name_parts(name) if re.fullmatch(r"\w+", name) else words
    if _UMLAUT.search(name):
        umlauts = _UMLAUT.sub(lambda found: _UMLAUTS[found[0].lower()], name)
        bases += [umlauts, " ".join(_SEPARATORS.split(umlauts))]
    if len(words) > 1:
        bases.append(" ".join(words))
        if len(words) <= MOST_JOINED:
            bases += ["".join(words), "-".join(words), "_".join(words)]
    return list({name_key(one): one for one in bases if name_key(one) != name_key(name)}.values())


def nearest_first(names: Sequence[NameMatch], place_of: Callable[[NameMatch], int]) -> Sequence[NameMatch]:
    """Return the matches reordered within each kind: first those that the search ranks first.

    The order of the kinds stays. Several pages may have the same alias. The page that is about it is meant more often
    than the page that is first by path.
    """
    kinds = list(dict.fromkeys(match.by for match in names))
    return sorted(names, key=lambda match: (kinds.index(match.by), place_of(match)))
