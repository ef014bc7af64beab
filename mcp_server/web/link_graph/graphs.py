"""Keeps the computed graph of links up to date with the index, and hands out its files."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable
from pathlib import Path

import anyio
import anyio.to_thread

from knowledge.errors import KnowledgeError
from knowledge.state.ports import IndexStore
from mcp_server.web.link_graph.computation import DATA_FILE, OVERVIEW_FILE, SOON, GraphJob, Reading, computed
from mcp_server.web.link_graph.overview import GraphOverview, overview_from
from mcp_server.workers.pool import Workers

logger = logging.getLogger("knowledge_forge.review")

CPU_S, WALL_S = 300, 900.0
"""Processor time and elapsed time of one computation; 100,000 pages with 400,000 links take half a minute."""
MEMORY_BYTES = 4 * 2**30
LOOK_S = 0.05
"""How often a caller looks for the provisional graph while another one's computation is under way."""


class LinkGraphs:
    """The graph of links of one knowledge base, computed in another process into `folder` when the index has changed."""

    def __init__(
        self, index: IndexStore, index_file: Path, read: Reading, folder: Path, *, links_by_name: Callable[[], bool]
    ) -> None:
        self._index, self._index_file, self._read_index = index, index_file, read
        self._folder, self._by_name = folder, links_by_name
        self._workers = Workers(most=1, inline_characters=-1, cpu_s=CPU_S, wall_s=WALL_S, memory_bytes=MEMORY_BYTES)
        self._lock = anyio.Lock()
        self._read: tuple[int, GraphOverview] | None = None

    @property
    def data_file(self) -> Path:
        """The file for the script, as JSON in gzip; it may not exist yet."""
        return self._folder / DATA_FILE

    async def overview(self) -> GraphOverview | None:
        """Return the overview of the graph as last computed, None if it never was."""
        return await anyio.to_thread.run_sync(self._overview)

    async def is_current(self, overview: GraphOverview | None) -> bool:
        """Return whether the index is as it was when the graph was computed."""
        position = await self._index.position()
        return overview is not None and (overview.generation, overview.seq) == (position.generation, position.seq)

    async def renew(self) -> GraphOverview | None:
        """Compute the graph again if the index has changed, and return its overview. Several callers share one computation.

        Raises:
            KnowledgeError: it could not be computed.
        """
        async with self._lock:
            held = await self.overview()
            if await self.is_current(held):
                return held
            job = GraphJob(self._index_file, self._read_index, self._folder, self._by_name(), SOON)
            await self._workers.run(computed, job, size=1, what="laying out the graph of links")
            return await self.overview()

    async def soon(self) -> GraphOverview | None:
        """Return the graph as last computed; if it never was, the provisional one as soon as somebody's computation has it.

        Raises:
            KnowledgeError: it could not be computed.
        """
        while (held := await self.overview()) is None and self._lock.locked():  # noqa: ASYNC110 - another process writes it
            await anyio.sleep(LOOK_S)
        return held or await self.renew()

    async def renew_later(self) -> None:
        """Compute the graph as `renew` does, after an answer was sent. A failure is only logged."""
        try:
            await self.renew()
        except KnowledgeError:
            logger.exception("the graph of links could not be computed")

    async def close(self) -> None:
        """Stop the process."""
        await self._workers.close()

    def _overview(self) -> GraphOverview | None:
        file = self._folder / OVERVIEW_FILE
        try:
            changed = file.stat().st_mtime_ns
            if self._read is None or self._read[0] != changed:
                self._read = changed, overview_from(json.loads(file.read_bytes()))
            return self._read[1]
        except (OSError, ValueError, KeyError, TypeError):
            return None
