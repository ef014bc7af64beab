"""Tasks and messages as evidence: a citation is looked up first, and counts by what it is."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from mcp_server.app.settings.settings import Settings
from mcp_server.approvals.approvers import Approver
from mcp_server.connectors.evidence_sources import KEPT_S, EvidenceSources
from tests.doubles import serving
from tests.doubles.plane import Plane, plane_served
from tests.doubles.serving import Served, served
from tests.doubles.zulip import Zulip
from tests.doubles.zulip_world import RECORDED_LEVEL
from tests.support.hosts.writers import Refused, Writer, let_in
from tests.support.plane.hosts import at_once, plane_settings
from tests.support.roads.road import connect, opened
from tests.support.zulip.hosts import BEGUN, HAMLET, Clock, furnished, zulip_settings

CLAIM = "An upload may take 300 seconds."
PAGE = "# Uploads\n\n## Limits\n\nA file may have 32 MiB.\n"


@dataclass(frozen=True)
class Team:
    """A host whose server has a Plane and a Zulip."""

    host: Writer
    plane: Plane
    at_plane: Served
    zulip: Zulip
    at_zulip: Served
    settings: Settings

    async def says(self, source: str, **more: object) -> dict[str, Any]:
        """Merge the claim into the page as evidence of that source."""
        base = await self.host.revision("uploads.md")
        return await self.host.merge("uploads.md", f"## Limits\n\n{CLAIM}\n", source=source, base_revision=base, **more)

    async def refused(self, source: str) -> str:
        with pytest.raises(Refused) as refused:
            await self.says(source)
        return str(refused.value)


@asynccontextmanager
async def team(home: Path, *, level: float = 5, **more: Any) -> AsyncIterator[Team]:
    zulip = furnished(RECORDED_LEVEL, Clock())
    async with plane_served() as (at_plane, plane), served(zulip) as at_zulip:
        chat = zulip_settings(home, at_zulip.address, zulip)
        settings = replace(plane_settings(home, at_plane.address), **{**_of(chat, "zulip_"), **more})
        (settings.kb / "uploads.md").write_text(PAGE, encoding="utf-8")
        allowed = await let_in(settings, "writer", level)
        async with (
            opened(allowed, sleep=at_once, indexing=False, announcing=False) as app,
            connect(app) as client,
        ):
            yield Team(Writer(client, app, settings.kb), plane, at_plane, zulip, at_zulip, allowed)


def _of(settings: Settings, begins: str) -> dict[str, Any]:
    return {name: getattr(settings, name) for name in settings.__dataclass_fields__ if name.startswith(begins)}


def new(answer: dict[str, Any]) -> dict[str, float]:
    """Return the confidence of the merged text."""
    [block] = [block for block in answer["blocks"] if block["new"]]
    return dict(block["new"])


async def test_a_task_is_evidence_with_the_authority_of_tasks_and_the_time_it_was_said(tmp_path: Path) -> None:
    async with team(tmp_path) as there:
        there.plane.add_task("KB", "Uploads", description_html=f"<p>{CLAIM}</p>")
        rehearsed = await there.says("plane:kb-5", dry_run=True)
        assert (rehearsed["status"], new(rehearsed)["authority"]) == ("analysis", 0.6)
        answer = await there.says("plane:KB-5")
        assert (answer["status"], answer["note"]) == ("done", None)
        assert new(answer)["authority"] == 0.6
        assert CLAIM in there.host.text("uploads.md")
        tracked = await there.host.app.base.state.ledger.tracked("uploads.md")
        assert tracked is not None
        assert [origin.observed_at for origin in tracked.origins if origin.source == "plane:KB-5"] == [
            datetime.fromisoformat(str(there.plane.task("KB-5")["created_at"]))
        ]


async def test_a_message_and_a_thread_are_evidence_with_the_authority_of_messages(tmp_path: Path) -> None:
    async with team(tmp_path) as there:
        said = there.zulip.world.say(HAMLET, "drawing", "merge/split", CLAIM)
        for source in (f"zulip:drawing/merge/split/{said}", "zulip:Drawing/Merge/Split"):
            answer = await there.says(source, dry_run=True)
            assert new(answer)["authority"] == 0.3
            assert answer["note"] is None
        answer = await there.says(f"zulip:drawing/merge/split/{said}")
        assert answer["status"] == "done"
        tracked = await there.host.app.base.state.ledger.tracked("uploads.md")
        assert tracked is not None
        moment = datetime.fromtimestamp(BEGUN, UTC)
        assert [origin.observed_at for origin in tracked.origins if origin.source.startswith("zulip:")] == [moment]


async def test_missing_or_unreadable_things_are_no_evidence_and_nothing_is_written(tmp_path: Path) -> None:
    """Fetched, verified."""
    async with team(tmp_path, plane_projects=("KB",), zulip_channels=("drawing",)) as there:
        there.plane.add_task("OPS", "Uploads", description_html=f"<p>{CLAIM}</p>")
        said = there.zulip.world.say(HAMLET, "team", "merge", CLAIM)
        private = there.zulip.world.say(HAMLET, "secret", "merge", CLAIM)
        there.zulip.world.say(HAMLET, "drawing", "merge", "We merge.")
        for source in (
            "plane:KB-4711",
            "plane:NOPE-1",
            "plane:OPS-1",
            "plane:nonsense",
            "zulip:drawing/no such topic",
            "zulip:drawing/merge/999999",
            f"zulip:drawing/merge/{said}",
            f"zulip:team/merge/{said}",
            "zulip:team/merge",
            f"zulip:secret/merge/{private}",
            "zulip:nowhere/merge",
            "zulip:drawing",
        ):
            told = await there.refused(source)
            assert source in told
            assert len(told) <= 320
            assert CLAIM not in told
        assert there.host.text("uploads.md") == PAGE


async def test_an_unreachable_service_makes_its_evidence_weak_and_the_answer_says_so(tmp_path: Path) -> None:
    async with team(tmp_path) as there:
        there.at_plane.plan = lambda *_: serving.status(503)
        there.at_zulip.plan = lambda *_: serving.after()
        rehearsed = await there.says("plane:KB-1", dry_run=True)
        assert new(rehearsed)["authority"] == 0.2
        assert "counts as from an unknown source" in rehearsed["note"]
        asked = len(there.at_plane.seen)
        answer = await there.says("plane:KB-1", authority=0.1)
        assert (answer["status"], new(answer)["authority"]) == ("done", 0.1)
        assert (
            len(there.at_plane.seen) == asked
        )  # the server does not wait again and again for a service that was just away
        assert new(await there.says("zulip:drawing/merge", dry_run=True))["authority"] == 0.2


async def test_many_citations_wait_once_for_an_unreachable_service(tmp_path: Path) -> None:
    """Each request to a service that doesn't answer takes up to 20 seconds, and a merge may name 21 sources."""
    async with team(tmp_path) as there:
        there.at_plane.plan = lambda *_: serving.status(503)
        many = [f"plane:KB-{number}" for number in range(1, 20)]
        answer = await there.says("plane:KB-20", corroboration=[*many, "zulip:drawing/merge"], dry_run=True)
        assert new(answer)["authority"] == 0.2
        assert len(there.at_plane.seen) <= 4
        assert there.at_zulip.seen, "the other service is asked"
        there.at_plane.plan = serving.no_fault
        answer = await there.says("plane:KB-1", dry_run=True)
        assert "cannot be looked up now" in answer["note"]


