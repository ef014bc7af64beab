"""Reads a bare Git repository: its merges of Markdown pages, and its edits, in order."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import IO, Self

LONGEST_PAGE = 200_000


@dataclass(frozen=True, slots=True)
class RealMerge:
    """A page that both parents of a merge commit changed, and people's result."""

    commit: str
    path: str
    base: str
    ours: str
    theirs: str
    result: str


@dataclass(frozen=True, slots=True)
class RealEdit:
    """A page before and after a commit that changed it."""

    commit: str
    path: str
    before: str
    after: str


class Repository:
    """A Git repository, read by Git itself. Open it with `with`."""

    def __init__(self, git_dir: Path) -> None:
        self._git_dir = git_dir
        self._batch: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        self._batch = subprocess.Popen(
            ["git", f"--git-dir={self._git_dir}", "cat-file", "--batch"], stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._batch is not None:
            self._pipe(self._batch.stdin).close()
            self._batch.wait()

    def git(self, *words: str) -> str:
        """Return the output of a Git command."""
        done = subprocess.run(["git", f"--git-dir={self._git_dir}", *words], capture_output=True, check=False)
        return done.stdout.decode("utf-8", "replace")

    def text(self, revision: str, path: str) -> str | None:
        """Return the page at a commit; None if it isn't there, isn't UTF-8, or is very long."""
        if self._batch is None:
            raise RuntimeError("the repository is not open")
        asked, answers = self._pipe(self._batch.stdin), self._pipe(self._batch.stdout)
        asked.write(f"{revision}:{path}\n".encode())
        asked.flush()
        head = answers.readline().split()
        if head[-1] == b"missing" or len(head) != 3:
            return None
        raw = answers.read(int(head[2]))
        answers.read(1)
        if head[1] != b"blob" or len(raw) > LONGEST_PAGE:
            return None
        try:
            return raw.decode("utf-8")
        except UnicodeDecodeError:
            return None

    @staticmethod
    def _pipe(pipe: IO[bytes] | None) -> IO[bytes]:
        if pipe is None:
            raise RuntimeError("Git was started without a pipe")
        return pipe

    def pages(self, revision: str = "HEAD") -> Sequence[str]:
        """Return the paths of all Markdown pages at a commit."""
        return [path for path in self.git("ls-tree", "-r", "--name-only", "-z", revision).split("\0") if is_page(path)]

    def merges(self) -> Iterator[RealMerge]:
        """Yield the pages that both sides of a merge changed, newest merge first."""
        for line in self.git("rev-list", "--merges", "--parents", "HEAD").splitlines():
            commit, *parents = line.split()
            if len(parents) != 2:
                continue
            base = self.git("merge-base", *parents).strip()
            if not base or base in parents:
                continue
            changed = [
                set(self.git("diff", "--name-only", "-z", "--diff-filter=M", "--no-renames", base, p).split("\0"))
                for p in parents
            ]
            for path in sorted(changed[0] & changed[1]):
                if not is_page(path):
                    continue
                found = [self.text(revision, path) for revision in (base, *parents, commit)]
                texts = [text for text in found if text is not None]
                if len(texts) == len(found) and texts[1] != texts[2]:
                    yield RealMerge(commit, path, *texts)

    def edits(self, *, most_files: int = 10) -> Iterator[RealEdit]:
        """Yield the edits of pages by commits that changed at most `most_files`, newest first."""
        log = self.git(
            "log", "--no-merges", "--diff-filter=M", "--no-renames", "--format=%x01%H", "--name-only", "HEAD"
        )
        for entry in log.split("\x01")[1:]:
            commit, *names = [line for line in entry.splitlines() if line]
            if len(names) > most_files:
                continue
            for path in filter(is_page, names):
                before, after = self.text(f"{commit}^", path), self.text(commit, path)
                if before is not None and after is not None and before != after:
                    yield RealEdit(commit, path, before, after)


def is_page(path: str) -> bool:
    """Return whether the path is that of a Markdown page."""
    return path.endswith(".md")
