"""Exports that hold the pages as they are: a folder byte for byte, and one file of JSON lines."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO

import anyio.to_thread

from knowledge.history.ports import Ledger
from knowledge.pages.vault import Vault
from knowledge.writing.files.exchange import Folder
from mcp_server.exports.destination import MANIFEST, FolderWriter, new_file, new_folder
from mcp_server.exports.records import claims_at, page_record
from mcp_server.exports.selection import LeftOut, PageCatalogue, Selection
from mcp_server.web.text.sanitize import escaped

FOLDER_FORM, PAGES_FORM = "knowledge-forge-folder", "knowledge-forge-pages"
FORM_VERSION = 1
"""The version of both forms. A reader refuses a larger one; new keys don't change it."""

OnPage = Callable[[int, int], None]
"""Called with the number of files that are written, and the number of all."""


@dataclass(frozen=True, slots=True)
class Exported:
    """What an export holds."""

    pages: int
    attachments: int
    size_bytes: int
    excluded: int
    left_out: Sequence[LeftOut]


@dataclass(frozen=True, slots=True)
class ExportSource:
    """What is exported: the files, the records about them, and the time that goes into the export."""

    vault: Vault
    ledger: Ledger
    selection: Selection
    made_at: str


def head_line(source: ExportSource, form: str) -> dict[str, object]:
    """Return the first line of an export: its form, and what it holds."""
    return {
        "format": form,
        "version": FORM_VERSION,
        "made_at": source.made_at,
        "pages": len(source.selection.pages),
        "attachments": len(source.selection.attachments) if form != PAGES_FORM else 0,
    }


async def export_folder(source: ExportSource, destination: Path, on_page: OnPage) -> Exported:
    """Write pages and attachments byte for byte, and a manifest with their digests and the origins of claims."""
    vault, selection = source.vault, source.selection
    total, size = len(selection.pages) + len(selection.attachments), 0
    # The manifest is written along with the files, so that only one page with its claims is in memory.
    with new_folder(destination, FOLDER_FORM, vault.root) as folder, (folder.root / MANIFEST).open("xb") as manifest:
        _write_line(manifest, head_line(source, FOLDER_FORM))
        for done, path in enumerate(selection.pages, 1):
            raw = (await anyio.to_thread.run_sync(vault.read, path)).raw
            digest = await anyio.to_thread.run_sync(folder.write, path, raw)
            claims = await claims_at(source.ledger, path, raw)
            line = {"kind": "page", "path": path, "sha256": digest, "size": len(raw), "claims": claims}
            _write_line(manifest, line)
            size += len(raw)
            on_page(done, total)
        for done, path in enumerate(selection.attachments, 1 + len(selection.pages)):
            digest, count = await anyio.to_thread.run_sync(copy_attachment, vault, path, folder)
            _write_line(manifest, {"kind": "attachment", "path": path, "sha256": digest, "size": count})
            size += count
            on_page(done, total)
    return Exported(len(selection.pages), len(selection.attachments), size, selection.excluded, selection.left_out)


async def export_pages(
    source: ExportSource, destination: Path | IO[bytes], on_page: OnPage, *, history: bool
) -> Exported:
    """Write one line of JSON for each page."""
    if isinstance(destination, Path):
        with new_file(destination, PAGES_FORM, source.vault.root) as file:
            return await export_pages(source, file, on_page, history=history)
    catalogue = await anyio.to_thread.run_sync(PageCatalogue.of, source.vault, source.selection)
    pages = source.selection.pages
    size = _write_line(destination, head_line(source, PAGES_FORM))
    for number, path in enumerate(pages, 1):
        record = await page_record(source.vault, source.ledger, path, catalogue, history=history)
        size += await anyio.to_thread.run_sync(_write_line, destination, record)
        on_page(number, len(pages))
    return Exported(len(pages), 0, size, source.selection.excluded, source.selection.left_out)


def copy_attachment(vault: Vault, path: str, folder: FolderWriter, to: str = "") -> tuple[str, int]:
    """Copy an attachment of the knowledge base without following links; return SHA-256 and size."""
    above, _, name = path.rpartition("/")
    with Folder.open(str(vault.root), above.split("/") if above else []) as opened:
        descriptor = opened.open_file(name)
        try:
            return folder.copy(to or path, descriptor)
        finally:
            os.close(descriptor)


def _write_line(file: IO[bytes], value: object) -> int:
    # Standard output may be a terminal, and no character of a page may act on it. The escapes are the same text in JSON.
    return file.write(escaped(json.dumps(value, ensure_ascii=False)).encode() + b"\n")
