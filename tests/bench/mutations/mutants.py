"""Small changes to the functions of one file, each of which should make a test fail."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial

OPPOSITES: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Eq: ast.NotEq,
    ast.Lt: ast.GtE,
    ast.Gt: ast.LtE,
    ast.In: ast.NotIn,
    ast.Is: ast.IsNot,
}
OPPOSITES |= {opposite: operator for operator, opposite in OPPOSITES.items()}
DROPPED = (ast.Expr, ast.AugAssign, ast.Raise, ast.Delete, ast.Continue, ast.Break)
"""Statements without which the rest of a function still runs."""


@dataclass(frozen=True)
class Mutant:
    """One change: the line of the function that it is in (of its first decorator, as in a code object), and its own line."""

    function: int
    line: int
    change: str
    source: str


def functions(source: str) -> Sequence[int]:
    """Return the function's line for every mutant of a file; a mutant's number is its index."""
    return [function for function, _, _ in _changes(ast.parse(source))]


def mutant(source: str, number: int) -> Mutant:
    """Return the mutant with that number."""
    tree = ast.parse(source)
    function, node, change = list(_changes(tree))[number]
    before = ast.unparse(node).splitlines()[0]
    after = change()
    return Mutant(function, node.lineno, f"{before}  ->  {after.splitlines()[0]}", ast.unparse(tree))


def _changes(tree: ast.AST) -> Iterator[tuple[int, ast.stmt | ast.expr, Callable[[], str]]]:
    """Yield the function's line, the node, and a function that changes it in the tree and returns its new text."""
    for function in ast.walk(tree):
        if not isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        first = min([function.lineno, *(one.lineno for one in function.decorator_list)])
        for node in _own_nodes(function):
            if isinstance(node, DROPPED) or _replacement(node):
                yield first, node, partial(_change, node)


def _own_nodes(function: ast.AST) -> Iterator[ast.stmt | ast.expr]:
    """Yield the nodes of the function's body without its docstring, annotations and inner functions."""
    for field, value in ast.iter_fields(function):
        if field in {"annotation", "returns", "decorator_list"} or isinstance(value, ast.arguments):
            continue
        for child in value if isinstance(value, list) else [value]:
            if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef) or _is_text(child):
                continue
            if isinstance(child, ast.stmt | ast.expr):
                yield child
            if isinstance(child, ast.AST):
                yield from _own_nodes(child)


def _is_text(node: object) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)


def _change(node: ast.stmt | ast.expr) -> str:
    if isinstance(node, DROPPED):
        # The node is replaced in its place, so that no list of statements is left empty.
        node.__class__ = ast.Pass  # type: ignore[assignment]
    else:
        setattr(node, *_replacement(node))
    return ast.unparse(node)


def _replacement(node: ast.stmt | ast.expr) -> tuple[str, object] | tuple[()]:
    """Return the field of the node that changes and its new value, if it has one that can."""
    match node:
        case ast.Compare(ops=[operator]):
            return "ops", [OPPOSITES[type(operator)]()]
        case ast.BoolOp(op=operator):
            return "op", ast.And() if isinstance(operator, ast.Or) else ast.Or()
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            return "operand", ast.UnaryOp(ast.Not(), operand)
        case ast.Constant(value=bool(value)):
            return "value", not value
        case ast.Constant(value=(int() | float()) as number):
            return "value", number + 1
        case ast.If(test=ast.Name() | ast.Attribute() | ast.Call() | ast.NamedExpr()) | ast.While() | ast.IfExp():
            return "test", ast.UnaryOp(ast.Not(), node.test)
        case ast.Return(value=ast.expr() as value) if not (isinstance(value, ast.Constant) and value.value is None):
            return "value", None
    return ()
