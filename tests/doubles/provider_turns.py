"""Turns of a scripted model, and errors in their place, independent of any vendor's format."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class Call:
    """One use of a tool. `arguments` as text go out as they are, whether they are JSON or not; `id` None gets one."""

    name: str
    arguments: Mapping[str, Any] | str = field(default_factory=dict)
    id: str | None = None


@dataclass(frozen=True, slots=True)
class Turn:
    """One answer. `stop` "" means the fitting reason: the end, or tools. `thoughts` come signed, as the vendor has them.

    `quirks` are ways of servers that follow a vendor only nearly; `provider_shapes.py` knows them. `cut` ends a stream after
    so many events, without a word. `refusal` is a category that the model refuses for.
    """

    text: str = ""
    calls: tuple[Call, ...] = ()
    stop: str = ""
    thoughts: str = ""
    refusal: str = ""
    input: int = 100
    output: int = 20
    cached: int = 0
    quirks: frozenset[str] = frozenset()
    cut: int | None = None


@dataclass(frozen=True, slots=True)
class Trouble:
    """An error in the vendor's shape. `inside` sends it within a stream, after a 200 and some text."""

    status: int
    type: str
    message: str = "something is wrong"
    code: str | None = None
    param: str | None = None
    headers: Mapping[str, str] = field(default_factory=dict)
    inside: bool = False
    more: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Raw:
    """Anything else, as it is."""

    content: bytes
    status: int = 200
    content_type: str = "application/json"
    headers: Mapping[str, str] = field(default_factory=dict)


Step = Turn | Trouble | Raw
Script = Step | Callable[[Mapping[str, Any]], Step]
"""A step, or what makes one of the request: a model that does what it reads, for example."""


def said(text: str, **more: Any) -> Turn:
    """Return an answer in words."""
    return Turn(text, **more)


def uses(name: str, /, **arguments: Any) -> Turn:
    """Return an answer that uses one tool."""
    return Turn(calls=(Call(name, arguments),))
