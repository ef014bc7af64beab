"""A caller from whom pages are hidden numbers the contradictions it sees by itself; its dismissals mean just these (decision 114)."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest

from knowledge.access.changes import Changing
from knowledge.history.ports import Actor, HistoryEntry
from knowledge.merge.model import Contradiction, Side
from mcp_server.app.settings.settings import Settings
from mcp_server.approvals.approvers import Approver
from mcp_server.approvals.reviewers.deciders import reviewers_of
from tests.contract.approvals.test_reviewers import put
from tests.support.hosts.writers import Writer, writing
from tests.support.knowledge_bases.folders import write
from tests.support.state.ledgers import NOW
from tests.support.web.review_pages import ME

pytestmark = pytest.mark.security

BY = Changing("ada", NOW)
PRICES = {"a.md": "It costs 4 euros.", "b.md": "It costs 5 euros."}
PAGES = {f"{folder}/{name}": f"# A page\n\n{text}\n" for folder in ("hr", "ops") for name, text in PRICES.items()}
BOB = Approver("bob@corp:http", "page")


async def flag(host: Writer, folder: str) -> None:
    """Put a contradiction between the two pages of the folder on record."""
    at = datetime(2026, 3, 1, tzinfo=UTC)
    sides = [Side(f"{folder}/{name}", "", text, "user", 0.8, at, 0.7, "") for name, text in PRICES.items()]
    found = Contradiction("number", "a number", "they differ", sides[0], sides[1])
    entry = HistoryEntry(
        host.app.services.now(), Actor("server", "check", ""), outcome="flagged", contradictions=[found]
    )
    await host.app.base.state.ledger.commit(entry)


async def test_a_dismissal_is_decided_by_the_reviewers_of_its_own_pages_and_dismisses_what_was_shown(
    tmp_path: Path,
) -> None:
    settings = Settings(kb=write(tmp_path / "kb", PAGES), state_dir=tmp_path / "state")
    async with writing(settings, host="desktop", level=3) as ben:
        state = ben.app.base.state
        for folder in ("hr", "ops"):
            await flag(ben, folder)
        await put(
            state,
            BY.person_added("ben", [f"{ME}@desktop"]),
            BY.person_added("ann", ["ann@corp:http"]),
            BY.person_added("bob", ["bob@corp:http"]),
            BY.rule_set("ann", "hr", "write"),
            BY.reviewers_set("hr", ["ann"]),
            BY.reviewers_set("ops", ["bob"]),
        )
        (shown,) = (await ben.call("kb_contradictions"))["contradictions"]
        assert (shown["id"], shown["existing"]["path"]) == (1, "ops/a.md")
        waiting = (await ben.call("kb_dismiss", contradiction_id=1, reason="Two prices."))["proposal"]["id"]
        proposal = await state.trust.proposal(waiting)
        assert proposal is not None
        assert [one.folder for one in await reviewers_of(state, proposal)] == ["ops"]
        done = await ben.app.approvals.approve(proposal.id, proposal.hash, BOB)
        assert done.state == "executed", done.error
        left = await state.ledger.flags(None, limit=9)
    assert [one.contradiction.existing.path for one in left] == ["hr/a.md"]


async def test_a_dismissal_that_would_mean_another_contradiction_by_now_is_not_carried_out(tmp_path: Path) -> None:
    """A new rule changes the numbers."""
    settings = Settings(kb=write(tmp_path / "kb", PAGES), state_dir=tmp_path / "state")
    async with writing(settings, host="desktop", level=3) as ben:
        state = ben.app.base.state
        for folder in ("hr", "ops"):
            await flag(ben, folder)
        await put(state, BY.person_added("ben", [f"{ME}@desktop"]), BY.person_added("ann", ["ann@corp:http"]))
        await put(state, BY.rule_set("ann", "hr", "write"))
        waiting = (await ben.call("kb_dismiss", contradiction_id=1, reason="Two prices."))["proposal"]["id"]
        await put(state, BY.rule_removed("ann", "hr"))
        proposal = await state.trust.proposal(waiting)
        assert proposal is not None
        done = await ben.app.approvals.approve(proposal.id, proposal.hash, Approver(ME, "terminal"))
        assert done.state == "superseded"
        assert len(await state.ledger.flags(None, limit=9)) == 2
