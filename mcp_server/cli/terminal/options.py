"""The command line's own parser: options that every verb takes, numbers within bounds, and one sentence for a mistake."""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable, Mapping
from typing import NoReturn


class WronglyAsked(Exception):
    """The command line is wrong; the message is one sentence for the person who typed it."""


class Parser(argparse.ArgumentParser):
    """A parser that reports a mistake in one sentence, and accepts no abbreviations, which a later option could break."""

    def __init__(self, *args: object, **kwargs: object) -> None:
        kwargs.setdefault("allow_abbrev", False)
        super().__init__(*args, **kwargs)  # type: ignore[arg-type]  # handed on as they came

    def error(self, message: str) -> NoReturn:
        """Raise WronglyAsked instead of printing the usage and ending the process."""
        raise WronglyAsked(f"{message} (see {self.prog} --help)")


def add_common(parser: argparse.ArgumentParser) -> None:
    """Add the options of every verb.

    They have no default, so that a sub-parser does not reset what was given before the action (`journeys --kb DIR list`).
    """
    nothing = argparse.SUPPRESS
    parser.add_argument("--kb", metavar="DIR", default=nothing, help="the folder of Markdown (default: the handbook)")
    parser.add_argument(
        "--state-dir",
        metavar="DIR",
        default=nothing,
        help="where state and indexes are stored (default: the platform's data folder)",
    )
    parser.add_argument("--json", action="store_true", default=nothing, help="print JSON")


def add_actions(
    parser: argparse.ArgumentParser, actions: Mapping[str, tuple[str, object]], *, default: str = ""
) -> Mapping[str, argparse.ArgumentParser]:
    """Add a verb's actions, each with its help text and the options of every verb, and return their parsers.

    Without an action on the command line, `default` is run; if there is no default, an action is required.
    """
    adding = parser.add_subparsers(dest="action", required=not default, metavar="|".join(actions))
    parser.set_defaults(action=default)
    parsers = {name: adding.add_parser(name, help=text) for name, (text, _) in actions.items()}
    for action in parsers.values():
        add_common(action)
    return parsers


def integer(lowest: int, highest: int) -> Callable[[str], int]:
    """Return a reader of whole numbers from `lowest` to `highest`."""

    def read(text: str) -> int:
        try:
            number = int(text)
        except ValueError:
            number = lowest - 1
        if not lowest <= number <= highest:
            raise argparse.ArgumentTypeError(f"{text!r} is not a whole number from {lowest} to {highest}")
        return number

    return read


def seconds(text: str) -> float:
    """Return a number of seconds, 0 or more."""
    return _number(text, math.inf, "a number of seconds, 0 or more")


def fraction(text: str) -> float:
    """Return a number from 0 to 1."""
    return _number(text, 1, "a number from 0 to 1")


def _number(text: str, highest: float, what: str) -> float:
    try:
        number = float(text)
    except ValueError:
        number = math.nan
    if not (math.isfinite(number) and 0 <= number <= highest):
        raise argparse.ArgumentTypeError(f"{text!r} is not {what}")
    return number


def nonempty(text: str) -> str:
    """Return `text`, which must not be empty."""
    if not text.strip():
        raise argparse.ArgumentTypeError("it is empty")
    return text
