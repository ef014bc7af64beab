"""Two versions of the program, or two processes that start at once, on one state directory."""

from __future__ import annotations

import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path
from typing import Any

import anyio
import pytest
from mcp import Client, StdioServerParameters
from mcp.client.stdio import stdio_client
from mcp_types import CallToolResult

from knowledge.errors import NewerDatabase
from mcp_server.app.composition import open_app
from mcp_server.app.knowledge_base import INDEX_FILE, STATE_FILE
from mcp_server.app.settings.settings import Settings
from tests.contract.toolsets.test_bad_input import indexed
from tests.support.knowledge_bases.folders import write

ROOT = Path(__file__).parents[3]
FROM_THE_FUTURE = 99


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return Settings(kb=write(tmp_path / "kb"), state_dir=tmp_path / "state")


def command(settings: Settings) -> list[str]:
    return ["-m", "mcp_server", "serve", "--kb", str(settings.kb), "--state-dir", str(settings.state_dir)]


def migrate(settings: Settings, name: str) -> Path:
    """Act as a later version would: raise the database's migration number."""
    assert settings.state_dir is not None
    file = settings.state_dir / name
    with closing(sqlite3.connect(file)) as connection:
        connection.execute(f"PRAGMA user_version={FROM_THE_FUTURE}")
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
    return file


@pytest.mark.parametrize("name", [STATE_FILE, INDEX_FILE])
@pytest.mark.external
async def test_an_older_program_refuses_a_newer_databases_and_leaves_it_alone(name: str, settings: Settings) -> None:
    """Two versions of the program on one state directory. The index too, because the newer one is still using it."""
    async with open_app(settings) as app:
        await indexed(app)
    file = migrate(settings, name)
    before = file.read_bytes()
    with pytest.raises(NewerDatabase, match="upgrade knowledge-forge, or name another state directory"):
        async with open_app(settings):
            pass
    assert file.read_bytes() == before
    done = subprocess.run(  # noqa: ASYNC221  nothing else runs in this loop
        [sys.executable, *command(settings)],
        capture_output=True,
        text=True,
        cwd=ROOT,
        stdin=subprocess.DEVNULL,
        check=False,
    )
    assert done.returncode == 1
    assert not done.stdout
    (line,) = done.stderr.splitlines()
    assert f"has schema {FROM_THE_FUTURE}" in line
    assert "upgrade knowledge-forge" in line


async def test_a_program_that_is_overtaken_while_it_runs_writes_nothing_more(settings: Settings) -> None:
    async with open_app(settings) as app, Client(app.server) as client:
        await indexed(app)
        migrate(settings, INDEX_FILE)
        stored = await app.base.index.position()
        write(settings.kb, {"late.md": "# Late\n\nwritten after the newer version came\n"})
        with anyio.fail_after(60):
            while not app.base.indexer.problems and not await trouble(app):  # noqa: ASYNC110  it tells nobody
                await anyio.sleep(0.05)
        assert await app.base.index.position() == stored
        result = await client.call_tool("kb_search", {"query": "roll back the payment service"})
        assert isinstance(result, CallToolResult)
        assert not result.is_error, "what it has read it may still tell"


async def rollback(client: Client) -> list[str]:
    """Return the pages found for a question; none before they are indexed."""
    result = await client.call_tool("kb_search", {"query": "roll back the payment service", "path": "guides"})
    assert isinstance(result, CallToolResult)
    assert not result.is_error, result.content
    assert result.structured_content is not None
    return [hit["path"] for hit in result.structured_content["hits"]]


async def trouble(app: Any) -> bool:
    try:
        await app.base.index.set_total(10)
    except NewerDatabase:
        return True
    return False


@pytest.mark.parametrize("times", [0, pytest.param(1, marks=pytest.mark.external)])
async def test_servers_starting_together_on_an_empty_state_directory_all_serve(times: int, settings: Settings) -> None:
    del times
    found: list[list[str]] = []

    async def serve_one() -> None:
        process = StdioServerParameters(command=sys.executable, args=command(settings), cwd=ROOT)
        async with Client(stdio_client(process)) as client:
            with anyio.fail_after(60):
                while not (hits := await rollback(client)):  # noqa: ASYNC110  another process
                    await anyio.sleep(0.05)
            found.append(hits)

    async with anyio.create_task_group() as tasks:
        for _ in range(3):
            tasks.start_soon(serve_one)
    assert [paths[0] for paths in found] == ["guides/deploy.md"] * 3
