"""Takes what people edit in this machine's copy of the stored pages to the database."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence

import anyio

from knowledge.errors import KnowledgeError, StorageError, VaultUnavailable
from knowledge.pages.obsidian.canvas import is_canvas
from knowledge.pages.paths import is_markdown
from knowledge.stored_pages.acts import StoredPageActs
from knowledge.stored_pages.copy import CopyEdit, PagesCopy

BACK_S = 0.2
"""A file that is missing for this long was removed: some editors remove a file for a moment to save it."""

log = logging.getLogger(__name__)


class CopyEdits:
    """The edits in one machine's copy. One process of a machine at a time should take them; more only wait for each other."""

    def __init__(self, copy: PagesCopy, acts: StoredPageActs) -> None:
        self._copy, self._acts = copy, acts
        self._failed: dict[str, str] = {}

    @property
    def failed(self) -> Mapping[str, str]:
        """The files that could not be taken, by path, and why."""
        return dict(self._failed)

    async def take(self) -> Sequence[str]:
        """Take every edit; return the paths of those that were taken. One that can't be taken is logged, and stays in the copy.

        Raises:
            StorageError, VaultUnavailable: the database or the folder can't be used.
        """
        await self._copy.catch_up()
        paths = await self._copy.edited()
        if not paths:
            return ()
        await anyio.sleep(BACK_S)
        edits = [edit for path in paths if (edit := await self._edit_of(path)) is not None]
        taken = []
        # Before the other edits: as a page that went and another one that came, it would lose its history.
        for old, new in _moves(edits).items():
            if await self._acts.follow_move(old, new):
                taken += [old, new]
        for edit in edits:
            if edit.path not in taken and await self._take(edit.path):
                taken.append(edit.path)
        return taken

    async def _edit_of(self, path: str) -> CopyEdit | None:
        try:
            return await self._copy.edit_of(path)
        except KnowledgeError as error:
            self._note(path, error)
            return None

    async def _take(self, path: str) -> bool:
        try:
            if is_markdown(path) or is_canvas(path):
                await self._acts.note_outside(path)
            else:
                await self._acts.take_file(path)
        except (StorageError, VaultUnavailable):
            raise
        except KnowledgeError as error:
            self._note(path, error)
            return False
        self._failed.pop(path, None)
        return True

    def _note(self, path: str, error: KnowledgeError) -> None:
        if self._failed.get(path) != str(error):
            log.warning("an edit in this machine's copy is not in the database: %s", error)
        self._failed[path] = str(error)


def _moves(edits: Sequence[CopyEdit]) -> Mapping[str, str]:
    """Return the new paths of pages that somebody moved: one page is gone, and one new page has exactly its bytes."""
    gone: dict[bytes, list[str]] = {}
    come: dict[bytes, list[str]] = {}
    for edit in edits:
        if edit.raw is None and edit.base is not None and is_markdown(edit.path):
            gone.setdefault(edit.base, []).append(edit.path)
        elif edit.base is None and edit.digest is not None and is_markdown(edit.path):
            come.setdefault(edit.digest, []).append(edit.path)
    return {old[0]: come[digest][0] for digest, old in gone.items() if len(old) == 1 and len(come.get(digest, ())) == 1}
