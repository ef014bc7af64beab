"""Transformer models on this machine, through the optional package fastembed. A model is downloaded at its first use."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from knowledge.errors import EmbedderUnavailable
from knowledge.extras import install_command
from knowledge.index.embed.identity import finds_across, known_multilingual
from knowledge.index.embed.transformer import PoliteThreads, batches_of
from knowledge.private_files import private_folder

BATCH = 32
BATCH_CHARACTERS = 2_000
"""Characters, padding included, that go through the model together: about 512 tokens. With batches of 32 texts in their
order, as fastembed makes them, 8-bit MiniLM took 4.6 GB."""
SHOWN_MODELS = 4


class FastembedText(Protocol):
    """The used part of `fastembed.TextEmbedding`."""

    def query_embed(self, query: str | Iterable[str], **kwargs: object) -> Iterable[NDArray[np.generic]]:
        """Return the vectors of questions."""
        ...

    def passage_embed(self, texts: Iterable[str], **kwargs: object) -> Iterable[NDArray[np.generic]]:
        """Return the vectors of passages."""
        ...


class FastembedModel:
    """A model of fastembed's list, for questions and passages of one process. It is loaded with the first text.

    `folder` stores the models; a stored one needs no network. Files that a person provides are read from
    `folder/ORGANISATION--MODEL`.
    """

    dimensions = 0

    def __init__(self, model: str, folder: Path, *, threads: int = 0) -> None:
        self._model, self._folder = model, folder
        self._lock = threading.Lock()
        self._loaded: FastembedText | None = None
        self.multilingual = known_multilingual(model)
        self.polite = PoliteThreads(threads)

    def prepare(self, texts: Sequence[str]) -> Sequence[str]:
        """Return the texts; fastembed splits them into tokens itself.

        Raises:
            EmbedderUnavailable: fastembed is not installed, does not know the model, or cannot load it.
        """
        with self._lock:
            self._loaded = self._loaded or self._load()
        return texts

    def batches(self, prepared: Sequence[str]) -> Iterator[list[int]]:
        """Yield the indexes of the texts of each batch."""
        return batches_of([len(text) for text in prepared], BATCH_CHARACTERS, BATCH)

    def run(self, prepared: Sequence[str], *, asking: bool) -> NDArray[np.float32]:
        """Return the vectors of texts, in their order."""
        assert self._loaded is not None  # noqa: S101 - `prepare` has set it
        # Some models treat questions differently from passages.
        run = self._loaded.query_embed if asking else self._loaded.passage_embed
        return np.stack([np.asarray(row, np.float32) for row in run(list(prepared), batch_size=BATCH)])

    def unavailable(self, reason: str, mend: str) -> EmbedderUnavailable:
        """Return the error that says why this model can't be used and what to do."""
        return EmbedderUnavailable(f"the model {self._model} through fastembed", reason, mend)

    def _load(self) -> FastembedText:
        try:
            from fastembed import TextEmbedding
        except ImportError as error:
            raise self.unavailable(f"fastembed cannot be loaded ({error})", install_command("fastembed")) from error
        known = {str(described["model"]): described for described in TextEmbedding.list_supported_models()}
        described = next((known[model] for model in known if model.casefold() == self._model.casefold()), None)
        if described is None:
            listed = ", ".join(list(known)[:SHOWN_MODELS])
            more = len(known) - SHOWN_MODELS
            mend = f"choose one that it has ({listed} and {more} more): knowledge-forge embedder list"
            raise self.unavailable("it does not know that model", mend)
        self.multilingual = finds_across(self._model, str(described.get("description", "")))
        provided = self._folder / self._model.replace("/", "--")
        try:
            private_folder(self._folder)
            files = {"specific_model_path": str(provided)} if provided.is_dir() else {}
            # One thread for each run and several runs at a time, as in `OnnxModel`.
            loaded: FastembedText = TextEmbedding(
                model_name=self._model, cache_dir=str(self._folder), threads=1, **files
            )
        except Exception as error:  # the library raises whatever its downloaders and runtimes raise
            mend = (
                f"check the network and the free space: it is downloaded once, into {self._folder}. "
                f"Or put its files into {provided}"
            )
            raise self.unavailable(f"it cannot be loaded ({type(error).__name__})", mend) from error
        return loaded
