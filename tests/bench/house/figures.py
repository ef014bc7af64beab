"""Figures of files, functions and names."""

from __future__ import annotations

import ast
import statistics
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from tests.bench.house.source import Source

SMALL_FILE = 60
Function = ast.FunctionDef | ast.AsyncFunctionDef
# Words that end in -ing and still name a thing.
NOUNS = frozenset({"embedding", "heading", "setting", "string"})


@dataclass(frozen=True)
class Room:
    """The files of one package, or of one folder right below it together with its subfolders."""

    name: str
    files: int
    code: int
    comments: int
    """Lines that are a comment, and nothing else."""
    beside: int
    """Lines of code with a comment beside them that gives a reason."""
    docstrings: int
    small: int
    """Files under 60 lines; a package's `__init__.py` is left out."""

    @property
    def comment_share(self) -> float:
        """Return the comments' share of all lines that are not blank, in percent."""
        lines = self.code + self.comments + self.docstrings
        return round(100 * (self.comments + self.beside) / lines, 1) if lines else 0.0


def rooms(sources: Sequence[Source]) -> list[Room]:
    """Return the rooms by name."""
    return [
        room(name, [source for source in sources if source.room == name])
        for name in sorted({source.room for source in sources})
    ]


def room(name: str, sources: Sequence[Source]) -> Room:
    """Return the figures of these files together."""
    return Room(
        name,
        files=len(sources),
        code=sum(len(source.code_lines) for source in sources),
        comments=sum(len(source.comments[0]) for source in sources),
        beside=sum(len(source.comments[1]) for source in sources),
        docstrings=sum(len(source.docstring_lines) for source in sources),
        small=sum(source.length < SMALL_FILE and not source.path.endswith("__init__.py") for source in sources),
    )


def beside_folders(sources: Sequence[Source]) -> dict[str, int]:
    """Return how many files, `__init__.py` left out, lie right in each folder that has subfolders with code."""
    folders = {source.path.rpartition("/")[0] for source in sources}
    parents = {folder.rpartition("/")[0] for folder in folders} & folders
    return {
        parent: sum(
            source.path.rpartition("/")[0] == parent and not source.path.endswith("__init__.py") for source in sources
        )
        for parent in sorted(parents)
    }


def whole_lengths(sources: Sequence[Source]) -> list[int]:
    """Return the lines of each function from `def` to its end, of any kind, shortest first."""
    return sorted(
        (node.end_lineno or node.lineno) - node.lineno + 1
        for source in sources
        for node in ast.walk(source.tree)
        if isinstance(node, Function)
    )


def body_lengths(sources: Sequence[Source]) -> list[int]:
    """Return the lines of code in the body of each function, shortest first.

    Signatures, docstrings, comments and blank lines don't count. A function inside another one counts by itself and as part of
    the outer one. Bodies of `...` alone (protocols) are left out.
    """
    lengths = []
    for source in sources:
        for node in ast.walk(source.tree):
            if isinstance(node, Function) and (body := _body(node)):
                span = range(body[0].lineno, (node.end_lineno or 0) + 1)
                lengths.append(len(source.code_lines.intersection(span)))
    return sorted(lengths)


def _body(node: Function) -> list[ast.stmt]:
    """Return the statements that do something: without the docstring and `...`."""
    return [
        statement
        for statement in node.body
        if not (isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant))
    ]


def spread(lengths: Sequence[int]) -> dict[str, float]:
    """Return count, median and 90th percentile of sorted numbers."""
    if not lengths:
        return {"count": 0, "median": 0, "p90": 0}
    return {
        "count": len(lengths),
        "median": statistics.median(lengths),
        "p90": lengths[min(len(lengths) - 1, int(len(lengths) * 0.9))],
    }


def used_once(sources: Sequence[Source]) -> tuple[int, int]:
    """Return how many definitions are mentioned exactly once in these files: those at the top of a file, and all.

    This is an estimate by name. A mention is a name or an attribute that is read, anywhere; imports and the definition itself
    don't count. A name that is defined more than once (such as a method of a protocol and of its implementations) is left out,
    because a mention does not say which definition it means, and so are names with double underscores.
    """
    defined, mentioned = Counter[str](), Counter[str]()
    for source in sources:
        for node in ast.walk(source.tree):
            if isinstance(node, Function | ast.ClassDef):
                defined[node.name] += 1
            elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load):
                mentioned[node.id] += 1
            elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Load):
                mentioned[node.attr] += 1
    once = {
        name
        for name, times in defined.items()
        if times == 1 and mentioned[name] == 1 and not (name.startswith("__") and name.endswith("__"))
    }
    top = {node.name for source in sources for node in source.tree.body if isinstance(node, Function | ast.ClassDef)}
    return len(once & top), len(once)


def top_level_classes(sources: Sequence[Source]) -> Iterator[str]:
    """Yield the name of each class that is defined at the top of a file."""
    for source in sources:
        yield from (node.name for node in source.tree.body if isinstance(node, ast.ClassDef))


def shared_names(sources: Sequence[Source]) -> dict[str, int]:
    """Return the top-level class names that are used more than once, the most frequent first."""
    counted = Counter(top_level_classes(sources))
    return {name: times for name, times in sorted(counted.items(), key=lambda one: (-one[1], one[0])) if times > 1}


def gerunds(sources: Sequence[Source]) -> list[str]:
    """Return the files whose name ends in -ing, except for the few such words that name a thing (`NOUNS`)."""
    return [
        source.path
        for source in sources
        if (stem := source.path.rpartition("/")[2].removesuffix(".py")).endswith("ing")
        and stem.rpartition("_")[2] not in NOUNS
    ]
