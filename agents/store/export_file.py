"""A journey as one file: a header line, then a line for each event, with the digest of all lines up to it. Pure.

Any tool can read an exported journey, and importing detects an edited, missing or added line. The file is not signed:
anyone who can write it can also write a different one.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Sequence
from typing import Any

from agents.engine.events import Logged, canonical, logged_form, logged_of
from agents.errors import BadJourneyFile, UnknownEvent

FORMAT = "knowledge-forge journey"
FORM = 1


def exported(journey: str, log: Sequence[Logged]) -> Iterator[str]:
    """Yield the lines of the file, each with its newline."""
    head = canonical({"format": FORMAT, "form": FORM, "journey": journey, "events": len(log)})
    yield head + "\n"
    chain = _digest("", head)
    for logged in log:
        form = logged_form(logged)
        chain = _digest(chain, canonical(form))
        yield canonical({**form, "chain": chain}) + "\n"


def _digest(before: str, line: str) -> str:
    return hashlib.sha256(f"{before}{line}".encode()).hexdigest()


def imported(text: str) -> tuple[str, list[Logged]]:
    """Return the journey's id and its log.

    Raises:
        BadJourneyFile: the file is not an export, was changed, or is incomplete.
    """
    lines = text.splitlines()
    head = _object(1, lines[0] if lines else "")
    if (head.get("format"), head.get("form")) != (FORMAT, FORM) or not isinstance(head.get("journey"), str):
        raise BadJourneyFile(1, "it is not the first line of an export that this program can read")
    chain, log = _digest("", canonical(head)), []
    for number, line in enumerate(lines[1:], 2):
        form = _object(number, line)
        written = form.pop("chain", None)
        chain = _digest(chain, canonical(form))
        if written != chain:
            raise BadJourneyFile(number, "this line, or one before it, was changed after the export")
        try:
            log.append(logged_of(form))
        except UnknownEvent as error:
            raise BadJourneyFile(number, str(error)) from error
        except (KeyError, TypeError, ValueError, OverflowError) as error:
            raise BadJourneyFile(number, "it is not an event") from error
    if len(log) != head.get("events"):
        raise BadJourneyFile(len(lines), f"it has {len(log)} events, but {head.get('events')} were exported")
    return head["journey"], log


def _object(number: int, line: str) -> dict[str, Any]:
    try:
        found = json.loads(line)
    # A hostile file may be nested deeper than the parser's recursion.
    except (ValueError, RecursionError) as error:
        raise BadJourneyFile(number, "it is not JSON") from error
    if not isinstance(found, dict):
        raise BadJourneyFile(number, "it is not a JSON object")
    return found
