"""Reviewers of folders decide, through every road, and others see who may; a setting leaves a person's own proposals to others."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from mcp.client import ClientRequestContext
from mcp_types import ElicitRequestParams, ElicitResult

from knowledge.access.changes import Changing, DirectoryChange
from knowledge.state.ports import StateStore
from knowledge.trust.ports import Note, Proposal
from mcp_server.app.settings.settings import Settings
from mcp_server.approvals.approvers import Approver, CannotDecide
from mcp_server.approvals.contradictions.settle import ContradictionDecisions
from mcp_server.gate.trust.reconcile import unaccounted
from tests.support.hosts.persons import Person
from tests.support.hosts.writers import Writer, let_in, writing
from tests.support.knowledge_bases.folders import write
from tests.support.roads.road import connect, opened
from tests.support.state.ledgers import NOW
from tests.support.web.review_pages import ME, PAGE, Place, forms, kept, shown
from tests.support.zulip.reviews import CORDELIA, HAMLET, scene, soon

pytestmark = pytest.mark.security

BY = Changing("ada", NOW)
BARRED = "in guides/, where only bob, @ops can decide"
LIMITS = "# Deploying\n\n## Limits\n\nThe timeout is 30 seconds.\n"
CLAIM = "The timeout is 90 seconds.\n"
TERMINAL = Approver(ME, "terminal")
OWN_HOST = f"{ME}@unenrolled"


async def put(state: StateStore, *changes: DirectoryChange) -> None:
    for change in changes:
        await state.people.change(change, note=Note("ada", "reviewers.set", "", NOW))


TEAM = (
    BY.person_added("bob", ["bob@corp:http", "bob@example.org@zulip"]),
    BY.person_added("eve", ["eve@corp:http"]),
    BY.group_added("ops", []),
    BY.reviewers_set("guides", ["bob", "@ops"]),
)


@pytest.fixture
async def place(tmp_path: Path) -> AsyncIterator[Place]:
    async with kept(tmp_path) as opened:
        await put(opened.app.base.state, *TEAM)
        yield opened


async def decided(place: Place, proposal: Proposal, who: Approver) -> str:
    """Return the state of the proposal after this person approved it, or why they can't."""
    try:
        return (await place.app.approvals.approve(proposal.id, proposal.hash, who)).state
    except CannotDecide as error:
        return str(error)


# --- the page ---------------------------------------------------------------------------------------------------------


async def test_on_the_page_somebody_who_is_no_reviewer_sees_who_may_decide_and_can_do_nothing(place: Place) -> None:
    waiting, person = await place.propose(), await place.visitor()
    html = await person.look(f"/proposals/{waiting.id}")
    assert BARRED in html
    assert not [action for action in ("approve", "reject", "changes", "edit") if f"{waiting.id}/{action}" in html]
    csrf = {"csrf": forms(await person.look("/waiting"))["/logout"]["csrf"]}
    for act in ("approve", "reject", "changes", "edit"):
        fields = {**csrf, "hash": waiting.hash, "note": "no", "opened": "", "value.0.path": PAGE}
        answer = await person.post(f"/proposals/{waiting.id}/{act}", fields)
        assert (person.status, "Nothing was changed" in answer or "You can" in answer) == (409, True), act
    await person.look(f"/together?p={waiting.id}")
    assert BARRED in person.html
    assert (await place.proposal(waiting.id)).state == "pending"


async def test_once_the_account_is_a_reviewer_the_page_says_for_which_folder_and_decides(place: Place) -> None:
    await put(place.app.base.state, BY.person_added("ada", [f"{ME}@*"]), BY.group_added("ops", ["ada"]))
    waiting, person = await place.propose(), await place.visitor()
    html = await person.look(f"/proposals/{waiting.id}")
    assert "Reviewers of" in html
    await person.send(f"/proposals/{waiting.id}/approve")
    assert (await place.proposal(waiting.id)).state == "executed"
    assert "sixty" in place.text()


