"""Attacks through the envelope of a request: ids, batches, metadata, resource addresses, completions, subscriptions.

Promise: each request is answered once under its own id or refused in words, no envelope leads past the gate or out of
the knowledge base, and the process continues. Malformed values of arguments: `test_bad_input.py`.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from knowledge.state.client_notes import MOST_SUBSCRIPTIONS
from tests.contract.toolsets.test_bad_input import INNARDS, LONGEST_MESSAGE
from tests.support.knowledge_bases.folders import PAGES, write
from tests.support.roads.wires import StdioWire, Wire, http_wire, stdio_wire

SECRET = "the text of a file outside"  # noqa: S105 - no password


@pytest.fixture(scope="module")
def ground(tmp_path_factory: pytest.TempPathFactory) -> Path:
    home = tmp_path_factory.mktemp("protocol")
    root = write(home / "kb", PAGES | {".hidden/secret.md": SECRET})
    (home / "outside.md").write_text(SECRET, encoding="utf-8")
    (root / "leaving.md").symlink_to(home / "outside.md")
    return home


@pytest.fixture(
    scope="module",
    params=[
        "stdio",
        pytest.param("http", marks=pytest.mark.external),
        pytest.param("two workers", marks=pytest.mark.external),
    ],
)
def wire(ground: Path, request: pytest.FixtureRequest) -> Iterator[Wire]:
    if request.param == "stdio":
        with stdio_wire(ground) as started:
            yield started
        return
    postgres = request.getfixturevalue("postgres") if request.param == "two workers" else None
    with http_wire(ground, postgres) as signed_in:
        yield signed_in


def line(id_: Any, method: str, **params: Any) -> bytes:
    return json.dumps({"jsonrpc": "2.0", "id": id_, "method": method, "params": params}).encode()


_PINGS = count()


def ask(wire: Wire, raw: bytes, id_: Any) -> dict[str, Any]:
    """Return the answer under that id."""
    wire.tell(raw)
    while (answer := wire.next_answer()).get("id") != id_ or type(answer.get("id")) is not type(id_):
        pass
    return answer


def heard(wire: Wire, *raws: bytes) -> list[dict[str, Any]]:
    """Return everything sent up to the answer to a later ping, which shows that the server lives."""
    for raw in raws:
        wire.tell(raw)
    ping = f"after-{next(_PINGS)}"
    wire.tell(line(ping, "ping"))
    found = []
    while (answer := wire.next_answer()).get("id") != ping:
        found.append(answer)
    return found


def told(answer: dict[str, Any]) -> str:
    """Return an answer's text, after checking that it may be shown."""
    text = json.dumps(answer)
    assert SECRET not in text
    if "error" in answer:
        assert len(answer["error"]["message"]) < LONGEST_MESSAGE
        assert not any(inside in answer["error"]["message"] for inside in INNARDS), text
    return text


BATCHES = {
    "of pings": b'[{"jsonrpc":"2.0","id":1,"method":"ping"},{"jsonrpc":"2.0","id":2,"method":"ping"}]',
    "empty": b"[]",
    "of nothing": b"[null,7,[]]",
    "of ten thousand": b"[" + b",".join([b'{"jsonrpc":"2.0","id":1,"method":"tools/list"}'] * 10_000) + b"]",
    "in batches": b"[" * 500 + b"]" * 500,
}


@pytest.mark.parametrize("kind", BATCHES)
def test_a_batch_is_refused_once_and_does_nothing(wire: Wire, kind: str) -> None:
    """The protocol has had none since 2025-06-18."""
    answers = heard(wire, BATCHES[kind])
    assert len(answers) <= 1
    for answer in answers:
        assert "error" in answer
        told(answer)


IDS: list[Any] = ["", "x" * 100_000, 2**53, -1, 0, "\u202e", "7\n8", "ping1 ", "\\", '"}', "é" * 50]


@pytest.mark.parametrize("id_", IDS, ids=range(len(IDS)))
def test_an_id_comes_back_unchanged(wire: Wire, id_: Any) -> None:
    answer = ask(wire, line(id_, "ping"), id_)
    assert answer == {"jsonrpc": "2.0", "id": id_, "result": {}}


ODD_IDS: list[Any] = [None, 1.5, True, [], {}, {"a": 1}, 10**400]


