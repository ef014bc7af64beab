"""Orders the pages and sections that have the searched name. Pure."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from knowledge.state.ports import NameMatch


def nearest_first(names: Sequence[NameMatch], place_of: Callable[[NameMatch], int]) -> Sequence[NameMatch]:
    """Return the matches reordered within each kind: first those that the search ranks first.

    The order of the kinds stays. Several pages may have the same alias. The page that is about it is meant more often
    than the page that is first by path.
    """
    kinds = list(dict.fromkeys(match.by for match in names))
    return sorted(names, key=lambda match: (kinds.index(match.by), place_of(match)))
