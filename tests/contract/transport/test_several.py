"""Several knowledge bases in one service: each has its own pages, state, trust, tokens and sessions, and nothing crosses over."""

from __future__ import annotations

import os
import re
import signal
import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import anyio
import httpx
import httpx2
import pytest
from mcp import Client
from mcp.client.streamable_http import streamable_http_client
from mcp.shared._httpx_utils import create_mcp_http_client
from starlette.applications import Starlette

from mcp_server.app.composition import App, open_app
from mcp_server.app.knowledge_base import utc_now
from mcp_server.app.settings.loader import BadSetting, load
from mcp_server.app.settings.settings import Settings
from mcp_server.app.settings.several import require_one, served_bases
from mcp_server.gate.host_registration import TOKEN_HOLDER
from mcp_server.gate.trust.scores import grant
from mcp_server.transport.http import http_app
from mcp_server.transport.several import several_app
from tests.contract.gate.test_tokens import token_for
from tests.contract.gate.test_trust_gradient import ERAS, call
from tests.contract.transport.test_http import HEADERS, HELLO
from tests.support.knowledge_bases.folders import write

ORIGIN = "https://kb.example.com"
NAMES = ("team", "docs")


@dataclass
class Service:
    """A service with two knowledge bases, and a token of Ann's for each; the page of each holds a word of its own."""

    app: Starlette
    apps: Mapping[str, App]
    tokens: Mapping[str, str]
    http: httpx.AsyncClient

    @asynccontextmanager
    async def client(self, name: str, era: str) -> AsyncIterator[Client]:
        headers = {"authorization": f"Bearer {self.tokens[name]}"}
        transport = httpx2.ASGITransport(self.app)
        async with httpx2.AsyncClient(transport=transport, headers=headers) as http:
            wire = streamable_http_client(f"{ORIGIN}/kb/{name}/mcp", http_client=http)
            async with Client(wire, mode=era) as client:
                yield client


def configured(folder: Path, **more: str) -> dict[str, str]:
    """Write the files of two knowledge bases and of the service; return the environment that names the service's file."""
    for name in NAMES:
        write(folder / name, {f"{name}.md": f"# Page of {name}\n\nThe word is canary-{name}.\n"})
        file = folder / f"{name}.toml"
        file.write_text(f'kb = "{name}"\nstate_dir = "state-{name}"\nopen_browser = false\n{more.get(name, "")}')
        file.chmod(0o600)
    service = folder / "service.toml"
    named = ", ".join(f'"{name}={folder / name}.toml"' for name in NAMES)
    service.write_text(
        f'http = "127.0.0.1:0"\nhttp_url = "{ORIGIN}/mcp"\nknowledge_bases = [{named}]\n{more.get("service", "")}'
    )
    service.chmod(0o600)
    return {"FORGE_CONFIG": str(service)}


@asynccontextmanager
async def serving(folder: Path, **more: str) -> AsyncIterator[Service]:
    settings = load({}, configured(folder, **more), cwd=folder)
    _, bases = served_bases(settings)
    async with AsyncExitStack() as stack:
        apps = {name: await stack.enter_async_context(open_app(one)) for name, one in bases.items()}
        tokens = {name: await token_for(app) for name, app in apps.items()}
        served = several_app(
            {name: http_app(app.server, bases[name].http_access) for name, app in apps.items()},
            {name: {"state": app.base.state.last_event} for name, app in apps.items()},
        )
        await stack.enter_async_context(served.router.lifespan_context(served))
        transport = httpx.ASGITransport(served)
        http = httpx.AsyncClient(transport=transport, base_url=ORIGIN, headers=HEADERS)
        yield Service(served, apps, tokens, await stack.enter_async_context(http))


@pytest.mark.parametrize("era", ERAS)
async def test_each_client_sees_one_knowledge_base_and_has_trust_in_that_one_alone(tmp_path: Path, era: str) -> None:
    async with serving(tmp_path) as service:
        await grant(service.apps["team"].base.state, f"ann@{TOKEN_HOLDER}", 3, by="ada", now=utc_now())
        for name, other in (NAMES, NAMES[::-1]):
            async with service.client(name, era) as client:
                assert f"canary-{name}" in str(await call(client, "kb_read", path=f"{name}.md"))
                seen = [await call(client, "kb_map"), await call(client, "kb_search", query="the page with the word")]
                seen.append((await client.call_tool("kb_read", {"path": f"{other}.md"})).model_dump())
                assert not any(f"canary-{other}" in str(one) or f"Page of {other}" in str(one) for one in seen)
                written = await call(client, "kb_merge", path="new.md", content="# New\n")
                assert written["status"] == ("done" if name == "team" else "proposed")
        assert [(tmp_path / name / "new.md").exists() for name in NAMES] == [True, False]
        pending = [len(await app.base.state.trust.proposals()) for app in service.apps.values()]
        assert pending == [0, 1]


