"""How much slower a team's calls become while one caller sends 32 requests at once without a pause: the same server, quiet and beset.

python -m tests.benchmarks.fair_use [--chunks 2000] [--rounds 4] [--seconds 20] [--folder DIR]

A real server serves HTTP with tokens, in a process of its own. Three people search, read and edit pages with short pauses. The heavy
caller is one more process, of low priority, because a real one runs on another machine. Rounds with and without it alternate.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from statistics import median, quantiles
from typing import IO

import anyio
from mcp import Client
from mcp.client.streamable_http import streamable_http_client
from mcp.shared._httpx_utils import create_mcp_http_client

from knowledge.trust.ports import BearerToken, Note
from mcp_server.app.composition import open_app
from mcp_server.app.knowledge_base import open_state, utc_now
from mcp_server.app.settings.settings import Settings
from mcp_server.gate.host_registration import TOKEN_HOLDER, digest
from mcp_server.gate.trust.scores import grant
from mcp_server.gate.trust.tokens import minted
from tests.benchmarks.corpus import load, write
from tests.benchmarks.processes import ROOT
from tests.support.processes.free_port import free_port

PEOPLE = ("ann", "bob", "cai")
HEAVY = "heavy"
AT_ONCE = 32
PAUSE_S = 0.1
"""Between two calls of one person: a host whose model thinks about nothing."""
KINDS = ("kb_search", "kb_read", "kb_search", "kb_merge")
LINES = 20
NICE = 10
STARTS_S = 5.0
"""Until the heavy caller's process calls."""
LONG_S = 3600.0


@dataclass(frozen=True, slots=True)
class Place:
    """A served knowledge base, and the tokens of its callers."""

    address: str
    tokens: Mapping[str, str]
    questions: Sequence[str]
    pages: Sequence[str]


Times = dict[str, list[float]]
"""Milliseconds of each call, by tool."""


async def prepared(folder: Path, chunks: int, port: int) -> Place:
    """Write the pages unless they are there, index them, and let everybody in who calls."""
    if not (folder / "kb").exists():
        write(folder / "kb", chunks)
    settings = Settings(kb=folder / "kb", state_dir=folder / "state", open_browser=False)
    async with open_app(settings) as app:
        await app.services.freshen_index(LONG_S)
        pages = await app.services.index.paths(limit=1_000)
    tokens = {}
    async with open_state(settings) as state:
        for name in (*PEOPLE, HEAVY):
            (token_id, tokens[name]), now = minted(), utc_now()
            token = BearerToken(token_id, name, digest(tokens[name]), 3, None, "bench", now, now + timedelta(days=1))
            await state.trust.add_token(token, note=Note("bench", "token.create", token_id, now))
            await grant(state, f"{name}@{TOKEN_HOLDER}", 3, by="bench", now=now)
    questions = [query.text for query in load(folder / "kb").queries]
    return Place(f"http://127.0.0.1:{port}/mcp", tokens, questions, list(pages))


@contextmanager
def serving(folder: Path, place: Place, *, limits: bool) -> Iterator[None]:
    """Serve the knowledge base in a process of its own."""
    variables = dict.fromkeys(("FORGE_LIMIT_CALLS", "FORGE_LIMIT_HEAVY", "FORGE_LIMIT_AT_ONCE"), "off")
    command = [
        sys.executable,
        "-m",
        "mcp_server",
        "serve",
        "--kb",
        str(folder / "kb"),
        "--state-dir",
        str(folder / "state"),
    ]
    with subprocess.Popen(
        [*command, "--http", place.address.removeprefix("http://").removesuffix("/mcp")],
        cwd=ROOT,
        env={**os.environ, "FORGE_HTTP_URL": place.address, **({} if limits else variables)},
        stdin=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    ) as server:
        try:
            if server.stderr is None:
                raise OSError("the server has no stderr")
            while "serving" not in (line := server.stderr.readline()):
                if not line:
                    raise OSError("the server ended before it served")
            yield
        finally:
            server.terminate()


@asynccontextmanager
async def client_of(place: Place, name: str) -> AsyncIterator[Client]:
    """Yield a client with that caller's token."""
    async with (
        create_mcp_http_client(headers={"authorization": f"Bearer {place.tokens[name]}"}) as http,
        Client(streamable_http_client(place.address, http_client=http)) as client,
    ):
        yield client


class Caller:
    """One person's host, or one of the heavy caller's lanes: searches, reads, and edits of a page of its own."""

    def __init__(self, place: Place, client: Client, name: str, kinds: Sequence[str] = KINDS) -> None:
        self._place, self._client, self._kinds = place, client, kinds
        self._page, self._revision = f"notes/{name}.md", ""
        self._rng, self._number = random.Random(name), 0

    async def call(self) -> tuple[str, float, bool]:
        """Make the next call, and return its tool, its milliseconds and whether it was answered."""
        tool, arguments = self._next()
        began = time.perf_counter()
        result = await self._client.call_tool(tool, arguments)
        spent = (time.perf_counter() - began) * 1000
        if tool == "kb_merge" and not result.is_error:
            self._revision = str((result.structured_content or {})["revision"])
        return tool, spent, not result.is_error

    def _next(self) -> tuple[str, dict[str, object]]:
        self._number += 1
        tool = self._kinds[self._number % len(self._kinds)]
        if tool == "kb_search":
            return tool, {"query": self._rng.choice(self._place.questions)}
        if tool == "kb_read":
            return tool, {"path": self._rng.choice(self._place.pages)}
        text = "# A note\n\n" + "".join(f"- Line {self._rng.random()}, read twice.\n" for _ in range(LINES))
        base = {"base_revision": self._revision} if self._revision else {}
        return tool, {"path": self._page, "content": text, **base}


