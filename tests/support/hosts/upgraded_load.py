"""A mixed load of many clients while a service of two machines gets another version, as the guide on upgrades says."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import anyio
import anyio.to_thread
import httpx

from mcp_server.app.settings.settings import Settings
from tests.support.hosts.killed_load import KilledLoad, calling, look, shared_pages
from tests.support.hosts.plain_callers import WrongAnswer
from tests.support.processes.free_port import free_port
from tests.support.processes.http_workers import Service, service
from tests.support.processes.round_robin import machine, round_robin

MACHINES = 2
READY_S = 120.0
REFUSED = "upgrade knowledge-forge"


@dataclass
class Upgrade:
    """What happened: the load, and when each machine was stopped and was ready with the other version."""

    load: KilledLoad
    stopped: list[float] = field(default_factory=list)
    ready: list[float] = field(default_factory=list)
    codes: list[int] = field(default_factory=list)

    @property
    def refused(self) -> list[float]:
        """When a server answered that it must be upgraded."""
        return [error.at for error in self.load.wrong if REFUSED in str(error)]

    @property
    def unexplained(self) -> list[str]:
        """The wrong answers that neither the older version nor the stop of a server explains."""
        return [str(error) for error in self.load.wrong if REFUSED not in str(error) and not self._is_cut_off(error)]

    def _is_cut_off(self, error: WrongAnswer) -> bool:
        """Return whether it is uvicorn's answer to a request that still waited when its server ended, as for a person's reply."""
        stops = zip(self.stopped, self.ready, strict=True)
        return str(error).startswith("500 ") and any(stop <= error.at <= ready for stop, ready in stops)

    def in_words(self) -> str:
        """Return a summary in three sentences."""
        away = ", ".join(f"{ready - stop:.1f} s" for stop, ready in zip(self.stopped, self.ready, strict=True))
        broken = [f"{call} ({call.ended - self.stopped[0]:.1f} s after the first stop)" for call in self.load.broken]
        span = f" within {max(self.refused) - min(self.refused):.1f} s" if self.refused else ""
        return (
            f"{self.load.in_words()}. Machines away: {away}. {len(self.refused)} writes refused{span}. Broken: {broken}"
        )


class Fleet:
    """Two machines of one service. Each has an address of its own and runs one version of the program."""

    def __init__(self, folder: Path, settings: Settings) -> None:
        self.folder, self.settings = folder, settings
        self.ports = [free_port() for _ in range(MACHINES)]
        self.running: list[tuple[Service, ExitStack]] = []

    def start(self, number: int, checkout: Path) -> tuple[Service, ExitStack]:
        """Start that version on the machine, and return once it is ready."""
        stack = ExitStack()
        address = f"127.0.0.1:{self.ports[number]}"
        environment = machine(self.folder, self.settings, number)
        found = stack.enter_context(service(environment, "--http", address, checkout=checkout))
        with httpx.Client(base_url=f"http://{address}", timeout=READY_S) as http:
            until = time.monotonic() + READY_S
            assert found.url
            while http.get("/ready").status_code != 200:
                assert time.monotonic() < until, found.lines
                time.sleep(0.05)
        return found, stack

    def replace(self, number: int, checkout: Path, upgrade: Upgrade) -> None:
        """Stop the machine's server in order, and start that version in its place."""
        old, stack = self.running[number]
        upgrade.stopped.append(time.monotonic())
        upgrade.codes.append(old.stop())
        stack.close()
        self.running[number] = self.start(number, checkout)
        upgrade.ready.append(time.monotonic())


@contextmanager
def fleet(folder: Path, settings: Settings, checkout: Path) -> Iterator[Fleet]:
    """Yield two machines that run that version."""
    made = Fleet(folder, settings)
    try:
        for number in range(MACHINES):
            made.running.append(made.start(number, checkout))
        yield made
    finally:
        for _, stack in made.running:
            stack.close()


def command(settings: Settings, folder: Path, checkout: Path, *words: str) -> str:
    """Return what this command of that version prints."""
    environment = {"PATH": os.environ["PATH"], "PYTHONPATH": str(checkout), **machine(folder, settings, 0)}
    run = [sys.executable, "-m", "mcp_server", *words]
    done = subprocess.run(run, cwd=checkout, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def registered(settings: Settings, folder: Path, checkout: Path, clients: int) -> list[str]:
    """Register the clients with that version; every second one may write, the others need a person's yes. Return their tokens."""
    tokens = []
    for one in range(clients):
        printed = command(settings, folder, checkout, "enroll", f"client-{one}", "--allow-forms")
        tokens.append(printed.split("FORGE_ENROLMENT=", 1)[1].split()[0])
        if one % 2:
            command(settings, folder, checkout, "trust", "grant", f"client-{one}", "3")
    return tokens


async def upgrade(
    settings: Settings, folder: Path, versions: tuple[Path, Path], *, clients: int, pause_s: float
) -> Upgrade:
    """Serve and call with the first version, replace one machine after the other by the second one, and return what happened.

    `pause_s` is how long both versions serve side by side, and how long each serves alone.
    """
    older, newer = versions
    shared_pages(settings.kb, clients)
    tokens = await anyio.to_thread.run_sync(registered, settings, folder, older, clients)
    done = Upgrade(KilledLoad(clients))
    with (
        fleet(folder, settings, older) as machines,
        round_robin(folder / "proxy", [f"http://127.0.0.1:{port}" for port in machines.ports]) as url,
    ):
        async with calling(url, tokens, done.load):
            for number in range(MACHINES):
                await anyio.sleep(pause_s)
                await anyio.to_thread.run_sync(machines.replace, number, newer, done)
            await anyio.sleep(pause_s)
    look(settings.kb, done.load)
    await anyio.to_thread.run_sync(command, settings, folder, newer, "audit", "verify")
    return done
