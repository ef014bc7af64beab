"""Who serves the review page, where, and how a person is notified: real processes, real sockets."""

from __future__ import annotations

import asyncio
import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from urllib.parse import unquote

import anyio
import httpx
import pytest
from mcp import Client
from mcp.client.stdio import StdioServerParameters, stdio_client

from mcp_server.app.composition import open_app
from mcp_server.app.knowledge_base import open_state, utc_now
from mcp_server.app.settings.environment import has_display
from mcp_server.app.settings.settings import Settings
from mcp_server.app.settings.values import HttpAddress
from mcp_server.transport.shared_port import bound
from mcp_server.web.address import address, holder_of, lease_name
from mcp_server.web.ports import LOWEST_PORT, PORTS, listening, preferred_port
from tests.support.knowledge_bases.folders import write
from tests.support.web.review_pages import PAGE, PATIENCE_S

ROOT = Path(__file__).parents[3]
SERVE = [sys.executable, "-m", "mcp_server"]


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return Settings(kb=write(tmp_path / "kb"), state_dir=tmp_path / "state", open_browser=False)


def words(settings: Settings, *verb: str) -> list[str]:
    return [*SERVE, *verb, "--kb", str(settings.kb), "--state-dir", str(settings.state_dir)]


def environment(**more: str) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("FORGE_", "SSH_", "CI"))}
    return {**kept, "FORGE_OPEN_BROWSER": "0", **more}


@contextmanager
def page(settings: Settings, **env: str) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """Run `review --web` and yield it with the link that it prints."""
    started = subprocess.Popen(
        words(settings, "review", "--web"), cwd=ROOT, env=environment(**env), stdout=subprocess.PIPE, text=True
    )
    with started:
        try:
            assert started.stdout is not None
            said = ""
            while not (link := re.search(r"http://localhost:\d+/login/\S+", said)):
                line = started.stdout.readline()
                assert line, f"it ended ({started.wait()}) and said {said}"
                said += line
            yield started, link.group()
        finally:
            with suppress(ProcessLookupError):
                started.kill()


def until(found: Callable[[], bool]) -> None:
    """Return once the condition holds; other processes can't be waited for otherwise."""
    deadline = time.monotonic() + PATIENCE_S
    while not found():
        assert time.monotonic() < deadline
        time.sleep(0.05)


async def where(settings: Settings) -> str | None:
    async with open_state(settings) as state:
        return await address(state)


@pytest.mark.external
def test_one_process_shows_the_page_others_hand_out_its_address_and_take_over_when_it_dies(settings: Settings) -> None:
    with page(settings) as (first, link):
        here = link.partition("/login/")[0]
        assert anyio.run(where, settings) == here
        with page(settings) as (second, other):
            assert other.startswith(here)
            assert other != link
            assert second.wait(PATIENCE_S) == 0
        for one in (link, other):
            assert httpx.get(one, timeout=PATIENCE_S).status_code == 200
        first.kill()
        first.wait()
    with page(settings) as (_, link):
        assert link.startswith(here)  # the same port, so that bookmarks and sessions stay valid


def test_a_page_that_was_never_indexed_is_found_on_the_site(settings: Settings) -> None:
    """`review --web` alone, without any server before it: its process keeps the index."""
    with page(settings) as (_, link), httpx.Client(follow_redirects=True, timeout=PATIENCE_S) as person:
        here, _, secret = link.partition("/login/")
        person.post(f"{here}/login", data={"secret": secret})
        until(lambda: PAGE in unquote(person.get(f"{here}/find", params={"q": "previous colour"}).text))


def test_a_site_loads_nothing_of_the_protocol_that_hosts_speak() -> None:
    """The SDK takes 29 MB, and a person's site may stay open all day."""
    loaded = (
        "mcp_server.cli.review.web, mcp_server.app.composition, mcp_server.web.application, mcp_server.app.background"
    )
    script = (
        f"import sys, {loaded}; print([name for name in sys.modules if name.partition('.')[0] in ('mcp', 'mcp_types')])"
    )
    said = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True, cwd=ROOT)
    assert said.stdout.strip() == "[]"


def test_ctrl_c_ends_it_immediately_and_nobody_is_listed_as_serving_it(settings: Settings) -> None:
    with page(settings) as (shown, link), httpx.stream("GET", link, timeout=PATIENCE_S) as answer:
        assert answer.status_code == 200
        shown.send_signal(signal.SIGINT)
        assert shown.wait(PATIENCE_S) == 0
    assert anyio.run(where, settings) is None


async def test_a_stranded_lease_or_a_holder_that_names_no_address_is_nobody(settings: Settings) -> None:
    async with open_state(settings) as state:
        await state.acquire_lease(lease_name(), holder_of(20_000, "x"), now=utc_now(), ttl_s=0.0)
        assert await address(state) is None
        await state.acquire_lease(lease_name(), "http://evil.example:1 x", now=utc_now(), ttl_s=60.0)
        assert await address(state) is None


