"""The site of a person from whom rules hide pages: live updates, proposals, sources, and rights to write (decision 123)."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest

from knowledge.access.changes import Changing, DirectoryChange
from knowledge.trust.ports import Note, Proposal
from mcp_server.app.knowledge_base import utc_now
from mcp_server.approvals.approvers import Approver
from mcp_server.gate.trust.scores import grant
from mcp_server.web.access.sessions import Sessions
from tests.support.web.review_pages import ME, Place, Visitor, forms, kept

PATIENCE_S = 60
PAGES = {
    "open/plan.md": "# Plan\n\nThe hall costs 700 euros.\n\n- Book the hall\n",
    "open/other.md": "# Other\n\nSee [the secret](../closed/secret.md) and [[Plan]].\n\n![[closed/secret.md]]\n",
    "closed/secret.md": "# Quokkafern\n\nThe quokkafern costs 900 euros. See [[Plan]].\n",
}
BEN, BEN_HOST, ANN_HOST = "ben@token:http", f"{ME}@ben", f"{ME}@unenrolled"
Rules = Callable[[Changing], DirectoryChange]


@pytest.fixture
async def place(tmp_path: Path) -> AsyncIterator[Place]:
    """Open a site. Ann, whose host proposes, may do everything; Ben may not read `closed`."""
    async with kept(tmp_path, pages=PAGES) as opened:
        await opened.indexed()
        await changed(opened, lambda by: by.person_added("ben", [BEN, BEN_HOST]))
        await changed(opened, lambda by: by.person_added("ann", [ANN_HOST, f"{ME}@page"]))
        await changed(opened, lambda by: by.rule_set("ann", "closed", "write"))
        yield opened


async def changed(place: Place, rule: Rules) -> None:
    by = Changing("owner", utc_now())
    await place.app.base.state.people.change(rule(by), note=Note("owner", "rule", "", by.at))


async def ben(place: Place) -> Visitor:
    """Return the browser in which Ben is logged in."""
    visitor = await place.visitor(logged_in=False)
    secret = await Sessions(place.app.base.state.trust, utc_now).invite(BEN, "/")
    await visitor.look(f"/login/{secret}")
    await visitor.send("/login")
    assert visitor.status == 200
    return visitor


async def told_by_the_secret(place: Place, path: str, text: str) -> Proposal:
    """Have Ann's host propose a text that it has from the hidden page."""
    revision = (await place.call("kb_read", path=path))["revision"]
    told = {"content": text, "source": "kb:closed/secret.md", "base_revision": revision}
    answer = await place.call("kb_merge", path=path, **told)
    return await place.proposal(answer["proposal"]["id"])


async def keys(lines: AsyncIterator[str]) -> list[str]:
    """Return the keys of the next event."""
    async with asyncio.timeout(PATIENCE_S):
        async for line in lines:
            if line.startswith("data: "):
                return list(json.loads(line.removeprefix("data: ")))
    raise AssertionError("the stream has ended")


async def test_an_open_page_is_told_of_readable_changes_only(place: Place) -> None:
    state, visitor = place.app.base.state, await ben(place)
    hidden = await place.propose("900", "950", "closed/secret.md")
    async with visitor.http.stream("GET", "/events") as stream:
        lines = stream.aiter_lines()
        assert await anext(lines) == "retry: 2000"
        await state.publish("doc", ["closed/secret.md"])
        await state.publish("map", ["closed", ""])
        await state.publish("proposal", [hidden.id])
        await state.publish("people", ["rule ann in closed/"])
        await state.publish("doc", ["open/plan.md"])
        assert await keys(lines) == ["open/plan.md"]


async def test_an_open_page_is_told_nothing_once_a_rule_hides_more(place: Place) -> None:
    visitor = await ben(place)
    async with visitor.http.stream("GET", "/events") as stream:
        lines = stream.aiter_lines()
        assert await anext(lines) == "retry: 2000"
        await changed(place, lambda by: by.rule_set("ann", "open", "write"))
        await place.app.base.state.publish("doc", ["open/plan.md"])
        async with asyncio.timeout(PATIENCE_S):
            assert [line async for line in lines if line.startswith("data: ")] == []


async def test_an_embedded_page_that_is_hidden_is_not_there(place: Place) -> None:
    visitor = await ben(place)
    html = await visitor.look("/page?path=open/other.md")
    assert visitor.status == 200
    assert "uokkafern" not in html
    assert "/page?path=closed" not in html
    assert "uokkafern" in await (await place.visitor()).look("/page?path=open/other.md")


async def test_the_owner_sees_all_pages_whatever_the_rules_say(place: Place) -> None:
    await changed(place, lambda by: by.rule_set("*", "open", "none"))
    owner = await place.visitor()
    for path in PAGES:
        await owner.look(f"/page?path={path}")
        assert owner.status == 200, path
    await owner.look("/audit")
    assert owner.status == 200


async def test_a_hidden_page_that_text_came_from_is_not_named(place: Place) -> None:
    waiting = await told_by_the_secret(place, "open/plan.md", "Flowers are ordered on Friday.\n")
    assert (await place.app.approvals.approve(waiting.id, waiting.hash, Approver(ME, "terminal"))).state == "executed"
    visitor, owner = await ben(place), await place.visitor()
    for address in ("/page?path=open/plan.md", "/history/lines?path=open/plan.md"):
        assert "kb:closed/secret.md" in await owner.look(address)
        assert "closed" not in await visitor.look(address), address
        assert "Flowers are ordered on Friday." in visitor.html


