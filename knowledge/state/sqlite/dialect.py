"""Translates statements from PostgreSQL's dialect, in which they are written, to SQLite's."""

from __future__ import annotations

import re
from functools import cache

# In this order: arrays need the casts that a later rule removes.
_RULES = (
    (r"\bforge\.", ""),
    # An array is passed as JSON, in which bytes are hexadecimal digits.
    (r"= ANY\((%s|%\(\w+\)s)::bytea\[\]\)", r"IN (SELECT unhex(value) FROM json_each(\1))"),
    (r"= ANY\((%s|%\(\w+\)s)::\w+\[\]\)", r"IN (SELECT value FROM json_each(\1))"),
    (r"'infinity'::timestamptz", str(2**62)),
    # A parameter brings its type along.
    (r"::\w+", ""),
    (r' COLLATE "C"', ""),
    (r"%\((\w+)\)s", r":\1"),
    ("%s", "?"),
    ("%%", "%"),
    # A transaction that writes has the whole file.
    (r" FOR UPDATE\b", ""),
    (r"\bgreatest\(", "max("),
    (r"\bstrpos\(", "instr("),
    # PostgreSQL's indexes can't hold long texts, so there some columns have a hash beside them, which SQLite does without.
    (r"\b(path|origin|moved_from)_key\b", r"\1"),
    # Times are microseconds since the epoch, and some columns have shorter names.
    (r"\b(changed|found|given|happened|made|mentioned|read|seen|trusted)_at\b", "at_us"),
    (r"\b(\w+)_at\b", r"\1_us"),
    (r"\bheld_until\b", "held_us"),
    (r"\bruns_until\b", "runs_until_us"),
    (r"\buser_name\b", "user"),
)


@cache
def in_sqlite(statement: str) -> str:
    """Return the statement in SQLite's dialect."""
    for pattern, replacement in _RULES:
        statement = re.sub(pattern, replacement, statement)
    return statement
