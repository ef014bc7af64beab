"""Python files read for measuring: each line's kind and the syntax tree."""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

# Lowest first. A package may import itself and those before it.
LAYERS = ("knowledge", "agents", "mcp_server")
# A comment that only switches off a check gives no reason.
_DIRECTIVE = re.compile(r"#\s*(noqa|type:|pragma|fmt:|ruff:)[^-#]*$")


def blocks(node: ast.AST) -> Iterator[ast.AST]:
    """Yield the statements right inside the node, and its handlers and cases, as written. No expression contains a statement."""
    for name in ("body", "handlers", "cases", "orelse", "finalbody"):
        yield from getattr(node, name, ())


@dataclass(frozen=True)
class Source:
    """One file. `path` is relative to the project, with slashes."""

    path: str
    text: str

    @property
    def module(self) -> str:
        """Return the name that other files import it by."""
        return self.path.removesuffix(".py").replace("/", ".").removesuffix(".__init__")

    @property
    def room(self) -> str:
        """Return the file's package, or its folder right below one."""
        folders = self.path.split("/")[:-1]
        return "/".join(folders[:2])

    @cached_property
    def tree(self) -> ast.Module:
        """Return the syntax tree."""
        return ast.parse(self.text)

    @property
    def length(self) -> int:
        """Return the file's number of lines, of any kind."""
        return len(self.text.splitlines())

    @cached_property
    def docstring_lines(self) -> frozenset[int]:
        """Return the lines of strings that are statements: docstrings, and those below a constant or a field."""
        found: set[int] = set()
        for node in ast.walk(self.tree):
            if (
                isinstance(node, ast.Expr)
                and isinstance(node.value, ast.Constant)
                and isinstance(node.value.value, str)
            ):
                found.update(range(node.lineno, (node.end_lineno or node.lineno) + 1))
        return frozenset(found)

    @cached_property
    def comments(self) -> tuple[frozenset[int], frozenset[int]]:
        """Return the lines that are a comment, and the lines of code with a comment beside them that gives a reason."""
        alone, beside = set[int](), set[int]()
        for token in tokenize.generate_tokens(io.StringIO(self.text).readline):
            if token.type != tokenize.COMMENT:
                continue
            line = token.start[0]
            if token.line[: token.start[1]].strip():
                if not _DIRECTIVE.match(token.string):
                    beside.add(line)
            else:
                alone.add(line)
        return frozenset(alone), frozenset(beside)

    @cached_property
    def code_lines(self) -> frozenset[int]:
        """Return the lines that are neither blank, nor a comment, nor a docstring."""
        written = {number for number, line in enumerate(self.text.splitlines(), 1) if line.strip()}
        return frozenset(written - self.docstring_lines - self.comments[0])


def read(root: Path, packages: Sequence[str]) -> list[Source]:
    """Return the Python files of these packages below `root`, in order of their paths."""
    return [
        Source(path.relative_to(root).as_posix(), path.read_text(encoding="utf-8"))
        for package in packages
        for path in sorted((root / package).rglob("*.py"))
    ]
