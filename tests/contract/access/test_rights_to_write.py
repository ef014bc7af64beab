"""What callers with limited rights may change, through a real client (decision 114)."""

from __future__ import annotations

import asyncio

import pytest

from knowledge.access.rules import PathAccess, Right
from knowledge.access.view.readable_ledger import NumberedLedger, ReadableLedger
from knowledge.history.acts import act_name
from mcp_server.approvals.approvers import Approver
from tests.contract.gate.test_trust_gradient import Forms
from tests.support.access.people_base import CANARIES, access_of
from tests.support.access.worlds import World, indexed, world
from tests.support.hosts.writers import allow_forms

pytestmark = pytest.mark.security


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> World:
    """The knowledge base. Its people have the highest trust: what they may not do, no trust allows."""
    return asyncio.run(world(tmp_path_factory.mktemp("rights") / "team", lambda _path: True, level=5))


async def approved(made: World, proposal: str) -> str:
    """Approve the proposal as its owner does, and return its state."""
    async with made.host("owner") as owner:
        found = await owner.app.services.state.trust.proposal(proposal)
        assert found is not None
        return (await owner.app.approvals.approve(proposal, found.hash, Approver("ann", "page"))).state


async def test_where_a_caller_may_only_propose_any_trust_leads_to_a_proposal(made: World) -> None:
    async with made.host("ben") as ben:
        before = ben.text("drafts/idea.md")
        revision = await ben.revision("drafts/idea.md")
        answer = await ben.call(
            "kb_merge",
            path="drafts/idea.md",
            content="# An idea\n\nA shared garden.\n\nSee [plan](../plans/q3.md).\n",
            base_revision=revision,
        )
        assert answer["status"] == "proposed"
        assert "You may only propose changes to drafts/idea.md" in answer["proposal"]["why"]
        assert ben.text("drafts/idea.md") == before
        assert await approved(made, answer["proposal"]["id"]) == "executed"
        assert "garden" in ben.text("drafts/idea.md")


async def test_somebody_from_whom_pages_are_hidden_decides_by_a_form(made: World) -> None:
    """Whether a form counts depends on people and reviewers, which the caller's own view does not have."""
    async with made.host("owner") as owner:
        await allow_forms(owner.app.base.state, "ben")
    for mode in ("auto", "legacy"):
        async with made.host("ben", forms=Forms(), mode=mode) as ben:
            assert (await ben.merge(f"drafts/{mode}.md", "# A bench\n\nIn the garden.\n"))["status"] == "done"
            assert "In the garden." in ben.text(f"drafts/{mode}.md")


async def test_where_a_caller_may_only_read_nothing_is_proposed(made: World) -> None:
    async with made.host("ben") as ben:
        revision = await ben.revision("policies/travel.md")
        for tool, arguments in (
            ("kb_merge", {"content": "# Travel policy\n\nNo travel.\n", "base_revision": revision}),
            ("kb_delete", {"base_revision": revision}),
            ("kb_move", {"to": "plans/travel.md"}),
        ):
            assert "you may read 'policies/travel.md', but not change it" in await ben.refused(
                tool, path="policies/travel.md", **arguments
            )
        assert (await ben.call("proposal_status"))["pending"] == []


@pytest.mark.parametrize(
    "target", ["people/ann/diary.md", "people/ann/new.md", "People/ANN/new.md", "people/eve/x/y.md"]
)
async def test_nothing_can_be_made_or_moved_where_the_caller_may_not_read(made: World, target: str) -> None:
    """The answer is the same whether or not there is a page."""
    async with made.host("ben") as ben:
        word = "you have no right to write at"
        assert word in await ben.refused("kb_merge", path=target, content="# New\n\nMine.\n")
        assert word in await ben.refused("kb_move", path="plans/launch.md", to=target)
        assert not (ben.root / "people/ann/new.md").exists()


async def test_a_link_to_a_hidden_page_is_no_way_to_it(made: World) -> None:
    async with made.host("ben") as ben:
        (ben.root / "plans/window.md").symlink_to(ben.root / "people/ann/diary.md")
        (ben.root / "plans/door").symlink_to(ben.root / "people/ann")
        try:
            for path in ("plans/window.md", "plans/door/diary.md", "plans/door"):
                assert "nothing at" in await ben.refused("kb_read", path=path)
            for path in ("plans/window.md", "plans/door/diary.md"):
                text = await ben.refused("kb_merge", path=path, content="# Mine\n\nAll.\n")
                assert CANARIES["ann"] not in text
            assert "Mine" not in ben.text("people/ann/diary.md")
        finally:
            (ben.root / "plans/window.md").unlink()
            (ben.root / "plans/door").unlink()


async def test_links_on_pages_that_the_caller_may_not_write_change_after_an_approval(made: World) -> None:
    """Moving a page needs rights on both ends; links on a page where Ben may only propose make it a proposal."""
    async with made.host("ben") as ben:
        answer = await ben.call("kb_move", path="plans/q3.md", to="plans/q4.md")
        assert answer["status"] == "proposed"
        assert "drafts/idea.md" in answer["proposal"]["why"]
        hidden = ben.text("people/ann/diary.md")
        assert await approved(made, answer["proposal"]["id"]) == "executed"
        assert "plans/q4.md" in ben.text("drafts/idea.md")
        assert ben.text("people/ann/diary.md") == hidden


async def test_an_approval_does_not_outlive_the_right_to_propose(made: World) -> None:
    async with made.host("ben") as ben:
        answer = await ben.call("kb_merge", path="drafts/new.md", content="# New\n\nA pond.\n")

        async def closed(_principal: str) -> PathAccess:
            return PathAccess({"drafts": Right.READ})

        async with made.host("owner", closed) as owner:
            found = await owner.app.services.state.trust.proposal(answer["proposal"]["id"])
            assert found is not None
            done = await owner.app.approvals.approve(found.id, found.hash, Approver("ann", "page"))
        assert done.state == "failed"
        assert not (ben.root / "drafts/new.md").exists()


async def test_a_page_that_comes_from_a_hidden_folder_begins_where_it_became_readable(made: World) -> None:
    async with made.host("ben") as ben:
        async with made.host("owner") as owner:
            await owner.call("kb_move", path="people/eve/plan for q3.md", to="plans/from eve.md")
            await indexed(owner.app)
        history = await ben.call("kb_history", path="plans/from eve.md")
        assert [line["moved_from"] for line in history["revisions"]] == [None]
        assert "people/eve" not in str(history)


async def test_the_lines_of_a_history_lead_to_their_acts_and_are_shown_with_numbers_of_their_own(made: World) -> None:
    """What takes changes back finds their acts by the lines; what hosts see must not count acts on hidden pages."""
    async with made.host("owner") as owner:
        kept, access = owner.app.base.state.ledger, access_of("ben")
        ledger, numbered = ReadableLedger(kept, access), NumberedLedger(kept, access)
        lines = await ledger.history("people/ben/diary.md", limit=5)
        shown = await numbered.history("people/ben/diary.md", limit=5)
        assert [line.id for line in lines] == [line.id for line in await kept.history("people/ben/diary.md", limit=5)]
        assert all([await ledger.act(act_name(line)) for line in lines])
    assert [line.id for line in shown] == [*range(len(shown), 0, -1)]
    assert shown
