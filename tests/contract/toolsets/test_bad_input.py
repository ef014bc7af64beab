"""Whatever a client sends, it gets an answer or one short sentence: wrong paths, types, cursors, questions and bytes."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import pytest
from mcp import Client
from mcp.shared.exceptions import MCPError
from mcp_types import INVALID_PARAMS, CallToolResult, ResourceTemplateReference, TextContent

from mcp_server.app.composition import App
from mcp_server.app.settings.settings import Settings
from mcp_server.protocol.wire_errors import without_surrogates
from tests.support.hosts.writers import let_in
from tests.support.knowledge_bases.folders import write
from tests.support.roads.road import connect, opened, over_http
from tests.support.roads.wires import Wire, wire_over

pytestmark = pytest.mark.security

ROOT = Path(__file__).parents[3]
SECRET = "orichalcum"  # noqa: S105  a word that must not be found, no password
LONGEST_MESSAGE = 300
INNARDS = (
    "pydantic",
    "http://",
    "https://",
    "Traceback",
    "object at 0x",
    "validation error",
    "Exception",
    "Errno",
    "NoneType",
    "<class",
    'File "',
    "failed inside",
    "codec",
    "tantivy",
    "apsw",
)
PATHS_NOWHERE = (
    "..",
    "../..",
    "../secret.md",
    "./../secret.md",
    "guides/../../secret.md",
    "guides/deploy.md/../../../secret.md",
    "/etc/passwd",
    "//etc/passwd",
    "\\\\server\\share\\secret.md",
    "..\\secret.md",
    "guides\\..\\..\\secret.md",
    "C:\\secret.md",
    "C:/secret.md",
    "c:",
    "file:///etc/passwd",
    "~/secret.md",
    "$HOME/secret.md",
    "%2e%2e/secret.md",
    "..%2fsecret.md",
    "\uff0e\uff0e/secret.md",
    "\x00",
    "guides/deploy.md\x00",
    "guides/\ndeploy.md",
    "guides/\x1b[31mdeploy.md",
    ".obsidian/secret.md",
    "guides/.secret.md",
    ".",
    "node_modules/secret.md",
    "leaving.md",
    "leaving/secret.md",
    "to_hidden.md",
    "x" * 1025,
    "x" * 1024,
    "x/" * 500,
    "\u202emd.yolped",
    "\ud800.md",
    "guides/deploy.md/below.md",
    "guides/deploy.md/",
)
THE_ROOT, A_PAGE = ".", "guides/deploy.md/"
"""Accepted spellings: these two exist after all."""

QUERIES = (
    "x" * 20_000,
    " ".join(f"word{n}" for n in range(2_000)),
    "a " * 9_999,
    "(" * 3_000,
    '"' * 101,
    "*" * 500,
    "AND OR NOT",
    '+-&|!(){}[]^"~*?:\\/',
    "path:guides AND title:[a TO z]",
    "'; DROP TABLE chunk; --",
    "% _ [a-z] {1,2}",
    "\\",
    "-",
    "\u05e9\u05dc\u05d5\u05dd \u05e2\u05d5\u05dc\u05dd",
    "\u0645\u0631\u062d\u0628\u0627 \u0628\u0627\u0644\u0639\u0627\u0644\u0645",
    "\u77e5\u8b58\u30d9\u30fc\u30b9\u3092\u7d71\u5408\u3059\u308b",
    "\U0001f680\U0001f469\u200d\U0001f469\u200d\U0001f467",
    "\u202edeploy\u202c",
    "\x00\x01\x1b[31m\x7f",
    "e\u0301" * 2_000,
    "\u0301" * 500,
    "\ufeff",
    "\u200b",
    "\uffff\ufffe",
    "\U000e0001",
    "0",
    "1e400",
    "\u0660\u0661\u0662",
    "\ufdfa" * 500,
    "\ud800 deploy",
)
SLOWEST_QUERY_S = 10.0

VALUES: tuple[Any, ...] = (
    None,
    True,
    -1,
    0,
    2**63,
    -(2**63) - 1,
    10**400,
    1.5,
    1e308,
    "",
    "x",
    "\ud800",
    "[]",
    '{"tags": ["x"]}',
    "[" * 5_000,
    [],
    ["x"],
    [[["x"]]],
    [None],
    {},
    {"a": {"b": []}},
    {"": 0},
    {"x" * 5_000: "x" * 5_000},
)


@asynccontextmanager
async def serving(folder: Path) -> AsyncIterator[Client]:
    settings = Settings(kb=folder / "kb", state_dir=folder / "state")
    async with opened(await let_in(settings, level=2) if over_http() else settings) as app:
        await indexed(app)
        async with connect(app) as client:
            yield client


async def indexed(app: App) -> None:
    with anyio.fail_after(60):
        while not ((p := await app.base.index.progress()).done >= p.total > 0):  # noqa: ASYNC110  the index has no bell
            await anyio.sleep(0.02)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Make a knowledge base with secrets around it and hidden in it."""
    root = write(tmp_path / "kb")
    for place in ("../secret.md", ".obsidian/secret.md", "guides/.secret.md", "node_modules/secret.md"):
        (root / place).parent.mkdir(exist_ok=True)
        (root / place).write_text(f"# Secret\n\n{SECRET} is its name.\n", encoding="utf-8")
    (root / "leaving.md").symlink_to(tmp_path / "secret.md")
    (root / "leaving").symlink_to(tmp_path)
    (root / "to_hidden.md").symlink_to(root / ".obsidian" / "secret.md")
    return tmp_path


