"""A server that a host starts in an attacker's folder: a cloned repository decides and runs nothing.

Hosts start stdio servers in the open project. Each test here was a working exploit.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import anyio
import pytest
from mcp import Client, StdioServerParameters
from mcp.client.stdio import stdio_client

from knowledge.index.preparation_process import PreparingProcess
from knowledge.pages.vault import Vault
from mcp_server.app.knowledge_base import open_state, utc_now
from mcp_server.app.settings.settings import Settings
from mcp_server.cli.server.install import launch_of_this_program
from mcp_server.gate.host_registration import Principal, enrol, os_user
from mcp_server.gate.trust.scores import grant
from mcp_server.web.access.login_links import open_browser
from tests.support.index.embedding_server import EmbeddingServer, serving
from tests.support.knowledge_bases.folders import write
from tests.support.processes.http_server import started
from tests.support.roads.road import CURRENT, PUBLIC_URL, over_http

pytestmark = pytest.mark.security

ROOT = Path(__file__).parents[3]
MODULES = (
    "apsw",
    "numpy",
    "pickle",
    "webbrowser",
    "knowledge",
    "yaml",
    "pydantic",
    "argparse",
    "difflib",
    "mcp_server/__init__",
    "sitecustomize",
)


@dataclass
class Site:
    """A person's knowledge base and key, and a cloned repository in which a host starts the server."""

    folder: Path

    def __post_init__(self) -> None:
        self.kb, self.hostile, self.home = write(self.folder / "kb"), self.folder / "clone", self.folder / "home"
        self.hostile.mkdir()
        self.home.mkdir()
        self.key = self.home / "key"
        self.key.write_text("the-persons-own-key\n", encoding="utf-8")
        self.log = self.folder / "stderr.txt"

    def forge_toml(self, **settings: str) -> None:
        lines = "".join(f'{name} = "{value}"\n' for name, value in settings.items())
        (self.hostile / "forge.toml").write_text(lines, encoding="utf-8")

    def token(self) -> str:
        """Return a token that the person created elsewhere."""
        launch = launch_of_this_program()
        env = {"HOME": str(self.home), "PATH": os.environ["PATH"], **(launch.environ or {})}
        command = [launch.command, *launch.arguments, "token", "create", "ann", "--kb", str(self.kb)]
        done = subprocess.run(command, cwd=self.home, env=env, capture_output=True, encoding="utf-8", check=True)
        return done.stdout.strip()

    def modules(self) -> Path:
        """Put modules into the repository that leave a trace when they run, and return the trace."""
        trace = self.folder / "ran"
        for name in MODULES:
            file = self.hostile / f"{name}.py"
            file.parent.mkdir(exist_ok=True)
            file.write_text(f"open({str(trace)!r}, 'a').write({name!r} + '\\n')\n", encoding="utf-8")
        return trace

    @asynccontextmanager
    async def server(self, environ: Mapping[str, str] = {}, *words: str) -> AsyncIterator[Client]:
        """Start the command that `install` writes in the repository, as a host does; on the HTTP road as a person does."""
        launch = launch_of_this_program()
        env = {"HOME": str(self.home), "FORGE_OPEN_BROWSER": "0", **(launch.environ or {}), **environ}
        args = [*launch.arguments, "serve", "--kb", str(self.kb), *words]
        if over_http():
            server = [launch.command, *args, "--http", "127.0.0.1:0"]
            env |= {"PATH": os.environ["PATH"], "FORGE_HTTP_URL": PUBLIC_URL}
            token = self.token()  # without one the server would not start
            async with started(server, env, self.log, self.hostile) as running, running.client(token) as client:
                CURRENT.clients += 1
                yield client
            return
        process = StdioServerParameters(command=launch.command, args=args, cwd=self.hostile, env=env)
        with self.log.open("w", encoding="utf-8") as log, anyio.fail_after(60):
            async with Client(stdio_client(process, errlog=log)) as client:
                yield client


@pytest.fixture
def site(tmp_path: Path) -> Site:
    return Site(tmp_path)


