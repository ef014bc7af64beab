"""Commits acts on pages: each act one commit, in the order of their audit records, and every act once.

The audit chain is the queue. An act is committed later if it can't be committed now because a person is using the
repository. It is never committed if it is no longer in the working tree, because somebody committed over it or took it
away.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial
from pathlib import Path

import anyio
import anyio.to_thread

from knowledge.errors import KnowledgeError
from knowledge.git.checkout import (
    LEFTOVER_S,
    UNKNOWN,
    Branch,
    BuiltCommits,
    Checkout,
    CommitPart,
    CommitWaits,
    Fate,
    FateFacts,
    IndexedFile,
    TreeEntry,
    fate_of,
)
from knowledge.git.commit_message import ActOnPages, ChangedPath, author_of, message_of, outside_message
from knowledge.git.commit_records import ActCommit, CommitRecords
from knowledge.git.head_moves import HeadMoves
from knowledge.git.pending_acts import count_acts, pending_acts
from knowledge.git.program import NoGit
from knowledge.history.ports import Ledger
from knowledge.pages.vault import revision_of
from knowledge.state.ports import StateStore

LEASE = "git"
LEASE_S = 60.0
PAGES_AT_ONCE = 200
"""Pages of an act whose states are looked at together."""
QUIET_S = 10.0
"""An import without a record of its end counts as ended if it has written nothing for this long."""
IMPORT_LOOK_S = 1.0
NEAR = 50
"""Lines of a page's history in which a committed text is looked for."""
FIRST_LOOK_S, LONGEST_LOOK_S = 0.5, 10.0
"""The first and the longest wait before the repository is checked again; each wait is twice as long as the one before."""
BETWEEN_S = 0.05
LAST_S = 5.0
MOST_NAMED = 50
"""The most acts of an import for which a commit by somebody else is searched; each search is a run of git."""

IMPORTING = "an import is writing pages, which will be one commit"

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class CommitsLeft:
    """The acts that have no commit yet, and why. `waiting` is None if nothing holds them up."""

    acts: int = 0
    waiting: CommitWaits | None = None
    made: int = 0


@dataclass(frozen=True, slots=True)
class _PageStates:
    """One page of an act: its path in the repository (`inner`), and its bytes before and after the act.

    The bytes are None if there was no page, or if its text is no longer kept.
    """

    change: ChangedPath
    inner: str
    at: datetime
    """When the act began."""
    before: bytes | None
    after: bytes | None
    by_act: str | None
    """The revision in which the newest act left the page, None if it removed it."""
    later: frozenset[str]
    """The revisions of the page after this act."""

    @property
    def is_lost(self) -> bool:
        """Whether the act's text is no longer kept."""
        return self.change.after is not None and self.after is None


