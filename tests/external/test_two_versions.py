"""Two versions of the program serve side by side on one PostgreSQL, while clients read, search and write all the time.

With a real older version: `python -m tests.benchmarks.http_workers upgrade`.
"""

from __future__ import annotations

import sys
from pathlib import Path
from threading import Thread

import psycopg
import pytest
from psycopg.sql import SQL, Identifier

from knowledge.state.postgres.schema import ONLY_ADDS, migrations
from mcp_server.app.settings.settings import Settings
from tests.support.hosts.upgraded_load import Fleet, Upgrade, command, upgrade
from tests.support.knowledge_bases.folders import write
from tests.support.processes.http_workers import ROOT
from tests.support.processes.other_versions import after
from tests.support.state.postgres import PostgresServer

pytestmark = [
    pytest.mark.external,
    pytest.mark.skipif(sys.platform == "win32", reason="nginx of Debian"),
    # A copy of a loaded process has this version of the program.
    pytest.mark.usefixtures("new_python"),
]

ADDS = f"""{ONLY_ADDS}
CREATE TABLE forge.later (name text PRIMARY KEY);
ALTER TABLE forge.revision ADD COLUMN later text;
"""


@pytest.fixture
def settings(tmp_path: Path, postgres: PostgresServer, schema: str) -> Settings:
    return Settings(
        kb=tmp_path / "kb",
        state_dir=tmp_path / "person",
        database_url=postgres.url(),
        database_schema=schema,
        open_browser=False,
    )


def version(postgres: PostgresServer, schema: str) -> int:
    with psycopg.connect(postgres.url()) as connection:
        row = connection.execute(SQL("SELECT version FROM {}.meta").format(Identifier(schema))).fetchone()
    assert row is not None
    return int(row[0])


def nothing_lost(done: Upgrade) -> None:
    print(done.in_words())  # noqa: T201 - the figures
    assert done.load.acknowledged
    assert done.load.lost == []
    assert done.load.doubled == []
    assert done.unexplained == []
    assert done.codes == [0, 0]
    assert all(done.load.forms.values())
    assert len(done.load.forms) == 2


async def test_clients_write_all_through_an_upgrade_whose_migration_only_adds(
    settings: Settings, tmp_path: Path, postgres: PostgresServer, schema: str
) -> None:
    newer = after(ADDS, tmp_path / "newer")
    done = await upgrade(settings, tmp_path, (ROOT, newer), clients=8, pause_s=4)
    nothing_lost(done)
    assert version(postgres, schema) == len(migrations()) + 1
    assert done.refused == []
    # Whoever began a write got to know its outcome.
    assert done.load.open == {}


async def test_an_old_version_that_may_not_write_any_more_says_so_until_it_is_replaced(
    settings: Settings, tmp_path: Path, postgres: PostgresServer, schema: str
) -> None:
    newer = after(ADDS.removeprefix(ONLY_ADDS), tmp_path / "newer")
    done = await upgrade(settings, tmp_path, (ROOT, newer), clients=8, pause_s=4)
    nothing_lost(done)
    assert version(postgres, schema) == len(migrations()) + 1
    # Only while both versions serve.
    assert done.refused
    assert all(done.stopped[0] < at <= done.ready[1] for at in done.refused)


def test_of_two_servers_of_a_new_version_that_start_at_once_one_migrates_and_both_serve(
    settings: Settings, tmp_path: Path, postgres: PostgresServer, schema: str
) -> None:
    newer = after(ADDS, tmp_path / "newer")
    write(settings.kb, {"a.md": "# A\n\nText.\n"})
    command(settings, tmp_path, ROOT, "enroll", "ann")
    assert version(postgres, schema) == len(migrations())
    machines = Fleet(tmp_path, settings)

    def start(number: int) -> None:
        machines.running.append(machines.start(number, newer))

    starting = [Thread(target=start, args=(number,)) for number in range(2)]
    for each in starting:
        each.start()
    for each in starting:
        each.join()
    for running, stack in machines.running:
        assert running.stop() == 0
        stack.close()
    assert len(machines.running) == 2
    assert version(postgres, schema) == len(migrations()) + 1
