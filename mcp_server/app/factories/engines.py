"""The composition root's part for search servers: which are configured, and what keeps them up with the store."""

from __future__ import annotations

import logging
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

import anyio

from knowledge.errors import EngineUnavailable, StorageError
from knowledge.state.locations import server_index_name
from mcp_server.app.settings.settings import Settings

if TYPE_CHECKING:
    from collections.abc import Sequence

    from knowledge.index.engines.meilisearch.engine import MeilisearchKeywordIndex
    from knowledge.index.engines.qdrant.engine import QdrantEngine
    from knowledge.index.engines.qdrant.fill import Terms
    from knowledge.index.ports import KeywordIndex
    from knowledge.search.ranking.ranker import Engines
    from knowledge.state.ports import IndexStore, TextRow

logger = logging.getLogger("knowledge_forge")

QDRANT_LOCK = "qdrant.lock"
MEILISEARCH_LOCK = "meilisearch.lock"
LOOK_S = 0.5
"""How often it is asked, of the store alone, whether a server has something to take in."""
FIRST_PAUSE_S = 1.0
LONGEST_PAUSE_S = 60.0


class Follower(Protocol):
    """An engine elsewhere, which has of the store what it was brought."""

    async def catch_up(self, store: IndexStore) -> int:
        """Take in what the store has and this engine has not, and return how many rows that were."""
        ...

    async def caught_up(self, store: IndexStore) -> bool:
        """Return whether it has all that the store has now."""
        ...


def keyword_engine(folder: Path) -> KeywordIndex:
    """Return tantivy, or SQLite's own full-text search where tantivy has no build for this machine."""
    try:
        from knowledge.index.engines.tantivy_keywords import TantivyKeywordIndex
    except ImportError as error:
        from knowledge.index.engines.fts5 import Fts5KeywordIndex

        logger.warning("tantivy cannot be loaded (%s); keyword search runs on SQLite FTS5", error)
        return Fts5KeywordIndex(folder.with_suffix(".fts5.db"), indexed_terms)
    return TantivyKeywordIndex(folder, indexed_terms)


def indexed_terms(row: TextRow) -> Sequence[str]:
    """Return what a keyword index stores of a chunk: the terms of its heading path and text alike."""
    from knowledge.pages.markdown.chunk import Chunk
    from knowledge.search.query.analysis import analyzer

    # The very text that was embedded: during a run its words are still known.
    return analyzer(row.language).terms(Chunk(0, row.section, 0, 0, row.text).indexed_text)


def qdrant_engine(settings: Settings, folder: Path, index: IndexStore, terms: Terms | None) -> QdrantEngine:
    """Return the engine at FORGE_QDRANT_URL; nothing is sent or loaded before it is asked. Runs in a worker thread.

    `terms` makes the words of a chunk; None when words are searched elsewhere.
    """
    from knowledge.index.engines.qdrant.engine import QdrantEngine
    from knowledge.index.engines.qdrant.fill import QdrantOptions
    from knowledge.index.engines.qdrant.server import QdrantAddress, QdrantLine

    address = QdrantAddress(
        settings.qdrant_url or "",
        settings.qdrant_key,
        grpc=settings.qdrant_grpc_port is not None,
        grpc_port=settings.qdrant_grpc_port or 6334,
    )
    options = QdrantOptions(
        shards=settings.qdrant_shards,
        replicas=settings.qdrant_replicas,
        write_consistency=min(settings.qdrant_write_consistency, settings.qdrant_replicas),
        on_disk=settings.qdrant_on_disk,
        quantization=settings.qdrant_quantization,
    )
    return QdrantEngine(
        QdrantLine.to(address),
        server_index_name(folder),
        lock=folder / QDRANT_LOCK,
        terms=terms,
        options=options,
        store=index,
    )


def meilisearch_index(settings: Settings, folder: Path, index: IndexStore) -> MeilisearchKeywordIndex:
    """Return the index at FORGE_MEILI_URL; nothing is sent or loaded before it is asked. Runs in a worker thread."""
    from knowledge.index.engines.meilisearch.engine import MeilisearchKeywordIndex
    from knowledge.index.engines.meilisearch.server import MeilisearchAddress, MeilisearchLine

    address = MeilisearchAddress(settings.meili_url or "", settings.meili_key, settings.meili_ca)
    return MeilisearchKeywordIndex(
        MeilisearchLine(address), server_index_name(folder), lock=folder / MEILISEARCH_LOCK, store=index
    )


def beside(own: Engines, words: MeilisearchKeywordIndex, meaning: QdrantEngine | None, index: IndexStore) -> Engines:
    """Return the engines with which servers are asked first, each alone, and those of this machine when one is away."""
    from knowledge.index.engines.standby import StandbyKeyword, StandbyVectors

    vectors = StandbyVectors("Qdrant", meaning.vectors, own.vectors) if meaning else own.vectors
    keyword = StandbyKeyword("Meilisearch", words, own.keyword, index)
    return replace(own, keyword=keyword, vectors=vectors, hybrid=None, ours=False)


async def keep_up(follower: Follower, index: IndexStore) -> None:
    """Bring the follower up whenever the store has moved on, until cancelled; while its server is away, less often."""
    seen: object = None
    pause_s = 0.0
    while True:
        try:
            now = (await index.space()).position, await index.position()
            if now != seen:
                await follower.catch_up(index)
                # Another process may be filling; then it is looked at again.
                seen = now if await follower.caught_up(index) else None
            if pause_s:
                logger.info("the search server answers again")
            pause_s = 0.0
        except (EngineUnavailable, StorageError) as error:
            if not pause_s:
                logger.warning("%s; it is caught up when it answers again", error)
            pause_s = min(max(2 * pause_s, FIRST_PAUSE_S), LONGEST_PAUSE_S)
        except Exception:  # the outermost loop: no answer of a server may end this process
            logger.exception("a search server could not be brought up; it is tried again")
            pause_s = min(max(2 * pause_s, FIRST_PAUSE_S), LONGEST_PAUSE_S)
        await anyio.sleep(max(pause_s, LOOK_S))
