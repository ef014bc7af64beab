"""The public conformance suite's scenarios of the Tasks extension against our real server, gate included."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.external.programs import node_program, process, run, wait_for_port
from tests.support.knowledge_bases.folders import write
from tests.support.processes.free_port import free_port

pytestmark = pytest.mark.external

SCENARIO_S = 60.0

ELSEWHERE = {
    "sep-2663-tasks-get-status-failed": "no request of ours ends in an error of JSON-RPC after its handle (decision 43)",
}
"""Checks that need a kind of tool that doesn't exist here, each with the reason."""

PASSED = {
    "tasks-lifecycle": 8,
    "tasks-capability-negotiation": 5,
    "tasks-wire-fields": 4,
    "tasks-request-state-removal": 3,
    "tasks-request-headers": 5,
    "tasks-dispatch-and-envelope": 9,
}
"""Scenarios, and how many of their checks pass.

Scenarios are left out if their tools require tasks, ask through their task first, or ask for several things at once; so
is that of notifications, which the suite itself skips.
"""


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a server with the tools that the scenarios call."""
    node_program("conformance")  # where it is missing, skip before anything is started
    folder = tmp_path_factory.mktemp("tasks")
    kb = write(folder / "kb")
    port = free_port()
    with (
        (folder / "server.log").open("w", encoding="utf-8") as log,
        process(["tests.external.task_server", str(port), str(kb), str(folder / "state")], log) as server,
    ):
        wait_for_port(port, server)
        yield f"http://127.0.0.1:{port}/mcp"


@pytest.mark.parametrize("scenario", sorted(PASSED))
def test_the_server_passes_the_scenario(scenario: str, url: str, tmp_path: Path) -> None:
    command = [*node_program("conformance"), "server", "--url", url, "--scenario", scenario]
    said = run([*command, "--output-dir", str(tmp_path)], SCENARIO_S)
    (file,) = tmp_path.glob("*/checks.json")
    checks: list[dict[str, Any]] = json.loads(file.read_text(encoding="utf-8"))
    wrong = {check["id"]: check.get("errorMessage") for check in checks if check["status"] != "SUCCESS"}
    assert set(wrong) <= set(ELSEWHERE), (wrong, said.stdout[-2000:] + said.stderr[-2000:])
    assert len(checks) - len(wrong) >= PASSED[scenario]
