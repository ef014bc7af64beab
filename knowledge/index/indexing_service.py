"""Keeps the index fresh, in one process at a time: holds a lease, compares all files once, then follows every change."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from datetime import datetime

import anyio
import anyio.to_thread

from knowledge.errors import CorruptDatabase, EmbedderUnavailable, LeaseLost, StorageError, VaultUnavailable
from knowledge.index.file_events import follow
from knowledge.index.indexer import Indexer, Outcomes
from knowledge.index.outage_mark import OutageMark
from knowledge.index.vector_renewal import begin
from knowledge.pages.vault import VaultProblem
from knowledge.state.locations import INDEXING_LEASE
from knowledge.state.ports import IndexIdentity, Lease, StateStore
from knowledge.task_groups import first_error

log = logging.getLogger(__name__)

LEASE = INDEXING_LEASE
TTL_S = 3.0
"""Lifetime of the lease: how long the index goes without updates after its process is killed; missing one renewal is harmless."""
RENEW_S = 1.0
ASK_S = 0.5
"""How often a process that does not index tries to take the lease."""
HEARTBEAT_S = 1.0
RESCAN_S = 600.0
"""Seconds between full comparisons: watching misses changes on some file systems, and when the kernel's queue overflows."""
LOOK_S = 2.0
"""Seconds between comparisons if files cannot be watched; more if a comparison takes over a twentieth of that time."""
RETRY_S = 1.0
LONGEST_RETRY_S = 30.0
RENEW_LOOK_S = 2.0
"""Seconds between checks for chunks without a vector, which cost next to nothing."""
RESTS = 3
LONGEST_REST_S = 0.5
"""The longest pause before a page that keeps changing is indexed again. Up to this limit, the pause is three times
as long as the last indexing took, because writers come first."""
MOST_EVENTS = 100
MOST_PENDING = 5_000


class _StartOver(Exception):
    """The folder or the index was replaced, or the system stopped watching. Not an error."""