# --- every road -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("who", "may"),
    [
        (Approver("bob@corp:http", "page"), True),
        (Approver("Bob", "zulip", principal="bob@example.org@zulip"), True),
        (Approver("in the host", "host", principal="bob@corp:http"), False),
        (Approver("eve@corp:http", "page"), False),
        (Approver("bob", "page"), False),
        (Approver("Bob", "zulip", principal="bob@evil.example@zulip"), False),
        (Approver(ME, "page"), False),
        (TERMINAL, True),
    ],
)
async def test_a_decision_counts_by_the_principal_of_who_decides(place: Place, who: Approver, *, may: bool) -> None:
    waiting = await place.propose()
    outcome = await decided(place, waiting, who)
    # The form of a host counts only if its person allowed that, whoever it is.
    assert (outcome == "executed") is may, outcome
    if who.channel != "host":
        assert (BARRED in outcome) is not may
    if not may:
        for act in (place.app.approvals.reject, place.app.approvals.request_changes):
            with pytest.raises(CannotDecide):
                await act(waiting.id, waiting.hash, who, "no")


async def test_an_act_on_several_pages_takes_a_reviewer_of_all_of_them(place: Place) -> None:
    bob, eve = Approver("bob@corp:http", "page", "key"), Approver("eve@corp:http", "page", "key")
    await put(place.app.base.state, BY.reviewers_set("decisions", ["eve"]))
    asked = await place.call("kb_move", path=PAGE, to="decisions/deploy.md")
    waiting = await place.proposal(asked["proposal"]["id"])
    assert "in decisions/, where only eve can decide" in await decided(place, waiting, bob)
    assert BARRED in await decided(place, waiting, eve)
    await put(place.app.base.state, BY.group_added("ops", ["eve"]))
    assert await decided(place, waiting, eve) == "executed"


@pytest.mark.external
async def test_it_is_the_same_on_postgresql(tmp_path: Path, request: pytest.FixtureRequest, schema: str) -> None:
    url = request.getfixturevalue("postgres").url()
    async with shown(tmp_path, database_url=url, database_schema=schema, prevent_self_review=True) as place:
        await put(place.app.base.state, *TEAM)
        waiting, person = await place.propose(), await place.visitor()
        assert f"{OWN_HOST} asks for it, which is you" in await person.look(f"/proposals/{waiting.id}")
        assert BARRED in await decided(place, waiting, Approver("eve@corp:http", "page"))
        await person.look("/people")
        await person.send("/people/reviewers", folder="guides", who="eve")
        assert await decided(place, waiting, Approver("eve@corp:http", "page")) == "executed"
        assert await unaccounted(place.app.base.state) == []


async def test_links_in_other_folders_that_a_move_rewrites_count_too(tmp_path: Path) -> None:
    pages = {"a.md": "# A\n\nText.\n", "hr/b.md": "# B\n\nSee [A](../a.md).\n"}
    async with shown(tmp_path, pages) as place:
        await put(place.app.base.state, *TEAM, BY.reviewers_set("hr", ["bob"]))
        await place.indexed()
        made = await place.call("kb_move", path="a.md", to="c.md")
        waiting = await place.proposal(made["proposal"]["id"])
        assert "in hr/" in await decided(place, waiting, Approver("eve@corp:http", "page"))
        assert await decided(place, waiting, Approver("bob@corp:http", "page", "key")) == "executed"


async def test_pages_without_reviewers_are_decided_as_ever_and_trust_is_no_page(place: Place) -> None:
    waiting = await place.propose("laptop", "desk", "guides/onboarding.md")
    await put(place.app.base.state, BY.reviewers_set("guides", []))
    assert await decided(place, waiting, Approver("eve@corp:http", "page")) == "executed"
    await put(place.app.base.state, BY.reviewers_set("", ["bob"]))
    grant = {"principal": OWN_HOST, "level": 1}
    asked = await place.app.approvals.ask("trust.grant", grant, Approver(ME, "page"))
    assert await decided(place, asked, Approver(ME, "page")) == "executed"


