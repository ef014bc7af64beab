"""Which file imports which, from where in it, and in which circles."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from tests.bench.house.source import LAYERS, Source, blocks

Place = Literal["module", "local", "types"]
"""At the top of the file, inside a function, or under `if TYPE_CHECKING`."""


@dataclass(frozen=True)
class Import:
    """One file of ours imports another. `source` and `target` are paths."""

    source: str
    target: str
    place: Place
    line: int


def statements(source: Source) -> Iterator[tuple[ast.Import | ast.ImportFrom, Place]]:
    """Yield each import statement of the file, of ours or of others, with its place."""

    def visit(node: ast.AST, place: Place) -> Iterator[tuple[ast.Import | ast.ImportFrom, Place]]:
        if isinstance(node, ast.Import | ast.ImportFrom):
            yield node, place
            return
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            place = "local"
        if isinstance(node, ast.If) and ast.unparse(node.test) in ("TYPE_CHECKING", "typing.TYPE_CHECKING"):
            for statement in node.body:
                yield from visit(statement, "types")
            for statement in node.orelse:
                yield from visit(statement, place)
            return
        for child in blocks(node):
            yield from visit(child, place)

    yield from visit(source.tree, "module")


def imports(sources: Sequence[Source]) -> list[Import]:
    """Return each import of one of these files by another, in order. `from package import module` leads to the module."""
    paths = {source.module: source.path for source in sources}
    found = []
    for source in sources:
        for node, place in statements(source):
            for name in _targets(node, source):
                known = name if name in paths else name.rpartition(".")[0]
                if known in paths and paths[known] != source.path:
                    found.append(Import(source.path, paths[known], place, node.lineno))
    return list(dict.fromkeys(found))


def _targets(node: ast.Import | ast.ImportFrom, source: Source) -> list[str]:
    """Return the absolute names that the statement imports."""
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names]
    base = node.module or ""
    if node.level:
        package = source.module if source.path.endswith("__init__.py") else source.module.rpartition(".")[0]
        folders = package.split(".")
        base = ".".join([*folders[: len(folders) - node.level + 1], *([base] if base else [])])
    return [f"{base}.{alias.name}" for alias in node.names]


def circles(found: Iterable[Import], *, where: Callable[[Import], bool] = lambda _: True) -> list[list[str]]:
    """Return the circles: sets of files that all reach each other by imports. The largest first, sorted within.

    They are the strongly connected components with more than one file, in the graph of the imports for which `where` is
    true.
    """
    edges: dict[str, set[str]] = {}
    for one in found:
        if where(one):
            edges.setdefault(one.source, set()).add(one.target)
    reached = {start: _reached(start, edges) for start in edges}
    components = {
        tuple(sorted(other for other in ends if start in reached.get(other, ())))
        for start, ends in reached.items()
        if start in ends
    }
    return sorted((list(one) for one in components), key=lambda one: (-len(one), one))


def _reached(start: str, edges: Mapping[str, set[str]]) -> set[str]:
    reached, waiting = set[str](), [start]
    while waiting:
        fresh = edges.get(waiting.pop(), set()) - reached
        reached |= fresh
        waiting.extend(fresh)
    return reached


def against_the_layers(found: Iterable[Import]) -> list[Import]:
    """Return the imports from a package to one above it."""
    height = {package: number for number, package in enumerate(LAYERS)}
    return [
        one
        for one in found
        if height.get(one.source.partition("/")[0], 0) < height.get(one.target.partition("/")[0], 0)
    ]
