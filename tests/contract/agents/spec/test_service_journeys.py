"""The handbook's three journeys between Plane, Zulip and pages, walked by a real MCP client against the doubles.

A question in a Zulip topic is asked once, by whichever process, and only a listed reviewer's own words there answer it.
"""

from __future__ import annotations

import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from mcp import Client

from agents.engine.events import Decided, ToolSuccess
from knowledge.access.changes import Changing
from knowledge.trust.ports import Note
from mcp_server.app.composition import open_app
from mcp_server.approvals.approvers import Approver
from mcp_server.approvals.zulip.topic_questions import opinion_in
from tests.contract.connectors.test_evidence_sources import Team, team
from tests.doubles.serving import after, before, for_requests, no_fault, status
from tests.support.agents.team_agents import HANDBOOK
from tests.support.hosts.writers import Writer
from tests.support.journeys.cited_pages import read_cited
from tests.support.state.ledgers import NOW
from tests.support.zulip.hosts import BOT, HAMLET, at_once

ANN = Approver("ann", "page")
HAMLETS = "hamlet@zulip.com"
IAGO = "Iago"
THREAD = "drawing/upload limits"
CLAIM = {"path": "uploads.md", "section": "Uploads > Limits", "quote": "A file may have 32 MiB."}


@dataclass
class Led:
    """A journey as a host leads it."""

    there: Team
    host: Writer
    at: dict[str, Any]

    @property
    def id(self) -> str:
        return str(self.at["journey_id"])

    async def call(self, tool: str, **arguments: object) -> dict[str, Any]:
        return await self.host.call(tool, **arguments, journey_id=self.id)

    async def submit(self, **work: object) -> dict[str, Any]:
        await read_cited(self.host.call, self.at, work)
        self.at = await self.host.call("journey_submit", journey_id=self.id, version=self.at["version"], work=work)
        return self.at

    async def look(self) -> dict[str, Any]:
        self.at = await self.host.call("journey_status", journey_id=self.id)
        return self.at

    @property
    def code(self) -> str:
        """Return the code of the newest question."""
        return self.asked[-1].partition("`approve ")[2].partition("`")[0]

    @property
    def asked(self) -> list[str]:
        """Return the questions in the topic."""
        return [text for text in self.there.zulip.world.texts("team", "decisions") if "asks (" in text]


@asynccontextmanager
async def led(home: Path, agent: str, *, level: float = 5, **inputs: str) -> AsyncIterator[Led]:
    reviewers = {"zulip_reviewers": (HAMLETS,)}
    async with team(home, level=level, **reviewers) as there:
        shutil.copytree(HANDBOOK / "_agents", there.host.root / "_agents")
        begun = await there.host.call("journey_start", agent=agent, brief="Bring it to our pages.", inputs=inputs)
        yield Led(there, there.host, begun)


async def test_a_task_is_led_to_its_page(tmp_path: Path) -> None:
    async with led(tmp_path, "task-to-page", task="KB-5", page="tasks/kb-5.md") as journey:
        there = journey.there
        assert "Call kb_merge with path tasks/kb-5.md, source plane:KB-5" in journey.at["prompt"], "told of WRITE"
        there.plane.add_task("KB", "Uploads fail", description_html="<p>They end after 300 seconds.</p>")
        there.plane.add_comment("KB-5", "<p>Only behind the proxy.</p>")
        assert (
            "call plane_get_task with the journey_id"
            in (await journey.submit(worth="Uploads fail for many."))["prompt"]
        )
        await journey.call("plane_get_task", task="KB-5", include=["comments"])
        related = [{"id": "r1", "path": "uploads.md", "why": "it has the limits"}]
        assert (await journey.submit(worth="Uploads fail for many.", related=related))["phase"] == "WRITE"
        assert "As before in this conversation: Brief, Task Instructions" in journey.at["prompt"]
        assert "plane:KB-5" in (await journey.look())["prompt"], "a host that comes back gets everything"
        merged = await journey.call("kb_merge", path="tasks/kb-5.md", source="plane:KB-5")
        assert merged["status"] == "done"
        assert (await journey.submit(page="tasks/kb-5.md"))["state"] == "complete"
        assert "> > Only behind the proxy." in journey.host.text("tasks/kb-5.md")


