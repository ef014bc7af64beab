"""Values as the page shows them: texts that are folded where they are long, JSON as named fields, times. Pure."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Literal

from markupsafe import Markup

from mcp_server.web.text.sanitize import escaped, has_hidden, sanitize, sanitize_line

LONG_TEXT = 4_000
"""Characters of one text that are shown at once; whoever wants to approve opens the rest."""
ANY_LENGTH = 10**9


@dataclass(frozen=True, slots=True)
class ShownText:
    """A text as HTML; `left_out` characters of it are folded away."""

    html: Markup
    left_out: int = 0


@dataclass(frozen=True, slots=True)
class ShownField:
    """One named value of a JSON object. `kind` says what it is: `text`, `number`, `null`, ..."""

    name: Markup
    kind: str
    value: ShownText
    short: bool


@dataclass(frozen=True, slots=True)
class Moment:
    """A time, for people and for machines."""

    iso: str
    said: str
    ago: str


def folded(text: str, longest: int = LONG_TEXT) -> ShownText:
    """Return at most `longest` characters of the text, and how many more there are."""
    return ShownText(sanitize(text[:longest]), max(0, len(text) - longest))


def fields_of(values: Mapping[str, Any], longest: int = LONG_TEXT) -> list[ShownField]:
    """Return the values by name, in the order of their names; texts as they read, everything else as JSON."""
    return [_field(name, values[name], longest) for name in sorted(values)]


def _field(name: str, value: Any, longest: int) -> ShownField:
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, indent=2, sort_keys=True)
    return ShownField(sanitize_line(name), _kind(value), folded(text, longest), "\n" not in text and len(text) <= 100)


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
    units = ((86_400, "day"), (3_600, "hour"), (60, "minute"))
    away = abs(seconds)
    size, unit = next(((size, unit) for size, unit in units if away >= size), (0, ""))
    if not size:
        return "just now" if seconds >= 0 else "in less than a minute"
    count = int(away // size)
    told = f"{count} {unit}{'s' if count > 1 else ''}"
    return f"{told} ago" if seconds > 0 else f"in {told}"


# --- editing ----------------------------------------------------------------------------------------------------------

Form = Literal["text", "json"]


@dataclass(frozen=True, slots=True)
class EditableArgument:
    """One argument in the form in which a person edits it: a text as it is, anything else, and what hides, as JSON."""

    key: str
    form: Form
    value: str
    lines: int


def entry_of(key: str, value: Any) -> EditableArgument:
    """Return the argument as it is edited. What a browser would change or not show is JSON with escapes."""
    plain = isinstance(value, str) and not has_hidden(value) and "\r" not in value
    text = value if plain else escaped(json.dumps(value, ensure_ascii=False, sort_keys=True))
    return EditableArgument(key, "text" if plain else "json", text, min(24, text.count("\n") + 1 + len(text) // 90))


def value_of(form: Form, text: str) -> Any:
    """Return what a person's entry means. Browsers send line ends as CR LF.

    Raises:
        ValueError: it is no JSON.
    """
    text = text.replace("\r\n", "\n")
    try:
        return text if form == "text" else json.loads(text)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None


def joined(parts: Iterable[Markup], between: str = ", ") -> Markup:
    """Return the parts as one, escaped already."""
    return Markup(between).join(parts)  # noqa: S704 - a separator that we name
