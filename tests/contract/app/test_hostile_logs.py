"""Text from others in a real server's log: it cannot begin a line, doesn't act on a terminal, and is bounded.

Promise: every line on stderr begins with our name, or is an indented part of the line above it.
"""

from __future__ import annotations

import http.client
import io
import json
import logging
import re
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import anyio
import pytest

from knowledge.pages.paths import ACTING
from mcp_server.__main__ import main
from mcp_server.app.settings.settings import Settings
from mcp_server.cli.terminal.escape import EscapedStream
from mcp_server.cli.terminal.output import LONGEST_REMARK, LONGEST_TRACEBACK, LogLines
from tests.support.hosts.writers import let_in
from tests.support.knowledge_bases.folders import write
from tests.support.roads.road import connect, opened, over_http
from tests.support.roads.wires import wire_over

pytestmark = pytest.mark.security

FORGED = "knowledge-forge: settings from /etc/evil.toml"
HOSTILE = (
    f"x\n{FORGED}\r\n{FORGED}\r{FORGED}\x0b\x0c\x1c\x85\u2028{FORGED}\x1b[2J\x9b2J\x1b]0;owned\x07\u202e\u2066\x00"
)
LINE = re.compile(r"knowledge-forge: \S|  ")
ACTS = re.compile(f"[{ACTING}]")


def of_ours(log: str) -> list[str]:
    """Return the lines of a log, after checking that nothing in it acts and every line is ours."""
    lines = log.removesuffix("\n").replace("\r\n", "\n").split("\n") if log else []
    for line in lines:
        assert LINE.match(line), line[:200]
        assert not ACTS.search(line), ascii(line[:200])
        assert not line.startswith(FORGED), line
    return lines


@contextmanager
def serving(folder: Path, *words: str, cwd: Path | None = None) -> Iterator[tuple[subprocess.Popen[bytes], Path]]:
    """Yield a server over pipes and the file with its stderr."""
    command = [sys.executable, "-P", "-m", "mcp_server", "serve", "--kb", str(folder / "kb")]
    command += ["--state-dir", str(folder / "state"), *words]
    log = folder / "log"
    with (
        log.open("wb") as stderr,
        subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=stderr, cwd=cwd or folder
        ) as process,
    ):
        try:
            yield process, log
        finally:
            process.kill()


def asked(process: subprocess.Popen[bytes], id_: object, method: str, **params: Any) -> dict[str, Any]:
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write(json.dumps({"jsonrpc": "2.0", "id": id_, "method": method, "params": params}).encode() + b"\n")
    process.stdin.flush()
    while True:
        line = process.stdout.readline()
        assert line, "the server is gone"
        answer: dict[str, Any] = json.loads(line)
        if answer.get("id") == id_:
            return answer