async def test_a_thread_is_led_to_its_page_below_a_summary(tmp_path: Path) -> None:
    async with led(tmp_path, "thread-to-page", thread=THREAD, page="threads/limits.md") as journey:
        said = journey.there.zulip.world.say(
            HAMLET, "drawing", "upload limits", "We keep 32 MiB until the proxy is replaced."
        )
        await journey.call("zulip_read_messages", channel="drawing", topic="upload limits", anchor="oldest")
        rests = [{"id": "m1", "message": said, "author": HAMLET}]
        assert (await journey.submit(outcome="The limit stays at 32 MiB.", rests_on=rests))["phase"] == "WRITE"
        page = {"path": "threads/limits.md"}
        first = await journey.call("kb_merge", **page, source=f"zulip:{THREAD}")
        second = await journey.call(
            "kb_merge",
            **page,
            content="## Outcome\n\nThe limit stays at 32 MiB.\n",
            source=f"journey:{journey.id}",
            base_revision=first["revision"],
        )
        assert (first["status"], second["status"]) == ("done", "done")
        assert (await journey.submit(page="threads/limits.md"))["state"] == "complete"
        text = journey.host.text("threads/limits.md")
        assert "## Outcome\n\nThe limit stays at 32 MiB." in text
        assert "> > We keep 32 MiB until the proxy is replaced." in text


async def confirming(journey: Led) -> int:
    """Lead the journey to where reviewers are asked, and return the message with the decision."""
    world = journey.there.zulip.world
    world.say(IAGO, "drawing", "upload limits", "How large may a file be?")
    said = world.say(HAMLET, "drawing", "upload limits", "A file may have 64 MiB.")
    await journey.call("zulip_read_messages", channel="drawing", topic="upload limits", anchor="oldest")
    found = {
        "message": said,
        "decision": "A file may have 64 MiB.",
        "page": "uploads.md",
        "section": "Limits",
        "says": CLAIM,
    }
    assert (await journey.submit(**found))["phase"] == "CONFIRM"
    text = f"Decided: 64 MiB, message {said}. Goes to kb:uploads.md, section Limits."
    sent = await journey.call("zulip_send_message", channel="team", topic="decisions", text=text)
    if sent["status"] == "proposed":  # the journey has read another channel
        proposal = await journey.host.app.base.state.trust.proposal(sent["proposal"]["id"])
        assert proposal is not None
        await journey.host.app.approvals.approve(proposal.id, proposal.hash, ANN)
    assert (await journey.submit(sent=True))["state"] == "waiting"
    return said