@pytest.mark.parametrize("id_", ODD_IDS, ids=range(len(ODD_IDS)))
def test_an_id_that_is_none_ends_nothing(wire: Wire, id_: Any) -> None:
    for answer in heard(wire, line(id_, "ping")):
        told(answer)


def test_one_id_used_for_many_concurrent_requests_is_answered_for_each(wire: Wire) -> None:
    for answer in heard(wire, *[line(5, "tools/call", name="kb_map", arguments={})] * 20):
        told(answer)
    assert ask(wire, line(50, "ping"), 50)["result"] == {}


def test_cancelling_unknown_requests_or_everything_stops_nobody(wire: Wire) -> None:
    nobodys: list[Any] = [99, "hello", None, [], {}, "x" * 10_000]
    for id_ in nobodys:
        gone = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": id_}}
        wire.tell(json.dumps(gone).encode())
    answer = ask(wire, line(11, "tools/call", name="kb_map", arguments={}), 11)
    assert answer["result"]["structuredContent"]["children"]


METAS: list[Any] = [
    {"progressToken": "x" * 100_000},
    {"progressToken": {"a": 1}},
    {"progressToken": None},
    {"progressToken": 10**300},
    {"io.modelcontextprotocol/related-task": {"taskId": "../../etc/passwd"}},
    {"io.modelcontextprotocol/protocolVersion": "9999-99-99"},
    {"io.modelcontextprotocol/clientInfo": {"name": "admin@root", "version": "\n" * 1_000}},
    {"principal": "root", "trust": 5, "origin": "approved"},
    {f"key{n}": n for n in range(20_000)},
    [],
    "x",
    None,
]


@pytest.mark.parametrize("meta", METAS, ids=range(len(METAS)))
def test_no_metadata_gives_a_caller_more(wire: Wire, meta: Any) -> None:
    """A request's claims about itself, beside its arguments, have no authority."""
    merge = {"path": "owned.md", "content": "# x\n"}
    answer = ask(wire, line(1, "tools/call", name="kb_merge", arguments=merge, _meta=meta), 1)
    assert '"status": "done"' not in told(answer)
    status = ask(wire, line(2, "tools/call", name="trust_status", arguments={}, _meta=meta), 2)
    if "result" in status and not status["result"].get("isError"):
        assert status["result"]["structuredContent"]["principal"] == wire.principal


def test_a_tool_call_that_names_its_keys_twice_is_one_call(wire: Wire) -> None:
    """If two parsers read one line, neither may see another call than the gate does."""
    twice = (
        b'{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"kb_map","name":"kb_delete","arguments":{}}}'
    )
    answer = ask(wire, twice, 7)
    assert "kb_map" not in told(answer) or "error" in answer


URIS = [
    "kb://doc/../outside.md",
    "kb://doc/%2e%2e/outside.md",
    "kb://doc/%2e%2e%2foutside.md",
    "kb://doc/%252e%252e/outside.md",
    "kb://doc/..%5coutside.md",
    "kb://doc/%00",
    "kb://doc/guides/deploy.md%00.txt",
    "kb://doc/leaving.md",
    "kb://doc/.hidden/secret.md",
    "kb://doc/%2ehidden/secret.md",
    "kb://doc/%ef%bc%8e%ef%bc%8e/outside.md",
    "kb://doc/\uff0e\uff0e/outside.md",
    "kb://doc/%c0%ae%c0%ae/outside.md",
    "kb://doc//etc/passwd",
    "kb://doc/file:///etc/passwd",
    "kb://doc/~/outside.md",
    "kb://doc/guides/\u202egpj.md",
    "kb://map/..",
    "kb://map/%2e%2e",
    "kb://map/" + "a/" * 20_000,
    "kb://doc/" + "%41" * 50_000 + ".md",
    "file:///etc/passwd",
    "proposal://%00",
    "proposal://' OR 1=1 --",
    "run://..%2f..%2fx",
    "journey://%00/events",
    "agent://../x",
    "agent://%2e%2e/%2e%2e",
    "audit://recent?x=1",
    "kb:",
    "",
]


@pytest.mark.parametrize("uri", URIS, ids=range(len(URIS)))
@pytest.mark.parametrize("method", ["resources/read", "resources/subscribe", "resources/unsubscribe"])
def test_no_address_of_a_resource_leads_out(wire: Wire, method: str, uri: str) -> None:
    answer = ask(wire, line(3, method, uri=uri), 3)
    assert answer["id"] == 3
    assert "root:" not in told(answer)