class ActCommits:
    """Commits the acts of one knowledge base. Any number of processes may do this, one at a time."""

    def __init__(
        self,
        state: StateStore,
        root: Path,
        environment: Mapping[str, str],
        *,
        holder: str,
        now: Callable[[], datetime],
        moves: HeadMoves | None = None,
    ) -> None:
        self._state, self._root, self._holder, self._now = state, root, holder, now
        self._environment = environment
        self._moves = moves
        self._ledger: Ledger = state.ledger
        self._records = CommitRecords(state.tables)
        self._one_commits = anyio.Lock()
        self._passed = 0
        """The number up to which this process knows that no audit record needs a commit."""

    async def begin(self) -> None:
        """Commit acts from now on, unless that has begun already."""
        if await self._records.position() is None:
            seq, _ = await self._ledger.chain_end()
            await self._records.begin(seq, at=self._now())

    async def run(self) -> None:
        """Commit each act soon after it happens. Runs until it is cancelled."""
        told, look_s = "", FIRST_LOOK_S
        while True:
            # Read first: an act that comes while others are committed must not be slept through.
            seen = await self._state.last_event()
            left = CommitsLeft()
            try:
                left = await self.commit_pending()
            except (KnowledgeError, OSError):
                log.warning("cannot commit changes to Git now", exc_info=True)
                left = CommitsLeft(1)
            reason = str(left.waiting or "")
            if reason and reason != told:
                log.info("Git commits wait: %s", reason)
            if left.made:
                look_s = FIRST_LOOK_S
            told = reason
            if reason == IMPORTING:
                await anyio.sleep(IMPORT_LOOK_S)
            elif left.acts:
                with anyio.move_on_after(look_s):
                    await self._state.changed(seen)
                look_s = min(2 * look_s, LONGEST_LOOK_S)
            else:
                look_s = FIRST_LOOK_S
                await self._state.changed(seen)
            await anyio.sleep(BETWEEN_S)

    async def pending(self) -> Sequence[ActOnPages]:
        """Return the acts that can be committed, oldest first; those of one import belong together.

        Raises:
            CommitWaits: the only one is of an import that is still writing.
        """
        position = await self._records.position()
        if position is None:
            return ()
        found = await pending_acts(self._ledger, max(position, self._passed))
        self._passed = max(self._passed, found.passed)
        if not found.may_grow:
            return found.acts
        *others, last = found.acts
        if others:
            return others
        if (self._now() - last.at).total_seconds() < QUIET_S:
            raise CommitWaits(IMPORTING)
        return [last]

    async def last(self) -> None:
        """Commit the pending acts before this process ends, if that takes a few seconds at most; another process commits the rest."""
        with anyio.move_on_after(LAST_S, shield=True):
            try:
                await self.commit_pending()
            except (KnowledgeError, OSError):
                log.warning("cannot commit changes to Git now", exc_info=True)

    async def count_pending(self) -> int:
        """Return how many acts have no commit."""
        position = await self._records.position()
        return 0 if position is None else await count_acts(self._ledger, position)

    async def commit_pending(self) -> CommitsLeft:
        """Commit what is pending, as far as possible; return what is left."""
        async with self._one_commits:
            return await self._commit_in_turn()

    async def _commit_in_turn(self) -> CommitsLeft:
        made = 0
        while True:
            acts, done = list[ActOnPages](), 0
            try:
                acts += await self.pending()
                if not acts and not await self._records.prepared():
                    return CommitsLeft(made=made)
                if not await self._is_in_turn():
                    return CommitsLeft(len(acts), made=made)
                try:
                    await self._finish_prepared()
                    checkout = await anyio.to_thread.run_sync(self._checkout)
                    # Another process may have committed some of them until it released the lease.
                    acts[:] = await self.pending()
                    for act in acts:
                        await self._require_turn()
                        made += await self._commit(checkout, act)
                        done += 1
                finally:
                    with anyio.CancelScope(shield=True):
                        await self._state.release_lease(LEASE, self._holder)
            except NoGit as error:
                return CommitsLeft(len(acts), CommitWaits(str(error), "install it"), made)
            except CommitWaits as error:
                return CommitsLeft(max(len(acts) - done, 1), error, made)

    async def _is_in_turn(self) -> bool:
        """Take the lease, or keep it; return whether this process has it."""
        return await self._state.acquire_lease(LEASE, self._holder, now=self._now(), ttl_s=LEASE_S) is not None

    async def _require_turn(self) -> None:
        """Keep the lease.

        Raises:
            CommitWaits: this process slept longer than its lease, and another one makes the commits now.
        """
        if not await self._is_in_turn():
            raise CommitWaits("another server process makes the commits now")

    async def hindrance(self) -> CommitWaits | None:
        """Return what would keep an act from being committed now, None if nothing would."""

        def look() -> None:
            checkout = self._checkout()
            branch = checkout.branch()
            checkout.person()
            with checkout.built(branch, []):
                pass

        try:
            await anyio.to_thread.run_sync(look)
        except NoGit as error:
            return CommitWaits(str(error), "install it")
        except CommitWaits as error:
            return error
        return None

    def _checkout(self) -> Checkout:
        return Checkout.of(self._root, self._environment)

    async def _finish_prepared(self) -> None:
        """Finish or forget the commit of a process that was killed while making it."""
        prepared = await self._records.prepared()
        if not prepared:
            return
        checkout = await anyio.to_thread.run_sync(self._checkout)
        recover = partial(checkout.recover, prepared[0].base, prepared[0].commit, prepared[0].index_sum)
        is_there = await anyio.to_thread.run_sync(recover)
        await anyio.to_thread.run_sync(checkout.remove_leftovers, time.time() - LEFTOVER_S)
        if is_there:
            await self._put(*(replace(one, outcome="made") for one in prepared))
        else:
            await self._records.forget()

    async def _commit(self, checkout: Checkout, act: ActOnPages) -> bool:
        """Commit the act, or record why it needs no commit; return whether there is a commit.

        Raises:
            CommitWaits: it can't be committed now.
        """
        branch = await anyio.to_thread.run_sync(checkout.branch)
        plan = _CommitPlan()
        pages = [(one, change) for one in act.recorded for change in one.changes]
        for start in range(0, len(pages), PAGES_AT_ONCE):
            some = pages[start : start + PAGES_AT_ONCE]
            found = [found for one, change in some if (found := await self._states(checkout, one, change)) is not None]
            lost = [one.change.path for one in found if one.is_lost]
            if lost and not act.import_id:
                reason = f"the text of {lost[0]} after this change is no longer kept"
                await self._put(ActCommit(act.record, "skipped", reason=reason))
                return False
            # The other files of an import make sense without this one.
            states = [one for one in found if not one.is_lost]
            await anyio.to_thread.run_sync(plan.add, checkout, branch, states)
            await self._require_turn()
        without = await anyio.to_thread.run_sync(plan.without_commit, checkout, act)
        await self._require_turn()
        if not plan.files:
            await self._put(*without)
            return False
        person = await anyio.to_thread.run_sync(checkout.person)
        parts = [CommitPart(plan.files, message_of(act), author_of(act, person), act.at)]
        if plan.outside:
            message = outside_message(list(plan.outside), act.record)
            parts.insert(0, CommitPart(plan.outside, message, person, act.at))
        left = {one.record for one in without}
        await self._publish(checkout, branch, [one.record for one in act.recorded if one.record not in left], parts)
        await self._put(*without)
        return True

    async def _publish(
        self, checkout: Checkout, branch: Branch, records: Sequence[int], parts: Sequence[CommitPart]
    ) -> None:
        making = checkout.built(branch, parts)
        built: BuiltCommits = await anyio.to_thread.run_sync(making.__enter__)
        try:
            prepared = [ActCommit(one, "prepared", built.newest, branch.commit, built.index_sum) for one in records]
            # Recorded before the branch moves, so that the next process knows this commit as that of the acts.
            await self._put(*prepared)
            with anyio.CancelScope(shield=True):
                try:
                    await anyio.to_thread.run_sync(self.move_head, checkout, built)
                except CommitWaits:
                    await self._records.forget()
                    raise
                await self._put(*(replace(one, outcome="made") for one in prepared))
        finally:
            with anyio.CancelScope(shield=True):
                await anyio.to_thread.run_sync(making.__exit__, None, None, None)

    def move_head(self, checkout: Checkout, built: BuiltCommits) -> None:
        """Publish the commits; blocks.

        The move of HEAD is noted as the server's own, so that nobody compares all pages because of it.

        Raises:
            CommitWaits: as `Checkout.publish`.
        """
        before = self._moves.moved() if self._moves else ""
        checkout.publish(built)
        if self._moves and not before:
            self._moves.keep(self._moves.stamp())

    async def _states(self, checkout: Checkout, act: ActOnPages, change: ChangedPath) -> _PageStates | None:
        """Return what is known of the page, None if it is not in this repository."""
        inner = await anyio.to_thread.run_sync(checkout.path_of, change.path)
        if inner is None:
            return None
        lines = [line for line in await self._ledger.history(change.path, limit=NEAR) if line.path == change.path]
        later = lines[: next((n for n, line in enumerate(lines) if line.seq == act.record), 0)]
        newest = next((line for line in lines if line.seq is not None), None)
        return _PageStates(
            change,
            inner,
            act.at,
            await self._content(act, change, change.before),
            await self._after(checkout, act, change, inner),
            newest.revision if newest else change.after,
            frozenset(line.revision for line in later if line.revision is not None),
        )

    async def _after(self, checkout: Checkout, act: ActOnPages, change: ChangedPath, inner: str) -> bytes | None:
        if change.is_kept:
            return await self._content(act, change, change.after)
        raw = await anyio.to_thread.run_sync(_read, checkout, inner)
        return raw if raw is not None and revision_of(raw) == change.after else None

    async def _content(self, act: ActOnPages, change: ChangedPath, revision: str | None) -> bytes | None:
        if revision is None:
            return None
        # A page that moved has its earlier states at its new path.
        moved = [one.path for one in act.changes if one.moved_from == change.path]
        for path in (change.path, *moved):
            raw = await self._ledger.content(path, revision)
            if raw is not None:
                return raw
        return None

    async def _put(self, *commits: ActCommit) -> None:
        await self._records.put(*commits, at=self._now())


