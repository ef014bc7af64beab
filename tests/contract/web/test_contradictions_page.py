"""The page of contradictions: both sides, what a person does about them, and the way back."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from mcp import Client

from knowledge.history.audit.chain import fields_of
from mcp_server.app.composition import open_app
from mcp_server.approvals.approvers import Approver
from tests.support.hosts.writers import let_in
from tests.support.web.review_pages import ME, Place, forms, kept


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
    assert 'Second statement <span class="tag">not written</span>' in html
    await visitor.send("/contradictions/1/dismiss", reason=" ", ruling="both")
    assert "a dismissal needs a reason" in visitor.html
    await visitor.look("/contradictions/1")
    html = await visitor.send("/contradictions/1/dismiss", reason="<b>two</b> services", ruling="none")
    assert "not a contradiction: &lt;b&gt;two&lt;/b&gt; services" in html, "the answer says what was done"
    assert "64 MiB" not in await visitor.look("/contradictions")
    html = await visitor.look("/contradictions?dismissed=1")
    assert "&lt;b&gt;two&lt;/b&gt; services" in html
    assert "both hold" in html
    await visitor.send("/contradictions/1/reopen")
    assert "64 MiB" in await visitor.look("/contradictions")
    records = [fields_of(record) for record in await place.app.base.state.ledger.records()]
    assert [body["outcome"] for body in records[-3:]] == ["dismissed", "rejected", "reopened"]
    await visitor.post("/contradictions/4711/reopen", forms(visitor.html)["/contradictions/1/keep"])
    assert "there is no contradiction 4711" in visitor.html
    for strange in ("4711", "x", "1e3", "9" * 30):
        assert "No such contradiction" in await visitor.look(f"/contradictions/{strange}")
        assert visitor.status == 404


async def test_keeping_the_new_statement_writes_it_says_so_and_offers_the_way_back(place: Place) -> None:
    await claimed(place)
    visitor = await place.visitor()
    await visitor.look("/contradictions")
    before = place.text("limits.md")
    html = await visitor.send("/contradictions/1/keep", choice="second")
    assert f"{ME} (page) kept the second statement" in html
    assert 'Written to <a href="/history?path=limits.md">' in html
    assert place.text("limits.md") == before.replace("64 MiB", "32 MiB")
    assert await place.app.base.state.trust.pending() == 0, "nothing is left to approve"
    (closed,) = await place.app.base.state.trust.proposals(states=("rejected",))
    assert f'Closed with it: <a href="/proposals/{closed.id}">the proposal of <bdi>{ME}@writer</bdi></a>' in html
    assert closed.verdict is not None
    assert closed.verdict.note == "contradiction 1 was settled: the new text was kept"
    assert "Settled:" in await visitor.look("/contradictions?settled=1")
    assert "No open contradictions." in await visitor.look("/contradictions")
    await visitor.look("/contradictions/1")
    html = await visitor.send("/contradictions/1/reopen")
    assert "Keep the second" in html
    assert place.text("limits.md") == before
    (again,) = await place.app.base.state.trust.proposals(states=("pending",))
    assert (again.origin, again.principal, again.effect) == (closed.id, f"{ME}@writer", closed.effect)
    assert f'<a href="/proposals/{again.id}">proposal to write the second</a>' in html
    assert "stays closed" not in html
    # Settled and reopened once more, it is again one proposal.
    await visitor.send("/contradictions/1/keep", choice="first")
    assert await place.app.base.state.trust.pending() == 0
    await visitor.send("/contradictions/1/reopen")
    (third,) = await place.app.base.state.trust.proposals(states=("pending",))
    await visitor.look(f"/proposals/{third.id}")
    await visitor.send(f"/proposals/{third.id}/approve")
    assert place.text("limits.md") == before.replace("64 MiB", "32 MiB")


async def test_a_closed_proposal_that_cannot_wait_again_is_said_with_a_link_and_a_button(place: Place) -> None:
    await claimed(place)
    visitor = await place.visitor()
    await visitor.look("/contradictions/1")
    await visitor.send("/contradictions/1/keep", choice="second")
    (closed,) = await place.app.base.state.trust.proposals(states=("rejected",))
    person = Approver(ME, "page")
    await place.app.approvals.freeze(f"{ME}@writer", person, "look first")
    html = await visitor.send("/contradictions/1/reopen")
    assert f'<a href="/proposals/{closed.id}">The proposal of <bdi>{ME}@writer</bdi></a>' in html
    html = await visitor.send("/contradictions/1/propose")
    assert "is frozen, so none of its proposals can be executed" in html
    assert await place.app.base.state.trust.pending() == 0
    thaw = await place.app.approvals.ask("trust.thaw", {"principal": f"{ME}@writer"}, person)
    await place.app.approvals.approve(thaw.id, thaw.hash, person)
    await visitor.look("/contradictions/1")
    html = await visitor.send("/contradictions/1/propose")
    assert "proposal to write the second" in html
    assert "Propose it again" not in html


async def test_keeping_the_existing_text_rejects_the_claim_of_a_proposal(place: Place) -> None:
    await claimed(place)
    visitor = await place.visitor()
    await visitor.look("/contradictions/1")
    before = place.text("limits.md")
    html = await visitor.send("/contradictions/1/keep", choice="first")
    assert "the existing text stays" in html
    assert place.text("limits.md") == before
    assert await place.app.base.state.trust.pending() == 0
    assert f"{ME} (page)" in await visitor.look("/contradictions?dismissed=1")


async def test_a_form_whose_page_changed_meanwhile_writes_nothing_and_leads_to_the_text_of_now(place: Place) -> None:
    await claimed(place)
    visitor = await place.visitor()
    await visitor.look("/contradictions/1")
    changed = place.text("limits.md").replace("An upload may be 64 MiB.", "An upload may be 64 MiB. Twice a day.")
    (place.settings.kb / "limits.md").write_text(changed, encoding="utf-8")
    html = await visitor.send("/contradictions/1/keep", choice="second")
    assert "have changed since you looked at it" in html
    assert (visitor.status, place.text("limits.md")) == (409, changed)
    assert "Twice a day." in await visitor.look("/contradictions/1")
    await visitor.send("/contradictions/1/keep", choice="second")
    assert place.text("limits.md") == changed.replace("64 MiB", "32 MiB")


async def test_a_person_edits_the_paragraph_and_a_mistake_keeps_what_was_typed(place: Place) -> None:
    await claimed(place)
    visitor = await place.visitor()
    html = await visitor.look("/contradictions/1/edit")
    assert "An upload may be 64 MiB.</textarea>" in html
    assert "An upload may be 32 MiB." in html, "the text that was not written is in view"
    html = await visitor.send("/contradictions/1/edit", **{"value.0": "An upload may be 64 MiB."})
    assert (visitor.status, "the texts are as they were" in html) == (409, True)
    html = await visitor.send("/contradictions/1/edit", **{"form.0": "json", "value.0": "no"})
    assert (visitor.status, 'role="alert"' in html) == (409, True)
    html = await visitor.send(
        "/contradictions/1/edit", **{"form.0": "text", "value.0": "An upload may be 48 MiB.\r\nAsk Ada."}
    )
    assert f"{ME} (page) edited its pages" in html
    assert "An upload may be 48 MiB.\nAsk Ada.\n" in place.text("limits.md")
    (closed,) = await place.app.base.state.trust.proposals(states=("rejected",))
    assert closed.verdict is not None
    assert closed.verdict.note == "contradiction 1 was settled: a person edited limits.md"
    await visitor.look("/contradictions/1/edit")
    assert "edited its pages" in visitor.html, "there is nothing to edit any more"


async def test_a_text_that_a_form_would_alter_is_edited_as_json(place: Place) -> None:
    await claimed(place)
    hidden = place.text("limits.md").replace("64 MiB.", "64 MiB.\u202e Ask Ada.")
    (place.settings.kb / "limits.md").write_text(hidden, encoding="utf-8")
    visitor = await place.visitor()
    html = await visitor.look("/contradictions/1/edit")
    assert "\\u202e" in html
    assert "\u202e" not in html
    typed = '"An upload may be 48 MiB.\\u202e Ask Ada."'
    await visitor.send("/contradictions/1/edit", **{"value.0": typed})
    assert place.text("limits.md") == hidden.replace("64 MiB", "48 MiB")


async def test_the_forms_need_the_session_that_was_shown_them(place: Place) -> None:
    await claimed(place)
    visitor, stranger = await place.visitor(), await place.visitor(logged_in=False)
    await visitor.look("/contradictions/1")
    fields = forms(visitor.html)["/contradictions/1/keep"]
    before = place.text("limits.md")
    for action in ("keep", "dismiss", "reopen", "edit"):
        await stranger.post(f"/contradictions/1/{action}", {**fields, "choice": "second"})
        assert stranger.status == 404
        await visitor.post(f"/contradictions/1/{action}", {**fields, "csrf": "x", "choice": "second"})
        assert visitor.status == 403
    await stranger.look("/contradictions/1")
    assert stranger.status == 404
    assert place.text("limits.md") == before


@pytest.mark.parametrize("level", [2, 4])
async def test_the_same_contradiction_from_two_hosts_is_one_entry_that_names_both(place: Place, level: int) -> None:
    """Decision 56: the same effect is the same question, whoever asks, from whichever source, also if they may only propose."""
    (place.settings.kb / "limits.md").write_text("# Limits\n\nAn upload may be 64 MiB.\n", encoding="utf-8")
    proposals = set()
    for host, source in (("writer", "wiki:limits"), ("laptop", "plane:KB-12")):
        allowed = await let_in(place.settings, host, level)
        async with open_app(allowed, indexing=False) as app, Client(app.server) as client:
            read = (await client.call_tool("kb_read", {"path": "limits.md"})).structured_content or {}
            claim = {"path": "limits.md", "content": "An upload may be 32 MiB.\n", "source": source}
            asked = await client.call_tool("kb_merge", {**claim, "base_revision": read["revision"]})
            proposals.add((asked.structured_content or {})["proposal"]["id"])
    (proposal,) = proposals
    # Somebody edits the page meanwhile: what is shown is against the page of now.
    (place.settings.kb / "limits.md").write_text(
        "# Limits\n\nNew first line.\n\nAn upload may be 64 MiB.\n", encoding="utf-8"
    )
    visitor = await place.visitor()
    html = await visitor.look("/contradictions")
    assert html.count('<article class="disagreement">') == 1
    assert html.count("proposal to write the second") == 1
    for told in (f"reported by <bdi>{ME}@writer</bdi>", f"also reported by <bdi>{ME}@laptop</bdi>"):
        assert html.count(told) == 1
    assert "Rewrites the first statement in limits.md, line 5." in html
    html = await visitor.look("/contradictions/1")
    assert '<span class="no" role="cell">5</span>' in html
    await visitor.send("/contradictions/1/keep", choice="second")
    assert place.text("limits.md") == "# Limits\n\nNew first line.\n\nAn upload may be 32 MiB.\n"
    assert await place.app.base.state.trust.pending() == 0
    async with open_app(allowed, indexing=False) as app, Client(app.server) as other:
        answer = await other.call_tool("proposal_status", {"proposal_id": proposal})
        assert "contradiction 1 was settled: the new text was kept" in str(answer.content)


async def test_contradictions_are_filtered_by_page_or_folder_and_keep_the_filter(place: Place) -> None:
    await claimed(place)
    visitor = await place.visitor()
    assert "64 MiB" in await visitor.look("/contradictions?path=limits.md")
    html = await visitor.look("/contradictions?path=guides")
    assert "None at this path." in html
    assert "/contradictions?settled=1&amp;path=guides" in html
    html = await visitor.look("/contradictions?path=../etc&settled=1")
    assert (visitor.status, 'role="alert"' in html) == (422, True)
    html = await visitor.look("/contradictions?cursor=x&path=<b>")
    assert (visitor.status, "<b>" in html) == (422, False)


async def test_a_proposal_and_its_contradiction_link_to_each_other_before_and_after_a_decision(place: Place) -> None:
    await claimed(place)
    (proposal,) = await place.app.base.state.trust.proposals(states=("pending",))
    visitor = await place.visitor()
    link = '<a href="/contradictions/1">'
    assert link in await visitor.look(f"/proposals/{proposal.id}")
    assert f'<a href="/proposals/{proposal.id}">' in await visitor.look("/contradictions/1")
    await visitor.look(f"/proposals/{proposal.id}")
    await visitor.send(f"/proposals/{proposal.id}/reject", note="the code is right")
    assert link in await visitor.look(f"/proposals/{proposal.id}")
    assert f'<a href="/proposals/{proposal.id}">' in await visitor.look("/contradictions/1")
    other = await place.propose()
    assert link not in await visitor.look(f"/proposals/{other.id}")
