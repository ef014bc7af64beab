"""How many texts go through a transformer at a time, and in how many threads: bounds on its memory and on its hurry. Pure."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Sequence


def default_threads() -> int:
    """Return how many threads embed passages.

    All cores where a thread can give way to others; half of them elsewhere.
    """
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return cores if sys.platform == "linux" else max(1, cores // 2)


def batches_of(lengths: Sequence[int], most: int, most_texts: int) -> Iterator[list[int]]:
    """Yield the numbers of texts that go through a model together, the longest texts first.

    A batch has at most `most_texts` texts, and its padded length is at most `most`, unless a single text is longer.
    Texts of similar length share a batch, because shorter ones are padded. Of 256 sections of a handbook nearly half of all
    tokens would be padding in the order of the pages.
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
