"""Commits acts on pages: each act one commit, in the order of their audit records, and every act once.

The audit chain is the queue. An act that can't be committed now, because the repository is in use by a person, is committed later;
one that is no longer in the working tree, because somebody committed over it or took it away, is not.
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
    TreeEntry,
    fate_of,
)
from knowledge.git.commit_message import (
    ActOnPages,
    ChangedPath,
    act_of,
    author_of,
    message_of,
    outside_message,
)
from knowledge.git.commit_records import ActCommit, CommitRecords
from knowledge.git.program import NoGit
from knowledge.history.acts import FOLLOW
from knowledge.history.audit.chain import fields_of
from knowledge.history.ports import Ledger
from knowledge.pages.vault import revision_of
from knowledge.state.ports import StateStore

LEASE = "git"
LEASE_S = 60.0
AT_ONCE = 200
"""Audit records that are read at once."""
NEAR = 50
"""Lines of a page's history in which a committed text is looked for."""
FIRST_LOOK_S, LONGEST_LOOK_S = 0.5, 10.0
"""The waits between two looks whether the repository can be committed to; each is twice the one before."""
BETWEEN_S = 0.05
LAST_S = 5.0

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class CommitsLeft:
    """The acts that have no commit yet, and why. `waiting` is None if nothing holds them up."""

    acts: int = 0
    waiting: CommitWaits | None = None
    made: int = 0


@dataclass(frozen=True, slots=True)
class _PageStates:
    """What is known of one page of an act: its path in the repository, and bytes; None is no page, or text that is not kept."""

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
    """Commits the acts of one knowledge base. Any number of processes may, one at a time."""

    def __init__(
        self,
        state: StateStore,
        root: Path,
        environment: Mapping[str, str],
        *,
        holder: str,
        now: Callable[[], datetime],
    ) -> None:
        self._state, self._root, self._holder, self._now = state, root, holder, now
        self._environment = environment
        self._ledger: Ledger = state.ledger
        self._records = CommitRecords(state.tables)
        self._one_commits = anyio.Lock()
        self._passed = 0
        """The newest record of which this process knows that it needs no commit."""

    async def begin(self) -> None:
        """Commit acts from now on, unless that has begun already."""
        if await self._records.position() is None:
            seq, _ = await self._ledger.chain_end()
            await self._records.begin(seq, at=self._now())

    async def run(self) -> None:
        """Commit each act soon after it happens. Runs until it is cancelled."""
        told, look_s = "", FIRST_LOOK_S
        while True:
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
            if left.acts:
                with anyio.move_on_after(look_s):
                    await self._state.changed(seen)
                look_s = min(2 * look_s, LONGEST_LOOK_S)
            else:
                look_s = FIRST_LOOK_S
                await self._state.changed(seen)
            await anyio.sleep(BETWEEN_S)

    async def pending(self) -> Sequence[ActOnPages]:
        """Return the acts without a commit, oldest first, at most `AT_ONCE`."""
        position = await self._records.position()
        if position is None:
            return ()
        after = max(position, self._passed)
        while True:
            records = await self._ledger.records(after=after, limit=AT_ONCE)
            acts = [act for record in records if (act := act_of(record.seq, fields_of(record))) is not None]
            acts = [act for act in acts if act.tool != FOLLOW]
            if acts or len(records) < AT_ONCE:
                self._passed = after if acts or not records else records[-1].seq
                return acts
            after = records[-1].seq

    async def last(self) -> None:
        """Commit what a process that ends has pending, if that takes a few seconds at most; another process does the rest."""
        with anyio.move_on_after(LAST_S, shield=True):
            try:
                await self.commit_pending()
            except (KnowledgeError, OSError):
                log.warning("cannot commit changes to Git now", exc_info=True)

    async def count_pending(self) -> int:
        """Return how many acts have no commit."""
        count, after = 0, await self._records.position()
        while after is not None and (records := await self._ledger.records(after=after, limit=AT_ONCE)):
            acts = [act_of(record.seq, fields_of(record)) for record in records]
            count += sum(act is not None and act.tool != FOLLOW for act in acts)
            after = records[-1].seq
        return count

    async def commit_pending(self) -> CommitsLeft:
        """Commit what is pending, as far as possible; return what is left."""
        async with self._one_commits:
            return await self._commit_in_turn()

    async def _commit_in_turn(self) -> CommitsLeft:
        made = 0
        while True:
            acts = await self.pending()
            if not acts and await self._records.prepared() is None:
                return CommitsLeft(made=made)
            now = self._now()
            if await self._state.acquire_lease(LEASE, self._holder, now=now, ttl_s=LEASE_S) is None:
                return CommitsLeft(len(acts), made=made)
            try:
                await self._finish_prepared()
                checkout = await anyio.to_thread.run_sync(self._checkout)
                # Another process may have committed some of them until it released the lease.
                acts = await self.pending()
                for act in acts:
                    made += await self._commit(checkout, act)
                    await self._state.acquire_lease(LEASE, self._holder, now=self._now(), ttl_s=LEASE_S)
            except NoGit as error:
                return CommitsLeft(len(acts), CommitWaits(str(error), "install it"), made)
            except CommitWaits as error:
                return CommitsLeft(len(await self.pending()), error, made)
            finally:
                with anyio.CancelScope(shield=True):
                    await self._state.release_lease(LEASE, self._holder)

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
        if prepared is None:
            return
        checkout = await anyio.to_thread.run_sync(self._checkout)
        recover = partial(checkout.recover, prepared.base, prepared.commit, prepared.index_sum)
        is_there = await anyio.to_thread.run_sync(recover)
        await anyio.to_thread.run_sync(checkout.remove_leftovers, time.time() - LEFTOVER_S)
        if is_there:
            await self._put(replace(prepared, outcome="made"))
        else:
            await self._records.forget(prepared.record)

    async def _commit(self, checkout: Checkout, act: ActOnPages) -> bool:
        """Commit the act, or record why it needs no commit; return whether there is a commit.

        Raises:
            CommitWaits: it can't be committed now.
        """
        branch = await anyio.to_thread.run_sync(checkout.branch)
        states = [found for change in act.changes if (found := await self._states(checkout, act, change)) is not None]
        if lost := [one.change.path for one in states if one.is_lost]:
            await self._skip(act, f"the text of {lost[0]} after this change is no longer kept")
            return False
        if not states:
            await self._skip(act, "its pages are not in this repository")
            return False
        plan = await anyio.to_thread.run_sync(_planned, checkout, branch, states)
        if not plan.files:
            reason = plan.reason
            is_contained = "there" in plan.fates
            commit = await anyio.to_thread.run_sync(checkout.last_commit_of, states[-1].inner) if is_contained else ""
            await self._put(ActCommit(act.record, "contained" if is_contained else "skipped", commit, reason=reason))
            return False
        person = await anyio.to_thread.run_sync(checkout.person)
        parts = [CommitPart(plan.files, message_of(act), author_of(act, person), act.at)]
        if plan.outside:
            message = outside_message(list(plan.outside), act.record)
            parts.insert(0, CommitPart(plan.outside, message, person, act.at))
        await self._publish(checkout, branch, act, parts)
        return True

    async def _publish(self, checkout: Checkout, branch: Branch, act: ActOnPages, parts: Sequence[CommitPart]) -> None:
        making = checkout.built(branch, parts)
        built: BuiltCommits = await anyio.to_thread.run_sync(making.__enter__)
        try:
            prepared = ActCommit(act.record, "prepared", built.newest, branch.commit, built.index_sum)
            # Recorded before the branch moves, so that the next process knows this commit as that of the act.
            await self._put(prepared)
            with anyio.CancelScope(shield=True):
                try:
                    await anyio.to_thread.run_sync(checkout.publish, built)
                except CommitWaits:
                    await self._records.forget(act.record)
                    raise
                await self._put(replace(prepared, outcome="made"))
        finally:
            with anyio.CancelScope(shield=True):
                await anyio.to_thread.run_sync(making.__exit__, None, None, None)

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
            await self._content(act, change, change.after),
            newest.revision if newest else change.after,
            frozenset(line.revision for line in later if line.revision is not None),
        )

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

    async def _skip(self, act: ActOnPages, reason: str) -> None:
        await self._put(ActCommit(act.record, "skipped", reason=reason))

    async def _put(self, commit: ActCommit) -> None:
        await self._records.put(commit, at=self._now())


