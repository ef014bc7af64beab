"""Cards of MCP Apps for clients that show them, and nothing of them for others."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from mcp import Client
from mcp.client.extension import advertise
from mcp.server.apps import APP_MIME_TYPE, EXTENSION_ID

from mcp_server.app.composition import open_app
from mcp_server.app.settings.settings import Settings
from mcp_server.protocol.cards.documents import TITLES, document
from mcp_server.protocol.cards.extension import ABOUT, CARDS, PREFIX
from tests.contract.gate.test_trust_gradient import ERAS
from tests.support.knowledge_bases.folders import write

SHOWS = advertise(EXTENSION_ID, {"mimeTypes": [APP_MIME_TYPE]})


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return Settings(kb=write(tmp_path / "kb"), state_dir=tmp_path / "s", open_browser=False)


@pytest.mark.parametrize("era", ERAS)
async def test_a_client_that_shows_cards_gets_them_and_what_they_need(settings: Settings, era: str) -> None:
    async with open_app(settings, indexing=False) as app, Client(app.server, mode=era, extensions=[SHOWS]) as client:
        listed = {tool.name: (tool.meta or {}).get("ui") for tool in (await client.list_tools()).tools}
        assert {name for name, ui in listed.items() if ui} == set(CARDS) & set(listed)
        assert listed["kb_search"] == {"resourceUri": f"{PREFIX}hits.html"}
        resources = [str(one.uri) for one in (await client.list_resources()).resources]
        assert [one for one in resources if one.startswith(PREFIX)] == [f"{PREFIX}{kind}.html" for kind in TITLES]
        started = await client.call_tool(
            "journey_start", {"agent": "research", "brief": "Which beans do we buy, and why?"}
        )
        phases = (started.meta or {})[ABOUT]["phases"]
        assert [one["state"] for one in phases].count("now") == 1
        assert phases[0]["visits"] == 1


@pytest.mark.parametrize("era", ERAS)
async def test_other_clients_get_the_same_as_without_cards(settings: Settings, era: str) -> None:
    other = advertise(EXTENSION_ID, {"mimeTypes": ["text/html"]})
    async with open_app(settings, indexing=False) as app:
        for extensions in ([], [other]):
            async with Client(app.server, mode=era, extensions=extensions) as client:
                assert not any((tool.meta or {}).get("ui") for tool in (await client.list_tools()).tools)
                assert not any(str(one.uri).startswith("ui:") for one in (await client.list_resources()).resources)
                result = await client.call_tool("kb_search", {"query": "coffee"})
                assert ABOUT not in (result.meta or {})


@pytest.mark.parametrize("kind", TITLES)
def test_a_card_loads_nothing_and_calls_no_tool(kind: str) -> None:
    text = document(kind)
    assert "default-src 'none'" in text
    assert not re.search(r"""\b(?:src|href|action)\s*=\s*["']""", text)
    assert not re.search(r"innerHTML|outerHTML|insertAdjacent|document\.write|eval\(|tools/call|fetch\(|XMLHttp", text)