async def test_a_page_that_is_gone_or_replaced_is_not_announced(settings: Settings) -> None:
    """Its process was killed, and its lease has ten seconds left; meanwhile any program may take its port."""
    asked: list[bytes] = []

    async def something_else(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        asked.append(await reader.readuntil(b"\r\n\r\n"))
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 64\r\n\r\n" + b"0" * 64)
        writer.close()

    async with open_app(settings, indexing=False) as app, Client(app.server) as host:
        taken = await asyncio.start_server(something_else, "127.0.0.1", 0)
        gone = bound(HttpAddress("127.0.0.1", 0))
        ports = [taken.sockets[0].getsockname()[1], gone.getsockname()[1]]
        gone.close()
        async with taken:
            for port in ports:
                await app.base.state.release_lease(lease_name(), holder_of(ports[0], "1-secret"))
                held = holder_of(port, "1-secret")
                await app.base.state.acquire_lease(lease_name(), held, now=utc_now(), ttl_s=10.0)
                proposal = await propose(host, "forty", f"{port}", settings.kb)
                assert proposal["review_url"] is None
                assert await address(app.base.state) is None
        assert asked
        assert b"secret" not in b"".join(asked)


async def test_a_program_that_holds_the_port_and_says_nothing_is_not_waited_for(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mcp_server.web.address.PROBE_S", 0.1)
    async with open_state(settings) as state:
        with bound(HttpAddress("127.0.0.1", 0)) as silent:
            held = holder_of(silent.getsockname()[1], "1-secret")
            await state.acquire_lease(lease_name(), held, now=utc_now(), ttl_s=10.0)
            with anyio.fail_after(PATIENCE_S / 4):
                assert await address(state) is None


def test_the_port_follows_from_the_path_and_another_is_taken_when_it_is_taken(tmp_path: Path) -> None:
    port = preferred_port(tmp_path)
    assert port == preferred_port(tmp_path / "." / "x" / "..")
    assert LOWEST_PORT <= port < LOWEST_PORT + PORTS
    with listening(port) as sockets:
        assert {one.getsockname()[1] for one in sockets} == {port}
        assert all(one.getsockname()[0] in ("127.0.0.1", "::1") for one in sockets)
        with listening(port) as others:
            assert others[0].getsockname()[1] != port


@pytest.mark.skipif(not socket.has_ipv6, reason="this machine has no IPv6")
def test_a_port_used_by_someone_else_on_the_other_loopback_address_is_not_taken() -> None:
    """A browser that looks up localhost may try that one first."""
    try:
        taken = socket.create_server(("::1", 0), family=socket.AF_INET6)
    except OSError:
        pytest.skip("this machine has no IPv6 loopback")
    with taken, listening(taken.getsockname()[1]) as sockets:
        assert sockets[0].getsockname()[1] != taken.getsockname()[1]


@pytest.mark.parametrize(
    ("environ", "platform", "seen"),
    [
        ({}, "linux", False),
        ({"DISPLAY": ":0"}, "linux", True),
        ({"WAYLAND_DISPLAY": "wayland-0"}, "linux", True),
        ({"DISPLAY": ":0", "CI": "true"}, "linux", False),
        ({"DISPLAY": "localhost:10", "SSH_CONNECTION": "10.0.0.1 1 10.0.0.2 22"}, "linux", False),
        ({}, "darwin", True),
        ({}, "win32", True),
    ],
)
def test_a_window_is_opened_only_where_a_person_would_see_it(
    environ: Mapping[str, str], platform: str, *, seen: bool
) -> None:
    assert has_display(environ, platform) is seen


async def propose(client: Client, old: str, new: str, kb: Path) -> dict[str, object]:
    read = (await client.call_tool("kb_read", {"path": PAGE})).structured_content or {}
    content = (kb / PAGE).read_text(encoding="utf-8").replace(old, new)
    arguments = {"path": PAGE, "content": content, "base_revision": read["revision"]}
    answer = (await client.call_tool("kb_merge", arguments)).structured_content
    assert answer is not None
    proposal: dict[str, object] = answer["proposal"]
    return proposal


async def test_the_server_opens_the_browser_once_and_the_host_never_sees_the_link(
    settings: Settings, tmp_path: Path
) -> None:
    """The design, section 6: the model only ever sees the address without the login."""
    opened = tmp_path / "opened"
    browser = tmp_path / "browser"
    browser.write_text(
        f'#!/bin/sh\necho "$1" >> {opened}\necho "opening $1"; echo "opening $1" >&2\n', encoding="utf-8"
    )
    browser.chmod(0o755)
    env = environment(FORGE_OPEN_BROWSER="1", DISPLAY=":0", BROWSER=f"{browser} %s")
    command = words(settings, "serve")
    parameters = StdioServerParameters(command=command[0], args=command[1:], env=env, cwd=ROOT)
    with (tmp_path / "log").open("w", encoding="utf-8") as log:
        async with Client(stdio_client(parameters, errlog=log)) as client:
            first = await propose(client, "forty", "sixty", settings.kb)
            await anyio.to_thread.run_sync(until, opened.exists)
            await anyio.to_thread.run_sync(until, lambda: "/login/" in opened.read_text())
            link = opened.read_text(encoding="utf-8").strip()
            second = await propose(client, "forty", "fifty", settings.kb)
            status = await client.call_tool("proposal_status", {"proposal_id": str(second["id"])})
            said = json.dumps([first, second, status.model_dump(mode="json")])
            page_address = str(second["review_url"]).partition("/proposals/")[0]
            assert link.startswith(f"{page_address}/login/")
            async with httpx.AsyncClient(timeout=PATIENCE_S) as http:
                assert (await http.get(link)).status_code == 200
                assert (await http.get(str(second["review_url"]))).status_code == 404
    assert opened.read_text(encoding="utf-8").count("\n") == 1
    secret = link.rpartition("/")[2]
    assert secret not in said
    assert secret not in (tmp_path / "log").read_text(encoding="utf-8")


async def test_a_server_that_only_reads_shows_no_page(settings: Settings) -> None:
    command = words(settings, "serve")
    parameters = StdioServerParameters(command=command[0], args=command[1:], env=environment(), cwd=ROOT)
    async with Client(stdio_client(parameters)) as client:
        await client.call_tool("kb_read", {"path": PAGE})
        assert await where(settings) is None
        await propose(client, "forty", "sixty", settings.kb)
        assert await where(settings) is not None