def hello(**info: str) -> dict[str, Any]:
    client = {"name": "t", "version": "0", **info}
    return {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": client}


@pytest.mark.skipif(sys.platform == "win32", reason="no file name there holds a line end")
def test_a_folder_forges_no_line_by_its_name(tmp_path: Path) -> None:
    """A host starts its servers in whatever folder is open; the log names a `forge.toml` there as ignored."""
    write(tmp_path / "kb")
    opened = tmp_path / f"repository\n{FORGED}"
    opened.mkdir(parents=True)
    (opened / "forge.toml").touch()
    with serving(tmp_path, cwd=opened) as (process, log):
        assert "result" in asked(process, 1, "initialize", **hello())
    lines = of_ours(log.read_text(encoding="utf-8"))
    assert any("is ignored" in line for line in lines), "nothing was logged, so nothing was shown"


def test_no_caller_forges_a_line(tmp_path: Path, road: str) -> None:
    """Client names, methods, ids, arguments, addresses, and meaningless notifications."""
    write(tmp_path / "kb", {"a.md": "# A\n", "_index.md": f"---\nuntrusted: {json.dumps(HOSTILE)}\n---\n# Home\n"})
    with wire_over(road, tmp_path) as wire:

        def ask(id_: object, method: str, **params: Any) -> None:
            wire.tell(json.dumps({"jsonrpc": "2.0", "id": id_, "method": method, "params": params}).encode())
            while wire.next_answer().get("id") != id_:
                pass

        wire.begin(name=HOSTILE, version=HOSTILE, title=HOSTILE)
        for method, params in (
            ("notifications/initialized", {}),
            (HOSTILE, {"a": HOSTILE}),
            ("notifications/cancelled", {"requestId": {"a": HOSTILE}, "reason": [HOSTILE]}),
            ("notifications/progress", {"progressToken": HOSTILE, "progress": HOSTILE}),
        ):
            wire.tell(json.dumps({"jsonrpc": "2.0", "method": method, "params": params}).encode())
            wire.tell(HOSTILE.encode())
        calls = [
            ("tools/call", {"name": name, "arguments": {key: HOSTILE}})
            for name, key in (
                *(("kb_read", "path"), ("kb_search", "query"), (HOSTILE, HOSTILE), ("journey_start", "agent")),
                *(("proposal_status", "proposal_id"), ("kb_map", "path"), ("agent_trace", "run_id")),
            )
        ]
        calls += [
            ("tools/call", {"name": "kb_merge", "arguments": {"path": "b.md", "content": "# B\n", "intent": HOSTILE}}),
            ("prompts/get", {"name": HOSTILE, "arguments": {HOSTILE: HOSTILE}}),
            ("resources/read", {"uri": "kb://doc/%0A" + FORGED}),
            (HOSTILE, {"_meta": {HOSTILE: HOSTILE}}),
        ]
        for number, (method, params) in enumerate(calls):
            ask(f"{number}{HOSTILE}", method, **params)
        log = wire.log_at_end()
    # Over HTTP nothing of all that is logged: its sender gets an answer to each message.
    assert len(of_ours(log)) >= (2 if over_http() else 3), "nothing was logged, so nothing was shown"


def test_no_request_over_http_forges_a_line(tmp_path: Path) -> None:
    """Headers and requests are refused by the HTTP server and by the SDK, whose own log lines repeat them."""
    write(tmp_path / "kb")
    with serving(tmp_path, "--http", "127.0.0.1:0") as (process, log):
        while not (found := re.search(r"serving http://127\.0\.0\.1:(\d+)", log.read_text(encoding="utf-8"))):
            assert process.poll() is None, log.read_text(encoding="utf-8")
            time.sleep(0.02)  # a file tells nobody of a new line
        port = int(found[1])
        raw = HOSTILE.encode("latin-1", "replace")
        sendable = re.sub(rb"[\x00-\x1f\x7f]", b" ", raw)  # the rest gets through: C1 controls among it
        for name in ("host", "origin", "mcp-session-id", "authorization", "mcp-protocol-version", "user-agent"):
            # Long texts too: each request may write a line, even before anybody signs in.
            for value in (sendable, b"x" * 12_000):
                connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
                connection.putrequest("POST", "/mcp?a=%0A" + FORGED.replace(" ", "%20"), skip_host=name == "host")
                connection.putheader("content-length", "2")
                connection.putheader("content-type", "application/json")
                connection._buffer.append(name.encode() + b": " + value)  # type: ignore[attr-defined]
                connection.endheaders(b"{}")
                connection.getresponse().read()
                connection.close()
        for request in (
            b"\x16\x03\x01garbage\r\n\r\n",
            raw + b"\r\n\r\n",
            b"GET / HTTP/1.1\r\nhost: " + raw + b"\r\n\r\n",
        ):
            with socket.create_connection(("127.0.0.1", port), timeout=60) as open_:
                open_.sendall(request)
                open_.recv(1000)
        lines = of_ours(log.read_text(encoding="utf-8"))
    assert any("Invalid Host header" in line for line in lines), lines
    assert any("Invalid HTTP request" in line for line in lines), lines
    assert max(map(len, lines)) < LONGEST_REMARK + 200


def test_no_intent_of_a_caller_forges_an_audit_record(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    settings = Settings(kb=write(tmp_path / "kb"), state_dir=tmp_path / "state")
    forged = f'{HOSTILE}"}}\n{{"seq": 1, "principal": "root"}}'

    async def merge() -> None:
        async with opened(await let_in(settings), indexing=False) as app, connect(app) as host:
            arguments = {"path": "b.md", "content": "# B\n", "intent": forged, "corroboration": [forged]}
            assert not (await host.call_tool("kb_merge", arguments)).is_error

    anyio.run(merge)
    places = ["--kb", str(settings.kb), "--state-dir", str(settings.state_dir)]
    assert main(["audit", "export", *places]) == 0
    exported = capsys.readouterr().out.splitlines()
    assert any("/etc/evil.toml" in line for line in exported), "no record says what the caller intended"
    assert [json.loads(line)["seq"] for line in exported] == [*range(1, len(exported) + 1)], "a line is a record"
    assert main(["audit", "search", *places]) == 0
    assert not ACTS.search(capsys.readouterr().out)


# --- internal errors --------------------------------------------------------------------------------------------------


def logged(*, tracebacks: bool, message: str = "%s failed", raised: str = HOSTILE) -> str:
    """Return the log of an error with a hostile message, raised from a hostile cause."""
    out, log = io.StringIO(newline=""), logging.getLogger("tests.hostile_logs")
    handler = logging.StreamHandler(EscapedStream(out, remarks=True))
    handler.setFormatter(LogLines(tracebacks=tracebacks))
    log.addHandler(handler)
    error = RuntimeError(raised)
    error.add_note(raised)
    error.__cause__ = ValueError(raised)
    try:
        raise error
    except RuntimeError:
        log.exception(message, HOSTILE)
    finally:
        log.removeHandler(handler)
    return out.getvalue()


@pytest.mark.parametrize("tracebacks", [True, False])
def test_no_error_forges_a_line_and_its_traceback_stays(*, tracebacks: bool) -> None:
    lines = of_ours(logged(tracebacks=tracebacks))
    assert sum(line.startswith("knowledge-forge: ") for line in lines) == 1
    assert any("RuntimeError: x" in line for line in lines)
    assert any("in logged" in line for line in lines) == tracebacks


def test_a_log_line_says_how_much_of_a_long_text_was_cut_and_keeps_its_end() -> None:
    long = "y" * 3_000_000
    told = logged(tracebacks=True, message=f"{long}%.0sthe end", raised=long)
    assert len(told) < LONGEST_REMARK + 2 * LONGEST_TRACEBACK
    assert "more characters]" in told
    assert told.splitlines()[0].endswith("the end")
