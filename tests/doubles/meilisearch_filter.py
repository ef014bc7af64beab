"""The filter expressions of Meilisearch as far as they are documented and used here; anything else is an error."""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Mapping
from typing import Any

Admits = Callable[[Mapping[str, Any]], bool]

_TOKEN = re.compile(r"\s*(>=|<=|!=|[()\[\],=<>]|'[^']*'|\"[^\"]*\"|[\w.\-]+)")
_COMPARED = {">": operator.gt, ">=": operator.ge, "<": operator.lt, "<=": operator.le}


class BadFilter(Exception):
    """The server would refuse it; the text is the message."""


def parsed(text: str, filterable: Mapping[str, bool]) -> Admits:
    """Return a predicate for documents that match the expression.

    `filterable` says which attributes also support size comparisons.
    """
    return _Parser(text, filterable).whole()


class _Parser:
    def __init__(self, text: str, filterable: Mapping[str, bool]) -> None:
        self._filterable = filterable
        self._tokens: list[str] = []
        at = 0
        while text[at:].strip():
            found = _TOKEN.match(text, at)
            if found is None:
                raise BadFilter(f"Was expecting an operation, found `{text[at:]}`")
            self._tokens.append(found[1])
            at = found.end()
        self._tokens.reverse()

    def whole(self) -> Admits:
        admits = self._either()
        if self._tokens:
            raise BadFilter(f"Found unexpected characters at the end of the filter: `{self._tokens[-1]}`")
        return admits

    def _take(self, *wanted: str) -> str | None:
        if self._tokens and (not wanted or self._tokens[-1].upper() in wanted):
            return self._tokens.pop()
        return None

    def _either(self) -> Admits:
        parts = [self._all()]
        while self._take("OR"):
            parts.append(self._all())
        return lambda one: any(part(one) for part in parts)

    def _all(self) -> Admits:
        parts = [self._single()]
        while self._take("AND"):
            parts.append(self._single())
        return lambda one: all(part(one) for part in parts)

    def _single(self) -> Admits:
        if self._take("NOT"):
            inner = self._single()
            return lambda one: not inner(one)
        if self._take("("):
            inner = self._either()
            if not self._take(")"):
                raise BadFilter("Expression is missing the following closing delimiter: `)`.")
            return inner
        return self._condition()

    def _condition(self) -> Admits:
        field = self._take()
        if field is None:
            raise BadFilter("Was expecting an operation, found nothing")
        if field not in self._filterable:
            raise BadFilter(f"Attribute `{field}` is not filterable.")
        if self._take("IN"):
            wanted = {_folded(value) for value in self._list()}
            return lambda one: bool(wanted & _values(one, field))
        sign, value = self._take("=", "!=", *_COMPARED), self._take()
        if sign is None or value is None:
            raise BadFilter("Was expecting an operation `=`, `!=`, `>=`, `>`, `<=`, `<`, `IN`")
        if sign == "=":
            return lambda one: _folded(value) in _values(one, field)
        if sign == "!=":
            return lambda one: _folded(value) not in _values(one, field)
        if not self._filterable[field]:
            raise BadFilter(f"Filter operator `{sign}` is not allowed for the attribute `{field}`.")
        if not re.fullmatch(r"-?\d+(\.\d+)?", value):
            raise BadFilter(f"The `{sign}` operator expects a number, found `{value}`")
        compare, bound = _COMPARED[sign], float(value)
        return lambda one: any(isinstance(found, float) and compare(found, bound) for found in _values(one, field))

    def _list(self) -> list[str]:
        found: list[str] = []
        if not self._take("["):
            raise BadFilter("Expected `[` after `IN` keyword")
        while not self._take("]"):
            value = self._take()
            if value is None or value in ("[", ",", "(", ")"):
                raise BadFilter("Expected matching `]` after the list of field names given to `IN[`")
            found.append(value)
            if not self._take(",") and (not self._tokens or self._tokens[-1] != "]"):
                raise BadFilter("Expected only comma-separated field names inside `IN[..]`")
        return found


def _folded(value: Any) -> str | float:
    """Return a value as it is compared: numbers as doubles, texts without case and cut to 468 bytes."""
    if isinstance(value, int | float) or re.fullmatch(r"-?\d+(\.\d+)?", str(value)):
        return float(value)
    return str(value).strip("'\"").lower().encode()[:468].decode(errors="ignore")


def _values(one: Mapping[str, Any], field: str) -> set[str | float]:
    found = one.get(field)
    return {_folded(value) for value in (found if isinstance(found, list) else [] if found is None else [found])}
