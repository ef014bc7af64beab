"""The public MCP conformance suite against our real server, gate included, for both protocol eras."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import Collection, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest

from mcp_server.app.settings.settings import Settings
from tests.external.programs import node_program, process, run, wait_for_port
from tests.support.knowledge_bases.folders import write
from tests.support.processes.free_port import free_port
from tests.support.processes.http_server import let_in
from tests.support.processes.round_robin import round_robin
from tests.support.roads.road import PUBLIC_URL

pytestmark = pytest.mark.external

SUITE_S = 300.0

PASSED = {"2025-11-25": 84, "2026-07-28": 152}
"""Checks that the SDK's own reference server passes with this version of the suite.

Fewer checks mean that some did not run.
"""

UNSCORED: dict[str, dict[str, str]] = {
    "2025-11-25": {},
    "2026-07-28": {
        "server-sse-streams-functional": "streams are optional in this era and the server answers with plain JSON",
    },
}
"""Checks for which the suite reports no verdict, each with the reason. The suite's own log lines are not checks."""

LOG_LINES = {"outgoing-request", "incoming-response", "incoming-sse-event", "stream-closed"}


@dataclass(frozen=True, slots=True)
class Check:
    scenario: str
    id: str
    status: str
    message: str


@pytest.fixture(params=["this machine", "signed in"])
def url(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[str]:
    """The address of a conformance server over a small knowledge base.

    The suite can't send a token. For a server that wants one, nginx adds it.
    """
    node_program("conformance")  # where it is missing, skip before anything is started
    signed_in = request.param == "signed in"
    kb, state_dir = write(tmp_path / "kb"), tmp_path / "state"
    token = asyncio.run(let_in(Settings(kb=kb, state_dir=state_dir), "suite"))[0] if signed_in else None
    port = free_port()
    arguments = ["tests.external.conformance_server", str(port), str(kb), str(state_dir)]
    with (
        (tmp_path / "server.log").open("w", encoding="utf-8") as log,
        process(arguments, log, {"FORGE_HTTP_URL": PUBLIC_URL} if signed_in else None) as server,
        ExitStack() as stack,
    ):
        wait_for_port(port, server)
        address = f"http://127.0.0.1:{port}"
        if token is not None:
            assert httpx.post(f"{address}/mcp", json={}).status_code == 401
            yield stack.enter_context(round_robin(tmp_path / "proxy", [address], token))
        else:
            yield f"{address}/mcp"


@pytest.mark.parametrize("version", sorted(PASSED))
def test_the_server_behind_its_gate_passes_the_public_conformance_suite(version: str, url: str, tmp_path: Path) -> None:
    """The MCP project's suite requires it; the fixtures it calls pass our gate like every tool."""
    passes_suite(version, url, tmp_path / "results")


def passes_suite(version: str, url: str, results: Path, *, without: Collection[str] = ()) -> None:
    """Check that the server there passes the suite for that version of the protocol, `without` the checks with these ids."""
    said = run(
        [
            *node_program("conformance"),
            *("server", "--url", url, "--suite", "all", "--spec-version", version, "--output-dir", str(results)),
        ],
        SUITE_S,
    )
    checks = [check for check in _checks(results) if check.id not in without]
    failed = [check for check in checks if check.status in {"FAILURE", "WARNING"}]
    assert not failed, "\n".join(f"{check.scenario}: {check.id}: {check.message}" for check in failed)
    assert said.returncode == 0, said.stdout[-2000:] + said.stderr[-2000:]
    unscored = {check.id for check in checks if check.status in {"INFO", "SKIPPED"}} - LOG_LINES
    assert unscored == set(UNSCORED[version])
    counted = Counter(check.status for check in checks)
    assert counted["SUCCESS"] >= PASSED[version] - len(without), counted


def _checks(results: Path) -> list[Check]:
    found: list[Check] = []
    for file in sorted(results.glob("*/checks.json")):
        rows: list[dict[str, Any]] = json.loads(file.read_text(encoding="utf-8"))
        found += [Check(file.parent.name, row["id"], row["status"], str(row.get("errorMessage"))) for row in rows]
    assert found, "the suite left no results"
    return found
