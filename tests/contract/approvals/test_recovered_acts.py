"""An approved act in another service whose process died: the service is asked about it before anything else happens."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import anyio.lowlevel
import pytest

from knowledge.errors import DatabaseUnavailable
from knowledge.trust.ports import Proposal, ProposalVerdict
from mcp_server.app.composition import App, open_app
from mcp_server.app.knowledge_base import utc_now
from mcp_server.app.settings.settings import Settings
from mcp_server.approvals.proposal_executor import UNSURE
from mcp_server.connectors.errors import NoAnswer, ReplyLost
from mcp_server.connectors.outbox_dispatcher import LONGEST_IN_FLIGHT, Delivered, outbox_entry_for
from mcp_server.gate.caller import Call
from mcp_server.gate.dispatch import CRASHED, CRASHED_ELSEWHERE, CallAnswered, CallFailed
from mcp_server.gate.host_registration import Principal
from mcp_server.gate.trust.scores import grant
from tests.support.hosts.mail_service import PLACE, Mail
from tests.support.knowledge_bases.folders import write

ME = Principal("ann", "desktop")


@dataclass
class Place:
    """A server with that tool, whose caller may propose."""

    app: App
    mail: Mail

    async def approved(self) -> Proposal:
        """Return a proposal that is approved and not yet being executed."""
        answer = await self.app.gate.dispatch("send", {"text": "hello"}, Call(ME))
        assert isinstance(answer, CallAnswered)
        assert answer.content["status"] == "proposed", answer.content
        waits = await self.proposal(answer.content["proposal"]["id"])
        # `Decisions` would execute them at once. So the record here is as such a process leaves it.
        verdict = ProposalVerdict(approved=True, by="ann", channel="page", at=utc_now(), hash=waits.hash)
        assert await self.app.base.state.trust.decide(waits.id, verdict)
        return await self.proposal(waits.id)

    async def died(self, *, sent: bool, arrived: bool) -> Proposal:
        """Return a proposal whose process died during execution, before or after it sent the message."""
        proposal = await self.approved()
        state, before = self.app.base.state, utc_now() - 2 * LONGEST_IN_FLIGHT
        assert await state.trust.claim(proposal.id, "dead", now=before, lease_s=60)
        call = Call(ME)
        outbox_entry = outbox_entry_for(call, tool="send", target="mail:all", digest="dd", arguments_hash="", at=before)
        await state.outbox.begin(replace(outbox_entry, proposal=proposal.id), within=timedelta(0))
        if sent:
            await state.outbox.mark(outbox_entry.id, {"queue": "q-1"})
        if arrived:
            self.mail.held.append("hello")
        return proposal

    async def resumed(self, proposal: Proposal) -> Proposal:
        await self.app.approvals._executor.resume()
        return await self.proposal(proposal.id)

    async def proposal(self, proposal_id: str) -> Proposal:
        found = await self.app.base.state.trust.proposal(proposal_id)
        assert found is not None
        return found

    async def outcomes(self) -> list[str]:
        records = await self.app.base.state.ledger.records()
        bodies: list[dict[str, Any]] = [json.loads(record.body) for record in records]
        return [body["outcome"] for body in bodies if "delivery" in body]


@asynccontextmanager
async def placed(folder: Path) -> AsyncIterator[Place]:
    settings, mail = Settings(kb=write(folder / "kb"), state_dir=folder / "state"), Mail()
    async with open_app(settings, extra_tools=[mail.spec()], indexing=False, announcing=False, sleep=_at_once) as app:
        await grant(app.base.state, ME.id, 3, by="ann", now=utc_now())
        yield Place(app, mail)


async def _at_once(_seconds: float) -> None:
    await anyio.lowlevel.checkpoint()


@pytest.mark.parametrize(("sent", "arrived"), [(False, False), (True, False), (True, True)])
async def test_an_approved_act_happens_once_wherever_its_process_died(
    tmp_path: Path, *, sent: bool, arrived: bool
) -> None:
    """Once, and never reported as failed. After this time nothing is in progress any longer."""
    async with placed(tmp_path) as place:
        done = await place.resumed(await place.died(sent=sent, arrived=arrived))
        assert (done.state, done.error) == ("executed", None)
        assert json.loads(done.result or "") == {"status": "done", "proposal": None, "url": PLACE, "note": None}
        assert place.mail.held == ["hello"]
        assert await place.outcomes() == ["sent"]


@pytest.mark.parametrize("deaf", [NoAnswer("Mail", "timeout"), RuntimeError("no ids")])
async def test_where_nobody_can_tell_it_ends_saying_so_and_where_to_look(tmp_path: Path, deaf: Exception) -> None:
    async with placed(tmp_path) as place:
        proposal = await place.died(sent=True, arrived=False)
        place.mail.looking = deaf
        ended = await place.resumed(proposal)
        assert ended.state == "failed"
        assert (ended.error or "").startswith("it is not known whether this was done: ")
        assert f"Look at {PLACE}, and propose it again if it was not done" in (ended.error or "")
        assert place.mail.held == []
        assert await place.outcomes() == ["unsure"]


@pytest.mark.parametrize("broken", [DatabaseUnavailable("state.db", "full"), RuntimeError("a name is gone")])
async def test_where_the_service_cannot_even_be_asked_it_is_not_known(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, broken: Exception
) -> None:
    async with placed(tmp_path) as place:

        async def cannot(*_: object) -> None:
            raise broken

        proposal = await place.died(sent=True, arrived=True)
        monkeypatch.setattr(place.app.base.state.outbox, "outbox_entry_of", cannot)
        ended = await place.resumed(proposal)
        assert (ended.state, ended.error) == ("failed", UNSURE)
        assert place.mail.held == ["hello"]


async def test_where_to_look_is_said_once(tmp_path: Path) -> None:
    async with placed(tmp_path) as place:
        proposal = await place.died(sent=True, arrived=False)
        place.mail.looking = NoAnswer("Mail", f"look at {PLACE}")
        error = (await place.resumed(proposal)).error or ""
        assert error.count(PLACE) == 1
        assert error.endswith(". Propose it again if it is not")


async def test_an_approval_whose_reply_is_lost_ends_with_its_real_outcome(tmp_path: Path) -> None:
    async with placed(tmp_path) as place:
        proposal = await place.approved()
        place.mail.reply, place.mail.looking = ReplyLost("Mail", "cut"), NoAnswer("Mail", "timeout")
        ended = await place.app.approvals._executor.carry_out(proposal.id)
        assert ended.state == "failed"
        assert "it is not known whether this was done: Mail gave no usable reply (timeout)" in (ended.error or "")
        place.mail.looking = None
        again = await place.approved()
        assert again.id != proposal.id
        place.mail.reply = None
        assert (await place.app.approvals._executor.carry_out(again.id)).state == "executed"
        assert place.mail.held == ["hello"], "it was there after all"


async def test_a_lost_reply_that_is_found_is_a_done_act(tmp_path: Path) -> None:
    async with placed(tmp_path) as place:
        proposal = await place.approved()
        place.mail.reply = ReplyLost("Mail", "cut")
        done = await place.app.approvals._executor.carry_out(proposal.id)
        assert (done.state, done.error) == ("executed", None)
        assert place.mail.held == ["hello"]


@pytest.mark.parametrize("approve", [False, True])
async def test_an_error_in_a_tool_that_acts_elsewhere_is_never_reported_as_not_done(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, approve: bool
) -> None:
    async with placed(tmp_path) as place:
        proposal = await place.approved()
        deliver: Callable[..., Any] = place.app.services.dispatcher.deliver

        async def then_breaks(*given: Any, **named: Any) -> Delivered:
            await deliver(*given, **named)
            raise RuntimeError("what comes after the act")

        monkeypatch.setattr(place.app.services.dispatcher, "deliver", then_breaks)
        if approve:
            told = (await place.app.approvals._executor.carry_out(proposal.id)).error
        else:
            await grant(place.app.base.state, ME.id, 4, by="ann", now=utc_now())
            answer = await place.app.gate.dispatch("send", {"text": "hello"}, Call(ME))
            assert isinstance(answer, CallFailed)
            told = answer.why
        assert told == f"send {CRASHED_ELSEWHERE}"
        assert place.mail.held == ["hello"]


async def test_an_error_while_planning_means_not_done(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with placed(tmp_path) as place:
        spec = place.app.gate.spec("send")
        assert spec is not None

        async def breaks(*_: Any) -> None:
            raise RuntimeError("before anything is sent")

        monkeypatch.setitem(spec.__dict__, "plan", breaks)
        answer = await place.app.gate.dispatch("send", {"text": "hello"}, Call(ME))
        assert isinstance(answer, CallFailed)
        assert answer.why == f"send {CRASHED}"