def decent(message: str, folder: Path) -> str:
    """Return `message`, after checking that a model or a person may see it."""
    assert 10 < len(message) < LONGEST_MESSAGE, message
    for inside in (*INNARDS, SECRET, str(ROOT), sys.prefix, str(folder)):
        assert inside not in message, message
    return message


def sent(value: Any) -> Any:
    """Return a value as a client can send it: over HTTP the SDK's can't encode lone surrogates, which the last test here sends."""
    return without_surrogates(value) if over_http() else value


async def told(client: Client, folder: Path, tool: str, **arguments: Any) -> str | None:
    """Return the error's sentence; None for an answer, which must be valid JSON."""
    result = await client.call_tool(tool, sent(arguments))
    assert isinstance(result, CallToolResult)
    assert isinstance(result.content[0], TextContent)
    text = result.content[0].text
    if result.is_error:
        return decent(text, folder)
    assert SECRET not in text
    json.dumps(result.structured_content, allow_nan=False).encode()
    return None


async def refused(client: Client, folder: Path, uri: str) -> str | None:
    """Return the refusal's sentence, None if the address is readable."""
    try:
        read = await client.read_resource(uri)
    except MCPError as error:
        assert error.error.code == INVALID_PARAMS  # noqa: PT017  being readable is an outcome as well
        return decent(error.error.message, folder)
    assert SECRET not in str(read)
    return None


async def test_a_path_that_leads_nowhere_is_refused_wherever_a_path_is_taken(folder: Path) -> None:
    """`..` and absolute paths, links that leave, dot folders."""
    async with serving(folder) as client:
        for path in PATHS_NOWHERE:
            for tool, arguments in (
                ("kb_read", {"path": path}),
                ("kb_map", {"path": path}),
                ("kb_search", {"query": "deploy", "path": path}),
            ):
                somewhere = (path == THE_ROOT and tool != "kb_read") or (path == A_PAGE and tool != "kb_map")
                sentence = await told(client, folder, tool, **arguments)
                assert (sentence is None) is (somewhere or path == THE_ROOT), (tool, path, sentence)


async def test_an_address_that_leads_nowhere_is_refused(folder: Path) -> None:
    async with serving(folder) as client:
        for path in PATHS_NOWHERE:
            if path in (THE_ROOT, A_PAGE) or "\ud800" in path:
                continue
            for uri in (f"kb://doc/{path}", f"kb://map/{path}"):
                assert await refused(client, folder, uri), uri
        for uri in ("kb://doc", "kb://", "kb:", "kb://doc?x", "kb://doc/a?b=c", "file:///etc/passwd", "x" * 5_000, ""):
            assert await refused(client, folder, uri), uri


async def test_completion_of_any_text_shows_only_existing_things(folder: Path) -> None:
    async with serving(folder) as client:
        for template in ("kb://doc/{+path}", "kb://map/{+path}"):
            ref = ResourceTemplateReference(type="ref/resource", uri=template)
            for typed in (*PATHS_NOWHERE, *QUERIES):
                found = (await client.complete(ref, {"name": "path", "value": sent(typed)})).completion.values
                assert all("secret" not in value and ".." not in value for value in found)


SOUND = {
    "query": "deploy",
    "path": "guides/deploy.md",
    "content": "Text.",
    "to": "guides/release.md",
    "base_revision": "0123456789abcdef",
    "revision": "0123456789abcdef",
    "proposal_id": "p-0123456789abcdef0123",
    "agent": "research",
    "brief": "Why do deployments wait?",
    "journey_id": "research-01234567",
    "contradiction_id": 1,
    "reason": "two products",
    "version": 1,
    "work": {},
    "decision": "answer",
}


