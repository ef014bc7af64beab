"""One knowledge base, opened: its files, its databases and engines, as the settings choose them. Part of the composition root."""

from __future__ import annotations

import logging
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, TypeVar, cast

import anyio

from knowledge.errors import DatabaseRefused, KnowledgeError
from knowledge.history.past_states import Past
from knowledge.index.store.sqlite import SqliteIndexStore
from knowledge.pages.paths import INDEX_NAME
from knowledge.pages.vault import Vault
from knowledge.state.locations import INDEXING_LEASE, default_schema, indexing_lease, is_default, state_dir_for
from knowledge.state.ports import Progress, StateStore
from knowledge.state.sqlite.store import SqliteStateStore
from knowledge.writing.locks.page_locks import Locks, PageLocks
from mcp_server.app.factories.embedder import Embedding, embedding
from mcp_server.app.factories.engines import (
    Follower,
    beside,
    indexed_terms,
    keyword_engine,
    meilisearch_index,
    qdrant_engine,
)
from mcp_server.app.settings.settings import Settings
from mcp_server.workers.index_steps import PagesApart
from mcp_server.workers.pool import Workers

if TYPE_CHECKING:
    from knowledge.index.indexer import Indexer
    from knowledge.index.ports import VectorIndex
    from knowledge.search.finder import Finder
    from knowledge.search.map_lines import Made
    from knowledge.search.ranking.ranker import Engines
    from knowledge.search.route.second_opinion import RouteAdviser
    from knowledge.search.tiers import Tiers
    from knowledge.state.ports import IndexIdentity
    from knowledge.writing.evidence.judge import ContradictionJudge
    from knowledge.writing.evidence.sources import Sources
    from knowledge.writing.locks.postgres_locks import PostgresLocks
    from mcp_server.app.factories.writer import Writing

logger = logging.getLogger("knowledge_forge")

T = TypeVar("T")

STATE_FILE = "state.db"
INDEX_FILE = "index.db"
KEYWORD_FOLDER = "keyword"
MODELS_FOLDER = "models"
LOCKS_FOLDER = "locks"
ERRANDS_FOLDER = "errands"
SUMMARIES = "summaries"
"""What a model may help maps with, as settings name it."""
LONGEST_ERRAND_WAIT_S = 45.0
"""How long a call waits for another one that does the same in another service, which may be slow or silent."""
FIRST_PAGES_S = 1.5
"""How long the first search of a server may wait for the first pages of a knowledge base that was never indexed."""


class Once(Generic[T]):
    """A costly part that is built at first use, once, off the event loop."""

    def __init__(self, build: Callable[[], T]) -> None:
        self._build = build
        self._lock = anyio.Lock()
        self.built: T | None = None

    async def get(self) -> T:
        """Return the part, building it if nobody has."""
        if self.built is None:
            async with self._lock:
                if self.built is None:
                    self.built = await anyio.to_thread.run_sync(self._build)
        return self.built


async def _close(engine: Once[Any]) -> None:
    """Give back what was built."""
    if engine.built is not None:
        await engine.built.close()


@dataclass(frozen=True, slots=True)
class KnowledgeBase:
    """One knowledge base, opened: its files, its two databases, and what is loaded at first use, because it takes time."""

    vault: Vault
    state_dir: Path
    state: StateStore
    index: SqliteIndexStore
    load_tiers: Callable[[], Tiers]
    load_finder: Callable[[], Finder]
    load_indexer: Callable[[], Indexer]
    engines: Callable[[], Awaitable[Engines]]
    embedding: Embedding
    lease: str
    """The name of the lease on this index, among all indexes that share the state database."""
    followers: Callable[[], Awaitable[Sequence[Follower]]]
    """The engines on search servers, which have to be brought up with the index."""
    load_writing: Callable[[Sources, ContradictionJudge | None], Writing]
    """Makes what writes, given where evidence that lies elsewhere is looked up and which model is asked; a process needs it once."""
    locks: PageLocks
    outbox_locks: PageLocks
    """The same for acts in other services, which take longer than a write: no page waits for them."""

    @property
    def identity(self) -> IndexIdentity:
        """Return what an index says of itself that is as these settings want it."""
        return self.embedding.wanted

    @property
    def tiers(self) -> Tiers:
        """Return the first two circles."""
        return self.load_tiers()

    @property
    def finder(self) -> Finder:
        """Return the third circle."""
        return self.load_finder()

    @property
    def indexer(self) -> Indexer:
        """Return what keeps the index equal to the files."""
        return self.load_indexer()


