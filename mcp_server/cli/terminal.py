"""What every verb needs of a terminal: answers on stdout, everything else on stderr."""

from __future__ import annotations

import json
import logging
import re
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import Console

_MARKS = re.compile(r"^\s{0,3}(?:#{1,6}\s+|>\s?|[-*+]\s+(?:\[[ xX]\]\s+)?)")
_RULE = re.compile(r"\s*(?:`{3,}.*|~{3,}.*|[|\s:-]*-{3,}[|\s:-]*)")


def console() -> Console:
    """Return a console on stderr for progress and remarks; rich itself honours NO_COLOR and pipes."""
    from rich.console import Console  # `serve` never draws

    return Console(stderr=True, highlight=False, markup=False)


def output() -> Console:
    """Return a console on stdout for answers. That nobody reads on is told to the caller, as `print` does it."""
    from rich.console import Console

    class Output(Console):
        def on_broken_pipe(self) -> None:
            self.quiet = True
            raise BrokenPipeError

    return Output(highlight=False)


def tidy(text: str, most: int) -> str:
    """Return Markdown as a line or two to read at a glance: no marks, no table rules, no fences, cut after a word."""
    from knowledge.document import shortened
    from knowledge.inline import plain

    lines = [_MARKS.sub("", line) for line in text.splitlines() if not _RULE.fullmatch(line)]
    return shortened(plain(" ".join(line.replace("|", " ") if line.startswith("|") else line for line in lines)), most)


class _OneLine(logging.Formatter):
    """A log record as a remark: an error's traceback is for a server's log, its last line is for a person."""

    def format(self, record: logging.LogRecord) -> str:
        error = record.exc_info[1] if record.exc_info else None
        why = f" ({type(error).__name__}: {error})" if error else ""
        return f"knowledge-forge: {record.getMessage()}{why}".replace("\n", " ")


def say_warnings() -> None:
    """Put what the parts of the program warn of on stderr, a line each."""
    handler = logging.StreamHandler()
    handler.setFormatter(_OneLine())
    logging.basicConfig(level=logging.WARNING, handlers=[handler])


def say(text: str) -> None:
    """Put a remark on stderr, as it is: paths keep their brackets and are not wrapped."""
    print(text, file=sys.stderr)


def print_json(answer: object) -> None:
    """Put `answer` on stdout as one JSON document, in ASCII where the terminal speaks no UTF-8."""
    unicode = (sys.stdout.encoding or "").lower().replace("-", "") == "utf8"
    print(json.dumps(answer, ensure_ascii=not unicode, indent=2))


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
