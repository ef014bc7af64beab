"""Brings the files that the other side changed into the working tree, and collects the blobs of the commit that joins the branches."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from functools import partial
from pathlib import PurePosixPath

import anyio.to_thread

from knowledge.git.checkout import Branch, Checkout
from knowledge.git.commit_message import one_line
from knowledge.pages.obsidian.canvas import is_canvas
from knowledge.pages.paths import is_hidden, is_markdown
from knowledge.sync.changed_files import CommitAuthor, FileState, SyncedFile
from knowledge.sync.other_files import WorkingFile, beside
from knowledge.sync.page_arrival import ArrivalKind, PageArrival, PageTexts, arrival_act
from knowledge.writing.acts.ports import PageActs

LONGEST_NAME = 80
UNNAMED = "somebody"

OnConflict = Callable[[PageArrival, CommitAuthor], Awaitable[None]]
"""Called with a page in which both sides changed the same text, before the two branches are joined."""


@dataclass(frozen=True, slots=True)
class ArrivedFile:
    """A file that the other side changed: what became of it, its path in the repository, and the commit with its author.

    `page` is its path in the knowledge base, "" if it is no page. `aside` is a copy of the other side's file beside it.
    """

    kind: ArrivalKind
    path: str
    author: CommitAuthor
    page: str = ""
    conflicts: int = 0
    aside: str = ""


@dataclass(frozen=True, slots=True)
class PagePaths:
    """The paths of pages in the repository. `is_page` tells whether a path of the knowledge base is one that acts can write."""

    checkout: Checkout
    is_page: Callable[[str], bool]

    @property
    def below(self) -> str:
        """The folder of the knowledge base in the repository, "" for the whole of it."""
        below = self.checkout.root.relative_to(self.checkout.top).as_posix()
        return "" if below == "." else below

    def page_at(self, inner: str) -> str:
        """Return the path in the knowledge base of a path of the repository, "" if it is no page."""
        below = self.below
        if below and not inner.startswith(f"{below}/"):
            return ""
        page = inner[len(below) + 1 :] if below else inner
        if not (is_markdown(page) or is_canvas(page)) or any(map(is_hidden, PurePosixPath(page).parts)):
            return ""
        return page if self.checkout.path_of(page) == inner and self.is_page(page) else ""


class ArrivingFiles:
    """The files of one merge into `branch` from the branch of a remote that `title` names."""

    def __init__(
        self,
        pages: PagePaths,
        acts: PageActs,
        *,
        branch: Branch,
        title: str,
        on_conflict: OnConflict,
    ) -> None:
        self._checkout, self._branch, self._title = pages.checkout, branch, title
        self._acts, self._pages, self._on_conflict = acts, pages, on_conflict
        self.blobs: dict[str, str | None] = {}
        """The blobs of the files in the commit; None: the file goes."""
        self.modes: dict[str, str] = {}
        self.arrived: list[ArrivedFile] = []

    async def bring(self, file: SyncedFile, author: CommitAuthor) -> None:
        """Bring in one file.

        Raises:
            KnowledgeError: it can't be written; those before it are in the working tree.
        """
        author = replace(author, name=one_line(author.name, LONGEST_NAME) or UNNAMED)
        for one in self._apart(file):
            if page := self._pages.page_at(one.to):
                await self._bring_page(one, author, page)
            else:
                await anyio.to_thread.run_sync(self._bring_other, one, author)
            if one.here != one.to:
                self.blobs[one.here] = None
            if one.theirs and (one.base is None or one.base.mode != one.theirs.mode):
                self.modes[one.to] = one.theirs.mode

    def _apart(self, one: SyncedFile) -> list[SyncedFile]:
        """Return the file.

        If a page became another kind of file, or the reverse, return a removed file and a new one instead.
        """
        if one.here == one.to or (self._pages.page_at(one.here) and self._pages.page_at(one.to)):
            return [one]
        return [SyncedFile(one.base, None, one.here, one.here), SyncedFile(None, one.theirs, one.to, one.to)]

    async def _bring_page(self, one: SyncedFile, author: CommitAuthor, page: str) -> None:
        base, theirs = [
            None if state is None else await anyio.to_thread.run_sync(self._bytes, state)
            for state in (one.base, one.theirs)
        ]
        here = page if one.here == one.to else self._pages.page_at(one.here)
        arrival = (await self._acts.run(arrival_act(here, page, PageTexts(base, theirs), self._title, author))).result
        aside = ""
        if arrival.kind == "beside" and one.theirs is not None:
            aside = await anyio.to_thread.run_sync(self._put_aside, one.to, one.theirs, author)
        if arrival.conflicts:
            await self._on_conflict(arrival, author)
        if one.theirs is not None and arrival.raw == theirs:
            self.blobs[one.to] = one.theirs.blob
        elif arrival.raw is not None:
            store = partial(self._checkout.blob_of, one.to, arrival.raw, store=True)
            self.blobs[one.to] = await anyio.to_thread.run_sync(store)
        else:
            self.blobs[one.to] = None
        if arrival.kind != "same":
            self.arrived.append(ArrivedFile(arrival.kind, one.to, author, page, arrival.conflicts, aside))

    def _bring_other(self, one: SyncedFile, author: CommitAuthor) -> None:
        """Bring in a file that is no page."""
        known = self._checkout.entries(self._branch.commit, [one.here]).get(one.here)
        ours, base = known.blob if known else None, one.base.blob if one.base else None
        kind: ArrivalKind = "taken"
        aside = ""
        if one.theirs is None and ours == base:
            kind = "removed"
            WorkingFile(self._checkout, one.here, ours).remove()
            self.blobs[one.here] = None
        elif one.theirs is None:
            kind = "kept"
        elif ours not in (None, base):
            kind, aside = "beside", self._put_aside(one.to, one.theirs, author)
        else:
            kind = "returned" if ours is None and base else "taken"
            WorkingFile(self._checkout, one.to, ours).put(self._bytes(one.theirs), one.theirs.mode)
            self.blobs[one.to] = one.theirs.blob
        self.arrived.append(ArrivedFile(kind, one.to, author, aside=aside))

    def _put_aside(self, path: str, theirs: FileState, author: CommitAuthor) -> str:
        """Put the other side's file beside that of this side, and return its path."""
        aside = beside(path, author.commit)
        WorkingFile(self._checkout, aside, None).put(self._bytes(theirs), theirs.mode)
        self.blobs[aside] = theirs.blob
        return aside

    def _bytes(self, state: FileState) -> bytes:
        """Return the file with the line ends and filters that it has in the working tree."""
        return self._checkout.git.run("cat-file", "--filters", f"--path={state.path}", state.blob).output