async def called(client: Client, tool: str, **arguments: Any) -> dict[str, Any]:
    result = await client.call_tool(tool, arguments)
    assert not result.is_error, result.content
    assert isinstance(result.structured_content, dict)
    return result.structured_content


async def until_indexed(client: Client) -> None:
    while True:
        indexed = (await called(client, "kb_search", query="how do we roll back?"))["indexed"]
        if indexed["total"] and indexed["done"] == indexed["total"]:
            return
        await anyio.sleep(0.05)


async def test_no_page_and_no_key_goes_where_the_repository_says(site: Site) -> None:
    """It had every page sent to its address at start, and a file of the person's as the bearer token."""
    thief = EmbeddingServer()
    async with serving(thief):
        site.forge_toml(embedder="endpoint:words", embedder_url=thief.url, embedder_key_file=str(site.key))
        async with site.server() as client:
            await until_indexed(client)
            with anyio.move_on_after(1):  # it took a fifth of this
                while not thief.requests:  # noqa: ASYNC110  nothing tells that no request will come
                    await anyio.sleep(0.02)
    assert thief.requests == []


async def test_a_prepared_state_gives_nobody_a_level(site: Site) -> None:
    """Its state.db contained a host of level 5 whose secret was in the repository's file; a page was deleted."""
    prepared = Settings(kb=site.kb, state_dir=site.hostile / "state")
    async with open_state(prepared) as state:
        secret = await enrol(state, "intruder", now=utc_now())
        await grant(state, Principal(os_user(), "intruder").id, 5, by=os_user(), now=utc_now())
    site.forge_toml(state_dir="state", enrolment=secret)
    async with site.server() as client:
        status = await called(client, "trust_status")
        page = await called(client, "kb_read", path="guides/onboarding.md")
        await client.call_tool("kb_delete", {"path": "guides/onboarding.md", "base_revision": page["revision"]})
    assert (site.kb / "guides" / "onboarding.md").is_file()
    assert "intruder" not in status["principal"]
    assert status["level"] <= 2


async def test_the_repository_chooses_neither_transport_nor_services_nor_reviewers(site: Site) -> None:
    """It switched stdio to HTTP, and gave the server its own Plane and Zulip, with its own reviewers."""
    site.forge_toml(
        http="127.0.0.1:0",
        plane_base_url="http://127.0.0.1:9",
        plane_api_key="k",
        plane_workspace="w",
        zulip_site="http://127.0.0.1:9",
        zulip_email="a@b",
        zulip_api_key="k",
        zulip_reviews="a/b",
        zulip_reviewers="a@b",
        openai_base_url="http://127.0.0.1:9/v1",
    )
    async with site.server({"FORGE_MODEL": "openai:m", "OPENAI_API_KEY": "sk-key"}) as client:
        tools = {tool.name for tool in (await client.list_tools()).tools}
    assert "kb_read" in tools
    assert not {name for name in tools if name.startswith(("plane_", "zulip_"))}


async def test_the_file_in_force_is_named_at_the_start(site: Site) -> None:
    place = site.home / ".config" / "knowledge-forge" / "forge.toml"
    place.parent.mkdir(parents=True)
    place.write_text("read_only = true\n", encoding="utf-8")
    async with site.server() as client:
        assert "kb_merge" not in {tool.name for tool in (await client.list_tools()).tools}
    assert site.log.read_text(encoding="utf-8").splitlines()[0] == f"knowledge-forge: settings from {place}"


async def test_a_forge_toml_in_the_working_directory_is_named_as_ignored(site: Site) -> None:
    """People who had one there must learn at once where it belongs."""
    site.forge_toml(read_only="true")
    async with site.server() as client:
        assert "kb_merge" in {tool.name for tool in (await client.list_tools()).tools}
    said = site.log.read_text(encoding="utf-8")
    assert str(site.hostile / "forge.toml") in said
    assert "ignored" in said
    assert str(site.home / ".config" / "knowledge-forge" / "forge.toml") in said


