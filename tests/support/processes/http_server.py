"""A server of its own process over HTTP, and clients with tokens, for tests that take something away from it."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

import anyio
from mcp import Client
from mcp.client.streamable_http import streamable_http_client
from mcp.shared._httpx_utils import create_mcp_http_client

from knowledge.trust.ports import BearerToken, Note
from mcp_server.app.knowledge_base import open_state, utc_now
from mcp_server.app.settings.settings import Settings
from mcp_server.gate.host_registration import TOKEN_HOLDER, digest
from mcp_server.gate.trust.scores import grant
from mcp_server.gate.trust.tokens import minted

ROOT = Path(__file__).parents[3]
STARTS_S = 60.0


@dataclass(frozen=True, slots=True)
class HttpServer:
    """A running server: its address, its process and its log."""

    address: str
    pid: int
    log: Path

    @asynccontextmanager
    async def client(self, token: str) -> AsyncIterator[Client]:
        """Yield a client with that token."""
        async with (
            create_mcp_http_client(headers={"authorization": f"Bearer {token}"}) as http,
            Client(streamable_http_client(self.address, http_client=http)) as client,
        ):
            yield client


async def let_in(settings: Settings, *names: str, level: float = 3) -> list[str]:
    """Create a token for each, grant that level, and return the tokens."""
    secrets = []
    async with open_state(settings) as state:
        for name in names:
            (token_id, secret), now = minted(), utc_now()
            token = BearerToken(token_id, name, digest(secret), 3, None, "ada", now, now + timedelta(days=1))
            await state.trust.add_token(token, note=Note("ada", "token.create", token_id, now))
            await grant(state, f"{name}@{TOKEN_HOLDER}", level, by="ada", now=now)
            secrets.append(secret)
    return secrets


@asynccontextmanager
async def serving(
    settings: Settings, log: Path, more: Mapping[str, str], *, through: Sequence[str] = ()
) -> AsyncIterator[HttpServer]:
    """Serve the knowledge base to other machines. `through` is put before the command, which then replaces that process."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("FORGE_")}
    environment |= {
        "FORGE_KB": str(settings.kb),
        "FORGE_STATE_DIR": str(settings.state_dir),
        "FORGE_OPEN_BROWSER": "0",
        "FORGE_HTTP_URL": "https://kb.example.com/mcp",
        # Tests send as fast as they can.
        **dict.fromkeys(("FORGE_LIMIT_CALLS", "FORGE_LIMIT_HEAVY", "FORGE_LIMIT_AT_ONCE"), "off"),
        **more,
    }
    if settings.database_url and settings.database_schema:
        environment |= {"FORGE_DATABASE_URL": settings.database_url, "FORGE_DATABASE_SCHEMA": settings.database_schema}
    command = [*through, sys.executable, "-m", "mcp_server", "serve", "--http", "127.0.0.1:0"]
    async with started(command, environment, log) as server:
        yield server


@asynccontextmanager
async def started(
    command: Sequence[str], environment: Mapping[str, str], log: Path, folder: Path = ROOT
) -> AsyncIterator[HttpServer]:
    """Run a command that serves HTTP in a folder, and yield the server once it serves."""
    with log.open("w", encoding="utf-8") as errors:
        async with await anyio.open_process(
            command, env=environment, cwd=folder, stderr=errors, stdout=subprocess.DEVNULL
        ) as process:
            try:
                with anyio.fail_after(STARTS_S):
                    while (address := _address_in(log)) is None:
                        assert process.returncode is None, _read(log)
                        await anyio.sleep(0.05)
                yield HttpServer(address, process.pid, log)
            finally:
                if process.returncode is None:
                    process.terminate()
                    with anyio.CancelScope(shield=True):
                        await process.wait()


def _address_in(log: Path) -> str | None:
    found = re.search(r"serving (http://\S+/mcp)", _read(log))
    return found[1] if found else None


def _read(log: Path) -> str:
    return log.read_text(encoding="utf-8")
