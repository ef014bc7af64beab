"""The embedders that a process has loaded: while an index changes from one to another, both are needed."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import anyio
import anyio.to_thread

from knowledge.embed.ports import Embedder
from knowledge.storage.ports import IndexIdentity


class KnownEmbedders:
    """Gives the embedder of an identity; `load` builds each at its first use, off the event loop, and only once.

    `check` raises `EmbedderUnavailable` of one that turns out not to be what was asked for.
    """

    def __init__(
        self,
        load: Callable[[IndexIdentity], Embedder],
        check: Callable[[IndexIdentity, Embedder], Awaitable[None]] | None = None,
    ) -> None:
        self._load, self._check = load, check
        self._lock = anyio.Lock()
        self._loaded: dict[tuple[str, int], Embedder] = {}

    async def of(self, identity: IndexIdentity) -> Embedder:
        """Return the embedder that vectors of `identity` are made with.

        Raises:
            EmbedderUnavailable: it cannot be loaded here; the next call tries again.
        """
        key = (identity.embedder, identity.dimensions)
        if key not in self._loaded:
            async with self._lock:
                if key not in self._loaded:
                    embedder = await anyio.to_thread.run_sync(self._load, identity)
                    if self._check is not None:
                        await self._check(identity, embedder)
                    self._loaded[key] = embedder
        return self._loaded[key]
