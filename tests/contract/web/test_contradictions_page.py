"""The page of contradictions: both sides, and a person's dismissal."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from mcp import Client

from knowledge.history.audit.chain import fields_of
from mcp_server.app.composition import open_app
from tests.support.hosts.writers import let_in
from tests.support.web.review_pages import Place, kept


@pytest.fixture
async def place(tmp_path: Path) -> AsyncIterator[Place]:
    async with kept(tmp_path) as opened:
        yield opened


async def claimed(place: Place) -> None:
    """Have a host send evidence that contradicts a page."""
    allowed = await let_in(place.settings, "writer", 4)
    async with open_app(allowed, indexing=False) as app, Client(app.server) as writer:
        page = {"path": "limits.md", "content": "# Limits\n\nAn upload may be 64 MiB.\n", "source": "code:src/a.py"}
        await writer.call_tool("kb_merge", page)
        read = (await writer.call_tool("kb_read", {"path": "limits.md"})).structured_content or {}
        claim = {"path": "limits.md", "content": "An upload may be 32 MiB.\n", "source": "wiki:limits"}
        await writer.call_tool("kb_merge", {**claim, "base_revision": read["revision"]})


async def test_contradictions_are_shown_with_both_sides_and_decided_about(place: Place) -> None:
    await claimed(place)
    visitor = await place.visitor()
    assert "64 MiB" in await visitor.look("/contradictions")
    (flag,) = await place.app.base.state.trust.proposals(states=("pending",))
    assert flag.kind == "flag"
    html = await visitor.look(f"/proposals/{flag.id}")
    for told in ("Both sides", "64 MiB", "32 MiB", "code:src/a.py", "wiki:limits"):
        assert told in html
    await visitor.send(f"/proposals/{flag.id}/reject", note="the code is right")
    assert "64 MiB" in place.text("limits.md")


async def test_a_contradiction_is_dismissed_on_the_page_with_a_reason_and_reopened(place: Place) -> None:
    await claimed(place)
    visitor = await place.visitor()
    html = await visitor.look("/contradictions")
    assert "New text, not written" in html
    await visitor.send("/contradictions/dismiss", reason=" ", ruling="both")
    assert "a dismissal needs a reason" in visitor.html
    await visitor.look("/contradictions")
    await visitor.send("/contradictions/dismiss", reason="<b>two</b> services", ruling="both")
    assert "64 MiB" not in await visitor.look("/contradictions")
    html = await visitor.look("/contradictions?dismissed=1")
    assert "&lt;b&gt;two&lt;/b&gt; services" in html
    assert "both hold" in html
    await visitor.send("/contradictions/reopen")
    assert "64 MiB" in await visitor.look("/contradictions")
    await visitor.send("/contradictions/dismiss", id="4711", reason="x")
    assert "there is no contradiction 4711" in visitor.html
    records = [fields_of(record) for record in await place.app.base.state.ledger.records()]
    assert [body["outcome"] for body in records[-2:]] == ["dismissed", "reopened"]