@asynccontextmanager
async def open_state(settings: Settings) -> AsyncIterator[StateStore]:
    """Open only the state database of the knowledge base: trust and enrolment need no more.

    Raises:
        VaultUnavailable, StorageError: as `open_base`.
    """
    vault = Vault.open(settings.kb)
    state = await _state(settings, vault.root, state_dir_for(vault.root, settings.state_dir))
    try:
        yield state
    finally:
        await state.close()


async def _state(settings: Settings, root: Path, folder: Path) -> StateStore:
    """Return the state store: a file of its own, or a schema of the PostgreSQL database that the settings name."""
    if settings.database_url is None:
        return await SqliteStateStore.open(folder / STATE_FILE)
    try:
        from knowledge.state.postgres.store import PostgresStateStore
    except ImportError as error:
        way_out = "pip install 'knowledge-forge[postgres]'"
        raise DatabaseRefused("PostgreSQL", f"psycopg cannot be loaded ({error})", way_out) from error
    schema = settings.database_schema or default_schema(root)
    return await PostgresStateStore.open(settings.database_url, schema)


def _lease(settings: Settings, folder: Path) -> str:
    """Return the name of the indexing lease: with a state of its own an index needs no name."""
    return INDEXING_LEASE if settings.database_url is None else indexing_lease(folder)


@asynccontextmanager
async def open_base(
    settings: Settings,
    *,
    on_progress: Callable[[Progress], None] = lambda _: None,
    on_renewal: Callable[[Progress], None] = lambda _: None,
    indexing: bool = False,
    load_opinion: Callable[[], RouteAdviser | None] = lambda: None,
) -> AsyncIterator[KnowledgeBase]:
    """Open the knowledge base that `settings` name; everything is given back afterwards.

    `on_progress` hears how many documents are indexed, `on_renewal` how many passages have vectors of another embedder.
    `indexing` says that somebody here will index it, so that a first search may wait a moment for that. `load_opinion` returns who
    is asked, from the first search on, about questions whose route is not clear.

    Raises:
        VaultUnavailable, StorageError: the folder or a database cannot be used; the message says what to do.
    """
    vault = Vault.open(settings.kb)
    folder = state_dir_for(vault.root, settings.state_dir)
    async with AsyncExitStack() as stack:
        state = await _state(settings, vault.root, folder)
        stack.push_async_callback(state.close)
        index = await SqliteIndexStore.open(folder / INDEX_FILE)
        stack.push_async_callback(index.close)
        if index.rebuilt:
            logger.warning("the index was damaged (%s); it is built anew", index.rebuilt)
        keyword, vectors = Once(lambda: keyword_engine(folder / KEYWORD_FOLDER)), Once(_vectors)
        words = None if settings.meili_url else indexed_terms
        qdrant = Once(lambda: qdrant_engine(settings, folder, index, words))
        meilisearch = Once(lambda: meilisearch_index(settings, folder, index))
        for engine in (keyword, vectors, qdrant, meilisearch):
            stack.push_async_callback(_close, engine)
        # Models are large, and the same for all knowledge bases.
        shared = folder.parent if is_default(folder, vault.root) else folder
        embed = embedding(settings, index, shared / MODELS_FOLDER)
        stack.push_async_callback(embed.close)

        async def engines() -> Engines:
            from knowledge.search.ranking.ranker import Engines

            both = await qdrant.get() if settings.qdrant_url else None
            own = Engines(await keyword.get(), await vectors.get(), embed.questions, both.keyword if both else None)
            return beside(own, await meilisearch.get(), both, index) if settings.meili_url else own

        async def followers() -> Sequence[Follower]:
            servers: list[Follower] = [await meilisearch.get()] if settings.meili_url else []
            return [*servers, await qdrant.get()] if settings.qdrant_url else servers

        workers = Workers()
        stack.push_async_callback(workers.close)
        apart = PagesApart(vault.root, index.path, folder / KEYWORD_FOLDER)
        stack.push_async_callback(apart.close)
        past, locks = Past(state.ledger, utc_now), _locks(settings, state, Locks(folder / LOCKS_FOLDER))
        outbox_locks = _outbox_locks(settings, state, folder)
        stack.push_async_callback(locks.close)
        stack.push_async_callback(outbox_locks.close)

        @cache
        def tiers() -> Tiers:
            from knowledge.search.tiers import Tiers

            return Tiers(vault, index, past=past, made=_map_lines(settings, state), aside=workers)

        @cache
        def finder() -> Finder:
            from knowledge.search.finder import Finder
            from knowledge.search.query.corrections import Vocabularies
            from knowledge.search.route.router import Router

            return Finder(
                index,
                engines,
                Vocabularies().near,
                router=Router(index, partial(_front_matter, vault), load_opinion()),
                answer_tokens=settings.answer_tokens,
                patience_s=FIRST_PAGES_S if indexing else 0.0,
            )

        @cache
        def indexer() -> Indexer:
            from knowledge.index.indexer import Indexer

            return Indexer(
                vault,
                index,
                keyword=keyword.get,
                embedder=embed.passages,
                now_ns=time.time_ns,
                on_progress=on_progress,
                on_renewal=on_renewal,
                apart=apart,
            )

        def writing(sources: Sources, judge: ContradictionJudge | None) -> Writing:
            from mcp_server.app.factories.writer import WriterBasis, writing_on

            return writing_on(
                WriterBasis(
                    vault=vault,
                    ledger=state.ledger,
                    past=past,
                    index=index,
                    tiers=tiers(),
                    keyword=keyword.get,
                    words=embed.static,
                    locks=locks,
                    now=utc_now,
                    sources=sources,
                    aside=workers,
                    judge=judge,
                )
            )

        yield KnowledgeBase(
            vault=vault,
            state_dir=folder,
            state=state,
            index=index,
            load_tiers=tiers,
            load_finder=finder,
            load_indexer=indexer,
            engines=engines,
            embedding=embed,
            lease=_lease(settings, folder),
            followers=followers,
            load_writing=writing,
            locks=locks,
            outbox_locks=outbox_locks,
        )


