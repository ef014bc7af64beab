"""The first search in a folder that was never indexed."""

from __future__ import annotations

from pathlib import Path

import pytest
from mcp import Client

from mcp_server.app import background
from mcp_server.app.composition import open_app
from mcp_server.app.settings.settings import Settings
from tests.support.knowledge_bases.folders import write


async def test_it_begins_the_indexing_that_it_waits_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(background, "START_DELAY_S", 60.0)  # longer than a search waits
    kb = write(tmp_path / "kb", {"lamp.md": "# Lamp\n\nThe lamp hangs in the hall.\n"})
    async with (
        open_app(Settings(kb=kb, state_dir=tmp_path / "state")) as app,
        Client(app.server) as client,
    ):
        found = (await client.call_tool("kb_search", {"query": "lamp"})).structured_content
    assert found is not None
    assert found["indexed"] == {"done": 1, "total": 1}
    assert [hit["path"] for hit in found["hits"]] == ["lamp.md"]
