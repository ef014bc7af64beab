"""The port to the files of a team's agents and skills. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from knowledge.pages.paths import AGENTS_FOLDER, SKILLS_FOLDER

FOLDER, SKILLS = AGENTS_FOLDER, SKILLS_FOLDER
FOLDERS = (FOLDER, SKILLS)
SUFFIXES = (".yaml", ".yml", ".json", ".md")
MOST_FILES = 500


@dataclass(frozen=True, slots=True)
class ListedFile:
    """A file in a folder's listing. The `stamp` changes with the file; `path` is relative to the knowledge base."""

    path: str
    size_bytes: int
    stamp: str


class AgentFiles(Protocol):
    """The files below `FOLDERS` with one of `SUFFIXES`, at any depth."""

    async def list(self) -> Sequence[ListedFile]:
        """Return at most `MOST_FILES` of each folder, by path; none of a missing folder.

        Raises:
            KnowledgeError, OSError: they cannot be listed now.
        """
        ...

    async def read(self, path: str) -> bytes:
        """Return the file's bytes.

        Raises:
            KnowledgeError, OSError: it cannot be read now, or no longer exists.
        """
        ...
