"""Reads a "Markdown & CSV" export of Notion: an archive, with archives inside for large ones, or the unpacked folder.

Every name ends in the id of its page, 32 hexadecimal digits; links are percent-encoded relative paths with these names. A
database is a CSV file, a second one ending in `_all` if its view hides rows, and a folder with a page for each row.
"""

from __future__ import annotations

import csv
import io
import re
import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from knowledge.pages.paths import is_markdown, parent
from mcp_server.imports.model import BadSource, Incoming, IncomingFile, IncomingPage, LostLink, SkippedItem
from mcp_server.imports.names.page_names import FreePaths, usable_path
from mcp_server.imports.names.relink import Relinker
from mcp_server.imports.readers.source_tree import SourceTree
from mcp_server.imports.readers.written_page import front_matter, heading, one_line

KIND = "notion"
NAME = "workspace"
"""Ids are unique in all of Notion, so every export counts as the same source."""
MOST_CELLS = 200_000
_ID = re.compile(r"[ -]([0-9a-f]{32})$")
_EXPORT_FOLDER = re.compile(r"(?:Export-[0-9a-f-]{36}(?:-Part-\d+)?/)+")
_WEB_LINK = re.compile(r"\]\((https://(?:www\.)?notion\.(?:so|site)/[^\s()<>]*?([0-9a-f]{32})[^\s()<>]*)\)")
_HTML = (".html", ".htm")


@dataclass(frozen=True, slots=True)
class _Database:
    """The files of a database: its rows, and the page with the same id if it has one."""

    path: str
    rows: str
    page: str | None


def read_notion(tree: SourceTree) -> Incoming:
    """Return the pages, databases and attachments of an export.

    Raises:
        BadSource: it has no page, for example because it is an export as HTML.
    """
    skipped = list(tree.skipped)
    files = [path for path in tree.files if not _is_left_out(path, skipped)]
    notes = {_id_or_path(path): path for path in files if is_markdown(path)}
    databases = [*_databases(files, notes)]
    if not notes and not databases:
        hint = "it is an export as HTML: export it as Markdown & CSV, or import it as html"
        raise BadSource(
            f"{tree.name} has no page; {hint if any(map(_is_html, tree.files)) else 'is it an export of Notion?'}"
        )
    data = {one.rows for one in databases} | {path for path in files if path.endswith(".csv") and _id_in(path)}
    attachments = [path for path in files if not is_markdown(path) and path not in data]
    # Shorter paths first, so that of two pages with one name the upper one keeps it.
    own = sorted(
        [*notes.values(), *(one.path for one in databases if one.page is None), *attachments],
        key=lambda path: (path.count("/"), path),
    )
    free = FreePaths()
    places = {path: free.free(usable_path(_place(path)), _place(path)) for path in own}
    for one in databases:
        home = places[one.page or one.path]
        # Links lead to either of the CSV files, or to a page of the database's name that is not in the export.
        places |= dict.fromkeys((one.path, one.rows, f"{one.path.removesuffix('.csv')}.md"), home)
    ids = {found: path for path in places if (found := _id_in(path))}
    relinker = Relinker(places, {}, other=lambda _page, link: ids.get(_id_in(link.path) or ""))
    pages = list(_pages(_Export(tree, notes, databases, ids), relinker, skipped))
    kept = [
        IncomingFile(
            f"{KIND}:{_without_export(path)}", places[path], tree.files[path].size, partial(tree.attachment, path)
        )
        for path in attachments
    ]
    return Incoming(KIND, NAME, pages, kept, skipped, relinker.rewritten, relinker.lost, free.renamed)


@dataclass(frozen=True, slots=True)
class _Export:
    """An export that is sorted into pages by their ids, and databases; `ids` gives the file of each id."""

    tree: SourceTree
    notes: Mapping[str, str]
    databases: Sequence[_Database]
    ids: Mapping[str, str]


def _pages(export: _Export, relinker: Relinker, skipped: list[SkippedItem]) -> Iterator[IncomingPage]:
    tree, notes, databases, ids = export.tree, export.notes, export.databases, export.ids
    tables = {one.page: one for one in databases if one.page is not None}
    texts = [(key, path, tables.get(path)) for key, path in notes.items()]
    texts += [(_id_or_path(one.path), one.path, one) for one in databases if one.page is None]
    for key, path, database in texts:
        try:
            text = tree.page(path).decode("utf-8-sig", "replace") if is_markdown(path) else heading(_title(path)) + "\n"
            if database is not None:
                text = f"{text.rstrip()}\n\n{_table(tree, database)}"
        except BadSource as error:
            skipped.append(SkippedItem(path, str(error)))
            continue
        text = relinker.text(path, _local_links(text, ids))
        relinker.lost += [LostLink(relinker.places[path], found[1]) for found in _WEB_LINK.finditer(text)]
        if not text.endswith("\n"):
            text += "\n"
        # A page that has front matter keeps it as it is; its origin is in the audit all the same.
        if not text.startswith("---"):
            text = f"{front_matter({'source': f'{KIND}:{key}'})}\n{text}"
        yield IncomingPage(f"{KIND}:{key}", relinker.places[path], text.encode("utf-8", "replace"))


