"""A mixed load of many clients on services whose workers are killed again and again, and what became of each write.

Half of the clients may write, the others need a person's yes in a form; half of each speak the older protocol. Each adds lines to a
section of its own in pages that it shares with others. A client whose connection breaks during a call sends the same call again.
"""

from __future__ import annotations

import random
import secrets
import subprocess
import sys
import time
from collections import Counter
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread

from mcp_server.app.settings.settings import Settings
from tests.support.hosts.plain_callers import LEGACY, MODERN, BrokenCall, BusyServer, PlainCaller, WrongAnswer
from tests.support.hosts.writers import let_in
from tests.support.knowledge_bases.folders import write
from tests.support.processes.http_workers import ROOT
from tests.support.processes.round_robin import Machines, machines

PAGES = 8
OVERTAKEN = "already applied, or the page has changed since"
JUST_BEFORE_S, JUST_AFTER_S = 1.0, 1.0
"""A call may notice a kill a moment after it, and one that begins just after it may get the dead worker's connection."""


@dataclass
class KilledLoad:
    """What happened: kills by their time, and the outcome of each line by its word."""

    clients: int
    kills: list[float] = field(default_factory=list)
    calls: Counter[str] = field(default_factory=Counter)
    forms: Counter[str] = field(default_factory=Counter)
    """Forms that were answered, by the protocol's version."""
    acknowledged: dict[str, str] = field(default_factory=dict)
    """The page of each line whose write was confirmed, at once or when it was sent again."""
    open: dict[str, str] = field(default_factory=dict)
    """The page of each line that was sent and not confirmed."""
    broken: list[BrokenCall] = field(default_factory=list)
    wrong: list[WrongAnswer] = field(default_factory=list)
    lost: list[str] = field(default_factory=list)
    doubled: list[str] = field(default_factory=list)
    audit: str = ""
    lasted_s: float = 0.0

    @property
    def unexplained(self) -> list[str]:
        """The broken calls during which, and just before which, no worker was killed."""
        return [
            str(call)
            for call in self.broken
            if not any(call.began - JUST_BEFORE_S <= kill <= call.ended + JUST_AFTER_S for kill in self.kills)
        ]

    def in_words(self) -> str:
        """Return a summary in one sentence."""
        calls = ", ".join(f"{count:,} {tool}" for tool, count in sorted(self.calls.items()))
        what = f"{self.clients} clients in {self.lasted_s:.0f} s with {len(self.kills)} kills"
        writes = f"{len(self.acknowledged):,} writes confirmed, {len(self.lost)} lost, {len(self.doubled)} made twice"
        broken = f"{len(self.broken)} calls broke, {len(self.unexplained)} of them without a kill"
        return f"{what}: {calls}, {self.forms.total():,} forms; {writes}; {broken}; {len(self.wrong)} wrong answers"


async def play(
    folder: Path, database_url: str, *, clients: int, seconds: float, every_s: float, workers: tuple[int, ...] = (2, 2)
) -> KilledLoad:
    """Serve, call and kill for so long, and return what happened once every client has ended its last call."""
    kb = shared_pages(folder / "kb", clients)
    schema = f"t_{secrets.token_hex(6)}"
    settings = Settings(
        kb=kb, state_dir=folder / "person", database_url=database_url, database_schema=schema, open_browser=False
    )
    tokens = await registered(settings, clients)
    load = KilledLoad(clients)
    with machines(folder, kb, database_url, schema, *workers) as place:
        async with calling(place.url, tokens, load):
            await _kill(place, load, every_s, time.monotonic() + seconds)
    look(kb, load)
    load.audit = await anyio.to_thread.run_sync(_audited, replace(settings, state_dir=folder / "machine0"))
    return load


def shared_pages(kb: Path, clients: int) -> Path:
    """Write the pages that the clients share, with a section for each client."""
    return write(kb, {f"shared/page-{number}.md": _page(number, clients) for number in range(PAGES)})


@asynccontextmanager
async def calling(url: str, tokens: Sequence[str], load: KilledLoad) -> AsyncIterator[None]:
    """Let a client with each token call without a pause; afterwards each ends its last call."""
    began, over = time.monotonic(), anyio.Event()
    async with anyio.create_task_group() as tasks:
        for number, token in enumerate(tokens):
            tasks.start_soon(_client, url, token, number, load, over)
        yield
        over.set()
    load.lasted_s = time.monotonic() - began


def _page(number: int, clients: int) -> str:
    sections = "".join(f"\n## Client {one}\n\n- start of {one}\n" for one in range(number, clients, PAGES))
    return f"# Page {number}\n{sections}"


