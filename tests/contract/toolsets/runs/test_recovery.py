"""The process that led a run died during a call: the outcome is found out, and nothing is done twice."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

import apsw
import pytest

from agents.loop.record.frames import Header, PlanFrame, ToolCallFrame, ToolResult
from agents.loop.record.run import Run
from agents.loop.store.ports import Hold
from agents.loop.tools import CallOutcome
from knowledge.errors import DatabaseUnavailable, OutcomeUnknown
from knowledge.state.sqlite.store import SqliteStateStore
from mcp_server.app.composition import App, open_app
from mcp_server.app.knowledge_base import utc_now
from mcp_server.app.settings.settings import Settings
from mcp_server.gate.caller import Call
from mcp_server.gate.dispatch import CallFailed
from mcp_server.gate.host_registration import Principal, os_user
from mcp_server.gate.trust.scores import freeze, grant
from mcp_server.toolsets.runs.gated_tools import OVERTAKEN, GatedTools
from mcp_server.toolsets.runs.recovery import ANSWER_LOST, FAILED_THERE, FROM_RECORD, INCOMPLETE, NOT_DONE, REPEATABLE
from tests.doubles.plane import Plane, plane_served
from tests.doubles.provider import Model
from tests.doubles.provider_turns import said, uses
from tests.doubles.serving import Served, served
from tests.doubles.zulip import Zulip
from tests.doubles.zulip_world import RECORDED_LEVEL
from tests.support.hosts.mail_service import Mail
from tests.support.knowledge_bases.folders import write
from tests.support.plane.hosts import named, plane_settings
from tests.support.runs.hosts import asking, at_once
from tests.support.zulip.hosts import Clock, furnished, zulip_settings

ME = Principal(os_user(), "desktop")
DEPLOY = "guides/deploy.md"
MINUTE = timedelta(minutes=1)


@dataclass
class Scene:
    """A server with a configured model, and runs whose process died. How far its clock was `ahead`."""

    app: App
    model: Model
    mail: Mail
    ahead: timedelta = timedelta()

    @property
    def effects(self) -> int:
        return len(self.mail.held)

    async def died(self, tool: str, /, *, run: str = "r-1", **arguments: Any) -> ToolCallFrame:
        """Return a call recorded without a result; its process is gone, and nothing says how far it came."""
        store, now = self.app.services.runs.store, utc_now() + self.ahead
        header = Header(
            id=run, goal=f"Goal of {run}", principal=ME.id, begun_at=now, model=self.app.services.model.name
        )
        gone = Hold("dead", now - 2 * MINUTE, now - MINUTE)
        before = await store.begin(header, gone)
        place: dict[str, Any] = {"run": run, "at": now, "iteration": 1}
        plan = PlanFrame(id=f"p-{run}", number=0, goal=header.goal, reasoning="", next_action="call", limit=5, **place)
        call = ToolCallFrame(
            id=f"c-{run}", number=1, plan=plan.id, tool=tool, use="use-1", arguments=arguments, **place
        )
        await store.append(before, [plan, call], None)
        return call

    def tools(self, run: str = "r-1") -> GatedTools:
        header = Header(id=run, goal=f"Goal of {run}", principal=ME.id, begun_at=utc_now())
        return GatedTools(self.app.gate, self.app.services, header)

    async def made(self, call: ToolCallFrame) -> CallOutcome:
        """Make the call, as the process did that died before it could record the result."""
        return await self.tools(call.run).call(call.tool, call.arguments, call.key)

    async def recalled(self, call: ToolCallFrame) -> CallOutcome:
        found = await self.tools(call.run).recalled(call.tool, call.key)
        assert found is not None
        return found

    async def led_on(self, call: ToolCallFrame, *then: Any) -> Run:
        """Continue the run with a model that gives these answers."""
        self.model.will(f"Goal of {call.run}", *then)
        return await self.app.services.runs.lead(call.run)

    async def outcomes(self) -> list[str]:
        """Return the audit chain's records of acts on pages and in other services, oldest first."""
        records = await self.app.services.state.ledger.records()
        bodies: list[dict[str, Any]] = [json.loads(record.body) for record in records]
        return [body["outcome"] for body in bodies if body["changes"] or "delivery" in body]


@asynccontextmanager
async def scene(folder: Path, level: float = 4, settings: Settings | None = None) -> AsyncIterator[Scene]:
    usual = Settings(kb=write(folder / "kb"), state_dir=folder / "state", open_browser=False)
    model, mail = Model(), Mail()
    async with served(model) as place:
        configured = asking(settings or usual, place)
        async with open_app(
            configured, extra_tools=[mail.spec()], indexing=False, announcing=False, sleep=at_once
        ) as app:
            await grant(app.services.state, ME.id, level, by="ann", now=utc_now())
            yield Scene(app, model, mail)


