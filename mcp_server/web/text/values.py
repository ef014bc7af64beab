"""Values as the pages show them: texts folded where they are long, JSON as named fields, times. Pure."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Literal
from urllib.parse import quote

from markupsafe import Markup

from mcp_server.presenters.proposal import value_text
from mcp_server.web.text.sanitize import escaped, has_hidden, sanitize

LONG_TEXT = 4_000
"""Characters of one text that are shown at once; a person who wants to approve opens the rest."""
ANY_LENGTH = 10**9  # no text is longer


@dataclass(frozen=True, slots=True)
class ShownText:
    """A text as HTML; `left_out` characters of it are folded away."""

    html: Markup
    left_out: int = 0


@dataclass(frozen=True, slots=True)
class ShownField:
    """One named value of a JSON object. `kind` says what it is: `text`, `number`, `null`, ..."""

    name: str
    kind: str
    value: ShownText
    short: bool


@dataclass(frozen=True, slots=True)
class Moment:
    """A time, for people and for machines."""

    iso: str
    text: str
    ago: str


def folded(text: str, longest: int = LONG_TEXT) -> ShownText:
    """Return at most `longest` characters of the text as HTML, and the number of those left out."""
    return ShownText(sanitize(text[:longest]), max(0, len(text) - longest))


def fields_of(values: Mapping[str, Any], longest: int = LONG_TEXT) -> list[ShownField]:
    """Return the values sorted by name; texts as they are, everything else as JSON."""
    found = []
    for name in sorted(values):
        text = value_text(values[name])
        short = "\n" not in text and len(text) <= 100
        found.append(ShownField(name, _kind(values[name]), folded(text, longest), short))
    return found


def _kind(value: Any) -> str:
    if isinstance(value, str):
        return f"text, {len(value)} characters"
    if value is None:
        return "nothing"
    if isinstance(value, bool):
        return "yes or no"
    return "number" if isinstance(value, int | float) else "list" if isinstance(value, list) else "object"


def moment(at: datetime, now: datetime) -> Moment:
    """Return the time in UTC, and how long ago or ahead it is."""
    at = at.astimezone(UTC)
    return Moment(at.isoformat(timespec="seconds"), f"{at:%Y-%m-%d %H:%M} UTC", _distance((now - at).total_seconds()))


def _distance(seconds: float) -> str:
    away = abs(seconds)
    for size, unit in ((86_400, "day"), (3_600, "hour"), (60, "minute")):
        if away >= size:
            count = int(away // size)
            distance = f"{count} {unit}{'s' if count > 1 else ''}"
            return f"{distance} ago" if seconds > 0 else f"in {distance}"
    return "just now" if seconds >= 0 else "in less than a minute"


TITLE_CHARS = 120


def title_line(brief: str) -> str:
    """Return the beginning of a journey's brief on one line."""
    # A brief may be long. This is enough for the line even if most of it is white space.
    words = " ".join(brief[: 4 * TITLE_CHARS].split())
    return words if len(words) <= TITLE_CHARS else words[: TITLE_CHARS - 1] + "…"


def journey_address(journey: str) -> str:
    """Return the address of a journey's page."""
    return f"/journeys/{quote(journey, safe='')}"


# --- editing ----------------------------------------------------------------------------------------------------------

EditForm = Literal["text", "json"]


@dataclass(frozen=True, slots=True)
class EditableArgument:
    """One argument as a person edits it in a form. `lines` is the height of its field."""

    key: str
    form: EditForm
    value: str
    lines: int


def entry_of(key: str, value: Any) -> EditableArgument:
    """Return the argument as it is edited: a text as it is, everything else as JSON."""
    # A text field drops carriage returns and shows invisible characters as nothing: such a text is edited as JSON with escapes.
    plain = isinstance(value, str) and not has_hidden(value) and "\r" not in value
    text = value if plain else escaped(json.dumps(value, ensure_ascii=False, sort_keys=True))
    return EditableArgument(key, "text" if plain else "json", text, min(24, text.count("\n") + 1 + len(text) // 90))


def value_of(form: EditForm, text: str) -> Any:
    """Return the value that a person's entry means. Browsers send line ends as CR LF.

    Raises:
        ValueError: it is not valid JSON.
    """
    text = text.replace("\r\n", "\n")
    try:
        return text if form == "text" else json.loads(text)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
