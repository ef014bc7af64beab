"""A mapping of an agent's file, of which one key after the other is taken. What is left is unknown. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from agents.spec.problems import Problems, meant, short
from agents.spec.yaml.values import Marked


class MappingReader:
    """Takes values of the kind that is wanted out of a mapping, and notes what does not fit."""

    def __init__(self, marked: Marked, what: str, problems: Problems) -> None:
        self.marked, self.what, self.problems = marked, what, problems
        self._asked: list[str] = []
        if not isinstance(marked.value, dict):
            problems.add(marked.line, f"{what} must be a mapping, not {marked.kind}")

    def line(self, key: str = "") -> int:
        """Return where that key stands, or where the mapping begins."""
        return self.marked.key_lines.get(key, self.marked.line)

    def take(self, key: str, *, needed: bool = False) -> Marked | None:
        """Return what stands at the key; None if nothing does."""
        self._asked.append(key)
        found = self.marked.entries.get(key)
        if found is None or found.value is None:
            if needed and isinstance(self.marked.value, dict):
                self.problems.add(self.line(key), f"{self.what} lacks {key!r}")
            return None
        return found

    def text(self, key: str, *, most: int, needed: bool = False) -> str:
        """Return the text at the key, in one piece; "" if there is none that could be used."""
        found = self.take(key, needed=needed)
        if found is None:
            return ""
        if not isinstance(found.value, str):
            self.problems.add(self.line(key), f"{key!r} must be text, not {found.kind}{_quotes(found)}")
            return ""
        if len(found.value) > most:
            self.problems.add(self.line(key), f"{key!r} has {len(found.value)} characters, at most {most} are taken")
        if needed and not found.value.strip():
            self.problems.add(self.line(key), f"{key!r} says nothing")
        return found.value.strip()

    def flag(self, key: str) -> bool:
        """Return whether the key says true."""
        found = self.take(key)
        if found is not None and not isinstance(found.value, bool):
            self.problems.add(self.line(key), f"{key!r} must be true or false, not {found.kind}")
        return found is not None and found.value is True

    def number(self, key: str, *, least: int, most: int, usual: int) -> int:
        """Return the whole number at the key."""
        found = self.take(key)
        if found is None:
            return usual
        number = found.value
        if not isinstance(number, int) or isinstance(number, bool) or not least <= number <= most:
            self.problems.add(self.line(key), f"{key!r} must be a whole number from {least} to {most}")
            return usual
        return number

    def words(self, key: str, *, needed: bool = False) -> Sequence[tuple[str, int]]:
        """Return the words at the key, one or a list of them, with their lines."""
        found = self.take(key, needed=needed)
        if found is None:
            return ()
        items = found.items if isinstance(found.value, list) else [found]
        for item in items:
            if not isinstance(item.value, str):
                self.problems.add(item.line, f"{key!r} takes words, not {item.kind}{_quotes(item)}")
        return [(item.value, item.line) for item in items if isinstance(item.value, str)]

    def done(self) -> None:
        """Note every key that nobody asked for."""
        for key in self.marked.entries:
            if key not in self._asked:
                text = f"{self.what} has the unknown key {short(key)}{meant(key, self._asked)}"
                self.problems.add(self.line(key), text)


def _quotes(found: Marked) -> str:
    """Return a hint for what looks like text and is none."""
    return "; put it in quotes" if isinstance(found.value, bool | int | float) else ""
