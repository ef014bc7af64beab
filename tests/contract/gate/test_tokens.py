"""Bearer tokens for other machines: who their holders are, how far they reach, and what a wrong one gets."""

from __future__ import annotations

import json
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

import httpx
import pytest
from mcp import Client
from mcp.client.streamable_http import streamable_http_client
from mcp.shared._httpx_utils import create_mcp_http_client
from mcp.shared.exceptions import MCPError
from mcp_types import ResourceTemplateReference, TextContent

from knowledge.trust.ports import BearerToken, Note
from mcp_server.app.composition import App, open_app
from mcp_server.app.knowledge_base import utc_now
from mcp_server.app.settings.settings import Settings
from mcp_server.gate.handles import NotYours, require_may_decide
from mcp_server.gate.host_registration import TOKEN_HOLDER, Principal, digest, os_user
from mcp_server.gate.policy import Allow, Propose, Trust
from mcp_server.gate.trust.scores import freeze, grant
from mcp_server.gate.trust.tokens import minted
from mcp_server.transport.http import http_app
from tests.contract.gate.test_trust_gradient import ERAS, call, serving
from tests.contract.transport.test_http import HEADERS, HELLO
from tests.support.knowledge_bases.folders import write

PAGES = {"page.md": "# Page\n\nFirst.\n"}
ANN = f"ann@{TOKEN_HOLDER}"


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return Settings(kb=write(tmp_path / "kb", PAGES), state_dir=tmp_path / "state", open_browser=False)


async def token_for(app: App, name: str = "ann", *, level: int = 3, days: float = 1, toolsets: Any = None) -> str:
    """Create a token as `knowledge-forge token create` does, and return it."""
    (token_id, secret), now = minted(), utc_now()
    token = BearerToken(token_id, name, digest(secret), level, toolsets, "ada", now, now + timedelta(days=days))
    await app.base.state.trust.add_token(token, note=Note("ada", "token.create", token_id, now))
    return secret


@asynccontextmanager
async def holding(settings: Settings, era: str, **token: Any) -> AsyncIterator[tuple[App, Client]]:
    """Serve over HTTP, and connect a client with a token like that."""
    async with open_app(settings, indexing=False) as app, serving(settings) as address:
        headers = {"authorization": f"Bearer {await token_for(app, **token)}"}
        async with create_mcp_http_client(headers=headers) as http:
            wire = streamable_http_client(f"http://{address}/mcp", http_client=http)
            async with Client(wire, mode=era) as client:
                yield app, client


async def refused(client: Client, tool: str, **arguments: object) -> str:
    result = await client.call_tool(tool, dict(arguments))
    assert result.is_error
    assert isinstance(result.content[0], TextContent)
    return result.content[0].text


@pytest.mark.parametrize("era", ERAS)
async def test_the_holder_of_a_token_is_a_principal_of_their_own_and_earns_their_own_trust(
    settings: Settings, era: str
) -> None:
    async with holding(settings, era) as (app, client):
        status = await call(client, "trust_status")
        assert (status["principal"], status["level"], status["cap"]) == (ANN, 2, 3.0)
        new = {"path": "new.md", "content": "# New\n"}
        assert (await call(client, "kb_merge", **new))["status"] == "proposed"
        await grant(app.base.state, ANN, 3, by="ada", now=utc_now())
        assert (await call(client, "kb_merge", **new))["status"] == "done"
        (record,) = [one for one in await app.base.state.ledger.records(after=0, limit=99) if '"kb_merge"' in one.body]
        assert json.loads(record.body)["principal"] == ANN


