"""Runs a transformer with onnxruntime: small batches of texts of similar length, in threads of low priority."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray
from tokenizers import Tokenizer

from knowledge.errors import EmbedderUnavailable
from knowledge.index.embed.onnx.model_files import ModelFiles, Pooling, UnusableModel, find_model
from knowledge.index.embed.onnx.session import NoRuntime, session_of, tokenizer_of
from knowledge.index.embed.transformer import PoliteThreads, batches_of

if TYPE_CHECKING:
    import onnxruntime

REMEDY = "restore its files, or choose another model: knowledge-forge embedder list"
BATCH_TOKENS = 512
"""Tokens, padding included, that go through the model together, in each thread. Memory grows with this and speed does not:
with 8-bit MiniLM, 512 tokens took 100 MB and 1,024 took 200 MB, at 5,800 and 5,700 tokens for each second of a core."""
BATCH_TEXTS = 64
ONE_VECTOR_A_TEXT = "sentence_embedding"
TOKEN_OUTPUTS = ("last_hidden_state", "token_embeddings")

Encoded = Sequence[int]


def open_model(path: Path, *, threads: int = 0) -> OnnxModel:
    """Return the model in a folder or file, not loaded yet.

    Raises:
        EmbedderUnavailable: there is no usable model.
    """
    try:
        files = find_model(path)
    except UnusableModel as error:
        raise EmbedderUnavailable(f"the model {path}", str(error), REMEDY) from error
    except OSError as error:
        raise EmbedderUnavailable(f"the model {path}", f"it cannot be read ({error.strerror})", REMEDY) from error
    return OnnxModel(files, threads=threads)


class OnnxModel:
    """A loaded model, which several threads may use. It is loaded with the first text."""

    def __init__(self, files: ModelFiles, *, threads: int = 0) -> None:
        self.files = files
        self._lock = threading.Lock()
        self._session: onnxruntime.InferenceSession | None = None
        self._tokenizer: Tokenizer | None = None
        self._output, self._pooled = "", False
        self._inputs: dict[str, type[np.int32 | np.int64]] = {}
        self.polite = PoliteThreads(threads)

    def load(self) -> None:
        """Load the model, once.

        Raises:
            EmbedderUnavailable: onnxruntime is not installed, or the files are not a usable model.
        """
        with self._lock:
            if self._session is None:
                self._session = self._open()

    @property
    def dimensions(self) -> int:
        """The length of a vector, 0 if the model's files do not specify it."""
        return self.files.dimensions

    @property
    def multilingual(self) -> bool:
        """Whether its model card lists several languages, or its name is that of a known multilingual model."""
        return self.files.multilingual

    def batches(self, encoded: Sequence[Encoded]) -> Iterator[list[int]]:
        """Yield the indexes of the texts of each batch."""
        return batches_of([len(tokens) for tokens in encoded], BATCH_TOKENS, BATCH_TEXTS)

    def prepare(self, texts: Sequence[str]) -> list[Encoded]:
        """Return the tokens of each text, cut to what the model accepts."""
        self.load()
        assert self._tokenizer is not None  # noqa: S101 - `load` has set it
        return [encoding.ids for encoding in self._tokenizer.encode_batch_fast(list(texts))]

    def run(self, encoded: Sequence[Encoded], *, asking: bool) -> NDArray[np.float32]:  # noqa: ARG002 - the port's
        """Return one vector for each text, which the model treats alike whether it is a question or a passage."""
        assert self._session is not None  # noqa: S101 - texts are encoded first, which loads it
        longest = max(map(len, encoded))
        ids = np.full((len(encoded), longest), self.files.pad_id, np.int64)
        mask = np.zeros_like(ids)
        for row, tokens in enumerate(encoded):
            ids[row, : len(tokens)] = tokens
            mask[row, : len(tokens)] = 1
        values = {
            "input_ids": ids,
            "attention_mask": mask,
            "token_type_ids": np.zeros_like(ids),
            "position_ids": np.broadcast_to(np.arange(longest), ids.shape),
        }
        # Models differ in which of these inputs they take, and in their integer type.
        given = {name: values[name].astype(kind, copy=False) for name, kind in self._inputs.items()}
        (found,) = self._session.run([self._output], given)
        vectors = np.asarray(found, np.float32)
        return vectors if self._pooled else _pool(vectors, mask, self.files.pooling)

    def _open(self) -> onnxruntime.InferenceSession:
        try:
            self._tokenizer, session = tokenizer_of(self.files), session_of(self.files)
        except NoRuntime as error:
            raise self.unavailable(str(error), error.mend) from error
        except UnusableModel as error:
            raise self.unavailable(str(error)) from error
        self._inputs = {given.name: np.int32 if "int32" in given.type else np.int64 for given in session.get_inputs()}
        self._output, self._pooled = self._vectors_of(session)
        return session

    def _vectors_of(self, session: onnxruntime.InferenceSession) -> tuple[str, bool]:
        """Return the name of the output to use, and whether it has one vector for a whole text already."""
        outputs = {given.name: len(given.shape or ()) for given in session.get_outputs() if "float" in given.type}
        if outputs.get(ONE_VECTOR_A_TEXT) == 2:
            return ONE_VECTOR_A_TEXT, True
        for name in (*TOKEN_OUTPUTS, *outputs):
            if outputs.get(name) == 3:
                return name, False
        # `pooler_output` was trained for another task; texts can't be compared by it.
        for name, sizes in outputs.items():
            if sizes == 2 and name != "pooler_output":
                return name, True
        raise self.unavailable(
            f"none of its outputs ({', '.join(outputs) or 'none of numbers'}) is a vector for each text"
        )

    def unavailable(self, reason: str, mend: str = REMEDY) -> EmbedderUnavailable:
        """Return the error that says why this model can't be used and what to do."""
        return EmbedderUnavailable(f"the model {self.files.weights}", reason, mend)


def _pool(tokens: NDArray[np.float32], mask: NDArray[np.int64], pooling: Pooling) -> NDArray[np.float32]:
    """Return one vector per text, pooled from the vectors of its tokens. Source: sentence-transformers, `Pooling`."""
    if pooling == "cls":
        return tokens[:, 0].copy()
    if pooling == "last":
        last: NDArray[np.float32] = tokens[np.arange(len(tokens)), np.maximum(mask.sum(axis=1) - 1, 0)]
        return last
    if pooling == "max":
        highest: NDArray[np.float32] = np.where(mask[:, :, np.newaxis], tokens, -np.inf).max(axis=1)
        return highest
    counts = np.maximum(mask.sum(axis=1, keepdims=True), 1).astype(np.float32)
    mean: NDArray[np.float32] = np.einsum("btd,bt->bd", tokens, mask.astype(np.float32)) / counts
    return mean