@asynccontextmanager
async def in_plane(folder: Path) -> AsyncIterator[tuple[Scene, Plane]]:
    async with plane_served() as (place, plane), scene(folder, settings=plane_settings(folder, place.address)) as there:
        yield there, plane


@asynccontextmanager
async def in_zulip(folder: Path) -> AsyncIterator[tuple[Scene, Zulip, Served]]:
    zulip = furnished(RECORDED_LEVEL, Clock())
    async with served(zulip) as place, scene(folder, settings=zulip_settings(folder, place.address, zulip)) as there:
        yield there, zulip, place


async def revision(there: Scene, path: str) -> str:
    answer = await there.app.gate.dispatch("kb_read", {"path": path}, Call(ME))
    return str(answer.content["revision"])  # type: ignore[union-attr]  # it is there


def told(outcome: CallOutcome) -> Mapping[str, Any]:
    assert outcome.success, outcome
    assert isinstance(outcome.structured, dict)
    return outcome.structured


# --- calls that only read, and calls that never began -----------------------------------------------------------------


@pytest.mark.parametrize(
    ("tool", "arguments"),
    [
        ("kb_read", {"path": DEPLOY}),
        ("journey_list", {}),
        ("kb_move", {"path": DEPLOY, "to": "guides/x.md", "dry_run": True}),
    ],
)
async def test_of_a_call_that_only_reads_nothing_but_the_answer_is_lost(
    tmp_path: Path, tool: str, arguments: dict[str, Any]
) -> None:
    async with scene(tmp_path) as there:
        found = await there.recalled(await there.died(tool, **arguments))
        assert (found.success, found.unsure, found.text) == (False, False, f"{ANSWER_LOST}.")


@pytest.mark.parametrize(
    ("tool", "arguments"),
    [
        ("kb_merge", {"path": "new.md", "content": "# New\n\nText.\n"}),
        ("kb_move", {"path": DEPLOY, "to": "guides/release.md"}),
        ("send", {"text": "hello"}),
    ],
)
async def test_a_call_that_never_began_is_reported_as_not_done_and_asking_executes_nothing(
    tmp_path: Path, tool: str, arguments: dict[str, Any]
) -> None:
    async with scene(tmp_path) as there:
        call = await there.died(tool, **arguments)
        for _ in range(2):
            found = await there.recalled(call)
            assert (found.success, found.unsure) == (False, False)
            assert found.text in (f"{NOT_DONE}.", f"{FAILED_THERE}.")
        assert there.effects == 0
        assert not (tmp_path / "kb/new.md").exists()
        assert not (tmp_path / "kb/guides/release.md").exists()
        assert await there.outcomes() == (["failed"] if tool == "send" else [])


async def test_nobody_can_tell_whether_a_journey_was_begun(tmp_path: Path) -> None:
    async with scene(tmp_path) as there:
        call = await there.died("journey_start", agent="research", brief="x")
        assert await there.tools().recalled(call.tool, call.key) is None
        submit = await there.died("journey_submit", run="r-2", journey_id="j-1", version=1, work={})
        found = await there.recalled(submit)
        assert (found.unsure, found.text) == (True, f"{REPEATABLE}.")


async def test_a_call_of_another_run_and_arguments_that_do_not_fit(tmp_path: Path) -> None:
    async with scene(tmp_path) as there:
        call = await there.died("kb_read", path=7)
        assert not (await there.recalled(call)).success
        assert await there.tools().recalled("kb_read", "r-2/c-r-2") is None
        assert await there.tools().recalled("kb_nothing", call.key) is None


# --- pages ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("tool", ["kb_merge", "kb_move", "kb_delete"])
async def test_a_page_change_is_proven_by_the_audit_record_and_never_repeated(tmp_path: Path, tool: str) -> None:
    async with scene(tmp_path) as there:
        arguments: dict[str, dict[str, Any]] = {
            "kb_merge": {"path": "new.md", "content": "# New\n\nText.\n"},
            "kb_move": {"path": DEPLOY, "to": "guides/release.md"},
            "kb_delete": {"path": DEPLOY, "base_revision": await revision(there, DEPLOY)},
        }
        call = await there.died(tool, **arguments[tool])
        done = told(await there.made(call))
        before = await there.outcomes()
        found = told(await there.recalled(call))
        assert (found["status"], found["note"]) == ("done", FROM_RECORD)
        if tool != "kb_delete":
            assert (found["path"], found["revision"]) == (done["path"], done["revision"])
        assert await there.outcomes() == before
        run = await there.led_on(call, said("It is done."))
        assert run.state == "done"
        result = next(frame for frame in run.frames if isinstance(frame, ToolResult))
        assert (result.success, result.unsure) == (True, False)


