"""Servers that are stopped while they lead a run, as hosts and systems stop them.

The real program, with a slow model.
"""

from __future__ import annotations

import os
import signal
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

import anyio
import pytest
from anyio.abc import Process
from mcp import Client
from mcp.client.streamable_http import streamable_http_client
from mcp.shared._httpx_utils import create_mcp_http_client

from agents.loop.record.frames import Header
from agents.loop.record.run import Run
from agents.loop.store.ports import Hold
from mcp_server.app.knowledge_base import open_state, utc_now
from mcp_server.app.settings.settings import Settings
from mcp_server.app.settings.values import LanguageModelName
from mcp_server.gate.host_registration import os_user
from mcp_server.runs.locations import runs_in
from tests.contract.protocol.test_server import announced
from tests.doubles.provider import KEY, Model
from tests.doubles.provider_turns import said
from tests.doubles.serving import Served, delayed, served
from tests.support.hosts.writers import let_in
from tests.support.journeys.hosts import Gone, SdkHost, Site, over_stdio
from tests.support.knowledge_bases.folders import write

pytestmark = pytest.mark.skipif(os.name == "nt", reason="stops with a signal that Windows has not")


@dataclass(frozen=True)
class Place:
    """A knowledge base, and a model that answers only when nobody waits any longer."""

    site: Site
    settings: Settings
    served: Served

    async def asked(self) -> None:
        """Return when the model was asked."""
        with anyio.fail_after(60):
            while not self.served.count("POST"):  # noqa: ASYNC110 - it comes in another thread
                await anyio.sleep(0.02)

    async def only_run(self) -> Run:
        async with open_state(self.settings) as state:
            runs = runs_in(state)
            (line,) = await runs.runs()
            return await runs.run(line.id)


@asynccontextmanager
async def place(home: Path) -> AsyncIterator[Place]:
    model = Model()
    model.will("Look", *[said("Nobody hears it.")] * 3)
    async with served(model, plan=lambda _method, _path, _number: delayed(60)) as at:
        settings = Settings(
            kb=write(home / "kb"),
            state_dir=home / "state",
            model=LanguageModelName("openai", "some-model"),
            openai_api_key=KEY,
            openai_base_url=f"{at.address}/v1",
        )
        settings = await let_in(settings, "desktop", 3)
        environment = {
            "FORGE_MODEL": "openai:some-model",
            "OPENAI_API_KEY": KEY,
            "OPENAI_BASE_URL": f"{at.address}/v1",
            "FORGE_ENROLMENT": settings.enrolment or "",
        }
        yield Place(Site(home / "kb", home / "state", environment), settings, at)


@pytest.mark.parametrize("how", ["closed", pytest.param("terminated", marks=pytest.mark.external)])
async def test_a_host_that_goes_away_ends_its_run_and_that_is_on_record(how: str, tmp_path: Path) -> None:
    async with place(tmp_path) as there:
        async with over_stdio(there.site) as host, anyio.create_task_group() as tasks:
            tasks.start_soon(_call, host)
            await there.asked()
            if how == "terminated":
                os.kill(host.pid, signal.SIGTERM)
                await _gone(host.pid)
            tasks.cancel_scope.cancel()
        run = await there.only_run()
    assert (run.state, run.why) == ("cancelled", "the request that led the run was cancelled")


@pytest.mark.external
@pytest.mark.parametrize("mode", ["auto", "legacy"])
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
async def test_a_server_over_http_that_is_stopped_ends_within_seconds_and_its_runs_with_it(
    tmp_path: Path, mode: str, number: signal.Signals
) -> None:
    async with place(tmp_path) as there:
        command = there.site.command("--http", "127.0.0.1:0")
        async with (
            await anyio.open_process(command, env=there.site.environment) as process,
            anyio.create_task_group() as tasks,
        ):
            tasks.start_soon(_call_over_http, await announced(process), there.settings.enrolment or "", mode)
            await there.asked()
            process.send_signal(number)
            with _killed_after(process, 60):
                assert await process.wait() == 0
            tasks.cancel_scope.cancel()
        run = await there.only_run()
    assert (run.state, run.why) == ("cancelled", "the request that led the run was cancelled")


@pytest.mark.parametrize("number", [pytest.param(signal.SIGTERM, marks=pytest.mark.external), signal.SIGHUP])
async def test_a_stopped_server_over_http_closes_everything_and_its_exit_code_says_so(
    tmp_path: Path, number: signal.Signals
) -> None:
    site = Site(write(tmp_path / "kb"), tmp_path / "state")
    async with await anyio.open_process(site.command("--http", "127.0.0.1:0"), env=site.environment) as process:
        await announced(process)
        process.send_signal(number)
        with _killed_after(process, 60):
            assert await process.wait() == 0


@contextmanager
def _killed_after(process: Process, seconds: float) -> Iterator[None]:
    """Fail after so many seconds, and kill the process then: leaving `open_process` waits for it without end."""
    try:
        with anyio.fail_after(seconds):
            yield
    except TimeoutError:
        process.kill()
        raise


async def _call_over_http(url: str, secret: str, mode: str) -> None:
    with suppress(Exception):  # the server goes away
        async with (
            create_mcp_http_client(headers={"authorization": f"Bearer {secret}"}) as http,
            Client(streamable_http_client(url, http_client=http), mode=mode) as client,
        ):
            await client.call_tool("agent_run", {"goal": "Look at it."})


@pytest.mark.external
async def test_a_stopped_server_leaves_its_background_runs_to_the_next_one_immediately(tmp_path: Path) -> None:
    async with place(tmp_path) as there:
        now = utc_now() - timedelta(minutes=5)
        head = Header(
            id="r-1",
            goal="Look at it.",
            principal=f"{os_user()}@desktop",
            begun_at=now,
            model="openai:some-model",
        )
        async with open_state(there.settings) as state:
            await runs_in(state).begin(head, Hold("dead", now, now))
        async with over_stdio(there.site) as host:
            await there.asked()
            os.kill(host.pid, signal.SIGTERM)
            await _gone(host.pid)
        run = await there.only_run()
        async with open_state(there.settings) as state:
            free = await runs_in(state).claim("r-1", Hold("next", utc_now(), utc_now() + timedelta(seconds=1)))
    assert run.state == "running"
    assert free is not None


async def _call(host: SdkHost) -> None:
    with suppress(Gone):  # the server is stopped in the meantime
        await host.call("agent_run", goal="Look at it.")


async def _gone(pid: int) -> None:
    """Return when that process no longer leads a run."""
    with anyio.fail_after(60):
        while _alive(pid):  # noqa: ASYNC110 - nobody says so
            await anyio.sleep(0.02)


def _alive(pid: int) -> bool:
    """Return whether the process runs; a zombie doesn't."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return False
    return state != "Z"
