"""The commits in which changes of pages are found: those that the server made of acts, and those of people for changes outside it."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import anyio.to_thread

from knowledge.errors import KnowledgeError
from knowledge.git.checkout import Checkout
from knowledge.git.commit_records import CommitRecords
from knowledge.git.working_files import WorkingFiles
from knowledge.history.ports import Ledger
from knowledge.history.timeline.timeline import Change

MOST_COMMITS = 500
"""The newest commits in which changes made outside the server are looked for."""
LONGEST_S = 2.0
"""How long that may take; a person waits for the list."""


@dataclass(frozen=True, slots=True)
class CommitOfChange:
    """A commit with the name of its author; "" for an act, whose author is the change's own."""

    id: str
    author: str = ""

    @property
    def short(self) -> str:
        """The beginning of its id, as people write it."""
        return self.id[:9]


class ChangeCommits:
    """Finds the commits of changes. Without a repository there are none, and nothing is run."""

    def __init__(self, files: WorkingFiles, records: CommitRecords, ledger: Ledger) -> None:
        self._files, self._records, self._ledger = files, records, ledger

    async def of(self, changes: Sequence[Change]) -> Mapping[str, CommitOfChange]:
        """Return the commits of these changes by the changes' ids, as far as they are known."""
        checkout = await anyio.to_thread.run_sync(self._files.checkout)
        if checkout is None:
            return {}
        made = await self._records.of([int(change.id) for change in changes if change.id.isdecimal()])
        found = {str(record): CommitOfChange(one.commit) for record, one in made.items() if one.commit}
        outside = [change for change in changes if change.outside and change.id not in found]
        states = [await self._state(checkout, change) for change in outside]
        if any(states):
            try:
                there = await anyio.to_thread.run_sync(_committed, checkout)
            except KnowledgeError:
                there = {}
            for change, state in zip(outside, states, strict=True):
                known = [there[one] for one in state if one in there]
                if known:
                    found[change.id] = known[0]
        return found

    async def _state(self, checkout: Checkout, change: Change) -> Sequence[tuple[str, str]]:
        """Return the path with each blob that Git may have for the page after the change; for a removed page, its last one."""
        page = change.pages[0]
        gone = page.after is None
        revision = page.before if gone else page.after
        path = await anyio.to_thread.run_sync(checkout.path_of, page.path)
        raw = None if revision is None else await self._ledger.content(page.path, revision)
        if path is None or raw is None:
            return ()
        # Where line ends are converted, Git has the page with line feeds.
        forms = dict.fromkeys([raw, raw.replace(b"\r\n", b"\n")])
        return [(path, ("-" if gone else "") + blob) for form in forms for blob in _blobs(form)]


def _blobs(raw: bytes) -> Iterator[str]:
    """Yield the names of a blob with these bytes, in repositories of either kind."""
    named = b"blob %d\0" % len(raw) + raw
    yield hashlib.sha1(named, usedforsecurity=False).hexdigest()
    yield hashlib.sha256(named).hexdigest()


def _committed(checkout: Checkout) -> Mapping[tuple[str, str], CommitOfChange]:
    """Return the newest commits by path and blob; a blob with `-` in front is that of a page that the commit removes."""
    git = replace(checkout.git, longest_s=LONGEST_S)
    form = "%x01%H%x02%an%x00"
    asked = ("log", f"-n{MOST_COMMITS}", "--raw", "-z", "--no-renames", "--no-abbrev", f"--format={form}")
    output = git.run(*asked, "HEAD", "--branches", "--remotes", codes=(0, 128)).output
    found: dict[tuple[str, str], CommitOfChange] = {}
    commit = CommitOfChange("")
    fields = iter(output.decode("utf-8", "surrogateescape").split("\0"))
    for field in fields:
        head = field.lstrip("\n")
        if head.startswith("\x01"):
            id_, _, author = head[1:].partition("\x02")
            commit = CommitOfChange(id_, author)
        elif head.startswith(":"):
            _, _, old, new, status = head.split(" ")
            path = next(fields, "")
            found.setdefault((path, f"-{old}" if status == "D" else new), commit)
    return found
