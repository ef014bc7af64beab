"""Makes the C library return freed memory to the system."""

from __future__ import annotations

import ctypes

import anyio
import anyio.to_thread

M_TRIM_THRESHOLD, M_MMAP_THRESHOLD, M_ARENA_MAX = -1, -3, -8
"""Source: glibc, malloc.h."""
ARENAS = 2
FREE_AT_END = 16 << 20
MAPPED_FROM = 1_000_000
"""Blocks of at least this many bytes get their own memory pages, which return to the system when the block is freed. It is
just below the megabyte in which tantivy requests memory. At 512 kB the vectors of each search would be mapped again."""

TRIM_S = 60.0


def return_freed_memory() -> None:
    """Make glibc return freed memory to the system; do nothing with another C library.

    By default glibc gives each thread its own pool, up to eight per core, and raises the size from which a block is
    mapped as soon as a larger one is freed. Every indexed change then leaves some megabytes in another pool: a server
    that was merging had 537 MB after a minute instead of 285.
    """
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (AttributeError, OSError, TypeError):
        return
    mallopt(M_ARENA_MAX, ARENAS)
    mallopt(M_MMAP_THRESHOLD, MAPPED_FROM)
    mallopt(M_TRIM_THRESHOLD, FREE_AT_END)


async def trim_regularly() -> None:
    """Return memory that is free between used blocks to the system every minute; return at once with another C library.

    Long-lived blocks, such as those of caches, lie between the short-lived ones of merges and searches. When those are freed, glibc
    returns only what is free at the end of a pool. After a minute of work, 30 to 45 MB lay in between.
    """
    try:
        trim = ctypes.CDLL(None).malloc_trim
    except (AttributeError, OSError, TypeError):
        return
    while True:
        await anyio.sleep(TRIM_S)
        # Takes up to 4 ms, during which threads that allocate wait; 0.3 ms if there is nothing to return.
        await anyio.to_thread.run_sync(trim, 0)
