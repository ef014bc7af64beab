"""Sessions of the 2025 protocol whose requests land in any process: the MCP specification, transports, session management."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import anyio
import httpx
import pytest
from mcp import Client
from mcp.client.streamable_http import streamable_http_client
from mcp_types import InitializeRequestParams, ResourceUpdatedNotification

from knowledge.state.client_notes import KEPT, MOST_SUBSCRIPTIONS, TOPIC, ClientNotes
from mcp_server.app.knowledge_base import open_state, utc_now
from mcp_server.app.settings.settings import Settings
from mcp_server.app.settings.values import HttpAddress
from mcp_server.gate.host_registration import Principal, enrol, os_user
from mcp_server.gate.trust.scores import grant
from mcp_server.transport.sessions.session_ids import SessionIds
from tests.contract.gate.test_trust_gradient import Forms
from tests.contract.transport.test_http import HEADERS, HELLO
from tests.support.hosts.spread import spread_over, two_servers
from tests.support.hosts.writers import allow_forms
from tests.support.knowledge_bases.folders import write
from tests.support.state.postgres import on_database

PAGE, TEXT = "page.md", "# Page\n\nFirst.\n"
READY = {"jsonrpc": "2.0", "method": "notifications/initialized"}
SOON_S = 60.0


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return Settings(kb=write(tmp_path / "kb", {PAGE: TEXT}), state_dir=tmp_path / "state", open_browser=False)


async def host(settings: Settings, name: str = "host", level: float = 2) -> str:
    async with open_state(settings) as state:
        secret = await enrol(state, name, now=utc_now())
        await allow_forms(state, name)
        await grant(state, Principal(os_user(), name).id, level, by="ann", now=utc_now())
    return secret


def asking(method: str, params: dict[str, Any], number: int | str = 2) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": number, "method": method, "params": params}


def tool(name: str, number: int | str = 2, **arguments: object) -> dict[str, Any]:
    return asking("tools/call", {"name": name, "arguments": arguments}, number)


@dataclass(frozen=True)
class ByHand:
    """A client that chooses the server of each request."""

    http: httpx.AsyncClient
    urls: list[str]
    headers: dict[str, str]

    async def post(self, server: int, message: dict[str, Any]) -> httpx.Response:
        return await self.http.post(self.urls[server], json=message, headers=self.headers)

    async def result(self, server: int, message: dict[str, Any]) -> dict[str, Any]:
        return dict(last_message(await self.post(server, message))["result"])

    @asynccontextmanager
    async def sent(self, server: int, message: dict[str, Any] | None = None) -> AsyncIterator[Messages]:
        """Send the message, or without one open the stream of events, and yield what arrives."""
        method = "GET" if message is None else "POST"
        async with self.http.stream(method, self.urls[server], json=message, headers=self.headers) as answer:
            assert answer.status_code == 200
            yield Messages(answer)


class Messages:
    """The messages of a stream of events, as they arrive."""

    def __init__(self, answer: httpx.Response) -> None:
        self._lines = answer.aiter_lines()

    async def next(self) -> dict[str, Any] | None:
        """Return the next message, None at the end of the stream."""
        with anyio.fail_after(SOON_S):
            async for line in self._lines:
                if line.startswith("data:") and line != "data:":
                    return dict(json.loads(line.removeprefix("data:")))
        return None


def last_message(answer: httpx.Response) -> dict[str, Any]:
    assert answer.status_code == 200, answer.text
    lines = [line.removeprefix("data:") for line in answer.text.splitlines() if line.startswith("data:")]
    return dict(json.loads(lines[-1]))


@asynccontextmanager
async def by_hand(
    servers: list[HttpAddress], token: str | None = None, can: dict[str, Any] | None = None
) -> AsyncIterator[ByHand]:
    """Begin a session at the first server."""
    headers = {**HEADERS, "mcp-protocol-version": "2025-11-25"}
    headers |= {"authorization": f"Bearer {token}"} if token else {}
    async with httpx.AsyncClient(timeout=SOON_S) as http:
        urls = [f"http://{server}/mcp" for server in servers]
        hello = {**HELLO, "params": {**HELLO["params"], "capabilities": can or {}}}  # type: ignore[dict-item]
        answer = await http.post(urls[0], json=hello, headers=headers)
        yield ByHand(http, urls, {**headers, "mcp-session-id": answer.headers["mcp-session-id"]})


async def test_a_client_whose_requests_land_anywhere_reads_writes_and_is_asked(settings: Settings) -> None:
    secret, forms = await host(settings), Forms()
    async with two_servers(settings) as servers, spread_over(servers, secret) as http:
        wire = streamable_http_client("http://127.0.0.1:1/mcp", http_client=http)
        async with Client(wire, mode="legacy", elicitation_callback=forms) as client:
            for line in ("One.", "Two."):
                read = dict((await client.call_tool("kb_read", {"path": PAGE})).structured_content or {})
                changed = {"path": PAGE, "content": f"{read['text']}\n{line}\n", "base_revision": read["revision"]}
                done = await client.call_tool("kb_merge", changed)
                assert dict(done.structured_content or {})["status"] == "done", done.content
    assert len(forms.seen) == 2
    assert "Two." in (settings.kb / PAGE).read_text(encoding="utf-8")


async def test_an_answer_to_a_form_reaches_the_process_that_asked_and_counts_once(settings: Settings) -> None:
    secret = await host(settings)
    async with two_servers(settings) as servers, by_hand(servers, secret, {"elicitation": {}}) as client:
        base = (await client.result(1, tool("kb_read", path=PAGE)))["structuredContent"]["revision"]
        call = tool("kb_merge", 7, path=PAGE, content=f"{TEXT}\nAgreed.\n", base_revision=base)
        async with client.sent(0, call) as messages:
            asked = await messages.next()
            assert asked is not None
            assert asked["method"] == "elicitation/create"
            answer = {"action": "accept", "content": {"decision": "approve"}}
            other = {"jsonrpc": "2.0", "id": asked["id"], "result": {"action": "decline"}}
            for message in ({"jsonrpc": "2.0", "id": asked["id"], "result": answer}, other, {**other, "id": "unasked"}):
                assert (await client.post(1, message)).status_code == 202
            done = await messages.next()
        assert done is not None
        assert done["id"] == 7
        assert done["result"]["structuredContent"]["status"] == "done"


async def test_nobody_else_can_answer_a_form(settings: Settings) -> None:
    secret, other = await host(settings), await host(settings, "other")
    async with (
        two_servers(settings) as servers,
        by_hand(servers, secret, {"elicitation": {}}) as client,
        by_hand(servers, other, {"elicitation": {}}) as stranger,
    ):
        base = (await client.result(0, tool("kb_read", path=PAGE)))["structuredContent"]["revision"]
        call = tool("kb_merge", 7, path=PAGE, content=f"{TEXT}\nAgreed.\n", base_revision=base)
        async with client.sent(0, call) as messages:
            asked = await messages.next()
            assert asked is not None
            approval = {"action": "accept", "content": {"decision": "approve"}}
            for server in (0, 1):
                answer = {"jsonrpc": "2.0", "id": asked["id"], "result": approval}
                assert (await stranger.post(server, answer)).status_code == 202
                stolen = {**stranger.headers, "mcp-session-id": client.headers["mcp-session-id"]}
                refused = await stranger.http.post(stranger.urls[server], json=answer, headers=stolen)
                assert refused.status_code == 404
            no = {"jsonrpc": "2.0", "id": asked["id"], "result": {"action": "decline"}}
            assert (await client.post(1, no)).status_code == 202
            done = await messages.next()
        assert done is not None
        assert done["result"]["structuredContent"]["proposal"]["state"] == "rejected", done
    assert (settings.kb / PAGE).read_text(encoding="utf-8") == TEXT


async def test_a_call_is_cancelled_through_another_process(settings: Settings) -> None:
    secret = await host(settings)
    async with two_servers(settings) as servers, by_hand(servers, secret, {"elicitation": {}}) as client:
        base = (await client.result(0, tool("kb_read", path=PAGE)))["structuredContent"]["revision"]
        call = tool("kb_merge", "a call", path=PAGE, content=f"{TEXT}\nAgreed.\n", base_revision=base)
        async with client.sent(0, call) as messages:
            assert await messages.next() is not None
            gone = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": "a call"}}
            assert (await client.post(1, gone)).status_code == 202
            told = [await messages.next(), await messages.next()]
        assert any(message and message.get("error", {}).get("message") == "Request cancelled" for message in told), told


async def test_a_stream_hears_of_what_was_subscribed_and_changed_in_other_processes(settings: Settings) -> None:
    secret, uri = await host(settings, level=3), f"kb://doc/{PAGE}"
    async with two_servers(settings) as servers, by_hand(servers, secret) as client, client.sent(1) as messages:
        assert await client.result(0, asking("resources/subscribe", {"uri": uri})) == {}
        for server, text in enumerate(("# Page\n\nSecond.\n", "# Page\n\nThird.\n")):
            base = (await client.result(server, tool("kb_read", path=PAGE)))["structuredContent"]["revision"]
            await client.result(server, tool("kb_merge", path=PAGE, content=text, base_revision=base, section="*"))
            told = await messages.next()
            while told is not None and told["method"] != "notifications/resources/updated":
                told = await messages.next()
            assert told is not None
            assert ResourceUpdatedNotification.model_validate(told).params.uri == uri


@pytest.mark.parametrize("late_s", [0, 0.3])
async def test_the_newest_stream_of_a_session_is_its_only_one_and_ends_with_the_session(
    settings: Settings, monkeypatch: pytest.MonkeyPatch, late_s: float
) -> None:
    """Also if a server hears of the stream before while it notes its own."""
    opened = ClientNotes.open_stream

    async def open_late(notes: ClientNotes, session: str, stream: str) -> None:
        await anyio.sleep(late_s)
        await opened(notes, session, stream)

    monkeypatch.setattr(ClientNotes, "open_stream", open_late)
    async with two_servers(settings) as servers, by_hand(servers) as client, client.sent(0) as first:
        async with client.sent(1) as second:
            assert await first.next() is None
            assert (await client.http.delete(client.urls[0], headers=client.headers)).status_code == 200
            assert await second.next() is None
        for server in (0, 1):
            for message in (READY, asking("tools/list", {})):
                assert (await client.post(server, message)).status_code == 404


async def test_a_call_goes_on_after_its_client_disconnected(settings: Settings) -> None:
    """The specification: a disconnection should not be taken for a cancellation."""
    secret = await host(settings)
    async with two_servers(settings) as servers, by_hand(servers, secret, {"elicitation": {}}) as client:
        base = (await client.result(0, tool("kb_read", path=PAGE)))["structuredContent"]["revision"]
        call = tool("kb_merge", 7, path=PAGE, content=f"{TEXT}\nAgreed.\n", base_revision=base)
        async with client.sent(0, call) as messages:
            asked = await messages.next()
        assert asked is not None
        answer = {
            "jsonrpc": "2.0",
            "id": asked["id"],
            "result": {"action": "accept", "content": {"decision": "approve"}},
        }
        assert (await client.post(1, answer)).status_code == 202
        with anyio.fail_after(SOON_S):
            while "Agreed." not in (settings.kb / PAGE).read_text(encoding="utf-8"):  # noqa: ASYNC110 - nobody tells
                await anyio.sleep(0.05)


@pytest.mark.parametrize("told", ["", "none", "v1.", "v1.AAAA", "v1." + "A" * 400, "é"])
async def test_an_id_that_the_server_did_not_issue_is_not_found(settings: Settings, told: str) -> None:
    async with two_servers(settings) as servers, by_hand(servers) as client:
        headers = httpx.Headers({**client.headers, "mcp-session-id": told}, encoding="utf-8")
        for server in (0, 1):
            answer = await client.http.post(client.urls[server], json=READY, headers=headers)
            assert answer.status_code == 404
            assert answer.json()["error"]["message"] == "Session not found"


@pytest.fixture(params=["sqlite", pytest.param("postgres", marks=pytest.mark.external)])
def noted(request: pytest.FixtureRequest, settings: Settings) -> Settings:
    return on_database(settings, request)


async def test_notes_of_a_session_are_the_same_for_all_and_its_questions_take_one_answer(noted: Settings) -> None:
    async with open_state(noted) as first, open_state(noted) as second:
        here, there = ClientNotes(first.tables, utc_now), ClientNotes(second.tables, utc_now)
        seen = await second.last_event()
        await here.ask("s", "q")
        assert not await there.answer("s", "other", "{}")
        assert not await there.answer("other", "q", "{}")
        assert await there.answered("s", "q") is None
        assert await there.answer("s", "q", '{"a":1}')
        assert not await here.answer("s", "q", "{}")
        assert await here.answered("s", "q") == '{"a":1}'
        await here.forget_question("s", "q")
        assert await here.answered("s", "q") is None
        await here.subscribe("s", "kb://doc/a.md")
        await there.subscribe("s", "kb://doc/é%.md")
        await here.unsubscribe("s", "kb://doc/a.md")
        assert await here.subscriptions("s") == await there.subscriptions("s") == ["kb://doc/é%.md"]
        await here.open_stream("s", "one")
        await there.open_stream("s", "two")
        await there.cancel("s", "7")
        assert await here.newest_stream("s") == "two"
        assert not await here.ended("s")
        await there.end("s")
        assert await here.ended("s")
        assert (await here.newest_stream("s"), await here.subscriptions("s")) == (None, [])
        told = [event.key for event in await second.events_after(seen) if event.topic == TOPIC]
        assert told == [f"s:{what}" for what in ("asked:q", *["uri:"] * 3, "stream", "stream", "cancel:7", "stream")]


async def test_notes_are_gone_when_their_sessions_are_too_old(noted: Settings) -> None:
    async with open_state(noted) as state:
        await ClientNotes(state.tables, lambda: NOW).subscribe("s", "kb://doc/a.md")
        later = ClientNotes(state.tables, lambda: NOW + KEPT + timedelta(seconds=1))
        await later.subscribe("t", "kb://doc/a.md")
        assert (await later.subscriptions("s"), await later.subscriptions("t")) == ([], ["kb://doc/a.md"])


async def test_a_session_has_a_limit_of_subscriptions(settings: Settings) -> None:
    async with open_state(settings) as state:
        notes = ClientNotes(state.tables, utc_now)
        for number in range(MOST_SUBSCRIPTIONS):
            assert await notes.subscribe("one", f"kb://doc/{number}.md")
        assert not await notes.subscribe("one", "kb://doc/more.md")
        assert await notes.subscribe("one", "kb://doc/0.md")
        assert await notes.subscribe("another", "kb://doc/more.md")


# --- ids --------------------------------------------------------------------------------------------------------------


NOW = datetime(2026, 11, 27, tzinfo=UTC)
SAYS: dict[str, Any] = {
    "protocolVersion": "2025-06-18",
    "capabilities": {
        "elicitation": {"form": {}},
        "experimental": {"x": {"y": "z" * 5_000}},
        "roots": {"listChanged": True},
    },
    "clientInfo": {"name": "n" * 5_000, "version": "1", "icons": [{"src": "data:" + "A" * 9_000}]},
}


def test_an_id_brings_what_the_client_said_to_every_process_with_the_key() -> None:
    issued = SessionIds(b"k" * 32, lambda: NOW).issue(SAYS, "ann@host")
    assert issued is not None
    found = SessionIds(b"k" * 32, lambda: NOW).opened(issued.id, "ann@host")
    assert found == issued
    assert found.client.protocol_version == "2025-06-18"
    elicitation = found.client.capabilities.elicitation
    assert elicitation is not None
    assert elicitation.form is not None
    assert found.client.capabilities.experimental is None
    assert len(issued.id) < 1_000, "proxies limit the size of headers"


def test_an_id_is_nothing_for_another_caller_another_key_or_after_its_time() -> None:
    issued = SessionIds(b"k" * 32, lambda: NOW).issue(SAYS, "ann@host")
    assert issued is not None
    assert SessionIds(b"k" * 32, lambda: NOW).opened(issued.id, "bob@host") is None
    assert SessionIds(b"K" * 32, lambda: NOW).opened(issued.id, "ann@host") is None
    assert SessionIds(b"k" * 32, lambda: NOW + KEPT).opened(issued.id, "ann@host") is not None
    assert SessionIds(b"k" * 32, lambda: NOW + KEPT + timedelta(seconds=1)).opened(issued.id, "ann@host") is None


def test_parameters_that_open_no_session_get_no_id() -> None:
    ids = SessionIds(b"k" * 32, lambda: NOW)
    malformed: list[object] = [
        {},
        None,
        [],
        {**SAYS, "capabilities": 1},
        {**SAYS, "clientInfo": {"name": 1, "version": "1"}},
    ]
    for said in malformed:
        assert ids.issue(said, "") is None
    assert InitializeRequestParams.model_validate(SAYS, by_name=False)
