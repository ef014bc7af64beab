"""A window of Obsidian with a note open: `python -m tests.support.writing.obsidian_window FILE SEED`.

It holds the note in memory. While a person types it saves in place at any moment, half-typed lines too. It hears of changes of the
file a little later: an untouched note is then loaded again, and into one with unsaved text the changes are merged as diff-match-patch
does, hunk by hunk, where their surroundings are found. For every line that it reads a line is typed; it is printed once it is saved.
"""

from __future__ import annotations

import difflib
import random
import select
import sys
from pathlib import Path

CONTEXT = 32
LEAST_CONTEXT = 4
HEARS_AT_ONCE = 0.5
"""How often it has heard of a change before it saves."""
SAVES_HALF_TYPED = 0.5
LOOKS_EVERY_S = 0.02


class Window:
    """The note as the window has it: `text` in memory, `saved` as it last read or wrote the file."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self.text = self.saved = file.read_text(encoding="utf-8")

    def hear(self) -> None:
        """Learn of a change of the file, if there is one."""
        found = self._file.read_text(encoding="utf-8")
        if found != self.saved:
            self.text = found if self.text == self.saved else patched(self.saved, self.text, found)
            self.saved = found

    def type(self, typed: str) -> None:
        """Type at the end of the note."""
        self.text += typed

    def save(self) -> None:
        """Save in place, whatever has become of the file since."""
        self._file.write_text(self.text, encoding="utf-8")
        self.saved = self.text


def patched(base: str, mine: str, theirs: str) -> str:
    """Return `theirs` with the changes from `base` to `mine`, each where its surroundings are found; the others are lost."""
    found = theirs
    hunks = difflib.SequenceMatcher(None, base, mine, autojunk=False).get_opcodes()
    for kind, start, end, new_start, new_end in reversed(hunks):
        if kind == "equal":
            continue
        for width in (CONTEXT, CONTEXT // 2, LEAST_CONTEXT):
            before, after = base[max(0, start - width) : start], base[end : end + width]
            places = _all(found, before + base[start:end] + after)
            if places:
                at = min(places, key=lambda place: abs(place - start)) + len(before)
                found = found[:at] + mine[new_start:new_end] + found[at + end - start :]
                break
    return found


def _all(text: str, wanted: str) -> list[int]:
    places, at = [], text.find(wanted) if wanted else -1
    while at >= 0:
        places.append(at)
        at = text.find(wanted, at + 1)
    return places


def main(file: Path, seed: int) -> None:
    draw = random.Random(seed)  # noqa: S311  its habits are to be the same another time, and no secret
    window = Window(file)
    number = 0
    while True:
        if not select.select([sys.stdin], [], [], LOOKS_EVERY_S)[0]:
            window.hear()
            continue
        if not sys.stdin.readline():
            return
        line = f"- typed in Obsidian, {number:03} {draw.randrange(16**8):08x}"
        number += 1
        half = draw.randrange(1, len(line))
        for piece in (line[:half], f"{line[half:]}\n"):
            window.type(piece)
            if draw.random() < HEARS_AT_ONCE:
                window.hear()
            if piece.endswith("\n") or draw.random() < SAVES_HALF_TYPED:
                window.save()
        # What its own merge could not place is lost in every editor that merges like this.
        if line in window.text.split("\n"):
            print(line, flush=True)  # noqa: T201 - its protocol


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]))
