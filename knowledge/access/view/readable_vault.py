"""The files of a knowledge base as one caller may read them: a hidden page does not exist."""

from __future__ import annotations

import copy
from collections.abc import Collection, Iterator

from knowledge.access.rules import NoRightThere, PathAccess
from knowledge.errors import InvalidPath, KnowledgeError, NoSuchPath
from knowledge.pages.obsidian.vault_settings import VaultSettings
from knowledge.pages.paths import clean_path
from knowledge.pages.vault import DirectoryListing, FileRead, Scanned, Vault, VaultProblem
from knowledge.state.ports import Stamp


class ReadableVault(Vault):
    """A vault in which only readable pages and the folders that lead to them exist.

    A link to a hidden page is hidden too.
    """

    def __init__(self, vault: Vault, access: PathAccess) -> None:
        # A copy, because a vault keeps the problems of its last scan.
        self._inner, self._access = copy.copy(vault), access
        self._root, self.root = str(vault.root), vault.root

    @property
    def problems(self) -> tuple[VaultProblem, ...]:
        """The files and folders that the last scan left out, without those that are hidden."""
        return tuple(problem for problem in self._inner.problems if self._access.may_read(problem.path))

    @property
    def problem_count(self) -> int:  # type: ignore[override]  # counted from the readable ones
        """The number of these problems."""
        return len(self.problems)

    def check(self) -> None:
        """Check that the folder can be used now."""
        self._inner.check()

    def identity(self) -> tuple[int, int]:
        """Return device and inode of the folder."""
        return self._inner.identity()

    def read(self, path: str, *, plain: bool = False) -> FileRead:
        """Return the document; a hidden one does not exist."""
        self._require(clean_path(path))
        return self._inner.read(path, plain=plain)

    def is_plain(self, path: str) -> bool:
        """Return whether neither `path` nor any folder above it is a link; true where nothing may be seen."""
        return not self._access.may_read(path) or self._inner.is_plain(path)

    def resolve(self, path: str) -> str:
        """Return the real path of the file or directory."""
        cleaned = clean_path(path)
        if not cleaned:
            return cleaned
        if self._access.may_read(cleaned):
            real = self._inner.resolve(cleaned)
        elif self._leads_somewhere(cleaned):
            return cleaned
        else:
            raise NoSuchPath(path)
        if not self._access.may_read(real):
            raise NoSuchPath(path)
        return real

    def exists(self, path: str) -> bool:
        """Return whether a readable file, or a directory that leads to one, is at `path` now."""
        if self._access.may_read(path):
            return self._inner.exists(path) and self._is_readable(path)
        return self._leads_somewhere(path)

    def resolve_new(self, path: str) -> str:
        """Return the real path that a file at `path` would have.

        Raises:
            NoRightThere: the file would be hidden from the caller that makes it.
        """
        if not self._access.may_read(path):
            raise NoRightThere(path)
        real = self._inner.resolve_new(path)
        if not self._access.may_read(real):
            raise NoRightThere(path)
        return real

    def list_dir(self, path: str) -> DirectoryListing:
        """Return the readable documents in `path`, and the subdirectories that are readable or lead to a readable one."""
        cleaned = clean_path(path)
        if cleaned and not self.exists(cleaned):
            raise NoSuchPath(path)
        listed = self._inner.list_dir(cleaned)
        below = f"{self._inner.resolve(cleaned)}/".lstrip("/")
        folders = tuple(name for name in listed.directories if self._shows(below + name))
        return DirectoryListing(folders, tuple(name for name in listed.documents if self._is_readable(below + name)))

    def has_directory(self, path: str) -> bool:
        """Return whether `list_dir` would list `path` now."""
        cleaned = clean_path(path)
        return (not cleaned or self.exists(cleaned)) and self._inner.has_directory(cleaned)

    def find(self, path: str) -> Scanned | None:
        """Return the document at `path` if a scan would find one there now."""
        return self._inner.find(path) if self._is_readable(path) else None

    def files(self, paths: Collection[str]) -> frozenset[str]:
        """Return those of the paths at which there is a readable file now."""
        return frozenset(path for path in self._inner.files(self._access.filter(paths)) if self._is_readable(path))

    def scan(self, below: str = "") -> Iterator[Scanned]:
        """Yield every readable document below the directory `below`."""
        for found in self._inner.scan(below):
            if self._is_readable(found.path):
                yield found

    def file_paths(self) -> Iterator[str]:
        """Yield the path of every readable file."""
        return (path for path in self._inner.file_paths() if self._access.may_read(path))

    def file_stamp(self, path: str) -> Stamp | None:
        """Return the stamp of the file at exactly that path."""
        return self._inner.file_stamp(path) if self._access.may_read(path) else None

    def is_obsidian(self) -> bool:
        """Return whether Obsidian keeps its settings here."""
        return self._inner.is_obsidian()

    def obsidian_settings(self) -> VaultSettings:
        """Return Obsidian's settings."""
        return self._inner.obsidian_settings()

    def _require(self, path: str) -> None:
        if not self._access.may_read(path):
            raise NoSuchPath(path)
        try:
            real = self._inner.resolve(path)
        except (InvalidPath, NoSuchPath):
            return  # reading says what is wrong
        if not self._access.may_read(real):
            raise NoSuchPath(path)

    def _is_readable(self, path: str) -> bool:
        """Return whether the page may be read and, if it is a link, its target too."""
        if not self._access.may_read(path):
            return False
        if self._inner.is_plain(path):
            return True
        try:
            return self._access.may_read(self._inner.resolve(path))
        except (InvalidPath, NoSuchPath):
            return True

    def _shows(self, folder: str) -> bool:
        return self._access.may_read(folder) or self._leads_somewhere(folder)

    def _leads_somewhere(self, folder: str) -> bool:
        """Return whether a hidden folder has a readable one below it, so that it is a step on the way there."""
        if not self._access.may_enter(folder):
            return False
        try:
            below = self._inner.list_dir(folder)
        except KnowledgeError:
            return False
        pages = any(self._is_readable(f"{folder}/{name}") for name in below.documents)
        return pages or any(self._shows(f"{folder}/{name}") for name in below.directories)
