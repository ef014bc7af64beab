"""Runs a transformer: small batches of texts of similar length, in threads of low priority."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Generic, Protocol, TypeVar

import anyio.to_thread
import numpy as np
from numpy.typing import NDArray

from knowledge.errors import EmbedderUnavailable
from knowledge.task_groups import first_error

POLITE = 10
"""The `nice` value of threads that embed passages."""
T = TypeVar("T")
U = TypeVar("U")
V = TypeVar("V")


def default_threads() -> int:
    """Return how many threads embed passages.

    One per core where the system can lower the priority of a thread, half as many elsewhere.
    """
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return cores if sys.platform == "linux" else max(1, cores // 2)


def give_way() -> None:
    """Lower the priority of the calling thread, on systems that can do that for a single thread."""
    if sys.platform == "linux":
        # On Linux, 0 is the calling thread and not the whole process.
        os.setpriority(os.PRIO_PROCESS, 0, POLITE)


class PoliteThreads:
    """Threads of low priority for passages.

    A lowered priority can't be raised again, so they are not taken from the pool that answers questions.
    """

    def __init__(self, number: int = 0) -> None:
        self.number = number or default_threads()
        self._pool = ThreadPoolExecutor(self.number, "embedding", initializer=give_way)

    def run(self, work: Callable[[V], U], given: V) -> U:
        """Run `work(given)` in one of the threads and return its result."""
        return self._pool.submit(work, given).result()


class TransformerModel(Protocol[T]):
    """A model that several threads may use, each running one batch. It is loaded with the first text."""

    polite: PoliteThreads

    @property
    def dimensions(self) -> int:
        """The length of a vector, 0 if it is known only from the first vectors."""
        ...

    @property
    def multilingual(self) -> bool:
        """Whether the model's files, fastembed's list or its name say that it finds across languages."""
        ...

    def prepare(self, texts: Sequence[str]) -> Sequence[T]:
        """Return the texts in the model's input form; raises `EmbedderUnavailable` if the model cannot be loaded."""
        ...

    def batches(self, prepared: Sequence[T]) -> Iterator[list[int]]:
        """Yield the indexes of the texts of each batch."""
        ...

    def run(self, prepared: Sequence[T], *, asking: bool) -> NDArray[np.float32]:
        """Return the vectors of a batch, of any length."""
        ...

    def unavailable(self, reason: str, mend: str) -> EmbedderUnavailable:
        """Return the error that says why this model can't be used and what to do."""
        ...


class TransformerEmbedder(Generic[T]):
    """Embeds texts with `prefix` before each; with `asking` they are questions, embedded at normal priority.

    `expected` is the required length of vectors, 0 to learn it from the model. `multilingual` is True or False if a person
    declared it.
    """

    def __init__(
        self,
        model: TransformerModel[T],
        *,
        name: str,
        asking: bool,
        prefix: str = "",
        expected: int = 0,
        multilingual: bool | None = None,
    ) -> None:
        self._model, self._name, self._asking, self._prefix = model, name, asking, prefix
        self._dimensions, self._multilingual = expected or model.dimensions, multilingual

    @property
    def name(self) -> str:
        """The name of model and recipe."""
        return self._name

    @property
    def dimensions(self) -> int:
        """The length of a vector; 0 if it becomes known only with the first text."""
        return self._dimensions

    @property
    def multilingual(self) -> bool:
        """Whether texts that mean the same in different languages are near each other."""
        return self._model.multilingual if self._multilingual is None else self._multilingual

    async def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Return one row per text, each of length 1; all zeros for a blank text.

        Raises:
            EmbedderUnavailable: onnxruntime is not installed, the model cannot be loaded, or has vectors of another length.
        """
        places = [place for place, text in enumerate(texts) if text.strip()]
        sent = [f"{self._prefix}{texts[place]}" for place in places]
        if not sent and not self._dimensions:
            sent = ["knowledge"]  # to learn the length of a row
        prepared = await self._run(self._model.prepare, sent) if sent else []
        found = np.zeros((len(prepared), self._dimensions), np.float32)
        batches = self._model.batches(prepared)

        run = partial(self._model.run, asking=self._asking)

        async def work() -> None:
            nonlocal found
            for numbers in batches:
                rows = await self._run(run, [prepared[number] for number in numbers])
                if not self._dimensions:
                    self._dimensions = rows.shape[1]
                if len(found) and not found.shape[1]:
                    found = np.zeros((len(prepared), self._dimensions), np.float32)
                if rows.shape[1] != self._dimensions:
                    reason = f"its vectors have {rows.shape[1]} dimensions, not {self._dimensions}"
                    raise self._model.unavailable(
                        reason, "is it still the same model? run: knowledge-forge index --rebuild --new-vectors"
                    )
                found[numbers] = of_length_one(rows)

        if self._asking:
            await work()
        else:
            # All take from one iterator, the longest batch first.
            async with first_error() as tasks:
                for _ in range(self._model.polite.number):
                    tasks.start_soon(work)
        vectors = np.zeros((len(texts), self._dimensions), np.float32)
        vectors[places] = found[: len(places)]
        return vectors

    async def _run(self, work: Callable[[V], U], given: V) -> U:
        if self._asking:
            return await anyio.to_thread.run_sync(work, given)
        # A thread cannot be stopped, so a cancelled caller waits for one batch.
        return await anyio.to_thread.run_sync(self._model.polite.run, work, given)


def of_length_one(vectors: NDArray[np.float32]) -> NDArray[np.float32]:
    """Return the vectors with length 1; zeros where the model gives no numbers."""
    found: NDArray[np.float32] = np.nan_to_num(vectors, nan=0.0, posinf=0.0, neginf=0.0)
    lengths = np.linalg.norm(found, axis=1, keepdims=True)
    found /= np.where(lengths > 0, lengths, 1)
    return found


def batches_of(lengths: Sequence[int], most: int, most_texts: int) -> Iterator[list[int]]:
    """Yield the indexes of the texts of each batch, the longest texts first.

    A batch has at most `most_texts` texts, and its padded length is at most `most`, unless a single text is longer.
    Texts of similar length share a batch, because shorter ones are padded. In 256 sections of a handbook, in the order of the pages,
    nearly half of all tokens would be padding.
    """
    batch: list[int] = []
    longest = 0
    for number in sorted(range(len(lengths)), key=lambda n: -lengths[n]):
        longest = longest or lengths[number]
        if batch and (len(batch) == most_texts or longest * (len(batch) + 1) > most):
            yield batch
            batch, longest = [], lengths[number]
        batch.append(number)
    if batch:
        yield batch
