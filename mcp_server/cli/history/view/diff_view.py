"""A diff in a terminal: in colour, with the words that differ marked; as text with marks; or unified, where a program reads it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Literal

from rich.console import Console
from rich.text import Text

from mcp_server.cli.terminal.console import stdout_console
from mcp_server.cli.terminal.escape import visible
from mcp_server.presenters.diffs import DiffChange, DiffHunk, DiffLine, Effort, LinePair, Span, paired, parsed

DiffForm = Literal["", "words", "unified"]

REMOVED, ADDED, QUIET = "red", "green", "dim"
MARKED = "reverse"


def print_diff(diff: str, *, titles: tuple[str, str], form: DiffForm = "") -> None:
    """Print a unified diff of one page between states with these titles.

    Without a form: in colour in a terminal, with marks in a terminal without colour, and unified elsewhere.
    """
    console = stdout_console()
    if form == "unified" or (not form and not console.is_terminal):
        print(diff)  # for programs too, so only what would act on a terminal is marked
        return
    coloured = form != "words" and console.is_terminal and not console.no_color
    names = [line[4:] for line in diff.split("\n", 2)[:2]]
    for mark, name, title in zip("-+", names, titles, strict=True):
        _print(console, f"{mark * 3} {visible(name)} ({visible(title)})", "bold")
    effort = Effort()
    for hunk in parsed(diff):
        for line in _coloured(hunk, effort) if coloured else _marked(hunk, effort):
            console.print(line, soft_wrap=True, markup=False, emoji=False)


def _print(console: Console, text: str, style: str) -> None:
    console.print(Text(text, style=style), soft_wrap=True)


def _head(hunk: DiffHunk) -> Iterator[Text]:
    first = next((line for change in hunk.changes for line in (*change.new, *change.old)), None)
    if first is not None:
        yield Text(f"@@ line {first.number} @@", style="cyan")
    if hunk.note:
        yield Text(visible(hunk.note), style=QUIET)


def _coloured(hunk: DiffHunk, effort: Effort) -> Iterator[Text]:
    yield from _head(hunk)
    for change in hunk.changes:
        pairs = list(paired(change, effort))
        if change.same:
            yield from (_line(" ", pair.old, (), QUIET) for pair in pairs if pair.old)
            continue
        yield from (_line("-", pair.old, pair.removed, REMOVED) for pair in pairs if pair.old)
        yield from (_line("+", pair.new, pair.added, ADDED) for pair in pairs if pair.new)


def _line(mark: str, line: DiffLine, spans: Sequence[Span], style: str) -> Text:
    found = Text(mark, style=style)
    for part, differs in _parts(line.text, spans):
        found.append(visible(part), style=f"{style} {MARKED}" if differs else style)
    if line.note:
        found.append(f" ({line.note})", style=QUIET)
    return found


def _marked(hunk: DiffHunk, effort: Effort) -> Iterator[Text]:
    yield from _head(hunk)
    for change in hunk.changes:
        for pair in paired(change, effort):
            yield Text(_in_words(change, pair))


def _in_words(change: DiffChange, pair: LinePair) -> str:
    """Return the pair as one line with its removed and added words marked."""
    if change.same and pair.old is not None:
        return visible(pair.old.text)
    old, new = (pair.old.text if pair.old else ""), (pair.new.text if pair.new else "")
    if pair.old is None or pair.new is None or not (pair.removed or pair.added):
        went = f"[-{visible(old)}-]" if pair.old else ""
        return went + (f"{{+{visible(new)}+}}" if pair.new else "")
    return "".join(_woven(old, new, pair))


def _woven(old: str, new: str, pair: LinePair) -> Iterator[str]:
    """Yield the common text of both lines once, and what only one has, marked, where it is."""
    went, came = list(pair.removed), list(pair.added)
    i = j = 0
    while i < len(old) or j < len(new):
        if went and went[0][0] == i:
            start, i = went.pop(0)
            yield f"[-{visible(old[start:i])}-]"
        elif came and came[0][0] == j:
            start, j = came.pop(0)
            yield f"{{+{visible(new[start:j])}+}}"
        else:
            size = min((went[0][0] if went else len(old)) - i, (came[0][0] if came else len(new)) - j)
            yield visible(old[i : i + size])
            i, j = i + size, j + size


def _parts(text: str, spans: Sequence[Span]) -> Iterator[tuple[str, bool]]:
    """Yield the parts of a line and whether they differ."""
    at = 0
    for start, end in spans:
        if start > at:
            yield text[at:start], False
        yield text[start:end], True
        at = end
    if at < len(text):
        yield text[at:], False
