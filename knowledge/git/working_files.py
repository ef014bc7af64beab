"""What Git says about files of the working tree: which are in conflict, and which it wrote itself.

Most knowledge bases are in no repository; for those, this looks for a `.git` above the folder and runs nothing.
"""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path

from knowledge.errors import KnowledgeError
from knowledge.git.checkout import Checkout

LONGEST_WAIT_S = 2.0
"""How long a git that holds the index is waited for."""
LOOK_S = 0.02
CLOCKS_APART = timedelta(seconds=5)
"""The longest time before our write at which a merge that replaced it may have begun."""
LONGEST_AGO = timedelta(minutes=1)


@dataclass(frozen=True, slots=True)
class GitVersion:
    """A page as Git left it; `replaced` is false if, as far as the index tells, Git has not written the page since we did.

    `unknowingly`: a merge or a pull replaced a text that Git had not seen. We wrote the text after Git had looked at
    the page and before it replaced the page. A merge that fails does so too: it puts the working tree back to where it
    was when it began.
    """

    raw: bytes
    unknowingly: bool = False
    replaced: bool = True


class WorkingFiles:
    """The files of one knowledge base. Its methods block for some milliseconds, in a repository."""

    def __init__(self, root: Path, environment: Mapping[str, str]) -> None:
        self._root, self._environment = root, environment
        self._checkout: Checkout | None = None
        self._unmerged: tuple[tuple[int, int, int], frozenset[str]] | None = None

    def in_conflict(self, page: str) -> bool:
        """Return whether Git's index has several versions of the page, because nobody has resolved its conflict yet."""
        checkout = self.checkout()
        if checkout is None:
            return False
        try:
            return checkout.path_of(page) in self._conflicts(checkout)
        except (KnowledgeError, OSError):
            return False  # without git, conflicts are still recognised by their marks

    def left_by_git(self, page: str, ours: bytes, at: datetime) -> GitVersion | None:
        """Return the version with which Git has replaced the page since the server wrote `ours` at `at`; None outside a checkout.

        Git records the times of the files that it wrote in its index, once it has written all of them. Until then it
        holds `index.lock`.
        """
        checkout = self.checkout()
        if checkout is None:
            return None
        try:
            path = checkout.path_of(page)
            if path is None:
                return None
            self._wait(checkout)
            if path in self._conflicts(checkout):
                return GitVersion((checkout.top / path).read_bytes())
            known, blob = checkout.indexed([path]).get(path), checkout.blob_of(path, ours)
            if known is None or known.written_at <= at or known.blob == blob:
                return GitVersion(b"", replaced=False)
            merged = checkout.merged_since(at - CLOCKS_APART)
            knew = not merged or checkout.has_commit_with(path, blob, since=at - LONGEST_AGO)
            return GitVersion(checkout.in_working_tree(path), unknowingly=not knew)
        except (KnowledgeError, OSError):
            return None

    def checkout(self) -> Checkout | None:
        """Return the checkout that the knowledge base is in, None if it is in none that can be used."""
        if self._checkout is not None and self._checkout.git_dir.is_dir():
            return self._checkout
        self._checkout = None
        if not any(os.path.lexists(above / ".git") for above in (self._root, *self._root.parents)):
            return None
        try:
            self._checkout = Checkout.of(self._root, self._environment)
        except KnowledgeError:
            return None
        return self._checkout

    def _conflicts(self, checkout: Checkout) -> frozenset[str]:
        """Return the paths in conflict; the index is read only if it has changed."""
        status = (checkout.git_dir / "index").stat()
        stamp = status.st_mtime_ns, status.st_size, status.st_ino
        if self._unmerged is None or self._unmerged[0] != stamp:
            self._unmerged = stamp, checkout.unmerged()
        return self._unmerged[1]

    def _wait(self, checkout: Checkout) -> None:
        until = time.monotonic() + LONGEST_WAIT_S
        while os.path.lexists(checkout.git_dir / "index.lock") and time.monotonic() < until:
            time.sleep(LOOK_S)
