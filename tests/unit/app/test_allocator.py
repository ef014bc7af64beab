"""A server gives freed memory back to the system."""

from __future__ import annotations

import platform
import subprocess
import sys

import pytest

BEGINNING = """
import ctypes, sys
from pathlib import Path

import anyio

from mcp_server.app import allocator

c = ctypes.CDLL(None)
c.malloc.restype, c.malloc.argtypes, c.free.argtypes = ctypes.c_void_p, [ctypes.c_size_t], [ctypes.c_void_p]


def resident():
    (line,) = (line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("VmRSS"))
    return int(line.split()[1]) / 1024
"""
# Freeing a large block makes glibc take blocks up to its size from a pool. Small blocks that stay keep the pool from shrinking.
POOLS = """
if sys.argv[1] == "yes":
    allocator.return_freed_memory()
c.free(c.malloc(30 << 20))
before, blocks = resident(), []
for _ in range(60):
    blocks.append(c.malloc(2 << 20))
    ctypes.memset(blocks[-1], 1, 2 << 20)
    c.malloc(200_000)
for block in blocks:
    c.free(block)
print(resident() - before)
"""


# Every hundredth block stays, so no pool can shrink.
BETWEEN = """
async def trimmed():
    allocator.TRIM_S = 0.01
    with anyio.move_on_after(0.5):
        await allocator.trim_regularly()


before = resident()
blocks = [c.malloc(2_000) for _ in range(40_000)]
for block in blocks:
    ctypes.memset(block, 1, 2_000)
for number, block in enumerate(blocks):
    if number % 100:
        c.free(block)
print(resident() - before)
anyio.run(trimmed)
print(resident() - before)
"""


def kept_mb(returned: str) -> float:
    """Return how many of 120 freed megabytes a process still has."""
    done = subprocess.run(
        [sys.executable, "-c", BEGINNING + POOLS, returned], capture_output=True, text=True, check=True
    )
    return float(done.stdout)


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="this C library has its own way to free memory")
def test_freed_blocks_go_back_to_the_system() -> None:
    assert kept_mb("no") > 60, "the program shows what happens otherwise"
    assert kept_mb("yes") < 20


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="this C library has its own way to free memory")
def test_what_is_free_between_used_blocks_goes_back_regularly() -> None:
    done = subprocess.run([sys.executable, "-c", BEGINNING + BETWEEN], capture_output=True, text=True, check=True)
    kept, left = map(float, done.stdout.split())
    assert kept > 60, "glibc alone keeps all of it"
    assert left < 30


# A new process has no freed block of this size to use again, so every block above the limit costs new memory pages.
SEARCHES = """
import resource

import numpy as np

from knowledge.index.engines import codes

allocator.return_freed_memory()
lanes, asked = np.zeros((codes.LANES, 100_000), np.uint64), np.ones(codes.LANES, np.uint64)
codes._distances(lanes, asked)
before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
for _ in range(20):
    codes._distances(lanes, asked)
print((resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before) / 20)
"""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="this C library has its own way to free memory")
def test_a_search_does_not_ask_for_the_same_memory_again() -> None:
    done = subprocess.run([sys.executable, "-c", BEGINNING + SEARCHES], capture_output=True, text=True, check=True)
    assert float(done.stdout) < 100, "pages of memory that a search takes from the system"