async def test_a_wrong_value_anywhere_is_answered_or_named(folder: Path) -> None:
    """Wrong arguments are a clean, short, typed error."""
    async with serving(folder) as client:
        for tool in (await client.list_tools()).tools:
            schema = tool.input_schema
            sound: dict[str, Any] = {name: SOUND[name] for name in schema.get("required", [])}
            for name, wanted in schema.get("properties", {}).items():
                for value in VALUES:
                    sentence = await told(client, folder, tool.name, **{**sound, name: value})
                    if not fits(value, wanted.get("type", "string")):
                        assert sentence, (tool.name, name, value)
                        assert name in sentence
            for name in ("magic", "", "x" * 5_000, "\ud800", "self", "__class__"):
                assert "no argument" in str(await told(client, folder, tool.name, **{**sound, name: 1}))


def fits(value: Any, kind: str) -> bool:
    """Return whether `value` is accepted for that JSON type; whole floats and JSON in text are, and null may be."""
    if value is None:
        return True
    if kind in ("object", "array") and isinstance(value, str):
        return value.startswith("{" if kind == "object" else "[]")
    types: dict[str, Any] = {
        "string": str,
        "integer": int,
        "number": int | float,
        "boolean": bool,
        "array": list,
        "object": dict,
    }
    if kind == "integer" and isinstance(value, float):
        return value.is_integer()
    return isinstance(value, types[kind]) and (kind == "boolean" or not isinstance(value, bool))


async def test_wrong_filters_are_named(folder: Path) -> None:
    deep: dict[str, Any] = {}
    for _ in range(60):
        deep = {"tags": deep}
    async with serving(folder) as client:
        wrong: tuple[dict[str, Any], ...] = (
            {"tags": "deploy"},
            {"tags": [1]},
            {"tags": deep},
            {"tags": {}},
            deep,
            {"kind": ["guide"]},
            {"source": 7},
            {"modified_after": "yesterday"},
            {"modified_after": "0000-00-00"},
            {"modified_before": 20260101},
            {"modified_after": "9" * 400},
            {"modified_after": "2026-01-01T00:00:00+99:99"},
            {"colour": "red", "taste": 1, "x" * 900: 2, "y": 3, "z": 4, "tags": 5},
        )
        for filters in wrong:
            assert await told(client, folder, "kb_search", query="deploy", filters=filters), filters
        odd: tuple[dict[str, Any], ...] = (
            {"modified_after": "0001-01-01", "modified_before": "9999-12-31T23:59:59-23:59"},
            {"modified_after": "0001-01-01T00:00:00+23:59"},
            {"tags": ["x" * 9_000, "", "#", "\x00", "\ud800"], "kind": "", "source": "\ud800:"},
            {"tags": [str(n) for n in range(5_000)]},
        )
        for filters in odd:
            await told(client, folder, "kb_search", query="deploy", filters=filters)


async def test_any_question_is_answered_in_time(folder: Path) -> None:
    """Queries 100 kB long, full of operators or quotes, in any script."""
    async with serving(folder) as client:
        for query in QUERIES:
            for path in (None, "guides"):
                began = time.perf_counter()
                assert await told(client, folder, "kb_search", query=query, path=path) is None, query[:40]
                assert time.perf_counter() - began < SLOWEST_QUERY_S, query[:40]
            prompt = await client.get_prompt("route", {"question": sent(query)})
            assert prompt.messages
        for query in ("", " ", "\n\t\u3000", "x" * 100_000):
            assert await told(client, folder, "kb_search", query=query)
            await client.get_prompt("route", {"question": sent(query)})


async def test_a_section_a_revision_and_an_offset_of_nowhere_are_answered(folder: Path) -> None:
    many = "\n".join(f"# {'Very long heading of part ' * 10}{n}\n\ntext\n" for n in range(50))
    write(folder / "kb", {"many.md": many, "one/same name.md": "x", "two/same name.md": "y"})
    for n in range(12):
        write(folder / "kb", {f"{'deep folder name/' * 8}{n}/twin page.md": "z"})
    async with serving(folder) as client:
        for page in ("guides/deploy.md", "many.md"):
            for section in ("nowhere", "x" * 9_000, " > ", ">", "#", "\x00", "\ud800", "Secrets > Secrets"):
                assert await told(client, folder, "kb_read", path=page, section=section), section
            for revision in ("", "x" * 9_000, "\ud800", "0" * 16):
                assert await told(client, folder, "kb_read", path=page, revision=revision), revision
            for offset in (10**6, 2**53 - 1):
                assert await told(client, folder, "kb_read", path=page, offset=offset) is None
            for offset in (2**63, 10**300):
                assert "'offset' must lie within" in str(
                    await told(client, folder, "kb_read", path=page, offset=offset)
                )
        assert await told(client, folder, "kb_read", path="twin page")
        assert await told(client, folder, "kb_read", path="twin pag")
        assert await told(client, folder, "kb_read", path="same name")


