"""Reads our own exports back: a folder with its manifest, and a file of JSON lines."""

from __future__ import annotations

import base64
import binascii
import hashlib
import json
from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import IO, Any

from knowledge.pages.paths import is_markdown
from mcp_server.exports.claims import BadExport, origins_in
from mcp_server.exports.copies import FOLDER_FORM, FORM_VERSION, PAGES_FORM
from mcp_server.exports.destination import LONGEST_LINE, manifest_in
from mcp_server.imports.model import BadSource, Incoming, IncomingFile, IncomingPage, SkippedItem
from mcp_server.imports.names.page_names import is_usable
from mcp_server.imports.readers.source_tree import SourceTree

NAME = "export"
"""Every export of a knowledge base counts as the same source, so that a later one updates what an earlier one brought."""
BAD_NAME = "a new page can't have that path"


def read_folder(place: Path, tree: SourceTree) -> Incoming:
    """Return the pages and attachments of an exported folder, whose files are in `tree`.

    Files that were changed or added since the export are taken as they are; their claims come from the export.

    Raises:
        BadSource: it is not an exported folder.
    """
    try:
        lines = manifest_in(place)
        _require_form(next(lines, {}), FOLDER_FORM)
        claims = {str(line.get("path")): origins_in(line["claims"]) for line in lines if "claims" in line}
    except (OSError, ValueError, BadExport) as error:
        raise BadSource(f"{place} is not a folder that `export folder` wrote: {error}") from error
    pages: list[IncomingPage] = []
    files: list[IncomingFile] = []
    skipped = [one for one in tree.skipped if not one.name.startswith(".")]
    for path, file in tree.files.items():
        if path.rpartition("/")[2].startswith("."):
            continue
        origin = f"export:{path}"
        if not is_usable(path):
            skipped.append(SkippedItem(path, BAD_NAME))
        elif is_markdown(path):
            try:
                pages.append(IncomingPage(origin, path, tree.page(path), claims.get(path, ())))
            except BadSource as error:
                skipped.append(SkippedItem(path, str(error)))
        else:
            files.append(IncomingFile(origin, path, file.size, partial(SourceTree.attachment, tree, path)))
    return Incoming("folder", NAME, pages, files, skipped)


def read_pages(place: Path) -> Incoming:
    """Return the pages in a file that `export jsonl` wrote.

    Raises:
        BadSource: it is not such a file; the message names the line.
    """
    pages: list[IncomingPage] = []
    skipped: list[SkippedItem] = []
    seen: set[str] = set()
    try:
        with place.open("rb") as file:
            for number, value in _objects(file):
                if number == 1:
                    _require_form(value, PAGES_FORM)
                    continue
                page = _page(value, number)
                if page.path in seen:
                    skipped.append(SkippedItem(page.path, f"line {number} has the same path as an earlier one"))
                elif not is_usable(page.path) or not is_markdown(page.path):
                    skipped.append(SkippedItem(page.path, BAD_NAME))
                else:
                    pages.append(page)
                seen.add(page.path)
    except OSError as error:
        raise BadSource(f"{place} can't be read: {error.strerror or error}") from error
    except BadExport as error:
        raise BadSource(f"{place} is not a file that `export jsonl` wrote: {error}") from error
    return Incoming("jsonl", NAME, pages, (), skipped)


def _objects(file: IO[bytes]) -> Iterator[tuple[int, Mapping[str, Any]]]:
    number = 0
    for number, line in enumerate(iter(partial(file.readline, LONGEST_LINE), b""), 1):
        try:
            value = json.loads(line)
        except (ValueError, RecursionError) as error:
            raise BadExport(f"line {number} is not JSON") from error
        if not isinstance(value, dict):
            raise BadExport(f"line {number} is not an object")
        yield number, value
    if not number:
        raise BadExport("it is empty")


def _page(value: Mapping[str, Any], number: int) -> IncomingPage:
    path, text, coded = value.get("path"), value.get("text"), value.get("base64")
    if not isinstance(path, str) or not isinstance(text if coded is None else coded, str):
        raise BadExport(f"line {number} has no `path`, or neither `text` nor `base64`")
    try:
        raw = text.encode() if coded is None and isinstance(text, str) else base64.b64decode(str(coded), validate=True)
        origins = origins_in(value.get("claims", []))
    except (UnicodeEncodeError, binascii.Error) as error:
        raise BadExport(f"line {number} has a text that can't be written: {error}") from error
    except BadExport as error:
        raise BadExport(f"line {number}: {error}") from error
    if "sha256" in value and value["sha256"] != hashlib.sha256(raw).hexdigest():
        raise BadExport(
            f"the text in line {number} is not the one that was exported; remove `sha256` from the line if you changed it"
        )
    return IncomingPage(f"export:{path}", path, raw, origins)


def _require_form(head: Mapping[str, Any], form: str) -> None:
    if head.get("format") != form:
        raise BadExport(f"its first line does not name the format {form}")
    version = head.get("version")
    if not isinstance(version, int) or not 1 <= version <= FORM_VERSION:
        raise BadExport(f"it has version {version}, and this program reads {FORM_VERSION}; upgrade first")
