"""Which files of a knowledge base an export holds, and what each page is called by links."""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from knowledge.pages.document import Document, parse
from knowledge.pages.links import LinkTargets, resolve_path
from knowledge.pages.own_pages import OwnPages
from knowledge.pages.paths import LONGEST_PATH, is_clean, is_hidden, is_markdown, without_suffix
from knowledge.pages.vault import Vault, printable
from knowledge.state.document_names import name_key
from knowledge.writing.files.exchange import is_temporary


@dataclass(frozen=True, slots=True)
class LeftOut:
    """A file that is not in the export, and why."""

    path: str
    reason: str


@dataclass(frozen=True, slots=True)
class Selection:
    """The pages and attachments of an export by path, sorted, and what was left out. Nothing in it is a link to elsewhere."""

    pages: Sequence[str]
    attachments: Sequence[str]
    left_out: Sequence[LeftOut]
    excluded: int
    """The number of pages and attachments that `exclude` leaves out."""


def select(vault: Vault, excluded: Sequence[str]) -> Selection:
    """Return what an export of the knowledge base holds; `excluded` are patterns from the settings.

    Pages are those that a scan finds. Attachments are the other regular files in folders that are not hidden.

    Raises:
        VaultUnavailable: the folder can't be read.
    """
    pages = sorted(found.path for found in vault.scan())
    left_out = [LeftOut(problem.path, problem.reason) for problem in vault.problems]
    attachments = sorted(_attachments(vault.root, left_out))
    own = OwnPages.of(vault, pages, excluded)
    kept_pages = [path for path in pages if not own.excludes(path)]
    kept_files = [path for path in attachments if not own.excludes(path)]
    count = len(pages) + len(attachments) - len(kept_pages) - len(kept_files)
    return Selection(kept_pages, kept_files, left_out, count)


def _attachments(root: Path, left_out: list[LeftOut]) -> Iterator[str]:
    for above, folders, names in os.walk(root):
        where = os.path.relpath(above, root).replace(os.sep, "/").removeprefix(".").removeprefix("/")
        # In place, so that `os.walk` does not enter the others.
        folders[:] = sorted(name for name in folders if not is_hidden(name))
        for name in sorted(names):
            path = f"{where}/{name}" if where else name
            if is_markdown(name) or is_hidden(name) or is_temporary(name):
                continue
            file = Path(above) / name
            if file.is_symlink():
                left_out.append(LeftOut(printable(path), "it is a link, which an export does not follow"))
            elif not file.is_file():
                left_out.append(LeftOut(printable(path), "it is not a regular file"))
            elif printable(path) != path or len(path) > LONGEST_PATH or not is_clean(path):
                left_out.append(LeftOut(printable(path), "its name can't be used on other systems"))
            else:
                yield path


class PageCatalogue:
    """The names of exported pages, so that links can be resolved as in the knowledge base."""

    def __init__(
        self, documents: Mapping[str, tuple[str, Sequence[str]]], attachments: Sequence[str], *, by_name: bool
    ) -> None:
        """Take each page's title and aliases by path; `by_name` is as in `LinkTargets`."""
        self._files = {*documents, *attachments}
        self._folders = {"", *(above for path in self._files for above in _folders_above(path))}
        called = defaultdict[str, list[str]](list)
        for path, (title, aliases) in documents.items():
            for name in dict.fromkeys(map(name_key, (without_suffix(path.rpartition("/")[2]), title, *aliases))):
                called[name].append(path)
        for path in attachments:
            called[name_key(path.rpartition("/")[2])].append(path)
        self._called = dict(called)
        self.targets = LinkTargets(
            lambda path: path in self._files or path in self._folders,
            lambda name: self._called.get(name_key(name), ()),
            by_name,
        )

    @classmethod
    def of(cls, vault: Vault, selection: Selection) -> PageCatalogue:
        """Return the catalogue of the selected pages, which are read once for it."""
        names = {}
        for path in selection.pages:
            document = parse(path, vault.read(path).raw)
            names[path] = (document.title, document.aliases)
        return cls(names, selection.attachments, by_name=vault.is_obsidian())

    def leads_to(self, page: str, target: str, *, wiki: bool) -> str | None:
        """Return the file in the export that a link of the page leads to; None if it is missing, elsewhere, or a folder."""
        found = self.target(page, target, wiki=wiki)
        return found if found in self._files else None

    def target(self, page: str, target: str, *, wiki: bool) -> str | None:
        """Return the file or folder that a link of the page leads to; None if it is missing or elsewhere."""
        return resolve_path(page, target, self.targets, wiki=wiki)


def links_of(document: Document, catalogue: PageCatalogue) -> list[dict[str, object]]:
    """Return the page's links to pages: each target as written, and the page that it leads to, None if it is missing."""
    return [
        {"target": link.path, "wiki": link.wiki, "path": catalogue.leads_to(document.path, link.path, wiki=link.wiki)}
        for link in document.page_links
    ]


def _folders_above(path: str) -> Iterator[str]:
    while "/" in path:
        path = path.rpartition("/")[0]
        yield path
