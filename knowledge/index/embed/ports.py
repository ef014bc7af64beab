"""What an embedder must promise."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Protocol

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
