"""Carries an import out: each page is one act of the writer, and each attachment a new file, all on record under one id."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime

import anyio.to_thread

from knowledge.errors import KnowledgeError, StoredFileChanged
from knowledge.history.acts import IMPORT, IMPORT_ATTACHMENT, IMPORT_FINISHED, IMPORT_TOOL
from knowledge.history.ports import Actor, HistoryEntry
from knowledge.stored_pages.copy import PagesCopy
from knowledge.writing.files.exchange import temporary_name
from knowledge.writing.files.file_set import FileSet, name_digest, named_errors, require_nameable
from mcp_server.imports.model import BadSource, IncomingFile, SkippedItem
from mcp_server.imports.plan import Importing, ImportPlan, OnPage, PlannedFile, PlannedPage


@dataclass(frozen=True, slots=True)
class Imported:
    """What an import did: the number of pages by status, the attachments, and what failed although it was planned."""

    id: str
    pages: Mapping[str, int]
    attachments: int
    failed: list[SkippedItem] = field(default_factory=list)


async def carry_out(importing: Importing, plan: ImportPlan, now: Callable[[], datetime], on_page: OnPage) -> Imported:
    """Write everything that the plan writes, in its order. Interrupted, it can be run again and continues."""
    pages = [one for one in plan.pages if one.write is not None]
    files = [one for one in plan.files if one.status == "new"]
    counts, attachments, failed = Counter[str](), 0, list[SkippedItem]()
    for number, page in enumerate(pages, 1):
        counts[await _write(importing, page, failed)] += 1
        on_page(number, len(pages) + len(files))
    for number, file in enumerate(files, 1):
        attachments += await _copy(importing, plan.id, file, now(), failed)
        on_page(len(pages) + number, len(pages) + len(files))
    del counts[""]
    source = f"{plan.incoming.kind}:{plan.incoming.name}"
    told = ", ".join(f"{count} {status}" for status, count in sorted(counts.items())) or "nothing new"
    # Ends the import: without this record, the next run would continue it.
    if counts or attachments:
        intent = f"{IMPORT_FINISHED} {plan.id}: {told}, {attachments} attachments"
        await importing.ledger.commit(_entry(importing, plan.id, now(), source, intent=intent))
    return Imported(plan.id, dict(counts), attachments, failed)


async def _write(importing: Importing, page: PlannedPage, failed: list[SkippedItem]) -> str:
    """Write one page and return what happened to it; "" if it failed, which is noted."""
    if page.write is None:
        raise ValueError("the page is not to be written")
    try:
        answer = await importing.writer.take_in(page.write)
    except KnowledgeError as error:
        failed.append(SkippedItem(page.path, str(error)))
        return ""
    # Somebody edited the page after the rehearsal: what was shown is no longer what would be written.
    if not answer.writes and answer.status != "same":
        failed.append(SkippedItem(page.path, answer.note or "the page has changed since"))
        return ""
    return answer.status


async def _copy(importing: Importing, id_: str, file: PlannedFile, at: datetime, failed: list[SkippedItem]) -> bool:
    try:
        if importing.copy is None:
            digest = await anyio.to_thread.run_sync(_write_file, importing, file.file, file.path)
        else:
            digest = await _store_file(importing.copy, file.file, file.path, at)
    except KnowledgeError as error:
        failed.append(SkippedItem(file.path, str(error)))
        return False
    entry = _entry(importing, id_, at, file.file.origin, intent=f"{IMPORT_ATTACHMENT}{file.path}", digest=digest)
    # After the file: if the process dies in between, the next run finds the same file there.
    await importing.ledger.commit(entry)
    return True


def _write_file(importing: Importing, file: IncomingFile, path: str) -> str:
    """Write a new file and return its SHA-256. Nothing that is there is replaced."""
    require_nameable(path)
    raw = file.read()
    above, _, name = path.rpartition("/")
    staged = temporary_name(name_digest(name))
    with named_errors(path), FileSet(importing.vault).folder(above, create=True) as folder:
        try:
            folder.stage(staged, raw, None)
            folder.publish(staged, name)
            folder.sync()
        except FileExistsError as error:
            raise BadSource("another file has been put there meanwhile") from error
        finally:
            folder.unlink(staged)
    return hashlib.sha256(raw).hexdigest()


async def _store_file(copy: PagesCopy, file: IncomingFile, path: str, at: datetime) -> str:
    """Put a new file into the database and return its SHA-256. Nothing that is there is replaced."""
    require_nameable(path)
    raw = await anyio.to_thread.run_sync(file.read)
    try:
        await copy.add(path, raw, at=at)
    except StoredFileChanged as error:
        raise BadSource("another file has been put there meanwhile") from error
    return hashlib.sha256(raw).hexdigest()


def _entry(importing: Importing, id_: str, at: datetime, source: str, *, intent: str, digest: str = "") -> HistoryEntry:
    actor = Actor(
        importing.principal, IMPORT_TOOL, digest or hashlib.sha256(id_.encode()).hexdigest(), f"{IMPORT}{id_}"
    )
    return HistoryEntry(at, actor, source=source, intent=intent)
