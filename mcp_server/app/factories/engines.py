"""Builds search on Qdrant and Meilisearch servers, and keeps the servers up to date with the index.

Loaded only if the settings name a server.
"""

from __future__ import annotations

import logging
from dataclasses import replace
from pathlib import Path
from typing import Protocol

import anyio

from knowledge.errors import EngineUnavailable, StorageError
from knowledge.index.engines.meilisearch.engine import MeilisearchKeywordIndex
from knowledge.index.engines.meilisearch.server import MeilisearchAddress, MeilisearchLine
from knowledge.index.engines.qdrant.engine import QdrantVectorIndex
from knowledge.index.engines.qdrant.points import QdrantOptions
from knowledge.index.engines.qdrant.server import QdrantAddress, QdrantLine
from knowledge.index.engines.standby import StandbyKeyword, StandbyVectors
from knowledge.search.ranking.ranker import Engines
from knowledge.state.locations import server_index_name
from knowledge.state.ports import IndexStore
from mcp_server.app.factories.keywords import indexed_terms
from mcp_server.app.settings.settings import Settings

logger = logging.getLogger("knowledge_forge")

QDRANT_LOCK = "qdrant.lock"
MEILISEARCH_LOCK = "meilisearch.lock"
CHECK_S = 0.5
"""How often the store, not the server, is checked for changes."""
FIRST_PAUSE_S = 1.0
LONGEST_PAUSE_S = 10.0
"""The first and the longest pause while a server is unreachable. Each is twice as long as the one before.

A server that was away for long answers searches again at once, so it should soon get the pages that it missed.
"""


class Follower(Protocol):
    """An engine on a server, whose index follows the store."""

    async def catch_up(self, store: IndexStore) -> int:
        """Bring the server up to date with the store and return the number of rows sent."""
        ...

    async def caught_up(self, store: IndexStore) -> bool:
        """Return whether the server has everything that the store has now."""
        ...


def qdrant_index(settings: Settings, folder: Path) -> QdrantVectorIndex:
    """Return the vector index at FORGE_QDRANT_URL, which connects with its first request."""
    address = QdrantAddress(
        settings.qdrant_url or "",
        settings.qdrant_key,
        grpc=settings.qdrant_grpc_port is not None,
        grpc_port=settings.qdrant_grpc_port or 6334,
    )
    options = QdrantOptions(
        shards=settings.qdrant_shards,
        replicas=settings.qdrant_replicas,
        # Qdrant refuses a write that fewer replicas confirm than this, so it is at most their number.
        write_consistency=min(settings.qdrant_write_consistency, settings.qdrant_replicas),
        on_disk=settings.qdrant_on_disk,
        quantization=settings.qdrant_quantization,
    )
    return QdrantVectorIndex(
        QdrantLine.to(address), server_index_name(folder), lock=folder / QDRANT_LOCK, options=options
    )


def meilisearch_index(settings: Settings, folder: Path, index: IndexStore) -> MeilisearchKeywordIndex:
    """Return the index at FORGE_MEILI_URL, which connects when it is first asked."""
    address = MeilisearchAddress(settings.meili_url or "", settings.meili_key, settings.meili_ca)
    return MeilisearchKeywordIndex(
        MeilisearchLine(address), server_index_name(folder), indexed_terms, lock=folder / MEILISEARCH_LOCK, store=index
    )


def with_servers(
    own: Engines, words: MeilisearchKeywordIndex | None, meaning: QdrantVectorIndex | None, index: IndexStore
) -> Engines:
    """Return engines that ask the servers first, and those of this machine while a server is unreachable."""
    engines = own
    if meaning:
        engines = replace(engines, vectors=StandbyVectors("Qdrant", meaning, own.vectors))
    if words:
        keyword = StandbyKeyword("Meilisearch", words, own.keyword, index)
        # Not ours: Meilisearch ranks by its own rules, so ranks are fused instead of scores.
        engines = replace(engines, keyword=keyword, ours=False)
    return engines


async def keep_up(follower: Follower, index: IndexStore) -> None:
    """Update the server's index whenever the store has changed, until cancelled. While the server is unreachable, try less often."""
    seen: object = None
    pause_s = 0.0
    while True:
        try:
            now = (await index.space()).position, await index.position()
            if now != seen:
                await follower.catch_up(index)
                # Another process may be filling the server right now; then look again.
                seen = now if await follower.caught_up(index) else None
            if pause_s:
                logger.info("the search server answers again")
            pause_s = 0.0
        except (EngineUnavailable, StorageError) as error:
            if not pause_s:
                logger.warning("%s; it is updated when it answers again", error)
            pause_s = min(max(2 * pause_s, FIRST_PAUSE_S), LONGEST_PAUSE_S)
        except Exception:  # the outermost loop: nothing that a server answers may end this process
            logger.exception("a search server could not be updated; trying again")
            pause_s = min(max(2 * pause_s, FIRST_PAUSE_S), LONGEST_PAUSE_S)
        await anyio.sleep(max(pause_s, CHECK_S))
