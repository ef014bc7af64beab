"""Transformer models on this machine, through the optional package fastembed. A model is downloaded at its first use."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Protocol

import anyio.to_thread
import numpy as np
from numpy.typing import NDArray

from knowledge.errors import EmbedderUnavailable
from knowledge.index.embed.batches import batches_of, default_threads
from knowledge.private_files import private_folder

INSTALL = "pip install 'knowledge-forge[fastembed]'"
BATCH = 32
"""Texts that go through the model together; all are padded to the longest of them."""
BATCH_CHARACTERS = 8_000
"""Characters, padding included, in a batch: about 2,000 tokens, which bounds the memory."""
AT_ONCE = 64
"""Texts embedded by one thread: a thread cannot be stopped, so a cancelled caller waits for these."""
SHOWN_MODELS = 4


class Model(Protocol):
    """The used part of `fastembed.TextEmbedding`."""

    def query_embed(self, query: str | Iterable[str], **kwargs: object) -> Iterable[NDArray[np.generic]]:
        """Return the vectors of questions."""
        ...

    def passage_embed(self, texts: Iterable[str], **kwargs: object) -> Iterable[NDArray[np.generic]]:
        """Return the vectors of passages."""
        ...


class SharedModel:
    """A model of fastembed's list, for questions and passages of one process. It is loaded with the first text.

    `folder` stores the models; a stored one needs no network. Files that a person provides are read from
    `folder/ORGANISATION--MODEL`.
    """

    def __init__(self, model: str, folder: Path, *, threads: int = 0) -> None:
        self._model, self._folder, self._threads = model, folder, threads or default_threads()
        self._lock, self._next = threading.Lock(), threading.Lock()
        self._loaded: Model | None = None

    def embed(self, texts: Sequence[str], *, asking: bool) -> list[NDArray[np.float32]]:
        """Return the vectors of texts, in their order.

        Raises:
            EmbedderUnavailable: fastembed is not installed, does not know the model, or cannot load it.
        """
        found: list[NDArray[np.float32]] = [np.zeros(0, np.float32)] * len(texts)
        for numbers in batches_of([len(text) for text in texts], BATCH_CHARACTERS, BATCH):
            # Locked for each batch alone, so that a question need not wait until all passages are done.
            with self._next:
                self._lock.acquire()
            try:
                model = self._loaded = self._loaded or self._load()
                run = model.query_embed if asking else model.passage_embed
                rows = list(run([texts[number] for number in numbers], batch_size=BATCH))
            finally:
                self._lock.release()
            for number, row in zip(numbers, rows, strict=True):
                found[number] = np.asarray(row, np.float32)
        return found

    @property
    def shown(self) -> str:
        """The model, as messages name it."""
        return f"the model {self._model} through fastembed"

    def _load(self) -> Model:
        try:
            from fastembed import TextEmbedding
        except ImportError as error:
            raise EmbedderUnavailable(self.shown, f"fastembed cannot be loaded ({error})", INSTALL) from error
        known = [str(described["model"]) for described in TextEmbedding.list_supported_models()]
        if self._model.casefold() not in {model.casefold() for model in known}:
            listed = ", ".join(known[:SHOWN_MODELS])
            mend = f"set FORGE_EMBEDDER=fastembed:MODEL to a model that it knows ({listed} and {len(known) - SHOWN_MODELS} more)"
            raise EmbedderUnavailable(self.shown, "it does not know that model", mend)
        provided = self._folder / self._model.replace("/", "--")
        try:
            private_folder(self._folder)
            files = {"specific_model_path": str(provided)} if provided.is_dir() else {}
            loaded: Model = TextEmbedding(
                model_name=self._model, cache_dir=str(self._folder), threads=self._threads, **files
            )
        except Exception as error:  # the library raises whatever its downloaders and runtimes raise
            mend = (
                f"check the network and the free space: it is downloaded once, into {self._folder}. "
                f"Or put its files into {provided}"
            )
            raise EmbedderUnavailable(self.shown, f"it cannot be loaded ({type(error).__name__})", mend) from error
        return loaded


class FastEmbedder:
    """Vectors of texts with `prefix` before each. `asking` embeds questions, which some models treat differently."""

    def __init__(self, model: SharedModel, *, name: str, asking: bool, expected: int = 0, prefix: str = "") -> None:
        self._model, self._name, self._asking = model, name, asking
        self._dimensions, self._prefix = expected, prefix

    @property
    def name(self) -> str:
        """The name of model and recipe."""
        return self._name

    @property
    def dimensions(self) -> int:
        """The length of a vector; 0 before the first text, unless it was given."""
        return self._dimensions

    async def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Return one row a text, each of length 1; all zeros for a blank text.

        Raises:
            EmbedderUnavailable: fastembed is not installed, does not know the model, or cannot load it.
        """
        starts = range(0, max(len(texts), 1), AT_ONCE)
        rows = [await anyio.to_thread.run_sync(self._embed, texts[start : start + AT_ONCE]) for start in starts]
        return np.concatenate(rows)

    def _embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        sent = {place: f"{self._prefix}{text}" for place, text in enumerate(texts) if text.strip()}
        # Without any text, a probe shows how long vectors are.
        asked = list(sent.values()) or ([] if self._dimensions else ["knowledge"])
        vectors = self._model.embed(asked, asking=self._asking)
        if vectors:
            found = len(vectors[0])
            if self._dimensions not in (0, found):
                reason = f"its vectors have {found} numbers, not {self._dimensions}"
                raise EmbedderUnavailable(self._model.shown, reason, "correct FORGE_EMBEDDER_DIMENSIONS")
            self._dimensions = found
        rows = np.zeros((len(texts), self._dimensions), np.float32)
        if sent:
            stacked = np.nan_to_num(np.stack(vectors), nan=0.0, posinf=0.0, neginf=0.0)
            lengths = np.linalg.norm(stacked, axis=1, keepdims=True)
            rows[list(sent)] = stacked / np.where(lengths > 0, lengths, 1)
        return rows
