"""What `index` and `search` share: taking the lease, bringing the index up to date, and a bar that shows how far it is."""

from __future__ import annotations

import logging
import sys
from collections.abc import AsyncIterator, Callable, Collection, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

import anyio
import anyio.to_thread

from knowledge.errors import EmbedderUnavailable, EngineUnavailable
from knowledge.index.indexing_service import TTL_S
from knowledge.index.vector_renewal import begin
from knowledge.leases import holds
from knowledge.state.ports import IndexIdentity
from mcp_server.cli.terminal.console import EscapedConsole

if TYPE_CHECKING:
    from knowledge.state.ports import Lease, Progress
    from mcp_server.app.knowledge_base import KnowledgeBase

logger = logging.getLogger("knowledge_forge")

RENEW_S = 1.0
ASK_S = 0.2


@dataclass(frozen=True, slots=True)
class IndexUpdate:
    """What a run did: documents that say something else now or are gone, and chunks that were embedded.

    `waiting` says why passages have no vectors of the wanted embedder yet, if they have not.
    """

    changed: int = 0
    embedded: int = 0
    waiting: str = ""


async def bring_up_to_date(
    base: KnowledgeBase, lease: Lease, *, anew: bool = False, vectors: bool = False
) -> IndexUpdate:
    """Make the index say what the files say; with `anew` nothing that was in it is used again.

    With `vectors` all passages get vectors of the embedder that is set, if they have those of another one; without, an
    index that is in use keeps the embedder it has or is getting: looking something up changes nothing for others.
    """
    if anew:
        await _forget(base)
    wanted, space = base.embedding.wanted, await base.index.space()
    in_use = space.identity.recipe == wanted.recipe and (await base.index.progress()).done > 0
    if in_use and not vectors:
        wanted = space.wanted
    await begin(base.index, wanted, base.embedding.at_once)
    outcomes = await base.indexer.reconcile(lease.fence)
    await base.index.begin(wanted)
    waiting = await _renewed(base, lease) if vectors else ""
    await base.indexer.catch_up()
    await _servers_up(base)
    return IndexUpdate(len(outcomes.changed), outcomes.embedded, waiting)


async def _servers_up(base: KnowledgeBase) -> None:
    """Bring search servers up as well. One that is away is told of; a server of ours brings it up later."""
    for follower in await base.followers():
        try:
            await follower.catch_up(base.index)
        except EngineUnavailable as error:
            logger.warning("%s", error)


async def _renewed(base: KnowledgeBase, lease: Lease) -> str:
    """Return why the vectors could not be made anew; nothing when all are there."""
    try:
        await base.indexer.renew(lease.fence)
    except EmbedderUnavailable as error:
        return str(error)
    return ""


async def _forget(base: KnowledgeBase) -> None:
    if await base.index.check():
        await base.index.rebuild("asked for")
    # An index that fits nobody is emptied by the next one who begins with it, under a new generation.
    await base.index.begin(IndexIdentity("", 0, 0))


async def stale(base: KnowledgeBase, *, besides: Collection[str] = ()) -> int:
    """Return how many documents look different on disk than in the index, are missing in it, or are gone.

    Those in `besides` do not count: nobody can index them.
    """
    known = {path: stamp for path, (stamp, _, _) in (await base.index.stamps()).items()}
    there = await anyio.to_thread.run_sync(lambda: {found.path: found.stamp for found in base.vault.scan()})
    late = [path for path, stamp in there.items() if known.get(path) != stamp]
    return len({*late, *(known.keys() - there.keys())}.difference(besides))


@asynccontextmanager
async def held_lease(
    base: KnowledgeBase,
    *,
    wait_s: float = 0.0,
    or_fresh: bool = False,
    on_progress: Callable[[Progress], None] = lambda _: None,
) -> AsyncIterator[Lease | None]:
    """Hold the indexing lease; None if another process kept it for `wait_s`.

    With `or_fresh` it is also None as soon as the other process has brought the index up to date.
    """
    from mcp_server.app.composition import holder_name
    from mcp_server.app.knowledge_base import utc_now

    holder = holder_name()

    async def ask() -> Lease | None:
        return await base.state.acquire_lease(base.lease, holder, now=utc_now(), ttl_s=TTL_S)

    async def renew() -> None:
        while True:
            await anyio.sleep(RENEW_S)
            await ask()

    lease = await ask()
    with anyio.move_on_after(wait_s):
        while lease is None and not (or_fresh and await _is_fresh(base)):
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
            with anyio.CancelScope(shield=True):
                await base.state.release_lease(base.lease, holder)


async def _is_fresh(base: KnowledgeBase) -> bool:
    progress = await base.index.progress()
    # While the other one counts up, comparing every file with the index could only say no.
    return 0 < progress.total <= progress.done and not await stale(base)


async def other_process(base: KnowledgeBase) -> str:
    """Return the name of the process that has the lease now, for a person: its number; empty if nobody has it."""
    from mcp_server.app.knowledge_base import utc_now

    lease = await base.state.lease(base.lease)
    held = lease is not None and holds(lease.expires_at, utc_now(), TTL_S)
    return f"process {lease.holder.partition('-')[0]}" if lease is not None and held else ""


@contextmanager
def bar(*, shown: bool, says: str = "indexing") -> Iterator[Callable[[Progress], None]]:
    """Yield what draws a progress bar on stderr, or nothing where nobody looks."""
    with bars(says, shown=shown) as (drawn,):
        yield drawn


@contextmanager
def bars(*says: str, shown: bool) -> Iterator[Sequence[Callable[[Progress], None]]]:
    """Yield what draws one progress bar for each of `says`; each is seen from its first call on."""
    if not shown or not sys.stderr.isatty():
        yield [lambda _: None for _ in says]
        return
    from rich.progress import BarColumn, MofNCompleteColumn, TaskID, TextColumn, TimeRemainingColumn
    from rich.progress import Progress as Bar

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Bar(*columns, console=EscapedConsole(stderr=True), transient=True) as drawn:

        def draws(task: TaskID) -> Callable[[Progress], None]:
            return lambda p: drawn.update(task, completed=p.done, total=p.total or None, visible=True)

        yield [draws(drawn.add_task(each, total=None, visible=number == 0)) for number, each in enumerate(says)]
