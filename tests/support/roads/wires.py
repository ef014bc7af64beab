"""Servers in processes of their own that receive raw messages: over stdio, and over HTTP with a token."""

from __future__ import annotations

import asyncio
import json
import queue
import re
import secrets
import subprocess
import sys
import threading
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx

from mcp_server.app.settings.settings import Settings
from mcp_server.gate.host_registration import TOKEN_HOLDER, UNENROLLED, os_user
from tests.support.processes.http_server import ROOT, let_in
from tests.support.processes.http_workers import Service, service
from tests.support.roads.road import CURRENT, HTTP, PUBLIC_URL
from tests.support.state.postgres import PostgresServer

PATIENCE_S = 60.0
VERSION = "2025-11-25"
HELLO: dict[str, Any] = {
    "jsonrpc": "2.0",
    "id": "hello",
    "method": "initialize",
    "params": {"protocolVersion": VERSION, "capabilities": {}},
}


class Wire(ABC):
    """A connection to a server on which a test sends whatever bytes it likes."""

    principal: str
    """The caller."""

    @abstractmethod
    def tell(self, raw: bytes) -> None:
        """Send a message."""

    @abstractmethod
    def next_answer(self) -> dict[str, Any]:
        """Return the server's next message; fail if none comes."""

    @abstractmethod
    def log_at_end(self) -> str:
        """Stop the server in order, and return its log."""

    def begin(self, **more: Any) -> None:
        """Begin a session of the 2025 protocol; `more` is added to what the client says about itself."""
        hello = {**HELLO, "params": {**HELLO["params"], "clientInfo": {"name": "t", "version": "0", **more}}}
        self.tell(json.dumps(hello).encode())
        assert "result" in self.next_answer()
        self.tell(b'{"jsonrpc":"2.0","method":"notifications/initialized"}')

    def answers(self, raw: bytes) -> list[dict[str, Any]]:
        """Return all answers to a request, once a later ping was answered too, which shows that the server lives."""
        ping = f"ping-{secrets.token_hex(4)}"
        self.tell(raw)
        self.tell(json.dumps({"jsonrpc": "2.0", "id": ping, "method": "ping"}).encode())
        got: list[dict[str, Any]] = []
        wanted = {ping, raw}
        while wanted:
            answer = self.next_answer()
            if answer.get("id") == ping:
                wanted.discard(ping)
                assert answer["result"] == {}
            else:
                got.append(answer)
                wanted.discard(raw)
        return got


@dataclass
class StdioWire(Wire):
    """Lines to the standard input of a server process."""

    process: subprocess.Popen[bytes]
    log: Path
    principal: str = f"{os_user()}@{UNENROLLED}"

    def tell(self, raw: bytes) -> None:
        """Send a line."""
        assert self.process.stdin is not None
        self.process.stdin.write(raw + b"\n")
        self.process.stdin.flush()

    def next_answer(self) -> dict[str, Any]:
        """Return the next line; a server that has stopped answering is ended, which fails the test."""
        assert self.process.stdout is not None
        patience = threading.Timer(PATIENCE_S, self.process.kill)
        patience.start()
        try:
            raw = self.process.stdout.readline()
        finally:
            patience.cancel()
        assert raw, "the server is gone, or says nothing"
        answer: dict[str, Any] = json.loads(raw)
        return answer

    def log_at_end(self) -> str:
        """Disconnect, and return the log of the server, which then ends."""
        assert self.process.stdin is not None
        self.process.stdin.close()
        self.process.wait(PATIENCE_S)
        return self.log.read_text(encoding="utf-8")


@dataclass
class HttpWire(Wire):
    """Requests to a server that wants a token, each on a connection of its own, so that any worker may get it."""

    running: Service
    headers: dict[str, str]
    principal: str
    _answers: queue.SimpleQueue[dict[str, Any]] = field(default_factory=queue.SimpleQueue)

    def begin(self, **more: Any) -> None:
        """Begin another session."""
        self.headers.pop("mcp-session-id", None)
        super().begin(**more)

    def tell(self, raw: bytes) -> None:
        """Send a request, and take in everything that its answer contains."""
        answer = httpx.post(self.running.url, content=raw, headers=self.headers, timeout=PATIENCE_S)
        if session := answer.headers.get("mcp-session-id"):
            self.headers["mcp-session-id"] = session
        if answer.headers.get("content-type", "").startswith("text/event-stream"):
            lines = re.split(r"\r?\n", answer.text)  # `splitlines` knows more line ends, and texts may have those
            found = [line.removeprefix("data: ") for line in lines if line.startswith("data: {")]
        else:
            found = [answer.text] if answer.text else []
        for text in found:
            self._answers.put(json.loads(text))

    def next_answer(self) -> dict[str, Any]:
        """Return the next message of what the requests so far were answered with."""
        assert not self._answers.empty(), "no more was answered"
        return self._answers.get()

    def log_at_end(self) -> str:
        """Stop the server, and return its log."""
        assert self.running.stop() == 0
        return "".join(f"{line}\n" for line in self.running.lines)


@contextmanager
def wire_over(road: str, folder: Path) -> Iterator[Wire]:
    """Serve `folder/kb` on that road."""
    with http_wire(folder) if road == HTTP else stdio_wire(folder) as wire:
        yield wire


@contextmanager
def stdio_wire(folder: Path) -> Iterator[StdioWire]:
    """Serve `folder/kb` over stdio to a host that nobody registered."""
    command = [sys.executable, "-m", "mcp_server", "serve", "--kb", str(folder / "kb")]
    command += ["--state-dir", str(folder / "state")]
    log = folder / "server.log"
    with (
        log.open("wb") as stderr,
        subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=stderr, cwd=ROOT) as process,
    ):
        try:
            wire = StdioWire(process, log)
            wire.begin()
            yield wire
        finally:
            process.kill()


@contextmanager
def http_wire(folder: Path, postgres: PostgresServer | None = None) -> Iterator[HttpWire]:
    """Serve `folder/kb` over HTTP to the holder of a token without a grant; with a database, by two workers."""
    url, schema = (None, None) if postgres is None else (postgres.url(), f"t_{secrets.token_hex(6)}")
    settings = Settings(
        kb=folder / "kb", state_dir=folder / "state", open_browser=False, database_url=url, database_schema=schema
    )
    (token,) = asyncio.run(let_in(settings, "ann", level=2))
    environment: Mapping[str, str] = {
        "HOME": str(folder),
        "FORGE_KB": str(settings.kb),
        "FORGE_STATE_DIR": str(settings.state_dir),
        "FORGE_HTTP_URL": PUBLIC_URL,
        # Tests send as fast as they can.
        **dict.fromkeys(("FORGE_LIMIT_CALLS", "FORGE_LIMIT_HEAVY", "FORGE_LIMIT_AT_ONCE"), "off"),
        **({"FORGE_DATABASE_URL": url, "FORGE_DATABASE_SCHEMA": schema} if url and schema else {}),
    }
    workers = () if postgres is None else ("--workers", "2")
    with service(environment, "--http", "127.0.0.1:0", *workers) as running:
        CURRENT.clients += 1
        headers = {
            "authorization": f"Bearer {token}",
            "accept": "application/json, text/event-stream",
            "content-type": "application/json",
            "mcp-protocol-version": VERSION,
        }
        wire = HttpWire(running, headers, f"ann@{TOKEN_HOLDER}")
        wire.begin()
        yield wire
