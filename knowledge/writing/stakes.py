"""The stakes of an act: whether it changes the configuration of the server, and whether text loses the mark of its origin.

They are judged by the effect on files, not by the request, and by every name of a file: the one in the request, and its real path.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import anyio.to_thread

from knowledge.errors import InvalidPath
from knowledge.history.ports import Ledger
from knowledge.index.page_rows import DirectoryTrust
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
    """A file that changes from `before` (at the path `was`) to `after` (at `path`); `present` is what is at `path` now."""

    path: str
    was: str
    present: bytes | None
    before: bytes | None
    after: bytes | None


class Appraiser:
    """Determines what is at stake in acts on one knowledge base."""

    def __init__(self, vault: Vault, ledger: Ledger) -> None:
        self._vault, self._ledger, self._files = vault, ledger, FileSet(vault)

    async def names(self, path: str, *requested: str) -> frozenset[str]:
        """Return every name of the page at `path`: `path` itself, its real path, and the names by which it was requested.

        Raises:
            InvalidPath: it can't be a page, or is a link that leads out of the knowledge base or to nothing.
        """
        real = await anyio.to_thread.run_sync(self._files.real, path)
        return frozenset((path, real, *filter(None, map(_clean, requested))))

    async def stakes(self, contents: Contents, work: ActWork[Any], *, requested: Collection[str] = ()) -> Stakes:
        """Return the stakes of doing `work` to files with these `contents`, requested by these names."""
        changes = [
            _Change(path, was := work.moved.get(path, path), contents.get(path), contents.get(was), after)
            for path, after in work.contents.items()
        ]
        names = {change.path: await self.names(change.path) for change in changes}
        by_name = any(in_configuring_folder(name) for name in filter(None, map(_clean, requested)))
        by_change = any(
            configures(name, _text(change.present), _text(change.after))
            for change in changes
            for name in names[change.path]
            if may_configure(name)  # other pages need not be parsed
        )
        # The only other name here is the real path, if the page is reached through a link.
        places = {path: next(iter(found - {path}), path) for path, found in names.items()}
        unmarks = [phrase for change in changes for phrase in await self._unmarked(change, places, work)]
        return Stakes(by_name or by_change, tuple(unmarks), places)

    async def _unmarked(self, change: _Change, places: Mapping[str, str], work: ActWork[Any]) -> Sequence[str]:
        """Return a phrase for each mark of origin that the change would remove or leave out."""
        path, before, after = change.path, change.before, change.after
        if after is None:
            # A page that is removed takes its mark with it, but the pages of a folder lose that of its index.
            exposes = is_index(path) and before is not None and head(before).untrusted
            return [_no_longer(path, UNTRUSTED)] if exposes else []
        previous = before if before is not None else await self._last_content(path)

        def look() -> tuple[frozenset[str], frozenset[str]]:
            was = (
                self._marks(places.get(change.was, change.was), previous) if previous is not None else frozenset[str]()
            )
            return was, self._marks(places[path], after)

        had, marks = await anyio.to_thread.run_sync(look)
        named = {place_of(mark) for mark in marks}
        if UNTRUSTED not in marks and (silent := [one for one in work.repeats if place_of(one) not in named]):
            return [f"{path} would repeat text from {one} without naming it as the source" for one in silent]
        if before is None and not marks and source_kind(work.source) in FETCHED_KINDS:
            return [f"{path} would not say that its text comes from {lineage_of(work.source)}"]
        lost = sorted(had - marks)
        if before is None and lost:
            # A page created where one was removed counts as new, unless it repeats the text of the removed one.
            new, old = [raw.decode("utf-8", "replace") for raw in (after, previous or b"")]
            if not await anyio.to_thread.run_sync(repeats, new, old):
                return []
        return [_no_longer(path, mark) for mark in lost]

    async def _last_content(self, path: str) -> bytes | None:
        """Return the last stored content of a page that no longer exists, None without one."""
        for line in await self._ledger.history(path, limit=1):
            revision = line.revision or line.before
            return None if revision is None else await self._ledger.content(path, revision)
        return None

    def _marks(self, path: str, raw: bytes) -> frozenset[str]:
        """Return the marks of a page at that path: the lineage it was fetched from, and whether it is untrusted.

        An index page is judged by its own front matter and by the folders above its own folder: the setting of its own
        folder is the index page itself.
        """
        found = head(raw)
        folder = parent(path)
        above = DirectoryTrust(self._vault).untrusted(parent(folder) if is_index(path) else folder)
        marked = found.untrusted or (above and not (is_index(path) and not folder))
        fetched = {lineage_of(found.source)} if source_kind(found.source) in FETCHED_KINDS else set()
        return frozenset(fetched | ({UNTRUSTED} if marked else set()))


def _no_longer(path: str, mark: str) -> str:
    phrase = "be marked untrusted" if mark == UNTRUSTED else f"say that its text comes from {mark}"
    return f"{path} would no longer {phrase}"


def _clean(path: str) -> str:
    try:
        return clean_path(path)
    except InvalidPath:
        return ""


def _text(raw: bytes | None) -> str | None:
    return None if raw is None else raw.decode("utf-8", "replace")