async def test_a_proposal_that_names_a_hidden_page_is_not_there(place: Place) -> None:
    """A move would rewrite a link on the hidden page, and another one has its text from there."""
    moved = await place.call("kb_move", path="open/plan.md", to="open/plans.md")
    told = await told_by_the_secret(place, "open/other.md", "New.\n")
    readable = await place.propose("700", "750", "open/plan.md")
    visitor, owner = await ben(place), await place.visitor()
    assert readable.id in await visitor.look("/waiting")
    assert '<span class="count" data-count>1</span>' in visitor.html
    for hidden in (moved["proposal"]["id"], told.id):
        assert hidden not in visitor.html
        html = await visitor.look(f"/proposals/{hidden}")
        assert visitor.status == 404
        assert html.replace(hidden, "p-none") == (await visitor.look("/proposals/p-none"))
        assert "closed/secret.md" in await owner.look(f"/proposals/{hidden}?whole=1")
        await visitor.look("/waiting")


async def test_a_person_decides_but_does_not_have_planned_again_what_is_planned_with_hidden_pages(place: Place) -> None:
    """An edit could ask whether a hidden page exists: the answer would come from the pages of whoever made the proposal."""
    waiting, visitor = await place.propose("700", "750", "open/plan.md"), await ben(place)
    await visitor.look(f"/proposals/{waiting.id}/edit")
    fields = forms(visitor.html)[f"/proposals/{waiting.id}/edit"]
    html = await visitor.post(f"/proposals/{waiting.id}/edit", {**fields, "value.0.path": "closed/secret.md"})
    assert "may read pages that you may not" in html
    await visitor.look(f"/proposals/{waiting.id}")
    await visitor.send(f"/proposals/{waiting.id}/approve")
    assert (await place.proposal(waiting.id)).state == "executed"
    assert "The hall costs 750 euros." in place.text("open/plan.md")


async def test_a_person_writes_as_far_as_the_rules_allow(place: Place) -> None:
    await grant(place.app.base.state, BEN, 3, by="owner", now=utc_now())
    visitor = await ben(place)

    async def saved(path: str, text: str) -> str:
        await visitor.look(f"/page/edit?path={path}" if path in PAGES else "/page/new")
        action = "/page/edit" if path in PAGES else "/page/new"
        if action not in visitor.html:
            return visitor.html
        return await visitor.send(action, path=path, text=text, do="save")

    assert "The band plays." in await saved("open/plan.md", f"{PAGES['open/plan.md']}\nThe band plays.\n")
    await changed(place, lambda by: by.rule_set("*", "open", "propose"))
    await saved("open/plan.md", "# Plan\n\nProposed.\n")
    assert "Proposed." not in place.text("open/plan.md")
    assert "/proposals/" in str(visitor.html)
    await changed(place, lambda by: by.rule_set("*", "open", "read"))
    assert "may read" in await saved("open/plan.md", "# Plan\n\nRead only.\n")
    there = await saved("closed/secret.md", "# Mine\n")
    nothing = await saved("closed/none.md", "# Mine\n")
    assert visitor.status == 409
    assert "you have no right to write at" in nothing
    assert "uokkafern" not in there
    assert "uokkafern" in place.text("closed/secret.md")
    assert not (place.settings.kb / "closed/none.md").exists()


async def test_figures_and_lists_that_were_made_for_the_owner_are_not_shown_to_others(place: Place) -> None:
    """The home figures, the search and the graph are kept between requests."""
    owner, visitor = await place.visitor(), await ben(place)
    for address in (
        "/",
        "/health?show=orphans",
        "/find?q=euros",
        "/graph",
        "/graph/data?current=1",
        "/tags",
        "/recent",
    ):
        await owner.look(address)
        html = await visitor.look(address)
        assert visitor.status == 200
        assert "uokkafern" not in html, address


async def test_an_undo_neither_shows_nor_changes_a_hidden_page(place: Place) -> None:
    """Taking back a move would rewrite the links to the page, also one that was written on a hidden page since."""
    moved = await place.call("kb_move", path="open/other.md", to="open/moved.md")
    waiting = await place.proposal(moved["proposal"]["id"])
    assert (await place.app.approvals.approve(waiting.id, waiting.hash, Approver(ME, "terminal"))).state == "executed"
    late = place.settings.kb / "closed/late.md"
    late.write_text("# Late\n\nSee [it](../open/moved.md), says the quokkafern.\n", encoding="utf-8")
    await place.indexed()
    (line, *_) = await place.app.base.state.ledger.history("open/moved.md", limit=1)
    visitor, owner = await ben(place), await place.visitor()
    assert "closed/late.md" in await owner.look(f"/undo?change={line.seq}")
    html = await visitor.look(f"/undo?change={line.seq}")
    assert visitor.status == 200
    assert "open/other.md" in html
    assert "closed" not in html.replace("../closed/secret.md", "").replace("closed/secret.md", "")
    await visitor.send("/undo")
    assert "late.md" not in visitor.html
    assert "open/moved.md" in late.read_text(encoding="utf-8")
