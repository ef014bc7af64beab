"""Subscribers that lose their stream and open another one somewhere else miss no write (decision 110)."""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import anyio
import anyio.to_thread
import pytest

from mcp_server.app.settings.settings import Settings
from tests.support.hosts.listeners import following
from tests.support.hosts.plain_callers import LEGACY, MODERN, BrokenCall, PlainCaller
from tests.support.hosts.spread import two_servers
from tests.support.hosts.writers import let_in
from tests.support.knowledge_bases.folders import write
from tests.support.processes.http_workers import service
from tests.support.state.postgres import PostgresServer

PAGE, TEXT = "page.md", "# Page\n\nFirst.\n"
ROUNDS, KILLS = 6, 3


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return Settings(kb=write(tmp_path / "kb", {PAGE: TEXT}), state_dir=tmp_path / "state", open_browser=False)


async def put(writer: PlainCaller, words: str) -> None:
    """Give the page this text; a call whose server dies is sent again."""
    while True:
        try:
            base = (await writer.call("kb_read", path=PAGE))["revision"]
            text = f"# Page\n\n{words}\n"
            await writer.call("kb_merge", path=PAGE, content=text, base_revision=base, section="*")
        except BrokenCall:
            await anyio.sleep(0.05)
        else:
            return


@asynccontextmanager
async def meanwhile(writer: PlainCaller, words: str, begun_before_s: float) -> AsyncIterator[None]:
    """Run the body a moment after the write has begun."""
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(put, writer, words)
        await anyio.sleep(begun_before_s)
        yield


@pytest.mark.parametrize("era", [MODERN, LEGACY])
async def test_a_write_before_while_or_after_a_subscriber_reconnects_is_known_to_it(
    settings: Settings, era: str
) -> None:
    """It reads the page once it is subscribed, and at each notification, and nothing else makes it read."""
    secret = str((await let_in(settings, level=3)).enrolment)
    async with two_servers(settings) as servers, PlainCaller(f"http://{servers[0]}/mcp", secret, MODERN) as writer:
        for number in range(ROUNDS):
            url = f"http://{servers[number % 2]}/mcp"
            async with (
                meanwhile(writer, f"Round {number}.", 0.01 * number),
                following(url, secret, era, PAGE) as follower,
            ):
                await follower.until(f"Round {number}.")
                await put(writer, f"Later in round {number}.")
                await follower.until(f"Later in round {number}.")


@pytest.mark.external
@pytest.mark.skipif(sys.platform == "win32", reason="there one process serves")
@pytest.mark.parametrize("era", [MODERN, LEGACY])
async def test_subscribers_whose_workers_are_killed_reconnect_and_know_every_write(
    settings: Settings, tmp_path: Path, postgres: PostgresServer, schema: str, era: str
) -> None:
    environment = {
        "HOME": str(tmp_path),
        "FORGE_KB": str(settings.kb),
        "FORGE_STATE_DIR": str(settings.state_dir),
        "FORGE_DATABASE_URL": postgres.url(),
        "FORGE_DATABASE_SCHEMA": schema,
        "FORGE_HTTP_URL": "https://kb.example.com/mcp",
    }
    there = Settings(
        kb=settings.kb,
        state_dir=settings.state_dir,
        database_url=postgres.url(),
        database_schema=schema,
        open_browser=False,
    )
    secret = str((await let_in(there, level=3)).enrolment)
    with service(environment, "--http", "127.0.0.1:0", "--workers", "2") as running:
        url = running.url
        async with PlainCaller(url, secret, MODERN) as writer:
            for number in range(KILLS):
                async with following(url, secret, era, PAGE) as follower:
                    await put(writer, f"Before kill {number}.")
                    await follower.until(f"Before kill {number}.")
                    while not follower.lost.is_set():
                        for pid in running.workers:
                            running.kill_worker(pid)
                        await anyio.sleep(0.1)
                await put(writer, f"After kill {number}.")
                async with following(url, secret, era, PAGE) as follower:
                    await follower.until(f"After kill {number}.")
                    await put(writer, f"Later than kill {number}.")
                    await follower.until(f"Later than kill {number}.")
