"""A person's text in a file of its own, which stays until the text is in the page, and the editor that they write it with."""

from __future__ import annotations

import secrets
from dataclasses import dataclass
from pathlib import Path

from knowledge.errors import KnowledgeError
from knowledge.state.locations import DRAFTS_FOLDER as FOLDER
from mcp_server.cli.terminal.editor import open_in_editor


class TextLost(KnowledgeError):
    """The file in which the person wrote has no text any more. Nothing was written."""


@dataclass(frozen=True, slots=True)
class Draft:
    """The file with the text."""

    file: Path

    @classmethod
    def made(cls, state_dir: Path, page: str, text: str) -> Draft:
        """Make a file for a text of this page, which only its owner can read."""
        folder = state_dir / FOLDER
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        # An editor chooses its colours by the name.
        name = "".join(c if c.isalnum() or c in "._-" else "-" for c in Path(page).name)[-100:]
        draft = cls(folder / f"{secrets.token_hex(4)}-{name}")
        draft.file.touch(mode=0o600)
        draft.write(text)
        return draft

    def write(self, text: str) -> None:
        """Replace the text."""
        self.file.write_bytes(text.encode())

    def read(self) -> str:
        """Return the text.

        Raises:
            TextLost: the editor removed the file, or what it wrote is not UTF-8.
        """
        try:
            return self.file.read_bytes().decode()
        except FileNotFoundError:
            raise TextLost(f"nothing was written: the editor removed {self.file}") from None
        except UnicodeDecodeError:
            raise TextLost(f"nothing was written: the text is not UTF-8; it is kept in {self.file}") from None

    def drop(self) -> None:
        """Remove the file, because the text is in the page or is not wanted."""
        self.file.unlink(missing_ok=True)

    def edited(self) -> str:
        """Return the text after the person has changed it in their editor.

        Raises:
            WronglyAsked: the editor could not be started, or ended with an error; the file stays.
            TextLost: the editor left no text.
        """
        open_in_editor(self.file, kept=f"nothing was written; the text is kept in {self.file}")
        return self.read()
