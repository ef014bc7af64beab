"""The audit log on the page: filters that work without JavaScript, and everything about one act."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from contextlib import closing
from datetime import timedelta
from pathlib import Path
from urllib.parse import urlencode

import apsw
import pytest
from mcp import Client

from knowledge.history.audit import search
from knowledge.history.audit.chain import fields_of
from knowledge.outbox.ports import OutboxEntry
from mcp_server.app.composition import open_app
from mcp_server.app.knowledge_base import STATE_FILE
from mcp_server.approvals.approvers import Approver
from tests.support.hosts.writers import let_in
from tests.support.web.review_pages import ME, PAGE, Place, Visitor, forms, kept


@pytest.fixture
async def place(tmp_path: Path) -> AsyncIterator[Place]:
    async with kept(tmp_path) as opened:
        yield opened


async def write(place: Place) -> None:
    """Have a trusted host change a page, create one and move it, and have a message sent."""
    allowed = await let_in(place.settings, "laptop", 4)
    async with open_app(allowed, indexing=False) as app, Client(app.server) as host:
        read = (await host.call_tool("kb_read", {"path": PAGE})).structured_content or {}
        changed = {"path": PAGE, "content": place.text().replace("forty", "sixty"), "intent": "slower <b>now</b>"}
        await host.call_tool("kb_merge", {**changed, "base_revision": read["revision"]})
        await host.call_tool("kb_merge", {"path": "notes/tea.md", "content": "# Tea\n\nIt takes four minutes.\n"})
        await host.call_tool("kb_move", {"path": "notes/tea.md", "to": "kitchen/tea.md"})
    outbox, now = place.app.base.state.outbox, place.app.services.now()
    sent = OutboxEntry("kf-1", f"{ME}@chatty", "zulip_send_message", "zulip:design/merge", "dd" * 32, now)
    await outbox.begin(sent, within=timedelta(0))
    await outbox.end("kf-1", "unsure", at=now)


async def listed(visitor: Visitor, **asked: str) -> list[int]:
    """Return the numbers of the records that the page lists."""
    html = await visitor.look(f"/audit?{urlencode(asked)}")
    return [int(seq) for seq in re.findall(r'href="/audit/(\d+)"', html)]


async def seq_of(place: Place, tool: str) -> int:
    """Return the number of the newest record of a tool."""
    records = await place.app.base.state.ledger.records()
    return max(record.seq for record in records if fields_of(record)["tool"] == tool)


async def test_records_are_filtered_by_host_place_kind_tool_outcome_and_time(place: Place) -> None:
    today = place.app.services.now().date()
    await write(place)
    visitor = await place.visitor()
    sent, moved = await seq_of(place, "zulip_send_message"), await seq_of(place, "kb_move")
    assert await listed(visitor, by="chatty") == [sent]
    assert await listed(visitor, about="zulip:design") == [sent]
    assert await listed(visitor, kind="services") == await listed(visitor, outcome="unsure") == [sent]
    assert await listed(visitor, tool="kb_move") == [moved]
    assert await listed(visitor, by="laptop", about="notes") == [moved, moved - 1]
    assert await listed(visitor, by="laptop", kind="pages", q="SLOWER") == [moved - 2]
    tomorrow = today + timedelta(days=1)
    assert sent in await listed(visitor, since=str(today), until=str(tomorrow))
    assert await listed(visitor, until=str(today - timedelta(days=1))) == []
    assert "No matching records" in visitor.html


async def test_the_form_shows_what_was_asked_and_pages_keep_it(place: Place) -> None:
    for number in range(60):
        await place.app.approvals.freeze(f"{ME}@host{number}", Approver(ME, "page"), f"reason {number}")
    visitor = await place.visitor()
    first = await listed(visitor, kind="trust", q="reason", since="2026-01-01T00:00Z")
    assert forms(visitor.html)["/audit"].items() >= {("q", "reason"), ("since", "2026-01-01T00:00Z")}
    assert '<option value="trust" selected>' in visitor.html
    older = re.search(r'rel="next" href="([^"]+)"', visitor.html)
    assert older is not None
    html = await visitor.look(older.group(1).replace("&amp;", "&"))
    second = [int(seq) for seq in re.findall(r'href="/audit/(\d+)"', html)]
    assert len(first) == 50
    assert len(second) == 10
    assert max(second) < min(first)
    assert '<option value="trust" selected>' in html


async def test_a_search_that_ends_at_its_bound_continues_with_older_records(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    await write(place)
    monkeypatch.setattr(search, "MOST_SCANNED", 2)
    visitor = await place.visitor()
    assert await listed(visitor, q="slower") == []
    assert "among those searched so far" in visitor.html
    for _ in range(9):
        older = re.search(r'rel="next" href="([^"]+)">Search older records', visitor.html)
        if older is None:
            break
        await visitor.look(older.group(1).replace("&amp;", "&"))
    assert f'href="/audit/{await seq_of(place, "kb_move") - 2}"' in visitor.html


@pytest.mark.parametrize("wrong", [{"since": "sometime"}, {"until": "2026-99-01"}, {"kind": "jokes"}])
async def test_a_filter_that_means_nothing_is_reported_beside_the_form(place: Place, wrong: dict[str, str]) -> None:
    visitor = await place.visitor()
    assert await listed(visitor, **wrong) == []
    assert visitor.status == 422
    assert f"&#39;{next(iter(wrong.values()))}&#39; is not a" in visitor.html


async def test_one_act_has_a_page_with_everything_about_it(place: Place) -> None:
    await write(place)
    visitor = await place.visitor()
    moved = await seq_of(place, "kb_move")
    html = await visitor.look(f"/audit/{moved - 2}")
    for told in (
        f"{ME}@laptop",
        "kb_merge",
        "slower &lt;b&gt;now&lt;/b&gt;",
        "Arguments (SHA-256)",
        PAGE,
        '<span class="plus">+1</span> <span class="minus">\N{MINUS SIGN}1</span>',
        "Its hash fits the record before it.",
        f"Record {moved - 2}",
    ):
        assert told in html
    created = await visitor.look(f"/audit/{moved - 1}")
    assert '<span class="plus">+3</span>' in created
    diff = re.search(r'href="(/diff[^"]+)"', created)
    assert diff is not None
    assert "It takes four minutes." in await visitor.look(diff.group(1).replace("&amp;", "&"))
    assert "moved from <bdi>notes/tea.md</bdi>" in await visitor.look(f"/audit/{moved}")
    assert "zulip:design/merge" in await visitor.look(f"/audit/{await seq_of(place, 'zulip_send_message')}")
    assert "2.0 -&gt; 4.0" in await visitor.look(f"/audit/{await seq_of(place, 'trust.grant')}")


async def test_the_record_of_a_decision_leads_to_its_proposal(place: Place) -> None:
    waiting = await place.propose()
    visitor = await place.visitor()
    await visitor.look(f"/proposals/{waiting.id}")
    await visitor.send(f"/proposals/{waiting.id}/reject", note="it is forty")
    (seq,) = await listed(visitor, kind="decisions", outcome="rejected")
    assert f'href="/proposals/{waiting.id}"' in await visitor.look(f"/audit/{seq}")


async def test_a_record_that_was_edited_says_so(place: Place) -> None:
    await write(place)
    moved, folder = await seq_of(place, "kb_move"), place.settings.state_dir
    assert folder is not None
    with closing(apsw.Connection(str(folder / STATE_FILE))) as database:
        database.execute("UPDATE audit SET body = 'gone <i>' WHERE seq = ?", (moved,))
    visitor = await place.visitor()
    html = await visitor.look(f"/audit/{moved}")
    assert "This record can't be read" in html
    assert "does not fit: the chain was edited here" in html
    assert "gone &lt;i&gt;" in html


@pytest.mark.parametrize("seq", ["0", "999", "first", "9" * 30, "\u00b2"])
async def test_no_such_record_is_said_in_words(place: Place, seq: str) -> None:
    visitor = await place.visitor()
    assert "No such record" in await visitor.look(f"/audit/{seq}")
    assert visitor.status == 404


async def test_a_stranger_sees_no_record(place: Place) -> None:
    await write(place)
    stranger = await place.visitor(logged_in=False)
    await stranger.look("/audit/1")
    assert stranger.status == 404
    assert ME not in stranger.html
