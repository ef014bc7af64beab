"""A program that saves pages as Obsidian does: `python -m tests.support.writing.obsidian VAULT SEED`.

For every line that it reads it types a sentence, saves, and prints the sentence. Obsidian keeps the text of the open page in memory,
writes the file in place, and saves `.obsidian/workspace.json` beside. When the open page changes on disk it merges the change into
its text, unless it saves in the moment before it notices: then its text is old.
"""

from __future__ import annotations

import json
import random
import sys
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

STAYS = 0.7
"""How often it goes on in the open page; otherwise it opens another one."""
NOTICES = 0.8
"""How often it has noticed that the open page changed on disk."""
NEW = 0.1
"""How often it makes a new note instead."""
LARGEST = 4_000


@dataclass
class Vault:
    """The vault with the page that is open."""

    folder: Path
    draw: random.Random
    page: Path | None = None
    text: str = ""
    typed: int = 0

    def type(self) -> str:
        """Type a sentence, save, and return the sentence."""
        self.typed += 1
        if self.draw.random() < NEW:
            self.page, self.text = self.folder / f"daily/note-{self.typed:03}.md", f"# Note {self.typed}\n"
        elif self.page is None or not self.page.exists() or self.draw.random() > STAYS:
            self.page = self.draw.choice(small_pages(self.folder))
            self.text = self.page.read_text(encoding="utf-8")
        elif self._notices(now := self.page.read_text(encoding="utf-8")):
            self.text = now
        sentence = f"obsidian {self.typed:04} {self.draw.randrange(16**8):08x}"
        self.text = f"{self.text.rstrip()}\n\n{sentence}\n"
        self.page.parent.mkdir(parents=True, exist_ok=True)
        self.page.write_text(self.text, encoding="utf-8")
        opened = {"lastOpenFiles": [self.page.relative_to(self.folder).as_posix()]}
        (self.folder / ".obsidian/workspace.json").write_text(json.dumps(opened), encoding="utf-8")
        return sentence

    def _notices(self, now: str) -> bool:
        """Return whether it merges the page as it is on disk. All that a pull brought it has noticed: nobody types meanwhile."""
        brought = [line for line in now.splitlines() if line.startswith("colleague ") and line not in self.text]
        return bool(brought) or self.draw.random() < NOTICES


def small_pages(folder: Path) -> list[Path]:
    """Return the pages that a few sentences more do not make long."""
    found = []
    for path in sorted(folder.rglob("*.md")):
        # Git removes a page for a moment to replace it.
        with suppress(FileNotFoundError):
            if ".git" not in path.parts and path.stat().st_size < LARGEST:
                found.append(path)
    return found


def main(folder: Path, seed: int) -> None:
    vault = Vault(folder, random.Random(seed))  # noqa: S311 - its habits are to be the same another time, and no secret
    for _ in sys.stdin:
        sys.stdout.write(vault.type() + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]))
