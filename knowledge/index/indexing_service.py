"""One process keeps the index fresh: it holds a lease, compares all files once, then follows every change."""

from __future__ import annotations

import logging
from functools import partial
from typing import TYPE_CHECKING

import anyio
import anyio.to_thread

from knowledge.errors import CorruptDatabase, EmbedderUnavailable, LeaseLost, StorageError, VaultUnavailable
from knowledge.index.file_events import follow
from knowledge.index.vector_renewal import begin
from knowledge.pages.vault import VaultProblem
from knowledge.state.locations import INDEXING_LEASE

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from datetime import datetime

    from knowledge.index.indexer import Indexer, Outcomes
    from knowledge.state.ports import IndexIdentity, Lease, StateStore

log = logging.getLogger(__name__)

LEASE = INDEXING_LEASE
TTL_S = 3.0
RENEW_S = 1.0
ASK_S = 0.5
"""How often a process that does not index asks whether it may."""
HEARTBEAT_S = 1.0
RESCAN_S = 600.0
"""Watching misses changes on some file systems and when the kernel's queue overflows; all files are compared this often."""
LOOK_S = 2.0
"""Where files cannot be watched, they are compared this often, or as seldom as keeps it under a twentieth of the time."""
RETRY_S = 1.0
LONGEST_RETRY_S = 30.0
RENEW_LOOK_S = 2.0
"""How often it is asked, for next to nothing, whether chunks lack a vector."""
RESTS = 3
LONGEST_REST_S = 0.5
"""A page that keeps changing is taken in again after three times as long as it took, half a second at most: writers come first."""
MOST_EVENTS = 100
MOST_PENDING = 5_000


class _StartOver(Exception):
    """No error: the folder or the index is another one now, or the system stopped telling of changes."""


