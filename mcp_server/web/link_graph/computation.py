"""The graph of links, computed in a process of its own: read from the index, laid out, and written to two files.

One file is for the script of the page (all pages, places and links), the other for the page itself (`overview.py`). The first one
also says where pages were, for the next computation.
"""

from __future__ import annotations

import gzip
import json
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from knowledge.search.maps.link_graph import LinkGraph, link_graph
from knowledge.state.ports import IndexPosition, LinkedDocument
from mcp_server.late_module import LateModule
from mcp_server.web.graph.short_text import plain
from mcp_server.web.link_graph.folder_colours import FolderGroups, folder_groups
from mcp_server.web.link_graph.layout.sketch import sketched
from mcp_server.web.link_graph.overview import overview_of

if TYPE_CHECKING:
    from mcp_server.web.link_graph.layout import positions
    from mcp_server.web.link_graph.layout.positions import GraphPlaces
else:
    # The graph library is only for the process that computes.
    positions = LateModule("mcp_server.web.link_graph.layout.positions")

FORMAT = 1
"""Raise it when the files or the layout change: older files are then computed again."""
OVERVIEW_FILE, DATA_FILE = f"overview-{FORMAT}.json", f"graph-{FORMAT}.json.gz"
UNIT = 10
"""The file has coordinates multiplied by this and rounded, because one digit after the point is exact enough."""
SOON = 1_000
"""Pages up to which the whole graph is computed before an answer, since that takes less than a second."""
LONGEST_NAME = 120


Reading = Callable[[Path], tuple[IndexPosition, Sequence[LinkedDocument]]]
"""Returns all documents of an index, and the position that the index had before they were read."""


@dataclass(frozen=True, slots=True)
class GraphJob:
    """The index, what reads it, and the folder for the files. `by_name`: ordinary links are found by name, too.

    With more pages than `sketched_above` and no earlier graph, provisional files are written before the pages are laid out.
    """

    index: Path
    read: Reading
    folder: Path
    by_name: bool
    sketched_above: int


def computed(job: GraphJob) -> None:
    """Compute the graph and write its files: at the first time with provisional places, and then with those of the layout."""
    position, documents = job.read(job.index)
    graph = link_graph(documents, by_name=job.by_name)
    groups = folder_groups(graph.paths)
    before = _before(job.folder / DATA_FILE)
    if before is None and len(graph.paths) > job.sketched_above:
        _store(job.folder, graph, groups, sketched(graph.paths, graph.edges), None)
    placement = positions.placed(graph.paths, graph.edges, before)
    _store(job.folder, graph, groups, placement.places, position, changed=placement.changed)


def _store(
    folder: Path,
    graph: LinkGraph,
    groups: FolderGroups,
    places: Mapping[str, tuple[float, float]],
    position: IndexPosition | None,
    *,
    changed: int = 0,
) -> None:
    """Write both files. Without a position the places are provisional: such a graph is never current."""
    folder.mkdir(exist_ok=True)
    provisional = position is None
    held = _data(graph, groups, places) | {"changed": changed, "provisional": provisional}
    data = json.dumps(held, ensure_ascii=True, separators=(",", ":"))
    _write(folder / DATA_FILE, gzip.compress(data.encode(), 1 if provisional else 6, mtime=0))
    at = ("", 0) if position is None else (position.generation, position.seq)
    overview = replace(overview_of(graph, groups, places, at), provisional=provisional)
    _write(folder / OVERVIEW_FILE, json.dumps(overview.as_json()).encode())


def _before(file: Path) -> GraphPlaces | None:
    """Return where pages were, None if no file says so."""
    try:
        held: Mapping[str, Any] = json.loads(gzip.decompress(file.read_bytes()))
        if held.get("provisional"):
            return None
        paths, ends = held["paths"], iter(held["edges"])
        places = {path: (x / UNIT, y / UNIT) for path, x, y in zip(paths, held["x"], held["y"], strict=True)}
        edges = frozenset((paths[a], paths[b]) for a, b in zip(ends, ends, strict=True))
        return positions.GraphPlaces(places, edges, int(held["changed"]))
    except (OSError, EOFError, ValueError, KeyError, TypeError, IndexError):
        return None


def _data(graph: LinkGraph, groups: FolderGroups, places: Mapping[str, tuple[float, float]]) -> dict[str, Any]:
    """Return the data for the script. `names` are the paths with every character visible; "" for a path that is its own name."""
    names = [plain(path) for path in graph.paths]
    titles = [plain(title[:LONGEST_NAME]) for title in graph.titles]
    where = [places[path] for path in graph.paths]
    return {
        "paths": list(graph.paths),
        "names": [name if name != path else "" for name, path in zip(names, graph.paths, strict=True)],
        "titles": titles,
        "folders": [None if group.folder is None else plain(group.folder) for group in groups.groups],
        "colours": [group.number for group in groups.groups],
        "of": [groups.of[path] for path in graph.paths],
        "x": [round(x * UNIT) for x, _ in where],
        "y": [round(y * UNIT) for _, y in where],
        "edges": [end for edge in graph.edges for end in edge],
    }


def _write(file: Path, raw: bytes) -> None:
    """Replace the file in one step, so that nobody reads half of it."""
    part = file.with_name(f"{file.name}.{os.getpid()}.part")
    part.write_bytes(raw)
    part.replace(file)
