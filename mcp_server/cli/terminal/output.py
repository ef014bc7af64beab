"""What every verb needs of a terminal: answers on stdout, everything else on stderr."""

from __future__ import annotations

import json
import logging
import re
import sys
from collections.abc import Iterable
from typing import IO, TYPE_CHECKING, Any

from mcp_server.cli.terminal.escape import EscapedStream, harmless, one_line

if TYPE_CHECKING:
    from rich.console import Console

LONGEST_REMARK, LONGEST_TRACEBACK = 4_000, 16_000
"""Characters of one log record: a caller may put megabytes into what is logged."""
_MARKS = re.compile(r"^\s{0,3}(?:#{1,6}\s+|>\s?|[-*+]\s+(?:\[[ xX]\]\s+)?)")
_RULE = re.compile(r"\s*(?:`{3,}.*|~{3,}.*|[|\s:-]*-{3,}[|\s:-]*)")


def console() -> Console:
    """Return a console on stderr for progress and remarks; rich itself honours NO_COLOR and pipes."""
    return drawing(stderr=True, highlight=False, markup=False)


def output() -> Console:
    """Return a console on stdout for answers. That nobody reads on is told to the caller, as `print` does it."""
    return drawing(highlight=False)


def drawing(*, stderr: bool = False, **more: Any) -> Console:
    """Return a console that marks what would act in the texts that it shows. Its own colours and moves get through."""
    from rich.console import Console, ConsoleOptions, RenderableType  # `serve` never draws
    from rich.segment import Segment

    class Drawing(Console):
        @property
        def file(self) -> IO[str]:
            file = super().file
            return file.stream if isinstance(file, EscapedStream) else file

        @file.setter
        def file(self, new: IO[str]) -> None:
            self._file = new

        def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
            for segment in super().render(renderable, options):
                yield segment if segment.control else Segment(harmless(segment.text), segment.style)

        def on_broken_pipe(self) -> None:
            self.quiet = True
            if self.stderr:
                super().on_broken_pipe()
            raise BrokenPipeError

    return Drawing(stderr=stderr, **more)


def tidy(text: str, most: int) -> str:
    """Return Markdown as a line or two to read at a glance: no marks, no table rules, no fences, cut after a word."""
    from knowledge.pages.document import shortened
    from knowledge.pages.markdown.inline import plain

    lines = [_MARKS.sub("", line) for line in text.splitlines() if not _RULE.fullmatch(line)]
    return shortened(plain(" ".join(line.replace("|", " ") if line.startswith("|") else line for line in lines)), most)


class LogLines(logging.Formatter):
    """Each record begins a line with our name, and nothing else does: no text in it starts a line of its own or acts on a terminal.

    A person at a terminal is told an error's last line only; a server's log has its traceback, indented.
    """

    def __init__(self, *, tracebacks: bool) -> None:
        super().__init__()
        self._tracebacks = tracebacks

    def format(self, record: logging.LogRecord) -> str:
        """Return the record as it is written."""
        said = record.getMessage()
        error = record.exc_info[1] if record.exc_info else None
        if error and not self._tracebacks:
            said += f" ({type(error).__name__}: {error})"
        lines = [f"knowledge-forge: {one_line(_cut(said, LONGEST_REMARK))}"]
        if record.exc_info and self._tracebacks:
            # splitlines also breaks at form feeds and the like, which another program that reads the log may take for line ends
            told = _cut(self.formatException(record.exc_info), LONGEST_TRACEBACK).splitlines()
            lines += [f"    {harmless(line)}" for line in told]
        return "\n".join(lines)


def _cut(text: str, most: int) -> str:
    """Return `text` without its middle if it is longer: an error's last words say what happened."""
    if len(text) <= most:
        return text
    return f"{text[: most // 2]} [{len(text) - most // 2 * 2:,} more characters] {text[-(most // 2) :]}"


def log_to_stderr(*, tracebacks: bool) -> None:
    """Put the warnings of all parts of the program, and of its libraries, on stderr."""
    handler = logging.StreamHandler()
    handler.setFormatter(LogLines(tracebacks=tracebacks))
    logging.basicConfig(level=logging.WARNING, handlers=[handler])


def say(text: str) -> None:
    """Put a remark on stderr, as it is: paths keep their brackets and are not wrapped."""
    print(text, file=sys.stderr)


def print_json(answer: object) -> None:
    """Put `answer` on stdout as one JSON document, in ASCII where the terminal speaks no UTF-8."""
    unicode = (sys.stdout.encoding or "").lower().replace("-", "") == "utf8"
    print(json_text(answer, ascii_only=not unicode, indent=2))


def json_text(answer: object, *, ascii_only: bool = True, indent: int | None = None) -> str:
    """Return `answer` as JSON in which escapes stand for what would not be seen: it means the same."""
    from mcp_server.web.text.sanitize import escaped

    return escaped(json.dumps(answer, ensure_ascii=ascii_only, indent=indent))


def ask_yes_no(question: str, *, stdin_is_tty: bool, proposed: bool = False) -> bool | None:
    """Return the person's answer; an empty line is what is proposed; None where nobody can be asked."""
    if not stdin_is_tty:
        return None
    answers = {"y": True, "yes": True, "n": False, "no": False, "": proposed}
    while True:
        print(
            f"{question} [{'Y/n' if proposed else 'y/N'}] ", end="", file=sys.stderr, flush=True
        )  # stdout carries only the answer
        line = sys.stdin.readline()
        if not line:
            return None
        answer = answers.get(line.strip().lower())
        if answer is not None:
            return answer
        say("Please answer y or n.")


def print_ascii(answer: object) -> None:
    """Print JSON in which every character that a terminal may act on is written as its number."""
    print(json_text(answer, indent=2))