async def one_person(place: Place, name: str, seed: int, times: Times, end: float) -> None:
    """Call with pauses until then."""
    async with client_of(place, name) as client:
        caller = Caller(place, client, f"{name}-{seed}")
        while time.monotonic() < end:
            tool, spent, answered = await caller.call()
            if not answered:
                raise RuntimeError(f"{tool} of {name} was refused")
            times[tool].append(spent)
            await anyio.sleep(PAUSE_S)


async def people(place: Place, seed: int, seconds: float) -> Times:
    """Return the times of everybody's calls in so many seconds."""
    times: Times = defaultdict(list)
    async with anyio.create_task_group() as tasks:
        for name in PEOPLE:
            tasks.start_soon(one_person, place, name, seed, times, time.monotonic() + seconds)
    return times


async def heavy(place: Place, seed: int, kinds: Sequence[str]) -> None:
    """Keep 32 requests in flight, and print a line for each answer, until this process is ended."""
    os.nice(NICE)
    async with client_of(place, HEAVY) as client, anyio.create_task_group() as tasks:

        async def lane(number: int) -> None:
            caller = Caller(place, client, f"{HEAVY}-{seed}-{number}", kinds)
            while True:
                _, _, answered = await caller.call()
                print("answered" if answered else "refused", flush=True)

        for number in range(AT_ONCE):
            tasks.start_soon(lane, number)


@contextmanager
def beset(place: Place, seed: int, kinds: Sequence[str], answers: dict[str, int]) -> Iterator[None]:
    """Let the heavy caller work meanwhile, and count its answers."""
    described = json.dumps([place.address, dict(place.tokens), place.questions, place.pages])
    with (
        tempfile.TemporaryFile("w+") as given,
        tempfile.TemporaryFile("w+") as got,
        subprocess.Popen(
            [sys.executable, "-m", "tests.benchmarks.fair_use", "--heavy", str(seed), "--calls", *kinds],
            cwd=ROOT,
            stdin=_rewound(given, described),
            stdout=got,
        ) as caller,
    ):
        try:
            yield
        finally:
            caller.terminate()
            caller.wait()
            got.seek(0)
            for line in got.read().split():
                answers[line] = answers.get(line, 0) + 1


def _rewound(file: IO[str], text: str) -> IO[str]:
    file.write(text)
    file.seek(0)
    return file


async def measure(place: Place, rounds: int, seconds: float, kinds: Sequence[str]) -> None:
    """Print the times of both kinds of rounds, and their ratios."""
    quiet: Times = defaultdict(list)
    crowded: Times = defaultdict(list)
    answers: dict[str, int] = {}
    await people(place, -1, seconds / 4)  # everything is loaded
    for number in range(rounds):
        _add(quiet, await people(place, 2 * number, seconds))
        with beset(place, number, kinds, answers):
            await anyio.sleep(STARTS_S)
            _add(crowded, await people(place, 2 * number + 1, seconds))
    print("| call | quiet: median, p95 | with the heavy caller: median, p95 | ratio of p95 |\n|---|---|---|---|")
    for tool in (*sorted(set(KINDS)), "all"):
        before, after = (
            [ms for one in ((tool,) if tool != "all" else times) for ms in times[one]] for times in (quiet, crowded)
        )
        ratio = f"{p95(after) / p95(before):.2f}"
        print(
            f"| {tool} | {median(before):.0f} ms, {p95(before):.0f} ms | {median(after):.0f} ms, {p95(after):.0f} ms | {ratio} |"
        )
    print(
        f"calls: {sum(map(len, quiet.values()))} quiet, {sum(map(len, crowded.values()))} with the heavy caller; it got {answers}"
    )


def p95(times: Sequence[float]) -> float:
    """Return the 95th percentile."""
    return quantiles(times, n=20, method="inclusive")[-1]


def _add(to: Times, times: Times) -> None:
    for tool, more in times.items():
        to[tool] += more


def main() -> None:
    """Measure."""
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks.fair_use", description=__doc__)
    parser.add_argument("--chunks", type=int, default=2_000)
    parser.add_argument("--rounds", type=int, default=4)
    parser.add_argument("--seconds", type=float, default=20, help="of each of the two halves of a round")
    parser.add_argument("--folder", type=Path, help="keep pages and state there")
    parser.add_argument("--limits", action="store_true", help="with the limits that a team's server has by itself")
    parser.add_argument(
        "--calls", nargs="+", choices=sorted(set(KINDS)), default=KINDS, help="of the heavy caller, in turn"
    )
    parser.add_argument("--heavy", type=int, metavar="SEED", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.heavy is not None:
        anyio.run(heavy, Place(*json.loads(sys.stdin.readline())), args.heavy, args.calls)
        return
    with tempfile.TemporaryDirectory() as temporary:
        folder = args.folder or Path(temporary)
        place = anyio.run(prepared, folder, args.chunks, free_port())
        with serving(folder, place, limits=args.limits):
            anyio.run(measure, place, args.rounds, args.seconds, args.calls)


if __name__ == "__main__":
    main()