@pytest.mark.parametrize("era", ERAS)
async def test_a_token_allows_no_more_than_its_level_however_trusted_its_holder_is(
    settings: Settings, era: str
) -> None:
    async with holding(settings, era, level=3) as (app, client):
        await grant(app.base.state, ANN, 5, by="ada", now=utc_now())
        assert (await call(client, "kb_merge", path="new.md", content="# New\n"))["status"] == "done"
        moved = await call(client, "kb_move", path="new.md", to="moved.md")
        assert moved["status"] == "proposed"
        assert (moved["proposal"]["level_held"], moved["proposal"]["level_needed"]) == (3, 4)
        assert (await call(client, "trust_status"))["level"] == 3
    async with holding(settings, era, level=1) as (_, client):
        assert (await call(client, "kb_read", path="page.md"))["title"] == "Page"
        why = await refused(client, "kb_merge", path="other.md", content="# Other\n")
        assert "has level 1, because its token allows no more" in why
        assert not (settings.kb / "other.md").exists()


@pytest.mark.parametrize("era", ERAS)
async def test_a_token_reaches_only_its_toolsets_by_tools_resources_prompts_and_completions(
    settings: Settings, era: str
) -> None:
    async with holding(settings, era, toolsets=("journeys",)) as (app, client):
        await grant(app.base.state, ANN, 3, by="ada", now=utc_now())
        names = {tool.name for tool in (await client.list_tools()).tools}
        assert "journey_start" in names
        assert "trust_status" in names
        assert not [name for name in names if name.startswith("kb_")]
        for tool, arguments in (("kb_read", {"path": "page.md"}), ("kb_merge", {"path": "x.md", "content": "# X"})):
            assert "its token allows no more (toolset knowledge)" in await refused(client, tool, **arguments)
        assert await client.read_resource("agent://research")
        place = ResourceTemplateReference(uri="kb://doc/{+path}")
        for asked in (
            client.read_resource("kb://doc/page.md"),
            client.read_resource("kb://map/"),
            client.read_resource("audit://recent"),
            client.read_resource("other://page.md"),
            client.list_resources(),
            client.list_prompts(),
            client.complete(place, {"name": "path", "value": "pa"}),
        ):
            with pytest.raises(MCPError) as caught:
                await asked
            assert "page.md" not in str(caught.value)


async def test_two_tokens_of_one_name_are_one_principal_and_each_is_revoked_alone(settings: Settings) -> None:
    async with open_app(settings, indexing=False) as app:
        first, second = await token_for(app), await token_for(app, level=1)
        one, two = await app.callers.named(first), await app.callers.named(second)
        assert one == two == Principal("ann", TOKEN_HOLDER)
        assert await app.base.state.trust.revoke_token(first[3:15], note=Note("ada", "token.revoke", "", utc_now()))
        assert await app.callers.named(second) == two


@asynccontextmanager
async def answering(settings: Settings) -> AsyncIterator[tuple[App, httpx.AsyncClient]]:
    async with open_app(settings, indexing=False) as app:
        asgi = http_app(app.server)
        async with (
            app.server.session_manager.run(),
            httpx.AsyncClient(
                transport=httpx.ASGITransport(asgi), base_url="http://127.0.0.1:8321", headers=HEADERS
            ) as client,
        ):
            yield app, client


async def test_a_revoked_token_is_refused_from_the_next_request_on_also_in_an_open_session(settings: Settings) -> None:
    async with answering(settings) as (app, client):
        token = await token_for(app)
        headers = {"authorization": f"Bearer {token}"}
        hello = await client.post("/mcp", json=HELLO, headers=headers)
        headers |= {"mcp-session-id": hello.headers["mcp-session-id"], "mcp-protocol-version": "2025-11-25"}
        note = {"jsonrpc": "2.0", "method": "notifications/initialized"}
        assert (await client.post("/mcp", json=note, headers=headers)).status_code == 202
        await app.base.state.trust.revoke_token(token[3:15], note=Note("ada", "token.revoke", "", utc_now()))
        answer = await client.post("/mcp", json=note, headers=headers)
        assert answer.status_code == 401
        assert f"{token[3:15]} was revoked" in answer.json()["error_description"]