async def registered(settings: Settings, clients: int) -> list[str]:
    """Register the clients; every second one may write, the others need a person's yes. Return their tokens."""
    found = [await let_in(settings, f"client-{one}", 3 if one % 2 else 2, forms=True) for one in range(clients)]
    return [str(one.enrolment) for one in found]


async def _kill(place: Machines, load: KilledLoad, every_s: float, until: float) -> None:
    """Kill a worker of any service again and again."""
    chance = random.Random(1)  # noqa: S311 - which worker, not a secret
    while time.monotonic() + every_s < until:
        await anyio.sleep(every_s)
        found = [(one, pid) for one in place.services for pid in one.workers]
        if found:
            service, pid = chance.choice(found)
            load.kills.append(time.monotonic())
            service.kill_worker(pid)
    await anyio.sleep(max(until - time.monotonic(), 0))


async def _client(url: str, token: str, number: int, load: KilledLoad, over: anyio.Event) -> None:
    async with PlainCaller(url, token, MODERN if number % 4 < 2 else LEGACY) as caller:
        turn = 0
        while not over.is_set():
            turn += 1
            try:
                if turn % 3 == 0:
                    await _repeated(caller, load, "kb_search", query=f"start of {number}", path="shared")
                else:
                    await _add_line(caller, number, load)
            except WrongAnswer as error:
                load.wrong.append(error)
        load.forms[caller.era] += caller.forms


async def _add_line(caller: PlainCaller, number: int, load: KilledLoad) -> None:
    """Add a line to the client's section; where that conflicts with others' changes, read the page again."""
    path, word = f"shared/page-{number % PAGES}.md", f"entry-{secrets.token_hex(6)}"
    load.open[word] = path
    while True:
        text, revision = await _whole(caller, load, path)
        if word in text:
            break
        start = f"- start of {number}\n"
        text = text.replace(start, f"{start}- {word}\n")
        try:
            done = await _repeated(caller, load, "kb_merge", path=path, content=text, base_revision=revision)
        except WrongAnswer as error:
            # The form was for a page that others, or this client's own call before the break, have changed meanwhile.
            if OVERTAKEN not in str(error):
                raise
            load.calls["kb_merge was overtaken"] += 1
            continue
        if done["status"] in ("done", "unchanged"):
            break
        load.calls[f"kb_merge answered {done['status']}"] += 1
    load.acknowledged[word] = load.open.pop(word)


async def _whole(caller: PlainCaller, load: KilledLoad, path: str) -> tuple[str, str]:
    """Return the whole text of a page, which comes in pieces if it is long, and its revision."""
    read = await _repeated(caller, load, "kb_read", path=path, view="full")
    text, revision = str(read["text"]), str(read["revision"])
    while (offset := read.get("next_offset")) is not None:
        read = await _repeated(caller, load, "kb_read", path=path, view="full", offset=offset, revision=revision)
        text += str(read["text"])
    return text, revision


async def _repeated(caller: PlainCaller, load: KilledLoad, tool: str, **arguments: Any) -> dict[str, Any]:
    """Call until an answer arrives, as a client does whose connection broke."""
    while True:
        try:
            answer = await caller.call(tool, **arguments)
        except BrokenCall as error:
            load.broken.append(error)
        except BusyServer as error:
            load.calls["answered busy"] += 1
            await anyio.sleep(error.retry_s)
        else:
            load.calls[tool] += 1
            return answer


def look(kb: Path, load: KilledLoad) -> None:
    """Compare the pages with what was confirmed."""
    texts: Mapping[str, str] = {
        path: (kb / path).read_text("utf-8") for path in {f"shared/page-{n}.md" for n in range(PAGES)}
    }
    load.lost = [word for word, path in load.acknowledged.items() if texts[path].count(word) == 0]
    known = {**load.acknowledged, **load.open}
    load.doubled = [word for word, path in known.items() if texts[path].count(word) > 1]


def _audited(settings: Settings) -> str:
    """Return what is wrong with the audit log, "" if nothing is."""
    command = [sys.executable, "-m", "mcp_server", "audit", "verify", "--kb", str(settings.kb)]
    assert settings.state_dir is not None
    assert settings.database_url is not None
    assert settings.database_schema is not None
    environment = {
        "PYTHONPATH": str(ROOT),
        "HOME": str(settings.state_dir),
        "FORGE_STATE_DIR": str(settings.state_dir),
        "FORGE_DATABASE_URL": settings.database_url,
        "FORGE_DATABASE_SCHEMA": settings.database_schema,
    }
    verified = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    return "" if verified.returncode == 0 else verified.stdout + verified.stderr
