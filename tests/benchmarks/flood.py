"""A flood: hosts that propose one page again and again and start journeys in a loop; how the state grows and the page opens.

python -m tests.benchmarks.flood [--seconds 60] [--hosts 3] [--page-kb 400] [--folder DIR]
"""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from contextlib import AsyncExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path

import anyio
import anyio.lowlevel
from mcp import Client

from knowledge.trust.ports import Proposal
from mcp_server.app.composition import open_app
from mcp_server.app.knowledge_base import open_state
from mcp_server.app.settings.settings import Settings
from mcp_server.approvals.proposals import LONGEST, hash_of
from tests.support.hosts.writers import let_in
from tests.support.state.decisions import proposal
from tests.support.web.review_pages import Place, shown

PAGE = "guides/flooded.md"
SENTENCE = "The payment service is deployed with a canary first, and watched for ten minutes before the rest follows.\n"
EVERY_S = 5.0


@dataclass
class Flood:
    """The result: answers by kind, and the size of the state at each of these seconds."""

    answers: Counter[str] = field(default_factory=Counter)
    sizes: list[tuple[float, int, int]] = field(default_factory=list)


def settings_of(folder: Path) -> Settings:
    return Settings(kb=folder / "kb", state_dir=folder / "state", open_browser=False)


def files(folder: Path) -> tuple[int, int]:
    """Return the bytes of the state database and of its log."""
    sizes = [(folder / "state" / name) for name in ("state.db", "state.db-wal")]
    return sizes[0].stat().st_size, sizes[1].stat().st_size if sizes[1].exists() else 0


async def flooded(folder: Path, hosts: int, seconds: float, page_kb: int) -> Flood:
    """Let the hosts flood the server for this long."""
    page = folder / "kb" / PAGE
    page.parent.mkdir(parents=True, exist_ok=True)
    text = "# Flooded\n\n" + SENTENCE * (page_kb * 1000 // len(SENTENCE))
    page.write_text(text, encoding="utf-8")
    flood = Flood()
    async with AsyncExitStack() as stack:
        clients = []
        for number in range(hosts):
            allowed = await let_in(settings_of(folder), f"host{number}", 2)
            app = await stack.enter_async_context(open_app(allowed, indexing=False, announcing=False))
            clients.append(await stack.enter_async_context(Client(app.server)))
        began = time.monotonic()
        async with anyio.create_task_group() as tasks:
            for number, client in enumerate(clients):
                tasks.start_soon(_propose, client, text, number, flood)
                tasks.start_soon(_start, client, number, flood)
            while (spent := time.monotonic() - began) < seconds:
                flood.sizes.append((spent, *files(folder)))
                await anyio.sleep(min(EVERY_S, seconds))
            flood.sizes.append((time.monotonic() - began, *files(folder)))
            tasks.cancel_scope.cancel()
    return flood


async def _propose(client: Client, text: str, host: int, flood: Flood) -> None:
    read = await client.call_tool("kb_read", {"path": PAGE})
    base, count = (read.structured_content or {})["revision"], 0
    while True:
        count += 1
        content = text.replace("ten minutes", f"{count} minutes by host {host}")
        asked = {"path": PAGE, "content": content, "base_revision": base}
        _count(flood, "proposal", await client.call_tool("kb_merge", asked))
        await anyio.lowlevel.checkpoint()


async def _start(client: Client, host: int, flood: Flood) -> None:
    count = 0
    while True:
        count += 1
        brief = f"Question {count} of host {host}: " + "why is the sky blue? " * 800
        _count(flood, "journey", await client.call_tool("journey_start", {"agent": "research", "brief": brief}))
        await anyio.lowlevel.checkpoint()


def _count(flood: Flood, what: str, result: object) -> None:
    flood.answers[f"{what} {'refused' if getattr(result, 'is_error', False) else 'taken'}"] += 1


async def put_largest(folder: Path) -> str:
    """Make the largest proposal that may wait, as a host without time limits would, and return its id."""
    lines = (LONGEST - 2_000_000 - 500_000) // (2 * (len(SENTENCE) + 2))
    head = f"--- {PAGE}\n+++ {PAGE}\n@@ -1,{lines} +1,{lines} @@\n"
    diff = head + f"-{SENTENCE}" * lines + f"+{SENTENCE.replace('ten', 'twenty')}" * lines
    file = {"path": PAGE, "before": "a", "after": "b", "diff": diff}
    preview = {"sentence": f"change {PAGE}", "answer": {"status": "done"}, "files": [file]}
    call = {"path": PAGE, "content": SENTENCE * (2_000_000 // len(SENTENCE))}
    async with open_state(settings_of(folder)) as state:
        (other,) = await state.trust.lines(limit=1)
        made: Proposal = proposal(
            "p-largest",
            arguments=json.dumps([call]),
            preview=json.dumps(preview),
            created_at=other.created_at,
            expires_at=other.expires_at,
        )
        await state.trust.propose(replace(made, hash=hash_of(made)), most_pending=99)
    return made.id


async def look(folder: Path, proposal_id: str) -> None:
    """Print, from a process of its own, the cost of opening the pages."""
    async with shown(folder, {}) as place:
        await _looked(place, proposal_id)


async def _looked(place: Place, proposal_id: str) -> None:
    visitor = await place.visitor()
    before = _peak_mb()
    for what, path in (
        ("list", "/"),
        ("proposal", f"/proposals/{proposal_id}"),
        ("again", f"/proposals/{proposal_id}"),
    ):
        began, worked = time.perf_counter(), time.process_time()
        html = await visitor.look(path)
        assert visitor.status == 200, html
        spent, cpu = (time.perf_counter() - began) * 1000, (time.process_time() - worked) * 1000
        peak = f"peak {_peak_mb():.0f} MB (before {before:.0f} MB)"
        print(f"{what:>10}: {spent:6.0f} ms ({cpu:.0f} ms of CPU), {len(html):,} characters, {peak}")


def _peak_mb() -> float:
    """Return this process's peak memory. `getrusage` may report the parent's."""
    status = Path("/proc/self/status").read_text(encoding="ascii")
    return int(status.partition("VmHWM:")[2].split()[0]) / 1000


def main(arguments: list[str]) -> None:
    """Flood, then look."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--hosts", type=int, default=3)
    parser.add_argument("--page-kb", type=int, default=400)
    parser.add_argument("--folder", type=Path)
    parser.add_argument("--look", metavar="PROPOSAL")
    args = parser.parse_args(arguments)
    if args.look:
        anyio.run(look, args.folder, args.look)
        return
    folder = args.folder or Path(tempfile.mkdtemp(prefix="flood-"))
    flood = anyio.run(flooded, folder, args.hosts, args.seconds, args.page_kb)
    for spent, size, log in flood.sizes:
        print(f"{spent:8.0f} s  state.db {size / 1e6:8.1f} MB  log {log / 1e6:6.1f} MB")
    print(", ".join(f"{count:,} {what}" for what, count in sorted(flood.answers.items())))
    largest = anyio.run(put_largest, folder)
    command = [sys.executable, "-m", "tests.benchmarks.flood", "--folder", str(folder), "--look", largest]
    subprocess.run(command, check=True)
    if args.folder is None:
        shutil.rmtree(folder)


if __name__ == "__main__":
    main(sys.argv[1:])
