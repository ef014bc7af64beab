"""Consoles for colour, tables and progress bars. `serve` never draws, so it does not load rich."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import IO

from rich.console import Console, ConsoleOptions, RenderableType
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeRemainingColumn
from rich.segment import Segment
from rich.table import Table
from rich.text import Text

from knowledge.pages.document import shortened
from knowledge.pages.markdown.inline import plain_blocks
from mcp_server.cli.terminal.escape import EscapedStream, harmless, visible
from mcp_server.cli.terminal.output import print_ascii, say


class EscapedConsole(Console):
    """A console that marks characters in texts that would act on the terminal, but keeps its own colours and cursor movements."""

    # `main` puts an `EscapedStream` in the place of stdout and stderr, which would mark rich's own sequences too. So this writes
    # to the stream below it and escapes each text before rich adds colours.
    @property
    def file(self) -> IO[str]:
        """The stream below the escaping one."""
        file = super().file
        return file.stream if isinstance(file, EscapedStream) else file

    @file.setter
    def file(self, new: IO[str]) -> None:
        self._file = new

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        """Yield rich's renderables, with texts escaped."""
        for segment in super().render(renderable, options):
            yield segment if segment.control else Segment(harmless(segment.text), segment.style)

    def on_broken_pipe(self) -> None:
        """Raise BrokenPipeError, as `print` does: rich alone would end the process with exit code 1."""
        self.quiet = True
        if self.stderr:
            super().on_broken_pipe()
        raise BrokenPipeError


def stdout_console() -> Console:
    """Return a console on stdout for answers. Rich itself honours NO_COLOR and pipes."""
    return EscapedConsole(highlight=False)


def stderr_console() -> Console:
    """Return a console on stderr for progress and remarks."""
    return EscapedConsole(stderr=True, highlight=False, markup=False)


def plain_table(*columns: str) -> Table:
    """Return a table without lines whose first column is text, and whose others are numbers."""
    table = Table(box=None, pad_edge=False)
    for place, column in enumerate(columns):
        table.add_column(column, justify="right" if place else "left", overflow="fold")
    return table


def print_table(columns: Sequence[str], rows: Iterable[Sequence[object]], *, wrapped: Sequence[str] = ()) -> None:
    """Print a table with every character of its cells visible. If some columns are `wrapped`, the others keep their width."""
    table = Table(box=None, pad_edge=False)
    for column in columns:
        table.add_column(column, no_wrap=bool(wrapped) and column not in wrapped, overflow="fold")
    for row in rows:
        table.add_row(*(Text(visible(str(cell))) for cell in row))
    stdout_console().print(table)


def print_list(
    what: str, fields: Sequence[object], lines: Sequence[str], waits: Sequence[bool], *, as_json: bool
) -> int:
    """Print a list of journeys or runs, those that wait for a person in bold; return the exit code, which is 1 for no lines."""
    if as_json:
        print_ascii(fields)
    elif not lines:
        print(f"no {what}")
    else:
        console = stdout_console()
        for line, waiting in zip(lines, waits, strict=True):
            console.print(line, style="bold" if waiting else None, markup=False, emoji=False, soft_wrap=True)
        if any(waits):
            say(f"to see an open question and how to answer: knowledge-forge {what} show ID")
    return 0 if lines else 1


Draw = Callable[[int, int | None], None]
"""Draws how much is done, and the total if it is known."""


@contextmanager
def progress_bars(*tasks: str, shown: bool) -> Iterator[Sequence[Draw]]:
    """Yield a function for each task that draws its progress bar on stderr; a second bar appears with its first call.

    If bars are not to be `shown`, or stderr is not a terminal, the functions draw nothing.
    """
    if not shown or not sys.stderr.isatty():
        yield [lambda _done, _total: None for _ in tasks]
        return
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=EscapedConsole(stderr=True), transient=True) as bars:

        def drawing(task: TaskID) -> Draw:
            return lambda done, total: bars.update(task, completed=done, total=total or None, visible=True)

        yield [drawing(bars.add_task(name, total=None, visible=n == 0)) for n, name in enumerate(tasks)]


def tidy(text: str, most: int) -> str:
    """Return Markdown as one or two lines to read at a glance: without markup, table rules or fences, and cut after a word."""
    return shortened(plain_blocks(text), most)
