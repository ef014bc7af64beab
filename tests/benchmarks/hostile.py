"""The cost of hostile texts, and their effect on other callers.

python -m tests.benchmarks.hostile sizes [--sizes "1 kB,16 kB"] [--families headings,...] [--tools ...]
python -m tests.benchmarks.hostile flood [--inputs 200] [--callers 3]

`sizes` calls every tool of one server that takes or reads text, over HTTP, with every family of
`tests.support.knowledge_bases.hostile_markdown`, and prints seconds to the answer against size, for the slowest family
of each. `flood` sends hostile texts from several hosts at once while another one reads a small page, and reports how
long that took compared with a quiet server, the peak memory of the server and its workers, and how long a worker lived
after its call was cancelled.
"""

from __future__ import annotations

import argparse
import itertools
import random
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import anyio
import httpx2
from mcp import Client
from mcp.client.streamable_http import streamable_http_client
from mcp_types import TextContent

from mcp_server.app.settings.settings import Settings
from mcp_server.cli.trust.acts import enrol
from tests.benchmarks.processes import ROOT, memory_mb
from tests.support.knowledge_bases.hostile_markdown import FAMILIES, SIZES, changed

LONGEST_S = 300.0
SMALL = "# Small\n\nA page that somebody reads meanwhile.\n\n## Limits\n\nAn upload may be 32 MiB at most.\n"
PAGES = 12
Ask = Callable[[str, str], Mapping[str, Any]]
"""Arguments of a tool for the path of a page that holds the text, and the text."""

TOOLS: Mapping[str, tuple[str, Ask]] = {
    "a new page": ("kb_merge", lambda path, text: {"path": f"new-{path}", "content": text, "dry_run": True}),
    "an edit": ("kb_merge", lambda path, text: {"path": path, "content": changed(text, 7), "dry_run": True}),
    "evidence": (
        "kb_merge",
        lambda path, text: {"path": path, "content": changed(text, 3), "source": "code:a.py", "dry_run": True},
    ),
    "a snippet for a section": (
        "kb_merge",
        lambda _, text: {"path": "small.md", "content": text, "section": "Limits", "dry_run": True},
    ),
    "a snippet for a directory": ("kb_merge", lambda _, text: {"path": "notes", "content": text, "dry_run": True}),
    "reading": ("kb_read", lambda path, _: {"path": path, "view": "full"}),
    "reading a section": ("kb_read", lambda path, _: {"path": path, "section": "Page"}),
    "the map": ("kb_map", lambda *_: {"path": "", "depth": 2}),
    "a search": ("kb_search", lambda _, text: {"query": text[:20_000]}),
    "starting a journey": ("journey_start", lambda _, text: {"agent": "research", "brief": text[:20_000]}),
    "a journey's work": (
        "journey_submit",
        lambda _, text: {"journey_id": "", "version": 1, "work": {"questions": [{"text": text[:390_000]}]}},
    ),
}


@dataclass(slots=True)
class Host:
    """A connected host."""

    client: Client
    journey: str = ""

    async def begin(self) -> None:
        """Begin a journey to send work to."""
        begun = await self.client.call_tool("journey_start", {"agent": "research", "brief": "What may an upload have?"})
        self.journey = str((begun.structured_content or {})["journey_id"])

    async def call(self, tool: str, arguments: Mapping[str, Any]) -> tuple[float, str]:
        """Return the seconds until the answer, and its error, "" if there is none."""
        mine = {"journey_id": self.journey} if "journey_id" in arguments else {}
        began = time.perf_counter()
        result = await self.client.call_tool(tool, {**arguments, **mine})
        took = time.perf_counter() - began
        text = next((part.text for part in result.content if isinstance(part, TextContent)), "")
        return took, text if result.is_error else ""


@dataclass(slots=True)
class Place:
    """A server under attack: its process, and where to reach it as which host."""

    url: str
    process: int
    secrets: Mapping[str, str]
    folder: Path

    @asynccontextmanager
    async def host(self, name: str) -> AsyncIterator[Host]:
        """Connect as a host."""
        headers = {"authorization": f"Bearer {self.secrets[name]}"}
        async with (
            httpx2.AsyncClient(headers=headers, timeout=LONGEST_S) as http,
            Client(streamable_http_client(self.url, http_client=http)) as client,
        ):
            host = Host(client)
            await host.begin()
            yield host

    def workers(self) -> list[int]:
        """Return the server's worker processes."""
        listed = Path(f"/proc/{self.process}/task/{self.process}/children").read_text(encoding="ascii")
        return [int(one) for one in listed.split()]

    def memory_mb(self) -> tuple[float, float]:
        """Return the memory of the server and of all its workers."""
        held = []
        for process in self.workers():
            with suppress(OSError, LookupError):
                held.append(memory_mb(process, "VmRSS"))
        return memory_mb(self.process, "VmRSS"), sum(held)