async def test_an_unreadable_citation_does_not_block_the_others(tmp_path: Path) -> None:
    async with team(tmp_path) as there:
        there.plane.add_task("KB", "Uploads", description_html=f"<p>{CLAIM}</p>")
        there.at_plane.plan = serving.for_requests("GET", "/KB-1/", serving.status(403))
        assert new(await there.says("plane:KB-1", dry_run=True))["authority"] == 0.2
        assert new(await there.says("plane:KB-5", dry_run=True))["authority"] == 0.6


async def test_settings_that_cannot_be_used_make_evidence_weak_too(tmp_path: Path) -> None:
    async with team(tmp_path, plane_ca=tmp_path / "nothing.pem") as there:
        answer = await there.says("plane:KB-1", dry_run=True)
        assert new(answer)["authority"] == 0.2
        assert "PLANE_CA" in answer["note"]
        assert (await there.host.call("kb_read", path="uploads.md"))["cited_by"] == []


async def test_others_that_say_the_same_count_only_where_they_do(tmp_path: Path) -> None:
    async with team(tmp_path) as there:
        there.plane.add_task("KB", "Uploads", description_html=f"<p>{CLAIM}</p>")
        there.plane.add_task("KB", "Otherwise", description_html="<p>An upload may take 600 seconds.</p>")
        there.zulip.world.say(HAMLET, "drawing", "uploads", f"As we said: {CLAIM}\n\n{CLAIM}")

        async def support(*corroboration: str) -> float:
            answer = await there.says("code:src/a.py", corroboration=list(corroboration), dry_run=True)
            return new(answer)["corroboration"]

        assert await support("plane:KB-6", "plane:KB-4711", "zulip:nowhere/at/all") == 0
        assert await support("plane:KB-5", "plane:KB-6") == 0.5
        assert await support("plane:KB-5", "zulip:drawing/uploads") == 1
        assert "not say this in these words" in (await there.says("plane:KB-6", dry_run=True))["note"]


