"""Sort pages into a few groups by folder, so that each can have a colour. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

MOST_COLOURS = 7
OTHERS = MOST_COLOURS
"""The number of the group of pages in all other folders."""
DEEPEST = 4


@dataclass(frozen=True, slots=True)
class FolderGroup:
    """The pages below `folder`; None stands for all folders without a group of their own."""

    number: int
    folder: str | None
    pages: int


@dataclass(frozen=True, slots=True)
class FolderGroups:
    """The groups, largest first, and the number of the group of each page."""

    groups: Sequence[FolderGroup]
    of: Mapping[str, int]


def folder_groups(paths: Sequence[str]) -> FolderGroups:
    """Return the pages in groups, by the first level of folders at which there are several."""
    folders = [path.split("/")[:-1] for path in paths]
    deepest = max(map(len, folders), default=0)
    names = ["" for _ in paths]
    for level in range(1, min(DEEPEST, deepest) + 1):
        names = ["/".join(folder[:level]) for folder in folders]
        # A knowledge base whose pages all lie below one folder is told apart one level further down.
        if Counter(names).most_common(1)[0][1] < 0.9 * len(names):
            break
    counted = sorted(Counter(names).items(), key=lambda one: (-one[1], one[0]))
    numbers = {name: number for number, (name, _) in enumerate(counted[:MOST_COLOURS])}
    groups = [FolderGroup(numbers[name], name, pages) for name, pages in counted[:MOST_COLOURS]]
    if others := sum(pages for _, pages in counted[MOST_COLOURS:]):
        groups.append(FolderGroup(OTHERS, None, others))
    return FolderGroups(groups, {path: numbers.get(name, OTHERS) for path, name in zip(paths, names, strict=True)})
