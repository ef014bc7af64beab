"""Streams of events over HTTP whose token stops being valid."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import anyio
import httpx
import pytest
import uvicorn
from mcp import Client
from mcp.client.streamable_http import streamable_http_client
from mcp.shared._httpx_utils import create_mcp_http_client

from knowledge.trust.ports import Note
from mcp_server.app.composition import App, open_app
from mcp_server.app.knowledge_base import utc_now
from mcp_server.app.settings.settings import Settings
from mcp_server.app.settings.values import HttpAddress
from mcp_server.transport.http import http_app
from mcp_server.transport.shared_port import bound
from mcp_server.transport.sign_in import bearer
from tests.contract.gate.test_tokens import token_for
from tests.contract.transport.test_http import HEADERS, HELLO
from tests.support.knowledge_bases.folders import write


@asynccontextmanager
async def serving_streams(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[tuple[App, str]]:
    """Serve on a real socket, and look at the tokens of open streams very often."""
    monkeypatch.setattr(bearer, "RECHECK_S", 0.01)
    settings = Settings(kb=write(tmp_path / "kb"), state_dir=tmp_path / "state", open_browser=False)
    async with open_app(settings, indexing=False) as app:
        with bound(HttpAddress("127.0.0.1", 0)) as listening:
            running = uvicorn.Server(uvicorn.Config(http_app(app.server), log_level="warning", ws="none"))
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(running.serve, [listening])
                yield app, f"http://127.0.0.1:{listening.getsockname()[1]}/mcp"
                running.should_exit = True


async def revoke(app: App, token: str) -> None:
    assert await app.base.state.trust.revoke_token(token[3:15], note=Note("ada", "token.revoke", "", utc_now()))


async def test_the_stream_of_a_session_ends_once_its_token_is_revoked_and_others_go_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with serving_streams(tmp_path, monkeypatch) as (app, url), httpx.AsyncClient(timeout=60) as client:
        tokens = [await token_for(app, name) for name in ("ann", "bob")]
        sessions = []
        for token in tokens:
            headers = {**HEADERS, "authorization": f"Bearer {token}"}
            hello = await client.post(url, json=HELLO, headers=headers)
            session = {"mcp-session-id": hello.headers["mcp-session-id"], "mcp-protocol-version": "2025-11-25"}
            sessions.append({**headers, "accept": "text/event-stream", **session})
        async with (
            client.stream("GET", url, headers=sessions[0]) as first,
            client.stream("GET", url, headers=sessions[1]) as second,
        ):
            assert (first.status_code, second.status_code) == (200, 200)
            await revoke(app, tokens[0])
            with anyio.fail_after(60):
                assert b"".join([block async for block in first.aiter_bytes()]) == b""
            assert not second.is_closed
            assert (await client.get(url, headers=sessions[0])).status_code == 401


async def test_listening_ends_once_the_token_is_revoked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with serving_streams(tmp_path, monkeypatch) as (app, url):
        token = await token_for(app)
        async with (
            create_mcp_http_client(headers={"authorization": f"Bearer {token}"}) as http,
            Client(streamable_http_client(url, http_client=http)) as client,
        ):
            acknowledged = False
            # The SDK may end the loop or raise; waiting on would be neither.
            with anyio.fail_after(60), suppress(Exception):
                async with client.listen(resources_list_changed=True) as changes:
                    acknowledged = True
                    await revoke(app, token)
                    async for _ in changes:
                        pass
            assert acknowledged
            assert (await http.post(url, json=HELLO, headers=HEADERS)).status_code == 401
