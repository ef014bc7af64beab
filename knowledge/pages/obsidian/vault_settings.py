"""What Obsidian's settings say about pages: the folder of templates, and where daily notes are. Pure."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass

from knowledge.errors import InvalidPath
from knowledge.pages.paths import clean_path, within

DAILY_FORMAT = "YYYY-MM-DD"
LONGEST_FORMAT = 200
# The parts of Moment.js' formats that people use in names of daily notes, the longest first.
_TOKENS = (
    *(("YYYY", r"\d{4}"), ("gggg", r"\d{4}"), ("GGGG", r"\d{4}"), ("YY", r"\d\d")),
    *(("MMMM", r"[^\W\d_]+"), ("MMM", r"[^\W\d_]+\.?"), ("MM", r"\d\d"), ("Mo", r"\d{1,2}\w*"), ("M", r"\d{1,2}")),
    *(("dddd", r"[^\W\d_]+"), ("ddd", r"[^\W\d_]+\.?"), ("dd", r"[^\W\d_]+\.?"), ("DDDD", r"\d{3}"), ("DD", r"\d\d")),
    *(("Do", r"\d{1,2}\w*"), ("D", r"\d{1,2}"), ("ww", r"\d\d"), ("WW", r"\d\d"), ("w", r"\d{1,2}"), ("W", r"\d{1,2}")),
    *(("Q", r"[1-4]"), ("E", r"[1-7]"), ("e", r"[0-6]"), ("d", r"[0-6]")),
)
_PART = re.compile(r"\[([^\]]*)\]|(" + "|".join(token for token, _ in _TOKENS) + r")|(.)", re.DOTALL)


@dataclass(frozen=True, slots=True)
class VaultSettings:
    """The folder of templates, "" if there is none, and the pattern of the paths of daily notes, None without daily notes."""

    templates: str = ""
    daily: re.Pattern[str] | None = None

    def is_template(self, path: str) -> bool:
        """Return whether the page at `path` is a template."""
        return bool(self.templates) and within(path.casefold(), self.templates.casefold())

    def is_daily(self, path: str) -> bool:
        """Return whether the page at `path`, without its suffix, is a daily note, or would be one."""
        return self.daily is not None and self.daily.fullmatch(path) is not None


def read_settings(templates: bytes | None, daily: bytes | None) -> VaultSettings:
    """Return what `templates.json` and `daily-notes.json` say; None for a file that is not there."""
    folder = _folder(_values(templates).get("folder"))
    if daily is None:
        return VaultSettings(folder)
    values = _values(daily)
    written = values.get("format")
    written = written if isinstance(written, str) and written.strip() else DAILY_FORMAT
    place = _folder(values.get("folder"))
    pattern = re.compile((re.escape(f"{place}/") if place else "") + _pattern(written[:LONGEST_FORMAT]))
    return VaultSettings(folder, pattern)


def _values(raw: bytes | None) -> dict[str, object]:
    try:
        found = json.loads(raw.decode("utf-8", "replace")) if raw else {}
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def _folder(value: object) -> str:
    try:
        return clean_path(value.strip().strip("/")) if isinstance(value, str) else ""
    except InvalidPath:
        return ""


def _pattern(written: str) -> str:
    tokens = dict(_TOKENS)
    return "".join(
        tokens[part[2]] if part[2] else re.escape(part[1] if part[1] is not None else part[3])
        for part in _PART.finditer(written.strip("/"))
    )