class _CommitPlan:
    """The blobs of an act to commit: its own in `files`, those of earlier edits made outside the server in `outside`."""

    def __init__(self) -> None:
        self.files: dict[str, str | None] = {}
        self.outside: dict[str, str | None] = {}
        self._fates: dict[str, tuple[Fate | str, str]] = {}
        """For each page in this repository, what becomes of it, and its path there."""

    def add(self, checkout: Checkout, branch: Branch, states: Sequence[_PageStates]) -> None:
        """Plan these pages, too."""
        inner = [one.inner for one in states]
        entries, indexed = checkout.entries(branch.commit, inner), checkout.indexed(inner)
        ignored = checkout.ignored([path for path in inner if path not in entries])
        blobs = _StateBlobs(checkout, states)
        for one in states:
            if one.inner in ignored:
                self._fates[one.change.path] = "ignored", one.inner
                continue
            before, after = blobs.of(one, one.change.before, one.before), blobs.of(one, one.change.after, one.after)
            fate = _fate(checkout, one, (entries.get(one.inner), indexed.get(one.inner)), (before, after), blobs)
            self._fates[one.change.path] = fate, one.inner
            if fate in ("commit", "after outside"):
                self.files[one.inner] = after
            if fate == "after outside":
                self.outside[one.inner] = before

    def without_commit(self, checkout: Checkout, act: ActOnPages) -> Sequence[ActCommit]:
        """Return the outcome, with the reason, of each record of the act of which nothing is committed."""
        without: list[ActCommit] = []
        for one in act.recorded:
            fates = [self._fates[change.path] for change in one.changes if change.path in self._fates]
            if not any(inner in self.files for _, inner in fates):
                without.append(self._uncommitted(checkout, one.record, dict(fates), named=len(without) < MOST_NAMED))
        return without

    def _uncommitted(
        self, checkout: Checkout, record: int, fates: Mapping[Fate | str, str], *, named: bool
    ) -> ActCommit:
        if not fates:
            reason = "its pages are not in this repository, or their text is no longer kept"
        elif "ignored" in fates:
            reason = "the repository ignores its pages (.gitignore)"
        elif "overtaken" in fates:
            reason = "the repository had another text of its pages before it could be committed"
        else:
            reason = "the repository had its text already"
        if "there" in fates:
            commit = checkout.last_commit_of(fates["there"]) if named else ""
            return ActCommit(record, "contained", commit, reason=reason)
        return ActCommit(record, "skipped", reason=reason)


