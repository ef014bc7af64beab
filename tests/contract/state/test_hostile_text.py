"""Text that databases reject or interpret: every store returns it unchanged, or all refuse it.

PostgreSQL is compared with the in-memory store and SQLite.
"""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from mcp import Client
from mcp.shared.exceptions import MCPError

from knowledge.state.ports import StateStore
from mcp_server.app.settings.settings import Settings
from tests.support.hosts.writers import let_in
from tests.support.knowledge_bases.folders import write
from tests.support.roads.road import connect, opened
from tests.support.state.ledgers import open_shared
from tests.support.state.postgres import PostgresServer

NOW = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)
TEXTS = {
    "NUL": "a\x00b",
    "SQL": "'; DROP TABLE forge.meta; --",
    "a dollar quote": "$$; DROP SCHEMA public CASCADE; $$",
    "placeholders": "%s %(name)s %% $1 ? :a {0} {s}",
    "a name in quotes": '"forge"."meta"',
    "backslashes": "\\x00 \\' \\u0000 E'\\n'",
    "JSON with an escape of NUL": '{"a": "\\u0000"}',
    "COPY's end": "\\.\n\\N",
    "line ends": "a\r\nb\u2028c\u0085d",
    "directions": "\u202eabc\u2066",
    "no character": "\ufffe\uffff\U0010ffff",
    "accents that join": "e\u0301" + "\u0301" * 500,
    "one megabyte": "x" * 1_000_000,
    "a megabyte of signs of four bytes": "\U0001f600" * 250_000,
}


def plain(text: str) -> str:
    """Return the text with placeholders for what no order is promised."""
    return re.sub(r"[0-9a-f]{8,}|\d{4}-\d\d-\d\dT[\d:.+Z-]+|/tmp/\S+", "*", text)


# --- stores -----------------------------------------------------------------------------------------------------------

Use = Callable[[StateStore, str], Awaitable[Any]]


async def enrolled(store: StateStore, text: str) -> Any:
    await store.enrol(text, b"digest", at=NOW)
    return [one.host for one in await store.enrolments()], await store.host_of(b"digest")


async def leased(store: StateStore, text: str) -> Any:
    lease = await store.acquire_lease(text, text, now=NOW, ttl_s=5)
    again = await store.lease(text)
    return lease and lease.holder, again and again.holder


async def trust_record(store: StateStore, text: str) -> Any:
    return await store.trust_record(text), list(await store.history(text, limit=3))


async def kept(store: StateStore, text: str) -> Any:
    await store.ledger.keep("a.md", text.encode("utf-8", "surrogatepass"), how="outside", at=NOW)
    return [line.revision for line in await store.ledger.history("a.md", limit=3)]


async def history(store: StateStore, text: str) -> Any:
    return list(await store.ledger.history(text, limit=3)), await store.ledger.content(text, text)


async def proposal(store: StateStore, text: str) -> Any:
    return await store.trust.proposal(text)


async def outbox_entry(store: StateStore, text: str) -> Any:
    return await store.outbox.outbox_entry(text), await store.outbox.outbox_entry_of(text)


USES: dict[str, Use] = {
    use.__name__: use for use in (enrolled, leased, trust_record, kept, history, proposal, outbox_entry)
}


async def outcome(store: StateStore, use: Use, text: str) -> Any:
    try:
        return await use(store, text)
    except Exception as error:  # noqa: BLE001 - which one is what is compared
        return type(error).__name__


@pytest.mark.parametrize("kind", TEXTS)
async def test_every_store_answers_the_same_and_continues(
    kind: str, tmp_path: Path, schema: str, postgres: PostgresServer
) -> None:
    from tests.support.state.memory.state import MemoryStateStore

    stores: list[StateStore] = [
        MemoryStateStore(),
        await open_shared(str(tmp_path), "kb"),
        await open_shared(postgres.url(), schema),
    ]
    try:
        for name, use in USES.items():
            memory, sqlite, ours = [await outcome(store, use, TEXTS[kind]) for store in stores]
            # A database refuses a text that it cannot store for good: this is neither an outage nor an unknown outcome.
            assert sqlite in (memory, "Unstorable"), name
            assert ours in (memory, "Unstorable"), name
            assert sqlite == ours or kind == "NUL" or "megabyte" in kind, name
        for store in stores:
            await store.enrol("desktop", b"other", at=NOW)
            assert await store.host_of(b"other") == "desktop"
    finally:
        for store in stores:
            await store.close()


