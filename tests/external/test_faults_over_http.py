"""What a server needs is taken away from it while clients work over HTTP: nothing confirmed is lost, and it recovers by itself."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, Protocol

import anyio
import anyio.to_thread
import httpx
import psycopg
import pytest
from mcp import Client
from mcp.shared.subscriptions import ResourceUpdated
from mcp_types import TextContent

from knowledge.history.audit.chain import verify
from mcp_server.app.knowledge_base import open_base, open_state
from mcp_server.app.settings.settings import Settings
from tests.doubles import meilisearch, qdrant
from tests.support.knowledge_bases.folders import write
from tests.support.processes.free_port import free_port
from tests.support.processes.http_server import HttpServer, let_in, serving
from tests.support.state.postgres import PostgresServer

pytestmark = pytest.mark.external

SOON_S = 60.0
CLIENTS = 4
ENOUGH = 3
"""Calls of each kind that every client must have had answered, before the fault and after it."""
EXPLAINED = (
    "the state database cannot be read",
    "cannot use PostgreSQL",
    "may or may not be done",
    "Server returned an error response",  # 503: the token cannot be checked now
)
"""Words that a refusal says while the database is away."""


async def until(condition: Callable[[], bool]) -> None:
    with anyio.fail_after(SOON_S):
        while not condition():  # noqa: ASYNC110 - what other processes do rings no bell here
            await anyio.sleep(0.05)


# --- a mixed load -----------------------------------------------------------------------------------------------------


@dataclass
class Load:
    """Clients that search, read and write pages until they are told to stop."""

    server: HttpServer
    answered: Counter[tuple[int, str]] = field(default_factory=Counter)
    confirmed: dict[str, str] = field(default_factory=dict)
    refusals: list[str] = field(default_factory=list)
    over: bool = False

    async def client(self, number: int, token: str) -> None:
        """Work, and connect again if the connection breaks."""
        written = 0
        while not self.over:
            try:
                async with self.server.client(token) as client:
                    while not self.over:
                        await self._answered(client, number, "kb_search", query="roll back the payment service")
                        await self._answered(client, number, "kb_read", path="guides/deploy.md")
                        path, written = f"load/{number}-{written}.md", written + 1
                        text = f"# Page {path}\n\nWritten once.\n"
                        if await self._answered(client, number, "kb_merge", path=path, content=text):
                            self.confirmed[path] = text
            except Exception as error:  # noqa: BLE001 - a broken connection, in whichever way the client notices
                self.refusals.append(_told(error))
                await anyio.sleep(0.05)

    async def _answered(self, client: Client, number: int, tool: str, **arguments: object) -> bool:
        result = await client.call_tool(tool, arguments)
        if result.is_error:
            self.refusals.append(_text(result.content[0]))
            await anyio.sleep(0.05)
            return False
        self.answered[number, tool] += 1
        return True

    async def more(self) -> None:
        """Return once every client has had some more of everything answered."""
        before = Counter(self.answered)
        wanted = [(number, tool) for number in range(CLIENTS) for tool in ("kb_search", "kb_read", "kb_merge")]
        await until(lambda: all(self.answered[one] >= before[one] + ENOUGH for one in wanted))


def _text(content: object) -> str:
    assert isinstance(content, TextContent)
    return content.text


def _told(error: BaseException) -> str:
    if isinstance(error, BaseExceptionGroup):
        return "; ".join(map(_told, error.exceptions))
    return str(error)


def connections_cut(postgres: PostgresServer, application: str = "knowledge-forge") -> int:
    """End all connections of our program, and return how many there were."""
    with psycopg.connect(postgres.url(), autocommit=True) as connection:
        rows = connection.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = %s", (application,)
        ).fetchall()
    return len(rows)


async def cut_again_and_again(postgres: PostgresServer, load: Load) -> None:
    for _ in range(5):
        await load.more()
        assert await anyio.to_thread.run_sync(connections_cut, postgres) > 0


async def restarted(postgres: PostgresServer, load: Load) -> None:
    await anyio.to_thread.run_sync(postgres.stop)
    await until(lambda: any(words in told for told in load.refusals for words in EXPLAINED))
    await anyio.to_thread.run_sync(postgres.start)


@pytest.mark.parametrize("fault", [cut_again_and_again, restarted])
async def test_a_mixed_load_survives_a_database_whose_connections_are_cut_or_that_is_restarted(
    fault: Callable[[PostgresServer, Load], Awaitable[None]],
    tmp_path: Path,
    fragile_postgres: PostgresServer,
    schema: str,
) -> None:
    """Every confirmed page is there once, every refusal says why, and the server is the same process afterwards."""
    kb, url = write(tmp_path / "kb"), fragile_postgres.url()
    settings = Settings(kb=kb, state_dir=tmp_path / "state", database_url=url, database_schema=schema)
    tokens = await let_in(settings, *(f"client{number}" for number in range(CLIENTS)))
    async with serving(settings, tmp_path / "log", {}) as server:
        load = Load(server)
        async with anyio.create_task_group() as tasks:
            for number, token in enumerate(tokens):
                tasks.start_soon(load.client, number, token)
            await load.more()
            await fault(fragile_postgres, load)
            await load.more()
            load.over = True
    unexplained = [told for told in load.refusals if not any(words in told for words in EXPLAINED)]
    assert unexplained == []
    there = {path: (kb / path).read_text(encoding="utf-8") for path in load.confirmed if (kb / path).exists()}
    assert there == load.confirmed
    async with open_state(settings) as state:
        records, end = await state.ledger.records(limit=100_000), await state.ledger.chain_end()
    assert verify(records, end) == []
    acts = Counter(path for path in map(_path_of, (record.body for record in records)) if path.startswith("load/"))
    assert [path for path, times in acts.items() if times > 1] == []
    assert set(load.confirmed) <= set(acts)


def _path_of(body: str) -> str:
    changes = json.loads(body).get("changes") or [{}]
    return str(changes[0].get("path", ""))


async def test_a_subscriber_of_another_process_misses_no_page_although_connections_are_cut(
    tmp_path: Path, postgres: PostgresServer, schema: str
) -> None:
    """Two machines with one folder: one writes, a client of the other listens."""
    kb, url, paths = write(tmp_path / "kb"), postgres.url(), [f"told/{number}.md" for number in range(12)]
    one, two = (
        Settings(kb=kb, state_dir=tmp_path / name, database_url=url, database_schema=schema) for name in ("one", "two")
    )
    writer_token, listener_token = await let_in(one, "writer", "listener")
    heard: set[str] = set()
    async with (
        serving(one, tmp_path / "one.log", {}) as here,
        serving(two, tmp_path / "two.log", {}) as there,
        here.client(writer_token) as writer,
        there.client(listener_token) as listener,
        listener.listen(resource_subscriptions=[f"kb://doc/{path}" for path in paths]) as changes,
        anyio.create_task_group() as tasks,
    ):

        async def listen() -> None:
            async for event in changes:
                assert isinstance(event, ResourceUpdated)
                heard.add(str(event.uri))

        tasks.start_soon(listen)
        for number, path in enumerate(paths):
            if number % 3 == 1:
                await anyio.to_thread.run_sync(connections_cut, postgres)
            await _until_written(writer, path)
        await until(lambda: len(heard) == len(paths))
        tasks.cancel_scope.cancel()


# --- the disk of the index --------------------------------------------------------------------------------------------

PREPARE = 'mount -t tmpfs -o size=24m,mode=700 tmpfs "$0" && exec "$@"'


def can_mount(folder: Path) -> bool:
    """Return whether this account may mount a file system that nobody else sees."""
    if sys.platform != "linux" or shutil.which("unshare") is None:
        return False
    folder.mkdir(exist_ok=True)
    tried = subprocess.run(
        ["unshare", "-rm", "sh", "-c", PREPARE, str(folder), "true"], capture_output=True, check=False
    )
    return tried.returncode == 0


async def test_a_full_disk_of_the_index_stops_no_write_and_the_new_page_is_found_once_there_is_room(
    tmp_path: Path, postgres: PostgresServer, schema: str
) -> None:
    """The state is in PostgreSQL, so the disk of the state directory holds only what can be built again."""
    index = tmp_path / "index"
    if not can_mount(index):
        pytest.skip("this account may not mount a file system of its own")
    settings = Settings(kb=write(tmp_path / "kb"), state_dir=index, database_url=postgres.url(), database_schema=schema)
    (token,) = await let_in(replace_state_dir(settings, tmp_path / "elsewhere"), "ann")
    through = ["unshare", "-rm", "sh", "-c", PREPARE, str(index)]
    async with serving(settings, tmp_path / "log", {}, through=through) as server, server.client(token) as client:
        await _until_found(client, "roll back the payment service", "guides/deploy.md")
        disk = Path(f"/proc/{server.pid}/root{index}")
        _fill(disk / "ballast")
        text = "# Zebras\n\n" + "".join(f"Zebra {number} is counted at the river.\n" for number in range(20_000))
        written = await client.call_tool("kb_merge", {"path": "zebras.md", "content": text[:90_000]})
        assert not written.is_error, _text(written.content[0])
        assert (settings.kb / "zebras.md").exists()
        answer = await _search(client, "roll back the payment service")
        assert "guides/deploy.md" in [hit["path"] for hit in answer["hits"]]
        read = await client.call_tool("kb_read", {"path": "zebras.md"})
        assert not read.is_error
        await _until_note(client, "the index cannot be updated now")
        (disk / "ballast").unlink()
        await _until_found(client, "zebra counted at the river", "zebras.md")
        await _until_note(client, None)


def replace_state_dir(settings: Settings, folder: Path) -> Settings:
    return Settings(
        kb=settings.kb, state_dir=folder, database_url=settings.database_url, database_schema=settings.database_schema
    )


def _fill(file: Path) -> None:
    """Write until the disk is full."""
    with file.open("wb", buffering=0) as ballast:
        try:
            while ballast.write(bytes(4096)):
                pass
        except OSError:
            os.fsync(ballast.fileno())


async def _search(client: Client, query: str) -> Mapping[str, Any]:
    result = await client.call_tool("kb_search", {"query": query})
    assert not result.is_error, _text(result.content[0])
    return result.structured_content or {}


async def _until_found(client: Client, query: str, path: str) -> None:
    with anyio.fail_after(SOON_S):
        while True:
            if path in [hit["path"] for hit in (await _search(client, query))["hits"]]:
                return
            await anyio.sleep(0.05)


async def _until_written(client: Client, path: str) -> None:
    with anyio.fail_after(SOON_S):
        while True:
            result = await client.call_tool("kb_merge", {"path": path, "content": f"# {path}\n"})
            if not result.is_error:
                return
            await anyio.sleep(0.05)


# --- search servers ---------------------------------------------------------------------------------------------------


class SearchServer(Protocol):
    """A search server that can be stopped and started again with what it had."""

    @property
    def url(self) -> str: ...

    def start(self) -> None: ...

    def stop(self) -> None: ...


@dataclass(slots=True)
class Program:
    """A real server: a process that is killed and started again on the same folder."""

    command: Sequence[str]
    environment: Mapping[str, str]
    folder: Path
    url: str
    running: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start it, and return when it answers."""
        self.folder.mkdir(exist_ok=True)
        with (self.folder / "log").open("ab") as log:
            environment = {**os.environ, **self.environment}
            self.running = subprocess.Popen(self.command, cwd=self.folder, env=environment, stdout=log, stderr=log)
        until = time.monotonic() + SOON_S
        while not self._answers():
            assert time.monotonic() < until, f"{self.url} does not answer; see {self.folder / 'log'}"
            time.sleep(0.05)

    def _answers(self) -> bool:
        try:
            return httpx.get(self.url, trust_env=False).is_success
        except httpx.TransportError:
            return False

    def stop(self) -> None:
        if self.running is not None:
            self.running.kill()
            self.running.wait()
            self.running = None