@dataclass(frozen=True, slots=True)
class _CommitPlan:
    """The blobs of the act, those of edits made outside before it, and the fate of each page."""

    files: Mapping[str, str | None]
    outside: Mapping[str, str | None]
    fates: frozenset[Fate | str]

    @property
    def reason(self) -> str:
        """Why there is nothing to commit."""
        if "ignored" in self.fates:
            return "the repository ignores its pages (.gitignore)"
        if "overtaken" in self.fates:
            return "the repository had another text of its pages before it could be committed"
        return "the repository had its text already"


def _planned(checkout: Checkout, branch: Branch, states: Sequence[_PageStates]) -> _CommitPlan:
    """Return what of the act is to be committed."""
    entries = checkout.entries(branch.commit, [one.inner for one in states])
    ignored = checkout.ignored([one.inner for one in states if one.inner not in entries])
    files: dict[str, str | None] = {}
    outside: dict[str, str | None] = {}
    fates: set[Fate | str] = set()
    for one in states:
        if one.inner in ignored:
            fates.add("ignored")
            continue
        before, after = (
            _blob(checkout, one, one.change.before, one.before),
            _blob(checkout, one, one.change.after, one.after),
        )
        fate = _fate(checkout, one, entries.get(one.inner), before, after)
        fates.add(fate)
        if fate in ("commit", "after outside"):
            files[one.inner] = after
        if fate == "after outside":
            outside[one.inner] = before
    return _CommitPlan(files, outside, frozenset(fates))


def _fate(checkout: Checkout, one: _PageStates, entry: TreeEntry | None, before: str | None, after: str | None) -> Fate:
    head = entry.blob if entry else None
    try:
        disk: bytes | None = (checkout.top / one.inner).read_bytes()
    except OSError:
        disk = None
    on_disk = None if disk is None else checkout.blob_of(one.inner, disk)
    known = checkout.indexed(one.inner)
    facts = FateFacts(
        by_act=(None if disk is None else revision_of(disk)) == one.by_act,
        later=head is not None and head not in (before, after) and revision_of(checkout.bytes_of(head)) in one.later,
        replaced=known is not None and known.written_at > one.at and known.blob != after,
    )
    return fate_of(head, before, after, on_disk, facts)


def _blob(checkout: Checkout, one: _PageStates, revision: str | None, raw: bytes | None) -> str | None:
    """Return the blob of a state of the page, stored in the repository; None where there was no page."""
    if revision is None:
        return None
    return UNKNOWN if raw is None else checkout.blob_of(one.inner, raw, store=True)