# --- servers ----------------------------------------------------------------------------------------------------------

PAGES = {"a.md": "# A\n\nThe cap is 20 calls.\n", "_index.md": "# Home\n"}


@asynccontextmanager
async def server(folder: Path, **more: Any) -> AsyncIterator[Client]:
    settings = await let_in(
        Settings(kb=write(folder / "kb", PAGES), state_dir=folder / "state", **more), "desktop", level=4
    )
    async with opened(settings, indexing=False) as app, connect(app) as client:
        yield client


def calls(text: str) -> list[tuple[str, dict[str, Any]]]:
    """Return calls that bring a caller's text into a state database, as a search or as a value."""
    return [
        ("proposal_status", {"proposal_id": text}),
        ("proposal_withdraw", {"proposal_id": text}),
        ("kb_read", {"path": "a.md"}),
        ("kb_read", {"path": "a.md", "revision": text}),
        ("kb_history", {"path": text}),
        ("kb_history", {"path": "a.md", "cursor": text}),
        ("kb_revert", {"path": "a.md", "revision": text}),
        ("kb_delete", {"path": "a.md", "base_revision": text}),
        ("kb_contradictions", {"path": text}),
        ("kb_contradictions", {"cursor": text}),
        ("kb_merge", {"path": f"{text[:40]}.md", "content": "# New\n"}),
        (
            "kb_merge",
            {"path": "b.md", "content": f"# B\n\n{text}\n", "intent": text[:400], "source": f"code:{text[:200]}"},
        ),
        (
            "kb_merge",
            {"path": "c.md", "content": "# C\n\nIt is 5.\n", "corroboration": [text[:200]], "section": text[:200]},
        ),
        ("kb_history", {"path": "b.md"}),
        ("journey_start", {"agent": text[:200], "brief": "x"}),
        ("journey_start", {"agent": "research", "brief": text[:5_000]}),
        ("journey_start", {"agent": "research", "brief": "x", "inputs": {"fork_of": text[:200], "at_version": 2**70}}),
        ("journey_start", {"agent": "research", "brief": "x", "inputs": {text[:200]: text[:200]}}),
        ("journey_status", {"journey_id": text[:200]}),
        ("journey_list", {"state": None, "agent": text[:200]}),
        ("journey_list", {"cursor": text}),
        ("journey_submit", {"journey_id": text[:200], "version": 2**62, "work": {}}),
        ("journey_decide", {"journey_id": text[:200], "version": -(2**63), "decision": "cancel"}),
        ("agent_trace", {"run_id": text[:200]}),
        ("kb_search", {"query": text[:2_000], "cursor": text[:200]}),
        ("kb_read", {"path": "b.md", "section": text[:200]}),
        ("trust_status", {}),
    ]


async def answer(client: Client, tool: str, arguments: dict[str, Any]) -> tuple[str, str]:
    try:
        result = await client.call_tool(tool, arguments)
    except MCPError as error:
        return "protocol", plain(str(error))
    text = plain(result.content[0].text)  # type: ignore[union-attr]  # this program's content is text
    return "error" if result.is_error else "answer", text if result.is_error else str(
        sorted(result.structured_content or {})
    )


BROKEN = re.compile(r"crash|closed|database|not be used now|try again|outcome|unknown whether|internal", re.IGNORECASE)


@pytest.mark.security
@pytest.mark.parametrize("kind", TEXTS)
async def test_a_server_answers_the_same_on_every_database_and_continues(
    kind: str, tmp_path: Path, schema: str, postgres: PostgresServer
) -> None:
    async with AsyncExitStack() as stack:
        here = await stack.enter_async_context(server(tmp_path / "one"))
        there = await stack.enter_async_context(
            server(tmp_path / "two", database_url=postgres.url(), database_schema=schema)
        )
        for tool, arguments in calls(TEXTS[kind]):
            told = [await answer(client, tool, arguments) for client in (here, there)]
            assert told[0] == told[1], (tool, [*arguments])
            if told[0][0] != "answer":
                assert not BROKEN.search(told[0][1][:300]), (tool, told[0][1][:300])