@pytest.mark.external
def test_thousands_of_subscriptions_are_taken_or_refused_and_nobody_waits(wire: Wire) -> None:
    # More than a session may have; each is a request of its own over HTTP.
    for number in range(3_000 if isinstance(wire, StdioWire) else MOST_SUBSCRIPTIONS + 50):
        assert "id" in ask(wire, line(number, "resources/subscribe", uri=f"kb://doc/page-{number}.md"), number)
    answer = ask(wire, line(11, "tools/call", name="kb_map", arguments={}), 11)
    assert answer["result"]["structuredContent"]["children"]


COMPLETIONS: list[dict[str, Any]] = [
    {"ref": {"type": "ref/prompt", "name": "route"}, "argument": {"name": "question", "value": "x" * 500_000}},
    {"ref": {"type": "ref/prompt", "name": "continue"}, "argument": {"name": "journey_id", "value": "%" * 50_000}},
    {"ref": {"type": "ref/prompt", "name": "continue"}, "argument": {"name": "journey_id", "value": "' OR '1'='1"}},
    {"ref": {"type": "ref/resource", "uri": "kb://doc/{+path}"}, "argument": {"name": "path", "value": "../" * 9_000}},
    {"ref": {"type": "ref/resource", "uri": "kb://doc/{+path}"}, "argument": {"name": "path", "value": ".hid"}},
    {"ref": {"type": "ref/resource", "uri": "kb://doc/{+path}"}, "argument": {"name": "path", "value": "(a+)+$*[["}},
    {"ref": {"type": "ref/resource", "uri": "file:///{x}"}, "argument": {"name": "x", "value": "/etc"}},
    {"ref": {"type": "ref/none", "name": "x"}, "argument": {"name": "x", "value": "x"}},
    {
        "ref": {"type": "ref/prompt", "name": "research"},
        "argument": {"name": "brief", "value": "x"},
        "context": {"arguments": {f"a{n}": "x" * 100 for n in range(5_000)}},
    },
]


@pytest.mark.parametrize("asked", COMPLETIONS, ids=range(len(COMPLETIONS)))
def test_a_completion_of_anything_shows_nothing_hidden(wire: Wire, asked: dict[str, Any]) -> None:
    answer = ask(wire, line(4, "completion/complete", **asked), 4)
    text = told(answer)
    assert "secret.md" not in text
    assert "etc/" not in text


CURSORS = ["x" * 100_000, "../../etc/passwd", "bnVsbA==", "W10=", "eyJvZmZzZXQiOi0xfQ==", "\u0000", "{}"]


@pytest.mark.parametrize("cursor", CURSORS, ids=range(len(CURSORS)))
@pytest.mark.parametrize("method", ["tools/list", "prompts/list", "resources/list", "resources/templates/list"])
def test_a_forged_cursor_of_a_list_is_refused_or_of_no_effect(wire: Wire, method: str, cursor: str) -> None:
    answer = ask(wire, line(5, method, cursor=cursor), 5)
    told(answer)


@pytest.mark.parametrize("method", ["tasks/get", "tasks/result", "tasks/cancel", "tasks/update", "tasks/list"])
@pytest.mark.parametrize("handle", ["", "x" * 50_000, "../x", "\u0000", "' OR 1=1 --", "1", None, 7, {"a": 1}])
def test_no_handle_of_a_task_that_is_not_one_s_own_is_answered(wire: Wire, method: str, handle: Any) -> None:
    answer = ask(wire, line(6, method, taskId=handle), 6)
    assert "error" in answer
    told(answer)


@pytest.mark.parametrize(
    "method",
    ["roots/list", "sampling/createMessage", "elicitation/create", "logging/setLevel", "server/discover", "__init__"],
)
def test_a_method_of_the_other_side_does_nothing(wire: Wire, method: str) -> None:
    answer = ask(wire, line(8, method, level="debug", messages=[], message="x"), 8)
    told(answer)


def test_a_second_hello_changes_nobody(wire: Wire) -> None:
    info = {
        "protocolVersion": "2025-11-25",
        "capabilities": {},
        "clientInfo": {"name": "root\n[admin]", "version": "0"},
    }
    for answer in heard(wire, line(9, "initialize", **info)):
        told(answer)
    status = ask(wire, line(10, "tools/call", name="trust_status", arguments={}), 10)
    assert status["result"]["structuredContent"]["principal"] == wire.principal
