"""`serve --http` with several worker processes: one that dies is replaced, and a signal ends all in order."""

from __future__ import annotations

import signal
import sys
import time
from pathlib import Path

import httpx
import pytest

from tests.contract.transport.test_http import HEADERS, HELLO
from tests.support.knowledge_bases.folders import write
from tests.support.processes.http_workers import Service, alive, service

pytestmark = [
    pytest.mark.external,
    pytest.mark.skipif(sys.platform == "win32", reason="there one process serves"),
]

WORKERS = 3


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    return {"HOME": str(tmp_path), "FORGE_KB": str(write(tmp_path / "kb")), "FORGE_STATE_DIR": str(tmp_path / "state")}


ARGUMENTS = ("--http", "127.0.0.1:0", "--workers", str(WORKERS))


def replaced(running: Service, pid: int) -> None:
    until = time.monotonic() + 60
    while pid in running.workers or len(running.workers) < WORKERS:
        assert time.monotonic() < until, running.lines
        time.sleep(0.05)


def test_a_worker_that_dies_is_replaced_and_a_client_s_requests_go_on(environment: dict[str, str]) -> None:
    with service(environment, *ARGUMENTS) as running:
        url = running.url
        with httpx.Client(headers=HEADERS, timeout=60) as client:
            session = {"mcp-session-id": client.post(url, json=HELLO).headers["mcp-session-id"]}
            session["mcp-protocol-version"] = "2025-11-25"
        for pid in running.wait_for_workers(WORKERS):
            running.kill_worker(pid)
            replaced(running, pid)
            # A new connection each time: an old one belongs to one worker.
            asked = {"jsonrpc": "2.0", "id": 2, "method": "tools/list", "params": {}}
            answer = httpx.post(url, json=asked, headers={**HEADERS, **session}, timeout=60)
            assert answer.status_code == 200
            assert "kb_search" in answer.text
        workers = running.workers
        assert running.stop() == 0
        assert sum("was ended by SIGKILL" in line for line in running.lines) == WORKERS, running.lines
        assert not any(map(alive, workers))
        assert not any("Traceback" in line for line in running.lines), running.lines


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_each_signal_that_ends_programs_ends_all_workers(environment: dict[str, str], number: int) -> None:
    with service(environment, *ARGUMENTS) as running:
        assert running.url
        workers = running.wait_for_workers(WORKERS)
        assert running.stop(number) == 0
        assert not any(map(alive, workers))


def test_workers_end_with_a_supervisor_that_is_killed(environment: dict[str, str]) -> None:
    with service(environment, *ARGUMENTS) as running:
        assert running.url
        workers = running.wait_for_workers(WORKERS)
        running.process.kill()
        until = time.monotonic() + 60
        while any(map(alive, workers)):
            assert time.monotonic() < until
            time.sleep(0.05)


@pytest.mark.parametrize(
    ("arguments", "more", "says", "code"),
    [
        (("--http", "0.0.0.0:0", "--workers", "3"), {}, "callers must sign in", 2),
        (ARGUMENTS, {"FORGE_KB": "/nowhere"}, "/nowhere", 1),
        (("--http", "127.0.0.1:0", "--workers", "0"), {}, "--http-workers", 2),
    ],
)
def test_a_start_that_fails_says_why_once(
    environment: dict[str, str], arguments: tuple[str, ...], more: dict[str, str], says: str, code: int
) -> None:
    with service({**environment, **more}, *arguments) as running:
        assert running.process.wait(60) == code
    running._reader.join(60)
    assert sum(says in line for line in running.lines) == 1, running.lines
