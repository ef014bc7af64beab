"""The whole program: four servers on one knowledge base, files that keep changing, and `kill -9` for the one that indexes."""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import sys
import time
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import anyio
import anyio.abc
import anyio.to_thread
import pytest
from anyio.streams.buffered import BufferedByteReceiveStream

from knowledge.index.indexing_service import LEASE
from knowledge.index.ports import QueryTerm
from knowledge.search.query.analysis import analyzer
from knowledge.state.sqlite.store import SqliteStateStore
from mcp_server.app.knowledge_base import STATE_FILE, open_base
from mcp_server.app.settings.settings import Settings
from tests.crash.test_indexing_kills import contents

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from mcp_server.app.knowledge_base import KnowledgeBase

ROOT = Path(__file__).parents[2]
SERVERS = 4
KILLS = int(os.environ.get("FORGE_TEST_KILLS", "4"))
MANY_KILLS = 60
WORDS = ("apple", "berry", "cherry", "damson", "elderflower", "fig", "grape", "hazelnut", "ivy", "juniper")
PAUSE_S = 0.05
LONGEST_LINE = 1 << 22
SLOWEST_SEARCH_S = 5.0
"""Two cores run four servers, a writer, and start-ups.

This only checks that no search waits for a lease or a rebuild.
"""

SERVE = ["-m", "mcp_server"]
QUICKENED = """
import sys
from knowledge.index import indexing_service as watch
watch.TTL_S, watch.RENEW_S, watch.ASK_S = 0.9, 0.25, 0.1
from mcp_server.__main__ import main
sys.exit(main())
"""
BRISK = ["-c", QUICKENED]
"""The same program with a third of the lease's length, so that a dozen successions fit into the default suite."""

HELLO = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "crash", "version": "0"}}


class Gone(Exception):
    """The test killed the server during a call."""


class Act(Protocol):
    def __call__(self, files: list[Path]) -> None: ...


