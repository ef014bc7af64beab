"""The composition root: Settings in, a wired server out. The one place that chooses an adapter."""

from __future__ import annotations

import logging
import os
import secrets
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import anyio
from mcp.server.context import ServerRequestContext
from mcp.server.subscriptions import InMemorySubscriptionBus

from knowledge.errors import DatabaseRefused, KnowledgeError, StorageError
from knowledge.find.ledger import ReadingLedger
from knowledge.paths import INDEX_NAME
from knowledge.storage.places import INDEXING_LEASE, default_schema, indexing_lease, state_dir_for
from knowledge.storage.ports import Progress, StateStore, TextRow
from knowledge.storage.sqlite_index import SqliteIndexStore
from knowledge.storage.sqlite_state import SqliteStateStore
from knowledge.vault import Vault
from mcp_server import VERSION
from mcp_server.changes import SessionSubscribers, follow_changes
from mcp_server.completions import add_completions
from mcp_server.embedding import Embedding, embedding
from mcp_server.engines import Follower, beside, keep_up, meilisearch_index, qdrant_engine
from mcp_server.gate.dispatch import Gate
from mcp_server.gate.enrolment import Callers, Principal, os_user
from mcp_server.gate.extension import GateExtension, refusing
from mcp_server.prompts import add_prompts
from mcp_server.resources import add_resources
from mcp_server.server import INSTRUCTIONS, NAME, ForgeServer, GatedTool
from mcp_server.services import Services
from mcp_server.settings import Settings
from mcp_server.tools.registry import AnySpec, chosen, declared

if TYPE_CHECKING:
    from knowledge.find.circles import Circles
    from knowledge.find.ranking import Engines
    from knowledge.find.search import Finder
    from knowledge.find.typos import Vocabulary
    from knowledge.index.indexer import Indexer
    from knowledge.index.ports import KeywordIndex, VectorIndex
    from knowledge.index.watch import IndexingService
    from knowledge.storage.ports import IndexIdentity, IndexStore

logger = logging.getLogger("knowledge_forge")

T = TypeVar("T")

STATE_FILE = "state.db"
INDEX_FILE = "index.db"
KEYWORD_FOLDER = "keyword"
MODELS_FOLDER = "models"
DAMAGE_LOOK_S = 1.0
"""How often a process asks itself, for next to nothing, whether a search has met damage in the index."""
FIRST_PAGES_S = 1.5
"""How long the first search of a server may wait for the first pages of a knowledge base that was never indexed."""
VOCABULARY_S = 10.0
"""Loading all words of a large knowledge base takes a tenth of a second: at most so often while files keep changing."""
NEW_VECTORS = "%d of %d passages have their new vectors"
START_DELAY_S = 0.3
"""The first moments of a process belong to the host's handshake."""


def utc_now() -> datetime:
    """Return the time, aware."""
    return datetime.now(UTC)


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


@dataclass(frozen=True, slots=True)
class KnowledgeBase:
    """One knowledge base, opened: its files, its two databases, and what is loaded at first use, because it takes time."""

    vault: Vault
    state_dir: Path
    state: StateStore
    index: SqliteIndexStore
    load_circles: Callable[[], Circles]
    load_finder: Callable[[], Finder]
    load_indexer: Callable[[], Indexer]
    engines: Callable[[], Awaitable[Engines]]
    embedding: Embedding
    lease: str
    """The name of the lease on this index, among all indexes that share the state database."""
    followers: Callable[[], Awaitable[Sequence[Follower]]]
    """The engines on search servers, which have to be brought up with the index."""

    @property
    def identity(self) -> IndexIdentity:
        """Return what an index says of itself that is as these settings want it."""
        return self.embedding.wanted

    @property
    def circles(self) -> Circles:
        """Return the first two circles."""
        return self.load_circles()

    @property
    def finder(self) -> Finder:
        """Return the third circle."""
        return self.load_finder()

    @property
    def indexer(self) -> Indexer:
        """Return what keeps the index equal to the files."""
        return self.load_indexer()