async def test_a_dismissal_is_decided_by_the_reviewers_of_its_pages(tmp_path: Path) -> None:
    async with shown(tmp_path, {PAGE: LIMITS}) as place:
        state = place.app.base.state
        read = await place.call("kb_read", path=PAGE)
        await place.call("kb_merge", path=PAGE, content=CLAIM, source="plane:KB-1", base_revision=read["revision"])
        (flag,) = await state.ledger.flags(PAGE, limit=9)
        await put(state, *TEAM)
        eve = ContradictionDecisions(place.app.services, place.app.approvals, Approver("eve@corp:http", "page"))
        with pytest.raises(CannotDecide, match=BARRED):
            await eve.dismiss(flag.id, "both", "both hold")
        with pytest.raises(CannotDecide, match=BARRED):
            await eve.keep(flag.id, "first")
        asked = await place.call("kb_dismiss", contradiction_id=flag.id, reason="both hold")
        waiting = await place.proposal(asked["proposal"]["id"])
        assert BARRED in await decided(place, waiting, Approver("eve@corp:http", "page"))
        assert await decided(place, waiting, Approver("bob@corp:http", "page")) == "executed"


async def test_a_form_is_shown_only_in_a_host_whose_person_may_decide(tmp_path: Path) -> None:
    settings = await let_in(Settings(kb=write(tmp_path / "kb"), state_dir=tmp_path / "state"), "cursor", 2, forms=True)
    shown_forms: list[str] = []

    async def yes(context: ClientRequestContext, params: ElicitRequestParams) -> ElicitResult:
        del context
        shown_forms.append(params.message)
        return ElicitResult(action="accept", content={"decision": "approve"})

    async with opened(settings, indexing=False) as app, connect(app, elicitation_callback=yes) as client:
        host = Writer(client, app, settings.kb)
        await put(app.base.state, *TEAM)
        first = await host.merge("guides/new.md", "# New\n\nOne.\n")
        assert (first["status"], shown_forms) == ("proposed", [])
        await put(app.base.state, BY.person_added("bob", [f"{ME}@cursor"]))
        second = await host.merge("guides/other.md", "# Other\n\nTwo.\n")
        assert (second["status"], len(shown_forms)) == ("done", 1)


async def test_a_reaction_of_a_listed_person_counts_only_if_they_review_the_page(tmp_path: Path) -> None:
    async with scene(tmp_path, reviewers=("hamlet@zulip.com", "cordelia@zulip.com")) as here:
        await put(
            here.person.app.base.state,
            BY.person_added("cordelia", ["Cordelia@zulip.com@zulip"]),
            BY.reviewers_set("guides", ["cordelia"]),
        )
        waiting = await here.propose()
        await here.told()
        here.zulip.world.react(HAMLET, here.last, "check")
        await soon(lambda: "a reaction did not decide it" in here.notices[0])
        assert "where only cordelia can decide" in here.notices[0]
        here.zulip.world.react(CORDELIA, here.last, "check")
        done = await here.state_of(waiting, "executed")
        assert done.verdict is not None
        assert "cordelia@zulip.com" in done.verdict.by


def test_reviewers_are_set_listed_and_removed_in_a_terminal_and_a_proposal_shows_them(tmp_path: Path) -> None:
    write(tmp_path / "kb")
    ann = Person(tmp_path)
    assert ann.here("people", "add", "bob").returncode == 0
    (row,) = json.loads(ann.here("reviewers", "set", "./guides/", "bob", "--json").stdout)
    assert row == {"folder": "guides/", "reviewers": ["bob"], "people": ["bob"]}
    refused = ann.here("reviewers", "set", "guides", "eve")
    assert (refused.returncode, "no person 'eve'" in refused.stderr) == (1, True)
    waiting = ann.propose("kb_merge", path="guides/new.md", content="# New\n")
    assert "reviewers of guides/: bob" in ann.here("review", "--show", waiting).stdout
    only = ann.here("people", "remove", "bob")
    assert (only.returncode, "only reviewer of guides/" in only.stderr) == (1, True)
    assert "no folder has reviewers" in ann.here("reviewers", "remove", "guides").stdout