async def test_only_the_query_that_got_a_cursor_can_use_it(folder: Path) -> None:
    async with serving(folder) as client:
        asked: dict[str, Any] = {"query": "sentence about gardening", "limit": 2}
        result = await client.call_tool("kb_search", asked)
        assert isinstance(result, CallToolResult)
        assert result.structured_content is not None
        cursor = result.structured_content["next_cursor"]
        assert await told(client, folder, "kb_search", **asked, cursor=cursor) is None
        for other in (
            {"query": "gardening"},
            {"path": "guides"},
            {"mode": "discovery"},
            {"filters": {"kind": "guide"}},
        ):
            assert "cursor" in str(await told(client, folder, "kb_search", **{**asked, **other}, cursor=cursor)), other
        for bad in (
            cursor[:-3],
            cursor[::-1],
            "=",
            "====",
            "\u00e9",
            "\ud800",
            "WyI",
            "W" * 100_000,
            "bnVsbA",
            "MWU0MDA",
        ):
            assert "cursor" in str(await told(client, folder, "kb_search", **asked, cursor=bad)), bad[:20]


# --- bytes on the wire ------------------------------------------------------------------------------------------------


@pytest.fixture
def wire(folder: Path, road: str) -> Iterator[Wire]:
    with wire_over(road, folder) as started:
        yield started


def calling(arguments: str, tool: str = "kb_search") -> bytes:
    return f'{{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{{"name":"{tool}","arguments":{arguments}}}}}'.encode()


MALFORMED = (
    calling('{"query":"\\ud800"}'),
    calling('{"query":"\\ud83d\\ude80 \\udc00"}'),
    calling('{"query":"deploy","path":"\\ud800.md"}'),
    calling('{"path":"\\ud800"}', "kb_read"),
    calling('{"path":"guides/deploy.md\\u0000"}', "kb_read"),
    calling('{"query":"\xff\xfe"}').replace(b"\xc3\xbf", b"\xff"),
    calling('{"query":"x","limit":NaN}'),
    calling('{"query":"x","limit":Infinity}'),
    calling('{"query":"x","limit":1e400}'),
    calling('{"query":"x","limit":1e999999999}'),
    calling('{"query":"x","limit":-0}'),
    calling('{"query":"x","limit":' + "9" * 5_000 + "}"),
    calling('{"query":"x","limit":0x10}'),
    calling('{"query":"x","filters":' + '{"tags":' * 5_000 + "1" + "}" * 5_000 + "}"),
    calling('{"query":"x","filters":{"tags":' + "[" * 150 + "]" * 150 + "}}"),
    calling('{"query":"x","query":"y"}'),
    calling("null"),
    calling("[]"),
    calling('"query"'),
    calling("7"),
    calling("{}", "\\ud800"),
    calling("{}", "x" * 10_000),
    b'{"jsonrpc":"2.0","id":7,"method":"tools/call"}',
    b'{"jsonrpc":"2.0","id":7,"method":"tools/call","params":[]}',
    b'{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":7}}',
    b'{"jsonrpc":"2.0","id":7,"method":"resources/read","params":{"uri":"kb://doc/\\ud800.md"}}',
    b'{"jsonrpc":"2.0","id":7,"method":"resources/read","params":{"uri":7}}',
    b'{"jsonrpc":"2.0","id":7,"method":"prompts/get","params":{"name":"route","arguments":{"question":7}}}',
    b'{"jsonrpc":"2.0","id":7,"method":"prompts/get","params":{"name":"route","arguments":{"question":"\\ud800"}}}',
    b'{"jsonrpc":"2.0","id":7,"method":"magic/none","params":{}}',
    b'{"jsonrpc":"2.0","id":7,"method":7}',
    b'{"jsonrpc":"1.0","id":7,"method":"ping"}',
)


def test_bytes_that_no_client_should_send_are_answered_under_their_id_and_the_server_lives(wire: Wire) -> None:
    """JSON-RPC: a request is answered, or its sender waits forever."""
    for line in MALFORMED:
        (answer,) = wire.answers(line)
        assert answer["id"] == 7, line
        if "error" in answer:
            told = answer["error"]["message"]
            assert len(told) < LONGEST_MESSAGE
            assert not any(inside in told for inside in INNARDS), told
    for nothing in (b"", b"  \r"):
        wire.tell(nothing)
    *about_nothing, answer = wire.answers(b'{"jsonrpc":"2.0","id":7,"method":"ping"}')
    assert answer == {"jsonrpc": "2.0", "id": 7, "result": {}}
    assert all(one["id"] is None for one in about_nothing)  # over stdio there are none, over HTTP each request has one
    (unknown,) = wire.answers(b"{not json")
    assert unknown["id"] is None
