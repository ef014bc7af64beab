"""The cost of a merge with commits to Git, beside one without: `python -m tests.benchmarks.commit_cost [--merges N] [--files N]`.

Two servers of this process, each on a repository of its own, take turns, so that other work on the machine slows both alike: five
small edits one after the other, each until the host has its answer. The commits are made in the background, beside the next edits.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from contextlib import AsyncExitStack
from pathlib import Path
from statistics import median, quantiles

import anyio

from mcp_server.app.factories.act_commits import commits_of
from mcp_server.app.settings.settings import Settings
from tests.support.git.repositories import made
from tests.support.hosts.writers import Writer, writing

PAGE = "notes/plan.md"
IN_A_ROW = 5


async def measured(home: Path, merges: int, files: int) -> str:
    """Return both distributions, their ratio, and how long commits take, in words."""
    pages = {f"many/{number}.md": f"# Page {number}\n\nText.\n" for number in range(files)} | {PAGE: "# Plan\n\n0.\n"}
    times: dict[str, list[float]] = {"off": [], "commit": []}
    rates: dict[str, list[float]] = {"off": [], "commit": []}
    behind_s: list[float] = []
    async with AsyncExitStack() as stack:
        hosts: dict[str, Writer] = {}
        for git in times:
            repository = made(home / git / "kb", pages)
            settings = Settings(kb=repository.folder, state_dir=home / git / "state", open_browser=False, git=git)
            hosts[git] = await stack.enter_async_context(writing(settings))
        commits = commits_of(hosts["commit"].app.base)
        for turn in range(max(1, merges // IN_A_ROW)):
            for git in sorted(times, reverse=bool(turn % 2)):
                host, began = hosts[git], time.perf_counter()
                for number in range(IN_A_ROW):
                    base, asked = await host.revision(PAGE), time.perf_counter()
                    await host.merge(PAGE, f"# Plan\n\n{turn}.{number}.\n", base_revision=base)
                    times[git].append(time.perf_counter() - asked)
                rates[git].append(time.perf_counter() - began)
                if git == "commit":
                    began = time.perf_counter()
                    # Not to slow the other server, whose turn comes.
                    while await commits.count_pending():  # noqa: ASYNC110 - the server commits in the background
                        await anyio.sleep(0.01)
                    behind_s.append(time.perf_counter() - began)
    pairs = [one / other for one, other in zip(rates["commit"], rates["off"], strict=True)]
    return "\n".join(
        [
            *(_line(f"merge, git = {git}", found) for git, found in times.items()),
            _line(f"from the last of {IN_A_ROW} answers to the last commit", behind_s),
            f"{IN_A_ROW} merges in a row with commits beside without: median of {len(pairs)} ratios {median(pairs):.2f}",
        ]
    )


def _line(name: str, found: list[float]) -> str:
    p90 = quantiles(found, n=10)[-1]
    return f"{name}: p50 {median(found) * 1e3:.0f} ms, p90 {p90 * 1e3:.0f} ms"


def main(words: list[str]) -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--merges", type=int, default=200)
    parser.add_argument("--files", type=int, default=100)
    args = parser.parse_args(words)
    os.environ |= {"GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_NOSYSTEM": "1"}
    with tempfile.TemporaryDirectory() as home:
        load = os.getloadavg()[0]
        print(anyio.run(measured, Path(home), args.merges, args.files))
        print(f"{args.merges} merges each, {args.files} files, load {load:.1f} before")


if __name__ == "__main__":
    main(sys.argv[1:])