class Writer:
    """Someone who saves all the time: in place and by exchange, and who adds, renames and deletes pages and folders."""

    def __init__(self, root: Path) -> None:
        self._root, self._random, self._number = root, random.Random(7), 0  # noqa: S311  seeded, not secret
        self._stopped = False

    def fill(self, pages: int) -> None:
        for _ in range(pages):
            self._add([])

    def run(self) -> None:
        """Work until `stop`; blocks."""
        acts: tuple[tuple[Act, int], ...] = (
            (self._add, 3),
            (self._save_in_place, 4),
            (self._save_by_exchange, 4),
            (self._rename, 2),
            (self._rename_folder, 1),
            (self._delete, 2),
            (self._trust, 1),
        )
        choices, weights = [act for act, _ in acts], [weight for _, weight in acts]
        while not self._stopped:
            files = sorted(self._root.rglob("*.md"))
            (act,) = (
                self._random.choices(choices, weights)
                if 40 < len(files) < 160
                else (self._add if len(files) <= 40 else self._delete,)
            )
            act(files)
            time.sleep(self._random.random() * 0.05)

    def stop(self) -> None:
        self._stopped = True

    def _text(self) -> str:
        self._number += 1
        parts = (f"## Part {n}\n\n{' '.join(self._random.choices(WORDS, k=40))} {self._number}\n" for n in range(3))
        return f"---\ntags: [t{self._number % 3}]\n---\n# Page {self._number}\n\n" + "\n".join(parts)

    def _add(self, files: list[Path]) -> None:
        del files
        text = self._text()
        file = self._root / f"d{self._number % 5}" / f"{self._number}.md"
        file.parent.mkdir(exist_ok=True)
        file.write_text(text, encoding="utf-8")

    def _save_in_place(self, files: list[Path]) -> None:
        text = self._text()
        with self._random.choice(files).open("w", encoding="utf-8") as file:
            file.write(text[: len(text) // 2])
            file.flush()
            time.sleep(0.005)
            file.write(text[len(text) // 2 :])

    def _save_by_exchange(self, files: list[Path]) -> None:
        target = self._random.choice(files)
        draft = target.with_name(f".{target.name}.tmp")
        draft.write_text(self._text(), encoding="utf-8")
        draft.replace(target)

    def _rename(self, files: list[Path]) -> None:
        self._number += 1
        file = self._random.choice(files)
        file.rename(file.with_name(f"renamed{self._number}.md"))

    def _rename_folder(self, files: list[Path]) -> None:
        self._number += 1
        folder = self._random.choice(files).parent
        folder.rename(self._root / f"moved{self._number}")

    def _delete(self, files: list[Path]) -> None:
        if self._random.random() < 0.1:
            shutil.rmtree(self._random.choice(files).parent)
        else:
            self._random.choice(files).unlink()

    def _trust(self, files: list[Path]) -> None:
        flag = self._random.choice(("true", "false"))
        page = self._random.choice(files).with_name("_index.md")
        page.write_text(f"---\nuntrusted: {flag}\n---\n# Index\n", encoding="utf-8")


class Server:
    """A server process and its only client."""

    def __init__(self, process: anyio.abc.Process, log: Path) -> None:
        self._process, self._log = process, log
        assert process.stdout is not None
        self._lines = BufferedByteReceiveStream(process.stdout)
        self._asked = 0
        self.killed = False
        self.found_something, self.left_alone = anyio.Event(), anyio.Event()

    @property
    def pid(self) -> int:
        return self._process.pid

    def said(self) -> str:
        return self._log.read_text(encoding="utf-8")

    async def greet(self) -> None:
        await self.ask("initialize", HELLO)
        await self._send({"jsonrpc": "2.0", "method": "notifications/initialized"})

    async def call(self, tool: str, **arguments: Any) -> dict[str, Any]:
        answer = await self.ask("tools/call", {"name": tool, "arguments": arguments})
        assert "result" in answer, answer
        result: dict[str, Any] = answer["result"]
        return result

    async def ask(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        self._asked += 1
        try:
            with anyio.fail_after(60):
                await self._send({"jsonrpc": "2.0", "id": self._asked, "method": method, "params": params})
                while True:
                    answer: dict[str, Any] = json.loads(await self._lines.receive_until(b"\n", LONGEST_LINE))
                    if answer.get("id") == self._asked:
                        return answer
        except (anyio.IncompleteRead, anyio.BrokenResourceError, anyio.ClosedResourceError) as error:
            if self.killed:
                raise Gone from error
            raise AssertionError(f"the server ended by itself: {self.said()}") from error

    async def _send(self, message: dict[str, Any]) -> None:
        assert self._process.stdin is not None
        await self._process.stdin.send(json.dumps(message).encode() + b"\n")

    async def kill(self) -> None:
        self.killed = True
        self._process.send_signal(signal.SIGKILL)
        await self._process.wait()

    async def close(self) -> None:
        if self._process.returncode is None:
            assert self._process.stdin is not None
            with suppress(anyio.BrokenResourceError):
                await self._process.stdin.aclose()
            with anyio.move_on_after(10):
                await self._process.wait()
            if self._process.returncode is None:
                self._process.kill()
        await self._process.aclose()


class Team:
    """The servers, each with a client that never stops calling; killed ones are replaced."""

    def __init__(self, settings: Settings, program: list[str], tasks: anyio.abc.TaskGroup) -> None:
        self._settings, self._program, self._tasks = settings, program, tasks
        self._resting = False
        self._servers: dict[int, Server] = {}
        self.everybody: list[Server] = []
        self.wrong: list[str] = []
        self.searches = 0
        self.slowest_s = 0.0

    async def start(self) -> None:
        assert self._settings.state_dir is not None
        log = self._settings.state_dir.parent / f"server{len(self.everybody)}.log"
        command = [sys.executable, *self._program, "serve"]
        command += ["--kb", str(self._settings.kb), "--state-dir", str(self._settings.state_dir)]
        with log.open("wb") as stderr:
            process = await anyio.open_process(command, cwd=ROOT, stderr=stderr)
        server = Server(process, log)
        self._servers[server.pid] = server
        self.everybody.append(server)
        self._tasks.start_soon(self._keep_asking, server)

    async def kill(self, pid: int) -> None:
        await self._servers.pop(pid).kill()

    async def all_search(self) -> None:
        """Return when each has answered a search, because a replacement is useful only then."""
        for server in self._servers.values():
            with anyio.fail_after(60):
                await server.found_something.wait()

    async def rest(self) -> None:
        """Stop calling, and stop the servers as a host would."""
        self._resting = True
        for server in self._servers.values():
            with anyio.fail_after(60):
                await server.left_alone.wait()
            await server.close()

    async def _keep_asking(self, server: Server) -> None:
        chance = random.Random(server.pid)  # noqa: S311  any will do
        with suppress(Gone):
            await server.greet()
            while not self._resting:
                await self._search(server, chance)
                await self._look(server)
                await anyio.sleep(PAUSE_S)
        server.left_alone.set()

    async def _search(self, server: Server, chance: random.Random) -> None:
        began = time.perf_counter()
        query = " ".join(chance.sample(WORDS, 2))
        result = await server.call("kb_search", query=query)
        self.slowest_s = max(self.slowest_s, time.perf_counter() - began)
        self.searches += 1
        if result.get("isError"):
            self.wrong.append(f"kb_search: {result['content'][0]['text']}")
        server.found_something.set()

    async def _look(self, server: Server) -> None:
        """Map and read; a page may be gone before it is read, and then the answer says so."""
        result = await server.call("kb_map", depth=2)
        if result.get("isError"):
            self.wrong.append(f"kb_map: {result['content'][0]['text']}")
            return
        pages = [child["path"] for child in result["structuredContent"]["children"] if child["kind"] == "document"]
        if pages:
            result = await server.call("kb_read", path=random.choice(pages))  # noqa: S311  any will do
            told = result["content"][0]["text"]
            if result.get("isError") and not told.startswith("kb_read: nothing at"):
                self.wrong.append(f"kb_read: {told}")


@asynccontextmanager
async def working(writer: Writer) -> AsyncIterator[None]:
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(anyio.to_thread.run_sync, writer.run)
        try:
            yield
        finally:
            writer.stop()


async def holder(state: SqliteStateStore, *, above: int) -> tuple[int, int]:
    """Return process and fence of the next holder of the indexing lease."""
    with anyio.fail_after(60):
        while True:
            lease = await state.lease(LEASE)
            if lease is not None and lease.fence > above:
                return int(lease.holder.partition("-")[0]), lease.fence
            await anyio.sleep(0.01)


async def everything(base: KnowledgeBase) -> dict[str, Any]:
    """Return the index's contents, and which chunks the keyword engine finds for each word."""
    said = await contents(base.index)
    keyword = (await base.engines()).keyword
    for word in WORDS:
        terms = analyzer("").terms(word) + analyzer("en").terms(word)
        hits = await keyword.search([QueryTerm(word, tuple((term, 1.0) for term in terms))], limit=10**5)
        rows = await base.index.chunks([hit.seq for hit in hits])
        # A hit whose chunk is gone shows that the keyword index is still behind.
        found = [rows.get(hit.seq) for hit in hits]
        said[f"hits for {word}"] = sorted((row.path, row.ordinal) if row else ("gone", 0) for row in found)
    return said


async def ends_equal_to_one_built_from_scratch(settings: Settings, fresh: Path) -> None:
    async with open_base(Settings(kb=settings.kb, state_dir=fresh)) as scratch:
        await scratch.index.begin(scratch.identity)
        await scratch.indexer.reconcile(1)
        wanted = await everything(scratch)
    assert len(wanted["chunks"]) > 60
    assert any(wanted[f"hits for {word}"] for word in WORDS)
    async with open_base(settings) as survived:
        has = await everything(survived)
        with anyio.move_on_after(60):
            while has != wanted:
                await anyio.sleep(0.2)
                has = await everything(survived)
    for part, value in wanted.items():
        assert has[part] == value, part


async def survives(folder: Path, *, kills: int, program: list[str]) -> None:
    settings = Settings(kb=folder / "kb", state_dir=folder / "state")
    settings.kb.mkdir()
    (folder / "state").mkdir()
    writer, chance = Writer(settings.kb), random.Random(3)  # noqa: S311  seeded, not secret
    writer.fill(60)
    state = await SqliteStateStore.open(folder / "state" / STATE_FILE)
    async with anyio.create_task_group() as tasks:
        team = Team(settings, program, tasks)
        try:
            for _ in range(SERVERS):
                await team.start()
            fence = 0
            async with working(writer):
                for _ in range(kills):
                    await team.all_search()
                    pid, fence = await holder(state, above=fence)
                    await anyio.sleep(chance.random() * 0.4)  # the point of death is drawn at random
                    await team.kill(pid)
                    await team.start()
            await ends_equal_to_one_built_from_scratch(settings, folder / "fresh")
            await team.rest()
        finally:
            tasks.cancel_scope.cancel()
            with anyio.CancelScope(shield=True):
                await state.close()
                for server in team.everybody:
                    await server.close()
    assert team.wrong == []
    assert team.searches > 5 * kills, "clients asked all the time"
    assert team.slowest_s < SLOWEST_SEARCH_S
    for server in team.everybody:
        assert "Traceback" not in server.said(), server.said()


@pytest.mark.external
@pytest.mark.skipif(os.name == "nt", reason="kills with a signal that Windows has not")
async def test_servers_answer_and_the_index_ends_right_however_often_the_indexing_one_is_killed(tmp_path: Path) -> None:
    """Four servers, files changing under them, `kill -9`. `FORGE_TEST_KILLS` sets how many kills."""
    await survives(tmp_path, kills=KILLS, program=BRISK)


@pytest.mark.slow
@pytest.mark.skipif(os.name == "nt", reason="kills with a signal that Windows has not")
async def test_sixty_kills_at_the_pace_that_users_have(tmp_path: Path) -> None:
    """With the program as it is normally started; takes about four minutes."""
    await survives(tmp_path, kills=MANY_KILLS, program=SERVE)
