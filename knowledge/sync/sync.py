"""Synchronises the branch that a knowledge base lies on with its remote: commit, fetch, merge, push.

The other side's pages are merged into the working tree by acts, one for each page, and only then a commit joins the two branches. If
the process is killed in between, the pages have the other side's text already, and the next merge finds that both sides agree.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Self, TypeVar

import anyio
import anyio.to_thread

from knowledge.git.act_commits import LEASE, LEASE_S, ActCommits
from knowledge.git.checkout import Branch, Checkout, CommitPart, CommitWaits
from knowledge.git.commit_message import edits_message, joining_message
from knowledge.state.ports import StateStore
from knowledge.sync.arriving_files import ArrivedFile, ArrivingFiles, OnConflict, PagePaths
from knowledge.sync.changed_files import CommitAuthor, authors_of, incoming_files
from knowledge.sync.remote import PushRefused, Remote
from knowledge.writing.acts.ports import PageActs

TRIES = 6
"""How often a push is tried if other pushes overtake it."""
PATIENCE_S = 8.0
"""How long to wait for a hindrance that passes by itself, such as another git that is working."""
TURN_S = LEASE_S + 5
"""How long to wait for another process that commits: if it was killed, its turn ends within a minute."""
LOOK_S = 0.2
BUSY = "another process commits changes now; synchronise again later"
MERGING = "refs/forge/merging"
"""The ref of the other side's commit whose pages are being written. If the process is killed, that commit is merged
before any newer one: pages that have its text already would otherwise be compared with an older state."""

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class SyncOutcome:
    """The outcome of a synchronisation: the files that came in, the edits that were committed, and the number of commits sent."""

    remote: str
    arrived: tuple[ArrivedFile, ...] = ()
    edits: tuple[str, ...] = ()
    sent: int = 0


class Sync:
    """Synchronises one knowledge base. `is_page` tells whether a path of the knowledge base is one that acts can write."""

    def __init__(
        self,
        *,
        state: StateStore,
        root: Path,
        environment: Mapping[str, str],
        remote_environment: Mapping[str, str],
        commits: ActCommits,
        acts: PageActs,
        record_outside: Callable[[], Awaitable[None]],
        is_page: Callable[[str], bool],
        holder: str,
        now: Callable[[], datetime],
    ) -> None:
        self._state, self._root, self._holder, self._now = state, root, holder, now
        self._environment, self._remote_environment = environment, remote_environment
        self._commits, self._acts, self._record_outside, self._is_page = commits, acts, record_outside, is_page

    async def run(self, on_conflict: OnConflict) -> SyncOutcome:
        """Commit what is not committed, merge what the remote has, and push, until both have the same.

        Raises:
            CommitWaits: Git can't be used now, or there is no remote. Nothing was changed.
            RemoteAway: the remote can't be reached; what is committed stays here.
            PushRefused: the remote does not take the commits.
            NoCommonCommit, NotMergeable: nothing was merged.
            KnowledgeError: a page can't be written; a later synchronisation continues.
        """
        checkout = await anyio.to_thread.run_sync(Checkout.of, self._root, self._environment)
        branch = await self._patiently(checkout.branch)
        remote = await anyio.to_thread.run_sync(Remote.of, checkout, branch, self._remote_environment)
        outcome = SyncOutcome(remote.title)
        refused, known = "", ""
        for _ in range(TRIES):
            outcome = replace(outcome, edits=(*outcome.edits, *await self._commit_here(checkout)))
            theirs = await anyio.to_thread.run_sync(remote.fetch)
            # A push by others would have moved the remote: it refused for another reason, which a further fetch does not change.
            if refused and theirs == known:
                raise PushRefused(f"{remote.name} did not take the commits: {refused}")
            arrived = await self._merged(checkout, remote, theirs, on_conflict)
            outcome = replace(outcome, arrived=(*outcome.arrived, *arrived))
            head = await anyio.to_thread.run_sync(checkout.head)
            if head == theirs:
                return outcome
            refused, known = await anyio.to_thread.run_sync(remote.push, head), theirs
            if not refused:
                return replace(outcome, sent=await anyio.to_thread.run_sync(_count, checkout, theirs, head))
        raise PushRefused(f"others pushed to {remote.title} {TRIES} times meanwhile; synchronise again")

    # --- before the merge --------------------------------------------------------------------------------------------

    async def _commit_here(self, checkout: Checkout) -> Sequence[str]:
        """Commit the acts that have no commit yet, and edits made outside the server; return the paths of the latter."""
        while True:
            await self._record_outside()
            await self._patiently_committed()
            edits = await anyio.to_thread.run_sync(self._edits, checkout)
            if not edits:
                return ()
            async with _Turn(self._state, self._holder, self._now):
                # An act that happened meanwhile gets its own commit first.
                if await self._commits.count_pending():
                    continue
                branch = await self._patiently(checkout.branch)
                person = await anyio.to_thread.run_sync(checkout.person)
                part = CommitPart(edits, edits_message(sorted(edits)), person, self._now())
                await self._patiently(partial(self._published, checkout, branch, part))
                return sorted(edits)

    def _edits(self, checkout: Checkout) -> Mapping[str, str | None]:
        """Return the blobs of files below the root that were changed and not committed: those that git knows, and new pages."""
        pages = self._pages(checkout)
        asked = ("status", "--porcelain=v1", "-z", "--untracked-files=all", "--no-renames", "--", pages.below or ".")
        found = [(line[:2], line[3:]) for line in checkout.git.run(*asked).line.split("\0") if line]
        kept = [path for code, path in found if code.strip() != "??" or pages.page_at(path)]
        gone = [path for code, path in found if "D" in code]
        return {**checkout.blobs_of_files([path for path in kept if path not in gone]), **dict.fromkeys(gone)}

    async def _patiently_committed(self) -> None:
        """Commit the acts that are pending; raises `CommitWaits` if they can't be committed."""
        acts, since = 0, anyio.current_time()
        while (left := await self._commits.commit_pending()).acts:
            if left.waiting is not None and left.waiting.mend:
                raise left.waiting
            if left.acts != acts:
                acts, since = left.acts, anyio.current_time()
            # Without a reason, another process has its turn.
            if anyio.current_time() > since + (PATIENCE_S if left.waiting else TURN_S):
                raise left.waiting or CommitWaits(BUSY)
            await anyio.sleep(LOOK_S)

    # --- the merge ---------------------------------------------------------------------------------------------------

    async def _merged(
        self, checkout: Checkout, remote: Remote, theirs: str, on_conflict: OnConflict
    ) -> Sequence[ArrivedFile]:
        """Join the remote's branch, if it has commits that this one has not; return the files that came in."""
        if not theirs:
            return ()
        arrived: list[ArrivedFile] = []
        interrupted = await anyio.to_thread.run_sync(_interrupted, checkout, theirs)
        for commit in (interrupted, theirs):
            if commit:
                arrived += await self._merged_commit(checkout, remote, commit, on_conflict)
        return arrived

    async def _merged_commit(
        self, checkout: Checkout, remote: Remote, theirs: str, on_conflict: OnConflict
    ) -> Sequence[ArrivedFile]:
        while True:
            async with _Turn(self._state, self._holder, self._now) as turn:
                branch = await self._patiently(checkout.branch)
                if await anyio.to_thread.run_sync(checkout.is_ancestor, theirs, branch.commit):
                    return ()
                person = await anyio.to_thread.run_sync(checkout.person)
                # Before any page is written: what is staged would be in the way of the commit.
                await self._patiently(partial(_require_clean, checkout, branch))
                await anyio.to_thread.run_sync(checkout.git.run, "update-ref", MERGING, theirs)
                files = ArrivingFiles(
                    self._pages(checkout), self._acts, branch=branch, title=remote.title, on_conflict=on_conflict
                )
                incoming = await anyio.to_thread.run_sync(incoming_files, checkout, branch.commit, theirs)
                authors = await anyio.to_thread.run_sync(authors_of, checkout, branch.commit, theirs)
                for one in incoming:
                    await files.bring(one, authors.get(one.named, CommitAuthor(theirs, "")))
                    await turn.keep()
                counts = Counter(one.kind for one in files.arrived if one.page)
                message = joining_message(remote.title, dict(sorted(counts.items())))
                part = CommitPart(files.blobs, message, person, self._now(), files.modes, joins=theirs)
                if await self._joined(checkout, branch, part):
                    await anyio.to_thread.run_sync(checkout.git.run, "update-ref", "-d", MERGING)
                    break
        await self._record_outside()
        await self._patiently_committed()
        return files.arrived

    async def _joined(self, checkout: Checkout, branch: Branch, part: CommitPart) -> bool:
        """Move the branch to the commit; False if somebody moved the branch meanwhile, so that it must be merged again."""
        try:
            await self._patiently(partial(self._published, checkout, branch, part))
        except CommitWaits:
            now = await self._patiently(checkout.branch)
            if now == branch:
                raise
            return False
        return True

    def _pages(self, checkout: Checkout) -> PagePaths:
        return PagePaths(checkout, self._is_page)

    def _published(self, checkout: Checkout, branch: Branch, part: CommitPart) -> None:
        with checkout.built(branch, [part]) as built:
            self._commits.move_head(checkout, built)

    async def _patiently(self, work: Callable[[], T]) -> T:
        """Return what `work` returns in a thread, after waiting for hindrances that pass by themselves."""
        until = anyio.current_time() + PATIENCE_S
        while True:
            try:
                return await anyio.to_thread.run_sync(work)
            except CommitWaits as error:
                passes = not error.mend or "index.lock" in error.mend
                if not passes or anyio.current_time() >= until:
                    raise
            await anyio.sleep(LOOK_S)


