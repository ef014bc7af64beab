"""Several worker processes over HTTP: what kills and upgrades do to a mixed load, and how much more several workers answer than one.

python -m tests.benchmarks.http_workers kills [--clients 32] [--minutes 10] [--every 5]
python -m tests.benchmarks.http_workers upgrade [--clients 8] [--pause 10] [--before 0022_older_writers.sql]
python -m tests.benchmarks.http_workers throughput [--workers 1,2,4] [--clients 8] [--seconds 20] [--chunks 2000]

`kills` has two services with two workers each, on a PostgreSQL of its own, behind nginx. Its exit code is 1 if a confirmed write was
lost, something was done twice, or a call broke without a kill.

`upgrade` has two servers of the version before a migration, by default the last one, and replaces one after the other by this one.
The older version comes from the history of the checkout.

`throughput` has one service on that PostgreSQL. The callers run on the same machine and take a part of its cores: only the ratios of
one run say something.
"""

from __future__ import annotations

import argparse
import random
import secrets
import tempfile
import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import AsyncExitStack, contextmanager
from functools import partial
from pathlib import Path
from statistics import quantiles

import anyio

from mcp_server.app.composition import open_app
from mcp_server.app.settings.settings import Settings
from tests.benchmarks.corpus import load as loaded
from tests.benchmarks.corpus import write
from tests.benchmarks.processes import family_cpu_s
from tests.support.hosts.killed_load import play
from tests.support.hosts.plain_callers import MODERN, PlainCaller
from tests.support.hosts.upgraded_load import upgrade
from tests.support.hosts.writers import let_in
from tests.support.processes.http_workers import ROOT, service
from tests.support.processes.other_versions import before, newest_migration
from tests.support.state.postgres import PostgresServer, programs

LONG_S = 3600.0
WARM_S = 3.0
KINDS = ("search", "read", "merge")


@contextmanager
def database() -> Iterator[PostgresServer]:
    """Yield a PostgreSQL server of this run."""
    server = PostgresServer(Path(tempfile.mkdtemp(prefix="forge-pg-")), programs())
    try:
        yield server
    finally:
        server.close()


def kills(given: argparse.Namespace) -> int:
    """Run the load, print what happened, and return 1 if a promise was broken."""
    with database() as server, tempfile.TemporaryDirectory() as folder:

        async def run() -> int:
            load = await play(
                Path(folder), server.url(), clients=given.clients, seconds=60 * given.minutes, every_s=given.every
            )
            print(load.in_words())
            for name in ("lost", "doubled", "unexplained", "wrong"):
                for one in getattr(load, name)[:10]:
                    print(f"{name}: {one}")
            print(load.audit or "the audit log is intact")
            return int(bool(load.lost or load.doubled or load.unexplained or load.wrong or load.audit or load.open))

        return anyio.run(run)


def upgrading(given: argparse.Namespace) -> int:
    """Replace an older version by this one under the load, print what happened, and return 1 if a promise was broken."""
    with database() as server, tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        older = before(given.before, folder / "older")
        settings = Settings(
            kb=folder / "kb",
            state_dir=folder / "person",
            database_url=server.url(),
            database_schema=f"t_{secrets.token_hex(6)}",
            open_browser=False,
        )
        done = anyio.run(partial(upgrade, settings, folder, (older, ROOT), clients=given.clients, pause_s=given.pause))
        print(done.in_words())
        for one in done.unexplained:
            print(f"wrong: {one}")
        return int(bool(done.load.lost or done.load.doubled or done.unexplained))


def throughput(given: argparse.Namespace) -> int:
    """Print calls a second, their 95th percentile and what a call costs, for each number of workers and kind of call."""
    with database() as server, tempfile.TemporaryDirectory() as name:
        folder, url = Path(name), server.url()
        write(folder / "kb", given.chunks)
        settings = Settings(
            kb=folder / "kb",
            state_dir=folder / "state",
            database_url=url,
            database_schema=f"t_{secrets.token_hex(6)}",
            open_browser=False,
        )
        tokens, pages = anyio.run(_prepared, settings, given.clients)
        questions = [query.text for query in loaded(folder / "kb").queries]
        print("| workers | call | calls a second | p95 ms | CPU ms of a call: server | PostgreSQL | callers |")
        print("|---:|---|---:|---:|---:|---:|---:|", flush=True)
        for count in map(int, given.workers.split(",")):
            environment = {
                "HOME": name,
                "FORGE_KB": str(settings.kb),
                "FORGE_STATE_DIR": str(settings.state_dir),
                "FORGE_DATABASE_URL": url,
                "FORGE_DATABASE_SCHEMA": str(settings.database_schema),
            }
            with service(environment, "--http", "127.0.0.1:0", "--workers", str(count)) as running:
                address = running.url
                if count > 1:
                    running.wait_for_workers(count)
                for kind in KINDS:
                    pids = (running.process.pid, server.pid)
                    before = [*map(family_cpu_s, pids), time.process_time()]
                    times, calls = anyio.run(_measured, address, tokens, kind, (pages, questions), given.seconds)
                    after = [*map(family_cpu_s, pids), time.process_time()]
                    p95 = quantiles(times, n=20)[-1] * 1000
                    cost = " | ".join(
                        f"{(late - early) / calls * 1000:.1f}" for early, late in zip(before, after, strict=True)
                    )
                    print(f"| {count} | {kind} | {len(times) / given.seconds:.1f} | {p95:.0f} | {cost} |", flush=True)
    return 0


