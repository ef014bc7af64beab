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
    """Give the pages between used blocks back to the system once a minute, for ever; return at once with another C library.

    Blocks that are kept for long, such as those of caches, lie among the many of a merge or a search. When these are freed, glibc
    gives back only what is free at the end of a pool. After a minute of work 30 to 40 MB lay between.
    """
    try:
        trim = ctypes.CDLL(None).malloc_trim
    except (AttributeError, OSError, TypeError):
        return
    while True:
        await anyio.sleep(TRIM_S)
        # 4 ms, in which other threads wait if they need a large block; 0.3 ms if nothing is free.
        await anyio.to_thread.run_sync(trim, 0)
