"""Builds the indexing service. Loaded a moment after the start, in the processes that index."""

from __future__ import annotations

from knowledge.index.indexing_service import IndexingService
from mcp_server.app.factories.embedder import STATIC
from mcp_server.app.knowledge_base import KnowledgeBase, utc_now


def indexing_service(base: KnowledgeBase, holder: str) -> IndexingService:
    """Return the service that indexes `base` while this process holds the lease."""
    return IndexingService(
        base.state,
        base.indexer,
        wanted=lambda: base.embedding.wanted,
        at_once=STATIC,
        holder=holder,
        lease=base.lease,
        now=utc_now,
        rebuild=base.index.rebuild,
    )
