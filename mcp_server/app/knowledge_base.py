"""One open knowledge base: its files, databases and engines, as the settings choose them. Part of the composition root."""

from __future__ import annotations

import logging
import os
import secrets
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

import anyio

from knowledge.errors import DatabaseRefused
from knowledge.extras import install_command
from knowledge.history.past_states import PastStates
from knowledge.index.outage_mark import OutageMark
from knowledge.index.store.sqlite import SqliteIndexStore
from knowledge.offload import StepRunner
from knowledge.pages.vault import Vault
from knowledge.state.locations import INDEXING_LEASE, default_schema, indexing_lease, is_default, state_dir_for
from knowledge.state.moved_folder.former_states import require_decided
from knowledge.state.moved_folder.record import read_record, record_folder
from knowledge.state.ports import Progress, StateStore
from knowledge.state.sqlite.store import SqliteStateStore
from knowledge.writing.locks.page_locks import Locks, PageLocks
from mcp_server import VERSION
from mcp_server.app.factories.embedder import Embedding, embedding
from mcp_server.app.factories.once import Once, awaited_once
from mcp_server.app.factories.reranker import ChosenReranker
from mcp_server.app.settings.settings import DATABASE, Settings
from mcp_server.late_module import LateModule
from mcp_server.workers.index_steps import PagesApart, linked_documents_in
from mcp_server.workers.pool import Workers

if TYPE_CHECKING:
    from knowledge.git import commit_records
    from knowledge.index import indexer as indexers
    from knowledge.index.indexer import Indexer
    from knowledge.search import tiers as page_tiers
    from knowledge.search.finder import Finder
    from knowledge.search.ranking.ranker import Engines
    from knowledge.search.route.second_opinion import RouteAdviser
    from knowledge.search.tiers import Tiers
    from knowledge.state.ports import IndexIdentity
    from knowledge.stored_pages.copy import PagesCopy
    from knowledge.writing.evidence.judge import ContradictionJudge
    from knowledge.writing.evidence.sources import Sources
    from mcp_server.app.access import reading_views
    from mcp_server.app.access.reading_views import OpenView
    from mcp_server.app.factories import engines as servers
    from mcp_server.app.factories import finder as finders
    from mcp_server.app.factories import keywords, pages_copy, writer
    from mcp_server.app.factories import postgres as shared_database
    from mcp_server.app.factories.engines import Follower
    from mcp_server.app.factories.writer import WriterBasis, Writing
    from mcp_server.models import locations as model_locations
    from mcp_server.web.link_graph import graphs as link_graphs
    from mcp_server.web.link_graph.graphs import LinkGraphs
else:
    # Loaded with the first call that needs them: together they take longer than the whole start.
    indexers = LateModule("knowledge.index.indexer")
    page_tiers = LateModule("knowledge.search.tiers")
    servers = LateModule("mcp_server.app.factories.engines")
    finders = LateModule("mcp_server.app.factories.finder")
    keywords = LateModule("mcp_server.app.factories.keywords")
    pages_copy = LateModule("mcp_server.app.factories.pages_copy")
    writer = LateModule("mcp_server.app.factories.writer")
    shared_database = LateModule("mcp_server.app.factories.postgres")
    model_locations = LateModule("mcp_server.models.locations")
    link_graphs = LateModule("mcp_server.web.link_graph.graphs")
    reading_views = LateModule("mcp_server.app.access.reading_views")
    commit_records = LateModule("knowledge.git.commit_records")

logger = logging.getLogger("knowledge_forge")

STATE_FILE = "state.db"
INDEX_FILE = "index.db"
KEYWORD_FOLDER = "keyword"
MODELS_FOLDER = "models"
GRAPH_FOLDER = "graph"
LOCKS_FOLDER = "locks"
VIEWS_FOLDER = "views"
"""Indexes of readable pages alone, for callers who may not read all."""
OUTBOX_LOCKS_FOLDER = "errands"  # not renamed with the code: processes of an older version must meet at the same locks
SUMMARIES = "summaries"
"""The word in FORGE_MODEL_HELPS for lines of maps."""
LONGEST_OUTBOX_WAIT_S = 45.0
"""How long a call waits for another call with the same effect in a service, which may be slow or silent."""
FIRST_PAGES_S = 1.5
"""How long the first search of a server may wait for the first pages of a knowledge base that was never indexed."""