class _Turn:
    """The right to commit, which one process has at a time."""

    def __init__(self, state: StateStore, holder: str, now: Callable[[], datetime]) -> None:
        self._state, self._holder, self._now = state, holder, now

    async def __aenter__(self) -> Self:
        until = anyio.current_time() + TURN_S
        while not await self._taken():
            if anyio.current_time() >= until:
                raise CommitWaits(BUSY)
            await anyio.sleep(LOOK_S)
        return self

    async def __aexit__(self, *_: object) -> None:
        with anyio.CancelScope(shield=True):
            # Even of a cancelled process, or all others would wait until the lease ends.
            await self._state.release_lease(LEASE, self._holder)

    async def keep(self) -> None:
        """Keep it for another minute."""
        await self._taken()

    async def _taken(self) -> bool:
        return await self._state.acquire_lease(LEASE, self._holder, now=self._now(), ttl_s=LEASE_S) is not None


def _interrupted(checkout: Checkout, theirs: str) -> str:
    """Return the commit whose merge was interrupted, "" if there is none that the other side still has."""
    found = checkout.git.run("rev-parse", "-q", "--verify", f"{MERGING}^{{commit}}", codes=(0, 1)).line
    return found if found and checkout.is_ancestor(found, theirs) else ""


def _require_clean(checkout: Checkout, branch: Branch) -> None:
    with checkout.built(branch, []):
        pass


def _count(checkout: Checkout, since: str, head: str) -> int:
    return int(checkout.git.run("rev-list", "--count", head, *([f"^{since}"] if since else [])).line)
