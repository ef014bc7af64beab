"""Hold the indexing lease and update the index from the files."""

from __future__ import annotations

import logging
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Collection
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace

import anyio
import anyio.to_thread

from knowledge.errors import EmbedderUnavailable, EngineUnavailable
from knowledge.index.indexing_service import TTL_S
from knowledge.index.vector_renewal import begin
from knowledge.leases import holds
from knowledge.state.ports import IndexIdentity, Lease, Progress
from mcp_server.app.factories.embedder import STATIC
from mcp_server.app.freshness.embedder_state import AFTERWARDS, used_meanwhile
from mcp_server.app.knowledge_base import KnowledgeBase, holder_name, utc_now

logger = logging.getLogger("knowledge_forge")

OnProgress = Callable[[Progress], None]

RENEW_S = 1.0  # a third of the lease, as in the indexing service
ASK_S = 0.2


@dataclass(frozen=True, slots=True)
class IndexUpdate:
    """The result of an update: documents that changed or are gone, and chunks that were embedded.

    `waiting` says why passages have no vectors of the configured embedder, and what to do, "" if all have them.
    If passages lacked vectors of it, `kept` is how many had one, and `made` how many got one.
    """

    changed: int = 0
    embedded: int = 0
    waiting: str = ""
    kept: int = 0
    made: int = 0


async def bring_up_to_date(
    base: KnowledgeBase, lease: Lease, *, rebuild: bool = False, new_vectors: bool = False, vectors: bool = False
) -> IndexUpdate:
    """Update the index from the files. `rebuild` makes it from scratch, keeping the vectors of unchanged texts unless `new_vectors`.

    With `vectors` all passages get vectors of the configured embedder. Without `vectors`, an index in use keeps the
    embedder that it has or is getting: a search must not change what other processes find.
    """
    if rebuild:
        if await base.index.check():
            await base.index.rebuild("asked for")
        # No index has this recipe, so it is emptied under a new generation; one for no embedder keeps no vectors either.
        await base.index.begin(IndexIdentity("", 0, 0) if new_vectors else replace(STATIC, recipe=0))
    wanted, space = base.embedding.wanted, await base.index.space()
    in_use = space.identity.recipe == wanted.recipe and (await base.index.progress()).done > 0
    if in_use and not vectors:
        wanted = space.wanted
    # An empty index starts with vectors that are ready at once; those of the wanted embedder follow below.
    await begin(base.index, wanted, base.embedding.at_once)
    outcomes = await base.indexer.reconcile(lease.fence)
    await base.index.begin(wanted)
    kept, made, waiting = 0, 0, ""
    if vectors:
        before = await _renewal(base)
        try:
            await base.indexer.renew(lease.fence)
        except EmbedderUnavailable as error:
            waiting = await _waiting(base, error)
        kept, made = before.done, _lacking(before) - _lacking(await _renewal(base))
    await base.indexer.catch_up()
    for follower in await base.followers():
        try:
            await follower.catch_up(base.index)
        except EngineUnavailable as error:
            logger.warning("%s", error)  # a running `serve` process updates that search server later
    return IndexUpdate(len(outcomes.changed), outcomes.embedded, waiting, kept, made)


async def _waiting(base: KnowledgeBase, error: EmbedderUnavailable) -> str:
    """Return how many passages wait for a vector because of `error`, what searches use meanwhile, and what to do."""
    progress = await _renewal(base)
    lacking = f"{_lacking(progress)} of {progress.total} passages have no vectors of {base.embedding.wanted.embedder}"
    return f"{lacking}: {error}; {await used_meanwhile(base)} until that is fixed; {AFTERWARDS}"


async def _renewal(base: KnowledgeBase) -> Progress:
    return await base.index.renewal() or Progress(0, 0)


def _lacking(progress: Progress) -> int:
    return progress.total - progress.done


async def stale(base: KnowledgeBase, *, besides: Collection[str] = ()) -> int:
    """Return how many documents differ from the index, are missing in it, or are gone.

    Those in `besides` do not count: they can't be indexed.
    """
    return len((await differences(base)).difference(besides))


async def differences(base: KnowledgeBase) -> frozenset[str]:
    """Return the paths of the documents that differ from the index, are missing in it, or are gone."""
    known = {path: stamp for path, (stamp, _, _) in (await base.index.stamps()).items()}
    there = await anyio.to_thread.run_sync(lambda: {found.path: found.stamp for found in base.vault.scan()})
    late = [path for path, stamp in there.items() if known.get(path) != stamp]
    return frozenset({*late, *(known.keys() - there.keys())})


@asynccontextmanager
async def held_lease(
    base: KnowledgeBase,
    *,
    wait_s: float = 0.0,
    or_once: Callable[[], Awaitable[bool]] | None = None,
    on_progress: OnProgress = lambda _: None,
) -> AsyncIterator[Lease | None]:
    """Hold the indexing lease; yield None if another process kept it for `wait_s`.

    Also yield None as soon as `or_once` says that the other process has done what is needed.
    """
    holder = holder_name()

    async def ask() -> Lease | None:
        return await base.state.acquire_lease(base.lease, holder, now=utc_now(), ttl_s=TTL_S)

    async def renew() -> None:
        while True:
            await anyio.sleep(RENEW_S)
            await ask()

    try:
        lease = await ask()
        with anyio.move_on_after(wait_s):
            while lease is None and not (or_once is not None and await or_once()):
                await anyio.sleep(ASK_S)
                on_progress(await base.index.progress())
                lease = await ask()
        if lease is None:
            yield None
            return
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(renew)
            try:
                yield lease
            finally:
                tasks.cancel_scope.cancel()
    finally:
        # After the last renewal has ended, and also if this was stopped while it asked: the lease may have been given. Shielded,
        # so that an interrupted command releases it too, and no other process has to wait until it expires.
        with anyio.CancelScope(shield=True):
            await base.state.release_lease(base.lease, holder)


def up_to_date(base: KnowledgeBase) -> Callable[[], Awaitable[bool]]:
    """Return a function that says whether another process has brought the whole index up to date, vectors included."""
    began = time.monotonic()

    async def done() -> bool:
        progress = await base.index.progress()
        # While documents are left to index, the costly comparison of all files could only say no.
        if not 0 < progress.total <= progress.done:
            return False
        # A process that was killed keeps its lease for a moment, and only time tells that it will not make the vectors.
        alive = time.monotonic() - began > TTL_S or await base.index.renewal() is None
        return alive and not await stale(base)

    return done


async def other_process(base: KnowledgeBase) -> str:
    """Name the process that holds the lease now by its number; "" if none does."""
    lease = await base.state.lease(base.lease)
    held = lease is not None and holds(lease.expires_at, utc_now(), TTL_S)
    return f"process {lease.holder.partition('-')[0]}" if lease is not None and held else ""