@dataclass(frozen=True, slots=True)
class KnowledgeBase:
    """One open knowledge base: its files, its two databases, and the parts that are loaded at first use."""

    vault: Vault
    state_dir: Path
    state: StateStore
    copy: PagesCopy | None
    """This machine's copy of pages that are in the database; None if they are in the folder."""
    index: SqliteIndexStore
    load_tiers: Callable[[], Tiers]
    load_finder: Callable[[], Finder]
    load_indexer: Callable[[], Indexer]
    engines: Callable[[], Awaitable[Engines]]
    embedding: Embedding
    lease: str
    """The name of the indexing lease, among all indexes that share the state database."""
    followers: Callable[[], Awaitable[Sequence[Follower]]]
    """The engines on search servers, which need to follow the index."""
    load_writing: Callable[[Sources, ContradictionJudge | None], Writing]
    """Builds the writer from the source of evidence in other services and the model that judges contradictions. Call it once."""
    open_view: OpenView
    """Opens the knowledge base as somebody with this access may read it, for as long as the knowledge base is open."""
    load_link_graphs: Callable[[], Awaitable[LinkGraphs]]
    """Returns what computes the graph of links for people."""
    runner: StepRunner
    """Runs long steps in worker processes."""
    locks: PageLocks
    first_search_waits: anyio.Event
    """Set when a search waits for the first pages of the index."""
    outbox_locks: PageLocks
    """Locks of acts in other services, kept separate because such acts are slow and no page should wait for them."""

    @property
    def identity(self) -> IndexIdentity:
        """The identity of the index that these settings need."""
        return self.embedding.wanted

    @property
    def tiers(self) -> Tiers:
        """The map and whole pages."""
        return self.load_tiers()

    @property
    def finder(self) -> Finder:
        """The search."""
        return self.load_finder()

    @property
    def indexer(self) -> Indexer:
        """The indexer, which updates the index from the files."""
        return self.load_indexer()


async def caught_up(copy: PagesCopy | None) -> None:
    """Bring this machine's copy of pages in the database up to date before an answer, if the database can be reached."""
    if copy is not None:
        await pages_copy.caught_up(copy)


@asynccontextmanager
async def open_state(settings: Settings) -> AsyncIterator[StateStore]:
    """Open only the state database of the knowledge base, which is enough for trust and host registration.

    Raises:
        VaultUnavailable, StorageError: as `open_base`.
    """
    vault = Vault.open(settings.kb)
    state = await _state(settings, vault.root, state_folder(vault.root, settings))
    try:
        yield state
    finally:
        await state.close()


def state_folder(root: Path, settings: Settings) -> Path:
    """Return the state folder of the knowledge base at the resolved `root`, and record in it which knowledge base it belongs to.

    Raises:
        UndecidedState: the knowledge base looks like one that was moved, and nobody has decided which state it has.
        UnsafeStateDirectory: as `state_dir_for`.
    """
    named = settings.state_dir.expanduser().resolve() if settings.state_dir else None
    by_default = named is None or is_default(named, root)
    if by_default:
        require_decided(root)
    folder = state_dir_for(root, settings.state_dir)
    record = read_record(folder)
    if record and not by_default and record.path != root and record.is_folder(record.path):
        logger.warning("%s already holds the state of %s; use another --state-dir for this folder", folder, record.root)
    record_folder(folder, root)
    return folder


async def _state(settings: Settings, root: Path, folder: Path) -> StateStore:
    """Open the state store: a file, or a schema in the PostgreSQL database of the settings."""
    if settings.database_url is None:
        return await SqliteStateStore.open(folder / STATE_FILE)
    with needing_psycopg():
        return await shared_database.open_state(settings.database_url, schema_name(root, folder, settings))


