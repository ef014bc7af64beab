"""A mixed load of clients while workers are killed: no confirmed write is lost, nothing is done twice, and only calls in flight break.

The long version, with 32 clients, ten minutes and a kill every five seconds: `python -m tests.benchmarks.http_workers kills`.
"""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tests.support.hosts.killed_load import play
from tests.support.state.postgres import PostgresServer

pytestmark = [pytest.mark.external, pytest.mark.skipif(sys.platform == "win32", reason="nginx of Debian")]


async def test_killed_workers_lose_no_confirmed_write_and_make_none_twice(
    postgres: PostgresServer, tmp_path: Path
) -> None:
    load = await play(tmp_path, postgres.url(), clients=12, seconds=30, every_s=3)
    print(load.in_words())  # noqa: T201 - the figures
    assert load.kills
    assert load.acknowledged
    assert all(load.forms.values())
    assert len(load.forms) == 2
    assert load.lost == []
    assert load.doubled == []
    assert load.wrong == []
    assert load.unexplained == []
    assert load.audit == ""
    # Whoever began a write got to know its outcome: at once, or by sending it again.
    assert load.open == {}