async def test_a_wrong_token_is_a_401_with_a_challenge_and_appears_in_no_answer_log_or_record(
    settings: Settings, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    async with answering(settings) as (app, client):
        good, old = await token_for(app), await token_for(app, days=-1)
        other = await token_for(app, "bob")
        head, tail = good[:16], other[16:]
        wrong = {
            "the id of one, the secret of another": head + tail,
            "one letter changed": good[:-1] + ("A" if good[-1] != "A" else "B"),
            "cut short": good[:-1],
            "longer": good + "A",
            "expired": old,
            "upper case": good.upper(),
            "no secret": head,
            "the prefix alone": "kf_",
            "an id that nobody has": f"kf_000000000000_{good[16:]}",
            "an id of another form": f"kf_../../../../_{good[16:]}",
            "letters of another script": good.replace("k", "\N{CYRILLIC SMALL LETTER KA}", 1),
            "with a line of its own": good + "%0aX-Other: 1",
            "very long": good * 150,
        }
        for what, token in wrong.items():
            answer = await client.post("/mcp", json=HELLO, headers={b"authorization": f"Bearer {token}".encode()})
            assert answer.status_code == 401, what
            assert answer.headers["www-authenticate"].startswith('Bearer error="invalid_token"'), what
            assert token not in answer.text, what
        for headers, query in (({}, good), ({"authorization": f"Bearer {good}"}, good), ({}, "")):
            answer = await client.post("/mcp", params={"Access_Token": query}, json=HELLO, headers=headers)
            assert answer.status_code == 401
            assert "Authorization" in answer.json()["error_description"]
        assert (await client.post("/mcp", json=HELLO, headers={"authorization": f"bearer {good}"})).status_code == 200
        records = [one.body for one in await app.base.state.ledger.records(after=0, limit=99)]
    # httpx is this client's own log.
    logged = [one.getMessage() for one in caplog.records if not one.name.startswith(("httpx", "httpcore"))]
    everything = "\n".join([*records, *logged])
    for secret in (good, old, other):
        assert secret[16:] not in everything
    kept = b"".join(path.read_bytes() for path in (settings.state_dir or settings.kb).rglob("*") if path.is_file())
    assert good[:15].encode() not in kept
    assert good[16:].encode() not in kept


async def test_a_grant_to_the_person_of_this_machine_is_none_to_a_holder_of_the_same_name(settings: Settings) -> None:
    async with open_app(settings, indexing=False) as app:
        await grant(app.base.state, f"{os_user()}@*", 5, by="ada", now=utc_now())
        holder = await app.callers.named(await token_for(app, os_user().lower(), level=5))
        assert isinstance(await app.gate.decide("kb_merge", Trust.EDIT, holder), Propose)
        await freeze(app.base.state, f"{os_user()}@*", by="ada", now=utc_now(), reason="all my hosts")
        assert isinstance(await app.gate.decide("kb_read", Trust.READ, holder), Allow)


async def test_the_server_alone_only_proposes_for_somebody_whose_token_is_not_at_hand(settings: Settings) -> None:
    """A run goes on when its caller has left, and knows only who that was."""
    async with open_app(settings, indexing=False) as app:
        await grant(app.base.state, ANN, 5, by="ada", now=utc_now())
        held = await app.callers.named(await token_for(app, level=4))
        assert isinstance(await app.gate.decide("kb_move", Trust.ROUTINE, held), Allow)
        alone = await app.gate.decide("kb_merge", Trust.EDIT, Principal("ann", TOKEN_HOLDER))
        assert isinstance(alone, Propose)
        assert "without its token the server only proposes for it" in alone.why


def test_a_holder_decides_on_their_own_journeys_only() -> None:
    ann = Principal("ann", TOKEN_HOLDER)
    require_may_decide(ann, "j-1", ann.id)
    with pytest.raises(NotYours, match="was started by bob@token:http"):
        require_may_decide(ann, "j-1", f"bob@{TOKEN_HOLDER}")
