"""How soon subscribers in other processes hear of a write.

python -m tests.benchmarks.notifications [--processes 4] [--subscribers 32] [--writes 200] [--every 0.1]

Several servers share one PostgreSQL and one folder of pages. The first gets all writes, the others have the subscribers; half of
them speak the protocol of 2025, half that of 2026. Each notification is timed from the moment at which the call was sent, and from its
answer; one that comes before the answer counts as 0. The exit code is 1 if a notification is missing.
"""

from __future__ import annotations

import argparse
import secrets
import tempfile
import time
from collections.abc import Callable
from contextlib import AsyncExitStack, ExitStack
from pathlib import Path
from statistics import quantiles

import anyio

from mcp_server.app.settings.settings import Settings
from tests.benchmarks.http_workers import database
from tests.support.hosts.listeners import listening
from tests.support.hosts.plain_callers import LEGACY, MODERN, PlainCaller
from tests.support.hosts.writers import let_in
from tests.support.knowledge_bases.folders import write
from tests.support.processes.http_workers import service

PAGES = [f"news/{number}.md" for number in range(40)]
"""Written in turn, so that a notification belongs to the page's last write."""
LAST_S = 10.0
"""How long the last notifications may take."""


class Times:
    """When each write was answered, and when each subscriber heard of it."""

    def __init__(self) -> None:
        self.writes: list[tuple[str, float]] = []
        self.heard: dict[int, list[tuple[str, float]]] = {}

    def hearer(self, number: int) -> Callable[[str], None]:
        """Return what a subscriber calls with an address that changed."""
        heard = self.heard.setdefault(number, [])
        return lambda uri: heard.append((uri, time.monotonic()))

    def delays(self, began: list[float]) -> tuple[list[tuple[float, float]], int]:
        """Return the seconds of all notifications, from the call and from its answer, and how many notifications did not come.

        `began` are the times at which the calls were sent.
        """
        found, missing = list[tuple[float, float]](), 0
        for heard in self.heard.values():
            for (path, answered), sent in zip(self.writes, began, strict=True):
                later = (at for uri, at in heard if uri == f"kb://doc/{path}" and at >= sent)
                first = next(later, None)
                missing += first is None
                found += [] if first is None else [(first - sent, max(first - answered, 0.0))]
        return found, missing


async def measured(
    urls: list[str], writer: str, listener: str, given: argparse.Namespace
) -> tuple[list[tuple[float, float]], int]:
    """Write through the first server while clients of the others listen."""
    times, began = Times(), list[float]()
    uris = [f"kb://doc/{path}" for path in PAGES]
    async with AsyncExitStack() as stack, PlainCaller(urls[0], writer, MODERN) as caller:
        others = urls[1:]
        for number in range(given.subscribers):
            url, era = others[number % len(others)], (MODERN, LEGACY)[number // len(others) % 2]
            await stack.enter_async_context(listening(url, listener, era, uris, times.hearer(number)))
        for number in range(given.writes):
            path = PAGES[number % len(PAGES)]
            revision = (await caller.call("kb_read", path=path))["revision"]
            began.append(time.monotonic())
            text = f"# News\n\nNumber {number}.\n"
            await caller.call("kb_merge", path=path, content=text, base_revision=revision, section="*")
            times.writes.append((path, time.monotonic()))
            await anyio.sleep(given.every)
        with anyio.move_on_after(LAST_S):
            while times.delays(began)[1]:  # noqa: ASYNC110 - what arrives wakes nobody here
                await anyio.sleep(0.2)
        return times.delays(began)


async def tokens(settings: Settings) -> tuple[str, str]:
    """Register the writer and the subscribers' host, and return their secrets."""
    writer, listener = await let_in(settings, "writer", 3), await let_in(settings, "listener", 2)
    return str(writer.enrolment), str(listener.enrolment)


def main() -> int:
    """Print the percentiles."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--processes", type=int, default=4)
    parser.add_argument("--subscribers", type=int, default=32)
    parser.add_argument("--writes", type=int, default=200)
    parser.add_argument("--every", type=float, default=0.1)
    given = parser.parse_args()
    with database() as server, tempfile.TemporaryDirectory() as name, ExitStack() as stack:
        url, folder, schema = server.url(), Path(name), f"t_{secrets.token_hex(6)}"
        kb = write(folder / "kb", dict.fromkeys(PAGES, "# News\n"))
        settings = Settings(
            kb=kb, state_dir=folder / "person", database_url=url, database_schema=schema, open_browser=False
        )
        writer, listener = anyio.run(tokens, settings)
        urls = []
        for number in range(given.processes):
            environment = {
                "HOME": name,
                "FORGE_KB": str(kb),
                "FORGE_STATE_DIR": str(folder / f"machine{number}"),
                "FORGE_DATABASE_URL": url,
                "FORGE_DATABASE_SCHEMA": schema,
                "FORGE_HTTP_URL": "https://kb.example.com/mcp",
                **dict.fromkeys(("FORGE_LIMIT_CALLS", "FORGE_LIMIT_HEAVY", "FORGE_LIMIT_AT_ONCE"), "off"),
            }
            urls.append(stack.enter_context(service(environment, "--http", "127.0.0.1:0")).url)
        found, missing = anyio.run(measured, urls, writer, listener, given)
    print(f"{len(found)} notifications, {missing} missing")
    for since, times in (("the call", [one for one, _ in found]), ("its answer", [one for _, one in found])):
        cuts = [1000 * one for one in quantiles(times, n=20)]
        print(f"since {since}: p50 {cuts[9]:.0f} ms, p95 {cuts[18]:.0f} ms, max {1000 * max(times):.0f} ms")
    return int(missing > 0)


if __name__ == "__main__":
    raise SystemExit(main())