def _databases(files: Sequence[str], notes: Mapping[str, str]) -> Iterator[_Database]:
    there = set(files)
    for path in files:
        if path.endswith(".csv") and not path.endswith("_all.csv") and (found := _id_in(path)):
            every = f"{path.removesuffix('.csv')}_all.csv"
            yield _Database(path, every if every in there else path, notes.get(found))


def _table(tree: SourceTree, database: _Database) -> str:
    """Return the rows as a table; the first column links to the page of each row, if it has one."""
    try:
        text = tree.page(database.rows).decode("utf-8-sig", "replace")
        rows = [row for row in csv.reader(io.StringIO(text), strict=False) if row]
    except csv.Error as error:
        raise BadSource(f"its rows can't be read: {error}") from error
    if not rows:
        return ""
    if sum(map(len, rows)) > MOST_CELLS:
        raise BadSource(f"it has more than {MOST_CELLS:,} cells")
    folder = database.path.removesuffix(".csv")
    pages: dict[str, list[str]] = {}
    for path in tree.files:
        if is_markdown(path) and parent(path) == folder:
            pages.setdefault(_row_key(_title(path)), []).append(path)
    width = max(map(len, rows))
    lines = [_line(rows[0], width), "|" + " --- |" * width]
    for row in rows[1:]:
        # Several rows may have one name, and nothing tells which page is whose.
        found = pages.get(_row_key(row[0]), ())
        first = _row_link(row[0], found[0], database.path) if len(found) == 1 else _cell(row[0])
        lines.append(f"| {first} {_line(row[1:], width - 1)}")
    return "\n".join(lines) + "\n"


def _row_link(words: str, path: str, database: str) -> str:
    above = parent(database)
    return f"[{_cell(words)}](<{path[len(above) + 1 :] if above else path}>)"


def _line(cells: Sequence[str], width: int) -> str:
    return "|" + "".join(f" {_cell(cell)} |" for cell in [*cells, *[""] * (width - len(cells))])


def _cell(text: str) -> str:
    escaped = text.strip().replace("\\", "\\\\").replace("|", "\\|").replace("[", "\\[").replace("<", "\\<")
    return "<br>".join(one_line(line) for line in escaped.splitlines())


def _row_key(name: str) -> str:
    """Return what a row's name shares with that of its page's file: Notion shortens file names and leaves characters out."""
    return "".join(char for char in unicodedata.normalize("NFC", name).casefold() if char.isalnum())[:40]


def _local_links(text: str, ids: Mapping[str, str]) -> str:
    """Return the text with links to pages on notion.so that are in the export as links to their files."""
    return _WEB_LINK.sub(lambda found: f"](</{ids[found[2]]}>)" if found[2] in ids else found[0], text)


def _is_left_out(path: str, skipped: list[SkippedItem]) -> bool:
    if _is_html(path):
        if path.rpartition("/")[2] != "index.html":
            skipped.append(SkippedItem(path, "it is a page as HTML; export the workspace as Markdown & CSV"))
        return True
    return any(part.startswith(".") for part in path.split("/"))


def _is_html(path: str) -> bool:
    return path.lower().endswith(_HTML)


def _id_in(path: str) -> str | None:
    """Return the id at the end of a file's name."""
    name = path.rpartition("/")[2]
    stem = name.rpartition(".")[0].removesuffix("_all")
    found = _ID.search(stem)
    return found[1] if found else None


def _id_or_path(path: str) -> str:
    return _id_in(path) or _without_export(path)


def _without_export(path: str) -> str:
    found = _EXPORT_FOLDER.match(path)
    return path[found.end() :] if found else path


def _title(path: str) -> str:
    name = path.rpartition("/")[2]
    return _ID.sub("", name.rpartition(".")[0].removesuffix("_all")) or name


def _place(path: str) -> str:
    """Return the path without ids; a database becomes a page."""
    parts = []
    for part in _without_export(path).split("/"):
        stem, dot, suffix = part.rpartition(".")
        if dot and _ID.search(stem):
            parts.append(f"{_ID.sub('', stem)}.{suffix}")
        else:
            parts.append(_ID.sub("", part))
    clean = "/".join(parts)
    return f"{clean.removesuffix('.csv')}.md" if clean.endswith(".csv") and _id_in(path) else clean