def qdrant_program(program: str, folder: Path) -> Program:
    port, grpc = free_port(), free_port()
    environment = {
        "QDRANT__SERVICE__HOST": "127.0.0.1",
        "QDRANT__SERVICE__HTTP_PORT": str(port),
        "QDRANT__SERVICE__GRPC_PORT": str(grpc),
        "QDRANT__TELEMETRY_DISABLED": "true",
    }
    return Program([program], environment, folder, f"http://127.0.0.1:{port}")


def meilisearch_program(program: str, folder: Path) -> Program:
    at = f"127.0.0.1:{free_port()}"
    environment = {"MEILI_HTTP_ADDR": at, "MEILI_MASTER_KEY": KEY, "MEILI_NO_ANALYTICS": "true"}
    return Program([program], environment, folder, f"http://{at}")


KEY = "a-key-of-sixteen-bytes-or-more"
SERVERS: Mapping[
    str, tuple[str, Callable[[], AbstractContextManager[SearchServer]], Callable[[str, Path], Program]]
] = {
    "Qdrant": ("FORGE_TEST_QDRANT_PROGRAM", qdrant.serving, qdrant_program),
    "Meilisearch": ("FORGE_TEST_MEILI_PROGRAM", partial(meilisearch.serving, KEY), meilisearch_program),
}


