"""What a person sees of a proposal and of a host's trust, before any layout."""

from __future__ import annotations

from pathlib import Path

from mcp_server.app.knowledge_base import utc_now
from mcp_server.approvals.approvers import Approver
from mcp_server.presenters.proposal import proposal_summary
from mcp_server.presenters.trust import known_principals, trust_summary
from tests.support.web.review_pages import ME, shown

HOST = f"{ME}@unenrolled"


async def test_the_proposal_that_is_looked_at_is_not_counted_among_the_earlier(tmp_path: Path) -> None:
    async with shown(tmp_path) as place:
        first, second = await place.propose(), await place.propose_deletion()
        await place.app.approvals.reject(first.id, first.hash, Approver(ME, "page"))
        summary = await proposal_summary(place.app.base.state, second, "page", now=utc_now())
        assert summary.asker.counts == {"rejected": 1}
        assert [one.id for one in summary.asker.earlier] == [first.id]


async def test_a_frozen_host_has_no_score_whatever_its_floor(tmp_path: Path) -> None:
    """The page showed the floor, as if the host still had that much trust."""
    async with shown(tmp_path) as place:
        state = place.app.base.state
        await place.app.approvals.freeze(HOST, Approver(ME, "page"), "it deletes too gladly")
        assert HOST in await known_principals(state, ME)
        found = await trust_summary(state, HOST, now=utc_now())
        assert (found.score, found.level, found.frozen, found.floor) == (0.0, 0, True, 2.0)
        visitor = await place.visitor()
        assert "score <strong>0.0</strong>" in await visitor.look(f"/trust/host?principal={HOST}")