@asynccontextmanager
async def place(hosts: Sequence[str], pages: Mapping[str, str]) -> AsyncIterator[Place]:
    """Serve a knowledge base with these pages over HTTP, in a process of its own."""
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        kb = folder / "kb"
        kb.mkdir()
        (kb / "notes").mkdir()
        for path, text in {"small.md": SMALL, "notes/one.md": SMALL, **pages}.items():
            (kb / path).write_bytes(text.encode("utf-8", "replace"))
        settings = Settings(kb=kb, state_dir=folder / "state")
        secrets = {name: await enrol(settings, name) for name in hosts}
        port = _free_port()
        arguments = ["--kb", str(kb), "--state-dir", str(folder / "state"), "--http", f"127.0.0.1:{port}"]
        with subprocess.Popen(  # noqa: ASYNC220  (the measurement itself has nothing else to do meanwhile)
            [sys.executable, "-m", "mcp_server", "serve", *arguments], cwd=ROOT, stderr=subprocess.DEVNULL
        ) as server:
            try:
                await _up(port)
                yield Place(f"http://127.0.0.1:{port}/mcp", server.pid, secrets, folder)
            finally:
                server.terminate()


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        return int(listening.getsockname()[1])


async def _up(port: int) -> None:
    with anyio.fail_after(60):
        while True:
            with suppress(OSError):
                async with await anyio.connect_tcp("127.0.0.1", port):
                    return
            await anyio.sleep(0.05)


# Cost against size


async def sizes(families: Sequence[str], tools: Sequence[str], wanted: Sequence[str]) -> None:
    """Print seconds against size for each tool, the slowest family of each."""
    print("| tool | " + " | ".join(wanted) + " | slowest family | error |\n|---|" + "---:|" * len(wanted) + "---|---|")
    pages = {_page(family, size): FAMILIES[family](SIZES[size]) for family in families for size in wanted}
    async with place(["one"], pages) as served, served.host("one") as host:
        for tool in tools:
            name, ask = TOOLS[tool]
            row: list[str] = []
            slowest, told = "", ""
            for size in wanted:
                took, slowest, told = max([await _one(host, name, ask, family, size) for family in families])
                row.append(f"{took:.2f} s")
            print(f"| {tool} | {' | '.join(row)} | {slowest} | {told[:60]} |", flush=True)
        server, workers = served.memory_mb()
        print(
            f"\nmost memory of the server: {memory_mb(served.process, 'VmHWM'):.0f} MB; now {server:.0f} and {workers:.0f} MB"
        )


async def _one(host: Host, tool: str, ask: Ask, family: str, size: str) -> tuple[float, str, str]:
    try:
        took, told = await host.call(tool, ask(_page(family, size), FAMILIES[family](SIZES[size])))
    except Exception as error:  # noqa: BLE001  (too large for HTTP, for example)
        return 0.0, family, f"{type(error).__name__}"
    return took, family, told


def _page(family: str, size: str) -> str:
    return f"{family}-{size}.md".replace(" ", "-").lower()


# A flood


@dataclass(slots=True)
class Seen:
    """The measurements during a flood."""

    slowest: tuple[float, str] = (0.0, "")
    errors: dict[str, int] = field(default_factory=dict)
    server_mb: float = 0.0
    workers_mb: float = 0.0


async def flood(inputs: int, callers: int) -> None:
    """Print the effect of hostile texts on another caller."""
    texts = _texts(inputs)
    hosts = [f"mallory-{number}" for number in range(callers)]
    pages = {_page(family, size): FAMILIES[family](SIZES[size]) for _, family, size in texts}
    async with place([*hosts, "ann"], pages) as served, served.host("ann") as ann:
        await _indexed(ann)
        await ann.call("kb_read", {"path": "small.md"})
        before, _ = served.memory_mb()
        quiet = [(await ann.call("kb_read", {"path": "small.md"}))[0] for _ in range(200)]
        seen, busy = Seen(), list[float]()
        began = time.perf_counter()
        async with anyio.create_task_group() as watching:
            watching.start_soon(_watch, served, seen)
            watching.start_soon(_read_meanwhile, ann, busy)
            queue = iter(texts)
            async with anyio.create_task_group() as attacking:
                for name in hosts:
                    attacking.start_soon(_attack, served, name, queue, seen)
            watching.cancel_scope.cancel()
        print(
            f"{inputs} texts from {callers} hosts in {time.perf_counter() - began:.0f} s; refused: {seen.errors or 'none'}"
        )
        print(f"slowest answer: {seen.slowest[0]:.1f} s ({seen.slowest[1]})")
        print(
            f"another host's kb_read: p95 {_p95(quiet) * 1000:.1f} ms quiet, {_p95(busy) * 1000:.1f} ms meanwhile, "
            f"median {statistics.median(quiet) * 1000:.1f} and {statistics.median(busy) * 1000:.1f} ms, "
            f"worst {max(busy) * 1000:.0f} ms of {len(busy)}"
        )
        print(
            f"most memory: server {seen.server_mb:.0f} MB ({before:.0f} MB before, when all was indexed), "
            f"workers together {seen.workers_mb:.0f} MB"
        )
        stopped = [await _cancelled(served, hosts[0]) for _ in range(5)]
        print(f"from cancel to the end of the worker: {max(stopped) * 1000:.0f} ms at most of {len(stopped)}")