class IndexingService:
    """Runs in every process; in exactly one of them at a time it indexes.

    `holder` names this process among all that share the knowledge base, `lease` the right to write this very index.
    `rebuild` replaces a damaged index by an empty one (`SqliteIndexStore.rebuild`). An empty index is begun with the
    embedder `at_once`, if given, so that it serves before that of `identity` has embedded everything. `settle_s` after a
    comparison that found nothing new the keyword index is caught up all the same, because a killed process may have
    left it behind; until then a quiet start loads no engine.
    """

    def __init__(
        self,
        state: StateStore,
        indexer: Indexer,
        *,
        identity: IndexIdentity,
        at_once: IndexIdentity | None = None,
        holder: str,
        lease: str = LEASE,
        now: Callable[[], datetime],
        rebuild: Callable[[str], Awaitable[None]] | None = None,
        settle_s: float = 2.0,
        rescan_s: float = RESCAN_S,
        watching: bool = True,
    ) -> None:
        self._state, self._indexer, self._identity, self._holder = state, indexer, identity, holder
        self._at_once, self._lease, self._now, self._rebuild = at_once, lease, now, rebuild
        self._settle_s, self._rescan_s = settle_s, rescan_s
        self._watching = watching
        self._troubles: dict[str, str] = {}
        self._pending: set[str] = set()
        self._arrived = anyio.Event()
        self._watch_ended = False
        self.leading = False
        """Whether this process is the one that indexes."""

    @property
    def problems(self) -> tuple[VaultProblem, ...]:
        """Return what stands in the way of a complete and fresh index, as far as this process knows."""
        return (*(VaultProblem("", trouble) for trouble in self._troubles.values()), *self._indexer.problems)

    async def run(self) -> None:
        """Index whenever no other process does, until cancelled. Nothing that goes wrong with files or index ends it."""
        while True:
            lease = await self._ask()
            if lease is not None:
                try:
                    self.leading = True
                    await self._lead(lease)
                finally:
                    self.leading = False
                    await self._release()
            await anyio.sleep(ASK_S)

    # --- the lease ----------------------------------------------------------------------------------------------------

    async def _ask(self) -> Lease | None:
        try:
            lease = await self._state.acquire_lease(self._lease, self._holder, now=self._now(), ttl_s=TTL_S)
        except Exception as error:  # noqa: BLE001  whatever the store has, the process that searches must live on
            self._trouble("state", f"cannot ask whether to index: {error}")
            return None
        self._troubles.pop("state", None)
        return lease

    async def _release(self) -> None:
        with anyio.move_on_after(RENEW_S, shield=True):
            try:
                await self._state.release_lease(self._lease, self._holder)
            except Exception:
                log.warning("the indexing lease was not given back; it expires", exc_info=True)

    async def _lead(self, lease: Lease) -> None:
        async with anyio.create_task_group() as both:
            both.start_soon(self._work, lease.fence, both.cancel_scope)
            await self._renew(lease)
            both.cancel_scope.cancel()

    async def _renew(self, lease: Lease) -> None:
        """Return when the lease is lost. All long work runs in other threads, so this is never late by much."""
        expires_at = lease.expires_at
        while True:
            await anyio.sleep(RENEW_S)
            renewed = await self._ask()
            if renewed is None and "state" in self._troubles and self._now() < expires_at:
                continue
            if renewed is None or renewed.fence != lease.fence:
                return
            expires_at = renewed.expires_at

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
                await self._rebuild_index(error)
            except Exception as error:  # the outermost loop: the next try may fare better
                log.exception("indexing stopped")
                self._trouble("work", f"indexing stopped and is tried again ({type(error).__name__}: {error})")
            await anyio.sleep(wait_s)
            wait_s = min(wait_s * 2, LONGEST_RETRY_S)

    async def _rebuild_index(self, error: CorruptDatabase) -> None:
        self._trouble("work", f"the index is damaged and is built anew ({error.reason})")
        try:
            if self._rebuild is not None:
                await self._rebuild(error.reason)
        except Exception as again:  # noqa: BLE001  tried again with the next round
            self._trouble("work", f"the index is damaged and cannot be built anew: {again}")

    async def _keep_fresh(self, fence: int) -> None:
        """Compare everything, then follow changes; ends only by an exception."""
        self._pending, self._arrived, self._watch_ended = set(), anyio.Event(), False
        failures: list[Exception] = []
        async with anyio.create_task_group() as tasks:

            async def guarded(work: Callable[[], Awaitable[object]]) -> None:
                try:
                    await work()
                except Exception as error:  # noqa: BLE001  raised below, as itself and not in a group
                    failures.append(error)
                tasks.cancel_scope.cancel()

            started, compared = anyio.Event(), anyio.Event()
            if self._watching:
                tasks.start_soon(self._watch, started)
                await started.wait()
            if self._watching and not self._watch_ended:
                self._troubles.pop("watch", None)
            tasks.start_soon(guarded, partial(self._renew_vectors, fence, compared))
            watched = self._watching and not self._watch_ended
            await guarded(partial(self._follow, fence, compared, watched=watched))
        if failures:
            raise failures[0]

    async def _watch(self, started: anyio.Event) -> None:
        """Collect changes in `_pending`; `started` is set once nothing can be missed any more, or it is known that it can."""
        try:
            await follow(self._indexer.vault.root, self._collect, started.set)
            reason = "watching ended"
        except Exception as error:  # noqa: BLE001  the library raises what the system says, in several types
            reason = str(error)
        self._trouble("watch", f"files cannot be watched ({reason}); they are compared every few seconds instead")
        self._watch_ended = True
        if started.is_set():
            self._arrived.set()
        started.set()

    def _collect(self, paths: set[str]) -> None:
        self._pending |= paths
        if len(self._pending) > MOST_PENDING:
            self._pending = {""}
        self._arrived.set()

    async def _renew_vectors(self, fence: int, compared: anyio.Event) -> None:
        """Make vectors anew whenever some are lacking; ends only by what the index's database says."""
        await compared.wait()
        wait_s = RETRY_S
        while True:
            try:
                await self._indexer.renew(fence)
            except StorageError:
                raise
            except Exception as error:  # what serves goes on serving, and the next try may fare better
                if not isinstance(error, EmbedderUnavailable):
                    log.exception("embedding stopped")
                self._trouble("vectors", f"passages wait for their vectors: {error}")
                await anyio.sleep(wait_s)
                wait_s = min(wait_s * 2, LONGEST_RETRY_S)
                continue
            self._troubles.pop("vectors", None)
            wait_s = RETRY_S
            await anyio.sleep(RENEW_LOOK_S)

    async def _follow(self, fence: int, compared: anyio.Event, *, watched: bool) -> None:
        index, vault = self._indexer.index, self._indexer.vault
        folder = await anyio.to_thread.run_sync(vault.identity)
        await begin(index, self._identity, self._at_once)
        generation = (await index.position()).generation
        next_rescan, settled_at = await self._compare(fence, watched=watched)
        if self._at_once is not None:
            await index.begin(self._identity)
            generation = (await index.position()).generation
        compared.set()
        self._troubles.pop("work", None)
        rested_at, taken_in = 0.0, set[str]()
        while True:
            with anyio.move_on_after(HEARTBEAT_S):
                await self._arrived.wait()
            if self._pending and self._pending <= taken_in:
                await anyio.sleep_until(rested_at)
            paths, self._pending, self._arrived = self._pending, set(), anyio.Event()
            if paths:
                began = anyio.current_time()
                await self._publish(await self._indexer.update(paths, fence))
                ended = anyio.current_time()
                rested_at, taken_in = ended + min(RESTS * (ended - began), LONGEST_REST_S), paths
                # Its keyword part may have failed, or found a predecessor at work; looking again costs next to nothing.
                settled_at = min(settled_at, anyio.current_time() + self._settle_s)
            same = folder == await anyio.to_thread.run_sync(vault.identity)
            other = generation != (await index.position()).generation
            # Somebody who was asked for another embedder may have had the lease for a moment.
            other = other or not (await index.space()).wanted.same_vectors(self._identity)
            if not same or (watched and self._watch_ended) or other:
                raise _StartOver
            if anyio.current_time() >= settled_at:
                settled_at = anyio.current_time() + (
                    self._rescan_s if await self._indexer.catch_up() else LONGEST_RETRY_S
                )
            if anyio.current_time() >= next_rescan:
                next_rescan, settled_at = await self._compare(fence, watched=watched)

    async def _compare(self, fence: int, *, watched: bool) -> tuple[float, float]:
        """Reconcile; return when to do so again, and when to see that the keyword index is there."""
        began = anyio.current_time()
        await self._publish(await self._indexer.reconcile(fence))
        ended = anyio.current_time()
        again = self._rescan_s if watched else max(LOOK_S, 20 * (ended - began))
        return ended + again, ended + self._settle_s

    async def _publish(self, outcomes: Outcomes) -> None:
        if not outcomes.changed:
            return
        few = len(outcomes.changed) <= MOST_EVENTS
        publish = partial(self._state.publish, *(("doc", outcomes.changed) if few else ("map", ("",))))
        try:
            await publish()
        except Exception:  # the index is right all the same
            log.warning("what changed could not be announced", exc_info=True)

    def _trouble(self, what: str, sentence: str) -> None:
        if self._troubles.get(what) != sentence:
            log.warning("%s", sentence)
        self._troubles[what] = sentence
