"""What an embedder must promise."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Protocol

import anyio
import anyio.to_thread

from knowledge.errors import EmbedderUnavailable
from knowledge.state.ports import IndexIdentity

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


class Embedder(Protocol):
    """Text to vectors. The same text gives the same vector for as long as `name` stays the same."""

    @property
    def name(self) -> str:
        """Identify model and recipe; under a different name an index makes its vectors anew."""
        ...

    @property
    def dimensions(self) -> int:
        """Return the length of a vector; 0 while only asking the model would tell."""
        ...

    async def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Return one row a text, each of length 1; all zeros for a text without a known word (never NaN).

        Raises:
            EmbedderUnavailable: the model cannot be loaded or asked now.
        """
        ...


EmbedderOf = Callable[[IndexIdentity], Awaitable[Embedder]]
"""Gives the embedder that vectors of that identity are made with; `EmbedderUnavailable` if this process has no such one."""


REST_S = 10.0
Key = tuple[str, int]


class KnownEmbedders:
    """Gives the embedder of an identity; `load` builds each at its first use, off the event loop, and only once.

    `check` raises `EmbedderUnavailable` of one that turns out not to be what was asked for. After a failure it is not
    tried for `rest_s`: searches must not wait for it again and again.
    """

    def __init__(
        self,
        load: Callable[[IndexIdentity], Embedder],
        check: Callable[[IndexIdentity, Embedder], Awaitable[None]] | None = None,
        *,
        rest_s: float = REST_S,
    ) -> None:
        self._load, self._check, self._rest_s = load, check, rest_s
        self._lock = anyio.Lock()
        self._loaded: dict[Key, Embedder] = {}
        self._failed: dict[Key, tuple[float, EmbedderUnavailable]] = {}

    async def of(self, identity: IndexIdentity) -> Embedder:
        """Return the embedder that vectors of `identity` are made with.

        Raises:
            EmbedderUnavailable: it cannot be loaded here, or could not a moment ago.
        """
        key = (identity.embedder, identity.dimensions)
        if key not in self._loaded:
            async with self._lock:
                if key not in self._loaded:
                    self._loaded[key] = await self._tried(key, identity)
        return self._loaded[key]

    async def _tried(self, key: Key, identity: IndexIdentity) -> Embedder:
        until, last = self._failed.get(key, (0.0, None))
        if last is not None and anyio.current_time() < until:
            raise EmbedderUnavailable(last.embedder, last.reason, last.mend)
        try:
            embedder = await anyio.to_thread.run_sync(self._load, identity)
            if self._check is not None:
                await self._check(identity, embedder)
        except EmbedderUnavailable as error:
            self._failed[key] = (anyio.current_time() + self._rest_s, error)
            raise
        self._failed.pop(key, None)
        return embedder
