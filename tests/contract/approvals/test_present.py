"""A proposal whose page has changed is shown as it would be applied now.

It is made again instead of being approved in vain.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import anyio
import pytest

from knowledge.errors import TooMuchWork
from knowledge.trust.ports import Proposal
from mcp_server.app.settings.settings import Settings
from mcp_server.approvals.approvers import CannotDecide
from mcp_server.approvals.proposal_executor import ProposalExecutor
from mcp_server.approvals.views.present import Present
from tests.support.hosts.reviewers import ANN, Reviewer, reviewing
from tests.support.hosts.writers import Writer, writing
from tests.support.knowledge_bases.folders import write
from tests.support.state.postgres import on_database

PAGE = "guides/deploy.md"
TEXT = "# Deploying\n\nIt is deployed with a canary first.\n\n## Limits\n\nThe timeout is 30 seconds.\n"


@pytest.fixture(params=["sqlite", "postgres"])
def settings(request: pytest.FixtureRequest, tmp_path: Path) -> Settings:
    made = Settings(kb=write(tmp_path / "kb", {PAGE: TEXT}), state_dir=tmp_path / "s", open_browser=False)
    return on_database(made, request)


@dataclass(frozen=True)
class Scene:
    host: Writer
    person: Reviewer

    async def propose(self, old: str = "30 seconds", new: str = "45 seconds") -> Proposal:
        base = await self.host.revision(PAGE)
        answer = await self.host.merge(PAGE, TEXT.replace(old, new), base_revision=base)
        assert answer["status"] == "proposed"
        return await self.person.proposal(answer["proposal"]["id"])

    async def present(self, proposal: Proposal, *, patience_s: float = 20) -> Present:
        """Return the proposal's state, and check that asking changed nothing."""
        state = self.person.app.base.state
        seen = await state.last_event()
        before = await state.ledger.chain_end(), await state.trust.proposals()
        found = await self.person.app.approvals.present(proposal, patience_s=patience_s)
        assert found is not None
        assert before == (await state.ledger.chain_end(), await state.trust.proposals())
        # The index may learn of an earlier change at any time.
        assert {event.topic for event in await state.events_after(seen)} <= {"doc", "map"}
        return found

    def edit(self, old: str, new: str) -> None:
        write(self.host.root, {PAGE: self.host.text(PAGE).replace(old, new)})

    async def renew(self, proposal: Proposal) -> Proposal:
        return await self.person.app.approvals.renew(proposal.id, proposal.hash, ANN)


@asynccontextmanager
async def scene(settings: Settings) -> AsyncIterator[Scene]:
    async with writing(settings, level=2) as host, reviewing(settings) as person:
        yield Scene(host, person)


def diff(preview: str) -> str:
    (file,) = json.loads(preview)["files"]
    return str(file["diff"])


async def test_without_a_page_change_there_is_nothing_to_say(settings: Settings) -> None:
    async with scene(settings) as here:
        waits = await here.propose()
        assert await here.person.app.approvals.present(waits) is None
        here.edit("30 seconds", "40 seconds")
        done = await here.person.reject(waits.id)
        assert await here.person.app.approvals.present(done) is None
        with pytest.raises(CannotDecide, match="no longer pending"):
            await here.renew(waits)


async def test_a_change_elsewhere_in_the_page_is_named_and_the_same_effect_shown(
    settings: Settings,
) -> None:
    async with scene(settings) as here, writing(settings, host="other", level=3) as other:
        waits = await here.propose()
        base = await other.revision(PAGE)
        changed = TEXT.replace("The timeout", "Read this first.\n\nThe timeout")
        assert (await other.merge(PAGE, changed, base_revision=base))["status"] == "done"
        found = await here.present(waits)
        assert found.outcome == "same"
        (page,) = found.changed
        assert (page.path, page.revision) == (PAGE, await other.revision(PAGE))
        assert [(one.by.rpartition("@")[2], one.tool) for one in page.changes] == [("other", "kb_merge")]
        assert "Read this first." not in diff(waits.preview)
        assert " Read this first.\n \n-The timeout is 30 seconds.\n+The timeout is 45 seconds." in diff(found.preview)
        with pytest.raises(CannotDecide, match="would still do the same"):
            await here.renew(waits)
        assert (await here.person.approve(waits.id)).state == "executed"


async def test_an_edit_outside_the_server_is_named_as_such(settings: Settings) -> None:
    async with scene(settings) as here:
        waits = await here.propose()
        here.edit("canary", "canary (small)")
        (page,) = (await here.present(waits)).changed
        newest = page.changes[0]
        assert (newest.by, newest.revision) == ("", page.revision)