class IndexingService:
    """Runs in every process, and indexes in exactly one of them at a time.

    `holder` names this process among all that share the knowledge base, `lease` the right to write this index.
    `rebuild` replaces a damaged index with an empty one (`SqliteIndexStore.rebuild`). `wanted` returns the identity in
    the current settings, because a person may choose another embedder meanwhile. An empty index begins with the
    embedder `at_once`, if given, so that it can be searched before the wanted one has embedded everything. `settle_s`
    seconds after a comparison without differences, the keyword index is caught up anyway, because a killed process may
    have left it behind; until then a quiet start loads no engine.
    """

    def __init__(
        self,
        state: StateStore,
        indexer: Indexer,
        *,
        wanted: Callable[[], IndexIdentity],
        at_once: IndexIdentity | None = None,
        holder: str,
        lease: str = LEASE,
        now: Callable[[], datetime],
        rebuild: Callable[[str], Awaitable[None]] | None = None,
        settle_s: float = 2.0,
    ) -> None:
        self._state, self._indexer, self._wanted, self._holder = state, indexer, wanted, holder
        self._at_once, self._lease, self._now, self._rebuild = at_once, lease, now, rebuild
        self._settle_s = settle_s
        self._stopped = OutageMark(state, lease, now)
        self._troubles: dict[str, str] = {}
        self._pending: set[str] = set()
        self._arrived = anyio.Event()
        self._watch_ended = False
        self.leading = False
        """Whether this process is the one that indexes."""

    @property
    def problems(self) -> tuple[VaultProblem, ...]:
        """The reasons why the index is incomplete or out of date, as far as this process knows."""
        return (*(VaultProblem("", trouble) for trouble in self._troubles.values()), *self._indexer.problems)

    async def run(self) -> None:
        """Index whenever no other process does, until cancelled. No problem with files or index ends it."""
        while True:
            # A process that is stopped while it asks may have been given the lease without learning of it.
            perhaps_ours = True
            try:
                lease = await self._ask()
                perhaps_ours = lease is not None
                if lease is not None:
                    self.leading = True
                    await self._lead(lease)
            finally:
                self.leading = False
                if perhaps_ours:
                    await self._release()
            await anyio.sleep(ASK_S)

    # --- the lease ----------------------------------------------------------------------------------------------------

    async def _ask(self) -> Lease | None:
        try:
            lease = await self._state.acquire_lease(self._lease, self._holder, now=self._now(), ttl_s=TTL_S)
        except Exception as error:  # noqa: BLE001 - whatever is wrong with the state, searching goes on
            self._trouble("state", f"the right to index cannot be requested: {error}")
            return None
        self._troubles.pop("state", None)
        return lease

    async def _release(self) -> None:
        # Shielded, so that a process that is stopped frees the lease instead of leaving it to expire.
        with anyio.move_on_after(TTL_S, shield=True):
            try:
                await self._state.release_lease(self._lease, self._holder)
            except Exception:
                log.warning("the indexing lease was not released; it expires", exc_info=True)

    async def _lead(self, lease: Lease) -> None:
        """Index until the lease is lost. All long work runs in other threads, so the lease is renewed in time."""
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self._work, lease.fence, tasks.cancel_scope)
            expires_at = lease.expires_at
            while True:
                await anyio.sleep(RENEW_S)
                renewed = await self._ask()
                if renewed is None and "state" in self._troubles and self._now() < expires_at:
                    continue  # the database is unavailable, and the lease is still ours
                # Another fence: the lease had run out, and another process may have changed what this one planned with.
                if renewed is None or renewed.fence != lease.fence:
                    break
                expires_at = renewed.expires_at
            tasks.cancel_scope.cancel()

    # --- the work -----------------------------------------------------------------------------------------------------

    async def _work(self, fence: int, leading: anyio.CancelScope) -> None:
        wait_s = RETRY_S
        while True:
            try:
                await self._keep_fresh(fence)
            except _StartOver:
                wait_s = RETRY_S
            except LeaseLost:
                leading.cancel()
                return
            except VaultUnavailable as error:
                self._trouble("work", str(error))
                wait_s = RETRY_S
            except CorruptDatabase as error:
                self._trouble("work", f"the index is damaged and is being rebuilt ({error.reason})")
                try:
                    if self._rebuild is not None:
                        await self._rebuild(error.reason)
                except Exception as again:  # noqa: BLE001 - tried again with the next round
                    self._trouble("work", f"the index is damaged and cannot be rebuilt: {again}")
            except Exception as error:  # the outermost loop: the next try may succeed
                log.exception("indexing stopped")
                self._trouble("work", f"indexing stopped and will be tried again ({type(error).__name__}: {error})")
                await self._stopped.mark(self._holder)
            await anyio.sleep(wait_s)
            wait_s = min(wait_s * 2, LONGEST_RETRY_S)

    async def _keep_fresh(self, fence: int) -> None:
        """Compare everything, then follow changes; ends only by an exception."""
        self._pending, self._arrived, self._watch_ended = set(), anyio.Event(), False
        started, compared = anyio.Event(), anyio.Event()
        async with first_error() as tasks:
            # Before the comparison, so that no change falls between the two.
            tasks.start_soon(self._watch, started)
            await started.wait()
            watched = not self._watch_ended
            if watched:
                self._troubles.pop("watch", None)
            tasks.start_soon(self._renew_vectors, fence, compared)
            await self._follow(fence, compared, watched=watched)

    async def _watch(self, started: anyio.Event) -> None:
        """Collect changes in `_pending`; `started` is set when none can be missed, or files turn out to be unwatchable."""
        try:
            await follow(self._indexer.vault.root, self._collect, started.set)
            reason = "watching ended"
        except Exception as error:  # noqa: BLE001 - the library raises the system's errors as several types
            reason = str(error)
        self._trouble("watch", f"files cannot be watched ({reason}); they are compared every few seconds instead")
        self._watch_ended = True
        # Wakes `_follow`, which starts over without watching.
        if started.is_set():
            self._arrived.set()
        started.set()

    def _collect(self, paths: set[str]) -> None:
        self._pending |= paths
        if len(self._pending) > MOST_PENDING:
            # The path of the root: everything is compared.
            self._pending = {""}
        self._arrived.set()

    async def _renew_vectors(self, fence: int, compared: anyio.Event) -> None:
        """Make vectors whenever some are missing; ends only by an error of the index's database."""
        await compared.wait()
        wait_s = RETRY_S
        while True:
            try:
                await self._indexer.renew(fence)
            except StorageError:
                raise
            except Exception as error:  # the vectors in use stay, and the next try may succeed
                if not isinstance(error, EmbedderUnavailable):
                    log.exception("embedding stopped")
                self._trouble("vectors", f"passages have no vectors of the configured embedder: {error}")
                await anyio.sleep(wait_s)
                wait_s = min(wait_s * 2, LONGEST_RETRY_S)
                continue
            self._troubles.pop("vectors", None)
            wait_s = RETRY_S
            await anyio.sleep(RENEW_LOOK_S)

    async def _follow(self, fence: int, compared: anyio.Event, *, watched: bool) -> None:
        index, vault = self._indexer.index, self._indexer.vault
        folder = await anyio.to_thread.run_sync(vault.identity)
        identity = self._wanted()
        await begin(index, identity, self._at_once)
        generation = (await index.position()).generation
        next_rescan, settled_at = await self._compare(fence, watched=watched)
        if self._at_once is not None:
            await index.begin(identity)
            # The index is filled with the vectors of `at_once`: only here are those of the configured embedder asked for.
            generation = (await index.position()).generation
        compared.set()
        self._troubles.pop("work", None)
        await self._stopped.clear(self._holder)
        rested_at, last_indexed = 0.0, set[str]()
        while True:
            with anyio.move_on_after(HEARTBEAT_S):
                await self._arrived.wait()
            # Only pages that were just indexed have changed again. One that is saved every moment must not keep a core
            # busy; any other change is indexed at once.
            if self._pending and self._pending <= last_indexed:
                await anyio.sleep_until(rested_at)
            paths, self._pending, self._arrived = self._pending, set(), anyio.Event()
            if paths:
                began = anyio.current_time()
                await self._publish(await self._indexer.update(paths, fence))
                ended = anyio.current_time()
                rested_at, last_indexed = ended + min(RESTS * (ended - began), LONGEST_REST_S), paths
                # The keyword index may have failed, or another process may have written it; checking costs little.
                settled_at = min(settled_at, anyio.current_time() + self._settle_s)
            other_folder = folder != await anyio.to_thread.run_sync(vault.identity)
            other_index = generation != (await index.position()).generation
            # A person chose another embedder, or a process with other settings held the lease for a moment.
            other_embedder = not (await index.space()).wanted.same_vectors(self._wanted())
            if other_folder or other_index or other_embedder or (watched and self._watch_ended):
                raise _StartOver
            if anyio.current_time() >= settled_at:
                wait_s = RESCAN_S if await self._indexer.catch_up() else LONGEST_RETRY_S
                settled_at = anyio.current_time() + wait_s
            if anyio.current_time() >= next_rescan:
                next_rescan, settled_at = await self._compare(fence, watched=watched)

    async def _compare(self, fence: int, *, watched: bool) -> tuple[float, float]:
        """Reconcile; return when to do it again, and when to catch up the keyword index."""
        began = anyio.current_time()
        await self._publish(await self._indexer.reconcile(fence))
        ended = anyio.current_time()
        again = RESCAN_S if watched else max(LOOK_S, 20 * (ended - began))
        return ended + again, ended + self._settle_s

    async def _publish(self, outcomes: Outcomes) -> None:
        if not outcomes.changed:
            return
        # Very many changes become one event about the whole map.
        few = len(outcomes.changed) <= MOST_EVENTS
        try:
            await self._state.publish(*(("doc", outcomes.changed) if few else ("map", ("",))))
        except Exception:  # the index is correct anyway; only its listeners miss an event
            log.warning("changes could not be published", exc_info=True)

    def _trouble(self, subject: str, sentence: str) -> None:
        if self._troubles.get(subject) != sentence:
            log.warning("%s", sentence)
        self._troubles[subject] = sentence
