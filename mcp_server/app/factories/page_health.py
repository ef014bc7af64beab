"""Counts what may need care among the pages. Loaded with the first view of Home."""

from __future__ import annotations

from collections.abc import Sequence

from knowledge.pages.own_pages import own_pages_among
from knowledge.search.maps.page_health import PageHealth, page_health
from mcp_server.app.knowledge_base import KnowledgeBase
from mcp_server.workers.index_steps import HealthJob, counted_health

APART = 2**20
"""The size that a count states so that a worker process does it: larger than any work that this process does itself."""


async def health_of(base: KnowledgeBase, excluded: Sequence[str], now_ns: int, *, apart: bool) -> PageHealth:
    """Return the health of all pages; counted in another process if `apart`, since all pages and links take much memory.

    Raises:
        VaultUnavailable: the folder is gone.
    """
    by_name = base.tiers.links_by_name
    if apart:
        job = HealthJob(base.vault.root, base.index.path, tuple(excluded), now_ns, by_name)
        return await base.runner.run(counted_health, job, size=APART, what="counting the pages that may need care")
    return await page_health(
        base.index, lambda paths: own_pages_among(base.vault, paths, excluded), now_ns=now_ns, by_name=by_name
    )