async def test_a_token_or_session_of_one_knowledge_base_is_nothing_in_the_other(tmp_path: Path) -> None:
    async with serving(tmp_path) as service:
        team, docs = ({"authorization": f"Bearer {service.tokens[name]}"} for name in NAMES)
        hello = await service.http.post("/kb/team/mcp", json=HELLO, headers=team)
        assert hello.status_code == 200
        assert (await service.http.post("/kb/docs/mcp", json=HELLO, headers=team)).status_code == 401
        listing = {"jsonrpc": "2.0", "id": 2, "method": "tools/list", "params": {}}
        session = {"mcp-session-id": hello.headers["mcp-session-id"], "mcp-protocol-version": "2025-11-25"}
        stolen = await service.http.post("/kb/docs/mcp", json=listing, headers=docs | session)
        assert stolen.status_code == 404
        assert (await service.http.post("/kb/team/mcp", json=listing, headers=team | session)).status_code == 200


async def test_an_address_of_no_knowledge_base_is_not_found(tmp_path: Path) -> None:
    async with serving(tmp_path) as service:
        headers = {"authorization": f"Bearer {service.tokens['team']}"}
        for path in ("/mcp", "/", "/kb", "/kb/", "/kb/team", "/kb/other/mcp", "/kb/Team/mcp", "/kb//mcp", "/team/mcp"):
            answer = await service.http.post(path, json=HELLO, headers=headers)
            assert answer.status_code == 404, path
            assert "docs" not in answer.text


async def test_each_knowledge_base_has_its_own_sign_in_servers_and_metadata(tmp_path: Path) -> None:
    issuers = 'oauth_issuers = ["corp=https://login.example.com/realms/corp"]\n'
    async with serving(tmp_path, docs=issuers) as service:
        about = await service.http.get("/.well-known/oauth-protected-resource/kb/docs/mcp")
        assert about.json()["resource"] == f"{ORIGIN}/kb/docs/mcp"
        refused = await service.http.post("/kb/docs/mcp", json=HELLO)
        assert f"{ORIGIN}/.well-known/oauth-protected-resource/kb/docs/mcp" in refused.headers["www-authenticate"]
        assert (await service.http.post("/kb/team/mcp", json=HELLO)).headers["www-authenticate"] == "Bearer"
        for path in ("/.well-known/oauth-protected-resource", "/.well-known/oauth-protected-resource/mcp"):
            assert (await service.http.get(path)).status_code == 404
        # Without a sign-in server there is no metadata, and everything below an endpoint needs a token.
        assert (await service.http.get("/.well-known/oauth-protected-resource/kb/team/mcp")).status_code == 401


async def test_health_and_readiness_are_those_of_the_process_and_name_no_knowledge_base(tmp_path: Path) -> None:
    async with serving(tmp_path) as service:
        assert (await service.http.get("/health")).text == "ok"
        assert (await service.http.get("/ready")).json() == {"ready": True}
        assert (await service.http.get("/kb/docs/health")).text == "ok"


@pytest.mark.parametrize(
    ("more", "says"),
    [
        ({"service": 'kb = "team"\n'}, r"FORGE_KB .*belongs in the file of the one that it is for"),
        ({"service": "read_only = true\n"}, r"FORGE_READ_ONLY .*belongs in the file"),
        ({"team": 'http = "127.0.0.1:1"\n'}, r"team .*`http` belongs in the settings of the service"),
        ({"team": "http_workers = 2\n"}, r"team .*`http_workers` belongs in the settings of the service"),
        ({"team": 'metrics = "127.0.0.1:1"\n'}, r"team .*`metrics` belongs in the settings of the service"),
        ({"team": "unheard = 1\n"}, r"unheard .*no such setting"),
        (
            {"team": 'database_schema = "one"\n', "docs": 'database_schema = "one"\n'},
            r"team, docs.*same `database_schema`",
        ),
    ],
)
def test_a_setting_in_the_wrong_place_or_something_shared_is_refused(
    tmp_path: Path, more: dict[str, str], says: str
) -> None:
    with pytest.raises(BadSetting, match=says):
        served_bases(load({}, configured(tmp_path, **more), cwd=tmp_path))


