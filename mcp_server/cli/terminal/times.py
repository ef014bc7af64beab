"""Times as people type and read them in a terminal, in UTC."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from datetime import UTC, datetime

from mcp_server.presenters.typed_time import FORMS, since_of, until_of

__all__ = ["FORMS", "shown", "since", "until"]


def since(text: str) -> datetime:
    """Return the beginning of the day or time that a person typed. Raises: argparse.ArgumentTypeError: it is no time."""
    return _typed(text, since_of)


def until(text: str) -> datetime:
    """Return the end of the day or time that a person typed; a day counts in full.

    Raises: argparse.ArgumentTypeError: it is no time.
    """
    return _typed(text, until_of)


def _typed(text: str, read: Callable[[str, datetime], datetime]) -> datetime:
    try:
        return read(text, datetime.now(UTC))
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def shown(at: datetime) -> str:
    """Return the time to the minute."""
    return f"{at.astimezone(UTC):%Y-%m-%d %H:%M}"
