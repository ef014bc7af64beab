"""Which files each side of a merge changed since their common commit."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from knowledge.errors import KnowledgeError
from knowledge.git.checkout import Checkout

REGULAR = ("100644", "100755")
NO_FILE = "000000"
MOST_RENAMES = 2_000
"""The most changed files among which renames are looked for. If there are more, a renamed file counts as a removed one
and a new one."""


class NoCommonCommit(KnowledgeError):
    """The two branches have nothing in common."""


class NotMergeable(KnowledgeError):
    """The other side changed something that is merged by hand."""


@dataclass(frozen=True, slots=True)
class FileState:
    """A file in a commit; `mode` as git writes it."""

    path: str
    mode: str
    blob: str


@dataclass(frozen=True, slots=True)
class SideChange:
    """One file that a side changed: before and after, None where there is none. After a rename the two have different paths."""

    before: FileState | None
    after: FileState | None

    @property
    def path(self) -> str:
        """The former path of the file, or its present one if it is new."""
        state = self.before or self.after
        if state is None:
            raise ValueError("a change has a file before or after it")
        return state.path


@dataclass(frozen=True, slots=True)
class SyncedFile:
    """A file that the other side changed.

    `base` and `theirs` are its states in the common commit and on the other side, None where there is none. `here` is its path on this
    side, `to` the one that it has after the merge.
    """

    base: FileState | None
    theirs: FileState | None
    here: str
    to: str

    @property
    def named(self) -> str:
        """The path by which commits of the other side know it."""
        state = self.theirs or self.base
        return state.path if state else self.here


@dataclass(frozen=True, slots=True)
class CommitAuthor:
    """A commit of the other side, and who wrote it."""

    commit: str
    name: str


def incoming_files(checkout: Checkout, ours: str, theirs: str) -> Sequence[SyncedFile]:
    """Return the files that the other side changed since the two branches parted, by path, without changes that this side has too.

    Raises:
        NoCommonCommit: the two branches have no common commit.
        NotMergeable: the other side changed a link or a submodule, or has a file at a path that git forbids.
    """
    found = checkout.git.run("merge-base", ours, theirs, codes=(0, 1))
    if found.code:
        raise NoCommonCommit(
            "the two branches have no common commit, so nothing can be merged; clone the remote, or merge by hand"
        )
    base = found.line.split("\n")[0]
    moved_here = {
        change.before.path: change.after.path
        for change in _changed(checkout, base, ours)
        if change.before and change.after and change.before.path != change.after.path
    }
    changes = _changed(checkout, base, theirs)
    _require_files(checkout, changes)
    names = {state.path for change in changes for state in (change.before, change.after) if state}
    there = checkout.entries(ours, [*names, *(moved_here[name] for name in names if name in moved_here)])
    incoming: list[SyncedFile] = []
    for change in changes:
        before, after = change.before, change.after
        here = moved_here.get(change.path, change.path)
        if before is None or after is None or before.path == after.path or here != before.path:
            # Not moved there, or moved on both sides: it stays where it is here.
            incoming.append(SyncedFile(before, after, here, here))
        elif after.path in there:
            # Something else is at its new place here, so it can't be moved: what comes is a file of its own.
            incoming += [SyncedFile(before, None, here, here), SyncedFile(None, after, after.path, after.path)]
        else:
            incoming.append(SyncedFile(before, after, here, after.path))
    blobs = {path: entry.blob for path, entry in there.items()}
    return [one for one in incoming if not _is_there(one, blobs)]


def authors_of(checkout: Checkout, ours: str, theirs: str) -> Mapping[str, CommitAuthor]:
    """Return the paths that commits of the other side change, each with the newest such commit. Merges are left out."""
    asked = (
        "log",
        "--no-merges",
        "--name-only",
        "-z",
        "--no-renames",
        "--format=%x01%H%x02%an%x00",
        f"{ours}..{theirs}",
    )
    found: dict[str, CommitAuthor] = {}
    author = CommitAuthor(theirs, "")
    for field in checkout.git.run(*asked).output.split(b"\0"):
        word = os.fsdecode(field).lstrip("\n")
        if word.startswith("\x01"):
            commit, _, name = word[1:].partition("\x02")
            author = CommitAuthor(commit, name)
        elif word:
            found.setdefault(word, author)
    return found


def _changed(checkout: Checkout, base: str, tip: str) -> Sequence[SideChange]:
    asked = ("diff-tree", "-r", "-z", "--raw", "--no-abbrev", "-M", f"-l{MOST_RENAMES}", base, tip)
    return list(_parsed(checkout.git.run(*asked).output))


def _parsed(output: bytes) -> Iterator[SideChange]:
    fields = iter(os.fsdecode(output).split("\0"))
    for field in fields:
        if not field.startswith(":"):
            continue
        old_mode, new_mode, old, new, status = field[1:].split(" ")
        path = next(fields)
        to = next(fields) if status[0] == "R" else path
        yield SideChange(
            None if old_mode == NO_FILE else FileState(path, old_mode, old),
            None if new_mode == NO_FILE else FileState(to, new_mode, new),
        )


def _require_files(checkout: Checkout, changes: Sequence[SideChange]) -> None:
    states = [state for change in changes for state in (change.before, change.after) if state is not None]
    for unsafe in sorted(checkout.unsafe([(state.path, state.blob) for state in states])):
        # Such as `.git/hooks/post-commit`, a program that git would run.
        raise NotMergeable(f"the other side has the file {unsafe}, which must not be in a commit; do not trust it")
    for state in states:
        if state.mode not in REGULAR:
            kind = "a submodule" if state.mode == "160000" else "a symbolic link"
            raise NotMergeable(f"the other side changed {state.path}, which is {kind}; bring that in with git pull")


def _is_there(one: SyncedFile, blobs: Mapping[str, str]) -> bool:
    """Return whether this side has made the same change; `blobs` has the blobs of its files by path."""
    if one.theirs is None:
        return one.here not in blobs
    return blobs.get(one.to) == one.theirs.blob and (one.here == one.to or one.here not in blobs)