def test_every_knowledge_base_has_a_file_and_a_folder_of_its_own(tmp_path: Path) -> None:
    environ = configured(tmp_path)
    settings = load({}, environ, cwd=tmp_path)
    (tmp_path / "docs.toml").write_text('kb = "team"\n')
    with pytest.raises(BadSetting, match="same folder of pages"):
        served_bases(settings)
    (tmp_path / "docs.toml").write_text('kb = "docs"\nstate_dir = "state-team"\n')
    with pytest.raises(BadSetting, match="same `state_dir`"):
        served_bases(settings)
    (tmp_path / "docs.toml").write_text("read_only = true\n")
    with pytest.raises(BadSetting, match="names no folder of pages"):
        served_bases(settings)
    (tmp_path / "docs.toml").unlink()
    with pytest.raises(BadSetting, match="there is no such file"):
        served_bases(settings)


@pytest.mark.parametrize("given", ["team", "team=", "Team=/a", "team=a.toml", "team=/a,team=/b", "a/b=/c", ""])
def test_what_is_not_a_list_of_names_and_files_is_refused(given: str) -> None:
    with pytest.raises(BadSetting, match="FORGE_KNOWLEDGE_BASES"):
        load({}, {"FORGE_KNOWLEDGE_BASES": given or ","})


def test_the_environment_of_the_service_changes_no_knowledge_base(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FORGE_KB", "/from-environment")
    monkeypatch.setenv("FORGE_READ_ONLY", "true")
    _, bases = served_bases(load({}, configured(tmp_path), cwd=tmp_path))
    assert [(one.kb, one.read_only) for one in bases.values()] == [(tmp_path / name, False) for name in NAMES]


def test_over_stdio_there_is_one_knowledge_base_and_a_command_works_on_one(tmp_path: Path) -> None:
    settings = load({"http": "stdio"}, configured(tmp_path), cwd=tmp_path)
    with pytest.raises(BadSetting, match="over HTTP only"):
        served_bases(settings)
    with pytest.raises(BadSetting, match=r"`token` works on one knowledge base; .*FORGE_CONFIG=.*team\.toml"):
        require_one(settings, "token")
    require_one(Settings(kb=tmp_path), "token")


@pytest.mark.external
async def test_the_command_serves_them_and_each_is_administered_by_its_own_file(tmp_path: Path) -> None:
    base = {name: value for name, value in os.environ.items() if not name.startswith("FORGE_")}
    environ = configured(tmp_path)

    async def run(config: str, *words: str) -> tuple[str, str]:
        command = [sys.executable, "-m", "mcp_server", *words]
        done = await anyio.run_process(command, env={**base, "FORGE_CONFIG": config}, check=False)
        return done.stdout.decode().strip(), done.stderr.decode()

    assert "works on one knowledge base" in (await run(environ["FORGE_CONFIG"], "token", "create", "ann"))[1]
    tokens = {name: (await run(str(tmp_path / f"{name}.toml"), "token", "create", "ann"))[0] for name in NAMES}
    command = [sys.executable, "-m", "mcp_server", "serve"]
    async with await anyio.open_process(command, env={**base, **environ}) as process:
        assert process.stderr is not None
        said = ""
        with anyio.fail_after(60):
            async for block in process.stderr:
                said += block.decode()
                if "/kb/docs/mcp" in said:
                    break
        addresses = dict(zip(NAMES, re.findall(r"http://[^\s,]+/mcp", said), strict=True))
        for name, address in addresses.items():
            headers = {"authorization": f"Bearer {tokens[name]}"}
            async with (
                create_mcp_http_client(headers=headers) as http,
                Client(streamable_http_client(address, http_client=http), mode="auto") as client,
            ):
                assert f"canary-{name}" in str(await call(client, "kb_read", path=f"{name}.md"))
        process.send_signal(signal.SIGTERM)
        with anyio.fail_after(60):
            assert await process.wait() == 0
