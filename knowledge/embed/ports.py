"""What an embedder must promise."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


class Embedder(Protocol):
    """Text to vectors. The same text gives the same vector for as long as `name` stays the same."""

    @property
    def name(self) -> str:
        """Identify model and recipe; a different name makes an index start over."""
        ...

    @property
    def dimensions(self) -> int:
        """Return the length of a vector."""
        ...

    async def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Return one row a text, each of length 1; all zeros for a text without a known word (never NaN)."""
        ...