# --- one's own proposals ----------------------------------------------------------------------------------------------


async def test_with_the_setting_nobody_decides_on_what_their_own_hosts_ask_for(tmp_path: Path) -> None:
    async with shown(tmp_path, prevent_self_review=True) as place:
        state, bob = place.app.base.state, Approver("bob@corp:http", "page")
        waiting, person = await place.propose(), await place.visitor()
        assert f"{OWN_HOST} asks for it, which is you" in await person.look(f"/proposals/{waiting.id}")
        assert await decided(place, waiting, bob) == "executed"
        other = await place.propose("laptop", "desk", "guides/onboarding.md")
        await put(state, BY.person_added("bob", ["bob@corp:http", OWN_HOST]))
        assert "FORGE_PREVENT_SELF_REVIEW" in await decided(place, other, bob)
        assert await decided(place, other, Approver(ME, "page")) == "executed"
        last = await place.propose_deletion()
        assert "FORGE_PREVENT_SELF_REVIEW" in await decided(place, last, bob)
        assert await decided(place, last, TERMINAL) == "executed"


async def test_without_the_setting_people_decide_on_their_own_hosts_as_ever(place: Place) -> None:
    await put(place.app.base.state, BY.person_added("bob", [OWN_HOST]))
    waiting = await place.propose()
    assert await decided(place, waiting, Approver("bob@corp:http", "page")) == "executed"


async def test_somebody_who_joined_a_proposal_may_not_decide_on_it_either(tmp_path: Path) -> None:
    kb = write(tmp_path / "kb", {PAGE: LIMITS})
    settings = Settings(kb=kb, state_dir=tmp_path / "state", prevent_self_review=True)
    async with writing(settings, host="cursor", level=3) as one, writing(settings, host="zed", level=3) as other:
        asked = [
            await host.merge(PAGE, CLAIM, source="plane:KB-1", base_revision=await host.revision(PAGE))
            for host in (one, other)
        ]
        (id_,) = {answer["proposal"]["id"] for answer in asked}
        state = one.app.base.state
        await put(state, BY.person_added("bob", [f"{ME}@zed", "bob@corp:http"]))
        proposal = await state.trust.proposal(id_)
        assert proposal is not None
        assert proposal.principal == f"{ME}@cursor"
        why = await one.app.approvals.why_barred(proposal, Approver("bob@corp:http", "page"))
        assert f"{ME}@zed asks for it, which is you" in why
        assert await one.app.approvals.why_barred(proposal, TERMINAL) == ""


async def test_on_the_site_only_who_decides_on_a_page_takes_its_changes_back_at_once(place: Place) -> None:
    """Otherwise an undo would be the way around reviewers, and around the rules of a folder."""
    bob, eve = Approver("bob@corp:http", "page", "key"), Approver("eve@corp:http", "page", "key")
    state = place.app.base.state
    before = place.text()
    assert await decided(place, await place.propose(), bob) == "executed"
    (change,) = (await place.app.services.timeline.changes(PAGE, limit=1)).changes
    acts = await place.app.services.undo.of_change(change.id)
    plan = await place.app.approvals.plan_undo(acts, eve)
    with pytest.raises(CannotDecide, match=BARRED):
        await place.app.approvals.undo(plan, eve)
    await put(state, BY.rule_set("*", "guides", "write"), BY.rule_set("bob", "guides", "propose"))
    with pytest.raises(CannotDecide, match="a rule of its folder"):
        await place.app.approvals.undo(await place.app.approvals.plan_undo(acts, bob), bob)
    assert place.text() != before
    await put(state, BY.rule_removed("bob", "guides"))
    await place.app.approvals.undo(await place.app.approvals.plan_undo(acts, bob), bob)
    assert place.text() == before
