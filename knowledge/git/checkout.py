"""A checkout of a Git repository, and commits in it that leave everything else of it as it was.

A commit is built from blobs in a private copy of the index, never from the working tree, and becomes the branch's newest one by a
compare-and-swap. The new index is linked to `index.lock` and takes the index's place while the branch is locked; since a lock is a
complete index of known content, the next process can remove the lock of one that was killed.
"""

from __future__ import annotations

import hashlib
import os
import re
import secrets
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Literal

from knowledge.errors import KnowledgeError
from knowledge.git.program import Git, GitFailed

OPERATIONS = {
    "rebase-merge": "a rebase",
    "rebase-apply": "a rebase or `git am`",
    "MERGE_HEAD": "a merge",
    "CHERRY_PICK_HEAD": "a cherry-pick",
    "REVERT_HEAD": "a revert",
    "sequencer": "a cherry-pick or revert of several commits",
    "BISECT_LOG": "a bisect",
}
"""The operation that is in progress while the repository has a file or folder of that name."""
AT_ONCE = 200
"""The most paths on one command line."""
OUR_INDEX = "forge-index"
FILE = "100644"
LEFTOVER_S = 3600.0
REST_S = 2.0
"""No commit is made within this time after a pull or merge began: a pull or merge fails if the branch moves before it
ends."""
_PROTECTED = (("core.protectHFS", "true"), ("core.protectNTFS", "true"))
_INDEXED = re.compile(rb"\d+ ([0-9a-f]+) 0\t([^\0]+)\0  ctime: (\d+):(\d+)\n")
"""An entry of the index as `git ls-files -z --debug` prints it. Git does not promise this form."""


class CommitWaits(KnowledgeError):
    """No commit can be made now. `mend` says what to do; "" if it passes by itself."""

    def __init__(self, reason: str, mend: str = "") -> None:
        self.reason, self.mend = reason, mend
        super().__init__(reason)


class NoCheckout(CommitWaits):
    """The knowledge base is in no checkout of a Git repository."""


@dataclass(frozen=True, slots=True)
class Branch:
    """The branch that is checked out, `refs/heads/...`, and its newest commit."""

    ref: str
    commit: str


@dataclass(frozen=True, slots=True)
class TreeEntry:
    """A file in a commit."""

    mode: str
    blob: str


@dataclass(frozen=True, slots=True)
class IndexedFile:
    """A file in the index: its blob, and the ctime that the file on disk had when Git last compared the two."""

    blob: str
    written_at: datetime


@dataclass(frozen=True, slots=True)
class CommitPart:
    """One commit to make: a blob for each path of the repository that changes, None for a path that is removed.

    A file keeps its mode unless `modes` has another. `joins` is a commit of another branch that this one merges. If
    `joins` already contains this branch, and the result would have exactly its files, the branch moves to `joins` and
    no merge commit is made.
    """

    files: Mapping[str, str | None]
    message: str
    author: tuple[str, str]
    at: datetime
    modes: Mapping[str, str] = field(default_factory=dict)
    joins: str = ""


@dataclass(frozen=True, slots=True)
class BuiltCommits:
    """Commits that exist as objects and are on no branch yet. `index` is the Git index that belongs to the newest of them."""

    branch: Branch
    commits: Sequence[str]
    index: Path
    index_sum: str
    basis: os.stat_result
    """The status of the repository's index when it was copied."""

    @property
    def newest(self) -> str:
        """The id of the newest commit."""
        return self.commits[-1]


