"""A cross-encoder of fastembed's list. The model is downloaded at its first use."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Protocol

import anyio.to_thread

from knowledge.errors import RerankerUnavailable
from knowledge.extras import install_command
from knowledge.index.embed.transformer import PoliteThreads
from knowledge.private_files import private_folder

BATCH = 4


class FastembedPairs(Protocol):
    """The used part of `fastembed.rerank.cross_encoder.TextCrossEncoder`."""

    def rerank(self, query: str, documents: Iterable[str], batch_size: int = 64) -> Iterable[float]:
        """Yield a number for each document."""
        ...


class FastembedReranker:
    """A model of fastembed's list of cross-encoders; `folder` stores what was downloaded."""

    def __init__(self, model: str, folder: Path) -> None:
        self.name, self._folder = model, folder
        self._lock = threading.Lock()
        self._loaded: FastembedPairs | None = None
        self._polite = PoliteThreads(1)

    async def scores(self, question: str, passages: Sequence[str]) -> Sequence[float]:
        """Return a number for each passage, higher for a better answer.

        Raises:
            RerankerUnavailable: fastembed is not installed, does not know the model, or cannot load it.
        """

        def run(texts: Sequence[str]) -> list[float]:
            with self._lock:
                self._loaded = self._loaded or self._load()
            return [float(score) for score in self._loaded.rerank(question, texts, batch_size=BATCH)]

        return await anyio.to_thread.run_sync(self._polite.run, run, passages, abandon_on_cancel=True)

    def _load(self) -> FastembedPairs:
        try:
            from fastembed.rerank.cross_encoder import TextCrossEncoder
        except ImportError as error:
            raise RerankerUnavailable(
                self.name, f"fastembed cannot be loaded ({error})", install_command("fastembed")
            ) from error
        known = [str(described["model"]) for described in TextCrossEncoder.list_supported_models()]
        if self.name not in known:
            raise RerankerUnavailable(self.name, "fastembed does not know it", f"it knows {', '.join(known)}")
        try:
            private_folder(self._folder)
            loaded: FastembedPairs = TextCrossEncoder(model_name=self.name, cache_dir=str(self._folder), threads=1)
        except Exception as error:  # the library raises whatever its downloaders and runtimes raise
            mend = f"check the network and the free space: it is downloaded once, into {self._folder}"
            raise RerankerUnavailable(self.name, f"it cannot be loaded ({type(error).__name__})", mend) from error
        return loaded