async def test_an_earlier_equal_change_is_not_taken_for_the_lost_one(tmp_path: Path) -> None:
    async with scene(tmp_path) as there:
        arguments = {"path": "new.md", "content": "# New\n\nText.\n"}
        first = await there.died("kb_merge", run="r-1", **arguments)
        assert (await there.made(first)).success
        second = await there.died("kb_merge", run="r-2", **arguments)
        assert (await there.recalled(second)).text == f"{NOT_DONE}."


async def test_a_done_act_is_found_even_if_the_clock_was_set_back(tmp_path: Path) -> None:
    async with scene(tmp_path) as there:
        there.ahead = 120 * MINUTE
        call = await there.died("kb_move", path=DEPLOY, to="guides/release.md")
        assert (await there.made(call)).success
        assert told(await there.recalled(call))["status"] == "done"


async def test_an_unreadable_record_hides_none_of_the_others(tmp_path: Path) -> None:
    async with scene(tmp_path) as there:
        call = await there.died("kb_merge", path="new.md", content="# New\n\nText.\n")
        assert (await there.made(call)).success
        later = {"path": "other.md", "content": "# Other\n\nText.\n"}
        await there.app.gate.dispatch("kb_merge", dict(later), Call(ME))
        end, _ = await there.app.services.state.ledger.chain_end()

        def spoil(connection: apsw.Connection) -> None:
            connection.execute("UPDATE audit SET body = '{' WHERE seq = ?", (end,))

        state = there.app.services.state
        assert isinstance(state, SqliteStateStore)
        await state.database.write(spoil)
        assert told(await there.recalled(call))["status"] == "done"


async def test_a_half_written_change_is_finished_and_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with scene(tmp_path) as there:
        call = await there.died("kb_merge", path="new.md", content="# New\n\nText.\n")
        ledger = there.app.services.state.ledger

        async def lost(*_: object, **__: object) -> None:
            raise OutcomeUnknown("state.db", "the reply was lost")

        with monkeypatch.context() as patched:
            patched.setattr(type(ledger), "commit", lost)
            failed = await there.made(call)
        assert failed.unsure
        assert await ledger.intents()
        assert told(await there.recalled(call))["status"] == "done"
        assert not await ledger.intents()


async def test_a_call_that_had_become_a_proposal_waits_for_the_person_once(tmp_path: Path) -> None:
    async with scene(tmp_path, level=3) as there:
        call = await there.died("kb_move", path=DEPLOY, to="guides/release.md")
        waiting = (await there.made(call)).proposal
        assert waiting
        run = await there.led_on(call)
        assert (run.state, run.proposal) == ("suspended", waiting)
        assert len(await there.app.services.state.trust.proposals(principal=ME.id)) == 1


async def test_a_host_that_may_no_longer_read_learns_nothing(tmp_path: Path) -> None:
    async with scene(tmp_path) as there:
        call = await there.died("kb_merge", path="new.md", content="# New\n\nText.\n")
        assert (await there.made(call)).success
        await freeze(there.app.services.state, ME.id, by="ann", now=utc_now(), reason="a test")
        found = await there.recalled(call)
        assert found.unsure
        assert "refused" in found.text


# --- other services ---------------------------------------------------------------------------------------------------


async def test_an_act_whose_result_was_not_recorded_is_reported_as_done(tmp_path: Path) -> None:
    async with in_plane(tmp_path) as (there, plane):
        call = await there.died("plane_create_task", project="KB", name="Once")
        made = told(await there.made(call))
        found = told(await there.recalled(call))
        assert (found["status"], found["task_id"], found["key"]) == ("done", made["task_id"], made["key"])
        assert (await there.led_on(call, said("It is on the roof."))).state == "done"
        assert len(named(plane, "Once")) == 1


