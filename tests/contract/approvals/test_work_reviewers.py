"""Reviewers of a folder also decide on journeys and answer runs that change it, through every road (decision 124)."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio.to_thread
import pytest
from mcp import Client
from mcp.client import ClientRequestContext
from mcp_types import ElicitRequestParams, ElicitResult

import mcp_server
from agents.engine.events import ToolStart, ToolSuccess
from agents.loop.tools import CallOutcome
from knowledge.access.changes import Changing
from knowledge.state.ports import StateStore
from mcp_server.__main__ import main
from mcp_server.app.composition import open_app
from mcp_server.app.settings.settings import Settings
from mcp_server.approvals.reviewers.work_deciders import WorkReviewers
from tests.contract.approvals.test_reviewers import put
from tests.contract.toolsets.journeys.test_tools import TWO
from tests.contract.web.test_runs_page import goal, led, store_of
from tests.doubles.provider_turns import said, uses
from tests.support.agents.small_agents import Only, noting
from tests.support.hosts.task_servers import asks
from tests.support.hosts.writers import Writer, let_in
from tests.support.knowledge_bases.folders import write
from tests.support.runs.hosts import RunHost, run_host
from tests.support.runs.scripts import ask, use
from tests.support.runs.scripts import said as said_by_model
from tests.support.state.ledgers import NOW
from tests.support.web.review_pages import ME, Visitor, forms, shown

BY = Changing("ada", NOW)
BARRED = "it changes pages in guides/, or asks to, where only bob can decide"
PAGES = {"a.md": "# A\n\nThe cap is 20 calls an hour.\n", "guides/deploy.md": "# Deploying\n\nRun it.\n"}
TEAM = (
    BY.person_added("ada", [f"{ME}@desktop", f"{ME}@page"]),
    BY.person_added("bob", ["bob@corp:http"]),
    BY.reviewers_set("guides", ["bob"]),
)
GUIDE = {"path": "guides/deploy.md", "content": "# Deploying\n\nRun it twice.\n"}


class Forms:
    """A host that approves every form."""

    def __init__(self) -> None:
        self.seen: list[str] = []

    async def __call__(self, context: ClientRequestContext, params: ElicitRequestParams) -> ElicitResult:
        del context
        self.seen.append(params.message)
        return ElicitResult(action="accept", content={"decision": "approve", "answer": "The second one."})


@asynccontextmanager
async def hosting(
    folder: Path, *, answers: Forms | None = None, mode: str = "auto", own_hand: bool = False, **more: Any
) -> AsyncIterator[Writer]:
    """Connect a trusted host whose forms count, in a knowledge base with a team."""
    settings = Settings(kb=write(folder / "kb", PAGES), state_dir=folder / "state", **more)
    settings = await let_in(settings, "desktop", level=3, forms=True)
    async with (
        open_app(settings, announcing=False, indexing=False, agents=Only(noting(own_hand=own_hand))) as app,
        Client(app.server, mode=mode, elicitation_callback=answers) as client,
    ):
        await put(app.base.state, *TEAM)
        yield Writer(client, app, settings.kb)


async def waiting(host: Writer, *, changes: bool) -> dict[str, Any]:
    """Lead a journey to its checkpoint, and return it. `changes`: it rehearses a change of a page with reviewers."""
    journey = (await host.call("journey_start", agent="noting", brief="bees"))["journey_id"]
    if changes:
        await host.merge(**GUIDE, base_revision=await host.revision(GUIDE["path"]), dry_run=True, journey_id=journey)
    return await host.call("journey_submit", journey_id=journey, version=1, work=TWO)


async def test_a_host_relays_decisions_only_of_somebody_who_reviews_what_the_journey_changes(tmp_path: Path) -> None:
    async with hosting(tmp_path) as host:
        for decision in ("approve", "reject", "modify"):
            there = await waiting(host, changes=True)
            given = {"journey_id": there["journey_id"], "version": there["version"], "decision": decision, "note": "so"}
            assert BARRED in await host.refused("journey_decide", **given)
        assert (await host.call("journey_decide", **{**given, "decision": "cancel"}))["state"] == "cancelled"
        there = await waiting(host, changes=False)
        given = {"journey_id": there["journey_id"], "version": there["version"], "decision": "approve"}
        assert (await host.call("journey_decide", **given))["phase"] == "WRITE"


@pytest.mark.parametrize("mode", ["auto", "legacy"])
async def test_a_form_is_shown_only_to_somebody_who_may_decide(tmp_path: Path, mode: str) -> None:
    answers = Forms()
    async with hosting(tmp_path, answers=answers, mode=mode, own_hand=True) as host:
        assert (await waiting(host, changes=True))["state"] == "waiting"
        assert answers.seen == []
        assert (await waiting(host, changes=False))["phase"] == "WRITE"
        await put(host.app.base.state, BY.reviewers_set("guides", ["bob", "ada"]))
        assert (await waiting(host, changes=True))["phase"] == "WRITE"
    assert len(answers.seen) == 2


async def test_the_page_says_who_may_decide_and_the_terminal_is_the_owners(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    async with shown(tmp_path, PAGES, agents=Only(noting())) as place:
        await put(place.app.base.state, *TEAM)
        journey = (await place.call("journey_start", agent="noting", brief="bees"))["journey_id"]
        base = (await place.call("kb_read", path=GUIDE["path"]))["revision"]
        proposed = await place.call("kb_merge", **GUIDE, base_revision=base, journey_id=journey)
        assert proposed["status"] == "proposed"
        await place.call("journey_submit", journey_id=journey, version=1, work=TWO)
        person: Visitor = await place.visitor()
        address = f"/journeys/{journey}"
        html = await person.look(address)
        assert BARRED in html
        assert f"{address}/approve" not in forms(html)
        token = forms(html)["/logout"]["csrf"]
        for decision in ("approve", "modify", "reject", "answer"):
            fields = {"csrf": token, "version": "2", "note": "so", "changes": "{}"}
            assert BARRED in await person.post(f"{address}/{decision}", fields)
            assert person.status == 409, decision
        assert (await place.app.services.journeys.store.journey(journey)).version == 2
        settings = place.settings
    # The process of the terminal knows no agent of this test, so the owner does what needs none.
    options = ["--kb", str(settings.kb), "--state-dir", str(settings.state_dir)]
    cancel = ["journeys", "decide", journey, "cancel", "--yes", *options]
    assert await anyio.to_thread.run_sync(main, cancel) == 0
    assert "cancel was recorded" in capsys.readouterr().out


@pytest.mark.parametrize("prevented", [True, False])
async def test_where_nobody_approves_their_own_a_journey_of_ones_own_host_counts_too(
    tmp_path: Path, *, prevented: bool
) -> None:
    async with hosting(tmp_path, prevent_self_review=prevented) as host:
        there = await waiting(host, changes=False)
        given = {"journey_id": there["journey_id"], "version": there["version"]}
        if prevented:
            refused = await host.refused("journey_decide", **given, decision="approve")
            assert "FORGE_PREVENT_SELF_REVIEW leaves its approval to others" in refused
        # A rejection lets nothing continue.
        done = await host.call("journey_decide", **given, decision="reject" if prevented else "approve", note="no")
        assert done["phase"] == ("COLLECT" if prevented else "WRITE")


async def asking(host: RunHost, *, changes: bool) -> str:
    """Let a run ask its person, and return its id. `changes`: it has rehearsed a change of a page with reviewers."""
    goal = "Rehearse it" if changes else "Look at it"
    host.will(
        goal, uses("kb_merge", **GUIDE, dry_run=True) if changes else uses("kb_map"), asks("Which?"), said("Done.")
    )
    return str((await host.call("agent_run", goal=goal))["run_id"])


async def test_somebody_who_does_not_review_what_a_run_changes_cannot_answer_it(tmp_path: Path) -> None:
    async with run_host(tmp_path) as host:
        await put(host.app.base.state, *TEAM)
        run = await asking(host, changes=True)
        assert BARRED in await host.refused("agent_run", run_id=run, answer="The first.")
        other = await asking(host, changes=False)
        assert (await host.call("agent_run", run_id=other, answer="The first."))["status"] == "done"
        await put(host.app.base.state, BY.reviewers_set("guides", ["ada"]))
        assert (await host.call("agent_run", run_id=run, answer="The first."))["status"] == "done"


async def test_the_page_says_who_may_answer_a_run(tmp_path: Path) -> None:
    rehearsed = CallOutcome(success=True, text="{}", structured={"path": GUIDE["path"]})
    async with shown(tmp_path, PAGES) as place:
        await put(place.app.base.state, *TEAM)
        answers = said_by_model("", use("kb_merge", **GUIDE)), said_by_model("", ask("Which?"))
        run = await led(place, goal("r-asks", "Which page?"), *answers, kb_merge=rehearsed)
        person = await place.visitor()
        token = forms(await person.look("/waiting"))["/logout"]["csrf"]
        assert BARRED in await person.look(f"/runs/{run.id}/answer")
        fields = {"csrf": token, "ask": run.ask.id if run.ask else "", "answer": "The first."}
        assert BARRED in await person.post(f"/runs/{run.id}/answer", fields)
        assert (await store_of(place).run(run.id)).ask == run.ask
        await put(place.app.base.state, BY.reviewers_set("guides", ["ada"]))
        await person.post(f"/runs/{run.id}/answer", fields)
        assert (await store_of(place).run(run.id)).ask is None


async def test_the_place_that_a_page_was_moved_from_counts_too(tmp_path: Path) -> None:
    async with hosting(tmp_path) as host:
        journey = (await host.call("journey_start", agent="noting", brief="bees"))["journey_id"]
        store, state = host.app.services.journeys.store, host.app.base.state
        moved = (
            ToolStart("c1", "kb_move", "", "COLLECT", "guides/deploy.md"),
            ToolSuccess("c1", "kb_move", 1.0, "", {"path": "archive/deploy.md"}, "COLLECT"),
        )
        await store.note(journey, moved, by=f"{ME}@desktop", at=host.app.services.now())
        why = await reviewers(state, host).on_journey(journey, "approve", f"{ME}@desktop")
    assert why.startswith(BARRED)


def reviewers(state: StateStore, host: Writer) -> WorkReviewers:
    return WorkReviewers(state, lambda: host.app.services.journeys.store)


def test_decisions_on_journeys_are_recorded_in_one_place() -> None:
    """If this fails: use `decide_on_journey`, which asks whether this person may decide. The terminal is the owner's."""
    root = Path(mcp_server.__file__).parent
    found = [
        path.relative_to(root).as_posix()
        for path in root.rglob("*.py")
        if re.search(r"\b(journeys|runner)\.decide\(", path.read_text("utf-8"))
    ]
    assert [path for path in sorted(found) if not path.startswith("cli/")] == ["approvals/reviewers/work_deciders.py"]
