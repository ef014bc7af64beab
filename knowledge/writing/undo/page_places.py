"""The paths that pages had at different times, and have while acts are taken back. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import groupby

from knowledge.history.ports import Revision
from knowledge.merge.document.link_spans import LinkSpan
from knowledge.merge.document.links import update_links
from knowledge.pages.links import LinkTargets
from knowledge.pages.paths import is_markdown, without_suffix


class PagePlaces:
    """Follows pages through their moves.

    `moves` are the lines of moves on record, oldest first, back to the oldest act that is taken back. A time is the id
    of a history line: the path of a page at that time is its path after that line. `take_back` notes that a page
    returns to a former path.
    """

    def __init__(self, moves: Sequence[Revision]) -> None:
        self._steps: list[tuple[int, Mapping[str, str]]] = []
        for _, lines in groupby(moves, key=lambda line: line.seq):
            act = list(lines)
            # The moves of one act happen at once: two pages may change places.
            self._steps.append((act[0].id, {line.moved_from: line.path for line in act if line.moved_from is not None}))
        self.returned: dict[str, str] = {}
        """The path to which each page returns, by its actual path."""

    def in_fact(self, path: str, time: int) -> str:
        """Return the present path of the page that was at `path` then."""
        for id_, step in self._steps:
            if id_ > time:
                path = step.get(path, path)
        return path

    def of(self, path: str, time: int) -> str:
        """Return the path that this page has with the moves that are taken back so far."""
        present = self.in_fact(path, time)
        return self.returned.get(present, present)

    def take_back(self, path: str, time: int, to: str) -> None:
        """Note that the page that was at `path` then returns to the path `to`."""
        self.returned[self.in_fact(path, time)] = to

    def since(self, time: int) -> Mapping[str, tuple[str, str]]:
        """Return the pages that would not be at the path that they had at `time`.

        The keys are those paths; each value is the page's present path and the path that it would have.
        """
        then = {path: path for path in self.returned}
        for id_, step in self._steps:
            if id_ > time:
                came = {new: then.pop(old, old) for old, new in step.items()}
                for new in came:
                    # Only a page that was there before this step could be one that returns.
                    then.pop(new, None)
                then |= came
        found = {was: (present, self.returned.get(present, present)) for present, was in then.items()}
        return {was: (present, result) for was, (present, result) in found.items() if was != result}


def relink(
    text: str,
    page: str,
    moved: Mapping[str, tuple[str, str]],
    present: LinkTargets,
    also: frozenset[str] = frozenset(),
    *,
    only: Callable[[LinkSpan], bool] = lambda _: True,
) -> str:
    """Return a text of the page that was at `page`, with its links leading to where their targets will be.

    `moved` is the result of `PagePlaces.since` for the time of the text. `present` finds the targets of links as they
    are now, and `also` are the paths of further pages that will exist. Links for which `only` returns False stay as
    they are.
    """
    if not moved:
        return text
    was = {now: then for then, (now, _) in moved.items()}

    def exists(path: str) -> bool:
        return path in moved or path in also or (path not in was and present.exists(path))

    def called(name: str) -> list[str]:
        wanted = " ".join(without_suffix(name).split()).casefold()
        known = [was.get(path, path) for path in present.called(name)]
        stems = [path for path in moved if is_markdown(path) and _stem(path) == wanted]
        return list(dict.fromkeys([*known, *stems]))

    moves = {then: result for then, (_, result) in moved.items()}
    names = LinkTargets(exists, called, present.by_name)
    return update_links(text, page=page, moves=moves, names=names, only=only)


def _stem(path: str) -> str:
    return " ".join(without_suffix(path.rpartition("/")[2]).split()).casefold()
