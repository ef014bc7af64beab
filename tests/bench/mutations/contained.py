"""Test cases that a sample can't tell from another case of the same file: candidates to be read, not a verdict."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet


def contained(calls: Mapping[str, AbstractSet[str]], kills: Sequence[AbstractSet[str]]) -> Mapping[str, Sequence[str]]:
    """Return the cases contained in another one of their file, with that one.

    A case contains another if it kills every mutant that the other kills and calls every function that the other calls.
    Of cases that contain each other the first one is kept. `kills` has the killers of each mutant.
    """
    killed: dict[str, set[int]] = {case: set() for case in calls}
    for number, killers in enumerate(kills):
        for case in killers & calls.keys():
            killed[case].add(number)
    by_file: defaultdict[str, list[str]] = defaultdict(list)
    for case in calls:
        by_file[case.partition("::")[0]].append(case)
    found: dict[str, list[str]] = {}
    for cases in by_file.values():
        # The case that kills and calls the most comes first, so that it contains as many others as possible.
        left = sorted(cases, key=lambda case: (-len(killed[case]), -len(calls[case])))
        while left:
            first, *others = left
            within = [case for case in others if killed[case] <= killed[first] and calls[case] <= calls[first]]
            left = [case for case in others if case not in set(within)]
            if within:
                found[first] = within
    return found