@dataclass(frozen=True, slots=True)
class App:
    """The server and what it stands on."""

    server: ForgeServer
    services: Services
    gate: Gate
    base: KnowledgeBase


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
        from knowledge.storage.postgres_state import PostgresStateStore
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
) -> AsyncIterator[KnowledgeBase]:
    """Open the knowledge base that `settings` name; everything is given back afterwards.

    `on_progress` hears how many documents are indexed, `on_renewal` how many passages have vectors of another embedder.
    `indexing` says that somebody here will index it, so that a first search may wait a moment for that.

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
        keyword, vectors = Once(lambda: _keyword(folder / KEYWORD_FOLDER)), Once(_vectors)
        words = None if settings.meili_url else indexed_terms
        qdrant = Once(lambda: qdrant_engine(settings, folder, index, words))
        meilisearch = Once(lambda: meilisearch_index(settings, folder, index))
        # Models are large, and the same for all knowledge bases.
        shared = folder.parent if settings.state_dir is None else folder
        embed = embedding(settings, index, shared / MODELS_FOLDER)
        stack.push_async_callback(embed.close)

        async def engines() -> Engines:
            from knowledge.find.ranking import Engines

            both = await qdrant.get() if settings.qdrant_url else None
            own = Engines(await keyword.get(), await vectors.get(), embed.questions, both.keyword if both else None)
            return beside(own, await meilisearch.get(), both, index) if settings.meili_url else own

        async def followers() -> Sequence[Follower]:
            servers: list[Follower] = [await meilisearch.get()] if settings.meili_url else []
            return [*servers, await qdrant.get()] if settings.qdrant_url else servers

        @cache
        def circles() -> Circles:
            from knowledge.find.circles import Circles

            return Circles(vault, index)

        @cache
        def finder() -> Finder:
            from knowledge.find.router import Router
            from knowledge.find.search import Finder

            return Finder(
                index,
                engines,
                Vocabularies().near,
                router=Router(index, partial(_front_matter, circles)),
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
            )

        lease = _lease(settings, folder)
        yield KnowledgeBase(vault, folder, state, index, circles, finder, indexer, engines, embed, lease, followers)
        for engine in (keyword, vectors, qdrant, meilisearch):
            if engine.built is not None:
                await engine.built.close()


def _vectors() -> VectorIndex:
    from knowledge.index.codes import CodesVectorIndex

    return CodesVectorIndex()


def _keyword(folder: Path) -> KeywordIndex:
    """Return tantivy, or SQLite's own full-text search where tantivy has no build for this machine."""
    try:
        from knowledge.index.tantivy_engine import TantivyKeywordIndex
    except ImportError as error:
        from knowledge.index.fts5 import Fts5KeywordIndex

        logger.warning("tantivy cannot be loaded (%s); keyword search runs on SQLite FTS5", error)
        return Fts5KeywordIndex(folder.with_suffix(".fts5.db"), indexed_terms)
    return TantivyKeywordIndex(folder, indexed_terms)


def indexed_terms(row: TextRow) -> Sequence[str]:
    """Return what a keyword index stores of a chunk: the terms of its heading path and text alike."""
    from knowledge.chunk import Chunk
    from knowledge.find.analysis import analyzer

    # The very text that was embedded: during a run its words are still known.
    return analyzer(row.language).terms(Chunk(0, row.section, 0, 0, row.text).indexed_text)


async def _front_matter(circles: Callable[[], Circles]) -> Mapping[str, object]:
    """Return what the front matter of the root page says; nothing if it went while the index still names it."""
    try:
        return (await circles().read(INDEX_NAME)).metadata
    except KnowledgeError:
        return {}


class Vocabularies:
    """Corrections of typing errors from the words of the index, reloaded when it has moved on, but not at every change."""

    def __init__(self) -> None:
        self._at: object = None
        self._stale_from = 0.0
        self._known: Vocabulary | None = None
        self._found: dict[str, Sequence[str]] = {}

    async def near(self, index: IndexStore, word: str) -> Sequence[str]:
        """Return the known words that `word` may have been meant to be, most frequent first."""
        from knowledge.find.typos import Vocabulary, near

        position = await index.position()
        if self._known is None or (self._at != position and anyio.current_time() >= self._stale_from):
            self._known = await anyio.to_thread.run_sync(Vocabulary, await index.vocabulary())
            self._at, self._found = position, {}
            self._stale_from = anyio.current_time() + VOCABULARY_S
        if word not in self._found:
            self._found[word] = near(word, self._known)
        return self._found[word]


@asynccontextmanager
async def open_app(
    settings: Settings,
    *,
    extra_tools: Sequence[AnySpec] = (),
    extend: Callable[[ForgeServer], None] | None = None,
    indexing: bool = True,
) -> AsyncIterator[App]:
    """Open everything and yield the wired server; with `indexing` this process takes its turn at keeping the index.

    `extra_tools` pass the gate like all others; `extend` may add prompts and resources before anybody connects.
    """
    specs = chosen([*declared(), *extra_tools], toolsets=settings.toolsets, read_only=settings.read_only)
    async with (
        open_base(
            settings, on_progress=_said("indexed %d of %d pages"), on_renewal=_said(NEW_VECTORS), indexing=indexing
        ) as base,
        anyio.create_task_group() as tasks,
    ):
        ledger = ReadingLedger(base.state, utc_now)
        services = Services(base.load_circles, base.load_finder, base.index, base.state, utc_now, lambda: specs, ledger)
        gate = Gate(specs, services)
        bus = InMemorySubscriptionBus()
        server = _server(specs, services, gate, bus, _identifier(settings, base.state))
        if extend is not None:
            extend(server)
        sessions = SessionSubscribers()
        sessions.serve(server)
        tasks.start_soon(ledger.run)
        tasks.start_soon(follow_changes, base.state, bus, sessions)
        if indexing:
            tasks.start_soon(_index_in_turn, base)
            tasks.start_soon(_replace_when_damaged, base.index)
            if settings.qdrant_url or settings.meili_url:
                tasks.start_soon(_keep_servers_up, base)
        try:
            yield App(server, services, gate, base)
        finally:
            tasks.cancel_scope.cancel()


