"""What is at stake in an act: whether it changes what configures the server, and whether text loses the mark of its origin.

Judged by what becomes of files, not by what was asked for, and by every name that a file has: the one it was asked for by, and
the one of the place where it really lies.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import anyio.to_thread

from knowledge.errors import InvalidPath
from knowledge.history.ports import Ledger
from knowledge.index.preparation.page_rows import DirectoryTrust
from knowledge.merge.evidence.confidence import lineage_of
from knowledge.pages.claim_source import FETCHED_KINDS, place_of, source_kind
from knowledge.pages.document import head
from knowledge.pages.markdown.passages import repeats
from knowledge.pages.paths import clean_path, parent
from knowledge.pages.vault import Vault
from knowledge.writing.files.file_set import FileSet
from knowledge.writing.model import ActWork, Contents, Stakes
from knowledge.writing.related.target_page import configures, in_configuring_folder, is_index, may_configure

UNTRUSTED = "untrusted"


@dataclass(frozen=True, slots=True)
class _Change:
    """A file that changes. `before` is what becomes `after`, `was` the path that it is read from, None where there is none."""

    path: str
    was: str
    held: bytes | None
    before: bytes | None
    after: bytes | None


class Appraiser:
    """Says what is at stake in acts on one knowledge base."""

    def __init__(self, vault: Vault, ledger: Ledger) -> None:
        self._vault, self._ledger, self._files = vault, ledger, FileSet(vault)

    async def names(self, path: str, *asked: str) -> frozenset[str]:
        """Return every name of the page at `path`: that one, where it really lies, and those it was asked for by.

        Raises:
            InvalidPath: it can be no page, or is a link that leads out of the knowledge base or to nothing.
        """
        return frozenset(
            (path, await anyio.to_thread.run_sync(self._files.real, path), *filter(None, map(_clean, asked)))
        )

    async def stakes(self, contents: Contents, work: ActWork[Any], *, asked: Collection[str] = ()) -> Stakes:
        """Return what is at stake when `work` is done to files that hold `contents`, and were asked for by those names."""
        changes = [
            _Change(path, was := work.moved.get(path, path), contents.get(path), contents.get(was), after)
            for path, after in work.contents.items()
        ]
        names = {change.path: await self.names(change.path) for change in changes}
        by_name = any(in_configuring_folder(name) for name in filter(None, map(_clean, asked)))
        by_change = any(
            configures(name, _text(change.held), _text(change.after))
            for change in changes
            for name in names[change.path]
            if may_configure(name)  # of all other pages the text need not be looked at
        )
        places = {path: next(iter(found - {path}), path) for path, found in names.items()}
        unmarks = [phrase for change in changes for phrase in await self._unmarked(change, places, work)]
        return Stakes(by_name or by_change, tuple(unmarks), places)

    async def _unmarked(self, change: _Change, places: Mapping[str, str], work: ActWork[Any]) -> Sequence[str]:
        before = change.before
        if change.after is None:
            # A page that goes takes its mark along; one that speaks for a folder leaves the pages in it without.
            bares = is_index(change.path) and before is not None and head(before).untrusted
            return [_no_longer(change.path, UNTRUSTED)] if bares else []
        kept = before if before is not None else await self._last(change.path)
        look = partial(
            self._marks_then_and_now, places.get(change.was, change.was), kept, places[change.path], change.after
        )
        had, marks = await anyio.to_thread.run_sync(look)
        told = {place_of(mark) for mark in marks}
        if UNTRUSTED not in marks and (silent := [one for one in work.repeats if place_of(one) not in told]):
            return [f"{change.path} would repeat text from {one} without naming it as the source" for one in silent]
        if before is None and not marks and source_kind(work.source) in FETCHED_KINDS:
            return [f"{change.path} would not say that its text comes from {lineage_of(work.source)}"]
        lost = sorted(had - marks)
        # A page that is made where one was is another one, unless it says again what that said.
        if before is None and lost and not await anyio.to_thread.run_sync(_repeats, change.after, kept or b""):
            return []
        return [_no_longer(change.path, mark) for mark in lost]

    def _marks_then_and_now(
        self, was: str, before: bytes | None, path: str, after: bytes
    ) -> tuple[frozenset[str], frozenset[str]]:
        return self._marks(was, before) if before is not None else frozenset(), self._marks(path, after)

    async def _last(self, path: str) -> bytes | None:
        """Return what a page that is not there held last, as far as that is kept."""
        for line in await self._ledger.history(path, limit=1):
            revision = line.revision or line.before
            return None if revision is None else await self._ledger.content(path, revision)
        return None

    def _marks(self, path: str, raw: bytes) -> frozenset[str]:
        """Return what says of a page at that path that somebody else wrote its text: where it was fetched, or that it is untrusted.

        A page that speaks for its folder is judged by what it says itself, and by the folders above: what its own folder
        says on disk is what it says there.
        """
        found = head(raw)
        folder = parent(path)
        above = DirectoryTrust(self._vault).untrusted(parent(folder) if is_index(path) else folder)
        marked = found.untrusted or (above and not (is_index(path) and not folder))
        fetched = {lineage_of(found.source)} if source_kind(found.source) in FETCHED_KINDS else set()
        return frozenset(fetched | ({UNTRUSTED} if marked else set()))


def _repeats(raw: bytes, other: bytes) -> bool:
    texts = (one.decode("utf-8", "replace") for one in (raw, other))
    return repeats(*texts)


def _no_longer(path: str, mark: str) -> str:
    said = "be marked untrusted" if mark == UNTRUSTED else f"say that its text comes from {mark}"
    return f"{path} would no longer {said}"


def _clean(asked: str) -> str:
    try:
        return clean_path(asked)
    except InvalidPath:
        return ""


def _text(raw: bytes | None) -> str | None:
    return None if raw is None else raw.decode("utf-8", "replace")