def _locks(settings: Settings, state: StateStore, here: Locks, *, of: str = "") -> Locks | PostgresLocks:
    """Return locks: `here` among the processes of this machine, or among all machines that share a database."""
    if settings.database_url is None:
        return here
    from knowledge.state.postgres.store import PostgresStateStore
    from knowledge.writing.locks.postgres_locks import PostgresLocks

    server, schema = cast("PostgresStateStore", state).shared
    return PostgresLocks(here, server, schema + of, longest_wait_s=here.longest_wait_s)


def _outbox_locks(settings: Settings, state: StateStore, folder: Path) -> Locks | PostgresLocks:
    here = Locks(folder / ERRANDS_FOLDER, longest_wait_s=LONGEST_ERRAND_WAIT_S)
    return _locks(settings, state, here, of=f" {ERRANDS_FOLDER}")


def utc_now() -> datetime:
    """Return the time, aware."""
    return datetime.now(UTC)


def _map_lines(settings: Settings, state: StateStore) -> Made | None:
    """Return what tells of lines that a model made for maps, where the settings name one for that."""
    if settings.provider is None or SUMMARIES not in settings.provider.helps:
        return None
    from knowledge.search.map_lines import RememberedLines
    from mcp_server.models.locations import summaries_in

    return RememberedLines(summaries_in(state))


def _vectors() -> VectorIndex:
    from knowledge.index.engines.codes import CodesVectorIndex

    return CodesVectorIndex()


async def _front_matter(vault: Vault) -> Mapping[str, object]:
    """Return what the front matter of the root page says; nothing if there is none, or a link lies in its place."""
    from knowledge.pages.document import head

    try:
        return head((await anyio.to_thread.run_sync(partial(vault.read, INDEX_NAME, plain=True))).raw).metadata
    except KnowledgeError:
        return {}
