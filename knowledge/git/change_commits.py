"""The commits in which changes of pages are found: those that the server made of acts, and those of people for changes outside it."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import anyio.to_thread

from knowledge.errors import KnowledgeError
from knowledge.git.checkout import AT_ONCE, Checkout, some_of
from knowledge.git.commit_records import CommitRecords
from knowledge.git.working_files import WorkingFiles
from knowledge.history.ports import Ledger
from knowledge.history.timeline.timeline import Change

MOST_COMMITS = 500
"""The newest commits in which changes are looked for if the whole history takes too long."""
LONGEST_S = 2.0
"""How long each look may take; a person waits for the list."""
PLACES = ("HEAD", "--branches", "--remotes", "--tags")


@dataclass(frozen=True, slots=True)
class CommitOfChange:
    """The commit of a change. `author` is the name of its author, "" for an act: the change itself names who made it.

    If history was rewritten since the server made the commit, that commit is on no branch any longer and its id is in
    `former`. Then `id` is the commit that has its text now, "" if there is none.
    """

    id: str
    author: str = ""
    former: str = ""

    @property
    def short(self) -> str:
        """The beginning of its id, as people write it."""
        return short(self.id)


def short(commit: str) -> str:
    """Return the beginning of a commit's id, as people write it."""
    return commit[:9]


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
        lost = await anyio.to_thread.run_sync(_lost, checkout, [one.id for one in found.values()])
        found |= {id_: CommitOfChange("", former=one.id) for id_, one in found.items() if one.id in lost}
        wanted = [change for change in changes if (not found[change.id].id if change.id in found else change.outside)]
        states = [await self._state(checkout, change) for change in wanted]
        if paths := sorted({path for state in states for path, _ in state}):
            there = await anyio.to_thread.run_sync(_committed, checkout, paths)
            for change, state in zip(wanted, states, strict=True):
                known = [there[one] for one in state if one in there]
                if known and change.id in found:
                    found[change.id] = replace(found[change.id], id=known[0].id)
                elif known:
                    found[change.id] = known[0]
        return found

    async def _state(self, checkout: Checkout, change: Change) -> Sequence[tuple[str, str]]:
        """Return the path of the changed page, paired with each blob that Git may have for it after the change.

        For a removed page these are the blobs from before the change, each with `-` in front.
        """
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


def _lost(checkout: Checkout, commits: Sequence[str]) -> frozenset[str]:
    """Return those of the commits that are on no branch, because history was rewritten; none if it takes too long to tell."""
    git = replace(checkout.git, longest_s=LONGEST_S)
    names = sorted(set(commits))
    try:
        listed = git.run("cat-file", "--batch-check=%(objectname)", stdin="".join(f"{one}\n" for one in names).encode())
        missing = {line.split()[0] for line in listed.output.decode().splitlines() if line.endswith(" missing")}
        apart: set[str] = set()
        for some in some_of([one for one in names if one not in missing]):
            apart.update(git.run("rev-list", *some, "--not", *PLACES).output.decode().split())
    except KnowledgeError:
        return frozenset()
    return frozenset(missing | apart.intersection(names))


def _committed(checkout: Checkout, paths: Sequence[str]) -> Mapping[tuple[str, str], CommitOfChange]:
    """Return the newest commit for each path and blob. A blob with `-` in front means that the commit removes the page."""
    git = replace(checkout.git, longest_s=LONGEST_S)
    # `-c` has of a merge only what is in neither of its parents.
    asked = ("log", "--raw", "-c", "-z", "--no-renames", "--no-abbrev", "--format=%x01%H%x02%an%x00", *PLACES)
    # Pages beyond what fits on a command line are found among those of all commits.
    some = ["--full-history", "--", *paths] if len(paths) <= AT_ONCE else []
    for limit in (some, [f"-n{MOST_COMMITS}"]):
        try:
            return _parsed(git.run(*asked, *limit, codes=(0, 128)).output)
        except KnowledgeError:
            continue
    return {}


def _parsed(output: bytes) -> Mapping[tuple[str, str], CommitOfChange]:
    found: dict[tuple[str, str], CommitOfChange] = {}
    commit = CommitOfChange("")
    fields = iter(output.decode("utf-8", "surrogateescape").split("\0"))
    for field in fields:
        head = field.lstrip("\n")
        if head.startswith("\x01"):
            id_, _, author = head[1:].partition("\x02")
            commit = CommitOfChange(id_, author)
        elif head.startswith(":"):
            # Modes and blobs of each parent and of the commit: one more than there are colons, of each.
            parents = len(head) - len(head.lstrip(":"))
            *words, status = head[parents:].split(" ")
            path, blobs = next(fields, ""), words[parents + 1 :]
            gone = set(status) == {"D"}
            found.setdefault((path, f"-{blobs[0]}" if gone else blobs[-1]), commit)
    return found
