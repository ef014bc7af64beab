"""Resolves all links between pages at once. Pure.

The result is the same as if each link were followed through the index, in a fraction of the time.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from knowledge.pages.links import LinkTargets, resolve_path
from knowledge.pages.paths import ancestors, is_markdown, without_suffix
from knowledge.search.maps.linked_pages import MOST_OF_A_NAME
from knowledge.search.maps.neighbourhood import folders_meant, names_a_page
from knowledge.state.document_names import name_key
from knowledge.state.ports import LinkedDocument


@dataclass(frozen=True, slots=True)
class LinkGraph:
    """The pages by path, and their links as pairs of positions in that list, each once. A page's links to itself are left out.

    `missing` are the links that lead to no page: the position of the page, and the target as it is written.
    """

    paths: Sequence[str]
    titles: Sequence[str]
    edges: Sequence[tuple[int, int]]
    missing: Sequence[tuple[int, str]]

    def degrees(self) -> tuple[list[int], list[int]]:
        """Return, for each page, the number of pages that link to it, and the number of pages that it links to."""
        back, out = [0] * len(self.paths), [0] * len(self.paths)
        for source, target in self.edges:
            out[source] += 1
            back[target] += 1
        return back, out


def link_graph(documents: Sequence[LinkedDocument], *, by_name: bool = False) -> LinkGraph:
    """Return the graph of links between `documents`, which must be all documents of the knowledge base.

    With `by_name`, ordinary links are found by name too, as in an Obsidian folder.
    """
    place = {document.path: number for number, document in enumerate(documents)}
    targets = LinkTargets(lambda path: path in place and is_markdown(path), _names(documents), by_name)
    folders = {"", *(folder for path in place for folder in ancestors(path))}
    edges: dict[tuple[int, int], None] = {}
    missing: dict[tuple[int, str], None] = {}
    for number, document in enumerate(documents):
        for link in document.links:
            target = resolve_path(document.path, link.path, targets, wiki=link.wiki)
            if target is not None and (other := place[target]) != number:
                edges[number, other] = None
            elif (
                target is None
                and names_a_page(link.path)
                and folders.isdisjoint(folders_meant(document.path, link.path))
            ):
                missing[number, link.path] = None
    paths, titles = [document.path for document in documents], [document.title for document in documents]
    return LinkGraph(paths, titles, sorted(edges), list(missing))


def _names(documents: Sequence[LinkedDocument]) -> Callable[[str], Sequence[str]]:
    """Return a function that looks up pages by name, in the index's order, and at most as many as are asked for."""
    ranked: dict[str, set[tuple[int, str]]] = {}
    for document in documents:
        file = document.path.rpartition("/")[2]
        names = ((0, document.path), (0, without_suffix(document.path)), (1, file), (1, without_suffix(file)))
        for rank, name in (*names, (2, document.title), *((3, alias) for alias in document.aliases)):
            ranked.setdefault(name_key(name), set()).add((rank, document.path))
    ranked.pop("", None)
    found: dict[str, Sequence[str]] = {}

    def called(name: str) -> Sequence[str]:
        key = name_key(name)
        if key not in found:
            found[key] = list(dict.fromkeys(path for _, path in sorted(ranked.get(key, ()))))[:MOST_OF_A_NAME]
        return found[key]

    return called
