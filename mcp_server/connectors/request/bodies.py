"""Reading what a service sent, whatever it sent: bodies of JSON, and how long it wants to be left alone. Pure."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from datetime import datetime
from email.utils import parsedate_to_datetime
from typing import Any

MOST_DEPTH = 100
SHORTEST_SECRET = 6
HIDDEN = "[removed]"
LONGEST_WAIT_S = 24 * 60 * 60.0


class BadBody(ValueError):
    """The body is no JSON that can be used; `why` says it in words, without a word of the body."""

    def __init__(self, why: str, *, page: bool = False) -> None:
        self.why, self.page = why, page
        super().__init__(why)


def read_body(content: bytes, secrets: Sequence[str] = ()) -> Any:
    """Return the value of a JSON body, None for an empty one; secrets are removed from every text in it.

    Texts are such that they can be stored and sent on: no half of a surrogate pair, no NUL.

    Raises:
        BadBody: it is HTML, no UTF-8, no JSON, holds NaN or infinity, or is nested deeper than any reply is.
    """
    try:
        text = content.decode("utf-8-sig").strip()
    except UnicodeDecodeError as error:
        raise BadBody("it is no UTF-8") from error
    if not text:
        return None
    if text.startswith("<"):
        raise BadBody("a page of HTML where JSON was due", page=True)
    try:
        value = json.loads(text, parse_constant=_no_number)
    except RecursionError as error:
        raise BadBody("its JSON is nested too deeply") from error
    except ValueError as error:
        raise BadBody("it is no JSON") from error
    return _clean(value, [secret for secret in secrets if len(secret) >= SHORTEST_SECRET], MOST_DEPTH)


def without(text: str, secrets: Sequence[str]) -> str:
    """Return `text` with every secret in it replaced; very short ones are no secrets."""
    for secret in secrets:
        if len(secret) >= SHORTEST_SECRET and secret in text:
            text = text.replace(secret, HIDDEN)
    return text


def wait_of(retry_after: str | None, date: str | None, now: datetime) -> float | None:
    """Return the seconds that `Retry-After` asks for: an integer, a fraction, or a date; None where it says nothing usable.

    A date is measured from the reply's own `Date`, so that clocks need not agree; without one from `now`.

    Source: RFC 9110, 10.2.3; a fraction is what Zulip sends (sample `err_429`).
    """
    if retry_after is None:
        return None
    try:
        seconds = float(retry_after)
    except ValueError:
        until = _moment(retry_after)
        if until is None:
            return None
        seconds = (until - (_moment(date) or now)).total_seconds()
    return min(max(seconds, 0.0), LONGEST_WAIT_S) if math.isfinite(seconds) else None


def _moment(text: str | None) -> datetime | None:
    try:
        found = parsedate_to_datetime(text) if text else None
    except (ValueError, OverflowError):
        return None
    return found if found is None or found.tzinfo else None


def _no_number(constant: str) -> Any:
    raise ValueError(constant)


def _clean(value: Any, secrets: Sequence[str], depth: int) -> Any:
    if depth == 0:
        raise BadBody("its JSON is nested too deeply")
    match value:
        case str():
            return _clean_text(value, secrets)
        case list():
            return [_clean(item, secrets, depth - 1) for item in value]
        case dict():
            return {_clean_text(key, secrets): _clean(item, secrets, depth - 1) for key, item in value.items()}
        case float() if not math.isfinite(value):
            raise BadBody("it holds a number without end")
        case _:
            return value


def _clean_text(text: str, secrets: Sequence[str]) -> str:
    if "\0" in text:
        text = text.replace("\0", "\N{REPLACEMENT CHARACTER}")
    if not text.isascii():
        try:
            text.encode()
        except UnicodeEncodeError:
            # JSON may write a pair as two escapes, which the parser joins; what is left over is a half without the other.
            text = text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return without(text, secrets)
