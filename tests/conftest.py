"""Fixtures that several folders of tests share, and how the run is kept fast."""

from __future__ import annotations

import gc

from tests.postgres import fragile_postgres, postgres, schema

__all__ = ["fragile_postgres", "postgres", "schema"]


def pytest_collection_finish() -> None:
    """Leave what was imported out of every collection of garbage to come, and collect less often: an eighth of the time."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(20_000, 20, 50)
