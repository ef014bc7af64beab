"""Changes single settings in `forge.toml` and leaves the rest of the file as a person wrote it."""

from __future__ import annotations

import json
import os
import re
import secrets
import tomllib
from collections.abc import Mapping
from pathlib import Path

from knowledge.errors import KnowledgeError
from knowledge.private_files import private_folder, write_private


class FileNotChanged(KnowledgeError):
    """The configuration file cannot be changed by a program; the message has the lines to write."""

    def __init__(self, file: Path, reason: str, values: Mapping[str, str | int | None]) -> None:
        self.file = file
        wanted = "\n".join(_line(key, value) for key, value in values.items() if value is not None)
        removed = ", ".join(key for key, value in values.items() if value is None)
        remove = f"\nand remove these if they are there: {removed}" if removed else ""
        super().__init__(f"{file} was not changed ({reason}); write these lines into it yourself:\n{wanted}{remove}")


def change_file(file: Path, values: Mapping[str, str | int | None]) -> None:
    """Set these keys in the file, or remove those whose value is None. The file is replaced in one step.

    Raises: FileNotChanged: the result would not have exactly these values, or the file cannot be written.
    """
    try:
        # The file that a link leads to is replaced, and not the link: people keep such files elsewhere.
        place = file.resolve()
        before = place.read_text(encoding="utf-8") if place.exists() else ""
        after = changed(before, values)
        wanted = tomllib.loads(before) | {key: value for key, value in values.items() if value is not None}
        for key in [key for key, value in values.items() if value is None]:
            wanted.pop(key, None)
        if tomllib.loads(after) != wanted:
            raise FileNotChanged(file, "a value in it spans several lines", values)
        private_folder(place.parent)
        beside = place.with_name(f".{place.name}.{secrets.token_hex(4)}")
        try:
            write_private(beside, after)
            if place.exists():
                beside.chmod(place.stat().st_mode & 0o777)
            os.replace(beside, place)  # noqa: PTH105 - the same as `Path.replace`, and clearer about what is replaced
        finally:
            beside.unlink(missing_ok=True)
    except tomllib.TOMLDecodeError as error:
        raise FileNotChanged(file, f"it cannot be read as TOML: {error}", values) from error
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not text in UTF-8"
        raise FileNotChanged(file, str(reason), values) from error


def changed(text: str, values: Mapping[str, str | int | None]) -> str:
    """Return the text of the file with these keys set, in place or else at the end, and without the keys whose value is None."""
    lines, done = [], set[str]()
    for line in text.splitlines(keepends=True):
        found = re.match(r"\s*(?:\"?)([A-Za-z0-9_-]+)(?:\"?)\s*=", line)
        key = found[1] if found else ""
        if key not in values:
            lines.append(line)
            continue
        value = values[key]
        if value is not None and key not in done:
            done.add(key)
            lines.append(f"{_line(key, value)}\n")
    if lines and not lines[-1].endswith("\n"):
        lines[-1] += "\n"
    lines += [f"{_line(key, value)}\n" for key, value in values.items() if value is not None and key not in done]
    return "".join(lines)


def _line(key: str, value: str | int | None) -> str:
    # A JSON string is a TOML string too, unless its escapes are pairs of surrogates.
    return f"{key} = {json.dumps(value, ensure_ascii=False)}"