async def test_a_different_effect_is_shown_and_proposed_again_instead_of_approved_in_vain(settings: Settings) -> None:
    async with scene(settings) as here:
        waits = await here.propose()
        here.edit("## Limits", "## Bounds")
        found = await here.present(waits)
        assert found.outcome == "different"
        assert " ## Bounds\n \n-The timeout is 30 seconds." in diff(found.preview)
        again = await here.renew(waits)
        assert (again.origin, again.state, again.principal) == (waits.id, "pending", waits.principal)
        assert again.why.startswith(
            "the text it depends on has changed, so it would now do something else than was proposed"
        )
        assert diff(again.preview) == diff(found.preview)
        old = await here.person.proposal(waits.id)
        assert (old.state, old.successor) == ("superseded", again.id)
        assert (await here.host.call("proposal_status", proposal_id=waits.id))["proposal"]["successor"] == again.id
        assert await here.person.app.approvals.present(again) is None
        with pytest.raises(CannotDecide, match="superseded"):
            await here.renew(waits)
        assert (await here.person.approve(again.id)).state == "executed"
        assert "## Bounds\n\nThe timeout is 45 seconds." in here.host.text(PAGE)


async def test_a_proposal_that_became_impossible_says_why_and_cannot_be_made_again(settings: Settings) -> None:
    async with scene(settings) as here:
        base = await here.host.revision(PAGE)
        answer = await here.host.call("kb_delete", path=PAGE, base_revision=base)
        waits = await here.person.proposal(answer["proposal"]["id"])
        here.edit("30 seconds", "50 seconds")
        found = await here.present(waits)
        assert (found.outcome, found.preview) == ("impossible", "")
        assert found.why
        with pytest.raises(CannotDecide):
            await here.renew(waits)
        (here.host.root / PAGE).unlink()
        gone = await here.present(waits)
        assert (gone.outcome, gone.changed[0].revision) == ("impossible", None)
        assert [one.id for one in await here.person.waiting()] == [waits.id]
        assert (await here.person.reject(waits.id)).state == "rejected"


async def test_a_change_already_on_the_page_can_only_be_rejected(settings: Settings) -> None:
    async with scene(settings) as here:
        waits = await here.propose()
        here.edit("30 seconds", "45 seconds")
        found = await here.present(waits)
        assert found.outcome == "impossible"
        assert "already on the page" in found.why
        with pytest.raises(CannotDecide, match="already applied"):
            await here.renew(waits)


@pytest.mark.parametrize(
    ("failing", "why"),
    [
        (TooMuchWork("this merge", "it has too many rows"), "too many rows"),
        (RuntimeError("odd"), "it failed inside the server"),
        (None, "takes too long"),
    ],
)
async def test_an_effect_that_cannot_be_computed_is_shown_as_proposed(
    settings: Settings, monkeypatch: pytest.MonkeyPatch, failing: Exception | None, why: str
) -> None:
    async def plan(*_: Any) -> None:
        if failing is not None:
            raise failing
        await anyio.sleep_forever()

    async with scene(settings) as here:
        waits = await here.propose()
        here.edit("## Limits", "## Bounds")
        with monkeypatch.context() as patched:
            patched.setattr(ProposalExecutor, "plan", plan)
            found = await here.present(waits, patience_s=0.05)
        assert (found.outcome, found.preview) == ("unknown", "")
        assert why in found.why
        assert "odd" not in found.why


async def test_one_that_is_decided_while_it_is_planned_is_not_made_again(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with scene(settings) as here:
        waits = await here.propose()
        here.edit("## Limits", "## Bounds")
        whole = ProposalExecutor.plan

        async def plan(self: ProposalExecutor, *args: Any) -> Any:
            planned = await whole(self, *args)
            await here.person.reject(waits.id)
            return planned

        with monkeypatch.context() as patched:
            patched.setattr(ProposalExecutor, "plan", plan)
            with pytest.raises(CannotDecide, match="it is rejected"):
                await here.renew(waits)
        assert not await here.person.waiting()


async def test_all_asking_hosts_continue_with_the_new_proposal(settings: Settings) -> None:
    async with (
        writing(settings, host="one", level=3) as one,
        writing(settings, host="two", level=3) as two,
        reviewing(settings) as person,
    ):
        for host, source in ((one, "plane:KB-1"), (two, "zulip:ops/x/3")):
            base = await host.revision(PAGE)
            await host.merge(PAGE, "The timeout is 90 seconds.\n", source=source, base_revision=base)
        waits = await person.only()
        write(settings.kb, {PAGE: TEXT.replace("## Limits", "## Bounds")})
        again = await person.app.approvals.renew(waits.id, waits.hash, ANN)
        assert await person.only() == again
        for host in (one, two):
            told = (await host.call("proposal_status", proposal_id=waits.id))["proposal"]
            assert (told["state"], told["successor"]) == ("superseded", again.id)
            assert [p["id"] for p in (await host.call("trust_status"))["pending"]] == [again.id]
        assert (await person.approve(again.id)).state == "executed"
