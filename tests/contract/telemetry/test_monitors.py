"""A real server that is watched: what a collector, Prometheus and the log get, and that no text of anybody is in it."""

from __future__ import annotations

import gzip
import json
import re
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import pytest
from mcp import Client, StdioServerParameters
from mcp.client.stdio import stdio_client
from mcp.shared.exceptions import MCPError
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.trace.v1.trace_pb2 import Span

from mcp_server.app.settings.values import HttpAddress
from mcp_server.transport.shared_port import bound
from tests.support.knowledge_bases.folders import write
from tests.support.processes.free_port import free_port

CANARY = "heliotrope"
"""A word in pages, questions, arguments and made-up names. No monitoring system may see it."""
TOKEN = "a-token-for-metrics"  # noqa: S105 - no real one


@dataclass
class Collector:
    """An OpenTelemetry collector: it keeps what is sent to it."""

    address: str = ""
    bodies: list[bytes] = field(default_factory=list)

    @property
    def spans(self) -> list[Span]:
        """All spans that arrived."""
        requests = [ExportTraceServiceRequest.FromString(body) for body in self.bodies]
        scopes = [scope for one in requests for kind in one.resource_spans for scope in kind.scope_spans]
        return [span for scope in scopes for span in scope.spans]

    def named(self, name: str) -> Span:
        """Return the only span of that name."""
        (found,) = (span for span in self.spans if span.name == name)
        return found


@contextmanager
def collector() -> Iterator[Collector]:
    found = Collector()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["content-length"]))
            found.bodies.append(gzip.decompress(body) if self.headers.get("content-encoding") == "gzip" else body)
            self.send_response(200)
            self.end_headers()

        def log_message(self, *_: object) -> None: ...

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    Thread(target=server.serve_forever, daemon=True).start()
    found.address = f"http://127.0.0.1:{server.server_port}"
    try:
        yield found
    finally:
        server.shutdown()
        server.server_close()


def server(folder: Path, **variables: str) -> StdioServerParameters:
    """Return how to start a server on the pages of `folder`."""
    write(folder / "kb", {"tea.md": f"# Tea\n\nThe {CANARY} tea takes four minutes.\n"})
    command = ["-P", "-m", "mcp_server", "serve", "--kb", str(folder / "kb"), "--state-dir", str(folder / "state")]
    environ = {"FORGE_CONFIG": str(folder / "none.toml"), "HOME": str(folder), **variables}
    (folder / "none.toml").touch()
    return StdioServerParameters(command=sys.executable, args=command, env=environ)


def scraped(port: int, **headers: str) -> str:
    request = urllib.request.Request(f"http://127.0.0.1:{port}/metrics", headers=headers)
    with urllib.request.urlopen(request, timeout=60) as reply:  # noqa: S310 - an address of this test
        return str(reply.read().decode())


def attributes(span: Span) -> dict[str, object]:
    return {one.key: getattr(one.value, str(one.value.WhichOneof("value"))) for one in span.attributes}


async def test_monitoring_sees_the_work_and_no_text(tmp_path: Path) -> None:
    port = free_port()
    with collector() as seen, (tmp_path / "log").open("w+") as log:
        started = server(
            tmp_path, FORGE_TRACES=seen.address, FORGE_METRICS=f"127.0.0.1:{port}", FORGE_LOG_FORMAT="json"
        )
        async with Client(stdio_client(started, errlog=log)) as client:
            found = await client.call_tool("kb_search", {"query": f"how long does {CANARY} take"})
            assert CANARY in str(found.structured_content)
            await client.call_tool("kb_read", {"path": f"{CANARY}.md"})
            await client.call_tool("kb_merge", {"path": "tea.md", "content": f"{CANARY} is purple", "source": CANARY})
            with pytest.raises(MCPError):
                await client.call_tool(CANARY, {CANARY: CANARY})
            with pytest.raises(MCPError):
                await client.read_resource(f"kb://doc/{CANARY}.md")
            metrics = scraped(port)
        lines = [json.loads(line) for line in (tmp_path / "log").read_text().splitlines()]
    assert {span.name for span in seen.spans} >= {
        "tools/call kb_search",
        "tools/call unknown",
        "tool",
        "search",
        "index",
    }
    request, tool, search = (
        seen.named("tools/call kb_search"),
        *(
            next(s for s in seen.spans if s.name == name and s.trace_id == seen.named("tools/call kb_search").trace_id)
            for name in ("tool", "search")
        ),
    )
    assert (tool.parent_span_id, search.parent_span_id) == (request.span_id, tool.span_id)
    assert attributes(search)["forge.hits"] == 1
    assert attributes(tool)["forge.tool"] == "kb_search"
    assert 'forge_tool_call_seconds_count{outcome="done",tool="kb_search"} 1.0' in metrics
    assert 'forge_tool_call_seconds_count{outcome="failed",tool="kb_read"} 1.0' in metrics
    assert "forge_documents 1.0" in metrics
    assert all({"time", "level", "logger", "message"} <= set(line) for line in lines)
    for place in (*seen.bodies, metrics.encode(), (tmp_path / "log").read_bytes()):
        assert CANARY.encode() not in place


async def test_metrics_of_other_machines_need_the_token(tmp_path: Path) -> None:
    port = free_port()
    started = server(tmp_path, FORGE_METRICS=f"0.0.0.0:{port}", FORGE_METRICS_TOKEN=TOKEN)
    async with Client(stdio_client(started)) as client:
        await client.list_tools()
        for headers in ({}, {"Authorization": "Bearer another-token-1234"}, {"Authorization": f"Basic {TOKEN}"}):
            with pytest.raises(urllib.error.HTTPError, match="401"):
                scraped(port, **headers)
        assert "forge_build_info" in scraped(port, Authorization=f"Bearer {TOKEN}")


async def test_a_web_page_can_not_read_metrics_by_a_name_of_its_own(tmp_path: Path) -> None:
    port = free_port()
    async with Client(stdio_client(server(tmp_path, FORGE_METRICS=f"127.0.0.1:{port}"))) as client:
        await client.list_tools()
        with pytest.raises(urllib.error.HTTPError, match="403"):
            scraped(port, Host="attacker.example")
        assert "forge_build_info" in scraped(port, Host=f"localhost:{port}")


async def test_a_server_works_without_its_collector_and_with_a_taken_port(tmp_path: Path) -> None:
    with bound(HttpAddress("127.0.0.1", 0)) as taken, (tmp_path / "log").open("w+") as log:
        port = taken.getsockname()[1]
        started = server(tmp_path, FORGE_TRACES=f"http://127.0.0.1:{free_port()}", FORGE_METRICS=f"127.0.0.1:{port}")
        async with Client(stdio_client(started, errlog=log)) as client:
            found = await client.call_tool("kb_read", {"path": "tea.md"})
            assert CANARY in str(found.structured_content)
    text = (tmp_path / "log").read_text()
    assert re.search(rf"no metrics: cannot listen at 127\.0\.0\.1:{port} \(FORGE_METRICS\)", text)
    assert "the collector in FORGE_TRACES did not take" in text
    assert "Traceback" not in text