async def _prepared(settings: Settings, clients: int) -> tuple[list[str], list[str]]:
    """Index the pages and register the callers; return their tokens and the pages."""
    async with open_app(settings) as app:
        await app.services.freshen_index(LONG_S)
        pages = list(await app.services.index.paths(limit=1_000))
    allowed = [await let_in(settings, f"client-{one}", 3) for one in range(clients)]
    return [str(one.enrolment) for one in allowed], pages


async def _measured(
    url: str, tokens: Sequence[str], kind: str, asked: tuple[Sequence[str], Sequence[str]], seconds: float
) -> tuple[list[float], int]:
    """Return the seconds of each call of that kind that ended in this time, and the number of all, with those of a moment before.

    `asked` are the pages and the questions that the callers draw from. A merge's seconds are without its read.
    """
    times: list[float] = []
    all_calls: list[float] = []
    async with AsyncExitStack() as stack:
        callers = [await stack.enter_async_context(PlainCaller(url, token, MODERN)) for token in tokens]
        begin = time.monotonic() + WARM_S
        until = begin + seconds
        async with anyio.create_task_group() as tasks:
            for number, caller in enumerate(callers):
                tasks.start_soon(_repeat, _call(caller, kind, number, *asked), (times, all_calls), begin, until)
    return times, len(all_calls)


async def _repeat(
    call: Callable[[], Awaitable[float]], lists: tuple[list[float], list[float]], begin: float, until: float
) -> None:
    times, all_calls = lists
    while time.monotonic() < until:
        spent = await call()
        all_calls.append(spent)
        if begin <= time.monotonic() < until:
            times.append(spent)


def _call(
    caller: PlainCaller, kind: str, number: int, pages: Sequence[str], questions: Sequence[str]
) -> Callable[[], Awaitable[float]]:
    """Return a function that makes one call and returns its seconds; each caller merges into pages of its own."""
    chance = random.Random(number)
    own = pages[number :: max(len(pages) // 10, 1)]

    async def call() -> float:
        path = chance.choice(own if kind == "merge" else pages)
        if kind == "search":
            began = time.monotonic()
            await caller.call("kb_search", query=chance.choice(questions))
            return time.monotonic() - began
        read_began = time.monotonic()
        read = await caller.call("kb_read", path=path)
        if kind == "read":
            return time.monotonic() - read_began
        began = time.monotonic()
        text = f"{read['text']}\nLine {secrets.token_hex(4)}.\n"
        await caller.call("kb_merge", path=path, content=text, base_revision=read["revision"])
        return time.monotonic() - began

    return call


def main() -> int:
    """Run what the command line names."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    verbs = parser.add_subparsers(required=True)
    killing = verbs.add_parser("kills")
    killing.add_argument("--clients", type=int, default=32)
    killing.add_argument("--minutes", type=float, default=10)
    killing.add_argument("--every", type=float, default=5)
    killing.set_defaults(run=kills)
    replacing = verbs.add_parser("upgrade")
    replacing.add_argument("--clients", type=int, default=8)
    replacing.add_argument("--pause", type=float, default=10)
    replacing.add_argument("--before", default=newest_migration())
    replacing.set_defaults(run=upgrading)
    measuring = verbs.add_parser("throughput")
    measuring.add_argument("--workers", default="1,2,4")
    measuring.add_argument("--clients", type=int, default=8)
    measuring.add_argument("--seconds", type=float, default=20)
    measuring.add_argument("--chunks", type=int, default=2000)
    measuring.set_defaults(run=throughput)
    given = parser.parse_args()
    code: int = given.run(given)
    return code


if __name__ == "__main__":
    raise SystemExit(main())