@pytest.fixture(params=["double", "program"])
def search_server(request: pytest.FixtureRequest, engine: str, tmp_path: Path) -> Iterator[SearchServer]:
    """Yield the double, or the real server whose program the environment names."""
    variable, double, made = SERVERS[engine]
    if request.param == "double":
        with double() as running:
            yield running
        return
    if not (path := os.environ.get(variable)):
        pytest.skip(f"{variable} names no {engine} program")
    program = made(path, tmp_path / "server")
    try:
        program.start()
        yield program
    finally:
        program.stop()


@pytest.mark.parametrize("engine", SERVERS)
async def test_while_a_search_server_is_away_answers_say_so_and_once_it_is_back_it_answers_again(
    engine: str, search_server: SearchServer, tmp_path: Path
) -> None:
    """Pages written in the meantime are found at every moment, and the server gets them when it is back."""
    settings = Settings(kb=write(tmp_path / "kb"), state_dir=tmp_path / "state")
    (token,) = await let_in(settings, "ann")
    settings, more = {
        "Qdrant": (replace(settings, qdrant_url=search_server.url), {"FORGE_QDRANT_URL": search_server.url}),
        "Meilisearch": (
            replace(settings, meili_url=search_server.url, meili_key=KEY),
            {"FORGE_MEILI_URL": search_server.url, "FORGE_MEILI_KEY": KEY},
        ),
    }[engine]
    async with serving(settings, tmp_path / "log", more) as server, server.client(token) as client:
        await _until_note(client, None)
        for turn in ("zebra", "giraffe"):
            await anyio.to_thread.run_sync(search_server.stop)
            await _until_note(client, engine)
            page = {"path": f"{turn}s.md", "content": f"# {turn.title()}s\n\nA {turn} drinks at the river.\n"}
            written = await client.call_tool("kb_merge", page)
            assert not written.is_error, _text(written.content[0])
            await _until_found(client, f"where does the {turn} drink", f"{turn}s.md")
            await anyio.to_thread.run_sync(search_server.start)
            await _until_note(client, None)
            await _until_found(client, f"where does the {turn} drink", f"{turn}s.md")
            await _until_caught_up(settings)


async def _until_caught_up(settings: Settings) -> None:
    """Return when the search server has everything that the index has; the server under test sends it."""
    async with open_base(settings) as base:
        (follower,) = await base.followers()
        with anyio.fail_after(SOON_S):
            while not await follower.caught_up(base.index):  # noqa: ASYNC110 - a server rings no bell
                await anyio.sleep(0.05)


async def _until_note(client: Client, words: str | None) -> None:
    """Search until the answer has a note with these words, or none, and hits in any case."""
    with anyio.fail_after(SOON_S):
        while True:
            answer = await _search(client, "roll back the payment service")
            note = answer["note"] or ""
            if answer["hits"] and (words in note if words else not note):
                return
            await anyio.sleep(0.05)
