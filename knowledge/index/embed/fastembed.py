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
from knowledge.private_files import private_folder

INSTALL = "pip install 'knowledge-forge[fastembed]'"
BATCH = 32
"""Texts that go through the model together; all are padded to the longest of them."""
AT_ONCE = 128
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


class FastEmbedder:
    """Runs `model` in this process; it is loaded with the first text.

    `asking` embeds questions, which some models treat differently from passages. `prefix` is put before each text.
    `folder` stores the models; a stored one needs no network. Files that a person provides are read from
    `folder/ORGANISATION--MODEL`.
    """

    def __init__(
        self, model: str, *, name: str, folder: Path, asking: bool, expected: int = 0, prefix: str = ""
    ) -> None:
        self._model, self._name, self._folder, self._asking = model, name, folder, asking
        self._dimensions, self._prefix = expected, prefix
        self._lock = threading.Lock()
        self._loaded: Model | None = None

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
        # One batch uses all cores already.
        with self._lock:
            model = self._loaded = self._loaded or self._load()
            sent = {place: f"{self._prefix}{text}" for place, text in enumerate(texts) if text.strip()}
            run = model.query_embed if self._asking else model.passage_embed
            # Without any text, a probe shows how long vectors are.
            asked = list(sent.values()) or ([] if self._dimensions else ["knowledge"])
            vectors = [np.asarray(row, np.float32) for row in run(asked, batch_size=BATCH)] if asked else []
        if vectors:
            found = len(vectors[0])
            if self._dimensions not in (0, found):
                reason = f"its vectors have {found} numbers, not {self._dimensions}"
                raise EmbedderUnavailable(self._shown, reason, "correct FORGE_EMBEDDER_DIMENSIONS")
            self._dimensions = found
        rows = np.zeros((len(texts), self._dimensions), np.float32)
        if sent:
            stacked = np.nan_to_num(np.stack(vectors), nan=0.0, posinf=0.0, neginf=0.0)
            lengths = np.linalg.norm(stacked, axis=1, keepdims=True)
            rows[list(sent)] = stacked / np.where(lengths > 0, lengths, 1)
        return rows

    @property
    def _shown(self) -> str:
        return f"the model {self._model} through fastembed"

    def _load(self) -> Model:
        try:
            from fastembed import TextEmbedding
        except ImportError as error:
            raise EmbedderUnavailable(self._shown, f"fastembed cannot be loaded ({error})", INSTALL) from error
        known = [str(described["model"]) for described in TextEmbedding.list_supported_models()]
        if self._model.casefold() not in {model.casefold() for model in known}:
            listed = ", ".join(known[:SHOWN_MODELS])
            mend = f"set FORGE_EMBEDDER=fastembed:MODEL to a model that it knows ({listed} and {len(known) - SHOWN_MODELS} more)"
            raise EmbedderUnavailable(self._shown, "it does not know that model", mend)
        provided = self._folder / self._model.replace("/", "--")
        try:
            private_folder(self._folder)
            files = {"specific_model_path": str(provided)} if provided.is_dir() else {}
            loaded: Model = TextEmbedding(model_name=self._model, cache_dir=str(self._folder), **files)
        except Exception as error:  # the library raises whatever its downloaders and runtimes raise
            mend = (
                f"check the network and the free space: it is downloaded once, into {self._folder}. "
                f"Or put its files into {provided}"
            )
            raise EmbedderUnavailable(self._shown, f"it cannot be loaded ({type(error).__name__})", mend) from error
        return loaded
