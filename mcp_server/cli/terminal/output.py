"""Print answers on stdout and everything else on stderr."""

from __future__ import annotations

import json
import logging
import sys
from collections.abc import Iterable

from mcp_server.cli.terminal.escape import harmless, one_line

LONGEST_REMARK, LONGEST_TRACEBACK = 4_000, 16_000
"""The most characters of one log record: a caller may cause megabytes to be logged."""


class LogLines(logging.Formatter):
    """Formats each record as one line that begins with our name. No text in it can start a new line or act on a terminal.

    With `tracebacks`, as in a server's log, an error's traceback follows, indented; a person at a terminal gets its last line.
    """

    def __init__(self, *, tracebacks: bool) -> None:
        super().__init__()
        self._tracebacks = tracebacks

    def format(self, record: logging.LogRecord) -> str:
        """Return the record as it is written."""
        message = record.getMessage()
        error = record.exc_info[1] if record.exc_info else None
        if error and not self._tracebacks:
            message += f" ({type(error).__name__}: {error})"
        lines = [f"knowledge-forge: {one_line(_without_middle(message, LONGEST_REMARK))}"]
        if record.exc_info and self._tracebacks:
            # splitlines also breaks at form feeds and the like, which another program that reads the log may take for line ends
            traceback = _without_middle(self.formatException(record.exc_info), LONGEST_TRACEBACK).splitlines()
            lines += [f"    {harmless(line)}" for line in traceback]
        return "\n".join(lines)


def _without_middle(text: str, most: int) -> str:
    """Return `text`; if it is long, only its beginning and its end, because an error's last words say what happened."""
    if len(text) <= most:
        return text
    half = most // 2
    return f"{text[:half]} [{len(text) - half * 2:,} more characters] {text[-half:]}"


def log_to_stderr(*, tracebacks: bool) -> None:
    """Send the warnings of all parts of the program, and of its libraries, to stderr."""
    handler = logging.StreamHandler()
    handler.setFormatter(LogLines(tracebacks=tracebacks))
    logging.basicConfig(level=logging.WARNING, handlers=[handler])


def say(text: str) -> None:
    """Print a remark on stderr unchanged: brackets in paths are kept, and lines are not wrapped."""
    print(text, file=sys.stderr)


def print_json(answer: object) -> None:
    """Print `answer` as one JSON document, in ASCII where the terminal has no UTF-8."""
    unicode = (sys.stdout.encoding or "").lower().replace("-", "") == "utf8"
    print(json_text(answer, ascii_only=not unicode, indent=2))


def print_ascii(answer: object) -> None:
    """Print `answer` as one JSON document in ASCII: texts that models wrote are the same bytes on every terminal."""
    print(json_text(answer, indent=2))


def print_answer(fields: object, lines: Iterable[str], *, as_json: bool, ascii_only: bool = True) -> None:
    """Print `fields` as one JSON document, or else the lines, which are `visible` already."""
    if as_json:
        (print_ascii if ascii_only else print_json)(fields)
        return
    for line in lines:
        print(line)


def json_text(answer: object, *, ascii_only: bool = True, indent: int | None = None) -> str:
    """Return `answer` as JSON in which invisible characters are replaced by equivalent escapes."""
    from mcp_server.web.text.sanitize import escaped  # `serve`, which loads this file, prints no JSON of ours

    return escaped(json.dumps(answer, ensure_ascii=ascii_only, indent=indent))


def ask_yes_no(question: str, *, stdin_is_tty: bool, proposed: bool = False) -> bool | None:
    """Return the person's answer, `proposed` for an empty line, and None if there is no terminal to ask at."""
    if not stdin_is_tty:
        return None
    answers = {"y": True, "yes": True, "n": False, "no": False, "": proposed}
    while True:
        # On stderr, because stdout carries only the answer.
        print(f"{question} [{'Y/n' if proposed else 'y/N'}] ", end="", file=sys.stderr, flush=True)
        line = sys.stdin.readline()
        if not line:
            return None
        answer = answers.get(line.strip().lower())
        if answer is not None:
            return answer
        say("Please answer y or n.")