async def _replace_when_damaged(index: SqliteIndexStore) -> None:
    """Put an empty index in the place of one in which a search met damage; whoever indexes notices and fills it.

    The indexing process may not look at the damaged part for hours.
    """
    while True:
        await anyio.sleep(DAMAGE_LOOK_S)
        if index.damaged:
            logger.warning("a search met damage in the index; it is built anew")
            try:
                await index.rebuild("a search met damage")
            except StorageError:
                logger.warning("the damaged index cannot be replaced now", exc_info=True)


def _said(sentence: str, every_s: float = 2.0) -> Callable[[Progress], None]:
    """Return a progress callback that logs how far a long run is; a run that is over at once says nothing."""
    last: float | None = None

    def say(progress: Progress) -> None:
        nonlocal last
        now = time.monotonic()
        if progress.done >= progress.total:
            last = None
        elif last is None:
            last = now
        elif now - last >= every_s:
            last = now
            logger.info(sentence, progress.done, progress.total)

    return say


async def _index_in_turn(base: KnowledgeBase) -> None:
    """Index whenever it is this process's turn. What that needs is loaded a moment after the host's handshake, aside."""
    await anyio.sleep(START_DELAY_S)
    await (await anyio.to_thread.run_sync(indexing_service, base)).run()


async def _keep_servers_up(base: KnowledgeBase) -> None:
    """Bring search servers up with the index. Every process may: the first at it does, the others see that it is done."""
    await anyio.sleep(START_DELAY_S)
    async with anyio.create_task_group() as tasks:
        for follower in await base.followers():
            tasks.start_soon(keep_up, follower, base.index)


def indexing_service(base: KnowledgeBase) -> IndexingService:
    """Return the service that indexes `base` while this process holds the lease."""
    from knowledge.index.watch import IndexingService

    return IndexingService(
        base.state,
        base.indexer,
        identity=base.embedding.wanted,
        at_once=base.embedding.at_once,
        holder=holder_name(),
        lease=base.lease,
        now=utc_now,
        rebuild=base.index.rebuild,
    )


def holder_name() -> str:
    """Return a name for this process among all that share a knowledge base: its number, its version and some chance."""
    return f"{os.getpid()}-{version()}-{secrets.token_hex(4)}"


def _server(
    specs: Sequence[AnySpec],
    services: Services,
    gate: Gate,
    bus: InMemorySubscriptionBus,
    who: Callable[[ServerRequestContext[Any, Any]], Awaitable[Principal]],
) -> ForgeServer:
    with _without_rich():
        server = ForgeServer(
            name=NAME,
            title="Knowledge Forge",
            version=version(),
            instructions=INSTRUCTIONS,
            tools=[GatedTool.of(spec) for spec in specs],
            extensions=[GateExtension(gate, who)],
            middleware=[refusing(gate, who)],
            subscriptions=bus,
            log_level="WARNING",
        )
    add_resources(server, services)
    add_prompts(server, services)
    add_completions(server, services)
    return server


@contextmanager
def _without_rich() -> Iterator[None]:
    """Keep the SDK from loading rich, 30 ms and 5 MB, for log lines whose form `serve` has chosen already."""
    loaded = sys.modules.get("rich.console")
    sys.modules["rich.console"] = None  # type: ignore[assignment]  # how Python marks a module as not to be had
    try:
        yield
    finally:
        if loaded is None:
            del sys.modules["rich.console"]
        else:
            sys.modules["rich.console"] = loaded


def _identifier(
    settings: Settings, state: StateStore
) -> Callable[[ServerRequestContext[Any, Any]], Awaitable[Principal]]:
    """Return how a caller is known: on stdio by this process's secret, over HTTP by the request's bearer token.

    Both are asked of the database each time, so a host whose secret was replaced is a stranger at once.
    """
    callers = Callers(state, os_user())

    async def who(ctx: ServerRequestContext[Any, Any]) -> Principal:
        return await callers.named(settings.enrolment if ctx.request is None else _bearer(ctx.request))

    return who


def _bearer(request: Any) -> str | None:
    scheme, _, token = request.headers.get("authorization", "").partition(" ")
    return token.strip() or None if scheme.lower() == "bearer" else None


def version() -> str:
    """Return this program's version."""
    return VERSION