async def _indexed(host: Host) -> None:
    """Wait until all pages are indexed."""
    with anyio.fail_after(LONGEST_S):
        while True:
            result = await host.client.call_tool("kb_search", {"query": "page"})
            progress = (result.structured_content or {}).get("indexed", {})
            if progress.get("done", 0) >= progress.get("total", 1) > 1:
                return
            await anyio.sleep(0.5)


def _texts(inputs: int) -> list[tuple[str, str, str]]:
    """Return tools, families and sizes, mixed."""
    mixed = random.Random(7)
    every = list(itertools.product(TOOLS, FAMILIES, [size for size in SIZES if size not in ("1 kB", "4 MB")]))
    chosen = mixed.sample(every, inputs - len(TOOLS))
    # The largest of each tool too.
    return [*chosen, *((tool, mixed.choice(list(FAMILIES)), "4 MB") for tool in TOOLS)]


async def _attack(served: Place, name: str, queue: Any, seen: Seen) -> None:
    async with served.host(name) as host:
        for tool, family, size in queue:
            called, ask = TOOLS[tool]
            took, _, told = await _one(host, called, ask, family, size)
            seen.slowest = max(seen.slowest, (took, f"{tool}, {family}, {size}"))
            if told:
                kind = " ".join(told.split(":")[0].split()[:8])[:60]
                seen.errors[kind] = seen.errors.get(kind, 0) + 1


async def _read_meanwhile(host: Host, times: list[float]) -> None:
    while True:
        times.append((await host.call("kb_read", {"path": "small.md"}))[0])
        await anyio.sleep(0.02)


async def _watch(served: Place, seen: Seen) -> None:
    while True:
        server, workers = served.memory_mb()
        seen.server_mb, seen.workers_mb = max(seen.server_mb, server), max(seen.workers_mb, workers)
        await anyio.sleep(0.05)


async def _cancelled(served: Place, name: str) -> float:
    """Return how long a worker ran after its call was cancelled."""
    text = FAMILIES["paragraphs nearly equal"](2_000_000)
    async with served.host(name) as host, anyio.create_task_group() as tasks:
        before = set(served.workers())
        arguments = {
            "path": _page("paragraphs nearly equal", "1 MB"),
            "content": text,
            "source": "code:a.py",
            "dry_run": True,
        }
        tasks.start_soon(host.call, "kb_merge", arguments)
        while not any(_is_busy(one) for one in served.workers()):  # noqa: ASYNC110  (processes tell nobody)
            await anyio.sleep(0.01)
        await anyio.sleep(0.5)
        running = [one for one in served.workers() if one not in before or _is_busy(one)]
        tasks.cancel_scope.cancel()
        began = time.perf_counter()
    while not set(running).isdisjoint(served.workers()):  # noqa: ASYNC110  (processes tell nobody)
        await anyio.sleep(0.002)
    return time.perf_counter() - began


def _is_busy(process: int) -> bool:
    try:
        return Path(f"/proc/{process}/stat").read_text(encoding="ascii").rpartition(")")[2].split()[0] == "R"
    except OSError:
        return False


def _p95(times: Sequence[float]) -> float:
    return statistics.quantiles(times, n=20)[-1]


def main() -> None:
    """Run the requested measurement."""
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks.hostile", description=__doc__)
    parser.add_argument("what", choices=("sizes", "flood"))
    parser.add_argument("--sizes", default="1 kB,4 kB,16 kB,64 kB")
    parser.add_argument("--families", default=",".join(FAMILIES))
    parser.add_argument("--tools", default=",".join(TOOLS))
    parser.add_argument("--inputs", type=int, default=200)
    parser.add_argument("--callers", type=int, default=3)
    asked = parser.parse_args()
    if asked.what == "sizes":
        anyio.run(sizes, asked.families.split(","), asked.tools.split(","), asked.sizes.split(","))
    else:
        anyio.run(flood, asked.inputs, asked.callers)


if __name__ == "__main__":
    main()
