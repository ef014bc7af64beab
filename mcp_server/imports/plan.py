"""The rehearsal of an import: what would happen to each page and attachment. Changes nothing."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Literal

import anyio.to_thread

from knowledge.errors import KnowledgeError
from knowledge.history.acts import IMPORT, IMPORT_TOOL
from knowledge.history.ports import Actor, Ledger
from knowledge.pages.vault import LARGEST_BYTES, Vault, revision_of
from knowledge.stored_pages.copy import PagesCopy
from knowledge.writing.acts.import_act import ImportAnswer, ImportRequest
from knowledge.writing.files.file_set import FileSet, found_at
from knowledge.writing.related.target_page import in_configuring_folder
from knowledge.writing.undo.past_act import UNDO
from knowledge.writing.writer import WritePlan, Writer
from mcp_server.imports.earlier import EarlierImports, EarlierPage
from mcp_server.imports.model import BadSource, Incoming, IncomingFile, IncomingPage, SkippedItem

PageStatus = Literal["new", "changed", "same", "edited", "conflict", "skipped"]
CONFIGURES = "it would configure the server; --configuration imports it too"
IN_THE_WAY = "another page is there; --into FOLDER imports beside it"
IS_GONE = "it was removed here since the last import; restore it, or import the source into another folder"
UNMARKS = "{}; that needs a person's approval, so edit the page instead"
OTHER_FILE = "another file is there"
OnPage = Callable[[int, int], None]


@dataclass(frozen=True, slots=True)
class PlannedPage:
    """The fate of a page. `write` is None if it is not written; `reason` says why."""

    page: IncomingPage
    path: str
    status: PageStatus
    reason: str = ""
    answer: ImportAnswer | None = None
    write: WritePlan[ImportRequest, ImportAnswer] | None = None


@dataclass(frozen=True, slots=True)
class PlannedFile:
    """The fate of an attachment: `new`, `same` or `skipped`."""

    file: IncomingFile
    path: str
    status: Literal["new", "same", "skipped"]
    reason: str = ""


@dataclass(frozen=True, slots=True)
class ImportPlan:
    """What an import would do. `id` is that of its acts in the audit."""

    id: str
    incoming: Incoming
    pages: Sequence[PlannedPage]
    files: Sequence[PlannedFile]
    skipped: Sequence[SkippedItem]

    @property
    def writes(self) -> int:
        """The number of pages and attachments that would be written."""
        return sum(one.write is not None for one in self.pages) + sum(one.status == "new" for one in self.files)


@dataclass(frozen=True, slots=True)
class Importing:
    """Plans an import for a principal. `configuration` allows pages that configure the server.

    `copy` is this machine's copy of pages that are in the database, to which attachments go too.
    """

    vault: Vault
    ledger: Ledger
    writer: Writer
    principal: str
    at: datetime
    configuration: bool = False
    copy: PagesCopy | None = None

    async def plan(self, incoming: Incoming, earlier: EarlierImports, on_page: OnPage) -> ImportPlan:
        """Return what would happen to everything in the source."""
        total = len(incoming.pages) + len(incoming.files)
        pages: list[PlannedPage] = []
        for page in incoming.pages:
            pages.append(await self._page(page, earlier))
            on_page(len(pages), total)
        files: list[PlannedFile] = []
        for file in incoming.files:
            files.append(await anyio.to_thread.run_sync(self._file, file))
            on_page(len(pages) + len(files), total)
        return ImportPlan(earlier.id, incoming, pages, files, incoming.skipped)

    async def _page(self, page: IncomingPage, earlier: EarlierImports) -> PlannedPage:
        path, known = page.path, earlier.pages.get(page.origin)
        if len(page.raw) > LARGEST_BYTES:
            return PlannedPage(page, path, "skipped", f"it has more than {LARGEST_BYTES >> 20} MiB")
        if known is not None and self.vault.find(known.path) is None:
            if not await self._is_undone(known.path):
                return PlannedPage(page, known.path, "skipped", IS_GONE)
            # An import that was undone may be made again, while a page that somebody removed stays removed.
            known = None
        try:
            return await self._rehearsed(page, known.path if known else path, known, earlier.id)
        except KnowledgeError as error:
            return PlannedPage(page, path, "skipped", str(error))

    async def _rehearsed(self, page: IncomingPage, path: str, known: EarlierPage | None, id_: str) -> PlannedPage:
        path = await anyio.to_thread.run_sync(FileSet(self.vault).real, path)
        actor = Actor(self.principal, IMPORT_TOOL, hashlib.sha256(page.raw).hexdigest(), f"{IMPORT}{id_}")
        request = ImportRequest(
            actor,
            path,
            page.raw,
            page.origin,
            self.at,
            base=known.brought if known else None,
            origins=page.origins,
            intent=f"import {id_}",
        )
        write = await self.writer.plan_import(request)
        answer = write.answer
        if answer is None:
            raise TypeError("an import is always rehearsed")
        if answer.status == "taken":
            return PlannedPage(page, path, "skipped", IN_THE_WAY, answer)
        if not answer.writes:
            return PlannedPage(page, path, answer.status, answer.note, answer)
        if write.stakes.configures and not self.configuration:
            return PlannedPage(page, path, "skipped", CONFIGURES, answer)
        if write.stakes.unmarks:
            return PlannedPage(page, path, "skipped", UNMARKS.format("; ".join(write.stakes.unmarks)), answer)
        return PlannedPage(page, path, answer.status, answer.note, answer, write)

    async def _is_undone(self, path: str) -> bool:
        """Return whether the page is gone because its import was undone."""
        lines = await self.ledger.history(path, limit=1)
        return bool(lines) and lines[0].tool == UNDO

    def _file(self, file: IncomingFile) -> PlannedFile:
        path = file.path
        try:
            path = self.vault.resolve_new(path)
            if in_configuring_folder(path) and not self.configuration:
                return PlannedFile(file, path, "skipped", CONFIGURES)
            present = file_at(self.vault, path)
            if present is None:
                return PlannedFile(file, path, "new")
            # An attachment has no history to merge with, so one that differs is never replaced.
            same = revision_of(file.read()) == present
        except (KnowledgeError, BadSource) as error:
            return PlannedFile(file, path, "skipped", str(error))
        return PlannedFile(file, path, "same" if same else "skipped", "" if same else OTHER_FILE)


def file_at(vault: Vault, path: str) -> str | None:
    """Return the revision of the attachment that is at `path` now, None if nothing is there."""
    above, _, name = path.rpartition("/")
    try:
        folder = FileSet(vault).folder(above)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise BadSource(f"its folder can't be used: {error.strerror or error}") from error
    with folder:
        try:
            return found_at(folder, name, path).revision
        except OSError as error:
            raise BadSource(f"something else is there: {error.strerror or error}") from error