class _StateBlobs:
    """The blobs of states of pages, stored in the repository. Files that have the state of an act are stored by one run of git."""

    def __init__(self, checkout: Checkout, states: Sequence[_PageStates]) -> None:
        self._checkout = checkout
        self.on_disk = {one.inner: _read(checkout, one.inner) for one in states}
        as_left = [one.inner for one in states if one.after is not None and one.after == self.on_disk[one.inner]]
        stored = checkout.blobs_of_files(as_left) if len(as_left) > 1 else {}
        # Only if they are still the same: an editor may have saved them meanwhile.
        self._stored = {path: blob for path, blob in stored.items() if _read(checkout, path) == self.on_disk[path]}

    def of(self, one: _PageStates, revision: str | None, raw: bytes | None) -> str | None:
        """Return the blob of the page at `revision`; None if there was no page, `UNKNOWN` if its text is no longer kept."""
        if revision is None:
            return None
        if raw is None:
            return UNKNOWN
        if raw == self.on_disk[one.inner] and one.inner in self._stored:
            return self._stored[one.inner]
        return self._checkout.blob_of(one.inner, raw, store=True)

    def of_disk(self, one: _PageStates) -> str | None:
        """Return the blob that git would make of the file on disk; None if there is no file."""
        raw = self.on_disk[one.inner]
        if raw is None:
            return None
        return self._stored.get(one.inner) or self._checkout.blob_of(one.inner, raw)


def _read(checkout: Checkout, path: str) -> bytes | None:
    try:
        return (checkout.top / path).read_bytes()
    except OSError:
        return None


def _fate(
    checkout: Checkout,
    one: _PageStates,
    git: tuple[TreeEntry | None, IndexedFile | None],
    blobs: tuple[str | None, str | None],
    known: _StateBlobs,
) -> Fate:
    entry, indexed = git
    before, after = blobs
    head, disk = entry.blob if entry else None, known.on_disk[one.inner]
    facts = FateFacts(
        by_act=(None if disk is None else revision_of(disk)) == one.by_act,
        later=head is not None and head not in (before, after) and revision_of(checkout.bytes_of(head)) in one.later,
        replaced=indexed is not None and indexed.written_at > one.at and indexed.blob != after,
    )
    return fate_of(head, before, after, known.of_disk(one), facts)