async def test_one_task_or_thread_is_one_voice_however_it_is_named(tmp_path: Path) -> None:
    async with team(tmp_path) as there:
        task = there.plane.add_task("KB", "Uploads", description_html=f"<p>{CLAIM}</p>")
        said = there.zulip.world.say(HAMLET, "drawing", "\N{HEAVY CHECK MARK} uploads", CLAIM)
        address = f"{there.at_plane.address}/acme/browse/KB-5/"
        for source, *others in (
            ("plane:KB-5", f"plane:{task['id']}", f"plane:{address}"),
            (f"plane:{address}", "plane:kb-5"),
            (
                f"zulip:#drawing/uploads/{said}",
                "zulip:\N{FULLWIDTH LATIN SMALL LETTER D}rawing/\N{HEAVY CHECK MARK} Uploads",
            ),
        ):
            answer = await there.says(source, corroboration=others, dry_run=True)
            assert new(answer)["corroboration"] == 0, (source, others)
        answer = await there.says("code:src/a.py", corroboration=[f"plane:{task['id']}", "plane:KB-5"], dry_run=True)
        assert new(answer)["corroboration"] == 0.5
        await there.says(f"plane:{address}")
        tracked = await there.host.app.base.state.ledger.tracked("uploads.md")
        assert tracked is not None
        assert "plane:KB-5" in {origin.source for origin in tracked.origins}


async def test_nothing_counts_as_said_later_than_it_can_have_been_said(tmp_path: Path) -> None:
    async with team(tmp_path) as there:
        said = there.zulip.world.say(HAMLET, "drawing", "uploads", CLAIM)
        source, moment = f"zulip:drawing/uploads/{said}", datetime.fromtimestamp(BEGUN, UTC)
        as_it_is = new(await there.says(source, dry_run=True))["recency"]
        late = new(await there.says(source, observed_at="2999-01-01", dry_run=True))["recency"]
        early = new(await there.says(source, observed_at="2020-01-01", dry_run=True))["recency"]
        assert early < late == pytest.approx(as_it_is, abs=1e-6)
        await there.says(source, observed_at="2999-01-01")
        tracked = await there.host.app.base.state.ledger.tracked("uploads.md")
        assert tracked is not None
        assert [one.observed_at for one in tracked.origins if one.source.startswith("zulip:")] == [moment]


async def test_citing_text_written_from_here_cites_nobody(tmp_path: Path) -> None:
    """Otherwise a host could post a statement to a task or a thread, and then cite it as its witness."""
    async with team(tmp_path) as there:
        task = await there.host.call("plane_create_task", project="KB", name="Uploads", description=CLAIM)
        comment = await there.host.call("plane_comment_task", task="KB-1", text=CLAIM)
        sent = await there.host.call("zulip_send_message", channel="drawing", topic="uploads", text=CLAIM)
        assert {task["status"], comment["status"], sent["status"]} == {"done"}
        own = [f"plane:{task['key']}", "plane:KB-1", "zulip:drawing/uploads"]
        answer = await there.says("code:src/a.py", corroboration=own, dry_run=True)
        assert new(answer)["corroboration"] == 0
        for source in (own[0], own[2], f"{own[2]}/{sent['message_ids'][0]}"):
            cited = await there.says(source, dry_run=True)
            assert new(cited)["authority"] == 0.2, source
            assert "written by this server" in cited["note"]
        there.plane.add_comment(task["key"], f"<p>{CLAIM}</p>")
        there.zulip.world.say(HAMLET, "drawing", "uploads", CLAIM)
        anew = [f"plane:{task['key'].lower()}", "zulip:Drawing/Uploads"]  # a look at the same name counts for a minute
        assert new(await there.says("code:src/a.py", corroboration=anew, dry_run=True))["corroboration"] == 1


async def test_a_look_counts_for_a_minute_and_not_longer(tmp_path: Path) -> None:
    async with team(tmp_path) as there:
        clock = [0.0]
        services = there.host.app.services
        evidence = EvidenceSources(services.connectors, lambda: clock[-1])
        first = await evidence.fetch("plane:KB-1")
        asked = len(there.at_plane.seen)
        clock.append(KEPT_S - 1)
        assert await evidence.fetch("plane:KB-1") == first
        assert len(there.at_plane.seen) == asked
        clock.append(KEPT_S + 1)
        assert await evidence.fetch("plane:KB-1") == first
        assert len(there.at_plane.seen) > asked


async def test_a_merge_that_cites_a_task_can_wait_for_a_person_and_then_does_what_was_shown(tmp_path: Path) -> None:
    async with team(tmp_path, level=2) as there:
        there.plane.add_task("KB", "Uploads", description_html=f"<p>{CLAIM}</p>")
        waits = await there.says("plane:KB-5")
        assert waits["status"] == "proposed"
        there.plane.change_task("KB-5", name="Uploads, again")
        app = there.host.app
        proposal = await app.base.state.trust.proposal(waits["proposal"]["id"])
        assert proposal is not None
        await app.approvals.approve(proposal.id, proposal.hash, Approver("ann", "terminal"))
        done = await there.host.call("proposal_status", proposal_id=proposal.id)
        assert done["proposal"]["state"] == "executed"
        assert CLAIM in there.host.text("uploads.md")


async def test_without_a_configured_service_a_citation_counts_as_stated(tmp_path: Path) -> None:
    async with team(tmp_path, plane_api_key=None, zulip_api_key=None) as there:
        for source, authority in (("plane:NOPE-1", 0.6), ("zulip:no/such/1", 0.3)):
            answer = await there.says(source, dry_run=True)
            assert (new(answer)["authority"], answer["note"]) == (authority, None)
        assert there.at_plane.seen == []
        assert there.at_zulip.seen == []
