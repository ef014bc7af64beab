"""The MCP Inspector's command line against the real program, over stdio and HTTP, in both protocol eras."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.doubles.provider import KEY, Model
from tests.doubles.provider_turns import said, uses
from tests.doubles.serving import serving
from tests.external.programs import node_program, process, run, wait_for_port
from tests.support.knowledge_bases.folders import write
from tests.support.processes.free_port import free_port

pytestmark = pytest.mark.external

CALL_S = 60.0
ERAS = ("legacy", "modern")
TRANSPORTS = ("stdio", "http")


@contextmanager
def _target(transport: str, folder: Path) -> Iterator[Sequence[str]]:
    """Yield how the Inspector reaches the server: a command or an address."""
    where = ["--kb", str(write(folder / "kb")), "--state-dir", str(folder / "state")]
    indexed = run([sys.executable, "-m", "mcp_server", "index", *where], CALL_S)
    assert indexed.returncode == 0, indexed.stderr
    serve = ["mcp_server", "serve", *where]
    if transport == "stdio":
        yield ["--", sys.executable, "-m", *serve]
        return
    port = free_port()
    with (
        (folder / "server.log").open("w", encoding="utf-8") as log,
        process([*serve, "--http", f"127.0.0.1:{port}"], log) as server,
    ):
        wait_for_port(port, server)
        yield ["--server-url", f"http://127.0.0.1:{port}/mcp", "--transport", "http"]


def _inspect(target: Sequence[str], era: str, *arguments: str) -> Any:
    """Return the result of one method as the Inspector prints it."""
    options = ["--cli", *arguments, "--format", "json", "--protocol-era", era]
    said = run([*node_program("mcp-inspector"), *options, *target], CALL_S)
    assert said.returncode == 0, said.stderr[-3000:]
    return json.loads(said.stdout)["result"]


@pytest.mark.parametrize("transport", TRANSPORTS)
@pytest.mark.parametrize("era", ERAS)
def test_the_inspector_lists_the_tools_and_finds_nothing_unportable_in_their_schemas(
    era: str, transport: str, tmp_path: Path
) -> None:
    """`--strict` exits with code 6 on a schema that some hosts could not use."""
    with _target(transport, tmp_path) as target:
        listed = _inspect(target, era, "--method", "tools/list", "--strict")
    names = [tool["name"] for tool in listed["tools"]]
    assert names[:3] == ["kb_map", "kb_read", "kb_search"]
    assert all(set(tool["annotations"]) >= {"readOnlyHint", "destructiveHint"} for tool in listed["tools"])


@pytest.mark.parametrize("transport", TRANSPORTS)
@pytest.mark.parametrize("era", ERAS)
def test_the_inspector_calls_map_and_search(era: str, transport: str, tmp_path: Path) -> None:
    """A third-party client gets answers that it can check against the output schema."""
    with _target(transport, tmp_path) as target:
        mapped = _inspect(target, era, "--method", "tools/call", "--tool-name", "kb_map", "--tool-args-json", "{}")
        query = json.dumps({"query": "how do I roll back the payment service?"})
        found = _inspect(target, era, "--method", "tools/call", "--tool-name", "kb_search", "--tool-args-json", query)
    assert not mapped["isError"]
    assert "guides" in {child["path"] for child in mapped["structuredContent"]["children"]}
    assert not found["isError"]
    assert found["structuredContent"]["hits"][0]["path"] == "guides/deploy.md"


@pytest.mark.parametrize("era", ERAS)
def test_the_inspector_writes_as_the_host_that_a_person_let_in(era: str, tmp_path: Path) -> None:
    """With the two commands of the README's security model and the instructions for a host's configuration."""
    with _target("stdio", tmp_path) as target:
        where = ["--kb", str(tmp_path / "kb"), "--state-dir", str(tmp_path / "state")]
        enrolled = run([sys.executable, "-m", "mcp_server", "enroll", "inspector", *where], CALL_S)
        secret = enrolled.stdout.strip().splitlines()[-1]
        granted = run([sys.executable, "-m", "mcp_server", "trust", "grant", "inspector", "3", *where], CALL_S)
        assert granted.returncode == 0, granted.stderr

        def call(tool: str, **arguments: object) -> dict[str, Any]:
            asked = ["--method", "tools/call", "--tool-name", tool, "--tool-args-json", json.dumps(arguments)]
            answer = _inspect(["-e", secret, *target], era, *asked)
            assert not answer["isError"], answer
            return dict(answer["structuredContent"])

        base = call("kb_read", path="guides/onboarding.md")["revision"]
        text = "# Onboarding\n\nNew colleagues get a laptop, two mentors and a first small task.\n"
        done = call("kb_merge", path="guides/onboarding.md", content=text, base_revision=base)
        assert (done["status"], done["verified"]) == ("done", True)
        assert (tmp_path / "kb/guides/onboarding.md").read_text(encoding="utf-8") == text
        history = call("kb_history", path="guides/onboarding.md")["revisions"]
        # The oldest line is the page before anybody wrote to it through the server.
        assert [line["by"].rpartition("@")[2] for line in history] == ["inspector", ""]
        verified = run([sys.executable, "-m", "mcp_server", "audit", "verify", *where], CALL_S)
        assert verified.returncode == 0, verified.stdout


@pytest.mark.parametrize("era", ERAS)
def test_the_inspector_has_a_goal_carried_through_and_explained(era: str, tmp_path: Path) -> None:
    """A host without a model: the server asks the one that its environment names."""
    model = Model()
    model.will("Where is", uses("kb_read", path="guides/deploy.md"), said("It stands in guides/deploy.md."))
    with serving(model) as place, _target("stdio", tmp_path) as target:
        where = ["--kb", str(tmp_path / "kb"), "--state-dir", str(tmp_path / "state")]
        secret = run([sys.executable, "-m", "mcp_server", "enroll", "inspector", *where], CALL_S)
        granted = run([sys.executable, "-m", "mcp_server", "trust", "grant", "inspector", "3", *where], CALL_S)
        assert granted.returncode == 0, granted.stderr
        told = [secret.stdout.strip().splitlines()[-1], "FORGE_MODEL=openai:some-model", f"OPENAI_API_KEY={KEY}"]
        told = [part for one in [*told, f"OPENAI_BASE_URL={place.address}/v1"] for part in ("-e", one)]

        def call(tool: str, **arguments: object) -> dict[str, Any]:
            asked = ["--method", "tools/call", "--tool-name", tool, "--tool-args-json", json.dumps(arguments)]
            answer = _inspect([*told, *target], era, *asked)
            assert not answer["isError"], answer
            return dict(answer["structuredContent"])

        done = call("agent_run", goal="Where is the deployment told?")
        assert (done["status"], done["text"]) == ("done", "It stands in guides/deploy.md.")
        assert call("agent_trace", run_id=done["run_id"])["answer"] == done["text"]
        listed = _inspect([*told, *target], era, "--method", "tools/list", "--strict")
        assert {"agent_run", "agent_trace"} <= {tool["name"] for tool in listed["tools"]}
        words = _inspect([*told, *target], era, "--method", "resources/read", "--uri", f"run://{done['run_id']}")
        assert "kb_read" in words["contents"][0]["text"]
    assert model.left == 0
