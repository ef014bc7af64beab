"""Processes for tests that need several at once."""

from __future__ import annotations

import multiprocessing
from multiprocessing.context import ForkServerContext

LOADED = ("tests.support.state.ledgers", "tests.support.state.stores", "tests.support.journeys.graphs", "hypothesis")


def forked() -> ForkServerContext:
    """Return a context whose processes are forked from one that has loaded most of the program.

    A process that loads it by itself takes a second of processor time, and tests start more than a hundred.
    """
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(list(LOADED))
    return context
