"""The files of a team's agents and skills, as the knowledge base has them."""

from __future__ import annotations

import os
import stat
import time
from collections.abc import Iterator, Sequence
from functools import partial

import anyio

from agents.catalogue import BuiltIn
from agents.spec.catalogue import TeamCatalogue
from agents.spec.files import FOLDERS, MOST_FILES, SUFFIXES, ListedFile
from knowledge.pages.paths import is_hidden
from knowledge.pages.vault import Vault, stamp_of
from mcp_server.toolsets.registry import declared

DEEPEST = 4
"""How many levels of folders below `_agents/` and `_skills/` are read."""


class VaultFiles:
    """The real files below the real folders `_agents/` and `_skills/`.

    A link is listed by name but not read: otherwise anyone who may edit its target could change the server's
    configuration.
    """

    def __init__(self, vault: Vault) -> None:
        self._vault = vault

    async def list(self) -> Sequence[ListedFile]:
        """Return the files of agents and skills, by path; a missing folder has none."""
        return await anyio.to_thread.run_sync(self._listed)

    async def read(self, path: str) -> bytes:
        """Return the content of the file."""
        return (await anyio.to_thread.run_sync(partial(self._vault.read, path, plain=True))).raw

    def _listed(self) -> Sequence[ListedFile]:
        found = [entry for folder in FOLDERS for entry in self._in(folder)[:MOST_FILES]]
        if not found:
            self._vault.check()  # a knowledge base that cannot be reached must not look like one without agents
        return sorted(found, key=lambda entry: entry.path)

    def _in(self, name: str) -> Sequence[ListedFile]:
        folder = self._vault.root / name
        if not folder.exists():
            return ()
        found = []
        for path in self._below(str(folder), name, 0) if self._vault.is_plain(name) else [name]:
            status = self._status(path)
            if status is not None and self._shows(path, status):
                stamp = stamp_of(status)
                found.append(ListedFile(path, stamp.size, f"{stamp.size}-{stamp.mtime_ns}-{stamp.inode}"))
        return sorted(found, key=lambda entry: entry.path)

    def _below(self, folder: str, path: str, depth: int) -> Iterator[str]:
        with os.scandir(folder) as entries:
            for entry in sorted(entries, key=lambda e: e.name)[: 2 * MOST_FILES]:
                if is_hidden(entry.name):
                    continue
                inside = f"{path}/{entry.name}"
                if entry.is_dir(follow_symlinks=False):
                    if depth < DEEPEST:
                        yield from self._below(entry.path, inside, depth + 1)
                elif entry.name.endswith(SUFFIXES):
                    yield inside

    def _shows(self, path: str, status: os.stat_result) -> bool:
        """Return whether the vault has the file. The vault of a caller with limited rights has only files that the caller may read."""
        if stat.S_ISLNK(status.st_mode):
            return not self._vault.is_plain(path)
        return not stat.S_ISREG(status.st_mode) or self._vault.file_stamp(path) is not None

    def _status(self, path: str) -> os.stat_result | None:
        """Return the status of the file at the path, without following a link; None if it is gone."""
        try:
            return os.lstat(self._vault.root / path)
        except OSError:
            return None


def team_catalogue(vault: Vault) -> TeamCatalogue:
    """Return the built-in agents and those of this knowledge base's team."""
    tools = [spec.name for spec in declared()]
    return TeamCatalogue(BuiltIn(), VaultFiles(vault), tools, clock=time.monotonic)
