"""Text of a readable page may come from a hidden one. No answer to a caller who may not read that page names it (decision 114)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from mcp_types import TextResourceContents

from knowledge.access.rules import PathAccess, Right
from knowledge.trust.ports import Proposal
from mcp_server.approvals.approvers import Approver
from mcp_server.gate.caller import Call
from mcp_server.gate.dispatch import CallAnswered, CallFailed
from mcp_server.gate.host_registration import Principal, os_user
from tests.contract.gate.test_trust_gradient import Forms
from tests.support.access.people_base import load_access
from tests.support.access.worlds import OWNER, World, indexed, world
from tests.support.hosts.task_clients import wired
from tests.support.hosts.writers import Writer, allow_forms

pytestmark = pytest.mark.security

PAGE, HIDDEN = "plans/import.md", "people/ann/diary.md"
OLDER, NEWER = (
    "The importer reads CSV files from the share in Oslo.",
    "The importer reads CSV files and JSON files from a share.",
)
LIMIT, OTHER_LIMIT = "An upload may be 25 MiB at most.", "An upload may be 90 MiB at most."
MERGED = f"# Importer\n\nThe kitchen has a new kettle.\n\n## Limits\n\n{OTHER_LIMIT}\n"


@pytest.fixture
async def made(tmp_path: Path) -> World:
    """A page that everybody may read has statements that its writer took from Ann's diary. Hosts may only propose."""
    found = await world(tmp_path / "team", lambda _path: True, level=2)
    async with found.host(OWNER) as owner:
        text = f"# Importer\n\n{OLDER}\n\n## Limits\n\n{LIMIT}\n"
        assert (await owner.merge(PAGE, text, source=f"kb:{HIDDEN}"))["status"] == "done"
        await indexed(owner.app)
        await allow_forms(owner.app.base.state, "ben")
    return found


async def call_of(writer: Writer) -> dict[str, Any]:
    """Return a merge that writes one statement, and whose answer weighs another one against one from the diary."""
    base = await writer.revision(PAGE)
    return {"path": PAGE, "content": MERGED, "source": "wiki:team", "base_revision": base}


async def decide(writer: Writer, proposal: str, *, approve: bool) -> Proposal:
    """Decide as a person on the page."""
    found = await writer.app.base.state.trust.proposal(proposal)
    assert found is not None
    decide = writer.app.approvals.approve if approve else writer.app.approvals.reject
    return await decide(found.id, found.hash, Approver("ann", "page"))


def require_unnamed(answer: object, status: str) -> None:
    """Check that this is the answer that weighs, and that it names nothing of Ann's."""
    assert isinstance(answer, dict)
    assert answer["status"] == status
    assert any(" and unknown at 0." in block["reason"] for block in answer["blocks"]), answer["blocks"]
    assert "people/ann" not in json.dumps(answer)


async def test_the_owner_is_told_where_the_statement_is_from(made: World) -> None:
    """Otherwise the tests below would show nothing."""
    async with made.host(OWNER) as owner:
        answer = await owner.call("kb_merge", **await call_of(owner), dry_run=True)
        asked = await owner.merge(PAGE, f"{NEWER}\n", source="wiki:team", base_revision=await owner.revision(PAGE))
    assert any(f" and kb:{HIDDEN} at 0." in block["reason"] for block in answer["blocks"])
    assert asked["questions"][0]["source"] == f"kb:{HIDDEN}"


async def test_a_proposed_call_and_its_resource_do_not_name_the_page(made: World) -> None:
    async with made.host("ben") as writer:
        answer = await writer.call("kb_merge", **await call_of(writer))
        require_unnamed(answer, "proposed")
        waiting = answer["proposal"]["id"]
        assert (await decide(writer, waiting, approve=True)).state == "executed"
        (content,) = (await writer.client.read_resource(f"proposal://{waiting}")).contents
        told = await writer.call("proposal_status", proposal_id=waiting)
    assert isinstance(content, TextResourceContents)
    require_unnamed(json.loads(content.text)["result"], "partial")
    require_unnamed(told["proposal"]["result"], "partial")


@pytest.mark.parametrize("mode", ["auto", "legacy"])
async def test_an_answered_form_does_not_name_the_page(made: World, mode: str) -> None:
    forms = Forms()
    async with made.host("ben", forms=forms, mode=mode) as writer:
        require_unnamed(await writer.call("kb_merge", **await call_of(writer)), "partial")
    assert len(forms.seen) == 1
    assert "people/ann" not in forms.seen[0]


@pytest.mark.parametrize("status", ["partial", "proposed"])
async def test_a_task_does_not_name_the_page(made: World, status: str) -> None:
    async with made.host("ben") as writer, wired(writer.app, made.secrets["ben"]) as wire:
        task = (await wire.tool("kb_merge", **await call_of(writer)))["taskId"]
        await decide(writer, task, approve=status == "partial")
        done = await wire.until(task, "completed")
    require_unnamed(done["result"]["structuredContent"], status)
    assert "people/ann" not in json.dumps(done)


async def test_a_contradiction_on_record_does_not_name_the_page(made: World) -> None:
    async with made.host(OWNER) as owner:
        call = {"path": PAGE, "source": "wiki:team", "base_revision": await owner.revision(PAGE), "section": "Limits"}
        await owner.call("kb_merge", **call, content=f"{OTHER_LIMIT}\n")
        known = await owner.call("kb_contradictions", path=PAGE)
    async with made.host("ben") as writer:
        answer = await writer.call("kb_contradictions", path=PAGE)
    assert len(answer["contradictions"]) == len(known["contradictions"]) == 1
    assert "people/ann" in json.dumps(known)
    assert "people/ann" not in json.dumps(answer)


async def test_the_page_keeps_its_source_when_somebody_writes_who_may_not_read_it(made: World) -> None:
    """What is called `unknown` in an answer is not written down as unknown."""
    async with made.host("ben") as writer:
        answer = await writer.call("kb_merge", **await call_of(writer))
        await decide(writer, answer["proposal"]["id"], approve=True)
        origins = (await writer.call("kb_history", path=PAGE))["origins"]
        assert {one["source"] for one in origins} == {"unknown", "wiki:team"}
    async with made.host(OWNER) as owner:
        origins = (await owner.call("kb_history", path=PAGE))["origins"]
    assert {one["source"] for one in origins} == {f"kb:{HIDDEN}", "wiki:team"}


async def test_a_rule_that_is_set_meanwhile_counts_for_the_rest_of_a_request(made: World) -> None:
    """A call that waits for a form, or a run that it leaves in the background, may outlast its first look at the rules by hours."""
    closed: list[str] = []

    async def load(principal: str) -> PathAccess:
        access = await load_access(principal)
        return PathAccess({**access.rights, "plans": Right.NONE}) if principal in closed else access

    async with made.host("ben", load) as host:
        who = Principal(os_user(), "ben")
        async with host.app.gate.as_caller(who):
            before = await host.app.gate.dispatch("kb_read", {"path": PAGE}, Call(who))
            closed.append(who.id)
            after = await host.app.gate.dispatch("kb_read", {"path": PAGE}, Call(who))
    assert isinstance(before, CallAnswered)
    assert isinstance(after, CallFailed)
    assert "nothing at" in after.why