async def test_a_decision_in_a_thread_is_confirmed_in_zulip_and_replaces_what_the_page_says(tmp_path: Path) -> None:
    async with led(tmp_path, "decision-to-evidence", level=4, thread=THREAD) as journey:
        said, world = await confirming(journey), journey.there.zulip.world
        waits = journey.at["checkpoint"]
        assert (waits["verified"], waits["asked_in"]["place"]) == (True, "team/decisions")
        assert len(journey.asked) == 1
        assert "> Was the decision in the message above really made" in journey.asked[0]
        assert "64 MiB" not in journey.asked[0], "only words from the agent's file"
        refused = await journey.host.refused(
            "journey_decide", journey_id=journey.id, version=journey.at["version"], decision="approve"
        )
        assert "it cannot be relayed" in refused
        answer = world.say(HAMLET, "team", "decisions", f"Approve {journey.code}.")
        assert (await journey.look())["phase"] == "BRING"
        log = await journey.host.app.services.journeys.store.events(journey.id)
        ((by, decided),) = [(one.by, one.event) for one in log if isinstance(one.event, Decided)]
        assert (decided.decision, decided.channel, by) == ("approve", "zulip", f"{HAMLET} ({HAMLETS})")
        assert decided.note.startswith(f"Approve {journey.code}. (http")
        assert decided.note.endswith(f"/near/{answer})")
        base = (await journey.call("kb_read", path="uploads.md"))["revision"]
        brought = await journey.call(
            "kb_merge", path="uploads.md", section="Limits", base_revision=base, source=f"zulip:{THREAD}/{said}"
        )
        assert brought["status"] == "conflict"
        assert "proposal" in brought
        assert (await journey.submit(page="uploads.md"))["phase"] == "BRING"
        proposal = await journey.host.app.base.state.trust.proposal(brought["proposal"]["id"])
        assert proposal is not None
        await journey.host.app.approvals.approve(proposal.id, proposal.hash, ANN)
        assert (await journey.submit(page="uploads.md"))["state"] == "complete"
        assert "A file may have 64 MiB. ([King Hamlet in" in journey.host.text("uploads.md")
        assert len(journey.asked) == 1


async def test_only_a_listed_reviewers_own_words_after_the_question_in_its_topic_count(tmp_path: Path) -> None:
    async with led(tmp_path, "decision-to-evidence", level=5, thread=THREAD) as journey:
        world = journey.there.zulip.world
        await confirming(journey)
        code = journey.code
        for by, channel, topic, text in (
            (IAGO, "team", "decisions", f"approve {code}"),
            (BOT, "team", "decisions", f"approve {code}"),
            (HAMLET, "team", "other", f"approve {code}"),
            (HAMLET, "team", "decisions", "approve"),
            (HAMLET, "team", "decisions", "approve 000000"),
            (HAMLET, "team", "decisions", f"approve {code}, but not before Friday"),
            (HAMLET, "team", "decisions", f"> approve {code}"),
        ):
            world.say(by, channel, topic, text)
            assert (await journey.look())["state"] == "waiting", text
        moved = world.say(HAMLET, "team", "lunch", f"approve {code}")
        world.move(moved, topic="decisions")
        assert (await journey.look())["state"] == "waiting", "a message that was moved there"
        world.say(HAMLET, "team", "decisions", f"Reject {code}: that was a proposal, not a decision.")
        assert (await journey.look())["phase"] == "FIND"
        assert "that was a proposal, not a decision." in journey.at["prompt"]
        assert len(journey.asked) == 1


async def test_a_listed_reviewer_decides_only_if_they_also_review_what_the_journey_changes(tmp_path: Path) -> None:
    """Decision 124: the reviewers of a folder count in a topic, too."""
    by = Changing("ada", NOW)
    async with led(tmp_path, "decision-to-evidence", level=5, thread=THREAD) as journey:
        people = journey.host.app.base.state.people
        note = Note("ada", "reviewers.set", "", NOW)
        for name, account in (("hamlet", f"{HAMLETS}@zulip"), ("iago", "iago@corp:http")):
            await people.change(by.person_added(name, [account]), note=note)
        await people.change(by.reviewers_set("uploads.md", ["iago"]), note=note)
        await confirming(journey)
        rehearsed = ToolSuccess("c1", "kb_merge", 1.0, "", {"path": "uploads.md"}, "FIND")
        store = journey.host.app.services.journeys.store
        await store.note(journey.id, (rehearsed,), by="ann@desktop", at=journey.host.app.services.now())
        journey.there.zulip.world.say(HAMLET, "team", "decisions", f"approve {journey.code}")
        assert (await journey.look())["state"] == "waiting"
        assert "it changes pages in uploads.md/, or asks to, where only iago can decide" in str(
            journey.at["checkpoint"]
        )
        await people.change(by.reviewers_set("uploads.md", ["hamlet"]), note=note)
        assert (await journey.look())["phase"] == "BRING"