def schema_name(root: Path, folder: Path, settings: Settings) -> str:
    """Return the name of the schema in PostgreSQL; a moved knowledge base keeps its default one."""
    record = read_record(folder)
    return settings.database_schema or (record and record.schema) or default_schema(root)


@contextmanager
def needing_psycopg() -> Iterator[None]:
    """Say how to install the client of PostgreSQL if the block cannot load it."""
    try:
        yield
    except ImportError as error:
        raise DatabaseRefused(
            "PostgreSQL", f"psycopg cannot be loaded ({error})", install_command("postgres")
        ) from error


@asynccontextmanager
async def open_base(
    settings: Settings,
    *,
    on_progress: Callable[[Progress], None] = lambda _: None,
    on_renewal: Callable[[Progress], None] = lambda _: None,
    indexing: bool = False,
    lean: bool = False,
    mirror: bool = False,
    load_opinion: Callable[[], RouteAdviser | None] = lambda: None,
) -> AsyncIterator[KnowledgeBase]:
    """Open the knowledge base of these settings, and close everything afterwards.

    `on_progress` gets the number of documents indexed, `on_renewal` the number of passages that have vectors of the
    current embedder. With `indexing`, this process will index, so a first search may wait a moment for that. A `lean`
    process keeps little in memory: another process indexes, and searches read vectors from the index. With `mirror`,
    the folder mirrors pages in the database, and people work in it with an editor such as Obsidian. `load_opinion` is
    called with the first search, and returns what gives a second opinion on questions whose route is unclear.

    Raises:
        VaultUnavailable, StorageError: the folder or a database cannot be used; the message says what to do.
    """
    vault = Vault.open(settings.kb)
    folder = state_folder(vault.root, settings)
    async with AsyncExitStack() as stack:
        state = await _state(settings, vault.root, folder)
        stack.push_async_callback(state.close)
        copy = None
        if settings.pages == DATABASE:
            copy = await pages_copy.copy_of(vault, state, folder, stack, whole=indexing or mirror, mirror=mirror)
        index = await SqliteIndexStore.open(folder / INDEX_FILE)
        stack.push_async_callback(index.close)
        if index.rebuilt:
            logger.warning("the index was damaged (%s); it is being rebuilt", index.rebuilt)
        keyword = Once(lambda: keywords.keyword_engine(folder / KEYWORD_FOLDER))
        vectors = Once(lambda: finders.vector_engine(lean=lean))
        qdrant = Once(lambda: servers.qdrant_index(settings, folder))
        meilisearch = Once(lambda: servers.meilisearch_index(settings, folder, index))
        graphs = Once(
            lambda: link_graphs.LinkGraphs(
                index,
                index.path,
                linked_documents_in,
                folder / GRAPH_FOLDER,
                links_by_name=lambda: tiers().links_by_name,
            )
        )
        reranker = ChosenReranker(settings, models_below(folder, vault.root))
        embed = embedding(settings, index, models_below(folder, vault.root))
        workers = Workers()
        apart = PagesApart(vault.root, index.path, folder / KEYWORD_FOLDER, takes_all=lean)
        past = PastStates(lambda: state.ledger, utc_now)
        here = Locks(folder / LOCKS_FOLDER)
        outbox_here = Locks(folder / OUTBOX_LOCKS_FOLDER, longest_wait_s=LONGEST_OUTBOX_WAIT_S)
        shared = settings.database_url is not None
        locks = shared_database.locks_on(state, here) if shared else here
        # With a space, which no schema has in its name, these are not the locks of another knowledge base's pages.
        outbox_locks = (
            shared_database.locks_on(state, outbox_here, of=f" {OUTBOX_LOCKS_FOLDER}") if shared else outbox_here
        )
        for part in (
            keyword,
            vectors,
            qdrant,
            meilisearch,
            embed,
            reranker,
            graphs,
            workers,
            apart,
            locks,
            outbox_locks,
        ):
            stack.push_async_callback(part.close)

        @awaited_once
        async def engines() -> Engines:
            own = finders.own_engines(await keyword.get(), await vectors.get(), embed.questions)
            words = await meilisearch.get() if settings.meili_url else None
            meaning = await qdrant.get() if settings.qdrant_url else None
            return servers.with_servers(own, words, meaning, index) if words or meaning else own

        async def followers() -> Sequence[Follower]:
            first: list[Follower] = [await meilisearch.get()] if settings.meili_url else []
            return [*first, await qdrant.get()] if settings.qdrant_url else first

        first_search_waits = anyio.Event()

        def finder_on(files: Vault, pages: SqliteIndexStore, find: Callable[[], Awaitable[Engines]]) -> Finder:
            return finders.finder_of(
                files,
                pages,
                find,
                adviser=load_opinion(),
                is_usual_word=lambda word: embed.static().is_usual_word(word),
                answer_tokens=settings.answer_tokens,
                patience_s=FIRST_PAGES_S if indexing else 0.0,
                on_wait=first_search_waits.set,
                weights=finders.stored_weights(folder),
                reranker=reranker,
                index_note=OutageMark(state, lease, utc_now).note,
            )

        @cache
        def tiers() -> Tiers:
            summarised = settings.provider is not None and SUMMARIES in settings.provider.helps
            made = model_locations.remembered_lines(state) if summarised else None
            return page_tiers.Tiers(vault, index, past=past, made=made, runner=workers)

        # If the index has its own state database, its lease needs no name.
        lease = indexing_lease(folder) if shared else INDEXING_LEASE

        finder = cache(lambda: finder_on(vault, index, engines))

        @cache
        def indexer() -> Indexer:
            return indexers.Indexer(
                vault,
                index,
                keyword=keyword.get,
                embedder=embed.passages,
                now_ns=time.time_ns,
                on_progress=on_progress,
                on_renewal=on_renewal,
                apart=apart,
            )

        def basis(sources: Sources, judge: ContradictionJudge | None) -> WriterBasis:
            return writer.WriterBasis(
                vault=vault,
                ledger=state.ledger,
                past=past,
                index=index,
                tiers=tiers(),
                keyword=keyword.get,
                words=embed.static,
                sections_like=lambda text, directory: finder().sections_like(text, directory),
                locks=locks,
                now=utc_now,
                sources=sources,
                runner=workers,
                commit_records=commit_records.CommitRecords(state.tables),
                judge=judge,
                excluded=settings.exclude,
                copy=copy,
            )

        # Built with the first caller who may not read everything.
        view_parts = cache(
            lambda: reading_views.ViewParts(
                vault=vault,
                ledger=state.ledger,
                index=index,
                folder=folder / VIEWS_FOLDER,
                now=utc_now,
                runner=workers,
                questions=embed.questions,
                finder_on=finder_on,
                basis=basis,
                lean=lean,
            )
        )
        yield KnowledgeBase(
            vault=vault,
            state_dir=folder,
            state=state,
            copy=copy,
            index=index,
            load_tiers=tiers,
            load_finder=finder,
            load_indexer=indexer,
            engines=engines,
            embedding=embed,
            lease=lease,
            followers=followers,
            load_writing=lambda sources, judge: writer.writing_on(basis(sources, judge)),
            open_view=lambda access: reading_views.open_view(view_parts(), access, stack),
            load_link_graphs=graphs.get,
            runner=workers,
            locks=locks,
            first_search_waits=first_search_waits,
            outbox_locks=outbox_locks,
        )


def models_below(folder: Path, root: Path) -> Path:
    """Return where the models of the state folder `folder` are stored."""
    # Models are large and the same for all knowledge bases.
    return (folder.parent if is_default(folder, root) else folder) / MODELS_FOLDER


def models_folder(settings: Settings) -> Path:
    """Return where models are stored that a person provides or that are downloaded."""
    root = Vault.open(settings.kb).root
    return models_below(state_folder(root, settings), root)


def utc_now() -> datetime:
    """Return the current time, aware."""
    return datetime.now(UTC)


def holder_name() -> str:
    """Return a name for this process that no other process with this knowledge base has."""
    return f"{os.getpid()}-{VERSION}-{secrets.token_hex(4)}"