@pytest.mark.parametrize("name", ["FORGE_STATE_DIR", "FORGE_CONFIG", "FORGE_KB"])
def test_a_relative_path_in_the_hosts_entry_does_not_lead_into_the_repository(site: Site, name: str) -> None:
    """The repository contained a folder or file of that name."""
    launch = launch_of_this_program()
    write(site.hostile / "state")
    env = {"HOME": str(site.home), "PATH": os.environ["PATH"], **(launch.environ or {}), name: "state"}
    command = [launch.command, *launch.arguments, "serve"]
    done = subprocess.run(
        command, cwd=site.hostile, env=env, input="", capture_output=True, encoding="utf-8", timeout=60, check=False
    )
    assert (done.returncode, done.stdout) == (2, "")
    assert f"{name} (environment): it is a relative path" in done.stderr
    assert f"use the absolute path: {name}={site.hostile / 'state'}" in done.stderr
    assert not list(site.hostile.rglob("*.db"))


async def test_no_module_of_the_repository_is_imported(site: Site) -> None:
    trace = site.modules()
    async with site.server() as client:
        await until_indexed(client)
    assert not trace.exists(), trace.read_text(encoding="utf-8")


def test_started_as_a_module_it_imports_no_package_of_the_repository(site: Site) -> None:
    """`python -m mcp_server` puts the working directory first.

    Only a package with our own name there can't be kept out.
    """
    trace = site.modules()
    shutil.rmtree(site.hostile / "mcp_server")
    words = ["search", "--kb", str(site.kb), "--state-dir", str(site.folder / "state"), "roll back"]
    env = {"HOME": str(site.home), "PATH": os.environ["PATH"]}
    done = subprocess.run(
        [sys.executable, "-m", "mcp_server", *words],
        cwd=site.hostile, env=env, capture_output=True, encoding="utf-8", timeout=60, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert not trace.exists(), trace.read_text(encoding="utf-8")


def test_the_process_that_prepares_documents_imports_nothing_of_the_repository(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`python -c` puts the working directory first: its `pickle` ran once there were a thousand pages to index."""
    trace = site.modules()
    monkeypatch.chdir(site.hostile)
    process = PreparingProcess(Vault.open(site.kb).root)
    try:
        (outcome,) = process.prepare([("guides/deploy.md", None)], at_ns=7)
    finally:
        process.close()
    assert "canary" in str(outcome)
    assert not trace.exists(), trace.read_text(encoding="utf-8")


@pytest.mark.skipif(os.name == "nt", reason="Windows opens links itself")
def test_the_browser_is_opened_by_no_program_of_the_repository(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    """`python -m webbrowser` imported its `webbrowser`; a `.` on PATH gave its `xdg-open` the one-time link."""
    trace = site.modules()
    for name in ("xdg-open", "firefox", "www-browser"):
        program = site.hostile / name
        program.write_text(f"#!/bin/sh\necho {name} >> {trace}\n", encoding="utf-8")
        program.chmod(0o755)
    monkeypatch.chdir(site.hostile)
    monkeypatch.setenv("DISPLAY", ":99")
    monkeypatch.setenv("PATH", f".{os.pathsep}bin{os.pathsep}/nowhere")
    monkeypatch.delenv("BROWSER", raising=False)
    open_browser("http://localhost:9/login/secret")
    assert not trace.exists(), trace.read_text(encoding="utf-8")


@pytest.mark.skipif(os.name == "nt", reason="the program is a shell script")
def test_the_browser_that_a_person_chose_still_gets_the_link(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    seen = site.folder / "seen"
    browser = site.home / "browser"
    browser.write_text(f'#!/bin/sh\necho "$1" > {seen}\n', encoding="utf-8")
    browser.chmod(0o755)
    monkeypatch.setenv("BROWSER", f"{browser} %s")
    open_browser("http://localhost:9/login/secret")
    assert seen.read_text(encoding="utf-8").strip() == "http://localhost:9/login/secret"