@pytest.mark.parametrize(
    "fault", [after(), before(), status(500, acts=True)], ids=["reply lost", "not received", "500"]
)
async def test_a_question_whose_reply_is_lost_is_asked_once(tmp_path: Path, fault: Any) -> None:
    async with led(tmp_path, "decision-to-evidence", level=5, thread=THREAD) as journey:
        world, at_zulip = journey.there.zulip.world, journey.there.at_zulip

        def plan(method: str, path: str, number: int) -> Any:
            # Only the question's own message: the host's came before.
            ready = any("Decided: 64 MiB" in text for text in world.texts("team", "decisions"))
            return one(method, path, number) if ready else None

        one = for_requests("POST", "/api/v1/messages", fault)
        at_zulip.plan = plan
        await confirming(journey)
        at_zulip.plan = no_fault
        await journey.look()
        await journey.look()
        assert len(journey.asked) <= 1
        note = journey.at["checkpoint"]["asked_in"]["note"]
        assert len(journey.asked) == 1 or "not known whether the question was posted" in note
        if journey.asked:
            world.say(HAMLET, "team", "decisions", f"approve {journey.code}")
            assert (await journey.look())["phase"] == "BRING"


async def test_another_host_after_a_crash_finds_the_question_and_the_answer(tmp_path: Path) -> None:
    async with led(tmp_path, "decision-to-evidence", level=5, thread=THREAD) as journey:
        await confirming(journey)
        settings = journey.there.settings
        journey.there.zulip.world.say(HAMLET, "team", "decisions", f"approve {journey.code}")
        async with (
            open_app(settings, sleep=at_once, indexing=False, announcing=False) as app,
            Client(app.server) as client,
        ):
            other = Writer(client, app, settings.kb)
            seen = await other.call("journey_status", journey_id=journey.id)
            assert (seen["phase"], len(journey.asked)) == ("BRING", 1)


async def test_zulips_trouble_or_a_deleted_question_leaves_the_decision_to_the_page(tmp_path: Path) -> None:
    async with led(tmp_path, "decision-to-evidence", level=5, thread=THREAD) as journey:
        await confirming(journey)
        journey.there.at_zulip.plan = lambda _method, _path, _number: status(500)
        assert (await journey.look())["state"] == "waiting"
        assert "gave no usable reply" in journey.at["checkpoint"]["asked_in"]["note"]
        journey.there.at_zulip.plan = no_fault
        world = journey.there.zulip.world
        (question,) = [number for number, said in world.said.items() if "asks (" in said.text]
        code = journey.code
        del world.said[question]
        world.say(HAMLET, "team", "decisions", f"approve {code}")
        assert (await journey.look())["state"] == "waiting"
        assert "was deleted in Zulip" in journey.at["checkpoint"]["asked_in"]["note"]
        assert journey.asked == [], "it is not asked again"


@pytest.mark.parametrize(
    ("text", "decision"),
    [
        ("approve 1f2e3d", "approve"),
        ("**Approve** 1F2E3D!", "approve"),
        ("@**Zulip Default Bot** approve `1f2e3d`", "approve"),
        ("reject 1f2e3d", "reject"),
        ("Reject 1f2e3d, it was a joke.\nSee above.", "reject"),
        ("approve", None),
        ("approve 1f2e3e", None),
        ("approve 1f2e3d4", None),
        ("approve 1f2e3d but later", None),
        ("approve 1f2e3d or reject 1f2e3d", None),
        ("> approve 1f2e3d", None),
        ("yes 1f2e3d", None),
        ("", None),
    ],
)
def test_only_plain_words_with_the_questions_code_decide(text: str, decision: str | None) -> None:
    opinion = opinion_in(text, "1f2e3d")
    assert (opinion and opinion[0]) == decision
