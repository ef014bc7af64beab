"""Operations: pieces of work whose time is recorded, each as an OpenTelemetry span.

Only the API of OpenTelemetry is used here. Without its SDK and without a recorder, an operation costs about a microsecond.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from functools import wraps
from types import TracebackType
from typing import Any, Self, TypeVar, cast

from opentelemetry.trace import (
    ProxyTracerProvider,
    Span,
    SpanKind,
    StatusCode,
    get_current_span,
    get_tracer,
    get_tracer_provider,
)

Fact = str | int | float | bool
"""A word of ours (the name of a tool, an outcome), a host's name, or a number. Never text of a page, a question or an answer."""
FACTS = frozenset(
    {
        "attempts",
        "backend",
        "caller",
        "documents",
        "hits",
        "method",
        "outcome",
        "service",
        "status",
        "tool",
        "verdict",
    }
)
"""All names of facts. What is sent elsewhere is limited to these."""
PREFIX = "forge."
DONE = "done"

F = TypeVar("F", bound=Callable[..., Awaitable[Any]])
Recorder = Callable[[str, float, Mapping[str, Fact]], None]
"""Is called after each operation with its name, its duration in seconds, and its facts."""

_TRACER = get_tracer("knowledge-forge")
_recorders: list[Recorder] = []


class Operation:
    """Records the time of the block as a span below the present one, and to all recorders.

    If the block raises, `outcome` is the name of the error's type; its message is not recorded. `elsewhere`: another service does the
    work.
    """

    __slots__ = ("_began", "_kind", "_name", "_open", "facts")

    def __init__(self, name: str, *, elsewhere: bool = False, **facts: Fact) -> None:
        self._name, self._kind = name, SpanKind.CLIENT if elsewhere else SpanKind.INTERNAL
        self.facts = facts
        self._open: AbstractContextManager[Span] | None = None
        self._began = 0.0

    def note(self, **facts: Fact) -> None:
        """Add facts, which must be among FACTS. `outcome` is "done" unless the facts name another one."""
        self.facts.update(facts)

    def __enter__(self) -> Self:
        if not isinstance(get_tracer_provider(), ProxyTracerProvider):
            self._open = _TRACER.start_as_current_span(
                self._name, kind=self._kind, record_exception=False, set_status_on_exception=False
            )
            self._open.__enter__()
        self._began = time.perf_counter()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        took = time.perf_counter() - self._began
        facts = {"outcome": DONE, **self.facts} if kind is None else {**self.facts, "outcome": kind.__name__}
        if self._open is not None:
            span = get_current_span()
            span.set_attributes({PREFIX + name: value for name, value in facts.items()})
            if kind is not None:
                span.set_status(StatusCode.ERROR)
            self._open.__exit__(kind, error, traceback)
        for record in _recorders:
            record(self._name, took, facts)


def recorded(
    name: str, *, elsewhere: bool = False, says: Callable[[Any], Mapping[str, Fact]] | None = None, **facts: Fact
) -> Callable[[F], F]:
    """Return a decorator that makes each call of an asynchronous function an operation. `says` returns facts from its result."""

    def decorate(work: F) -> F:
        @wraps(work)
        async def call(*args: Any, **kwargs: Any) -> Any:
            with Operation(name, elsewhere=elsewhere, **facts) as current:
                result = await work(*args, **kwargs)
                if says is not None:
                    current.note(**says(result))
                return result

        return cast("F", call)

    return decorate


@contextmanager
def recording(recorder: Recorder) -> Iterator[None]:
    """Call `recorder` after each operation, on the operation's own thread, until the block ends."""
    _recorders.append(recorder)
    try:
        yield
    finally:
        _recorders.remove(recorder)
