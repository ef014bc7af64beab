"""The interface of an embedder, and the embedders that a process has loaded."""

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

REST_S = 10.0


class Embedder(Protocol):
    """Turns text into vectors. While `name` is the same, the same text has the same vector."""

    @property
    def name(self) -> str:
        """The name of model and recipe; under a different name an index rebuilds its vectors."""
        ...

    @property
    def dimensions(self) -> int:
        """The length of a vector; 0 until the model's first answer, if only that shows it."""
        ...

    @property
    def multilingual(self) -> bool:
        """Whether texts with the same meaning in different languages are near each other; False if unknown."""
        ...

    async def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Return one row per text, each of length 1; all zeros for a text without a known word (never NaN).

        Raises:
            EmbedderUnavailable: the model cannot be loaded or asked now.
        """
        ...


EmbedderOf = Callable[[IndexIdentity], Awaitable[Embedder]]
"""Returns the embedder that made the vectors of an identity; raises `EmbedderUnavailable` if this process has none."""


class KnownEmbedders:
    """The embedders of a process by identity; while an index changes from one to another, both are needed.

    `load` builds each embedder once, in a thread, at its first use. `check` raises `EmbedderUnavailable` if the
    embedder turns out to be a different model. After a failure, an embedder is not tried again for `rest_s` seconds, so
    that searches don't wait for it again and again.
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
        self._loaded: dict[tuple[str, int], Embedder] = {}
        self._failed: dict[tuple[str, int], tuple[float, EmbedderUnavailable]] = {}

    async def of(self, identity: IndexIdentity) -> Embedder:
        """Return the embedder that made the vectors of `identity`.

        Raises:
            EmbedderUnavailable: it cannot be loaded here, or could not a moment ago.
        """
        key = (identity.embedder, identity.dimensions)
        if key not in self._loaded:
            async with self._lock:
                if key not in self._loaded:
                    self._loaded[key] = await self._try(key, identity)
        return self._loaded[key]

    def forget(self) -> None:
        """Load each again at its next use, because the settings changed."""
        self._loaded, self._failed = {}, {}

    async def _try(self, key: tuple[str, int], identity: IndexIdentity) -> Embedder:
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
