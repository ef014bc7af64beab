"""Watch how far one call travels: the functions it enters, the page it reads, and the statements it sends to a database."""

from __future__ import annotations

import inspect
import os
import sys
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

import apsw

from tests.bench.house.source import LAYERS

_CURRENT: ContextVar[Trace | None] = ContextVar("trace", default=None)
"""Who is watching.

The SDK, task groups and worker threads all pass on the caller's context; other tasks don't have it.
"""
_RESUME_PLACE = 3
"""The bits of a RESUME instruction's argument that say why a frame runs: 0 if a function begins, not after an await."""


@dataclass
class Trace:
    """The functions, page reads and statements of one call.

    `page` is the file name whose openings are counted, `database` the file whose statements are, `text` what is
    followed from function to function.
    """

    root: Path
    page: str = ""
    database: str = ""
    text: str = ""
    entered: list[tuple[str, str]] = field(default_factory=list)
    """File and name of each product function that was entered, in order."""
    handed: list[tuple[str, str]] = field(default_factory=list)
    """The functions that got an argument containing `text`, or with it in a field or an item."""
    opened: int = 0
    statements: list[tuple[bool, str]] = field(default_factory=list)
    """Each statement, and whether it only reads. Those that begin and end transactions, and PRAGMA, are excluded."""

    @property
    def files(self) -> int:
        """Return how many files were entered."""
        return len({file for file, _ in self.entered})

    @property
    def route(self) -> list[str]:
        """Return `file:function` of each entry into another file than the one before."""
        return _changes(self.entered)

    @property
    def text_route(self) -> list[str]:
        """Return the same for the functions that got the text."""
        return _changes(self.handed)

    @property
    def reads(self) -> list[str]:
        """Return the statements that read."""
        return [sql for reading, sql in self.statements if reading]

    @property
    def writes(self) -> list[str]:
        """Return the statements that change rows."""
        return [sql for reading, sql in self.statements if not reading]

    def code_of(self, frame: FrameType) -> None:
        """Record the function that the frame has just begun, if it is the product's."""
        name = _product_file(frame.f_code.co_filename, self.root)
        if name is not None and _begins(frame):
            self.entered.append((name, frame.f_code.co_qualname))
            if self.text and any(_holds(value, self.text) for key, value in frame.f_locals.items() if key != "self"):
                self.handed.append(self.entered[-1])

    def sql_of(self, told: dict[str, Any]) -> None:
        """Record a statement of the database."""
        rows = told["sql"].lstrip().upper().startswith(("SELECT", "WITH", "INSERT", "UPDATE", "DELETE", "REPLACE"))
        if rows and not told["trigger"] and told["connection"].filename == self.database:
            self.statements.append((told["readonly"], told["sql"]))


def _changes(entered: list[tuple[str, str]]) -> list[str]:
    files = [None, *(file for file, _ in entered)]
    return [f"{file}:{name}" for before, (file, name) in zip(files, entered, strict=False) if before != file]


def _holds(value: object, text: str, depth: int = 1) -> bool:
    """Return whether the text is in the value, or in one of its fields or items."""
    if isinstance(value, str):
        return text in value
    if isinstance(value, bytes):
        return text.encode() in value
    if not depth:
        return False
    if isinstance(value, dict):
        parts = list(value.values())
    elif isinstance(value, list | tuple):
        parts = [*value]
    else:
        names: Iterable[str] = getattr(type(value), "__dataclass_fields__", None) or getattr(
            type(value), "model_fields", {}
        )
        parts = [getattr(value, name, None) for name in names]
    return any(_holds(part, text, depth - 1) for part in parts)


@cache
def _product_file(name: str, root: Path) -> str | None:
    """Return the path below `root` of a file of the product; None for another one."""
    path = Path(name)
    if not path.is_relative_to(root):
        return None
    relative = path.relative_to(root)
    return relative.as_posix() if relative.parts[0] in LAYERS else None


@cache
def _instructions(code: CodeType) -> bytes:
    return code.co_code


def _begins(frame: FrameType) -> bool:
    """Return whether the frame begins a function: no module, no class body, nothing that continues after an await."""
    if not frame.f_code.co_flags & inspect.CO_OPTIMIZED:
        return False
    return not _instructions(frame.f_code)[frame.f_lasti + 1] & _RESUME_PLACE


def _profile(frame: FrameType, event: str, _: object) -> None:
    if event == "call" and (trace := _CURRENT.get()) is not None:
        trace.code_of(frame)


def _audit(event: str, arguments: tuple[Any, ...]) -> None:
    if event == "open" and (trace := _CURRENT.get()) is not None and isinstance(arguments[0], str):
        reads = not arguments[2] & (os.O_WRONLY | os.O_RDWR)
        trace.opened += reads and os.path.basename(arguments[0]) == trace.page  # noqa: PTH119 - a Path a call is too slow


def _statement(told: dict[str, Any]) -> None:
    if (trace := _CURRENT.get()) is not None:
        trace.sql_of(told)


def _watch_connection(connection: apsw.Connection) -> None:
    connection.trace_v2(apsw.SQLITE_TRACE_STMT, _statement, id=__name__)


@cache
def _add_audit_hook() -> None:
    """Add the hook once: Python keeps audit hooks until the process ends."""
    sys.addaudithook(_audit)


@contextmanager
def watching() -> Iterator[None]:
    """Make a block traceable. Open databases and start threads inside, too: earlier ones are not seen."""
    _add_audit_hook()
    before: Callable[..., object] | None = sys.getprofile()
    threading.setprofile(_profile)
    sys.setprofile(_profile)
    apsw.connection_hooks.append(_watch_connection)
    try:
        yield
    finally:
        apsw.connection_hooks.remove(_watch_connection)
        sys.setprofile(before)
        threading.setprofile(None)


@contextmanager
def tracing(trace: Trace) -> Iterator[Trace]:
    """Record in `trace` the work of this task, and of the tasks and worker threads that it starts."""
    token = _CURRENT.set(trace)
    try:
        yield trace
    finally:
        _CURRENT.reset(token)
