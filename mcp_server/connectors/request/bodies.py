"""Reads replies of any form: JSON bodies, and how long the service asks us to wait. Pure."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from datetime import datetime
from email.utils import parsedate_to_datetime
from typing import Any

MOST_DEPTH = 100
SHORTEST_SECRET = 6
"""A shorter "secret" is a placeholder; removing it would garble ordinary words."""
HIDDEN = "[removed]"
LONGEST_WAIT_S = 24 * 60 * 60.0  # what a longer `Retry-After` counts as


class BadBody(ValueError):
    """The body is not usable JSON. `why` says so without quoting it."""

    def __init__(self, why: str, *, page: bool = False) -> None:
        self.why, self.page = why, page
        super().__init__(why)


def read_body(content: bytes, secrets: Sequence[str] = ()) -> Any:
    """Return the value of a JSON body, None for an empty one, with all secrets removed from its texts.

    Its texts can be stored and sent on: they hold no NUL and no half of a surrogate pair.

    Raises:
        BadBody: it is HTML, not UTF-8, not JSON, holds NaN or infinity, or is nested deeper than any real reply.
    """
    try:
        text = content.decode("utf-8-sig").strip()
    except UnicodeDecodeError as error:
        raise BadBody("it is not UTF-8") from error
    if not text:
        return None
    if text.startswith("<"):
        raise BadBody("a page of HTML instead of JSON", page=True)
    try:
        value = json.loads(text, parse_constant=_refuse_constant)
    except RecursionError as error:
        raise BadBody("its JSON is nested too deeply") from error
    except ValueError as error:
        raise BadBody("it is not JSON") from error
    return _clean(value, secrets, MOST_DEPTH)


def without_secrets_of(text: str, secrets: Sequence[str]) -> str:
    """Return `text` with every secret in it replaced."""
    for secret in secrets:
        if len(secret) >= SHORTEST_SECRET and secret in text:
            text = text.replace(secret, HIDDEN)
    return text


def wait_of(retry_after: str | None, date: str | None, now: datetime) -> float | None:
    """Return the seconds that `Retry-After` asks for, an integer, a fraction or a date; None if it says nothing usable.

    A date is measured from the reply's own `Date`, so that clocks need not agree; without one from `now`.

    Source: RFC 9110, 10.2.3; Zulip sends a fraction (sample `err_429`).
    """
    if retry_after is None:
        return None
    try:
        seconds = float(retry_after)
    except ValueError:
        until = _date_in(retry_after)
        if until is None:
            return None
        seconds = (until - (_date_in(date) or now)).total_seconds()
    # float() also reads "nan" and "inf", and no sleep takes those.
    return min(max(seconds, 0.0), LONGEST_WAIT_S) if math.isfinite(seconds) else None


def _date_in(text: str | None) -> datetime | None:
    try:
        found = parsedate_to_datetime(text) if text else None
    except (ValueError, OverflowError):
        return None
    # Without a time zone it cannot be compared with `now`.
    return found if found is None or found.tzinfo else None


def _refuse_constant(constant: str) -> Any:
    # NaN and Infinity are Python's extension of JSON; nothing we store or send on may hold them.
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
            # 1e999 is valid JSON, and Python reads it as infinity.
            raise BadBody("it holds an infinite number")
        case _:
            return value


def _clean_text(text: str, secrets: Sequence[str]) -> str:
    # PostgreSQL stores no NUL in a text.
    text = text.replace("\0", "\N{REPLACEMENT CHARACTER}")
    if not text.isascii():
        try:
            text.encode()
        except UnicodeEncodeError:
            # JSON may write a surrogate pair as two escapes, which the parser joins; only a half without the other is left.
            text = text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return without_secrets_of(text, secrets)
