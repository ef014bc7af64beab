"""Turns of a scripted model, and errors in place of turns, independent of any vendor's format."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class Call:
    """One use of a tool. `arguments` as text are sent as they are, valid JSON or not; `id` None gets one."""

    name: str
    arguments: Mapping[str, Any] | str = field(default_factory=dict)
    id: str | None = None


@dataclass(frozen=True, slots=True)
class Turn:
    """One answer. `stop` "" means the fitting reason: the end, or tools. `thoughts` are signed, as the vendor's are.

    `quirks` are those of servers that follow a vendor only nearly; `provider_shapes.py` lists them. `cut` ends a stream
    without notice after this many events. `refusal` is the category for which the model refuses.
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
"""A step, or a function that makes one from the request, for example a model that obeys what it reads."""


def said(text: str, **more: Any) -> Turn:
    """Return an answer in words."""
    return Turn(text, **more)


def uses(name: str, /, **arguments: Any) -> Turn:
    """Return an answer that uses one tool."""
    return Turn(calls=(Call(name, arguments),))
