"""Processes that write stored pages are killed; acts are whole, acknowledged ones stay, and the copy agrees with the database."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.crash.stored_writer import PAGES
from tests.support.state.ledgers import open_shared
from tests.support.state.postgres import PostgresServer
from tests.support.writing.stored import stored_world

pytestmark = pytest.mark.external

ROOT = Path(__file__).parents[2]
KILLS = 6


async def test_killed_writers_leave_whole_acts_and_a_copy_that_agrees(
    tmp_path: Path, postgres: PostgresServer, schema: str
) -> None:
    acknowledged: list[str] = []
    for number in range(KILLS):
        command = [
            sys.executable,
            "-m",
            "tests.crash.stored_writer",
            str(tmp_path),
            postgres.url(),
            schema,
            f"w{number}",
        ]
        with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as process:  # noqa: ASYNC220  nothing else runs
            assert process.stdout is not None
            # Read while it writes, so that it is killed at any moment of an act.
            acknowledged += [process.stdout.readline().strip() for _ in range(3 + number)]
            process.kill()
            acknowledged += process.stdout.read().splitlines()
    store = await open_shared(postgres.url(), schema)
    async with stored_world(tmp_path, store) as world:
        one, two = (world.read(path) for path in PAGES)
        assert one == two, "half of an act"
        lines = (one or b"").decode().splitlines()
        assert set(acknowledged) <= set(lines)
        assert len(lines) == len(set(lines)) <= len(acknowledged) + KILLS
        assert await world.copy.edited() == []
        other = world.elsewhere()
        await other.copy.catch_up()
        assert other.pages() == dict.fromkeys(PAGES, one)
        assert len(await store.ledger.records()) == len(lines)
    await store.close()
