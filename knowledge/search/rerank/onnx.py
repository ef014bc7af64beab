"""A cross-encoder from files on this machine, run with onnxruntime in threads of low priority."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import anyio.to_thread
import numpy as np
from tokenizers import Encoding, Tokenizer

from knowledge.errors import RerankerUnavailable
from knowledge.index.embed.onnx.model_files import ModelFiles, UnusableModel, find_model
from knowledge.index.embed.onnx.session import KNOWN_INPUTS, NoRuntime, session_of, tokenizer_of
from knowledge.index.embed.transformer import PoliteThreads
from knowledge.task_groups import first_error

if TYPE_CHECKING:
    import onnxruntime

BATCH = 2
"""Pairs per batch. All pairs are needed at once, so many small batches keep all threads busy."""


class OnnxReranker:
    """A cross-encoder in the layout in which sentence-transformers publishes it. It is loaded with the first question."""

    def __init__(self, files: ModelFiles, *, threads: int = 0) -> None:
        self.files = files
        self._lock = threading.Lock()
        self._tokenizer: Tokenizer | None = None
        self._session: onnxruntime.InferenceSession | None = None
        self._output = ""
        self._polite = PoliteThreads(threads)

    @property
    def name(self) -> str:
        """The model's name."""
        return self.files.name

    async def scores(self, question: str, passages: Sequence[str]) -> Sequence[float]:
        """Return a number for each passage, higher for a better answer.

        Raises:
            RerankerUnavailable: onnxruntime is not installed, or the files are not a cross-encoder.
        """
        run = partial(anyio.to_thread.run_sync, abandon_on_cancel=True)  # a search that has waited long enough goes on
        pairs = await run(self._polite.run, self._prepared, [(question, passage) for passage in passages])
        found = [0.0] * len(pairs)
        # Similar lengths together, because shorter ones are padded.
        order = sorted(range(len(pairs)), key=lambda number: -len(pairs[number].ids))
        batches = iter([order[at : at + BATCH] for at in range(0, len(order), BATCH)])

        async def work() -> None:
            for batch in batches:
                rows = await run(self._polite.run, self._run, [pairs[number] for number in batch])
                for number, row in zip(batch, rows, strict=True):
                    found[number] = row

        async with first_error() as tasks:
            for _ in range(self._polite.number):
                tasks.start_soon(work)
        return found

    def _prepared(self, pairs: list[tuple[str, str]]) -> list[Encoding]:
        with self._lock:
            if self._session is None:
                try:
                    self._tokenizer = tokenizer_of(self.files, strategy="only_second")
                    session = session_of(self.files)
                except UnusableModel as error:
                    mend = error.mend if isinstance(error, NoRuntime) else ""
                    raise RerankerUnavailable(str(self.files.weights), str(error), mend) from error
                outputs = {given.name: given.shape for given in session.get_outputs()}
                one = [name for name, shape in outputs.items() if len(shape) == 2 and shape[1] == 1]
                if not one:
                    reason = f"none of its outputs ({', '.join(outputs)}) is one number for each pair, so it is not a cross-encoder"
                    raise RerankerUnavailable(str(self.files.weights), reason)
                self._output, self._session = one[0], session
        assert self._tokenizer is not None  # noqa: S101 - set with the session
        return self._tokenizer.encode_batch(pairs)

    def _run(self, pairs: list[Encoding]) -> list[float]:
        assert self._session is not None  # noqa: S101 - `_prepared` has set it
        longest = max(len(pair.ids) for pair in pairs)
        ids = np.full((len(pairs), longest), self.files.pad_id, np.int64)
        mask, types = np.zeros_like(ids), np.zeros_like(ids)
        for row, pair in enumerate(pairs):
            ids[row, : len(pair.ids)], mask[row, : len(pair.ids)] = pair.ids, 1
            types[row, : len(pair.ids)] = pair.type_ids
        values = {
            "input_ids": ids,
            "attention_mask": mask,
            "token_type_ids": types,
            "position_ids": np.broadcast_to(np.arange(longest), ids.shape),
        }
        assert values.keys() == KNOWN_INPUTS  # noqa: S101 - what a session may ask for
        given = {
            asked.name: values[asked.name].astype(np.int32 if "int32" in asked.type else np.int64, copy=False)
            for asked in self._session.get_inputs()
        }
        (found,) = self._session.run([self._output], given)
        return [float(value) for value in np.asarray(found)[:, 0]]


def open_reranker(path: Path, *, threads: int = 0) -> OnnxReranker:
    """Return the cross-encoder in a folder or file, not loaded yet.

    Raises:
        RerankerUnavailable: there is no usable model.
    """
    try:
        return OnnxReranker(find_model(path), threads=threads)
    except UnusableModel as error:
        raise RerankerUnavailable(str(path), str(error)) from error
    except OSError as error:
        raise RerankerUnavailable(str(path), f"it cannot be read ({error.strerror})") from error