async def test_an_act_that_arrived_unrecorded_is_found_at_the_service(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with in_plane(tmp_path) as (there, plane):
        call = await there.died("plane_create_task", project="KB", name="Once")
        await unnoted(there, call, monkeypatch)
        assert len(named(plane, "Once")) == 1
        found = told(await there.recalled(call))
        assert (found["status"], found["task_id"]) == ("done", named(plane, "Once")[0]["id"])
        assert await there.outcomes() == ["sent"]


async def unnoted(there: Scene, call: ToolCallFrame, monkeypatch: pytest.MonkeyPatch) -> None:
    """Make a call whose end nobody could record."""

    async def full(*_: object, **__: object) -> None:
        raise DatabaseUnavailable("state.db", "full")

    with monkeypatch.context() as patched:
        patched.setattr(type(there.app.services.state.outbox), "end", full)
        await there.made(call)


async def test_an_act_about_to_be_sent_is_looked_up_and_done_once_when_repeated(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No tool effect twice, even when the model simply calls again."""
    async with in_plane(tmp_path) as (there, plane):
        call = await there.died("plane_create_task", project="KB", name="Once")
        await unnoted(there, call, monkeypatch)
        plane.project("KB").tasks.pop(named(plane, "Once")[0]["id"])  # as if it had never arrived
        found = await there.recalled(call)
        assert (found.success, found.unsure, found.text) == (False, True, INCOMPLETE)
        again = uses("plane_create_task", project="KB", name="Once")
        run = await there.led_on(call, again, again, said("It is on the roof."))
        assert run.state == "done"
        assert len(named(plane, "Once")) == 1
        assert await there.outcomes() == ["sent"]


async def test_a_sent_message_is_reported_as_sent_and_a_second_call_sends_nothing(tmp_path: Path) -> None:
    async with in_zulip(tmp_path) as (there, zulip, place):
        words = {"channel": "drawing", "topic": "plain", "text": "Once"}
        call = await there.died("zulip_send_message", **words)
        sent = told(await there.made(call))
        assert told(await there.recalled(call))["message_ids"] == sent["message_ids"]
        run = await there.led_on(call, uses("zulip_send_message", **words), said("It was sent."))
        assert run.state == "done"
        assert zulip.world.texts("drawing", "plain") == ["Once"]
        assert place.count("POST", "/api/v1/messages") == 1


async def test_a_process_that_comes_back_after_it_was_believed_dead_sends_nothing(tmp_path: Path) -> None:
    async with in_zulip(tmp_path) as (there, zulip, _):
        words = {"channel": "drawing", "topic": "plain", "text": "Once"}
        call = await there.died("zulip_send_message", **words)
        run = await there.led_on(call, said("I leave it."))
        assert run.state == "done"
        late = await there.made(call)
        assert not late.success
        # Even if it had checked that the run was still its own just before the other process took it.
        late_at_the_gate = Call(ME, run=call.run, key=call.key)
        answer = await there.app.gate.dispatch("zulip_send_message", dict(words), late_at_the_gate)
        assert isinstance(answer, CallFailed)
        assert "given up meanwhile" in answer.why
        assert zulip.world.texts("drawing", "plain") == []


async def test_a_call_is_not_made_after_another_process_has_reported_its_outcome(tmp_path: Path) -> None:
    async with scene(tmp_path) as there:
        call = await there.died("kb_move", path=DEPLOY, to="guides/release.md")
        store = there.app.services.runs.store
        run = await store.run(call.run)
        result = ToolResult(
            id="f-2",
            run=run.id,
            number=2,
            at=utc_now(),
            iteration=1,
            call=call.id,
            tool=call.tool,
            success=False,
            text="x",
        )
        await store.append(run, [result], None)
        late = await there.made(call)
        assert (late.success, late.called, late.text) == (False, False, OVERTAKEN)
        assert (tmp_path / "kb" / DEPLOY).exists()


@pytest.mark.parametrize("arrived", [False, True])
async def test_where_the_service_cannot_be_asked_it_is_not_known(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, arrived: bool
) -> None:
    async with scene(tmp_path) as there:
        call = await there.died("send", text="hello")
        if arrived:
            await unnoted(there, call, monkeypatch)
            there.mail.looking = RuntimeError("no ids")
        found = await there.recalled(call)
        assert found.unsure is arrived
        assert there.effects == int(arrived)


async def test_an_error_while_asking_ends_no_run_and_is_reported_as_unknown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with scene(tmp_path) as there:
        call = await there.died("send", text="hello")
        await unnoted(there, call, monkeypatch)

        async def breaks(*_: object) -> None:
            raise RuntimeError("a name is gone")

        with monkeypatch.context() as patched:
            patched.setattr(type(there.app.services.state.outbox), "outbox_entry", breaks)
            run = await there.led_on(call, said("I cannot tell."))
    result = next(frame for frame in run.frames if isinstance(frame, ToolResult))
    assert (run.state, result.unsure, there.effects) == ("done", True, 1)