@dataclass(frozen=True, slots=True)
class Checkout:
    """A working tree with its repository. `root` is the folder of the knowledge base, `top` that of the working tree."""

    git: Git
    root: Path
    top: Path
    git_dir: Path
    rest_s: float = REST_S

    @classmethod
    def of(cls, root: Path, environment: Mapping[str, str]) -> Checkout:
        """Return the checkout that the folder is in; git runs with these variables.

        Raises:
            NoCheckout: it is in none, or git is not allowed to use it.
            NoGit: git is not installed.
        """
        git = Git.at(root, environment)
        try:
            top = Path(git.run("rev-parse", "--show-toplevel").line)
            git_dir = Path(git.run("rev-parse", "--absolute-git-dir").line)
        except GitFailed as error:
            raise _unusable(root, error) from error
        return cls(replace(git, folder=top), Path(os.path.realpath(root)), Path(os.path.realpath(top)), git_dir)

    # --- what there is -----------------------------------------------------------------------------------------------

    def branch(self) -> Branch:
        """Return the branch on which a commit can be made now.

        Raises:
            CommitWaits: none can; the reason says why.
        """
        self._require_rest()
        named = self.git.run("symbolic-ref", "-q", "HEAD", codes=(0, 1))
        if named.code:
            raise CommitWaits("HEAD is detached, so a commit would belong to no branch", "switch to a branch")
        found = self.git.run("rev-parse", "-q", "--verify", f"{named.line}^{{commit}}", codes=(0, 1))
        if found.code:
            branch = named.line.removeprefix("refs/heads/")
            raise CommitWaits(f"the branch {branch} has no commit yet", "make the first commit yourself")
        return Branch(named.line, found.line)

    def person(self) -> tuple[str, str]:
        """Return name and address of the person whose repository it is, the committer.

        Raises:
            CommitWaits: git knows none.
        """
        try:
            told = self.git.run("var", "GIT_COMMITTER_IDENT").line
        except GitFailed as error:
            mend = "git config user.name NAME, and git config user.email ADDRESS"
            raise CommitWaits("git does not know who commits (user.name and user.email)", mend) from error
        name, _, rest = told.rpartition(" <")
        return name, rest.partition(">")[0]

    def head(self) -> str:
        """Return the newest commit that is checked out, "" if there is none."""
        return self.git.run("rev-parse", "-q", "--verify", "HEAD^{commit}", codes=(0, 1)).line

    def is_ancestor(self, commit: str, other: str) -> bool:
        """Return whether the other commit has this one in its history, or is it."""
        return self.git.run("merge-base", "--is-ancestor", commit, other, codes=(0, 1)).code == 0

    def entries(self, commit: str, paths: Sequence[str]) -> Mapping[str, TreeEntry]:
        """Return the files of the commit among these paths of the repository."""
        found: dict[str, TreeEntry] = {}
        for some in some_of(paths):
            listed = self.git.run("ls-tree", "-z", "--full-tree", commit, "--", *some).output
            for line in _split(listed):
                facts, _, path = line.partition("\t")
                mode, _, blob = facts.split(" ")
                found[path] = TreeEntry(mode, blob)
        return found

    def bytes_of(self, blob: str) -> bytes:
        """Return the bytes of a blob."""
        return self.git.run("cat-file", "blob", blob).output

    def blob_of(self, path: str, raw: bytes, *, store: bool = False) -> str:
        """Return the id of the blob that `git add` would make of these bytes at that path: line ends and filters included."""
        options = ["-w"] if store else []
        return self.git.run("hash-object", *options, "--stdin", f"--path={path}", stdin=raw).line

    def blobs_of_files(self, paths: Sequence[str]) -> Mapping[str, str]:
        """Store the files of the working tree as blobs, as `git add` does, and return their ids; one that is gone has none."""
        # Each name is a line, and one in quotes would be read as quoted.
        there = [path for path in paths if "\n" not in path and path[0] != '"' and path[-1] != "\r"]
        there = [path for path in there if (file := self.top / path).is_file() and not file.is_symlink()]
        stdin = b"".join(os.fsencode(path) + b"\n" for path in there)
        done = self.git.run("hash-object", "-w", "--stdin-paths", stdin=stdin, codes=(0, 128))
        return {} if done.code else dict(zip(there, done.output.decode().split(), strict=True))

    def ignored(self, paths: Sequence[str]) -> frozenset[str]:
        """Return those of the paths that the repository ignores."""
        if not paths:
            return frozenset()
        # Without the prefix, a name that begins with a colon would be a pattern, which this command can't be told otherwise.
        stdin = b"".join(b"./" + os.fsencode(path) + b"\0" for path in paths)
        asked = ("check-ignore", "-z", "--stdin")
        found = self.git.run(*asked, stdin=stdin, variables={"GIT_LITERAL_PATHSPECS": "0"}, codes=(0, 1))
        return frozenset(path.removeprefix("./") for path in _split(found.output))

    def unsafe(self, states: Sequence[tuple[str, str]]) -> frozenset[str]:
        """Return those of the paths that git takes into no index, such as `.git` in any form that a file system takes for it.

        Each path is given with a blob. Git's own commands check this before they write a file. Code that writes files
        from a commit itself must call this first.
        """
        scratch = self._new_copy()
        stdin = b"".join(f"{FILE} {blob} 0\t".encode() + os.fsencode(path) + b"\0" for path, blob in states)
        strict = replace(self.git, settings=(*self.git.settings, *_PROTECTED))
        try:
            strict.run("update-index", "-z", "--add", "--index-info", stdin=stdin, index=scratch)
            taken = (
                frozenset(_split(self.git.run("ls-files", "-z", index=scratch).output))
                if scratch.exists()
                else frozenset()
            )
        finally:
            with suppress(FileNotFoundError):
                # Git makes no index if it refused every path.
                scratch.unlink()
        return frozenset(path for path, _ in states) - taken

    def unmerged(self) -> frozenset[str]:
        """Return the paths that are in conflict: the index has several versions of them."""
        listed = _split(self.git.run("ls-files", "-u", "-z").output)
        return frozenset(line.partition("\t")[2] for line in listed)

    def indexed(self, paths: Sequence[str]) -> Mapping[str, IndexedFile]:
        """Return the index's entries for these files; a file without an entry, or with one in an unknown form, is left out."""
        found: dict[str, IndexedFile] = {}
        for some in some_of(paths):
            for blob, path, s, ns in _INDEXED.findall(
                self.git.run("ls-files", "--stage", "--debug", "-z", "--", *some).output
            ):
                at = datetime.fromtimestamp(int(s), UTC) + timedelta(microseconds=int(ns) // 1_000)
                found[os.fsdecode(path)] = IndexedFile(blob.decode(), at)
        return found

    def last_commit_of(self, path: str) -> str:
        """Return the newest commit that changed the path, "" if none did."""
        return self.git.run("log", "-1", "--format=%H", "--", path).line

    def in_working_tree(self, path: str) -> bytes:
        """Return the file in the index with the line ends and filters that it has in the working tree."""
        return self.git.run("cat-file", "--filters", f":{path}").output

    def merged_since(self, at: datetime) -> bool:
        """Return whether a pull or a merge began since then, as far as Git's files tell."""
        files = [self.git_dir / name for name in ("FETCH_HEAD", "ORIG_HEAD")]
        return any(file.exists() and file.stat().st_mtime >= at.timestamp() for file in files)

    def has_commit_with(self, path: str, blob: str, *, since: datetime) -> bool:
        """Return whether a commit on a branch, or a stash, since then has that blob at the path."""
        asked = (
            "log",
            "-n1",
            "--all",
            f"--since={since.timestamp():.0f}",
            f"--find-object={blob}",
            "--format=%H",
            "-m",
        )
        return bool(self.git.run(*asked, "--", path).output)

    def path_of(self, page: str) -> str | None:
        """Return the path of a page in the repository; None if it lies outside, behind a link, or in a repository of its own."""
        file = self.root / page
        real = Path(os.path.realpath(file.parent)) / file.name
        if real.is_symlink() or not real.is_relative_to(self.top):
            return None
        inner = real.relative_to(self.top)
        if any(os.path.lexists(self.top / above / ".git") for above in inner.parents if above != Path()):
            return None
        return inner.as_posix()

    # --- a commit ----------------------------------------------------------------------------------------------------

    @contextmanager
    def built(self, branch: Branch, parts: Sequence[CommitPart]) -> Iterator[BuiltCommits]:
        """Yield these commits, one on top of the other, as objects that no branch has.

        Raises:
            CommitWaits: something is staged, or another process of git is working.
            GitFailed: git could not make them.
        """
        place = self.git_dir / "index"
        try:
            basis = place.stat()
            raw = place.read_bytes()
        except FileNotFoundError:
            raise CommitWaits("the repository has no index", "git reset") from None
        copy = self._new_copy()
        try:
            copy.write_bytes(raw)
            self._require_nothing_staged(branch, copy)
            name, address = self.person()
            commits: list[str] = []
            for part in parts:
                self._put(copy, branch, part)
                tree = self.git.run("write-tree", index=copy).line
                parent = commits[-1] if commits else branch.commit
                if part.joins and tree == self._tree_of(part.joins) and self.is_ancestor(parent, part.joins):
                    commits.append(part.joins)
                else:
                    commits.append(self._commit(tree, parent, part, (name, address)))
            left = {path: blob for part in parts for path, blob in part.files.items()}
            present = [path for path, blob in left.items() if blob and os.path.lexists(self.top / path)]
            for some in some_of(present):
                # Only the times of files: one that an editor has changed since shows as changed.
                self.git.run("add", "--refresh", "--", *some, index=copy, codes=(0, 1, 128))
            yield BuiltCommits(branch, commits, copy, _sum(copy), basis)
        finally:
            with suppress(FileNotFoundError):
                copy.unlink()

    def publish(self, built: BuiltCommits) -> None:
        """Move the branch to the newest of these commits, and replace the index by the one that belongs to it.

        The branch is locked first, because other gits wait for that lock. The index is locked as briefly as possible: a
        merge that can't lock it reports a conflict.

        Raises:
            CommitWaits: another process of git was quicker, or is working; nothing was changed.
        """
        place, lock = self.git_dir / "index", self.git_dir / "index.lock"
        try:
            with self.git.moving(built.branch.ref, built.newest, built.branch.commit) as move:
                self._require_rest()
                if self.git.run("symbolic-ref", "-q", "HEAD", codes=(0, 1)).line != built.branch.ref:
                    raise CommitWaits("another branch was checked out just now")
                self._lock(built.index, lock)
                now, basis = place.stat(), built.basis
                if (now.st_mtime_ns, now.st_size, now.st_ino) != (basis.st_mtime_ns, basis.st_size, basis.st_ino):
                    lock.unlink()
                    raise CommitWaits("another git wrote the index just now")
                # The index before the branch: if the process is killed in between, `recover` sees that the branch has to follow.
                lock.replace(place)
                move()
        except GitFailed as error:
            raise CommitWaits(f"another git moved the branch just now: {error}") from error

    def recover(self, base: str, commit: str, index_sum: str) -> bool:
        """Finish a commit whose process was killed, if the index is already the commit's; return whether it is on the branch.

        The lock that the killed process left is removed.
        """
        lock = self.git_dir / "index.lock"
        with suppress(FileNotFoundError):
            if _sum(lock) == index_sum:
                lock.unlink()
        try:
            # It moved the branch before it died.
            if self._has(self.head(), commit):
                return True
            branch = self.git.run("symbolic-ref", "-q", "HEAD", codes=(0, 1)).line
            tree = self._tree_of(commit)
            # Somebody has committed or staged since: theirs counts, and the acts are committed again.
            if not branch or self.head() != base or self._tree_of_index() != tree:
                return False
            with self.git.moving(branch, commit, base) as move:
                move()
        except GitFailed:
            return False
        return True

    def _tree_of(self, commit: str) -> str:
        return self.git.run("rev-parse", f"{commit}^{{tree}}").line

    def _tree_of_index(self) -> str:
        copy = self._new_copy()
        try:
            copy.write_bytes((self.git_dir / "index").read_bytes())
            return self.git.run("write-tree", index=copy, codes=(0, 128)).line
        finally:
            with suppress(FileNotFoundError):
                copy.unlink()

    def _new_copy(self) -> Path:
        """Return a new path for a private copy of the index.

        It is in the same folder, because `index.lock` is made as a hard link to it.
        """
        return self.git_dir / f"{OUR_INDEX}.{os.getpid()}.{secrets.token_hex(4)}"

    def remove_leftovers(self, older_than: float) -> None:
        """Remove private copies of the index that killed processes left before that time."""
        for copy in self.git_dir.glob(f"{OUR_INDEX}.*"):
            with suppress(OSError):
                if copy.stat().st_mtime < older_than:
                    copy.unlink()

    def _has(self, head: str, commit: str) -> bool:
        """Return whether the commit is on the branch, or was before its history was rewritten."""
        if self.git.run("merge-base", "--is-ancestor", commit, head, codes=(0, 1, 128)).code == 0:  # 128: it is gone
            return True
        reflog = self.git.run("log", "-g", "-n", "1000", "--format=%H", "HEAD", codes=(0, 128)).output
        return commit.encode() in reflog.split()

    def _require_rest(self) -> None:
        for name, what in OPERATIONS.items():
            if os.path.lexists(self.git_dir / name):
                raise CommitWaits(f"{what} is in progress", "finish or abort it")
        if self.merged_since(datetime.now(UTC) - timedelta(seconds=self.rest_s)):
            raise CommitWaits("a pull or a merge has just begun")
        if os.path.lexists(self.git_dir / "index.lock"):
            mend = f"if no git is running, remove {self.git_dir / 'index.lock'}"
            raise CommitWaits("another git is working: there is an index.lock", mend)

    def _require_nothing_staged(self, branch: Branch, index: Path) -> None:
        asked = ("diff-index", "--cached", "--quiet", "--ita-invisible-in-index", "--ignore-submodules")
        if self.git.run("ls-files", "-u", "-z", index=index).output:
            raise CommitWaits("the index has unmerged files", "resolve them, and commit")
        if self.git.run(*asked, branch.commit, "--", index=index, codes=(0, 1)).code:
            raise CommitWaits(
                "you have staged changes that are not committed", "commit them, or git restore --staged ."
            )

    def _put(self, index: Path, branch: Branch, part: CommitPart) -> None:
        """Put the blobs into the index."""
        known = self.entries(branch.commit, list(part.files))
        none = "0" * len(branch.commit)
        lines = []
        for path, blob in part.files.items():
            mode = known[path].mode if path in known and known[path].mode.startswith("100") else FILE
            mode = part.modes.get(path, mode)
            lines.append(f"0 {none}\t{path}" if blob is None else f"{mode} {blob} 0\t{path}")
        stdin = b"".join(os.fsencode(line) + b"\0" for line in lines)
        self.git.run("update-index", "-z", "--index-info", stdin=stdin, index=index)

    def _commit(self, tree: str, parent: str, part: CommitPart, person: tuple[str, str]) -> str:
        identity = {
            "GIT_AUTHOR_NAME": part.author[0],
            "GIT_AUTHOR_EMAIL": part.author[1],
            "GIT_AUTHOR_DATE": f"{int(part.at.timestamp())} +0000",
            "GIT_COMMITTER_NAME": person[0],
            "GIT_COMMITTER_EMAIL": person[1],
        }
        message = part.message.encode("utf-8", "replace")
        parents = [word for one in (parent, part.joins) if one for word in ("-p", one)]
        asked = ("commit-tree", tree, *parents, "-F", "-")
        return self.git.run(*asked, stdin=message, variables=identity).line

    def _lock(self, index: Path, lock: Path) -> None:
        try:
            try:
                os.link(index, lock)
            except FileExistsError:
                raise
            except OSError:  # a file system without hard links
                with lock.open("xb") as file:
                    file.write(index.read_bytes())
        except FileExistsError:
            raise CommitWaits("another git is working: there is an index.lock") from None


Fate = Literal["commit", "after outside", "there", "overtaken"]
UNKNOWN = "?"
"""The blob of a state whose text is no longer kept."""


@dataclass(frozen=True, slots=True)
class FateFacts:
    """What is known of a page beside the blobs of its states.

    `by_act`: an act of the server left it as it is on disk. `later`: the newest commit has a state from after the act. `replaced`: Git
    wrote the file after the act, by a checkout or a stash, or was told to take a later text.
    """

    by_act: bool = False
    later: bool = False
    replaced: bool = False


def fate_of(head: str | None, before: str | None, after: str | None, disk: str | None, facts: FateFacts) -> Fate:
    """Return what to do about one page of an act. Pure.

    The arguments are the blobs of the page's states: in the newest commit (`head`), before and after the act, and on
    disk now. None means that there is no page.
    """
    if head == after:
        return "there"
    if facts.replaced or (disk == head and not facts.by_act) or (facts.later and head != before):
        # Somebody committed a later text, or took the act's text away: by a checkout, a reset or a stash.
        return "overtaken"
    return "commit" if before in (head, UNKNOWN) else "after outside"


def _unusable(root: Path, error: GitFailed) -> NoCheckout:
    if "not a git repository" in error.said:
        return NoCheckout(f"{root} is in no checkout of a Git repository", "git init, and a first commit")
    if "work tree" in error.said or "bare repository" in error.said:
        return NoCheckout(f"{root} is in a bare repository, which has no working tree", "clone it, and serve the clone")
    if "dubious ownership" in error.said:
        return NoCheckout(
            f"the repository of {root} belongs to another account, so git does not use it",
            f"git config --global --add safe.directory {root}",
        )
    return NoCheckout(f"git can't use the repository of {root}: {error}")


def _sum(file: Path) -> str:
    return hashlib.sha256(file.read_bytes()).hexdigest()


def _split(output: bytes) -> Iterator[str]:
    return (os.fsdecode(one) for one in output.split(b"\0") if one)


def some_of(paths: Sequence[str]) -> Iterator[Sequence[str]]:
    """Yield the paths in parts that fit on a command line."""
    return (paths[start : start + AT_ONCE] for start in range(0, len(paths), AT_ONCE))
